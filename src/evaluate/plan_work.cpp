// Costs of a plan's steps: see plan_work.h.
#include "evaluate/plan_work.h"

#include <algorithm>

#include "rules/rules.h"

namespace vernier::evaluate {

namespace {

// Is it one product of many rows with one matrix?
bool has_one_matrix(OpKind op, const std::vector<Shape>& in) {
  switch (op) {
    case OpKind::kLinear:
    case OpKind::kLinearAddLayerNorm:
    case OpKind::kQuantizedLinear:
    case OpKind::kWeightOnlyLinear:
    case OpKind::kGemm:
      return true;
    case OpKind::kMatMul:
      return in[1].size() == 2;
    default:
      return false;
  }
}

}  // namespace

double work_of(const plan::Plan& plan, const std::map<std::string, int64_t>& sizes) {
  return work_by_place(plan, sizes, 0).rest;
}

WorkByPlace work_by_place(const plan::Plan& plan, const std::map<std::string, int64_t>& given,
                          double least) {
  std::map<std::string, int64_t> sizes = given;
  plan.add_bounds(sizes);
  const auto shape_of = [&](int32_t index) {
    Shape shape;
    if (index == plan::kNone) return shape;
    for (const Dim& d : plan.value(index).shape) {
      const std::vector<std::string> symbols = d.symbols();
      const auto known = [&](const std::string& s) { return sizes.contains(s); };
      shape.push_back(std::ranges::all_of(symbols, known) ? d.evaluate(sizes) : 1);
    }
    return shape;
  };
  WorkByPlace work;
  for (const plan::Step& step : plan.steps) {
    std::vector<Shape> in, out;
    for (int32_t v : step.inputs) in.push_back(shape_of(v));
    for (const plan::PackedInput& packed : step.packed)
      in[packed.at()] = plan.blob(packed.blob).shape;
    for (int32_t v : step.outputs) out.push_back(shape_of(v));
    const std::vector<DType> in_types(in.size(), DType::kF32), out_types(out.size(), DType::kF32);
    const double flops = rules::cost(step.op, {step.attrs, in, out, in_types, out_types}).flops;
    const bool is_large = least > 0 && flops / 2 >= least && has_one_matrix(step.op, in);
    (is_large ? work.large_products : work.rest) += flops;
    for (const Shape& shape : out) work.rest += static_cast<double>(num_elems(shape));
  }
  return work;
}

}  // namespace vernier::evaluate
