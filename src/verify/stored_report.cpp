// A stored report judged by other limits: see vernier/verify.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "compile/lines.h"
#include "core/error.h"
#include "verify/tolerance.h"
#include "vernier/verify.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

// Why an output is outside the limits; empty: it is not.
std::string complaint_of(const json& output, const Tolerance& tolerance) {
  const json& all = output.at("all_cells");
  Distance worst;
  worst.worst_row = output.at("worst_row");
  worst.wrong_non_finite = output.at("wrong_non_finite");
  worst.different_integers = output.at("different_integers");
  if (worst.says_it_all()) {
    worst.worst = output.at("worst");
    worst.max_abs = all.at("max_abs");
    worst.cosine = all.at("cosine");
  }
  std::string why = complaint(worst, tolerance, 0);
  if (!why.empty()) return why;
  const double rms = all.at("rms"), limit = tolerance.rms * all.at("rms_reference").get<double>();
  if (rms > limit) return fmt::format("rms error {:.3g} over all cells, limit {:.3g}", rms, limit);
  const auto rankings = output.at("rankings").get<double>(),
             changes = output.at("top1_changes").get<double>();
  if (tolerance.flips && rankings > 0 && changes / rankings > *tolerance.flips)
    return fmt::format("{} of {} rankings change their first place, limit {:g}", changes, rankings,
                       *tolerance.flips);
  return "";
}

// Why the task of a report is outside the limit of its loss; empty: it is not.
std::string complaint_of_task(const json& task, double most) {
  if (task.is_null()) {
    throw Error(ErrorCode::kInput,
                "--tolerance metric= is the loss of a task, and the report has none; verify the "
                "engine again with --metric");
  }
  const double loss = task.at("loss");
  if (loss <= most) return "";
  return fmt::format("{} of '{}' loses {:.3g}, limit {:g}", task.at("metric").get<std::string>(),
                     task.at("output").get<std::string>(), loss, most);
}

}  // namespace

StoredJudgement judge_stored(const std::string& text, const Tolerance& tolerance) {
  if (!is_own(tolerance) || tolerance.above_noise) {
    throw Error(ErrorCode::kInput,
                "a stored report is judged by limits of your own, since the usual ones depend on "
                "the noise of its inputs: add --tolerance, for example rms=1e-3,max=1e-2");
  }
  StoredJudgement result;
  try {
    const json report = json::parse(text);
    const Verdict before = verdict_named(report.at("verdict").get<std::string>());
    const bool by_limits = before == Verdict::kPass || before == Verdict::kPrecision;
    for (const json& output : report.at("outputs")) {
      result.outputs.push_back({output.at("name"), complaint_of(output, tolerance)});
      const auto& [name, why] = result.outputs.back();
      if (why.empty() || result.verdict != Verdict::kPass) continue;
      result.verdict = Verdict::kPrecision;
      result.explanation = fmt::format("output '{}': {}", name, why);
    }
    if (tolerance.metric && result.verdict == Verdict::kPass) {
      result.explanation = complaint_of_task(report.at("task"), *tolerance.metric);
      if (!result.explanation.empty()) result.verdict = Verdict::kPrecision;
    }
    if (!by_limits && before < result.verdict) {
      result.verdict = before;
      result.explanation =
          "no tolerance changes it: " + report.at("explanation").get<std::string>();
    }
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInput,
                std::string("this is no report that verify --json of this version wrote (") +
                    error.what() + "); verify the engine again");
  }
  if (result.verdict == Verdict::kPass)
    result.explanation = "all outputs of the report are inside " + to_text(tolerance);
  return result;
}

std::string to_text(const StoredJudgement& judgement) {
  std::string text = "outputs (as the report has them)\n";
  for (const auto& [name, why] : judgement.outputs)
    text += format_line("  {:<22} {}\n", name, why.empty() ? "pass" : "precision: " + why);
  return text + format_line("verdict: {}\n  {}\n", name(judgement.verdict), judgement.explanation);
}

std::string to_json(const StoredJudgement& judgement) {
  json result{{"verdict", name(judgement.verdict)},
              {"explanation", judgement.explanation},
              {"outputs", json::array()}};
  for (const auto& [name, why] : judgement.outputs)
    result["outputs"].push_back({{"name", name}, {"why", why}});
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace vernier::verify
