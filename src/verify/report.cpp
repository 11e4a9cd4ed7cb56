// Reports of verify as text and JSON: see verify.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "verify/verify.h"

namespace vernier::verify {
namespace {

nlohmann::json to_json(const OutputResult& o) {
  return {{"name", o.name},
          {"verdict", o.passed ? "pass" : "fail"},
          {"why", o.passed ? "" : o.verdict},
          {"max_abs", o.distance.max_abs},
          {"rms", o.distance.rms},
          {"rms_reference", o.distance.rms_reference},
          {"worst", o.distance.worst},
          {"worst_row", o.distance.worst_row},
          {"cosine", o.distance.cosine}};
}

std::string line(const OutputResult& o) {
  return fmt::format("  {:<24} max {:.2e}  rms {:.2e}  worst {:.2e} in row {}  {}\n", o.name,
                     o.distance.max_abs, o.distance.rms, o.distance.worst, o.distance.worst_row,
                     o.verdict);
}

}  // namespace

std::string to_json(const Report& report) {
  nlohmann::json json{
      {"verdict", report.verdict},
      {"explanation", report.explanation},
      {"outputs", nlohmann::json::array()},
      {"expected", nlohmann::json::array()},
      {"rewrite", {{"compared", report.compared_values}, {"differing", nlohmann::json::array()}}}};
  for (const OutputResult& o : report.outputs) json["outputs"].push_back(to_json(o));
  for (const OutputResult& o : report.expected) json["expected"].push_back(to_json(o));
  for (const ValueResult& v : report.values) {
    if (v.passed) continue;
    json["rewrite"]["differing"].push_back({{"value", v.name},
                                            {"step", v.step},
                                            {"kernel", v.kernel},
                                            {"node", v.step_name},
                                            {"rms", v.distance.rms},
                                            {"rms_reference", v.distance.rms_reference}});
  }
  return json.dump(2) + "\n";
}

std::string to_text(const Report& report) {
  std::string text = "engine against FP64 of the model (E against R):\n";
  for (const OutputResult& o : report.outputs) text += line(o);
  if (!report.expected.empty()) {
    text += "expected arrays against FP64 of the model:\n";
    for (const OutputResult& o : report.expected) text += line(o);
  }
  size_t differing = 0;
  for (const ValueResult& v : report.values) differing += !v.passed;
  text += fmt::format(
      "plan in FP64 against FP64 of the model (F against R): {} values compared, {} differ\n",
      report.compared_values, differing);
  constexpr int kShown = 5;
  int shown = 0;
  for (const ValueResult& v : report.values) {
    if (v.passed || ++shown > kShown) continue;
    text += fmt::format("  step {:>3} {:<32} {}: rms {:.2e} of {:.2e}\n", v.step, v.kernel, v.name,
                        v.distance.rms, v.distance.rms_reference);
  }
  return text + fmt::format("verdict: {} — {}\n", report.verdict, report.explanation);
}

}  // namespace vernier::verify
