// The judgement of single steps: see step_judge.h.
#include "verify/step_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/evaluator.h"
#include "core/numerics.h"
#include "evaluate/plan_evaluator.h"
#include "reference/cut_tables.h"
#include "verify/metrics.h"
#include "verify/noisy_linear.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours
namespace {

// The constant c of the limit  1 ulp + declared error + c·√K·(S + u·|I|); K sums per element, u the
// unit of f32, S what inputs that are off by u change in this element (rms over its row where that
// is larger). Fitted: docs/verification_fitting.md "Limits of the replay".
constexpr double kNoiseFactor = 8;
// What a kernel may declare of its error and be taken on its word: of the rms of the step's output
// (half a unit in the last place, where its type is coarser), and never below the second, which is
// what the bounds of Vernier's own kernels come to: docs/decisions/0019-declared-errors.md.
constexpr double kDeclaredPart = 1e-5, kDeclaredLeast = 1e-6;
// What is rounded inside a step (the probabilities of an attention in 16 bits) may go the other way
// where E's value and FP64's lie on two sides of a tie: up to this part of all that these roundings
// do to the row.
constexpr double kInsideFactor = 4;
// In one row those of all elements may cancel by chance, where one that goes the other way does
// not. So a step that would fail is judged by the most that they do in draws whose inputs are off
// by this part, which is small and moves every rounding.
constexpr double kInsideDraw = 0x1p-8;
// One trial may be unlucky for a whole row: where its elements share what is in doubt (the scores
// of a query), the row's rms cannot make up for it. Of many such rows four trials are unlucky for
// some, so a step that would fail is judged by more.
constexpr int kTrials = 4, kTrialsBeforeFailure = 16;
// All errors of an output in 16 bits together: a kernel that rounds to the nearest is off by what
// rounding the right values is, whatever the limit for one element allows. Up to this factor of
// that, f32's noise and the roundings inside; more where a few elements decide.
constexpr double kRmsFactor = 1.2, kRmsDeviations = 2.5;
// A kernel may flush what is smaller than any normal number.
constexpr double kSubnormal = std::numeric_limits<float>::min();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<double> zeros(const EvalTensor& t) { return std::vector<double>(t.f.size(), 0.0); }

// One step's evaluation in FP64 and its sensitivity to noise on its inputs.
struct Ideal {
  std::vector<EvalTensor> out;
  std::vector<std::vector<double>> sensitivity;  // by output and element, floats only
  // The same: what roundings inside the step do, the largest and the rms of the element's row.
  // Empty where nothing is rounded inside.
  std::vector<std::vector<double>> inside, inside_rms;
  std::vector<std::vector<bool>> undecided;  // integers that the noise changes
  double sum_length = 1;
};

using Inputs = std::vector<std::shared_ptr<const EvalTensor>>;

// In FP64. Of a large table only the rows that the step reads.
Inputs inputs_of(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
                 const StepCopy& copy, ConstantCache* constants) {
  Inputs inputs(copy.in.size());
  const auto own = [](EvalTensor t) { return std::make_shared<const EvalTensor>(std::move(t)); };
  const auto shared = [&](const Tensor& constant, const std::function<EvalTensor()>& make) {
    return constants ? constants->get(constant, make) : own(make());
  };
  for (size_t i = 0; i < copy.in.size(); ++i) {
    if (copy.in[i].defined() && !is_float(copy.in[i].dtype()))
      inputs[i] = own(EvalTensor::from(copy.in[i]));
  }
  const auto table = [&](size_t i) { return copy.in[i].defined() ? &copy.in[i] : nullptr; };
  const auto ids = [&](size_t i) { return inputs[i].get(); };
  for (reference::CutTable& cut :
       reference::cut_tables(step.op, step.attrs, inputs.size(), table, ids)) {
    inputs[cut.table_input] = own(std::move(cut.table));
    inputs[cut.ids_input] = own(std::move(cut.ids));
  }
  for (size_t i = 0; i < copy.in.size(); ++i) {
    const Tensor& held = copy.in[i];
    if (!held.defined() || inputs[i]) continue;
    const bool is_constant =
        step.has_input(i) && plan.value(step.inputs[i]).kind == plan::PlanValue::Kind::kConstant;
    const auto make = [&] { return EvalTensor::from(held); };
    inputs[i] = is_constant ? shared(held, make) : own(make());
  }
  for (const plan::PackedInput& packed : step.packed) {
    const auto at = static_cast<size_t>(packed.input);
    if (inputs.size() <= at) inputs.resize(at + 1);
    inputs[at] =
        shared(plan.blob(packed.blob).bytes, [&] { return unpacked(plan, backend, step, packed); });
  }
  return inputs;
}

std::vector<const EvalTensor*> pointers(const Inputs& inputs) {
  std::vector<const EvalTensor*> in;
  for (const auto& t : inputs) in.push_back(t.get());
  return in;
}

// The roundings inside the step that f32's noise does not cover. Its results are judged unrounded.
Rounding narrow_rounding(const plan::Step& step) {
  Numerics numerics = step.numerics;
  const size_t points = rounding_points(step.op).size();
  if (points > 0 && numerics.points[points - 1].type == numerics.store)
    numerics.points[points - 1] = {};
  return ideal_rounding(step.op, numerics);
}

std::vector<EvalTensor> evaluate(const plan::Step& step, const StepCopy& copy,
                                 std::span<const EvalTensor* const> in, const Rounding& rounding) {
  std::vector<EvalTensor> out;
  for (const Tensor& made : copy.out) {
    if (!made.defined())
      out.emplace_back();
    else
      out.emplace_back(made.dtype(), made.shape());
  }
  evaluator(step.op)({step.attrs, in, out, rounding});
  return out;
}

// The roundings of a step's operands (a b, q k v, x), whose bits are the same in E, and all others.
struct SplitRounding {
  Rounding of_operands, behind_them;
  bool rounds_inside = false;  // at a point between operands and results
};
SplitRounding split(OpKind op, const Rounding& rounding) {
  const auto points = rounding_points(op);
  SplitRounding result{.of_operands = {}, .behind_them = rounding};
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    if (points[i].size() > 1) {
      result.rounds_inside |= rounding.at(i).type != DType::kUndefined;
      continue;
    }
    result.of_operands.set(i, rounding.at(i));
    result.behind_them.set(i, {});
  }
  return result;
}

// Does the step give the same bits without these roundings? They are those of its operands alone,
// and the operands are in these types already.
bool leaves_all(const plan::Step& step, const Rounding& rounding,
                std::span<const EvalTensor* const> inputs) {
  if (rounding.accumulator().type != DType::kUndefined ||
      rounding.inner().type != DType::kUndefined)
    return false;
  const size_t operands = num_operands(step, inputs);
  for (size_t point = 0; point < rounding_points(step.op).size(); ++point) {
    if (!rounding.changes(point)) continue;
    if (point >= operands || !inputs[point] || !inputs[point]->is_float()) return false;
    const PointRounding& at = rounding.at(point);
    if (at.mode != PointRounding::Mode::kNearest) return false;
    if (inputs[point]->dtype == at.type) continue;
    const FloatRounder rounder(at.type);
    if (!std::ranges::all_of(inputs[point]->f, [&](double v) { return rounder.nearest(v) == v; }))
      return false;
  }
  return true;
}

// The largest of a row, for all of it; of a short row, which may be lucky, at least what it is in a
// row of 64 normal numbers of the same rms.
void raise_to_row_largest(std::vector<double>& s, const Shape& shape) {
  constexpr double kLargestOf64 = 2.5;
  const auto cols = static_cast<size_t>(shape.empty() ? 1 : std::max<int64_t>(shape.back(), 1));
  for (size_t begin = 0; begin + cols <= s.size(); begin += cols) {
    const auto row = s.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto end = row + static_cast<std::ptrdiff_t>(cols);
    double squares = 0;
    for (auto at = row; at != end; ++at) squares += *at * *at;
    const double rms = std::sqrt(squares / static_cast<double>(cols));
    std::fill(row, end, std::max(*std::max_element(row, end), kLargestOf64 * rms));
  }
}

// Elements of a row are alike: a lucky small sensitivity counts as its row's rms.
void raise_to_row_rms(std::vector<double>& s, const Shape& shape) {
  const auto cols = static_cast<size_t>(shape.empty() ? 1 : std::max<int64_t>(shape.back(), 1));
  for (size_t begin = 0; begin + cols <= s.size(); begin += cols) {
    double squares = 0;
    for (size_t i = begin; i < begin + cols; ++i) squares += s[i] * s[i];
    const double rms = std::sqrt(squares / static_cast<double>(cols));
    for (size_t i = begin; i < begin + cols; ++i) s[i] = std::max(s[i], rms);
  }
}

void add_trial(Ideal& ideal, const std::vector<EvalTensor>& unchanged,
               const std::vector<EvalTensor>& noisy) {
  for (size_t o = 0; o < noisy.size(); ++o) {
    const EvalTensor& exact = unchanged[o];
    const double *before = exact.f.data(), *after = noisy[o].f.data();
    double* most = ideal.sensitivity[o].data();
    for (size_t i = 0; i < exact.f.size(); ++i) {
      const double change = std::abs(after[i] - before[i]);
      // NaN: infinities that meet; such an element is judged by being finite or not.
      most[i] = change > most[i] ? change : most[i];
    }
    for (size_t i = 0; i < exact.i.size(); ++i) {
      if (noisy[o].i[i] != exact.i[i]) ideal.undecided[o][i] = true;
    }
  }
}

// How far two results are apart, where both are finite; else 0.
std::vector<double> changes(const EvalTensor& a, const EvalTensor& b) {
  std::vector<double> all = zeros(a);
  for (size_t i = 0; i < all.size(); ++i) {
    const double change = std::abs(a.f[i] - b.f[i]);
    if (std::isfinite(change)) all[i] = change;
  }
  return all;
}

// What the roundings inside the step do: `without` is its result without them.
void add_inside(const std::vector<EvalTensor>& without, Ideal& ideal) {
  for (size_t o = 0; o < without.size(); ++o) {
    ideal.inside.push_back(changes(ideal.out[o], without[o]));
    ideal.inside_rms.push_back(ideal.inside[o]);
    raise_to_row_rms(ideal.inside_rms[o], ideal.out[o].shape);
    raise_to_row_largest(ideal.inside[o], ideal.out[o].shape);
  }
}

// What they do in a draw, where that is more.
void add_inside_draw(const std::vector<EvalTensor>& without, const std::vector<EvalTensor>& with,
                     Ideal& ideal) {
  for (size_t o = 0; o < without.size(); ++o) {
    std::vector<double> most = changes(with[o], without[o]);
    raise_to_row_largest(most, ideal.out[o].shape);
    for (size_t i = 0; i < most.size(); ++i)
      ideal.inside[o][i] = std::max(ideal.inside[o][i], most[i]);
  }
}

std::vector<EvalTensor> one(EvalTensor output) {
  std::vector<EvalTensor> outputs;
  outputs.push_back(std::move(output));
  return outputs;
}

Ideal ideal_of(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
               const StepCopy& copy, int trials, ConstantCache* constants) {
  const Inputs held = inputs_of(plan, backend, step, copy, constants);
  const std::vector<const EvalTensor*> inputs = pointers(held);
  const Rounding rounding = narrow_rounding(step);
  // Rounding an operand would swallow the noise on it: sensitivity is that of the exact step.
  const bool same = leaves_all(step, rounding, inputs);
  std::optional<NoisyLinear> linear;
  if (step.op == OpKind::kLinear)
    linear.emplace(step.attrs, inputs, copy.out[0].dtype(), copy.out[0].shape());
  const auto evaluate_exact = [&] {
    if (!linear) return evaluate(step, copy, inputs, Rounding{});
    return one(linear->exact());
  };
  Ideal ideal;
  ideal.out = same ? evaluate_exact() : evaluate(step, copy, inputs, rounding);
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  for (const EvalTensor* t : inputs) {
    in.push_back(t ? t->shape : Shape{});
    in_types.push_back(t ? t->dtype : DType::kUndefined);
  }
  for (const EvalTensor& t : ideal.out) {
    out.push_back(t.shape);
    out_types.push_back(t.dtype);
    ideal.sensitivity.push_back(zeros(t));
    ideal.undecided.emplace_back(t.i.size(), false);
  }
  ideal.sum_length = sum_length(step, in, out, in_types, out_types);
  std::vector<EvalTensor> unrounded;
  const SplitRounding parts = split(step.op, rounding);
  if (parts.rounds_inside) {
    std::vector<EvalTensor> without = evaluate(step, copy, inputs, parts.of_operands);
    add_inside(without, ideal);
    if (leaves_all(step, parts.of_operands, inputs)) unrounded = std::move(without);
  }
  if (!same && unrounded.empty()) unrounded = evaluate_exact();
  const std::vector<EvalTensor>& exact = same ? ideal.out : unrounded;
  Rounding of_trials;
  of_trials.set_inner(inner_of_chain(step.op, step.numerics));
  // Floats of each trial in the same memory; integers as they are.
  std::vector<EvalTensor> floats(inputs.size());
  std::vector<const EvalTensor*> noisy = inputs;
  const auto draw = [&](double unit, uint64_t seed) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i] || !inputs[i]->is_float()) continue;
      perturb(*inputs[i], unit, seed + i + 1, floats[i]);
      noisy[i] = &floats[i];
    }
  };
  for (int trial = 0; trial < trials; ++trial) {
    const uint64_t seed = static_cast<uint64_t>(trial) * 64;
    if (linear) {
      add_trial(ideal, exact, one(linear->draw(kSingleUnit, seed)));
      continue;
    }
    draw(kSingleUnit, seed);
    add_trial(ideal, exact, evaluate(step, copy, noisy, of_trials));
    if (trials == kTrials || ideal.inside.empty()) continue;
    draw(kInsideDraw, seed);
    add_inside_draw(evaluate(step, copy, noisy, Rounding{}),
                    evaluate(step, copy, noisy, parts.behind_them), ideal);
  }
  for (size_t o = 0; o < ideal.out.size(); ++o)
    raise_to_row_rms(ideal.sensitivity[o], ideal.out[o].shape);
  return ideal;
}

// The errors of one output together, and what they may be.
class Together {
 public:
  void add(double error, double expected_square) {
    squares_ += error * error;
    expected_ += expected_square;
    expected_squares_ += expected_square * expected_square;
  }
  double rms() const { return std::sqrt(squares_ / expected_); }
  /// Few elements, or few that are much larger than the others, may be unlucky.
  double limit() const {
    return kRmsFactor * (1 + kRmsDeviations * std::sqrt(expected_squares_) / expected_);
  }
  bool any() const { return expected_ > 0; }

 private:
  double squares_ = 0, expected_ = 0, expected_squares_ = 0;
};

// What a kernel has to store where this is the value: q8 and quantized rows of f8e4m3 saturate. The
// kernel may be given a scale whose range the value leaves.
double in_range_of(OpKind op, DType type, double value) {
  constexpr double kLargestQ8 = 127;
  static const double kLargestF8 = largest_finite(DType::kF8E4M3);
  if (std::isnan(value)) return value;
  if (type == DType::kF8E4M3 && op == OpKind::kQuantizeRows)
    return std::clamp(value, -kLargestF8, kLargestF8);
  return type == DType::kQ8 ? std::clamp(value, -kLargestQ8, kLargestQ8) : value;
}

// Notes the error that a kernel declares at the rms of an output, and the most that it may.
void note_declared(const Numerics& numerics, const EvalTensor& output, StepResult& result) {
  if (!output.is_float()) return;
  double squares = 0;
  for (double value : output.f) squares += std::isfinite(value) ? value * value : 0;
  const double rms =
      output.f.empty() ? 0 : std::sqrt(squares / static_cast<double>(output.f.size()));
  const double half_unit =
      below_f32(output.dtype) && output.dtype != DType::kQ8 ? ulp(output.dtype, 1) / 2 : 0;
  // Sums may lose an eighth of what rounding one of their products' operands may.
  const double of_operands = numerics.sum_error > 0 ? ulp(numerics.compute, 1) / 16 : 0;
  const double declared =
      numerics.approximation_abs + (numerics.approximation_rel + numerics.sum_error) * rms;
  const double part = std::max({kDeclaredPart, half_unit, of_operands});
  const double limit = std::max(part * rms, kDeclaredLeast);
  const bool first = result.declared_limit == 0;
  if (declared == 0 || (!first && declared / limit <= result.declared / result.declared_limit))
    return;
  result.declared = declared;
  result.declared_limit = limit;
}

// The types whose errors are judged together, too.
bool is_short(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || is_quantized_operand(type);
}

StepResult judge(const plan::Plan& plan, const backend::Backend& backend, const StepCopy& copy,
                 int trials, ConstantCache* constants) {
  const plan::Step& step = plan.step(copy.step);
  StepResult result;
  result.step = copy.step;
  result.kernel = step.kernel;
  result.name = step.name;
  const Ideal ideal = ideal_of(plan, backend, step, copy, trials, constants);
  const double noise = kNoiseFactor * std::sqrt(ideal.sum_length);
  const auto worse = [&](double error, double limit, double ratio) {
    if (ratio <= result.ratio) return false;
    result.error = error;
    result.limit = limit;
    result.ratio = ratio;
    return true;
  };
  for (size_t o = 0; o < ideal.out.size(); ++o) {
    if (!copy.out[o].defined()) continue;
    const EvalTensor got = EvalTensor::from(copy.out[o]);
    const EvalTensor& want = ideal.out[o];
    const FloatRounder rounder(want.dtype);
    const UnitInLastPlace unit_of(want.dtype);
    const double *all_got = got.f.data(), *all_want = want.f.data(),
                 *sensitivity = ideal.sensitivity[o].data();
    const bool has_inside = !ideal.inside.empty();
    result.elems += want.elems();
    note_declared(step.numerics, want, result);
    for (size_t i = 0; i < want.i.size(); ++i) {
      if (got.i[i] == want.i[i] || ideal.undecided[o][i]) continue;
      if (worse(std::abs(static_cast<double>(got.i[i]) - static_cast<double>(want.i[i])), 0,
                kInfinity))
        result.why =
            fmt::format("element {} of output {} is {}, expected {}", i, o, got.i[i], want.i[i]);
    }
    Together together;
    for (size_t i = 0; i < want.f.size(); ++i) {
      // No byte carries NaN: any is right. NaN fails where it arises, and in the outputs.
      if (want.dtype == DType::kQ8 && std::isnan(all_want[i])) continue;
      const double g = all_got[i], w = in_range_of(step.op, want.dtype, all_want[i]),
                   stored = rounder.nearest(w);
      if (!std::isfinite(g) || !std::isfinite(stored)) {
        if (!std::isfinite(stored) && std::isfinite(w) && !result.overflowed) {
          result.overflowed = true;
          result.overflow_value = w;
          result.overflow_type = want.dtype;
        }
        if (same_non_finite(g, stored)) continue;
        result.non_finite = result.non_finite || std::isfinite(stored);
        if (worse(kInfinity, 0, kInfinity))
          result.why = fmt::format("element {} of output {} is {}, expected {:.6g}", i, o, g, w);
        continue;
      }
      const double error = std::abs(g - w);
      const double approximation =
          step.numerics.approximation_abs + step.numerics.approximation_rel * std::abs(w);
      const double single = sensitivity[i] + kSingleUnit * std::abs(w);
      const double unit = unit_of.at(w), inside = has_inside ? ideal.inside[o][i] : 0;
      const double without_inside = unit + kSubnormal + approximation + noise * single;
      const double summed = step.numerics.sum_error * single / kSingleUnit;
      const double limit = without_inside + kNoiseFactor * summed + kInsideFactor * inside;
      if (inside > 0)
        result.inside_factor = std::max(result.inside_factor, (error - without_inside) / inside);
      const double one = noise / kNoiseFactor * single,
                   within = has_inside ? ideal.inside_rms[o][i] : 0;
      if (is_short(want.dtype)) {
        const double rounding = stored - w;
        together.add(error, rounding * rounding + one * one + summed * summed +
                                approximation * approximation + within * within);
      }
      if (worse(error, limit, error / limit) && error > limit) {
        result.why = fmt::format("element {} of output {} is {:.8g}, expected {:.8g} ± {:.1e}", i,
                                 o, g, w, limit);
      }
    }
    if (!together.any()) continue;
    const double ratio = together.rms() / together.limit();
    result.rms_ratio = std::max(result.rms_ratio, ratio);
    if (ratio > 1 && result.why.empty()) {
      result.why = fmt::format(
          "output {} is off by {:.2f} times, in the root mean square of its {} elements, what "
          "rounding to {} explains (limit {:.2f})",
          o, together.rms(), want.elems(), vernier::name(want.dtype), together.limit());
    }
  }
  result.ratio = std::max(result.ratio, result.rms_ratio);
  result.passed = result.why.empty();
  return result;
}

}  // namespace

StepResult judge_step(const plan::Plan& plan, const backend::Backend& backend, const StepCopy& copy,
                      ConstantCache* constants) {
  StepResult result = judge(plan, backend, copy, kTrials, constants);
  const bool by_limit = !result.passed && std::isfinite(result.ratio) && !result.non_finite;
  return by_limit ? judge(plan, backend, copy, kTrialsBeforeFailure, constants) : result;
}

}  // namespace vernier::verify
