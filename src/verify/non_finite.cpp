// Where NaN or infinity begins: see non_finite.h.
#include "verify/non_finite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/session_impl.h"
#include "verify/build_options.h"
#include "verify/metrics.h"
#include "verify/replay.h"
#include "verify/runner.h"

namespace vernier::verify {
namespace {

// Elements whose bits have a full exponent.
template <class Word>
bool has_full_exponent(std::span<const std::byte> bytes, Word exponent) {
  bool found = false;
  for (size_t at = 0; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, bytes.data() + at, sizeof(Word));
    found |= (word & exponent) == exponent;
  }
  return found;
}

Finiteness finiteness_of(const EvalTensor& t) {
  Finiteness found = Finiteness::kFinite;
  for (double v : t.f) {
    if (std::isnan(v)) return Finiteness::kNaN;
    if (std::isinf(v)) found = Finiteness::kInfinite;
  }
  return found;
}

// E alone: a step makes NaN or infinity of its own if everything that it reads is finite.
class Watch final : public RunObserver {
 public:
  explicit Watch(const plan::Plan& plan) : trace(plan), plan_(plan) {}
  void after_step(int32_t index, const backend::LaunchCall& call) override {
    const plan::Step& step = plan_.step(index);
    bool made = false;
    for (size_t o = 0; o < call.out.size(); ++o) {
      if (!call.out[o].data || step.outputs[o] == plan::kNone) continue;
      const Finiteness what = finiteness_of(call.out[o]);
      trace.note(step.outputs[o], what);
      made = made || what != Finiteness::kFinite;
    }
    const bool finite_inputs = std::ranges::all_of(call.in, [](const backend::TensorArg& arg) {
      return !arg.data || finiteness_of(arg) == Finiteness::kFinite;
    });
    if (made && finite_inputs) trace.note_own(index);
  }
  NonFiniteTrace trace;

 private:
  static Finiteness finiteness_of(const backend::TensorArg& arg) {
    if (!is_float(arg.dtype)) return Finiteness::kFinite;
    const Tensor t = copy_of(arg);
    if (!is_non_finite(t.dtype(), t.byte_span())) return Finiteness::kFinite;
    return verify::finiteness_of(EvalTensor::from(t));
  }
  const plan::Plan& plan_;
};

}  // namespace

Finiteness unlike(const EvalTensor& e, const EvalTensor& f) {
  Finiteness found = Finiteness::kFinite;
  for (size_t i = 0; i < e.f.size(); ++i) {
    const bool finite = std::isfinite(e.f[i]) && std::isfinite(f.f[i]);
    if (finite || same_non_finite(e.f[i], f.f[i])) continue;
    if (std::isnan(e.f[i]) || std::isnan(f.f[i])) return Finiteness::kNaN;
    found = Finiteness::kInfinite;
  }
  return found;
}

NonFiniteTrace::NonFiniteTrace(const plan::Plan& plan)
    : plan_(plan), values_(plan.values.size(), Finiteness::kFinite), own_(plan.steps.size()) {}

size_t NonFiniteTrace::base_of(int32_t value) const {
  const int32_t base = plan_.value(value).alias_of;
  return static_cast<size_t>(base == plan::kNone ? value : base);
}

void NonFiniteTrace::note(int32_t value, Finiteness what) { values_[base_of(value)] = what; }

// The steps up to `last` that lead to `values`, through values of at least `least`.
std::vector<bool> NonFiniteTrace::way_back(std::vector<bool> values, Finiteness least,
                                           int32_t last) const {
  std::vector<bool> steps(plan_.steps.size());
  for (auto s = static_cast<size_t>(last) + 1; s-- > 0;) {
    const plan::Step& step = plan_.steps[s];
    steps[s] = std::ranges::any_of(step.outputs, [&](int32_t out) {
      return out != plan::kNone && values[base_of(out)] && values_[base_of(out)] >= least;
    });
    if (!steps[s]) continue;
    for (int32_t in : step.inputs) {
      if (in != plan::kNone && values_[base_of(in)] >= least) values[base_of(in)] = true;
    }
  }
  return steps;
}

std::optional<NonFiniteTrace::Found> NonFiniteTrace::find() const {
  std::vector<bool> outputs(values_.size());
  auto worst = Finiteness::kFinite;
  for (int32_t output : plan_.outputs) {
    outputs[base_of(output)] = true;
    worst = std::max(worst, values_[base_of(output)]);
  }
  if (worst == Finiteness::kFinite || plan_.steps.empty()) return std::nullopt;
  const auto count = static_cast<int32_t>(plan_.steps.size());
  const auto first_of = [](const std::vector<bool>& steps) {
    return static_cast<int32_t>(std::ranges::find(steps, true) - steps.begin());
  };
  Found found;
  int32_t last = count - 1;
  if (worst == Finiteness::kNaN) {
    last = found.nan_step = first_of(way_back(outputs, Finiteness::kNaN, last));
    if (last == count) return std::nullopt;  // an input of the engine is an output
    std::fill(outputs.begin(), outputs.end(), false);
    for (int32_t out : plan_.step(last).outputs) {
      if (out != plan::kNone) outputs[base_of(out)] = true;
    }
  }
  const std::vector<bool> way = way_back(outputs, Finiteness::kInfinite, last);
  found.step = first_of(way);
  if (found.step == count) return std::nullopt;
  for (size_t s = 0; s < way.size(); ++s) {
    if (way[s] && own_[s]) found.own_steps.push_back(static_cast<int32_t>(s));
  }
  if (!found.own_steps.empty()) found.step = found.own_steps.front();
  return found;
}

bool is_non_finite(DType dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case DType::kF32:
      return has_full_exponent<uint32_t>(bytes, 0x7f80'0000);
    case DType::kF16:
      return has_full_exponent<uint16_t>(bytes, 0x7c00);
    case DType::kBF16:
      return has_full_exponent<uint16_t>(bytes, 0x7f80);
    case DType::kF64:
      return has_full_exponent<uint64_t>(bytes, uint64_t{0x7ff} << 52);
    case DType::kF8E4M3:
      return has_full_exponent<uint8_t>(bytes, 0x7f);  // NaN only: it has no infinity
    case DType::kF8E5M2:
      return has_full_exponent<uint8_t>(bytes, 0x7c);
    case DType::kF8E4M3FNUZ:
    case DType::kF8E5M2FNUZ:
      return std::ranges::find(bytes, std::byte{0x80}) != bytes.end();
    case DType::kF8E8M0:
      return std::ranges::find(bytes, std::byte{0xff}) != bytes.end();
    default:
      return false;
  }
}

std::string explain_non_finite(Session& session, std::span<const Input> inputs,
                               std::span<const std::string> names) {
  const plan::Plan& plan = session.impl().parts.plan;
  std::string outputs;
  for (const std::string& name : names)
    outputs += fmt::format("{}'{}'", outputs.empty() ? "" : ", ", name);
  std::string text = fmt::format("output{} {} hold{} NaN or infinity", names.size() == 1 ? "" : "s",
                                 outputs, names.size() == 1 ? "s" : "");
  for (const Input& input : inputs) {
    if (input.memory != Memory::kHost) return text;
    size_t bytes = size_bytes(input.dtype);
    for (int64_t size : input.shape) bytes *= static_cast<size_t>(size);
    if (is_non_finite(input.dtype, {static_cast<const std::byte*>(input.data), bytes}))
      return text + fmt::format("; so does input '{}'", input.name);
  }
  Watch watch(plan);
  session.impl().run(inputs, &watch);
  const auto found = watch.trace.find();
  if (!found) return text;
  const bool own = !found->own_steps.empty();
  text += "; " + step_text(plan, found->step) +
          (own ? " is the first to make it of finite inputs"
               : " is the first, of a constant of the model that holds it");
  if (found->nan_step != plan::kNone && found->nan_step != found->step)
    text += ", and " + step_text(plan, found->nan_step) + " makes NaN of that";
  return text +
         "; 'vernier verify ENGINE --model MODEL --inputs INPUTS' says whether the model "
         "asks for it";
}

}  // namespace vernier::verify
