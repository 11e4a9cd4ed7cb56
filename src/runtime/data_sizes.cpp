// Rules with the numbers of a run: see data_sizes.h.
#include "runtime/data_sizes.h"

#include "core/evaluator.h"
#include "rules/rules.h"

namespace vernier::runtime {
namespace {

// A rule's view of a step in a run: all sizes are numbers, and what was read is known.
class RunContext final : public rules::InferContext {
 public:
  RunContext(const plan::Step& step, std::span<const KnownInput> inputs)
      : step_(step), inputs_(inputs), shapes_(step.outputs.size()), given_(step.outputs.size()) {
    for (const KnownInput& input : inputs) {
      sizes_.emplace_back(input.shape.begin(), input.shape.end());
      constants_.push_back(input.contents ? input.contents->to_tensor() : Tensor());
    }
  }

  OpKind op() const override { return step_.op; }
  AttrView attr_bytes() const override { return step_.attrs; }
  size_t num_inputs() const override { return inputs_.size(); }
  size_t num_outputs() const override { return step_.outputs.size(); }
  bool has_input(size_t i) const override {
    return i < inputs_.size() && inputs_[i].dtype != DType::kUndefined;
  }
  DType dtype(size_t i) const override {
    const DType stored = inputs_[i].dtype;
    const bool converts = stored == DType::kF16 || stored == DType::kBF16 || stored == DType::kF64;
    return converts ? DType::kF32 : stored;
  }
  const SymShape& shape(size_t i) const override { return sizes_[i]; }
  const Tensor* constant(size_t i) const override {
    return has_input(i) && constants_[i].defined() ? &constants_[i] : nullptr;
  }
  std::optional<std::vector<Dim>> values(size_t i) const override {
    const Tensor* known = constant(i);
    if (!known || is_float(known->dtype()) || known->elems() > rules::kMaxSymbolicElems)
      return std::nullopt;
    const std::vector<int64_t> numbers = known->integers();
    return std::vector<Dim>(numbers.begin(), numbers.end());
  }
  void set_output(size_t i, DType, SymShape shape) override {
    if (!step_.has_output(i)) return;
    Shape sizes;
    for (const Dim& d : shape) {
      sizes.push_back(d.constant());
      if (sizes.back() < 0)
        fail("output " + std::to_string(i) + " would have shape " + vernier::str(shape));
    }
    num_elems(sizes);  // throws where there are too many
    shapes_[i] = std::move(sizes);
    given_[i] = std::move(shape);
  }
  const SymShape* output_shape(size_t i) const override {
    return step_.has_output(i) ? &given_[i] : nullptr;
  }
  void set_values(size_t, std::vector<Dim>) override {}
  Dim unify(const Dim& a, const Dim& b) override {
    require_equal(a, b);
    return a;
  }
  void require_equal(const Dim& lhs, const Dim& rhs) override {
    if (!(lhs == rhs)) fail("needs " + lhs.str() + " == " + rhs.str());
  }
  void require_at_most(const Dim& small, const Dim& large) override {
    if (small.constant() > large.constant()) fail("needs " + small.str() + " <= " + large.str());
  }
  Dim fresh_size(const std::string& hint, const std::optional<Dim>&) override {
    fail("the size '" + hint + "' does not follow from its inputs; build the engine again");
  }
  bool at_run() const override { return true; }
  Error refusal(const std::string& what) const override {
    return {ErrorCode::kInput,
            "step '" + step_.name + "' (" + std::string(name(step_.op)) + "): " + what};
  }
  std::vector<Shape> shapes() && { return std::move(shapes_); }

 private:
  const plan::Step& step_;
  std::span<const KnownInput> inputs_;
  std::vector<Tensor> constants_;
  std::vector<SymShape> sizes_;
  std::vector<Shape> shapes_;
  std::vector<SymShape> given_;
};

}  // namespace

bool says_sizes(OpKind op, const Shape& input) {
  return (flags(op) & kDataDependent) != 0 || num_elems(input) <= rules::kMaxSymbolicElems;
}

FoundSizes find_sizes(const plan::Plan& plan, const plan::Step& step,
                      std::span<const KnownInput> inputs) {
  FoundSizes found;
  if ((flags(step.op) & kDataDependent) == 0) {
    RunContext context(step, inputs);
    rules::infer(context);
    found.shapes = std::move(context).shapes();
    return found;
  }
  std::vector<const EvalTensor*> in;
  for (const KnownInput& input : inputs) in.push_back(input.contents);
  found.results.resize(step.outputs.size());
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (step.has_output(i)) found.results[i].dtype = plan.value(step.outputs[i]).dtype;
  const Rounding exact;
  evaluator(step.op)({step.attrs, in, found.results, exact});
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.has_output(i)) found.results[i].dtype = plan.value(step.outputs[i]).dtype;
    found.shapes.push_back(found.results[i].shape);
  }
  return found;
}

void check_found_sizes(const plan::Step& step, const FoundSizes& found,
                       std::span<const Shape> declared) {
  for (size_t i = 0; i < declared.size(); ++i) {
    if (!step.has_output(i) || found.shapes[i] == declared[i]) continue;
    throw Error(ErrorCode::kInput, "step '" + step.name + "' (" + std::string(name(step.op)) +
                                       "): output " + std::to_string(i) + " has shape " +
                                       str(found.shapes[i]) + ", the engine expects " +
                                       str(declared[i]) + "; build the engine again");
  }
}

}  // namespace vernier::runtime
