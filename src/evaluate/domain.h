// Input domains: which values a model's inputs may hold, read off the raised graph — never plain
// noise for ids and masks, and never from a name. Contract: docs/verification_inputs.md "Inputs".
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace vernier::evaluate {

struct InputDomain {
  enum class Kind : uint8_t {
    kIds,       ///< integers in [low, high]: they index a table
    kMask,      ///< 1 for the valid positions of a row, 0 for its padding
    kIntegers,  ///< integers in [low, high] that index nothing
    kFlags,     ///< bools that mark no padding
    kUniform,   ///< floats, uniform in [min, max]
    kNormal,    ///< floats, normal with deviation 1, cut off at [min, max]
  };
  std::string name;
  DType dtype = DType::kUndefined;
  SymShape shape;
  Kind kind = Kind::kNormal;
  int64_t low = 0, high = 1;   ///< kIds, kIntegers
  double min = 0, max = 1;     ///< kUniform, kNormal
  std::optional<int64_t> pad;  ///< kIds: the id that the graph compares with, put at padding
  std::string why;             ///< the node that says so, for the log
};

enum class PaddingSide : uint8_t { kRight, kLeft };

struct Domains {
  std::vector<InputDomain> inputs;  ///< in the order of the graph's inputs
  PaddingSide padding = PaddingSide::kRight;
  std::string padding_why;
};

/// The domains of a raised graph's inputs.
Domains infer_domains(const ir::Graph& raised);

/// "input_ids: ids in [0, 999], padding id 1 (index of Gather '/embed/Gather')", one per input.
std::string describe(const InputDomain& domain);

}  // namespace vernier::evaluate
