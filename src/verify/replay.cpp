// Replay of single steps: see replay.h.
#include "verify/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/evaluator.h"
#include "evaluate/plan_evaluator.h"
#include "verify/metrics.h"

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
// One trial may be unlucky for a whole row: where its elements share what is in doubt (the scores
// of a query), the row's rms cannot make up for it.
constexpr int kTrials = 4;
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
  std::vector<std::vector<double>> inside, inside_rms;
  std::vector<std::vector<bool>> undecided;  // integers that the noise changes
  double sum_length = 1;
};

using Inputs = std::vector<std::optional<EvalTensor>>;

Inputs inputs_of(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
                 const backend::LaunchCall& call) {
  Inputs inputs(call.in.size());
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (call.in[i].data) inputs[i] = EvalTensor::from(copy_of(call.in[i]));
  }
  for (const plan::PackedInput& packed : step.packed) {
    const auto at = static_cast<size_t>(packed.input);
    if (inputs.size() <= at) inputs.resize(at + 1);
    inputs[at] = unpacked(plan, backend, step, packed);
  }
  return inputs;
}

// The roundings inside the step that f32's noise does not cover. Its results are judged unrounded.
Rounding narrow_rounding(const plan::Step& step) {
  Numerics numerics = step.numerics;
  const size_t points = rounding_points(step.op).size();
  if (points > 0 && numerics.points[points - 1].type == numerics.store)
    numerics.points[points - 1] = {};
  return ideal_rounding(step.op, numerics);
}

std::vector<EvalTensor> evaluate(const plan::Step& step, const backend::LaunchCall& call,
                                 const Inputs& inputs, const Rounding& rounding) {
  std::vector<const EvalTensor*> in;
  for (const auto& t : inputs) in.push_back(t ? &*t : nullptr);
  std::vector<EvalTensor> out;
  for (const backend::TensorArg& arg : call.out) {
    if (!arg.data)
      out.emplace_back();
    else
      out.emplace_back(arg.dtype, Shape(arg.shape.begin(), arg.shape.begin() + arg.rank));
  }
  evaluator(step.op)({step.attrs, in, out, rounding});
  return out;
}

// What is left of `rounding` on the operands of a step: they are the same bits in E.
Rounding of_operands(OpKind op, const Rounding& rounding) {
  const auto points = rounding_points(op);
  Rounding operands;
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    if (points[i].size() == 1) operands.set(i, rounding.at(i));  // a b, q k v, x
  }
  return operands;
}

bool rounds_inside(OpKind op, const Rounding& rounding) {
  const auto points = rounding_points(op);
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    if (points[i].size() > 1 && rounding.at(i).type != DType::kUndefined) return true;
  }
  return false;
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
    for (size_t i = 0; i < exact.f.size(); ++i) {
      const double change = std::abs(noisy[o].f[i] - exact.f[i]);
      // NaN: infinities that meet; such an element is judged by being finite or not.
      if (change > ideal.sensitivity[o][i]) ideal.sensitivity[o][i] = change;
    }
    for (size_t i = 0; i < exact.i.size(); ++i) {
      if (noisy[o].i[i] != exact.i[i]) ideal.undecided[o][i] = true;
    }
  }
}

Ideal ideal_of(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
               const backend::LaunchCall& call) {
  const Inputs inputs = inputs_of(plan, backend, step, call);
  Ideal ideal;
  ideal.out = evaluate(step, call, inputs, narrow_rounding(step));
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  for (const auto& t : inputs) {
    in.push_back(t ? t->shape : Shape{});
    in_types.push_back(t ? t->dtype : DType::kUndefined);
  }
  for (const EvalTensor& t : ideal.out) {
    out.push_back(t.shape);
    out_types.push_back(t.dtype);
    ideal.sensitivity.push_back(zeros(t));
    ideal.undecided.emplace_back(t.i.size(), false);
  }
  // Rounding an operand would swallow the noise on it: sensitivity is that of the exact step.
  const std::vector<EvalTensor> exact = evaluate(step, call, inputs, Rounding{});
  for (const EvalTensor& t : ideal.out) {
    ideal.inside.push_back(zeros(t));
    ideal.inside_rms.push_back(zeros(t));
  }
  if (const Rounding rounding = narrow_rounding(step); rounds_inside(step.op, rounding)) {
    const std::vector<EvalTensor> without =
        evaluate(step, call, inputs, of_operands(step.op, rounding));
    for (size_t o = 0; o < without.size(); ++o) {
      for (size_t i = 0; i < without[o].f.size(); ++i) {
        const double change = std::abs(ideal.out[o].f[i] - without[o].f[i]);
        if (std::isfinite(change)) ideal.inside[o][i] = change;
      }
      ideal.inside_rms[o] = ideal.inside[o];
      raise_to_row_rms(ideal.inside_rms[o], ideal.out[o].shape);
      raise_to_row_largest(ideal.inside[o], ideal.out[o].shape);
    }
  }
  ideal.sum_length = sum_length(step, in, out, in_types, out_types);
  for (int trial = 0; trial < kTrials; ++trial) {
    Inputs noisy = inputs;
    for (size_t i = 0; i < noisy.size(); ++i) {
      if (noisy[i] && noisy[i]->is_float())
        noisy[i] = perturbed(*noisy[i], kSingleUnit, static_cast<uint64_t>(trial) * 64 + i + 1);
    }
    add_trial(ideal, exact, evaluate(step, call, noisy, Rounding{}));
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

// What a kernel has to store where this is the value: q8 saturates, and has no NaN. The kernel may
// be given a scale whose range the value leaves.
double in_range_of(DType type, double value) {
  constexpr double kLargestQ8 = 127;
  if (type != DType::kQ8) return value;
  return std::isnan(value) ? 0 : std::clamp(value, -kLargestQ8, kLargestQ8);
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
  const double declared = numerics.approximation_abs + numerics.approximation_rel * rms;
  const double limit = std::max(std::max(kDeclaredPart, half_unit) * rms, kDeclaredLeast);
  const bool first = result.declared_limit == 0;
  if (declared == 0 || (!first && declared / limit <= result.declared / result.declared_limit))
    return;
  result.declared = declared;
  result.declared_limit = limit;
}

// The types whose errors are judged together, too.
bool is_short(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kQ8;
}

}  // namespace

Tensor copy_of(const backend::TensorArg& arg) {
  const Shape shape(arg.shape.begin(), arg.shape.begin() + arg.rank);
  const size_t width = size_bytes(arg.dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(arg.elems()) * width);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t at = 0; at < bytes.size(); at += width) {
    int64_t from = 0;
    for (size_t d = 0; d < index.size(); ++d) from += index[d] * arg.strides[d];
    std::memcpy(bytes.data() + at, arg.data + from * static_cast<int64_t>(width), width);
    for (size_t d = index.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return Tensor::from_bytes(arg.dtype, shape, bytes);
}

Replay::Replay(const plan::Plan& plan, const backend::Backend& backend, uint32_t poison)
    : plan_(plan), backend_(backend), poison_(poison) {}

void Replay::before_run(std::span<std::byte> arena) {
  Poison(poison_).before_run(arena);
  results_.clear();
}

void Replay::before_step(std::span<std::byte> unwritten) { Poison(poison_).before_step(unwritten); }

void Replay::after_step(int32_t step, const backend::LaunchCall& call) {
  results_.push_back(judge(plan_.step(step), call));
  results_.back().step = step;
}

StepResult Replay::judge(const plan::Step& step, const backend::LaunchCall& call) const {
  StepResult result;
  result.kernel = step.kernel;
  result.name = step.name;
  const Ideal ideal = ideal_of(plan_, backend_, step, call);
  const double noise = kNoiseFactor * std::sqrt(ideal.sum_length);
  const auto worse = [&](double error, double limit, double ratio) {
    if (ratio <= result.ratio) return false;
    result.error = error;
    result.limit = limit;
    result.ratio = ratio;
    return true;
  };
  for (size_t o = 0; o < ideal.out.size(); ++o) {
    if (!call.out[o].data) continue;
    const EvalTensor got = EvalTensor::from(copy_of(call.out[o]));
    const EvalTensor& want = ideal.out[o];
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
      const double g = got.f[i], w = in_range_of(want.dtype, want.f[i]),
                   stored = round_to(want.dtype, w);
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
      const double single = ideal.sensitivity[o][i] + kSingleUnit * std::abs(w);
      const double unit = ulp(want.dtype, w), inside = ideal.inside[o][i];
      const double without_inside = unit + kSubnormal + approximation + noise * single;
      const double limit = without_inside + kInsideFactor * inside;
      if (inside > 0)
        result.inside_factor = std::max(result.inside_factor, (error - without_inside) / inside);
      const double one = noise / kNoiseFactor * single, within = ideal.inside_rms[o][i];
      if (is_short(want.dtype)) {
        const double rounding = stored - w;
        together.add(error, rounding * rounding + one * one + approximation * approximation +
                                within * within);
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

void Poison::before_run(std::span<std::byte> arena) { before_step(arena); }

void Poison::before_step(std::span<std::byte> unwritten) {
  for (size_t at = 0; at < unwritten.size(); at += sizeof(word_))
    std::memcpy(unwritten.data() + at, &word_, std::min(sizeof(word_), unwritten.size() - at));
}

void Recorder::before_run(std::span<std::byte> arena) {
  Poison(poison_).before_run(arena);
  steps_.clear();
}

void Recorder::before_step(std::span<std::byte> unwritten) {
  Poison(poison_).before_step(unwritten);
}

void Recorder::after_step(int32_t step, const backend::LaunchCall& call) {
  for (const backend::TensorArg& arg : call.out)
    steps_[step].push_back(arg.data ? copy_of(arg) : Tensor());
}

}  // namespace vernier::verify
