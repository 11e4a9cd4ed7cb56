// Functions shared by the rules of operators: see context.h.
#include "rules/context.h"

#include <algorithm>

#include "core/evaluator.h"

namespace vernier::rules {

std::optional<std::vector<int64_t>> InferContext::integers(size_t i) const {
  const auto known = values(i);
  if (!known) return std::nullopt;
  std::vector<int64_t> numbers;
  for (const Dim& d : *known) {
    if (!d.is_constant()) return std::nullopt;
    numbers.push_back(d.constant());
  }
  return numbers;
}

size_t InferContext::normalize_axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) {
    fail("axis " + std::to_string(axis) + " is outside [" + std::to_string(-rank) + ", " +
         std::to_string(rank) + ")");
  }
  return static_cast<size_t>(axis < 0 ? axis + rank : axis);
}

SymShape broadcast(InferContext& context, const SymShape& a, const SymShape& b) {
  const size_t rank = std::max(a.size(), b.size());
  SymShape result(rank, Dim(1));
  for (size_t i = 0; i < rank; ++i) {
    const Dim da = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim db = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    Dim& out = result[rank - 1 - i];
    if (da == Dim(1))
      out = db;
    else if (db == Dim(1))
      out = da;
    else if (equal(da, db) == false)
      context.fail("shapes " + str(a) + " and " + str(b) + " do not broadcast: sizes " + da.str() +
                   " and " + db.str() + " differ");
    else
      out = context.unify(da, db);
  }
  return result;
}

void propagate_moved_values(InferContext& context, std::span<const size_t> data_inputs) {
  // The evaluator moves positions in `pool` instead of numbers; position 0 is a fill with zero.
  std::vector<Dim> pool{Dim(0)};
  std::vector<EvalTensor> inputs(context.num_inputs());
  std::vector<const EvalTensor*> in(context.num_inputs(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!context.has_input(i)) continue;
    const auto known = context.values(i);
    if (!known || !is_constant(context.shape(i))) return;
    Shape shape;
    for (const Dim& d : context.shape(i)) shape.push_back(d.constant());
    inputs[i] = EvalTensor(DType::kI64, std::move(shape));
    const bool data = std::find(data_inputs.begin(), data_inputs.end(), i) != data_inputs.end();
    for (size_t k = 0; k < known->size(); ++k) {
      if (!data && !(*known)[k].is_constant()) return;
      inputs[i].i[k] = data ? static_cast<int64_t>(pool.size()) : (*known)[k].constant();
      if (data) pool.push_back((*known)[k]);
    }
    in[i] = &inputs[i];
  }
  std::vector<EvalTensor> out(context.num_outputs());
  for (size_t i = 0; i < out.size(); ++i) {
    const SymShape* sizes = context.output_shape(i);
    if (sizes == nullptr) continue;
    if (!is_constant(*sizes)) return;
    Shape shape;
    for (const Dim& d : *sizes) shape.push_back(d.constant());
    if (num_elems(shape) > kMaxSymbolicElems) return;
    out[i] = EvalTensor(DType::kI64, std::move(shape));
  }
  try {
    evaluator(context.op())({context.attr_bytes(), in, out, Rounding{}});
  } catch (const Error& error) {
    context.fail(error.what());
  }
  for (size_t i = 0; i < out.size(); ++i) {
    std::vector<Dim> moved;
    for (int64_t position : out[i].i) moved.push_back(pool[position]);
    context.set_values(i, std::move(moved));
  }
}

}  // namespace vernier::rules
