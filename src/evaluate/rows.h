// Rows of a batch: which axis of every input and output counts them, and taking batches apart and
// together. Contract: docs/verification_checks.md "Rows".
#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "plan/plan.h"

namespace vernier::evaluate {

using NamedValues = std::map<std::string, EvalTensor>;

inline constexpr int kNoAxis = -1;

/// How an engine counts rows. `symbol` is the size that counts them; empty where the batch is a
/// number that the model fixes (`fixed_rows`), which cannot be run alone.
struct BatchAxes {
  std::string symbol;
  int64_t fixed_rows = 0;
  std::map<std::string, int> axis;  ///< by input and output name; absent: one for the whole batch
  bool known() const { return !symbol.empty() || fixed_rows > 1; }
  int of(const std::string& name) const {
    const auto it = axis.find(name);
    return it == axis.end() ? kNoAxis : it->second;
  }
};

/// The axes along which `symbol` counts rows.
BatchAxes axes_of_symbol(const plan::Plan& plan, const std::string& symbol);
/// The axes of a model whose first input has no variable axis but a first axis longer than 1 that
/// every input and output shares.
BatchAxes fixed_axes(const plan::Plan& plan);
/// Sizes that could count rows, best first: the first input's variable axes that every variable
/// input has exactly once.
std::vector<std::string> batch_candidates(const plan::Plan& plan);
/// The best of them; empty where there is none.
std::string batch_symbol(const plan::Plan& plan);

/// Elements [begin, end) along `axis`.
Tensor take_range(const Tensor& t, size_t axis, int64_t begin, int64_t end);
/// Row `row` along `axis`, which stays with size 1. kNoAxis: the array itself.
Tensor take_row(const Tensor& t, int axis, int64_t row);
EvalTensor take_row(const EvalTensor& t, int axis, int64_t row);
NamedTensors take_row(const NamedTensors& arrays, const BatchAxes& axes, int64_t row);
NamedValues take_row(const NamedValues& values, const BatchAxes& axes, int64_t row);
/// The rows of arrays in that order; arrays without a batch axis are those of the first.
NamedTensors join_rows(const std::vector<NamedTensors>& rows, const BatchAxes& axes);
NamedValues join_rows(const std::vector<const NamedValues*>& rows, const BatchAxes& axes);
NamedValues join_rows(const std::vector<NamedValues>& rows, const BatchAxes& axes);

const Tensor* find(const NamedTensors& tensors, const std::string& name);
/// Same type, shape and bytes.
bool same_bits(const Tensor& a, const Tensor& b);

}  // namespace vernier::evaluate
