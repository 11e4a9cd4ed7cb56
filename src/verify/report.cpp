// Reports of verify as text and JSON: see verify.h.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "compile/lines.h"
#include "verify/tolerance.h"
#include "verify/verify.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

// Errors of the elements that are left beside NaN and infinity would look like an answer: null.
json to_json(const Distance& d) {
  if (!d.says_it_all()) {
    json none{{"rms_reference", d.rms_reference},
              {"worst_row", d.worst_row},
              {"wrong_non_finite", d.wrong_non_finite},
              {"different_integers", d.different_integers}};
    for (const char* error : {"max_abs", "mean_abs", "p99_abs", "max_rel", "rms", "max_ulp",
                              "cosine", "snr_db", "worst"})
      none[error] = nullptr;
    return none;
  }
  return {{"max_abs", d.max_abs},
          {"mean_abs", d.mean_abs},
          {"p99_abs", d.p99_abs},
          {"max_rel", d.max_rel},
          {"rms", d.rms},
          {"rms_reference", d.rms_reference},
          {"max_ulp", d.max_ulp},
          {"cosine", d.cosine},
          {"snr_db", d.snr_db},
          {"worst", d.worst},
          {"worst_row", d.worst_row},
          {"wrong_non_finite", d.wrong_non_finite},
          {"different_integers", d.different_integers}};
}

// Infinity and NaN have no number in JSON.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }

json to_json(const AgainstOlder& against) {
  json outputs = json::array();
  for (const AgainstOlder::OutputChange& o : against.outputs) {
    outputs.push_back({{"name", o.name},
                       {"equal_cells", o.equal_cells},
                       {"first_cell", o.first_cell.empty() ? json() : json(o.first_cell)},
                       {"rms", number(o.rms)},
                       {"worst", number(o.worst)},
                       {"wrong_non_finite", o.wrong_non_finite},
                       {"different_integers", o.different_integers},
                       {"rankings", o.rankings},
                       {"top1_changes", o.top1_changes},
                       {"top5_changes", o.top5_changes},
                       {"least_correlation", number(o.least_correlation)}});
  }
  return {{"engine", against.file},
          {"engine_hash", against.engine_hash},
          {"equal", against.equal()},
          {"cells", against.cells},
          {"outputs", std::move(outputs)}};
}

std::string against_text(const AgainstOlder& against) {
  std::string text = format_line("against {}: {}\n", against.file,
                                 against.equal() ? "all bits are equal" : "bits differ");
  for (const AgainstOlder::OutputChange& o : against.outputs) {
    text +=
        format_line("  {:<22} bits equal in {} of {} cells", o.name, o.equal_cells, against.cells);
    if (!o.first_cell.empty()) {
      text += format_line(", first other at {}; rms {:.2g} of the other's, worst {:.2g}",
                          o.first_cell, o.rms, o.worst);
      if (o.wrong_non_finite > 0)
        text += format_line("; NaN or infinity in one alone: {}", o.wrong_non_finite);
      if (o.different_integers > 0)
        text += format_line("; other integers: {}", o.different_integers);
      if (o.rankings > 0)
        text += format_line(
            "; first places changed {} of {}, members of the first five {}, rank "
            "correlation at least {:.6g}",
            o.top1_changes, o.rankings, o.top5_changes, o.least_correlation);
    }
    text += "\n";
  }
  return text;
}

json to_json(const AlsoJudged::Error& error) {
  const bool all = error.wrong_non_finite == 0;
  return {{"rms", all ? json(error.rms) : json()},
          {"worst", all ? json(error.worst) : json()},
          {"wrong_non_finite", error.wrong_non_finite},
          {"different_integers", error.different_integers}};
}

std::string nearer_name(const AlsoJudged& also, const AlsoJudged::Output& output) {
  return output.nearer() == "other" ? also.name : std::string(output.nearer());
}

json to_json(const AlsoJudged& also) {
  json outputs = json::array();
  for (const AlsoJudged::Output& o : also.outputs) {
    const std::optional<double> ratio = o.ratio();
    outputs.push_back({{"name", o.name},
                       {"rms_reference", o.rms_reference},
                       {"vernier", to_json(o.engine)},
                       {"other", to_json(o.other)},
                       {"ratio", ratio ? json(*ratio) : json()},
                       {"nearer", nearer_name(also, o)}});
  }
  return {{"name", also.name},         {"version", also.version}, {"cells", also.cells},
          {"answered", also.answered}, {"refused", also.refused}, {"outputs", std::move(outputs)}};
}

std::string error_text(const AlsoJudged::Error& error) {
  if (error.wrong_non_finite > 0)
    return format_line("{} NaN or infinity of its own", error.wrong_non_finite);
  if (error.different_integers > 0)
    return format_line("{} other integers", error.different_integers);
  return format_line("{:.3g}", error.rms);
}

std::string also_text(const AlsoJudged& also) {
  std::string text = format_line("also {} {}: rms of the error against FP64, {} of {} cells\n",
                                 also.name, also.version, also.answered, also.cells);
  for (const AlsoJudged::Output& o : also.outputs) {
    text += format_line("  {:<22} vernier {}, {} {}", o.name, error_text(o.engine), also.name,
                        error_text(o.other));
    if (const std::optional<double> ratio = o.ratio())
      text += format_line(", ratio {:.3g}", *ratio);
    text += o.nearer() == "equal" ? ": equally near\n"
                                  : format_line(": {} is nearer\n", nearer_name(also, o));
  }
  if (!also.refused.empty()) text += format_line("  no answer: {}\n", also.refused);
  return text;
}

json to_json(const TaskResult& task) {
  return {{"metric", task.metric},   {"output", task.output},
          {"unit", task.unit},       {"count", task.count},
          {"engine", task.engine},   {"reference", task.reference},
          {"loss", task.loss()},     {"limit", task.most ? json(*task.most) : json()},
          {"changed", task.changed}, {"largest_shift", task.largest_shift}};
}

// A limit under each name; one that is not there has none.
json to_json(const AppliedLimits& held) {
  json limits = json::object();
  const auto add = [&](const char* key, std::optional<double> limit) {
    if (limit && std::isfinite(*limit)) limits[key] = *limit;
  };
  add("worst", held.worst);
  if (held.element > 0) add("element", held.element);
  add("rms", held.rms);
  add("max", held.max);
  add("cos", held.cos);
  add("flips", held.flips);
  return limits;
}

json to_json(const OutputResult& o) {
  json result = to_json(o.worst);
  result.update({{"name", o.name},
                 {"limits", to_json(o.limits)},
                 {"verdict", name(o.verdict)},
                 {"why", o.why},
                 {"worst_cell", o.worst_cell},
                 {"noise_rms", o.noise_rms},
                 {"all_cells",
                  {{"rms", o.worst.says_it_all() ? json(o.all_rms) : json()},
                   {"rms_reference", o.all_rms_reference},
                   {"max_abs", o.worst.says_it_all() ? json(o.largest_abs) : json()},
                   {"cosine", o.worst.says_it_all() ? json(o.least_cosine) : json()}}},
                 {"mixed_by_model", o.mixed_by_model},
                 {"rankings", o.rankings},
                 {"top1_changes", o.top1_changes},
                 {"top5_changes", o.top5_changes},
                 {"least_rank_correlation", o.least_correlation},
                 {"rows", json::array()}});
  for (const RowMetrics& row : o.rows) {
    json one = to_json(row.distance);
    one.update({{"row", row.row},
                {"top1_changes", row.top1_changes},
                {"top5_changes", row.top5_changes},
                {"least_rank_correlation", row.least_correlation}});
    result["rows"].push_back(std::move(one));
  }
  return result;
}

json to_json(const Tolerance& t) {
  json limits = json::object();
  const auto add = [&](const char* key, std::optional<double> limit) {
    if (limit && std::isfinite(*limit)) limits[key] = *limit;
  };
  add("worst", t.worst);
  add("rms", t.rms);
  add("max", t.max);
  add("cos", t.cos);
  add("flips", t.flips);
  add("metric", t.metric);
  return limits;
}

json step_json(int32_t step) { return step < 0 ? json() : json(step); }

json to_json(const StepResult& s) {
  return {{"step", step_json(s.step)},
          {"kernel", s.kernel},
          {"node", s.name},
          {"passed", s.passed},
          {"error", number(s.error)},
          {"limit", s.limit},
          {"share_of_limit", number(s.ratio)},
          {"declared", number(s.declared)},
          {"declared_limit", s.declared_limit},
          {"why", s.why}};
}

json to_json(const Cause& cause) {
  return {{"cell", cause.cell},   {"step", step_json(cause.step)}, {"kernel", cause.kernel},
          {"node", cause.node},   {"value", cause.value},          {"reason", cause.reason},
          {"rules", cause.rules}, {"command", cause.command}};
}

json to_json(const CellResult& c) {
  return {{"label", c.label},
          {"batch", c.batch},
          {"length", c.length},
          {"verdict", name(c.verdict)},
          {"worst", number(c.worst)},
          {"share_of_limit", number(c.share_of_limit)},
          {"far", c.far},
          {"sizes", c.named_sizes},
          {"why", c.why}};
}

std::string shown(const CellResult& c) {
  return c.verdict == Verdict::kPass
             ? format_line("ok {:.1e}", c.worst)
             : std::string(name(c.verdict).substr(0, name(c.verdict).find(' ')));
}

// Batches down, lengths across: the worst error of a cell, or its verdict. Then the other cells.
std::string table(const Report& report) {
  constexpr size_t kWidth = 13, kGap = 2;
  std::set<int64_t> batches;
  std::map<int64_t, std::string> heads;  // by length
  for (const CellResult& c : report.cells) {
    if (c.far) continue;
    batches.insert(c.batch);
    heads[c.length] = c.sizes;
  }
  const auto width = [=](const std::string& head) { return std::max(kWidth, head.size() + kGap); };
  std::string text = format_line("{:>{}}", "batch", kWidth);
  for (const auto& [length, head] : heads) text += format_line("{:>{}}", head, width(head));
  text += "\n";
  for (int64_t batch : batches) {
    text += format_line("{:>{}}", batch, kWidth);
    for (const auto& [length, head] : heads) {
      std::string there = "-";
      for (const CellResult& c : report.cells) {
        if (c.far || c.batch != batch || c.length != length) continue;
        if (c.verdict != Verdict::kPass || there == "-" || there.starts_with("ok"))
          there = shown(c);
      }
      text += format_line("{:>{}}", there, width(head));
    }
    text += "\n";
  }
  size_t labels = 2 * kWidth;
  for (const CellResult& c : report.cells) {
    if (c.far) labels = std::max(labels, c.label.size() + kGap);
  }
  for (const CellResult& c : report.cells) {
    if (c.far) text += format_line("{:>{}}   {}\n", c.label, labels, shown(c));
  }
  return text;
}

std::string line(const OutputResult& o) {
  const std::string verdict =
      o.verdict == Verdict::kPass ? "pass" : std::string(name(o.verdict)) + ": " + o.why;
  if (!o.worst.says_it_all())
    return format_line("  {:<22} no error: NaN or infinity in row {} of {}  {}\n", o.name,
                       o.worst.worst_row, o.worst_cell, verdict);
  std::string text = format_line(
      "  {:<22} max {:.1e}  rms {:.1e} (noise {:.1e})  worst {:.1e} in row {} of {}  {}\n", o.name,
      o.worst.max_abs, o.worst.rms, o.noise_rms, o.worst.worst, o.worst.worst_row, o.worst_cell,
      verdict);
  if (o.rankings > 0 && o.top1_changes + o.top5_changes > 0) {
    text += format_line(
        "  {:<22} first place changes in {} of {} rankings, {} changes in the first five\n", "",
        o.top1_changes, o.rankings, o.top5_changes);
  }
  return text;
}

std::string line(const CheckResult& c) {
  const std::string count = c.done == 0     ? "does not apply"
                            : c.failed == 0 ? format_line("{} pass", c.done)
                                            : format_line("{} of {} FAIL", c.failed, c.done);
  return format_line("  {:<34} {:<16} {}\n", c.name, count, c.note);
}

}  // namespace

bool Report::accepted_declared() const {
  return passed() && std::ranges::any_of(steps, &StepResult::declares_too_much);
}

std::string to_json(const Report& report) {
  json result{{"verdict", name(report.verdict)},
              {"explanation", report.explanation},
              {"cause", to_json(report.cause)},
              {"engine_hash", report.engine_hash},
              {"data_hash", report.data_hash},
              {"tolerance", to_json(report.tolerance)},
              {"own_tolerance", is_own(report.tolerance)},
              {"accepted_declared", report.accepted_declared()},
              {"ms", report.ms},
              {"cost", json::array()},
              {"notes", report.notes},
              {"resumed", report.resumed},
              {"outputs", json::array()},
              {"cells", json::array()},
              {"checks", json::array()},
              {"rewrite", {{"compared", report.compared_values}, {"differing", json::array()}}},
              {"steps", json::array()}};
  for (const Cost& c : report.costs)
    result["cost"].push_back({{"what", c.what}, {"seconds", c.seconds}});
  for (const OutputResult& o : report.outputs) result["outputs"].push_back(to_json(o));
  result["against"] = report.against ? to_json(*report.against) : json();
  result["also"] = report.also ? to_json(*report.also) : json();
  result["task"] = report.task ? to_json(*report.task) : json();
  for (const CellResult& c : report.cells) result["cells"].push_back(to_json(c));
  for (const CheckResult& c : report.checks)
    result["checks"].push_back(
        {{"name", c.name}, {"done", c.done}, {"failed", c.failed}, {"note", c.note}});
  for (const ValueResult& v : report.rewrites) {
    result["rewrite"]["differing"].push_back({{"value", v.name},
                                              {"step", step_json(v.step)},
                                              {"kernel", v.kernel},
                                              {"node", v.step_name},
                                              {"rms", v.distance.rms},
                                              {"rms_reference", v.distance.rms_reference}});
  }
  for (const StepResult& s : report.steps) result["steps"].push_back(to_json(s));
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

bool AgainstOlder::equal() const {
  return std::ranges::all_of(outputs, [this](const auto& o) { return o.equal_cells == cells; });
}

std::string to_text(const Report& report) {
  std::string text = "inputs\n";
  for (const std::string& note : report.notes) text += format_line("  {}\n", note);
  if (!report.resumed.empty()) text += format_line("  {}\n", report.resumed);
  text += "cells (largest error of an element, as a part of 1+|reference|)\n" + table(report);
  text += "outputs (engine against FP64 of the model, at their worst cell)\n";
  for (const OutputResult& o : report.outputs) {
    text += line(o);
    const std::string limits = limits_text(o.limits);
    if (!limits.empty()) text += format_line("  {:<22} held to {}\n", "", limits);
  }
  text += "checks\n";
  for (const CheckResult& c : report.checks) text += line(c);
  if (report.against) text += against_text(*report.against);
  if (report.also) text += also_text(*report.also);
  if (report.task) text += format_line("task: {}\n", task_text(*report.task));
  const auto closest = std::ranges::max_element(report.steps, {}, &StepResult::ratio);
  if (closest != report.steps.end()) {
    text += format_line("  the step nearest its limit is {} ({}, '{}'): {:.2g} of it\n",
                        closest->step, closest->kernel, closest->name, closest->ratio);
  }
  text += format_line("verdict: {} ({:.1f} s)\n  {}\n", name(report.verdict), report.ms / 1000,
                      report.explanation);
  if (!report.passed() && !report.cause.command.empty())
    text += format_line("next: {}\n", report.cause.command);
  return text;
}

std::string costs_text(const Report& report) {
  std::string text = "time\n";
  double rest = report.ms / 1000;
  for (const Cost& c : report.costs) {
    text += format_line("  {:<34} {:8.2f} s\n", c.what, c.seconds);
    rest -= c.seconds;
  }
  return text + format_line("  {:<34} {:8.2f} s\n", "other", std::max(rest, 0.0));
}

}  // namespace vernier::verify
