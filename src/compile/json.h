// What the JSON of `inspect` is made of. Contract: docs/json.md "Forms".
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "core/dim.h"
#include "core/dtype.h"
#include "vernier/engine.h"

namespace vernier {

/// "f32"; null where there is none.
inline nlohmann::json type_json(DType type) {
  return type == DType::kUndefined ? nlohmann::json() : nlohmann::json(name(type));
}

/// [4, "seq", "2*seq"]: numbers, and expressions over named sizes.
inline nlohmann::json shape_json(const SymShape& shape) {
  nlohmann::json sizes = nlohmann::json::array();
  for (const Dim& size : shape)
    sizes.push_back(size.is_constant() ? nlohmann::json(size.constant())
                                       : nlohmann::json(size.str()));
  return sizes;
}

inline nlohmann::json tensor_json(const std::string& name, DType type, const SymShape& shape) {
  return {{"name", name}, {"type", type_json(type)}, {"shape", shape_json(shape)}};
}

/// With the range of every size that the engine was built for.
inline nlohmann::json port_json(const Port& port) {
  nlohmann::json shape = nlohmann::json::array(), ranges = nlohmann::json::array();
  for (const PortDim& size : port.dims) {
    shape.push_back(size.min == size.max ? nlohmann::json(size.min) : nlohmann::json(size.text));
    ranges.push_back({size.min, size.max});
  }
  return {{"name", port.name},
          {"type", type_json(port.dtype)},
          {"shape", std::move(shape)},
          {"ranges", std::move(ranges)}};
}

/// "[4, seq]" of a tensor.
inline std::string shape_text(const nlohmann::json& tensor) {
  std::string text;
  for (const nlohmann::json& size : tensor["shape"])
    text += (text.empty() ? "" : ", ") + (size.is_string() ? size.get<std::string>() : size.dump());
  return "[" + text + "]";
}

}  // namespace vernier
