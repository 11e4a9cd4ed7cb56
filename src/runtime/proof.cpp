// Shape inference of an engine's steps and what their kernels support: see proof.h.
#include "runtime/proof.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/validate.h"
#include "rules/rules.h"

namespace vernier::runtime {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;

Error refused(const plan::Step& step, const std::string& what) {
  return Error(ErrorCode::kInput, "the engine's step '" + step.name + "' (" +
                                      std::string(name(step.op)) + ", " + step.kernel +
                                      "): " + what + "; build the engine again");
}

// Floats may be stored in any float type, constants of f64 products in f32 too: kernels say which
// types they take.
DType as_computed(DType stored) { return is_float(stored) ? DType::kF32 : stored; }

// Floats that are the model's own: the small ones that Q and DQ are about, the f64 whose bits
// BitCast reads (a narrower float is widened to it first).
bool keeps_its_type(OpKind op, DType stored) {
  if (op == OpKind::kQuantizeLinear || op == OpKind::kDequantizeLinear)
    return is_small_float(stored);
  return op == OpKind::kBitCast && stored == DType::kF64;
}
/// What is known of a plan's integer contents, and what could not be proven for all sizes.
class Known {
 public:
  explicit Known(const plan::Plan& plan) {
    for (const plan::Guard& guard : plan.guards) held_.insert(key(guard.lhs, guard.rhs));
  }
  /// The plan's guards say that lhs == rhs, or one more does.
  void hold(const Dim& lhs, const Dim& rhs, const std::string& where) {
    if (held_.insert(key(lhs, rhs)).second) guards.push_back({lhs, rhs, where});
  }

  std::map<int32_t, std::vector<Dim>> contents;  // by value
  std::vector<plan::Guard> guards;

 private:
  using Key = std::pair<std::string, std::string>;  // equal expressions have equal texts
  static Key key(const Dim& lhs, const Dim& rhs) { return std::minmax({lhs.str(), rhs.str()}); }
  std::set<Key> held_;
};

/// The numbers of an integer type; empty where it holds all of 64 bits.
std::optional<std::pair<int64_t, int64_t>> range_of(DType type) {
  constexpr size_t kMostBits = 64;
  const size_t bits = type == DType::kBool ? 1 : element_bits(type);
  if (bits >= kMostBits) return std::nullopt;
  const int64_t count = int64_t{1} << bits;
  const int64_t low = is_signed_integer(type) ? -count / 2 : 0;
  return std::pair{low, low + count - 1};
}

/// A rule's view of one step: everything is written already and has to fit.
class StepContext final : public rules::InferContext {
 public:
  StepContext(const plan::Plan& plan, const plan::Step& step, Known& known)
      : plan_(plan), step_(step), known_(known) {
    for (int32_t in : step.inputs) {
      const bool there = in != kNone;
      inputs_.push_back(there ? Input{true, plan.value(in).dtype, &plan.value(in).shape} : Input{});
    }
    packed_shapes_.reserve(step.packed.size());
    for (const plan::PackedInput& packed : step.packed) {
      const plan::Blob& blob = plan.blob(packed.blob);
      packed_shapes_.emplace_back(blob.shape.begin(), blob.shape.end());
      inputs_[packed.at()] = {true, blob.dtype, &packed_shapes_.back()};
    }
  }

  OpKind op() const override { return step_.op; }
  AttrView attr_bytes() const override { return step_.attrs; }
  size_t num_inputs() const override { return inputs_.size(); }
  size_t num_outputs() const override { return step_.outputs.size(); }
  bool has_input(size_t i) const override { return i < inputs_.size() && inputs_[i].present; }
  DType dtype(size_t i) const override {
    const DType stored = input(i).dtype;
    return keeps_its_type(step_.op, stored) ? stored : as_computed(stored);
  }
  const SymShape& shape(size_t i) const override { return *input(i).shape; }

  const Tensor* constant(size_t i) const override {
    if (!step_.has_input(i)) return nullptr;
    const plan::PlanValue& value = plan_.value(step_.inputs[i]);
    if (value.kind != Kind::kConstant) return nullptr;
    return &plan_.blob_of(value).bytes;
  }

  std::optional<std::vector<Dim>> values(size_t i) const override {
    if (const Tensor* tensor = constant(i)) {
      if (is_float(tensor->dtype()) || tensor->elems() > rules::kMaxSymbolicElems)
        return std::nullopt;
      const std::vector<int64_t> numbers = tensor->integers();
      return std::vector<Dim>(numbers.begin(), numbers.end());
    }
    if (!step_.has_input(i)) return std::nullopt;
    const plan::PlanValue& value = plan_.value(step_.inputs[i]);
    if (value.kind == Kind::kShapeValues) return value.values;
    const bool view = value.kind == Kind::kAlias;
    const int32_t base = view ? value.alias_of : step_.inputs[i];
    const plan::PlanValue& owner = plan_.value(base);
    std::optional<std::vector<Dim>> found;
    if (owner.kind == Kind::kShapeValues) found = owner.values;
    if (const auto it = known_.contents.find(base); it != known_.contents.end()) found = it->second;
    if (found && view) found = seen_through(value, *found);
    if (found && !(product(value.shape) == Dim(static_cast<int64_t>(found->size())))) found.reset();
    return found;
  }
  // The elements of a view with these contents behind it; empty where its layout is not a number.
  static std::optional<std::vector<Dim>> seen_through(const plan::PlanValue& view,
                                                      const std::vector<Dim>& contents) {
    if (view.strides.empty() && view.offset_elems == Dim(0)) return contents;
    const auto offset = view.offset_elems.as_constant();
    if (!offset || !is_constant(view.shape) || !is_constant(view.strides)) return std::nullopt;
    Shape shape, strides;
    for (const Dim& d : view.shape) shape.push_back(d.constant());
    for (const Dim& d : view.strides) strides.push_back(d.constant());
    if (strides.empty()) strides = row_major_strides(shape);
    const auto most = static_cast<int64_t>(contents.size());
    if (num_elems(shape) > rules::kMaxSymbolicElems ||
        !engine::stays_inside(*offset, shape, strides, most))
      return std::nullopt;
    std::vector<Dim> elements;
    for (int64_t flat = 0; flat < num_elems(shape); ++flat) {
      int64_t at = *offset, rest = flat;
      for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
        at += rest % shape[axis] * strides[axis];
      elements.push_back(contents[static_cast<size_t>(at)]);
    }
    return elements;
  }

  // A rule may set an output more than once: the last one counts, see check_outputs().
  void set_output(size_t i, DType type, SymShape shape) override {
    if (output(i) == nullptr) return;
    given_.resize(std::max(given_.size(), i + 1));
    given_[i] = {true, type, std::move(shape)};
  }
  /// After the rule: the outputs are as it gives them.
  void check_outputs() {
    for (size_t i = 0; i < num_outputs(); ++i) {
      const plan::PlanValue* out = output(i);
      if (out == nullptr) continue;
      if (i >= given_.size() || !given_[i].present)
        fail("output " + std::to_string(i) + " does not exist");
      const Given& given = given_[i];
      const auto refuse = [&] {
        fail("output " + std::to_string(i) + " is " + std::string(name(out->dtype)) +
             str(out->shape) + ", its rule gives " + std::string(name(given.dtype)) +
             str(given.shape));
      };
      if (as_computed(given.dtype) != as_computed(out->dtype) ||
          given.shape.size() != out->shape.size())
        refuse();
      for (size_t axis = 0; axis < given.shape.size(); ++axis) {
        if (equal(given.shape[axis], out->shape[axis]) == false) refuse();
        require_equal(out->shape[axis], given.shape[axis]);
      }
    }
  }
  const SymShape* output_shape(size_t i) const override {
    const bool there = output(i) != nullptr && i < given_.size() && given_[i].present;
    return there ? &given_[i].shape : nullptr;
  }
  void set_values(size_t i, std::vector<Dim> values) override {
    const plan::PlanValue* out = output(i);
    if (out == nullptr || is_float(out->dtype)) return;
    if (!(product(out->shape) == Dim(static_cast<int64_t>(values.size())))) return;
    for (Dim& d : values) {
      if (const auto number = d.as_constant()) d = wrap_integer(out->dtype, *number);
    }
    if (std::ranges::any_of(values, [&](const Dim& d) { return leaves(out->dtype, d); })) return;
    for (const Dim& d : values) hold_within(out->dtype, d);
    known_.contents[step_.outputs[i]] = std::move(values);
  }

  Dim unify(const Dim& a, const Dim& b) override {
    require_equal(a, b);
    return a.is_constant() || !b.is_constant() ? a : b;
  }
  void require_equal(const Dim& lhs, const Dim& rhs) override {
    const auto proven = equal(lhs, rhs);
    if (proven == false) fail("needs " + lhs.str() + " == " + rhs.str());
    if (!proven) hold(lhs, rhs);
  }
  void require_at_most(const Dim& small, const Dim& large) override {
    const auto proven = at_most(small, large);
    if (proven == false) fail("needs " + small.str() + " <= " + large.str());
    if (!proven) hold(min(small, large), small);
  }
  // The plan has a size of this name for the step.
  Dim fresh_size(const std::string& hint, const std::optional<Dim>&) override {
    for (const plan::DataSize& data : plan_.data_sizes) {
      const bool own = &plan_.step(data.step) == &step_;
      if (own && data.name.starts_with(hint + ".")) return data.size();
    }
    fail("the plan does not say how large its output is");
  }
  Error refusal(const std::string& what) const override { return refused(step_, what); }

 private:
  void hold(const Dim& lhs, const Dim& rhs) { known_.hold(lhs, rhs, step_.name); }

  // A kernel's numbers wrap where size expressions do not. Is d never one of the type's?
  static bool leaves(DType type, const Dim& d) {
    const auto range = range_of(type);
    return range && (at_most(range->first, d) == false || at_most(d, range->second) == false);
  }
  void hold_within(DType type, const Dim& d) {
    if (d.is_constant()) return;
    if (const auto range = range_of(type)) {
      require_at_most(range->first, d);
      require_at_most(d, range->second);
    } else if (!d.as_symbol()) {
      hold(d, d);  // sizes at which it passes 64 bits cannot be evaluated, and are refused
    }
  }

  struct Input {
    bool present = false;
    DType dtype = DType::kUndefined;
    const SymShape* shape = nullptr;
  };
  struct Given {
    bool present = false;
    DType dtype = DType::kUndefined;
    SymShape shape;
  };
  const Input& input(size_t i) const {
    if (!has_input(i)) fail("lacks input " + std::to_string(i));
    return inputs_[i];
  }
  const plan::PlanValue* output(size_t i) const {
    if (!step_.has_output(i)) return nullptr;
    return &plan_.value(step_.outputs[i]);
  }

  const plan::Plan& plan_;
  const plan::Step& step_;
  Known& known_;
  std::vector<Input> inputs_;
  std::vector<Given> given_;  // by output
  std::vector<SymShape> packed_shapes_;
};

// As ops/views.h says it of layouts: the innermost axis longer than 1 has stride 1.
bool innermost_contiguous(const plan::PlanValue& view) {
  for (size_t i = view.shape.size(); i > 0; --i) {
    if (!(view.shape[i - 1] == Dim(1))) return view.strides[i - 1] == Dim(1);
  }
  return true;
}
bool repeats(const plan::PlanValue& view) {
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (!(view.shape[i] == Dim(1)) && view.strides[i] == Dim(0)) return true;
  }
  return false;
}

// Views with gaps only where the kernel says that it takes them.
void check_layouts(const plan::Plan& plan, const plan::Step& step,
                   const backend::KernelDef& kernel) {
  constexpr size_t kBits = 32;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (!step.has_input(i)) continue;
    const plan::PlanValue& value = plan.value(step.inputs[i]);
    if (value.strides.empty()) continue;
    const bool any_strides = (flags(step.op) & kView) != 0 && i == 0;
    const bool takes =
        i < kBits && (kernel.strided_inputs >> i & 1u) != 0 &&
        (any_strides || (innermost_contiguous(value) &&
                         ((kernel.repeating_inputs >> i & 1u) != 0 || !repeats(value))));
    if (!takes)
      throw refused(step,
                    "input " + std::to_string(i) + " has gaps, which the kernel does not take");
  }
}

}  // namespace

std::vector<plan::Guard> prove_shapes(const plan::Plan& plan, const Watch& watch) {
  Known known(plan);
  for (const plan::Step& step : plan.steps) {
    watch.check_time([&] { return "proving the engine's step '" + step.name + "'"; });
    StepContext context(plan, step, known);
    try {
      rules::infer(context);
      context.check_outputs();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInput) throw;
      throw refused(step,
                    error.what());  // a rule met what an importer would have refused
    }
  }
  return std::move(known.guards);
}

void check_sizes(const plan::Plan& plan, const std::vector<plan::Guard>& guards,
                 const std::map<std::string, int64_t>& sizes) {
  const auto known = [&](const Dim& d) {
    return std::ranges::all_of(d.symbols(),
                               [&](const std::string& symbol) { return sizes.contains(symbol); });
  };
  const auto all_known = [&](const SymShape& dims) { return std::ranges::all_of(dims, known); };
  for (const plan::Guard& guard : guards) {
    if (!known(guard.lhs) || !known(guard.rhs)) continue;
    const int64_t lhs = guard.lhs.evaluate(sizes), rhs = guard.rhs.evaluate(sizes);
    if (lhs == rhs) continue;
    throw Error(ErrorCode::kInput, broken_guard(guard, lhs, rhs));
  }
  const auto at = [&](const SymShape& dims) {
    Shape shape;
    for (const Dim& d : dims) shape.push_back(d.evaluate(sizes));
    return shape;
  };
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const plan::PlanValue& view = plan.values[v];
    if (!all_known(view.values) || !all_known(view.shape) || !all_known(view.strides)) continue;
    for (const Dim& d : view.values) check_shape_value(view, d.evaluate(sizes));
    if (view.kind != Kind::kAlias || !known(view.offset_elems)) continue;
    if (!all_known(plan.value(view.alias_of).shape)) continue;
    const Shape shape = at(view.shape), base = at(plan.value(view.alias_of).shape);
    num_elems(shape);  // throws where there are too many
    const Shape strides = view.strides.empty() ? row_major_strides(shape) : at(view.strides);
    check_view(plan, static_cast<int32_t>(v),
               {.offset = view.offset_elems.evaluate(sizes),
                .shape = shape,
                .strides = strides,
                .base_elems = num_elems(base)});
  }
}

std::string broken_guard(const plan::Guard& guard, int64_t lhs, int64_t rhs) {
  return "at node '" + guard.where + "' " + guard_text(guard.lhs, guard.rhs, lhs, rhs);
}

void check_view(const plan::Plan& plan, int32_t view, const ViewSizes& sizes) {
  if (engine::stays_inside(sizes.offset, sizes.shape, sizes.strides, sizes.base_elems)) return;
  throw Error(ErrorCode::kInput, "the engine's value " + std::to_string(view) + " '" +
                                     plan.value(view).name +
                                     "' reaches outside the value that it is a view of; build the "
                                     "engine again");
}

void check_shape_value(const plan::PlanValue& value, int64_t number) {
  if (wrap_integer(value.dtype, number) == number) return;
  throw Error(ErrorCode::kInput, "the engine's value '" + value.name + "' would be " +
                                     std::to_string(number) + ", which does not fit " +
                                     std::string(name(value.dtype)) + "; use smaller inputs");
}

backend::Problem problem_of(const plan::Plan& plan, const plan::Step& step) {
  backend::Problem problem;
  problem.op = step.op;
  problem.attrs = step.attrs;
  problem.asked = step.asked;
  const auto operand = [&](int32_t index) -> backend::Operand {
    if (index == kNone) return {};
    const plan::PlanValue& v = plan.value(index);
    const Tensor* contents = v.kind == Kind::kConstant ? &plan.blob_of(v).bytes : nullptr;
    return {true, v.dtype, v.shape, contents};
  };
  for (int32_t in : step.inputs) problem.inputs.push_back(operand(in));
  for (int32_t out : step.outputs) problem.outputs.push_back(operand(out));
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = plan.blob(packed.blob);
    backend::Operand& in = problem.inputs[packed.at()];
    in = {true, blob.dtype, SymShape(blob.shape.begin(), blob.shape.end()), nullptr};
    in.packed = true;
  }
  return problem;
}

void prove_kernel(const plan::Plan& plan, const plan::Step& step, const backend::KernelDef& kernel,
                  const backend::Problem& problem) {
  check_layouts(plan, step, kernel);
  if (const Support support = backend::supports(kernel, problem); !support)
    throw refused(step, "the kernel " + support.reason);
  const Numerics numerics = kernel.numerics(problem);
  if (const Support support = satisfies(numerics, step.asked); !support)
    throw refused(step, "the kernel " + support.reason);
  if (kernel.name == step.kernel && !(numerics == step.numerics))
    throw refused(step, "it records other numerics than its kernel has");
}

}  // namespace vernier::runtime
