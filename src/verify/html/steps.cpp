// Sections of the HTML report that go step by step: precision map, range audit, times, replay,
// rewrites.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "evaluate/ranges.h"
#include "verify/html/sections.h"
#include "verify/html/writer.h"

namespace vernier::verify::html {
namespace {

std::string type_request(std::string_view what, const TypeRequest& r) {
  if (r.type == DType::kUndefined) return "";
  return fmt::format("{} {}{}", what, r.exact ? "==" : "", type_text(r.type));
}

// The type of what the step gives: integers too, which have no numerics.
DType stored_type(const plan::Plan& plan, const plan::Step& step) {
  for (int32_t out : step.outputs) {
    if (out != plan::kNone && !is_float(plan.value(out).dtype)) return plan.value(out).dtype;
    if (out != plan::kNone) break;
  }
  return step.numerics.store;
}

// "compute f32, mode fp32": what the ONNX nodes of each step asked for, each wish once.
std::map<int32_t, std::string> wishes_by_step(const plan::Plan& plan) {
  std::map<int32_t, std::set<std::string>> wishes;
  for (const plan::LedgerRow& row : plan.ledger) {
    const std::string text = asked_text(row.asked);
    if (row.step != plan::kNone && !text.empty()) wishes[row.step].insert(text);
  }
  std::map<int32_t, std::string> joined;
  for (const auto& [step, texts] : wishes) {
    for (const std::string& text : texts) joined[step] += (joined[step].empty() ? "" : "; ") + text;
  }
  return joined;
}

// A step whose results are exact (it moves or compares values) computes in f64 on paper: its
// color is that of what it stores.
std::string strip(const plan::Plan& plan) {
  std::string items;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    const DType store = stored_type(plan, step), compute = step.numerics.compute;
    items += fmt::format("<li><a class=\"{}\" href=\"#step-{}\" title=\"{}\">{}<br>{}</a></li>",
                         type_class(compute), s,
                         escaped(fmt::format("step {}: {}\n{}\ncompute {}, store {}", s, step.name,
                                             step.kernel, type_text(compute), type_text(store))),
                         type_text(compute), type_text(store));
  }
  return "<ul class=\"strip\" aria-label=\"Steps in order: compute type above, stored type "
         "below\">" +
         items + "</ul>\n";
}

std::string strip_key(const plan::Plan& plan) {
  std::map<DType, size_t> counts;
  for (const plan::Step& step : plan.steps) ++counts[step.numerics.compute];
  std::string items;
  for (const auto& [type, count] : counts) {
    items += fmt::format("<li><span class=\"swatch {}\"></span>computes in {}: {} step{}</li>",
                         type_class(type), type_text(type), count, count == 1 ? "" : "s");
  }
  return "<ul class=\"key\" aria-label=\"Colours\">" + items + "</ul>\n";
}

}  // namespace

std::string asked_text(const ::vernier::Request& asked) {
  std::string text;
  for (const std::string& part :
       {type_request("compute", asked.compute), type_request("inner", asked.inner),
        type_request("accumulate", asked.accumulate), type_request("store", asked.store)}) {
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  }
  return text.empty() || asked.by.empty() ? text : text + " (" + asked.by + ")";
}

std::string precision(const ReportPage& page) {
  const plan::Plan& plan = page.plan;
  if (plan.steps.empty())
    return empty_section("precision", "Precision map", "The engine has no steps.");
  const std::map<int32_t, std::string> wishes = wishes_by_step(plan);
  Table table(
      "Steps and their types",
      {"#step", "node", "operator", "kernel", "compute", "inner", "accumulate", "store", "asked"},
      Table::Form::kWide);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    const auto wish = wishes.find(static_cast<int32_t>(s));
    table.row(
        {count_cell(static_cast<int64_t>(s)), name_cell(step.name), operator_cell(name(step.op)),
         kernel_cell(step.kernel), type_cell(step.numerics.compute), type_cell(step.numerics.inner),
         type_cell(step.numerics.accumulate), type_cell(stored_type(plan, step)),
         text_cell(wish == wishes.end() ? "" : wish->second, "why")},
        fmt::format("id=\"step-{}\"", s));
  }
  return section("precision", "Precision map",
                 hint("Every step in order, in the color of its compute type: above what operands "
                      "are taken in, below what is stored. A step that only moves or compares "
                      "values loses nothing, which is written as f64.") +
                     strip_key(plan) + strip(plan) + table.html());
}

std::string ranges(const ReportPage& page) {
  const auto& found = page.report.localisation;
  if (!found || found->ranges.empty()) {
    return empty_section("ranges", "Range audit",
                         "Not measured: verify --report fills it, except for a part of the model "
                         "(--from, --to).");
  }
  std::vector<const RangeRow*> rows;
  for (const RangeRow& row : found->ranges) rows.push_back(&row);
  std::ranges::stable_sort(rows, std::ranges::greater{},
                           [](const RangeRow* row) { return row->peak / row->limit; });
  const double f16 = largest_finite(DType::kF16);
  Table table("Largest values",
              {"#step", "node", "point", "#largest |value|", "type", "#type's limit",
               "share of the limit", "in f16 it would be"},
              Table::Form::kWide);
  for (const RangeRow* row : rows) {
    table.row(
        {count_cell(row->step), name_cell(row->name), text_cell(row->point), number_cell(row->peak),
         type_cell(row->type), number_cell(row->limit), bar_cell(row->peak / row->limit),
         evaluate::range_fits(row->peak, DType::kF16)
             ? bar_cell(row->peak / f16)
             : text_cell("✗ over " + percent_text(1 / kRangeMargin), "mark-fail")},
        row->fits ? "" : "class=\"failed\"");
  }
  return section("ranges", "Range audit",
                 hint("The largest absolute value at every rounding point in FP64, against what "
                      "its type can hold. Marked: over half of it, where build asks for f32. True "
                      "infinities do not count. Inputs: " +
                      found->inputs + ". Nearest to the limit first.") +
                     table.html());
}

std::string times(const ReportPage& page) {
  const auto& times = page.report.times;
  if (!times) {
    return empty_section("times", "Step times",
                         "Not measured: verify --report FILE --timing fills it. It is left out "
                         "otherwise, so that the same engine gives the same report.");
  }
  const double total = std::accumulate(times->ms.begin(), times->ms.end(), 0.0);
  Table table("Times of the steps", {"#step", "node", "kernel", "#ms", "share"});
  for (size_t s = 0; s < times->ms.size(); ++s) {
    table.row({count_cell(static_cast<int64_t>(s)),
               name_cell(page.plan.steps[s].name),
               kernel_cell(page.plan.steps[s].kernel),
               {fmt::format("{:.4f}", times->ms[s]), "number"},
               bar_cell(total > 0 ? times->ms[s] / total : 0)});
  }
  return section("times", "Step times",
                 hint(fmt::format("Medians with {}; {:.3f} ms in all. They differ from run to run.",
                                  times->inputs, total)) +
                     table.html());
}

std::string replay(const ReportPage& page) {
  if (page.report.steps.empty()) {
    return empty_section("replay", "Replay",
                         "No step was replayed: a part of the model (--from, --to) is verified "
                         "without it.");
  }
  std::vector<const StepResult*> rows;
  for (const StepResult& step : page.report.steps) rows.push_back(&step);
  std::ranges::stable_sort(rows, std::ranges::greater{}, &StepResult::ratio);
  Table table("Replayed steps",
              {"#step", "node", "kernel", "result", "#error", "#limit", "part of the limit",
               "#declared", "why"},
              Table::Form::kWide);
  for (const StepResult* step : rows) {
    table.row({count_cell(step->step), name_cell(step->name), kernel_cell(step->kernel),
               verdict_cell(step->passed ? "pass" : "wrong"),
               std::isfinite(step->error) ? number_cell(step->error) : Cell{"NaN", "number"},
               number_cell(step->limit), bar_cell(step->ratio),
               step->declared > 0 ? number_cell(step->declared) : Cell{"", "number"},
               text_cell(step->why, "why")},
              step->passed ? "" : "class=\"failed\"");
  }
  return section(
      "replay", "Replay",
      hint("Every step on the inputs that the engine itself gave it, against its FP64 "
           "evaluation: the element of all cells that comes nearest to its limit. Declared: "
           "the error that the kernel declares, at the rms of its output.") +
          table.html());
}

std::string rewrites(const ReportPage& page) {
  const Report& report = page.report;
  if (report.rewrites.empty()) {
    return empty_section(
        "rewrites", "Rewrites",
        report.compared_values == 0
            ? "No value was compared: a part of the model (--from, --to) is verified without it."
            : fmt::format("{} values of the plan were compared with the model's, both in FP64: "
                          "none differs.",
                          report.compared_values));
  }
  Table table("Values that differ in FP64",
              {"value", "#step", "node", "kernel", "#rms of the difference", "#rms of the value"});
  for (const ValueResult& v : report.rewrites) {
    table.row({name_cell(v.name), count_cell(v.step), name_cell(v.step_name), kernel_cell(v.kernel),
               number_cell(v.distance.rms), number_cell(v.distance.rms_reference)},
              "class=\"failed\"");
  }
  return section("rewrites", "Rewrites",
                 hint(fmt::format("Values of the plan against the model's, both in FP64 and "
                                  "without rounding: {} of {} differ. A pass rewrote the graph "
                                  "wrongly; the first is nearest to it.",
                                  report.rewrites.size(), report.compared_values)) +
                     table.html());
}

}  // namespace vernier::verify::html
