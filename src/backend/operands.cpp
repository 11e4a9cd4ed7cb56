// Operands of kernels: see operands.h.
#include "backend/operands.h"

namespace vernier::backend {

std::vector<DType> types_of(std::span<const Operand> operands) {
  std::vector<DType> types;
  for (const Operand& o : operands) types.push_back(o.present ? o.dtype : DType::kUndefined);
  return types;
}

namespace {

// Yes if every present output and float input passes `takes`.
Support all_floats(const Problem& problem, bool (*takes)(DType), const char* types) {
  const auto refuse = [types](const char* what, size_t i, DType type, const char* does) {
    return no(std::string(what) + " " + std::to_string(i) + " is " + std::string(name(type)) +
              ", this kernel " + does + " " + types);
  };
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const Operand& in = problem.inputs[i];
    if (in.present && is_float(in.dtype) && !takes(in.dtype))
      return refuse("input", i, in.dtype, "takes");
  }
  for (size_t i = 0; i < problem.outputs.size(); ++i) {
    const Operand& out = problem.outputs[i];
    if (out.present && !takes(out.dtype)) return refuse("output", i, out.dtype, "returns");
  }
  return yes();
}

}  // namespace

Support all_f32(const Problem& problem) {
  return all_floats(
      problem, [](DType t) { return t == DType::kF32; }, "f32");
}

Support all_up_to_f32(const Problem& problem) {
  return all_floats(
      problem, [](DType t) { return t == DType::kF32 || is_16_bit_float(t); }, "f32, f16 or bf16");
}

Support one_float_type(const Problem& problem) {
  DType first = DType::kUndefined;
  for (const auto* operands : {&problem.inputs, &problem.outputs}) {
    for (const Operand& operand : *operands) {
      if (!operand.present || !is_float(operand.dtype)) continue;
      if (first == DType::kUndefined) first = operand.dtype;
      if (operand.dtype == first) continue;
      return no("this kernel moves elements and cannot convert " + std::string(name(first)) +
                " to " + std::string(name(operand.dtype)));
    }
  }
  return yes();
}

Support keeps_type(const Problem& problem) {
  const DType x = problem.inputs[0].dtype, y = problem.outputs[0].dtype;
  if (x == y) return yes();
  return no("this kernel moves elements and cannot convert " + std::string(name(x)) + " to " +
            std::string(name(y)));
}

Support movable(const Problem& problem) {
  Support support = one_float_type(problem);
  return support ? support : all_up_to_f32(problem);
}

bool is_per_row_element(const SymShape& own, const SymShape& shape, size_t first_axis) {
  if (own.size() > shape.size()) return false;
  const size_t missing = shape.size() - own.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim size = i < missing ? Dim(1) : own[i - missing];
    if (!(size == (i < first_axis ? Dim(1) : shape[i]))) return false;
  }
  return true;
}

bool is_dense(const TensorArg& t) {
  int64_t expected = 1;
  for (int i = t.rank - 1; i >= 0; --i) {
    const auto k = static_cast<size_t>(i);
    if (t.shape[k] != 1 && t.strides[k] != expected) return false;
    expected *= t.shape[k];
  }
  return true;
}

int64_t elems_between(const TensorArg& t, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; ++i) count *= t.shape[i];
  return count;
}

Rows::Rows(const TensorArg& t, int inner_axes) {
  // Size-1 axes carry no stride; neighboring axes that step evenly become one.
  for (int i = 0; i < t.rank - inner_axes; ++i) {
    const auto k = static_cast<size_t>(i);
    count_ *= t.shape[k];
    if (t.shape[k] == 1) continue;
    const auto last = static_cast<size_t>(axes_ - 1);
    if (axes_ > 0 && strides_[last] == t.strides[k] * t.shape[k]) {
      shape_[last] *= t.shape[k];
      strides_[last] = t.strides[k];
      continue;
    }
    shape_[axes_] = t.shape[k];
    strides_[axes_] = t.strides[k];
    ++axes_;
  }
  uniform_ = axes_ <= 1;
  step_ = axes_ == 1 ? strides_[0] : 0;
}

Rows lines_along(const TensorArg& t, int axis) {
  TensorArg others = t;
  for (auto i = static_cast<size_t>(axis); i + 1 < static_cast<size_t>(t.rank); ++i) {
    others.shape[i] = t.shape[i + 1];
    others.strides[i] = t.strides[i + 1];
  }
  --others.rank;
  return Rows(others, 0);
}

}  // namespace vernier::backend
