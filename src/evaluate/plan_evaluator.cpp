// F and I, the FP64 evaluations of a plan: see plan_evaluator.h.
#include "evaluate/plan_evaluator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/evaluator.h"
#include "core/fp64_device.h"
#include "core/token_rows.h"
#include "reference/cut_tables.h"
#include "reference/evaluate_anywhere.h"
#include "reference/noise_each.h"
#include "reference/round_each.h"
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
  for (const plan::TokenCount& count : plan.token_counts) {
    const Tensor& mask = inputs[count.input];
    const int64_t rows = mask.shape()[0], length = mask.shape()[1];
    const int64_t tokens =
        count_tokens(mask.dtype(), mask.byte_span().data(), rows, length, count.rule());
    symbols[count.name] = token_places(tokens, rows * length, count.parts);
  }
  return symbols;
}

Tensor unpacked_constant(const plan::Plan& plan, const backend::Backend& backend,
                         const plan::Step& step, const plan::PackedInput& packed) {
  const plan::Blob& blob = plan.blob(packed.blob);
  const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
  VERNIER_ASSERT(kernel && kernel->unpack, step.kernel);
  const backend::Problem problem = runtime::problem_of(plan, step);
  return kernel->unpack(problem, {packed.input, blob.layout, blob.bytes.byte_span()});
}

EvalTensor unpacked(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
                    const plan::PackedInput& packed) {
  return EvalTensor::from(unpacked_constant(plan, backend, step, packed));
}

// Uniform noise, not ±size: two operands that share a large element would cancel half of the time.
void perturb(const EvalTensor& t, double size, uint64_t seed, EvalTensor& noisy) {
  if (&noisy != &t) {
    noisy.dtype = t.dtype;
    noisy.shape = t.shape;
    noisy.i = t.i;
    noisy.f.resize(t.f.size());
  }
  reference::noise_each(t.f.data(), noisy.f.data(), std::ssize(t.f), size, seed);
}

// Small whole numbers are as they were: f32 adds and multiplies them exactly. A mask's (1 - 1)·F is
// 0, which noise on both ones would make any number, F being the lowest of f32.
void keep_whole_numbers(const EvalTensor& t, EvalTensor& noisy) {
  constexpr double kLargest = 1 << 16;
  for (size_t i = 0; i < t.f.size(); ++i) {
    const double v = t.f[i];
    if (std::abs(v) <= kLargest && v == std::trunc(v)) noisy.f[i] = v;
  }
}

double sum_length(const plan::Step& step, std::span<const Shape> in, std::span<const Shape> out,
                  std::span<const DType> in_types, std::span<const DType> out_types) {
  const rules::Cost cost = rules::cost(step.op, {step.attrs, in, out, in_types, out_types});
  int64_t elems = 0;
  for (const Shape& shape : out) elems += num_elems(shape);
  return elems > 0 ? std::max(1.0, cost.flops / 2 / static_cast<double>(elems)) : 1.0;
}

void PlanEvaluator::add_noise(size_t index, const std::vector<EvalTensor>& outputs, Held& held,
                              Fp64Device* device) const {
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  for (const EvalTensor* t : held.in) {
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
  for (size_t i = 0; i < held.in.size(); ++i) {
    if (!held.in[i] || !held.in[i]->is_float()) continue;
    const Fp64Device::Noise noise{
        .size = kSingleUnit * std::sqrt(length),
        .seed = draw + index * 64 + i,
        .keeps_whole_numbers = (flags(plan_.steps[index].op) & kElementwise) != 0};
    if (device != nullptr) {
      held.keep(i, device->perturbed(*held.in[i], noise));
      continue;
    }
    if (held.own[i] && !noise.keeps_whole_numbers) {
      perturb(*held.own[i], noise.size, noise.seed, *held.own[i]);
      continue;
    }
    EvalTensor noisy;
    noisy.f = spare_.take(held.in[i]->f.size());
    perturb(*held.in[i], noise.size, noise.seed, noisy);
    if (noise.keeps_whole_numbers) keep_whole_numbers(*held.in[i], noisy);
    held.keep(i, std::move(noisy));
  }
}

namespace {

size_t operand_count(const plan::Step& step, bool rotates) {
  if ((flags(step.op) & kProduct) == 0 || rotates) return 0;
  const auto points = rounding_points(step.op);
  const auto is_operand = [](std::string_view point) { return point.size() == 1; };  // a b, q k v
  return static_cast<size_t>(std::ranges::find_if_not(points, is_operand) - points.begin());
}
constexpr size_t kCosine = 7;  // input of Attention

}  // namespace

size_t num_operands(const plan::Step& step, std::span<const EvalTensor* const> inputs) {
  return operand_count(
      step, step.op == OpKind::kAttention && inputs.size() > kCosine && inputs[kCosine] != nullptr);
}

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

uint64_t PlanEvaluator::bytes(std::map<std::string, int64_t> symbols) const {
  constexpr uint64_t kElemBytes = 8;
  plan_.add_bounds(symbols);
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
                   const std::map<std::string, int64_t>& symbols, std::vector<double> memory) {
  const auto sizes = [&](const SymShape& shape) {
    Shape result;
    for (const Dim& d : shape) result.push_back(d.evaluate(symbols));
    return result;
  };
  EvalTensor t = EvalTensor::shaped(v.dtype, sizes(v.shape));
  const Shape strides = v.strides.empty() ? row_major_strides(t.shape) : sizes(v.strides);
  const int64_t offset = v.offset_elems.evaluate(symbols), elems = t.elems();
  // A row along the last axis at a time, or along all last axes that follow each other in memory.
  size_t outer = std::max<size_t>(t.rank(), 1) - 1;
  int64_t cols = t.rank() == 0 ? 1 : t.shape.back();
  const int64_t step = t.rank() == 0 ? 1 : strides.back();
  while (outer > 0 && strides[outer - 1] == cols * step) cols *= t.shape[--outer];
  const auto copy = [&](const auto& from, auto& to) {
    to.resize(static_cast<size_t>(elems));
    std::vector<int64_t> index_of(outer, 0);
    for (int64_t flat = 0; flat < elems; flat += cols) {
      int64_t at = offset;
      for (size_t d = 0; d < outer; ++d) at += index_of[d] * strides[d];
      if (step == 1)
        std::copy_n(from.begin() + at, cols, to.begin() + flat);
      else
        for (int64_t j = 0; j < cols; ++j) to[flat + j] = from[at + j * step];
      for (size_t d = outer; d-- > 0 && ++index_of[d] == t.shape[d];) index_of[d] = 0;
    }
  };
  if (t.is_float()) {
    t.f = std::move(memory);
    copy(base.f, t.f);
  } else {
    copy(base.i, t.i);
  }
  return t;
}

EvalTensor PlanEvaluator::value(size_t index) const {
  EvalTensor t = value_anywhere(index);
  t.to_host();
  return t;
}

EvalTensor PlanEvaluator::value_anywhere(size_t index) const {
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
  const std::optional<EvalTensor>& live = values_[v.alias_of];
  const EvalTensor made = live ? EvalTensor{} : value_anywhere(static_cast<size_t>(v.alias_of));
  const EvalTensor& base = live ? *live : made;
  const Shape shape = shape_of(v.shape);
  if (base.there == nullptr)
    return view_of(v, base, symbols_, spare_.take(static_cast<size_t>(num_elems(shape))));
  const Shape strides = v.strides.empty() ? row_major_strides(shape) : shape_of(v.strides);
  EvalTensor view = fp64_device()->strided(base, shape, strides, v.offset_elems.evaluate(symbols_));
  view.dtype = v.dtype;
  return view;
}

void PlanEvaluator::set_exact_constant(size_t step, size_t input, const Tensor& contents) {
  const plan::Step& s = plan_.steps[step];
  Shape held = contents.shape();
  for (const plan::PackedInput& p : s.packed) {
    if (p.at() == input) held = plan_.blob(p.blob).shape;
  }
  VERNIER_ASSERT(held == contents.shape(), s.name);
  exact_constants_[{step, input}] = contents;
}

size_t PlanEvaluator::num_inputs(size_t index) const {
  const plan::Step& step = plan_.steps[index];
  size_t count = step.inputs.size();
  for (const plan::PackedInput& p : step.packed) count = std::max(count, p.at() + 1);
  return count;
}

namespace {

// Makes the values of `constant` in the memory that it is given.
auto from(const Tensor& constant) {
  return [&constant](std::vector<double> memory) {
    return EvalTensor::from(constant, std::move(memory));
  };
}

}  // namespace

void PlanEvaluator::read_constant(const Tensor& constant, size_t input, Held& held,
                                  const Make& make) const {
  if (options_.constants == nullptr)
    return held.keep(input, make(spare_.take(static_cast<size_t>(constant.elems()))));
  held.shared[input] = options_.constants->get(constant, [&] { return make({}); });
  held.in[input] = held.shared[input].get();
}

std::vector<double> SpareMemory::take(size_t elems) {
  if (elems < kLeastElems) return {};
  const auto same = std::ranges::find(arrays_, elems, &std::vector<double>::size);
  if (same == arrays_.end()) return {};
  std::vector<double> found = std::move(*same);
  arrays_.erase(same);
  return found;
}

void SpareMemory::keep(std::vector<double> array) {
  constexpr size_t kMostElems = size_t{1} << 23;
  if (array.size() < kLeastElems || array.size() > kMostElems) return;
  size_t elems = array.size();
  for (const std::vector<double>& kept : arrays_) elems += kept.size();
  while (elems > kMostElems) {
    elems -= arrays_.front().size();
    arrays_.erase(arrays_.begin());
  }
  arrays_.push_back(std::move(array));
}

void PlanEvaluator::keep_memory(Held& held) {
  for (std::optional<EvalTensor>& t : held.own)
    if (t) spare_.keep(std::move(t->f));
}

void PlanEvaluator::read_value(int32_t index, size_t input, Held& held) const {
  const plan::PlanValue& v = plan_.value(index);
  using Kind = plan::PlanValue::Kind;
  if (v.kind == Kind::kConstant) {
    const Tensor& bytes = plan_.blob(v.constant).bytes;
    return read_constant(bytes, input, held, from(bytes));
  }
  if (v.kind == Kind::kShapeValues || v.kind == Kind::kAlias)
    return held.keep(input, value_anywhere(static_cast<size_t>(index)));
  const std::optional<EvalTensor>& live = values_[index];
  VERNIER_ASSERT(live.has_value(), "plan value " + std::to_string(index) + " is not live");
  held.in[input] = &*live;
}

PlanEvaluator::Held PlanEvaluator::read(size_t index, std::vector<LargeTable>* tables) const {
  const plan::Step& step = plan_.steps[index];
  Held held(num_inputs(index));
  const auto exact = [&](size_t i) -> const Tensor* {
    const auto found = exact_constants_.find({index, i});
    const bool is_taken =
        options_.evaluation == Evaluation::kExact && found != exact_constants_.end();
    return is_taken ? &found->second : nullptr;
  };
  const auto read_input = [&](size_t i) {
    if (const Tensor* contents = exact(i))
      read_constant(*contents, i, held, from(*contents));
    else
      read_value(step.inputs[i], i, held);
  };
  // Integers first: they say which rows of tables are read.
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.has_input(i) && !is_float(plan_.value(step.inputs[i]).dtype)) read_input(i);
  }
  const auto table = [&](size_t i) -> const Tensor* {
    if (const Tensor* contents = exact(i)) return contents;
    const bool is_constant =
        step.has_input(i) && plan_.value(step.inputs[i]).kind == plan::PlanValue::Kind::kConstant;
    return is_constant ? &plan_.blob_of(plan_.value(step.inputs[i])).bytes : nullptr;
  };
  const auto ids = [&](size_t i) { return held.in[i]; };
  const bool device_keeps =
      tables == nullptr && options_.constants != nullptr && fp64_device() != nullptr;
  for (reference::CutTable& cut :
       reference::cut_tables(step.op, step.attrs, step.inputs.size(), table, ids, device_keeps)) {
    if (tables != nullptr)
      tables->push_back({cut.table_input, cut.ids_input, table(cut.table_input)});
    held.keep(cut.table_input, std::move(cut.table));
    held.keep(cut.ids_input, std::move(cut.ids));
  }
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.has_input(i) && !held.in[i]) read_input(i);
  }
  for (const plan::PackedInput& p : step.packed) {
    if (const Tensor* contents = exact(p.at())) {
      read_constant(*contents, p.at(), held, from(*contents));
    } else {
      read_constant(plan_.blob(p.blob).bytes, p.at(), held,
                    [&](const std::vector<double>&) { return unpacked(plan_, backend_, step, p); });
    }
  }
  return held;
}

std::vector<std::optional<EvalTensor>> PlanEvaluator::inputs_of(size_t index) const {
  std::vector<LargeTable> tables;
  const Held held = read(index, &tables);
  std::vector<std::optional<EvalTensor>> inputs(held.in.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!held.in[i]) continue;
    inputs[i] = *held.in[i];
    inputs[i]->to_host();
  }
  for (const LargeTable& large : tables) {
    Held ids(held.in.size());
    read_value(plan_.steps[index].inputs[large.ids], large.ids, ids);
    inputs[large.table].reset();
    inputs[large.ids] = *ids.in[large.ids];
  }
  return inputs;
}

std::vector<PlanEvaluator::LargeTable> PlanEvaluator::large_tables(size_t index) const {
  // Other operators have none; reading their weights would take long.
  const OpKind op = plan_.steps[index].op;
  std::vector<LargeTable> tables;
  if (op == OpKind::kGather || op == OpKind::kEmbedNorm) read(index, &tables);
  return tables;
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
    out.push_back(EvalTensor::shaped(v.dtype, shape_of(v.shape)));
  }
  return out;
}

// Takes the operands at their points now, so that the noise of what follows is not rounded away.
void PlanEvaluator::round_operands(size_t index, Rounding& rounding, Held& held,
                                   Fp64Device* device) const {
  const plan::Step& step = plan_.steps[index];
  const bool rotates =
      step.op == OpKind::kAttention && held.in.size() > kCosine && held.in[kCosine];
  for (size_t i = 0; i < operand_count(step, rotates); ++i) {
    if (!held.in[i] || !held.in[i]->is_float()) continue;
    // A constant of the point's type is on its grid.
    const PointRounding& at = rounding.at(i);
    const bool changes = rounding.changes(i) && !(held.shared[i] && held.in[i]->dtype == at.type &&
                                                  at.mode == PointRounding::Mode::kNearest);
    if (device != nullptr) {
      device->see(rounding, i, *held.in[i]);
      if (changes) held.keep(i, device->rounded(rounding.at(i), *held.in[i]));
    } else if (changes) {
      if (!held.own[i]) held.keep(i, *held.in[i]);
      reference::round_each(rounding, i, held.own[i]->f);
    } else {
      rounding.see(i, held.in[i]->f);
    }
    rounding.set(i, {});
  }
}

void PlanEvaluator::set_value(size_t index, EvalTensor value) {
  for (const plan::DataSize& data : plan_.data_sizes) {
    if (plan_.step(data.step).outputs[static_cast<size_t>(data.output)] !=
        static_cast<int32_t>(index))
      continue;
    symbols_[data.name] = value.shape.at(static_cast<size_t>(data.axis)) + 1;
  }
  values_[index] = std::move(value);
}

// The sizes of its outputs that only data say become known.
runtime::FoundSizes PlanEvaluator::find_sizes(size_t index, const Held& held) {
  const plan::Step& step = plan_.steps[index];
  std::vector<runtime::KnownInput> inputs;
  for (const EvalTensor* t : held.in) {
    runtime::KnownInput& input = inputs.emplace_back();
    if (t != nullptr)
      input = {t->dtype, t->shape, runtime::says_sizes(step.op, t->shape) ? t : nullptr};
  }
  runtime::FoundSizes found = runtime::find_sizes(plan_, step, inputs);
  runtime::bind_data_sizes(plan_, static_cast<int32_t>(index), found, [&](size_t i, int64_t size) {
    symbols_[plan_.data_sizes[i].name] = size;
  });
  runtime::check_sizes(plan_, guards_, symbols_);
  std::vector<Shape> declared;
  for (int32_t out : step.outputs)
    declared.push_back(out == plan::kNone ? Shape() : shape_of(plan_.value(out).shape));
  runtime::check_found_sizes(step, found, declared);
  return found;
}

void PlanEvaluator::evaluate_step(size_t index, PointPeaks* peaks) {
  const plan::Step& step = plan_.steps[index];
  options_.watch.check_time([&] {
    return "evaluating step " + std::to_string(index) + " (" + step.kernel + ", '" + step.name +
           "') in FP64";
  });
  const bool ideal = options_.evaluation == Evaluation::kIdeal;
  Held held = read(index);
  const bool finds = plan_.begins_segment(static_cast<int32_t>(index));
  if (finds) held.to_host();
  runtime::FoundSizes found = finds ? find_sizes(index, held) : runtime::FoundSizes();
  const bool is_done = !found.results.empty();
  std::vector<EvalTensor> out = is_done ? std::move(found.results) : outputs_of(index);
  Rounding rounding = ideal ? ideal_rounding(step.op, step.numerics) : Rounding{};
  const PointRounding of_chain = inner_of_chain(step.op, step.numerics);
  if (ideal && of_chain.type != DType::kUndefined) rounding.set_inner(of_chain);
  PointPeaks own_peaks{};
  if (options_.peaks && peaks == nullptr) peaks = &own_peaks;
  rounding.record(peaks);
  if (!is_done) {
    const EvalCall call{step.attrs, held.in, out, rounding};
    Fp64Device* device = reference::device_for(step.op, call);
    if (device == nullptr) held.to_host();
    if (ideal) {
      round_operands(index, rounding, held, device);
      if (!is_simulated(rounding.accumulator())) add_noise(index, out, held, device);
    }
    reference::evaluate_on(device, step.op, call);
  }
  keep_memory(held);
  // What only moves values has no point of its own; its result is stored all the same.
  if (peaks != nullptr && rounding_points(step.op).empty()) {
    for (const EvalTensor& t : out) {
      if (t.there)
        fp64_device()->see(rounding, 0, t);
      else
        rounding.see(0, t.f);
    }
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] == plan::kNone) continue;
    const PointRounding stored{out[i].dtype};
    if (ideal && is_simulated(stored)) {
      if (out[i].there)
        out[i] = fp64_device()->rounded(stored, out[i]);
      else
        reference::round_each(stored, out[i].f);
    }
    slot_of(step.outputs[i]) = std::move(out[i]);
  }
  if (options_.peaks) options_.peaks(index, *peaks);
}

}  // namespace vernier::evaluate
