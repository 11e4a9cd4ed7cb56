// Lone steps: see lone_step.h.
#include "verify/lone_step.h"

#include <algorithm>
#include <utility>

#include "core/attrs.h"
#include "core/error.h"

namespace vernier::verify {
namespace {

using plan::kNone;
using plan::PlanValue;
using Kind = plan::PlanValue::Kind;

class Builder {
 public:
  Builder(const plan::Plan& plan, const std::map<std::string, int64_t>& sizes)
      : from_(plan), sizes_(sizes) {
    made_.plan.model_name = plan.model_name;
    made_.plan.producer = plan.producer;
    made_.plan.device = plan.device;
    made_.plan.target = plan.target;
    made_.plan.segments = {{0, 1}};
  }

  std::optional<LoneStep> build(size_t index) {
    if (from_.begins_segment(static_cast<int32_t>(index))) return std::nullopt;
    plan::Step step = from_.steps[index];
    if (step.op == OpKind::kAttention) without_sequences(step);
    for (int32_t& in : step.inputs) in = in == kNone ? kNone : value_of(in);
    for (plan::PackedInput& packed : step.packed) {
      packed.blob = add_blob(from_.blob(packed.blob));
      packed.derivation = kNone;
    }
    for (int32_t& out : step.outputs) out = out == kNone ? kNone : output_of(out);
    if (!fits_) return std::nullopt;
    made_.plan.steps.push_back(std::move(step));
    return std::move(made_);
  }

 private:
  // All tokens as one sequence: nobody would know where others begin.
  static void without_sequences(plan::Step& step) {
    using enum AttentionAttrs::Input;
    if (step.inputs.size() <= kStartsQ || step.inputs[kStartsQ] == kNone) return;
    for (const size_t input :
         {kStartsQ, kStartsK, kPlaces, kQueryPositions, kKeyPositions, kQueryBuckets, kKeyBuckets})
      if (input < step.inputs.size()) step.inputs[input] = kNone;
  }
  // Sizes as numbers; those that nobody knows make the step unfit.
  Dim number(const Dim& dim) {
    for (const std::string& symbol : dim.symbols()) {
      if (sizes_.contains(symbol)) continue;
      fits_ = false;
      return 1;
    }
    return dim.evaluate(sizes_);
  }
  SymShape numbers(const SymShape& dims) {
    SymShape result;
    for (const Dim& dim : dims) result.push_back(number(dim));
    return result;
  }
  int32_t add_blob(const plan::Blob& blob) {
    made_.plan.blobs.push_back(blob);
    return static_cast<int32_t>(made_.plan.blobs.size()) - 1;
  }
  int32_t add_value(PlanValue value) {
    for (const Dim& dim : value.shape) fits_ = fits_ && dim.constant() > 0;
    made_.plan.values.push_back(std::move(value));
    return static_cast<int32_t>(made_.plan.values.size()) - 1;
  }
  PlanValue sized(const PlanValue& v) {
    PlanValue value;
    value.dtype = v.dtype;
    value.shape = numbers(v.shape);
    value.kind = v.kind;
    return value;
  }

  int32_t value_of(int32_t index) {
    const auto known = values_.find(index);
    if (known != values_.end()) return known->second;
    const PlanValue& v = from_.value(index);
    PlanValue value = sized(v);
    if (v.kind == Kind::kAlias) {
      value.alias_of = value_of(v.alias_of);
      value.offset_elems = number(v.offset_elems);
      value.strides = numbers(v.strides);
    } else if (v.kind == Kind::kConstant) {
      value.constant = add_blob(from_.blob_of(v));
    } else if (v.kind == Kind::kShapeValues) {
      for (const Dim& dim : v.values) value.values.push_back(number(dim));
    } else {
      value.kind = Kind::kInput;
      value.name = "operand " + std::to_string(made_.inputs.size());
      made_.inputs.push_back(value.name);
    }
    const bool is_input = value.kind == Kind::kInput;
    const std::string name = value.name;
    const int32_t made = add_value(std::move(value));
    if (is_input) {
      made_.plan.inputs.push_back(made);
      made_.plan.input_names.push_back(name);
    }
    return values_[index] = made;
  }
  int32_t output_of(int32_t index) {
    PlanValue value = sized(from_.value(index));
    value.kind = Kind::kArena;
    value.first_step = value.last_step = 0;
    const int32_t made = add_value(std::move(value));
    made_.plan.outputs.push_back(made);
    made_.plan.output_names.push_back("result " + std::to_string(made_.plan.outputs.size() - 1));
    return made;
  }

  const plan::Plan& from_;
  const std::map<std::string, int64_t>& sizes_;
  LoneStep made_;
  std::map<int32_t, int32_t> values_;
  bool fits_ = true;
};

}  // namespace

std::optional<LoneStep> lone_step(const plan::Plan& plan, size_t index,
                                  const std::map<std::string, int64_t>& sizes) {
  std::map<std::string, int64_t> all = sizes;
  plan.add_bounds(all);
  return Builder(plan, all).build(index);
}

}  // namespace vernier::verify
