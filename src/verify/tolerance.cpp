// Tolerances: see tolerance.h.
#include "verify/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace vernier::verify {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

}  // namespace

Tolerance parse_tolerance(const std::string& text) {
  Tolerance tolerance;
  if (!text.empty()) {
    tolerance.worst = tolerance.rms = kNoLimit;
    tolerance.above_noise = false;
  }
  size_t at = 0;
  while (at < text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, std::min(equals, part.size()));
    const std::string number = equals == std::string::npos ? "" : part.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool known = key == "worst" || key == "max" || key == "rms" || key == "cos" ||
                       key == "flips" || key == "metric";
    const bool good = !number.empty() && error == std::errc{} &&
                      end == number.data() + number.size() && std::isfinite(value) && value >= 0;
    if (!good || !known) {
      throw Error(ErrorCode::kInput,
                  "--tolerance: got '" + part +
                      "', expected worst=, max=, rms=, cos=, flips= or metric= with a number >= 0, "
                      "for example rms=1e-3,max=1e-2");
    }
    if (key == "worst") tolerance.worst = value;
    if (key == "max") tolerance.max = value;
    if (key == "rms") tolerance.rms = value;
    if (key == "cos") tolerance.cos = value;
    if (key == "flips") tolerance.flips = value;
    if (key == "metric") tolerance.metric = value;
  }
  return tolerance;
}

std::string to_text(const Tolerance& t) {
  std::string text;
  const auto add = [&](const char* key, double value) {
    if (std::isfinite(value)) text += fmt::format("{}{}={:g}", text.empty() ? "" : ",", key, value);
  };
  add("worst", t.worst);
  add("rms", t.rms);
  if (t.max) add("max", *t.max);
  if (t.cos) add("cos", *t.cos);
  if (t.flips) add("flips", *t.flips);
  if (t.metric) add("metric", *t.metric);
  return text;
}

std::string complaint(const Distance& d, const Tolerance& limit, double noise) {
  if (d.different_integers > 0)
    return fmt::format("{} of {} integers differ", d.different_integers, d.elems);
  if (d.wrong_non_finite > 0) {
    return fmt::format("{} of {} elements are NaN or infinite on one side only", d.wrong_non_finite,
                       d.elems);
  }
  if (d.worst > limit.worst && !(limit.above_noise && d.max_abs <= noise)) {
    const std::string noisy =
        limit.above_noise && noise > 0
            ? fmt::format(" or {:.3g}, what the types explain; the largest error is {:.3g}", noise,
                          d.max_abs)
            : "";
    return fmt::format("worst element is off by {:.3g}·(1+|ref|), limit {:.3g}{} (row {})", d.worst,
                       limit.worst, noisy, d.worst_row);
  }
  if (limit.max && d.max_abs > *limit.max)
    return fmt::format("largest error {:.3g}, limit {:.3g}", d.max_abs, *limit.max);
  if (limit.cos && d.cosine < *limit.cos)
    return fmt::format("cosine {:.9g}, limit {:.9g}", d.cosine, *limit.cos);
  return "";
}

double share_of_limit(const Distance& d, const Tolerance& limit, double noise) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (d.different_integers > 0 || d.wrong_non_finite > 0) return kInfinity;
  const auto part = [&](double error, double most) {
    return error <= 0 ? 0.0 : most > 0 ? error / most : kInfinity;
  };
  double share = part(d.worst, limit.worst);
  if (limit.above_noise && noise > 0) share = std::min(share, part(d.max_abs, noise));
  if (limit.max) share = std::max(share, part(d.max_abs, *limit.max));
  if (limit.cos) share = std::max(share, part(1 - d.cosine, 1 - *limit.cos));
  const bool by_element = std::isfinite(limit.worst) || limit.max || limit.cos;
  return by_element ? share : part(d.rms, limit.rms * d.rms_reference);
}

std::string task_text(const TaskResult& task) {
  std::string text =
      fmt::format("{} of '{}' over {} {}: engine {:.6g}, FP64 {:.6g}, loss {:.3g}", task.metric,
                  task.output, task.count, task.unit, task.engine, task.reference, task.loss());
  if (task.most) text += fmt::format(" (limit {:g})", *task.most);
  if (task.metric == "accuracy") text += fmt::format("; {} classes change", task.changed);
  if (task.unit == "groups")
    text += fmt::format("; {} groups have another first row", task.changed);
  return text + fmt::format("; scores move by at most {:.3g}", task.largest_shift);
}

std::string limits_text(const AppliedLimits& held) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (std::isfinite(held.worst)) {
    add(fmt::format("each element {:.2g}·(1+|reference|){}", held.worst,
                    held.element > 0 ? fmt::format(" or {:.1e}", held.element) : ""));
  }
  if (std::isfinite(held.rms)) add(fmt::format("rms {:.1e} over all cells", held.rms));
  if (held.max) add(fmt::format("max {:.2g}", *held.max));
  if (held.cos) add(fmt::format("cosine {:.9g}", *held.cos));
  if (held.flips) add(fmt::format("first places that change {:.2g}", *held.flips));
  return text;
}

}  // namespace vernier::verify
