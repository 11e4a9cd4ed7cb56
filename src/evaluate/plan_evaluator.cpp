// F and I, the FP64 evaluations of a plan: see plan_evaluator.h.
#include "evaluate/plan_evaluator.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "core/evaluator.h"
#include "core/value_rules.h"
#include "rules/rules.h"
#include "runtime/proof.h"

namespace vernier::evaluate {

std::map<std::string, int64_t> bind_symbols(const plan::Plan& plan,
                                            const std::vector<Tensor>& inputs) {
  std::map<std::string, int64_t> symbols;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const SymShape& shape = plan.value(plan.inputs[i]).shape;
    VERNIER_ASSERT(shape.size() == inputs[i].rank(), plan.input_names[i]);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (const auto symbol = shape[d].as_symbol()) symbols.emplace(*symbol, inputs[i].shape()[d]);
    }
  }
  return symbols;
}

EvalTensor unpacked(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
                    const plan::PackedInput& packed) {
  const plan::Blob& blob = plan.blob(packed.blob);
  const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
  VERNIER_ASSERT(kernel && kernel->unpack, step.kernel);
  const backend::Problem problem = runtime::problem_of(plan, step);
  return EvalTensor::from(
      kernel->unpack(problem, {packed.input, blob.layout, blob.bytes.byte_span()}));
}

// Uniform noise, not ±size: two operands that share a large element would cancel half of the time.
EvalTensor perturbed(const EvalTensor& t, double size, uint64_t seed) {
  constexpr double kRoot3 = 1.7320508075688772;  // a uniform value in ±√3 has deviation 1
  constexpr size_t kDraws = 4, kBits = 16;       // of one random word
  EvalTensor noisy = t;
  std::mt19937_64 random(seed);
  uint64_t word = 0;
  for (size_t i = 0; i < noisy.f.size(); ++i) {
    word = i % kDraws == 0 ? random() : word >> kBits;
    const double uniform = (static_cast<double>(word & 0xffff) - 32767.5) / 32767.5;
    noisy.f[i] *= 1 + size * kRoot3 * uniform;
  }
  return noisy;
}

double sum_length(const plan::Step& step, std::span<const Shape> in, std::span<const Shape> out,
                  std::span<const DType> in_types, std::span<const DType> out_types) {
  const rules::Cost cost = rules::cost(step.op, {step.attrs, in, out, in_types, out_types});
  int64_t elems = 0;
  for (const Shape& shape : out) elems += num_elems(shape);
  return elems > 0 ? std::max(1.0, cost.flops / 2 / static_cast<double>(elems)) : 1.0;
}

void PlanEvaluator::add_noise(size_t index, const std::vector<EvalTensor>& outputs,
                              Inputs& inputs) const {
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  for (const auto& t : inputs) {
    in.push_back(t ? t->shape : Shape{});
    in_types.push_back(t ? t->dtype : DType::kUndefined);
  }
  for (const EvalTensor& t : outputs) {
    out.push_back(t.shape);
    out_types.push_back(t.dtype);
  }
  const double length = sum_length(plan_.steps[index], in, out, in_types, out_types);
  const uint64_t draw =
      options_.seed * 0x9e3779b97f4a7c15u;  // seeds far apart: 2^64 / golden ratio
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && inputs[i]->is_float())
      inputs[i] = perturbed(*inputs[i], kSingleUnit * std::sqrt(length), draw + index * 64 + i);
  }
}

namespace {

// How many inputs of a product are just its operands: input i is what point i rounds. Not those of
// an Attention that rotates q and k first.
size_t num_operands(const plan::Step& step, const std::vector<std::optional<EvalTensor>>& inputs) {
  constexpr size_t kCosine = 7;  // input of Attention
  if ((flags(step.op) & kProduct) == 0) return 0;
  if (step.op == OpKind::kAttention && inputs.size() > kCosine && inputs[kCosine]) return 0;
  const auto points = rounding_points(step.op);
  const auto is_operand = [](std::string_view point) { return point.size() == 1; };  // a b, q k v
  return static_cast<size_t>(std::ranges::find_if_not(points, is_operand) - points.begin());
}

// Takes the operands at their points now, so that the noise of what follows is not rounded away.
void round_operands(const plan::Step& step, std::vector<std::optional<EvalTensor>>& inputs,
                    Rounding& rounding) {
  for (size_t i = 0; i < num_operands(step, inputs); ++i) {
    if (!inputs[i] || !inputs[i]->is_float()) continue;
    for (double& v : inputs[i]->f) v = rounding(i, v);
    rounding.set(i, {});
  }
}

}  // namespace

PlanEvaluator::PlanEvaluator(const plan::Plan& plan, const backend::Backend& backend,
                             EvaluatorOptions options)
    : plan_(plan),
      backend_(backend),
      options_(std::move(options)),
      guards_(plan.guards),
      values_(plan.values.size()),
      dies_after_(plan.steps.size()) {
  const std::vector<plan::Guard> unproven = runtime::prove_shapes(plan);
  guards_.insert(guards_.end(), unproven.begin(), unproven.end());
  // An output stays, and so does what an output is a view of.
  std::vector<bool> stays(plan.values.size(), false);
  for (int32_t output : plan.outputs) {
    const int32_t base = plan.value(output).alias_of;
    stays[base == plan::kNone ? output : base] = true;
  }
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const plan::PlanValue& value = plan.values[v];
    if (value.kind == plan::PlanValue::Kind::kArena && value.last_step != plan::kNone && !stays[v])
      dies_after_[value.last_step].push_back(v);
  }
}

Shape PlanEvaluator::shape_of(const SymShape& shape) const {
  Shape sizes;
  for (const Dim& d : shape) sizes.push_back(d.evaluate(symbols_));
  return sizes;
}

void PlanEvaluator::begin(const std::vector<Tensor>& inputs) {
  symbols_ = bind_symbols(plan_, inputs);
  runtime::check_sizes(plan_, guards_, symbols_);
  if (options_.watch.limits_memory())
    options_.watch.check_memory(bytes(symbols_), "the FP64 evaluation of the engine's plan");
  std::fill(values_.begin(), values_.end(), std::nullopt);
  for (size_t i = 0; i < plan_.inputs.size(); ++i) {
    slot_of(plan_.inputs[i]) = EvalTensor::from(inputs[i]);
  }
}

uint64_t PlanEvaluator::bytes(const std::map<std::string, int64_t>& symbols) const {
  constexpr uint64_t kElemBytes = 8;
  const auto bytes_of = [&](int32_t index) {
    uint64_t size = kElemBytes;
    for (const Dim& d : plan_.value(index).shape)
      size = saturating_product(size,
                                static_cast<uint64_t>(std::max<int64_t>(d.evaluate(symbols), 0)));
    return size;
  };
  uint64_t live = 0, most = 0;
  for (int32_t in : plan_.inputs) live = saturating_sum(live, bytes_of(in));
  for (size_t s = 0; s < plan_.steps.size(); ++s) {
    const plan::Step& step = plan_.steps[s];
    uint64_t read = 0;
    for (int32_t in : step.inputs)
      if (in != plan::kNone) read = saturating_sum(read, bytes_of(in));
    for (const plan::PackedInput& p : step.packed) {
      const plan::Blob& blob = plan_.blob(p.blob);
      read = saturating_sum(read, saturating_product(num_elems(blob.shape), kElemBytes));
    }
    for (int32_t out : step.outputs)
      if (out != plan::kNone) live = saturating_sum(live, bytes_of(out));
    most = std::max(most, saturating_sum(live, read));
    for (size_t dead : dies_after_[s]) live -= std::min(live, bytes_of(static_cast<int32_t>(dead)));
  }
  return most;
}

EvalTensor view_of(const plan::PlanValue& v, const EvalTensor& base,
                   const std::map<std::string, int64_t>& symbols) {
  const auto sizes = [&](const SymShape& shape) {
    Shape result;
    for (const Dim& d : shape) result.push_back(d.evaluate(symbols));
    return result;
  };
  EvalTensor t(v.dtype, sizes(v.shape));
  const Shape strides = v.strides.empty() ? row_major_strides(t.shape) : sizes(v.strides);
  const int64_t offset = v.offset_elems.evaluate(symbols);
  std::vector<int64_t> index_of(t.rank(), 0);
  for (int64_t flat = 0; flat < t.elems(); ++flat) {
    int64_t at = offset;
    for (size_t d = 0; d < index_of.size(); ++d) at += index_of[d] * strides[d];
    if (t.is_float())
      t.f[flat] = base.f[at];
    else
      t.i[flat] = base.i[at];
    for (size_t d = index_of.size(); d-- > 0 && ++index_of[d] == t.shape[d];) index_of[d] = 0;
  }
  return t;
}

EvalTensor PlanEvaluator::value(size_t index) const {
  const plan::PlanValue& v = plan_.values[index];
  using Kind = plan::PlanValue::Kind;
  if (v.kind == Kind::kConstant) return EvalTensor::from(plan_.blob(v.constant).bytes);
  if (v.kind == Kind::kShapeValues) {
    EvalTensor t(v.dtype, shape_of(v.shape));
    for (size_t i = 0; i < t.i.size(); ++i) t.i[i] = v.values[i].evaluate(symbols_);
    return t;
  }
  if (v.kind != Kind::kAlias) {
    VERNIER_ASSERT(values_[index].has_value(),
                   "plan value " + std::to_string(index) + " is not live");
    return *values_[index];
  }
  return view_of(v, value(v.alias_of), symbols_);
}

void PlanEvaluator::set_exact_constant(size_t step, size_t input, const Tensor& contents) {
  const plan::Step& s = plan_.steps[step];
  Shape held = contents.shape();
  for (const plan::PackedInput& p : s.packed) {
    if (p.at() == input) held = plan_.blob(p.blob).shape;
  }
  VERNIER_ASSERT(held == contents.shape(), s.name);
  exact_constants_[{step, input}] = EvalTensor::from(contents);
}

size_t PlanEvaluator::num_inputs(size_t index) const {
  const plan::Step& step = plan_.steps[index];
  size_t count = step.inputs.size();
  for (const plan::PackedInput& p : step.packed) count = std::max(count, p.at() + 1);
  return count;
}

namespace {

struct CutTable {
  EvalTensor table, ids;
};
// Empty where an id is outside the table: the evaluator reports which.
std::optional<CutTable> cut(const Tensor& table, const EvalTensor& ids) {
  const int64_t rows = table.shape()[0], width = table.elems() / rows;
  std::map<int64_t, int64_t> places;  // of the rows that are read
  CutTable result{{}, ids};
  std::vector<double> contents;
  for (int64_t& id : result.ids.i) {
    if (id < -rows || id >= rows) return std::nullopt;
    const int64_t row = id < 0 ? id + rows : id;
    const auto [place, fresh] = places.emplace(row, static_cast<int64_t>(places.size()));
    id = place->second;
    for (int64_t i = 0; fresh && i < width; ++i)
      contents.push_back(table.float_at(row * width + i));
  }
  Shape shape = table.shape();
  shape[0] = static_cast<int64_t>(places.size());
  result.table = EvalTensor(table.dtype(), {0});
  result.table.shape = std::move(shape);
  result.table.f = std::move(contents);
  return result;
}

}  // namespace

void PlanEvaluator::cut_tables(size_t index, Inputs& held) const {
  constexpr int64_t kLargeElems = int64_t{1} << 20;
  const plan::Step& step = plan_.steps[index];
  if (step.op != OpKind::kGather && step.op != OpKind::kEmbedNorm) return;
  for (const ValueRule& rule : value_rules(step.op, step.attrs, step.inputs.size())) {
    const auto t = static_cast<size_t>(rule.table), i = static_cast<size_t>(rule.input);
    if (rule.axis != 0 || t >= step.inputs.size() || step.inputs[t] == plan::kNone ||
        i >= step.inputs.size() || step.inputs[i] == plan::kNone ||
        exact_constants_.contains({index, t}))
      continue;
    const plan::PlanValue& v = plan_.value(step.inputs[t]);
    if (v.kind != plan::PlanValue::Kind::kConstant || !is_float(v.dtype)) continue;
    const Tensor& table = plan_.blob(v.constant).bytes;
    if (table.elems() < kLargeElems) continue;
    if (auto small = cut(table, value(step.inputs[i]))) {
      held[t] = std::move(small->table);
      held[i] = std::move(small->ids);
    }
  }
}

void PlanEvaluator::complete(size_t index, Inputs& held, std::vector<double>& memory) const {
  const plan::Step& step = plan_.steps[index];
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (held[i] || step.inputs[i] == plan::kNone) continue;
    const plan::PlanValue& v = plan_.value(step.inputs[i]);
    if (v.kind != plan::PlanValue::Kind::kConstant || !is_float(v.dtype)) {
      held[i] = value(step.inputs[i]);
      continue;
    }
    constexpr int64_t kLargeElems = int64_t{1} << 18;
    const Tensor& bytes = plan_.blob(v.constant).bytes;
    held[i] = bytes.elems() < kLargeElems ? EvalTensor::from(bytes)
                                          : EvalTensor::from(bytes, std::exchange(memory, {}));
  }
  for (const plan::PackedInput& p : step.packed) held[p.at()] = unpacked(plan_, backend_, step, p);
  if (options_.evaluation != Evaluation::kExact) return;
  for (size_t i = 0; i < held.size(); ++i) {
    const auto exact = exact_constants_.find({index, i});
    if (exact != exact_constants_.end()) held[i] = exact->second;
  }
}

std::vector<std::optional<EvalTensor>> PlanEvaluator::inputs_of(size_t index) const {
  Inputs held(num_inputs(index));
  std::vector<double> memory;
  complete(index, held, memory);
  return held;
}

// Layers have weights of equal size: to allocate memory for each costs more than the work on it.
void PlanEvaluator::keep_memory(Inputs& held) {
  constexpr size_t kMostElems = size_t{1} << 23;
  for (std::optional<EvalTensor>& t : held) {
    if (t && t->f.capacity() > spare_.capacity() && t->f.capacity() <= kMostElems)
      spare_ = std::move(t->f);
  }
}

std::vector<size_t> PlanEvaluator::exact_inputs(size_t step) const {
  std::vector<size_t> inputs;
  for (const auto& [at, contents] : exact_constants_)
    if (at.first == step) inputs.push_back(at.second);
  return inputs;
}

void PlanEvaluator::release_after(size_t step) {
  for (size_t v : dies_after_[step]) values_[v].reset();
}

std::vector<EvalTensor> PlanEvaluator::outputs_of(size_t index) const {
  std::vector<EvalTensor> out;
  for (int32_t o : plan_.steps[index].outputs) {
    if (o == plan::kNone) {
      out.emplace_back();
      continue;
    }
    const plan::PlanValue& v = plan_.value(o);
    out.emplace_back(v.dtype, shape_of(v.shape));
  }
  return out;
}

void PlanEvaluator::evaluate_step(size_t index, PointPeaks* peaks) {
  const plan::Step& step = plan_.steps[index];
  options_.watch.check_time([&] {
    return "evaluating step " + std::to_string(index) + " (" + step.kernel + ", '" + step.name +
           "') in FP64";
  });
  const bool ideal = options_.evaluation == Evaluation::kIdeal;
  Inputs held(num_inputs(index));
  cut_tables(index, held);
  complete(index, held, spare_);
  std::vector<EvalTensor> out = outputs_of(index);
  Rounding rounding = ideal ? ideal_rounding(step.op, step.numerics) : Rounding{};
  PointPeaks own_peaks{};
  if (options_.peaks && peaks == nullptr) peaks = &own_peaks;
  rounding.record(peaks);
  if (ideal) {
    round_operands(step, held, rounding);
    if (!is_simulated(rounding.accumulator())) add_noise(index, out, held);
  }
  std::vector<const EvalTensor*> in;
  for (const auto& t : held) in.push_back(t ? &*t : nullptr);
  evaluator(step.op)({step.attrs, in, out, rounding});
  keep_memory(held);
  // What only moves values has no point of its own; its result is stored all the same.
  if (peaks != nullptr && rounding_points(step.op).empty()) {
    for (const EvalTensor& t : out) rounding.see(0, t.f);
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] == plan::kNone) continue;
    const PointRounding stored{out[i].dtype};
    if (ideal && is_simulated(stored)) {
      for (double& v : out[i].f) v = rounded(stored, v);
    }
    slot_of(step.outputs[i]) = std::move(out[i]);
  }
  if (options_.peaks) options_.peaks(index, *peaks);
}

}  // namespace vernier::evaluate
