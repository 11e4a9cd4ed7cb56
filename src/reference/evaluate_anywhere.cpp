// Evaluation of an operator on the device in use, or on this CPU: see evaluate_anywhere.h.
#include "reference/evaluate_anywhere.h"

#include <utility>
#include <vector>

namespace vernier::reference {

Fp64Device* device_for(OpKind op, const EvalCall& call) {
  Fp64Device* device = fp64_device();
  return device != nullptr && device->takes(op, call) ? device : nullptr;
}

void evaluate_on(Fp64Device* device, OpKind op, const EvalCall& call) {
  constexpr int64_t kSmallElems = 1024;
  if (device != nullptr) {
    device->evaluate(op, call);
    for (EvalTensor& y : call.out)
      if (y.elems() <= kSmallElems) y.to_host();
    return;
  }
  for (EvalTensor& y : call.out)
    if (y.dtype != DType::kUndefined) y = EvalTensor(y.dtype, std::move(y.shape));
  std::vector<const EvalTensor*> in(call.in.begin(), call.in.end());
  std::vector<EvalTensor> copies;
  copies.reserve(in.size());
  const bool reads_numbers = op != OpKind::kShape && op != OpKind::kSize;
  for (const EvalTensor*& x : in) {
    if (x == nullptr || x->there == nullptr || !reads_numbers) continue;
    EvalTensor& copy = copies.emplace_back(*x);
    copy.to_host();
    x = &copy;
  }
  evaluator(op)({call.attrs, in, call.out, call.rounding});
}

}  // namespace vernier::reference
