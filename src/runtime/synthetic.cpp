// Synthetic inputs: see include/vernier/synthetic.h.
#include "vernier/synthetic.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <random>

#include "core/dtype.h"
#include "runtime/arena.h"
#include "runtime/engine_impl.h"

namespace vernier {
namespace {

constexpr uint64_t kSeed = 1;

std::map<std::string, int64_t> parse_sizes(const plan::Plan& plan, const std::string& sizes) {
  std::map<std::string, int64_t> result;
  std::string known;
  for (const plan::Symbol& symbol : plan.symbols) {
    result[symbol.name] = symbol.opt;
    known += (known.empty() ? "" : ", ") + symbol.name + "=" + std::to_string(symbol.min) + ".." +
             std::to_string(symbol.max);
  }
  for (size_t at = 0; at < sizes.size();) {
    const size_t end = std::min(sizes.find(',', at), sizes.size());
    const std::string part = sizes.substr(at, end - at);
    at = end + 1;
    const size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    const std::string number = equals < part.size() ? part.substr(equals + 1) : "";
    int64_t value = 0;
    const auto [last, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool is_number =
        error == std::errc{} && last == number.data() + number.size() && !number.empty();
    const plan::Symbol* symbol = nullptr;
    for (const plan::Symbol& s : plan.symbols) {
      if (s.name == name) symbol = &s;
    }
    if (!symbol || !is_number || value < symbol->min || value > symbol->max) {
      throw Error(ErrorCode::kInput, "sizes: got '" + part + "'; the engine has " +
                                         (known.empty() ? "no variable sizes" : known));
    }
    result[name] = value;
  }
  return result;
}

}  // namespace

std::vector<InputShape> synthetic_shapes(const Engine& engine, const std::string& sizes) {
  const plan::Plan& plan = engine.impl().plan;
  const std::map<std::string, int64_t> symbols = parse_sizes(plan, sizes);
  std::vector<InputShape> shapes;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    InputShape& shape = shapes.emplace_back(InputShape{plan.input_names[i], {}});
    for (const Dim& d : plan.value(plan.inputs[i]).shape)
      shape.shape.push_back(d.evaluate(symbols));
  }
  return shapes;
}

namespace {
// A type of scales has no negative numbers.
double value_of(DType type, double drawn) {
  return type == DType::kF8E8M0 ? std::abs(drawn) : drawn;
}
}  // namespace

std::vector<InputArray> synthetic_inputs(const Engine& engine, const std::string& sizes) {
  const plan::Plan& plan = engine.impl().plan;
  const std::vector<InputShape> shapes = synthetic_shapes(engine, sizes);
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> normal;
  std::vector<InputArray> arrays;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const plan::PlanValue& value = plan.value(plan.inputs[i]);
    InputArray array{plan.input_names[i], value.dtype, shapes[i].shape, {}};
    const size_t width = size_bytes(value.dtype);
    const auto elems = static_cast<size_t>(num_elems(array.shape));
    try {
      array.bytes.resize(runtime::product_of_bytes(elems, width));
    } catch (const std::exception&) {  // length_error or bad_alloc
      throw Error(ErrorCode::kMachine, "input '" + array.name + "' of shape " + str(array.shape) +
                                           " takes more memory than there is; give smaller sizes");
    }
    for (size_t at = 0; at < array.bytes.size(); at += width) {
      if (is_float(value.dtype))
        store_float(value.dtype, value_of(value.dtype, normal(random)), array.bytes.data() + at);
      else
        store_integer(value.dtype, 1, array.bytes.data() + at);
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

namespace {

// The input that is the mask of a ragged batch.
size_t mask_input(const plan::Plan& plan, const std::string& name) {
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.input_names.size(); ++i) {
    const bool named = name.empty() ? plan.input_names[i].find("mask") != std::string::npos
                                    : plan.input_names[i] == name;
    if (named) found.push_back(i);
  }
  if (name.empty() && !plan.token_counts.empty())
    found = {static_cast<size_t>(plan.token_counts[0].input)};
  const bool fits = found.size() == 1 && plan.value(plan.inputs[found[0]]).shape.size() == 2;
  if (fits) return found[0];
  std::string names;
  for (const std::string& input : plan.input_names) names += (names.empty() ? "" : ", ") + input;
  throw Error(ErrorCode::kInput,
              name.empty() ? "cannot tell which input is the mask of the rows (" + names +
                                 "); name it with --mask"
                           : "'" + name + "' is no input [rows, length]; the inputs are " + names);
}

}  // namespace

std::vector<InputArray> ragged_inputs(const Engine& engine, const std::string& sizes,
                                      const std::vector<int64_t>& lengths,
                                      const std::string& mask) {
  const size_t index = mask_input(engine.impl().plan, mask);
  std::vector<InputArray> arrays = synthetic_inputs(engine, sizes);
  InputArray& array = arrays[index];
  const int64_t rows = array.shape[0], longest = array.shape[1];
  if (rows != static_cast<int64_t>(lengths.size())) {
    throw Error(ErrorCode::kInput, "got " + std::to_string(lengths.size()) + " lengths for " +
                                       std::to_string(rows) + " rows");
  }
  const size_t width = size_bytes(array.dtype);
  // Padding lies behind tokens, unless the engine computes it there.
  const auto& counts = engine.impl().plan.token_counts;
  const auto count =
      std::ranges::find(counts, static_cast<int32_t>(index), &plan::TokenCount::input);
  const bool in_front = count != counts.end() && !count->behind;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t length = lengths[static_cast<size_t>(r)];
    if (length < 1 || length > longest) {
      throw Error(ErrorCode::kInput, "row " + std::to_string(r) + " has length " +
                                         std::to_string(length) + ", expected 1.." +
                                         std::to_string(longest));
    }
    for (int64_t s = 0; s < longest; ++s) {
      std::byte* const at = array.bytes.data() + static_cast<size_t>(r * longest + s) * width;
      const bool is_token = in_front ? s >= longest - length : s < length;
      if (is_float(array.dtype))
        store_float(array.dtype, is_token ? 1 : 0, at);
      else
        store_integer(array.dtype, is_token ? 1 : 0, at);
    }
  }
  return arrays;
}

}  // namespace vernier
