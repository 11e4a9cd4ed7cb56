// Extreme operands: see extreme_operands.h.
#include "verify/sweep/extreme_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <utility>

#include "core/attrs.h"
#include "runtime/engine_impl.h"
#include "verify/lone_step.h"
#include "verify/replay.h"
#include "verify/runner.h"

namespace vernier::verify {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;
using Random = std::mt19937_64;

// In ±√3, of deviation 1.
double noise(Random& random) {
  constexpr double kRoot3 = 1.7320508075688772;
  return std::uniform_real_distribution<double>(-kRoot3, kRoot3)(random);
}

// Where an element of a row-major array is, for patterns along one axis or the last ones.
struct Place {
  int64_t row = 0, col = 0, cols = 1;
};
Place along(const Shape& shape, size_t first, size_t end, int64_t flat) {
  int64_t inner = 1, cols = 1;
  for (size_t d = end; d < shape.size(); ++d) inner *= shape[d];
  for (size_t d = first; d < end; ++d) cols *= shape[d];
  return {flat / (inner * cols) * inner + flat % inner, flat / inner % cols, cols};
}
size_t axis_of(int64_t axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  return static_cast<size_t>(
      std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, std::max<int64_t>(rank - 1, 0)));
}

constexpr int64_t kNormRows = 6, kOrdinaryRow = 2;
double of_a_norm(const Place& at, Random& random) {
  constexpr double kMean = 1000, kTiny = 1e-4, kOutlier = 300, kEqual = 3;
  switch (at.row % kNormRows) {
    case 0:
      return kMean + noise(random);
    case 1:
      return kTiny * noise(random);
    case kOrdinaryRow:
      return noise(random);
    case 3:
      return noise(random) + (at.col == at.row % at.cols ? kOutlier : 0);
    case 4:
      return kEqual;
    default:
      return 0;
  }
}

constexpr int64_t kLogitRows = 5;
double of_logits(const Place& at, Random& random) {
  constexpr double kWide = 200 / 1.7320508075688772, kFar = 300, kOne = 200;
  switch (at.row % kLogitRows) {
    case 0:
      return kWide * noise(random);
    case 1:
      return kFar + noise(random);
    case 2:
      return -kFar + noise(random);
    case 3:
      return at.col == at.row % at.cols ? kOne : -kOne;
    default:
      return noise(random);
  }
}

constexpr int64_t kPoolRows = 4;
double of_a_pool(const Place& at, Random& random) {
  constexpr double kMean = 1000, kTiny = 1e-4;
  switch (at.row % kPoolRows) {
    case 0:
      return kMean + noise(random);
    case 1:
      return kTiny * noise(random);
    case 2:
      return (at.col % 2 == 0 ? kMean : -kMean) + noise(random);
    default:
      return noise(random);
  }
}

// What an operand is filled with: by its shape, the place of an element in it, and chance.
using Fill = std::function<double(const Shape& shape, int64_t flat, Random& random)>;

Fill last_axis(double (*pattern)(const Place&, Random&), int64_t axis = -1) {
  return [pattern, axis](const Shape& shape, int64_t flat, Random& random) {
    return pattern(along(shape, axis_of(axis, shape), shape.size(), flat), random);
  };
}
Fill one_axis(double (*pattern)(const Place&, Random&), int64_t axis) {
  return [pattern, axis](const Shape& shape, int64_t flat, Random& random) {
    const size_t at = axis_of(axis, shape);
    return pattern(along(shape, at, shape.empty() ? 0 : at + 1, flat), random);
  };
}
Fill constant(double value) {
  return [value](const Shape&, int64_t, Random&) { return value; };
}
// What is added to the rows of a norm: nothing, but to ordinary ones.
double addend(const Place& at, Random& random) {
  return at.row % kNormRows == kOrdinaryRow ? noise(random) : 0;
}

// Keys have mean 1, so that a query of equal elements has the same score at each, but for noise.
double of_keys(const Place&, Random& random) { return 1 + noise(random); }
Fill of_queries(double scale) {
  return [scale](const Shape& shape, int64_t flat, Random& random) {
    constexpr double kScore = 300, kDeviation = 60;
    const double width = static_cast<double>(shape.back());
    const double unit = std::abs(scale) > 0 ? std::abs(scale) : 1;
    switch (flat / shape.back() % 4) {
      case 0:
        return noise(random);
      case 1:
        return noise(random) * kDeviation / (unit * std::sqrt(2 * width));
      case 2:
        return kScore / (unit * width);
      default:
        return -kScore / (unit * width);
    }
  };
}
// One key, or one place of a sequence, of three is hidden.
Fill mask() {
  return [](const Shape& shape, int64_t flat, Random&) {
    const int64_t key = shape.empty() ? 0 : flat % shape.back();
    return key % 3 == 2 ? 0.0 : 1.0;
  };
}

// The operands of an operator that this is about, by input; others are ordinary. `cleared`: the
// constants that are zero here, since they would hide what is small.
struct Extreme {
  std::string_view what;  // for messages
  std::map<size_t, Fill> operands;
  std::vector<size_t> cleared = {};
  size_t tables = 0;  // of an EmbedNorm
};

constexpr std::string_view kNorms =
    "rows of mean 1000, of deviation 1e-4, with an outlier of 300, of equal numbers, of zeros";
constexpr std::string_view kLogits = "logits of ±200, all near 300, all near -300";
constexpr std::string_view kPools = "numbers of mean 1000, of 1e-4, and ±1000 that cancel";

std::optional<Extreme> extreme_of(const plan::Step& step) {
  switch (step.op) {
    case OpKind::kLayerNorm:
    case OpKind::kRMSNorm:
      return Extreme{kNorms, {{0, last_axis(&of_a_norm, decode<NormAttrs>(step.attrs).axis)}}};
    case OpKind::kAddLayerNorm:
      return Extreme{kNorms, {{0, last_axis(&of_a_norm)}, {1, last_axis(&addend)}}};
    case OpKind::kLinearAddLayerNorm:
      return Extreme{kNorms, {{0, last_axis(&addend)}, {3, last_axis(&of_a_norm)}}, {2}};
    case OpKind::kEmbedNorm:
      return Extreme{.what = kNorms,
                     .operands = {},
                     .cleared = {},
                     .tables = static_cast<size_t>(decode<EmbedNormAttrs>(step.attrs).tables)};
    case OpKind::kL2Norm:
      return Extreme{kNorms, {{0, last_axis(&of_a_norm)}}};
    case OpKind::kLpNormalization:
      return Extreme{kNorms, {{0, one_axis(&of_a_norm, decode<LpNormAttrs>(step.attrs).axis)}}};
    case OpKind::kGroupNormalization:
      return Extreme{kNorms, {{0, last_axis(&of_a_norm, 2)}}};
    case OpKind::kSoftmax:
    case OpKind::kLogSoftmax:
      return Extreme{kLogits, {{0, one_axis(&of_logits, decode<AxisAttrs>(step.attrs).axis)}}};
    case OpKind::kReduceLogSumExp:
      return Extreme{kLogits, {{0, last_axis(&of_logits)}}};
    case OpKind::kAttention: {
      constexpr double kCosine = 0.8, kSine = 0.6;
      return Extreme{"scores of ±200, all near 300, all near -300",
                     {{0, of_queries(decode<AttentionAttrs>(step.attrs).scale)},
                      {1, last_axis(&of_keys)},
                      {3, constant(0)},
                      {4, mask()},
                      {7, constant(kCosine)},
                      {8, constant(kSine)}}};
    }
    case OpKind::kMaskedMean:
      return Extreme{kPools, {{0, one_axis(&of_a_pool, 1)}, {1, mask()}}};
    case OpKind::kReduceMean:
      return Extreme{kPools, {{0, last_axis(&of_a_pool)}}};
    case OpKind::kAveragePool:
    case OpKind::kGlobalAveragePool:
      return Extreme{kPools, {{0, last_axis(&of_a_pool, 2)}}};
    default:
      return std::nullopt;
  }
}

// The step's kernel, attributes and the layouts of its operands.
std::string key_of(const LoneStep& lone) {
  const plan::Step& step = lone.plan.steps[0];
  std::string key = step.kernel;
  key.append(reinterpret_cast<const char*>(step.attrs.data()), step.attrs.size());
  const auto add = [&](int32_t index) {
    if (index == kNone) {
      key.append("|absent");
      return;
    }
    const plan::PlanValue& v = lone.plan.value(index);
    key.append(fmt::format("|{}{}{}{} {} {}", name(v.dtype), str(v.shape), str(v.strides),
                           v.offset_elems.str(), static_cast<int>(v.kind), v.alias_of));
  };
  for (const int32_t in : step.inputs) add(in);
  for (const int32_t out : step.outputs) add(out);
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = lone.plan.blob(packed.blob);
    key.append(fmt::format("|{}{}{}", packed.input, blob.layout, str(blob.shape)));
  }
  return key;
}

Shape sizes_of(const SymShape& dims) {
  Shape shape;
  for (const Dim& dim : dims) shape.push_back(dim.constant());
  return shape;
}

// The operands of a lone step, by its inputs' names.
class Operands {
 public:
  Operands(LoneStep& lone, const Extreme& extreme, uint64_t seed)
      : plan_(lone.plan), extreme_(extreme), random_(seed) {
    for (const size_t input : extreme.cleared) clear(input);
    for (const int32_t in : plan_.inputs) {
      const plan::PlanValue& v = plan_.value(in);
      EvalTensor& array = arrays_[in] = EvalTensor(v.dtype, sizes_of(v.shape));
      for (double& x : array.f) x = noise(random_);
      for (int64_t& x : array.i) x = v.dtype == DType::kBool ? 1 : 0;
    }
    const plan::Step& step = plan_.steps[0];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const auto fill_with = extreme.operands.find(i);
      if (fill_with != extreme.operands.end() && step.has_input(i))
        fill(step.inputs[i], fill_with->second);
    }
    for (size_t t = 0; t < extreme.tables; ++t) fill_table(t);
  }
  NamedTensors tensors() const {
    NamedTensors named;
    for (const int32_t in : plan_.inputs)
      named.emplace_back(plan_.value(in).name, arrays_.at(in).to_tensor());
    return named;
  }

 private:
  // Through the views that the step has of an array (q, k and v of one product).
  void fill(int32_t index, const Fill& with) {
    const plan::PlanValue& v = plan_.value(index);
    const auto array = arrays_.find(plan_.base_index(index));
    if (array == arrays_.end()) return;  // a constant
    const Shape shape = sizes_of(v.shape);
    const Shape strides = v.strides.empty() ? row_major_strides(shape) : sizes_of(v.strides);
    const int64_t offset = v.kind == Kind::kAlias ? v.offset_elems.constant() : 0;
    std::vector<int64_t> place(shape.size(), 0);
    for (int64_t flat = 0; flat < num_elems(shape); ++flat) {
      int64_t at = offset;
      for (size_t d = 0; d < place.size(); ++d) at += place[d] * strides[d];
      const double value = with(shape, flat, random_);
      EvalTensor& t = array->second;
      if (t.is_float())
        t.f[at] = value;
      else
        t.i[at] = static_cast<int64_t>(value);
      for (size_t d = place.size(); d-- > 0 && ++place[d] == shape[d];) place[d] = 0;
    }
  }
  // A constant that is read as it lies, and its blob; null: it is none.
  plan::Blob* blob_of(size_t input) {
    const plan::Step& step = plan_.steps[0];
    if (!step.has_input(input)) return nullptr;
    const plan::PlanValue& v = plan_.value(step.inputs[input]);
    return v.kind == Kind::kConstant && is_float(v.dtype) ? &plan_.blob(v.constant) : nullptr;
  }
  void clear(size_t input) {
    plan::Blob* blob = blob_of(input);
    if (blob != nullptr) blob->bytes = EvalTensor(blob->dtype, blob->shape).to_tensor();
  }
  // The first table that ids look into has the rows, the others zeros.
  void fill_table(size_t t) {
    constexpr int64_t kMostRows = 60;
    const plan::Step& step = plan_.steps[0];
    plan::Blob* table = blob_of(2 * t + 1);
    if (table == nullptr || !step.has_input(2 * t) || table->shape.size() != 2) return;
    const auto ids = arrays_.find(plan_.base_index(step.inputs[2 * t]));
    const bool first = ids != arrays_.end() && !filled_;
    filled_ = filled_ || first;
    if (ids != arrays_.end()) {
      table->shape[0] = std::min(table->shape[0], kMostRows);
      plan_.value(step.inputs[2 * t + 1]).shape[0] = table->shape[0];
      for (int64_t& id : ids->second.i)
        id = std::uniform_int_distribution<int64_t>(0, table->shape[0] - 1)(random_);
    }
    EvalTensor rows(table->dtype, table->shape);
    for (int64_t i = 0; first && i < rows.elems(); ++i)
      rows.f[i] = of_a_norm({i / table->shape[1], i % table->shape[1], table->shape[1]}, random_);
    table->bytes = rows.to_tensor();
  }

  plan::Plan& plan_;
  const Extreme& extreme_;
  Random random_;
  std::map<int32_t, EvalTensor> arrays_;  // by the plan's inputs
  bool filled_ = false;
};

StepResult judged(const Context& context, LoneStep lone, const Extreme& extreme) {
  // Before the plan moves into its engine: the operands are of its values.
  const NamedTensors operands = Operands(lone, extreme, context.subject.request.seed).tensors();
  const backend::Backend& backend = context.subject.backend;
  const std::shared_ptr<const Engine> engine =
      Engine::Impl::engine_of(std::move(lone.plan), backend);
  Replay watch(engine->impl().plan, backend, kSignallingNan);
  Runner(engine, {.threads = context.subject.request.threads, .limits = context.subject.limits})
      .run(operands, watch);
  return watch.steps().at(0);
}

}  // namespace

bool has_extreme_operands(const plan::Step& step) { return extreme_of(step).has_value(); }

ExtremeSteps run_on_extreme_operands(const Context& context,
                                     const std::map<std::string, int64_t>& sizes,
                                     std::set<std::string>& seen) {
  const plan::Plan& plan = context.subject.plan;
  ExtremeSteps result;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const std::optional<Extreme> extreme = extreme_of(plan.steps[s]);
    if (!extreme) continue;
    std::optional<LoneStep> lone = lone_step(plan, s, sizes);
    if (lone && !seen.insert(key_of(*lone)).second) continue;
    const auto refused = [&](const std::string& why) {
      result.refused.push_back(step_text(plan, static_cast<int32_t>(s)) + ": " + why);
    };
    if (!lone) {
      refused("a size depends on data");
      continue;
    }
    try {
      StepResult step = judged(context, std::move(*lone), *extreme);
      step.step = static_cast<int32_t>(s);
      result.steps.push_back(std::move(step));
      result.operands.emplace_back(extreme->what);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      refused(error.what());
    }
  }
  return result;
}

}  // namespace vernier::verify
