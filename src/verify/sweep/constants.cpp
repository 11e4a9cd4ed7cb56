// Constants: see constants.h.
#include "verify/sweep/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/attrs.h"
#include "core/numerics.h"
#include "core/threads.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "verify/metrics.h"
#include "verify/runner.h"

namespace vernier::verify {
namespace {

using plan::DerivationRow;

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

// One type for floats that are held in several (a model in 16 bits holds some in f32).
DType common_float(const std::vector<Tensor>& tensors) {
  DType common = DType::kUndefined;
  for (const Tensor& t : tensors) {
    if (!t.defined() || !is_float(t.dtype()) || is_small_float(t.dtype()) || t.dtype() == common)
      continue;
    common = common == DType::kUndefined || represents(t.dtype(), common) ? t.dtype()
             : represents(common, t.dtype())                              ? common
                                                                          : DType::kF32;
  }
  return common;
}

struct MissingConstant : Error {
  using Error::Error;
};

// The rows of a plan's derivations, evaluated. Each is rounded to its type, as the build does; the
// operator itself is evaluated in FP64.
class ModelConstants {
 public:
  ModelConstants(const plan::Plan& plan, const ir::Graph& model, const Watch& watch)
      : plan_(plan), model_(model), watch_(watch), uses_(plan.derivations.size(), 0) {
    for (size_t v = 0; v < model.num_values(); ++v) {
      const ir::Value& value = model.value(static_cast<ir::ValueId>(v));
      if (value.is_constant() && !value.name.empty()) named_[value.name] = &value.constant;
    }
    for (const DerivationRow& row : plan.derivations) {
      for (const int32_t in : row.inputs)
        if (in != plan::kNone) ++uses_[in];
    }
  }
  /// Throws MissingConstant where the model has no such constant, Error(kInput) where an operator
  /// refuses its operands.
  Tensor value(int32_t index) {
    std::vector<int32_t> open{index};
    std::map<int32_t, Tensor> ready;
    while (!open.empty()) {
      const int32_t at = open.back();
      const size_t before = open.size();
      for (const int32_t in : row(at).inputs)
        if (in != plan::kNone && !ready.contains(in) && !take_kept(in, ready)) open.push_back(in);
      if (open.size() > before) continue;
      open.pop_back();
      if (ready.contains(at)) continue;
      ready[at] = evaluate(at, ready);
      if (uses_[at] > 1) kept_[at] = ready[at];
    }
    return ready.at(index);
  }

 private:
  const DerivationRow& row(int32_t index) const { return plan_.derivations[index]; }
  bool take_kept(int32_t index, std::map<int32_t, Tensor>& ready) const {
    const auto kept = kept_.find(index);
    if (kept != kept_.end()) ready[index] = kept->second;
    return kept != kept_.end();
  }
  static Tensor numbers(const DerivationRow& row) {
    const auto elems = static_cast<size_t>(num_elems(row.shape));
    if (row.numbers.size() == elems * size_bytes(row.dtype))
      return Tensor::from_bytes(row.dtype, row.shape, row.numbers);
    return Tensor::filled(row.dtype, row.shape, [&](std::byte* to) {
      for (size_t i = 0; i < elems; ++i)
        std::memcpy(to + i * row.numbers.size(), row.numbers.data(), row.numbers.size());
    });
  }
  const Tensor& of_the_model(const DerivationRow& row) const {
    const auto found = named_.find(row.name);
    if (found == named_.end() || found->second->dtype() != row.dtype ||
        found->second->shape() != row.shape) {
      throw MissingConstant(ErrorCode::kInput,
                            fmt::format("the model has no constant '{}' of type {}{}", row.name,
                                        name(row.dtype), str(row.shape)));
    }
    return *found->second;
  }
  Tensor evaluate(int32_t index, const std::map<int32_t, Tensor>& ready) const {
    const DerivationRow& r = row(index);
    if (r.kind == DerivationRow::Kind::kModel) return of_the_model(r);
    constexpr uint64_t kElemBytes = 8;
    watch_.check_memory(saturating_product(num_elems(r.shape), kElemBytes),
                        "a constant of the model");
    if (r.kind == DerivationRow::Kind::kNumbers) return numbers(r);
    std::vector<Tensor> inputs;
    for (const int32_t in : r.inputs) inputs.push_back(in == plan::kNone ? Tensor() : ready.at(in));
    return operate(r, inputs);
  }
  // A graph of the one node: inference proves the operands before they are evaluated.
  Tensor operate(const DerivationRow& r, const std::vector<Tensor>& inputs) const {
    watch_.check_time("evaluating the model's constants");
    ir::Graph graph;
    const DType common = common_float(inputs);
    std::vector<ir::ValueId> ids;
    for (const Tensor& t : inputs) {
      const bool converts =
          t.defined() && is_float(t.dtype()) && !is_small_float(t.dtype()) && t.dtype() != common;
      ids.push_back(!t.defined() ? ir::kNoValue
                                 : graph.add_constant(converts ? as_type(t, common) : t));
    }
    const auto output = static_cast<size_t>(r.output);
    const ir::NodeId node = graph.add_node(r.op, std::move(ids), r.attrs, outputs_of(r, inputs));
    ops::infer_node(graph, node);
    graph.outputs.push_back(graph.node(node).outputs[output]);
    graph.output_names.emplace_back("made");
    EvalTensor made = ops::evaluate(graph, {}, {}).outputs.at("made");
    if (made.shape != r.shape || made.is_float() != is_float(r.dtype)) {
      throw Error(ErrorCode::kInput,
                  fmt::format("{} gives {}{}, not {}{}", name(r.op), name(made.dtype),
                              str(made.shape), name(r.dtype), str(r.shape)));
    }
    made.dtype = r.dtype;
    return made.to_tensor();
  }
  // Up to the one that is wanted; a Split's rule wants all of its parts.
  static int outputs_of(const DerivationRow& r, const std::vector<Tensor>& inputs) {
    if (r.op != OpKind::kSplit) return r.output + 1;
    const auto attrs = decode<SplitAttrs>(r.attrs);
    int64_t parts = attrs.num_outputs;
    if (!attrs.sizes.empty()) {
      parts = static_cast<int64_t>(attrs.sizes.size());
    } else if (inputs.size() > 1 && inputs[1].defined()) {
      parts = inputs[1].elems();
    } else if (parts <= 0 && inputs[0].rank() == r.shape.size() && !r.shape.empty()) {
      const auto rank = static_cast<int64_t>(r.shape.size());
      const int64_t axis =
          std::clamp<int64_t>(attrs.axis < 0 ? attrs.axis + rank : attrs.axis, 0, rank - 1);
      const int64_t part = std::max<int64_t>(r.shape[axis], 1);
      parts = inputs[0].shape()[axis] / part;  // equal ones
    }
    constexpr int64_t kMostParts = 1 << 16;
    return static_cast<int>(std::clamp<int64_t>(parts, int64_t{r.output} + 1,
                                                std::max<int64_t>(kMostParts, r.output + 1)));
  }
  static Tensor as_type(const Tensor& t, DType type) {
    EvalTensor wide = EvalTensor::from(t);
    wide.dtype = type;
    return wide.to_tensor();
  }

  const plan::Plan& plan_;
  const ir::Graph& model_;
  Watch watch_;
  std::vector<int64_t> uses_;  // by other rows
  std::map<std::string, const Tensor*> named_;
  std::map<int32_t, Tensor> kept_;
};

// "Concat('q.weight', 'k.weight', …)", to a depth.
std::string expression(const plan::Plan& plan, int32_t index, int depth = 0) {
  constexpr int kDeepest = 3;
  constexpr size_t kMostInputs = 4;
  if (index == plan::kNone) return "-";
  const DerivationRow& row = plan.derivations[index];
  if (row.kind == DerivationRow::Kind::kModel) return "'" + row.name + "'";
  if (row.kind == DerivationRow::Kind::kNumbers) return "numbers";
  if (depth == kDeepest) return "…";
  std::string inputs;
  for (size_t i = 0; i < std::min(row.inputs.size(), kMostInputs); ++i)
    inputs += (i > 0 ? ", " : "") + expression(plan, row.inputs[i], depth + 1);
  if (row.inputs.size() > kMostInputs) inputs += ", …";
  return fmt::format("{}({})", name(row.op), inputs);
}

// Is every float the rounding of the model's? On all threads; false also where NaN is.
bool all_rounded(const Tensor& stored, const Tensor& exact) {
  constexpr int64_t kLeast = int64_t{1} << 16;  // elements of a thread
  const FloatRounder rounder(stored.dtype());
  std::atomic<bool> all{true};
  in_parallel(stored.elems(), kLeast, [&](int64_t begin, int64_t end) {
    constexpr int64_t kBlock = 1024;
    std::array<double, kBlock> is, should_be;
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t count = std::min(kBlock, end - i);
      read_floats(stored, i, count, is.data());
      read_floats(exact, i, count, should_be.data());
      bool same = true;
      for (int64_t j = 0; j < count; ++j) same = same && rounder.nearest(should_be[j]) == is[j];
      if (!same) {
        all = false;
        return;
      }
    }
  });
  return all;
}

// The first element that is not the rounding of the model's, and how many are not.
std::string complaint(const Tensor& stored, const Tensor& exact) {
  if (same_bytes(stored, exact)) return "";
  if (stored.shape() != exact.shape() || is_float(stored.dtype()) != is_float(exact.dtype())) {
    return fmt::format("is {}{}, not {}{}", name(stored.dtype()), str(stored.shape()),
                       name(exact.dtype()), str(exact.shape()));
  }
  if (is_float(stored.dtype()) && all_rounded(stored, exact)) return "";
  int64_t different = 0, first = 0;
  for (int64_t i = 0; i < stored.elems(); ++i) {
    bool same = false;
    if (is_float(stored.dtype())) {
      const double want = round_to(stored.dtype(), exact.float_at(i)), got = stored.float_at(i);
      same = want == got || same_non_finite(want, got);
    } else {
      same = stored.integer_at(i) == exact.integer_at(i);
    }
    if (!same && different++ == 0) first = i;
  }
  if (different == 0) return "";
  const auto number = [&](const Tensor& t) {
    return is_float(t.dtype()) ? fmt::format("{:.8g}", t.float_at(first))
                               : fmt::format("{}", t.integer_at(first));
  };
  return fmt::format(
      "is not the model's, rounded to {}: {} of {} elements differ, the first at {}, which is {} "
      "and should be {}",
      name(stored.dtype()), different, stored.elems(), position_text(first, stored.shape()),
      number(stored), number(exact));
}

// The place of the scale of element `i` of a weight of this shape.
int64_t scale_at(int64_t i, const Shape& shape, const WeightUnits& units) {
  const int64_t row = i / shape[1], col = i % shape[1];
  const int64_t column = units.trans_w ? row : col, term = units.trans_w ? col : row;
  if (units.block == 0) return column;
  return term / units.block * shape[units.trans_w ? 0 : 1] + column;
}

const double kLargestF8 = largest_finite(DType::kF8E4M3);

// A constant where a step reads it.
struct Place {
  size_t step = 0, input = 0;
  int32_t derivation = plan::kNone;
  std::string name;  // in the ONNX file, where it has one
  Tensor stored;
};

class Holder {
 public:
  Holder(const Context& context, const plan::Plan& plan)
      : context_(context), plan_(plan), model_(plan_, context.subject.model, context.watch) {}

  void hold_all() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const plan::Step& step = plan_.steps[s];
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (const auto place = plain(s, i)) hold(*place);
      }
      for (const plan::PackedInput& packed : step.packed) hold(unpack(s, packed));
    }
    for (const int32_t out : plan_.outputs) {
      const plan::PlanValue& v = plan_.base_of(out);
      if (v.kind == plan::PlanValue::Kind::kConstant)
        hold({plan_.steps.size(), 0, v.derivation, v.name, plan_.blob_of(v).bytes});
    }
  }
  std::vector<HeldConstant> take_held() { return std::move(held_); }
  std::vector<ExactConstant> take_exact() { return std::move(exact_); }

 private:
  std::optional<Place> plain(size_t s, size_t i) const {
    const int32_t index = plan_.steps[s].inputs[i];
    if (index == plan::kNone) return std::nullopt;
    const plan::PlanValue& v = plan_.base_of(index);
    if (v.kind != plan::PlanValue::Kind::kConstant) return std::nullopt;
    return Place{s, i, v.derivation, v.name, plan_.blob_of(v).bytes};
  }
  Place unpack(size_t s, const plan::PackedInput& packed) const {
    return {s, packed.at(), packed.derivation, "",
            unpacked_constant(plan_, context_.subject.backend, plan_.steps[s], packed)};
  }
  // The scales beside quantized weights; none of a constant that is no such weight or scale.
  std::optional<Tensor> scales_of(const Place& place) const {
    if (place.step >= plan_.steps.size()) return std::nullopt;
    const OpKind op = plan_.steps[place.step].op;
    if (op != OpKind::kQuantizedLinear && op != OpKind::kWeightOnlyLinear) return std::nullopt;
    const size_t at = op == OpKind::kQuantizedLinear ? 3 : 2;
    const auto scales = plain(place.step, at);
    const DType type = place.stored.dtype();
    const bool weight = place.input == 1 && (is_quantized_operand(type) || type == DType::kQ4) &&
                        !is_models_own(place);
    const bool scale = place.input == at && is_real_weight(place);
    return scales && (weight || scale) ? std::optional(scales->stored) : std::nullopt;
  }
  // Numbers of f8e4m3 that the model holds, not made by this build.
  bool is_models_own(const Place& place) const {
    return place.derivation != plan::kNone &&
           is_small_float(plan_.derivations[place.derivation].dtype);
  }
  // Is the derivation that of a matrix of another shape than the constant's?
  bool is_real_weight(const Place& place) const {
    if (place.derivation == plan::kNone) return false;
    const Shape& made = plan_.derivations[place.derivation].shape;
    return made.size() == 2 && made != place.stored.shape();
  }
  WeightUnits units_of(const plan::Step& step) const {
    if (step.op == OpKind::kQuantizedLinear)
      return {.trans_w = decode<QuantizedLinearAttrs>(step.attrs).trans_w,
              .most = step.numerics.compute == DType::kF8E4M3 ? kLargestF8 : 127.0};
    const auto attrs = decode<WeightOnlyLinearAttrs>(step.attrs);
    return {
        .trans_w = attrs.trans_w, .block = attrs.block_size, .most = attrs.bits == 4 ? 7.0 : 127.0};
  }

  void hold(const Place& place) {
    HeldConstant held;
    held.elems = place.stored.elems();
    held.made_of = expression(plan_, place.derivation);
    const bool is_input = place.step < plan_.steps.size();
    held.where = is_input ? fmt::format("input {} of {}", place.input,
                                        step_text(plan_, static_cast<int32_t>(place.step)))
                          : "an output";
    held.name = place.name;
    held.held = place.derivation != plan::kNone;
    try {
      if (held.held)
        held.why = judge(place, model_.value(place.derivation));
      else
        held.why = "nobody recorded how it was made";
    } catch (const MissingConstant& error) {
      held.why = fmt::format("cannot be made of the model: {}", error.what());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInput) throw;
      held.held = false;
      held.why = error.what();
    }
    held_.push_back(std::move(held));
  }

  std::string judge(const Place& place, const Tensor& exact) {
    const auto scales = scales_of(place);
    if (!scales) {
      std::string why = complaint(place.stored, exact);
      if (why.empty() && below_f32(place.stored.dtype())) take(place, exact);
      return why;
    }
    const WeightUnits units = units_of(plan_.steps[place.step]);
    if (place.input != 1) return scales_complaint(*scales, exact, units);
    std::string why = quantized_complaint(place.stored, *scales, exact, units);
    if (why.empty()) take(place, in_steps(exact, *scales, units));
    return why;
  }
  void take(const Place& place, const Tensor& exact) {
    if (place.step >= plan_.steps.size() || exact.shape() != place.stored.shape()) return;
    const int32_t index = place.input < plan_.steps[place.step].inputs.size()
                              ? plan_.steps[place.step].inputs[place.input]
                              : plan::kNone;
    if (index != plan::kNone && plan_.base_index(index) != index) return;  // a view of it
    exact_.push_back({place.step, place.input, exact});
  }
  static Tensor in_steps(const Tensor& exact, const Tensor& scales, const WeightUnits& units) {
    std::vector<double> values(static_cast<size_t>(exact.elems()));
    for (int64_t i = 0; i < exact.elems(); ++i)
      values[i] = exact.float_at(i) / scales.float_at(scale_at(i, exact.shape(), units));
    return Tensor::from(DType::kF32, exact.shape(), std::span<const double>(values));
  }

  const Context& context_;
  const plan::Plan& plan_;
  ModelConstants model_;
  std::vector<HeldConstant> held_;
  std::vector<ExactConstant> exact_;
};

// How many scales a weight of this shape has.
int64_t num_scales(const Shape& shape, const WeightUnits& units) {
  const int64_t columns = shape[units.trans_w ? 0 : 1], depth = shape[units.trans_w ? 1 : 0];
  return units.block == 0 ? columns : (depth + units.block - 1) / units.block * columns;
}

}  // namespace

std::string quantized_complaint(const Tensor& stored, const Tensor& scales, const Tensor& exact,
                                const WeightUnits& units) {
  constexpr double kHalfStep = 0.5 + 1e-4;  // the scale is in f32, and so is the quotient
  const bool is_f8 = units.most == kLargestF8;
  const UnitInLastPlace unit_of_f8(DType::kF8E4M3);
  const bool fits = stored.shape() == exact.shape() && exact.rank() == 2;
  if (!fits || scales.elems() != num_scales(exact.shape(), units))
    return fmt::format("is {}{}, not {}", name(stored.dtype()), str(stored.shape()),
                       str(exact.shape()));
  for (int64_t i = 0; i < exact.elems(); ++i) {
    const double scale = scales.float_at(scale_at(i, exact.shape(), units));
    const double want = std::clamp(exact.float_at(i) / scale, -units.most, units.most);
    const double step = is_f8 ? unit_of_f8.at(want) : 1;
    if (std::abs(stored.float_at(i) - want) <= kHalfStep * step) continue;
    return fmt::format(
        "is not the model's in {}: {} is {} steps of {:.6g}, and should be within half a step "
        "of {:.6g}",
        is_f8              ? "f8e4m3"
        : units.most < 127 ? "int4"
                           : "int8",
        position_text(i, exact.shape()), stored.float_at(i), scale, want);
  }
  return "";
}

std::string scales_complaint(const Tensor& scales, const Tensor& exact, const WeightUnits& units) {
  const bool is_f8 = units.most == kLargestF8;
  const double least_share = is_f8 ? 1 - 1e-6 : 0.7, most_share = is_f8 ? 2 : 1 + 1e-6;
  if (exact.rank() != 2 || scales.elems() != num_scales(exact.shape(), units))
    return fmt::format("has {} scales, not those of {}", scales.elems(), str(exact.shape()));
  const int64_t columns = exact.shape()[units.trans_w ? 0 : 1];
  std::vector<double> largest(static_cast<size_t>(scales.elems()), 0);
  for (int64_t i = 0; i < exact.elems(); ++i) {
    double& of = largest[scale_at(i, exact.shape(), units)];
    of = std::max(of, std::abs(exact.float_at(i)));
  }
  for (int64_t c = 0; c < scales.elems(); ++c) {
    const double widest = largest[c] / units.most, scale = scales.float_at(c);
    const bool tiny = widest <= std::numeric_limits<float>::min() && scale == 1;
    if (tiny || (scale >= least_share * widest && scale <= most_share * widest)) continue;
    return fmt::format(
        "has scale {:.6g} for column {}, whose largest weight is {:.6g}: expected {:.6g} to {:.6g}",
        scale, c % columns, largest[c], least_share * widest, most_share * widest);
  }
  return "";
}

void hold_constants(Context& context) {
  stage(context, "the constants as the model has them");
  Holder holder(context, context.subject.plan);
  holder.hold_all();
  context.constants = holder.take_held();
  context.precision.exact = holder.take_exact();
}

std::vector<ExactConstant> exact_constants(const Context& context, const plan::Plan& plan) {
  Holder holder(context, plan);
  holder.hold_all();
  return holder.take_exact();
}

}  // namespace vernier::verify
