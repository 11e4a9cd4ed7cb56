// What localise found, as text and JSON: see localise.h.

#include <nlohmann/json.hpp>

#include "compile/lines.h"
#include "verify/localise.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

constexpr double kWorthNaming = 0.05;  // share of the outputs' error
constexpr size_t kMostNamed = 5;

std::string percent(double share) { return format_line("{:.1f} %", 100 * share); }

// "1.20e-07", or "NaN" where elements are left out of the error.
std::string error_text(const StepError& s, double error) {
  return s.says_it_all() ? format_line("{:.2e}", error) : "NaN";
}

std::string row_text(const StepError& s, bool has_shares) {
  return format_line("{:>4}  {:<34} {:<5} {:>9.2e} {:>9} {:>9} {:>9} {:>8} {:>8}  {}{}\n", s.step,
                     s.kernel, name(s.store), s.reference_rms, error_text(s, s.local_rms),
                     error_text(s, s.weights_rms), error_text(s, s.total_rms),
                     s.says_it_all() ? format_line("{:.2g}", s.amplification) : "NaN",
                     has_shares ? percent(s.share) : "-", s.name,
                     s.non_finite > 0 ? format_line("  {} NaN or infinite", s.non_finite) : "");
}

std::string step_name(const StepError& s) {
  return format_line("step {} ({}, '{}')", s.step, s.kernel, s.name);
}

json to_json(const StepError& s, bool has_shares) {
  const auto error = [&](double value) { return s.says_it_all() ? json(value) : json(); };
  return {{"step", s.step},
          {"node", s.name},
          {"kernel", s.kernel},
          {"store", name(s.store)},
          {"reference_rms", s.reference_rms},
          {"local_rms", error(s.local_rms)},
          {"weights_rms", error(s.weights_rms)},
          {"total_rms", error(s.total_rms)},
          {"carried_rms", error(s.carried_rms)},
          {"amplification", error(s.amplification)},
          {"share", has_shares ? json(s.share) : json()},
          {"non_finite", s.non_finite},
          {"own_non_finite", s.own_non_finite}};
}

json to_json(const RangeRow& r) {
  return {{"step", r.step},       {"node", r.name},   {"point", r.point}, {"absmax", r.peak},
          {"type", name(r.type)}, {"limit", r.limit}, {"fits", r.fits}};
}

}  // namespace

std::string to_text(const Localisation& found) {
  std::string text = format_line(
      "inputs: {}\n{:>4}  {:<34} {:<5} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}  {}\n", found.inputs,
      "step", "kernel", "store", "rms", "local", "weights", "total", "carries", "share", "node");
  for (const StepError& s : found.steps) text += row_text(s, found.has_shares());
  const std::vector<size_t> order =
      found.has_shares() ? found.by_share(kWorthNaming) : std::vector<size_t>{};
  if (found.has_shares()) {
    text += order.empty() ? "no step adds more than 5 % of the error at the outputs\n"
                          : "what adds most to the error at the outputs\n";
  }
  for (size_t i = 0; i < std::min(order.size(), kMostNamed); ++i) {
    const StepError& s = found.steps[order[i]];
    text += format_line("  {:>7}  {}\n", percent(s.share), step_name(s));
  }
  if (found.first_non_finite >= 0) {
    const StepError& s = found.steps[found.first_non_finite];
    text += format_line("NaN or infinity begins in {}: {} finite in FP64\n", step_name(s),
                        counted(s.non_finite, "element that is", "elements that are"));
  }
  return text;
}

std::string to_json(const Localisation& found) {
  json result{{"cell", found.inputs},
              {"steps", json::array()},
              {"ranges", json::array()},
              {"by_share", json::array()},
              {"first_non_finite", nullptr}};
  for (const StepError& s : found.steps) result["steps"].push_back(to_json(s, found.has_shares()));
  for (const RangeRow& r : found.ranges) result["ranges"].push_back(to_json(r));
  if (found.has_shares()) {
    for (size_t s : found.by_share(kWorthNaming)) result["by_share"].push_back(found.steps[s].step);
  }
  if (found.first_non_finite >= 0) result["first_non_finite"] = found.first_non_finite;
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace vernier::verify
