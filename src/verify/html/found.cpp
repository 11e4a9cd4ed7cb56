// Sections of the HTML report on the whole engine: verdict, facts, cells, outputs, checks, notes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "verify/html/sections.h"
#include "verify/html/writer.h"
#include "verify/tolerance.h"
#include "vernier/version.h"

namespace vernier::verify::html {
namespace {

std::string fact(std::string_view what, std::string_view value) {
  if (value.empty()) return "";
  return fmt::format("<dt>{}</dt><dd><code>{}</code></dd>\n", escaped(what), escaped(value));
}

// ---- heat map

// The colors of report.css: shares of the limit up to these bounds.
constexpr double kShares[] = {0.01, 0.1, 0.5};

std::string share_class(double share) {
  size_t level = 0;
  while (level < std::size(kShares) && share > kShares[level]) ++level;
  return fmt::format("share-{}", level);
}

// The largest error of a cell; "NaN" where NaN or infinity stands in E or R alone.
Cell worst_cell(const CellResult& cell) {
  return std::isfinite(cell.worst) ? number_cell(cell.worst) : Cell{"NaN", "number"};
}
Cell share_cell(const CellResult& cell) {
  return std::isfinite(cell.share_of_limit) ? Cell{percent_text(cell.share_of_limit), "number"}
                                            : Cell{"–", "number"};
}

// Of a column of the grid.
std::string head_of(const std::string& sizes) { return sizes.empty() ? "fixed length" : sizes; }

bool graver(const CellResult* a, const CellResult* b) {
  const bool a_failed = a->verdict != Verdict::kPass, b_failed = b->verdict != Verdict::kPass;
  return a_failed != b_failed ? a_failed : a->share_of_limit > b->share_of_limit;
}

// Several of the user's files may have the same sizes: the gravest is shown, the others counted.
std::string heat_cell(std::vector<const CellResult*> here) {
  if (here.empty()) return "<td>–</td>";
  std::ranges::stable_sort(here, graver);
  const CellResult& cell = *here.front();
  const bool failed = cell.verdict != Verdict::kPass;
  const std::string limit =
      std::isfinite(cell.share_of_limit) ? percent_text(cell.share_of_limit) + " of limit" : "";
  const std::string more =
      here.size() > 1 ? fmt::format("<small>worst of {}</small>", here.size()) : "";
  return fmt::format(
      "<td class=\"{}\" title=\"{}\" data-label=\"{}\">{} {}<small "
      "class=\"number\">{}</small><small>{}</small>{}</td>",
      failed ? "failed" : share_class(cell.share_of_limit),
      escaped(cell.label + (cell.why.empty() ? "" : ": " + cell.why)), escaped(head_of(cell.sizes)),
      failed ? "✗" : "✓", escaped(name(cell.verdict)), worst_cell(cell).html, limit, more);
}

std::string heat_table(const Report& report) {
  std::map<std::pair<int64_t, int64_t>, std::vector<const CellResult*>> at;
  std::set<int64_t> batches;
  std::map<int64_t, std::string> heads;  // by length
  for (const CellResult& cell : report.cells) {
    if (cell.far) continue;
    at[{cell.batch, cell.length}].push_back(&cell);
    batches.insert(cell.batch);
    heads[cell.length] = cell.sizes;
  }
  std::string head = "<th scope=\"col\">batch</th>", body;
  for (const auto& [length, sizes] : heads)
    head += fmt::format("<th scope=\"col\">{}</th>", escaped(head_of(sizes)));
  for (int64_t batch : batches) {
    body += fmt::format("<tr><th scope=\"row\"><span class=\"narrow\">batch </span>{}</th>", batch);
    for (const auto& [length, sizes] : heads) body += heat_cell(at[{batch, length}]);
    body += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"scroll whole\" role=\"region\" tabindex=\"0\" aria-label=\"Cells by batch and "
      "length\"><table "
      "class=\"heat\"><thead><tr>{}</tr></thead><tbody>\n{}</tbody></table></div>\n",
      head, body);
}

// The cells beyond the grid, in the order in which they were run.
std::string far_table(const Report& report) {
  Table table("Beyond the grid", {"cell", "verdict", "#worst", "#share of the limit"});
  for (const CellResult& cell : report.cells) {
    if (!cell.far) continue;
    table.row({text_cell(cell.label), verdict_cell(name(cell.verdict)), worst_cell(cell),
               share_cell(cell)},
              cell.verdict == Verdict::kPass ? "" : "class=\"failed\"");
  }
  return table.empty() ? "" : table.html();
}

std::string heat_key() {
  std::string items;
  const std::string bounds[] = {"up to 1 % of the limit", "up to 10 %", "up to 50 %", "above 50 %"};
  for (size_t i = 0; i < std::size(bounds); ++i)
    items += fmt::format("<li><span class=\"swatch share-{}\"></span>{}</li>", i, bounds[i]);
  return "<ul class=\"key\" aria-label=\"Colours\">" + items + "<li>✗ failed</li></ul>\n";
}

// Words that stay whole where a line has room: a hyphen would part "--rule".
std::string words_html(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    html += "<span>" + escaped(text.substr(0, end)) + "</span>";
    if (end < text.size()) html += ' ';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return html;
}

// The first of them; all are in the command.
std::string rules_list(const std::vector<std::string>& rules) {
  constexpr size_t kMost = 6;
  if (rules.empty()) return "";
  std::string items;
  for (size_t i = 0; i < std::min(rules.size(), kMost); ++i)
    items += "<li><code>" + escaped(rules[i]) + "</code></li>\n";
  if (rules.size() > kMost)
    items += fmt::format("<li>and {} more, which the command has</li>\n", rules.size() - kMost);
  return "<ul class=\"plain\">\n" + items + "</ul>";
}

std::string ranking_text(const OutputResult& o) {
  if (o.rankings == 0) return "";
  return fmt::format("{} of {} first places, {} among the first five; rank correlation ≥ {:.4f}",
                     o.top1_changes, o.rankings, o.top5_changes, o.least_correlation);
}

}  // namespace

std::string verdict(const ReportPage& page) {
  const Report& r = page.report;
  const Cause& cause = r.cause;
  std::string list;
  const auto add = [&](std::string_view what, const std::string& html) {
    if (!html.empty()) list += fmt::format("<dt>{}</dt><dd>{}</dd>\n", what, html);
  };
  const auto text = [](const std::string& words) { return escaped(words); };
  if (!cause.node.empty()) {
    add("Node",
        fmt::format("{}<br><small>step <a href=\"#step-{}\">{}</a>, kernel "
                    "<code>{}</code></small>",
                    name_cell(cause.node).html, cause.step, cause.step, escaped(cause.kernel)));
  }
  add("Value", text(cause.value));
  add("Found at", text(cause.cell));
  add("Reason", text(cause.reason.empty() ? r.explanation : cause.reason));
  add("Rules that mend it", rules_list(cause.rules));
  add("What to do", text(std::string(advice(r.verdict))));
  if (!cause.command.empty()) {
    add("Command",
        fmt::format("<pre class=\"command\" tabindex=\"0\">{}</pre>", words_html(cause.command)));
  }
  return fmt::format(
      "<section id=\"verdict\" class=\"verdict{}\" aria-labelledby=\"verdict-title\">\n"
      "<h2 id=\"verdict-title\">{} {}</h2>\n<dl>\n{}</dl>\n</section>\n",
      r.passed() ? " pass" : "", r.passed() ? "✓" : "✗", escaped(name(r.verdict)), list);
}

std::string facts(const ReportPage& page) {
  const plan::Plan& plan = page.plan;
  std::string list = fact("engine file", page.engine_file);
  list += fact("engine hash", page.report.engine_hash);
  list += fact("model file", page.model_file);
  list += fact("model hash", page.model_hash);
  list += fact("model name", plan.model_name) + fact("made by", plan.producer);
  list += fact("data hash", page.report.data_hash);
  list += fact("tolerance", to_text(page.report.tolerance) +
                                (is_own(page.report.tolerance) ? " (the user's own)" : ""));
  list += fact("device", plan.device) + fact("target", plan.target);
  list += fact("size",
               fmt::format("{} steps for {} ONNX nodes", plan.steps.size(), plan.ledger.size()));
  std::string symbols;
  for (const plan::Symbol& s : plan.symbols)
    symbols += fmt::format("{}{}={}..{}", symbols.empty() ? "" : ", ", s.name, s.min, s.max);
  list += fact("sizes", symbols);
  list += fact("Vernier", kVersion);
  return section("facts", "What was verified", "<dl>\n" + list + "</dl>\n");
}

std::string cells(const ReportPage& page) {
  const Report& r = page.report;
  if (r.cells.empty()) return empty_section("cells", "Batches and lengths", "No cell was run.");
  Table failed("Failed cells", {"cell", "verdict", "#worst", "why"});
  for (const CellResult& cell : r.cells) {
    if (cell.verdict == Verdict::kPass) continue;
    failed.row({text_cell(cell.label), verdict_cell(name(cell.verdict)), worst_cell(cell),
                text_cell(cell.why, "why")},
               "class=\"failed\"");
  }
  return section("cells", "Batches and lengths",
                 hint("The largest |E − R| / (1 + |R|) of an element, where E is the engine's "
                      "answer and R the FP64 evaluation of the model; and how much of the limits "
                      "the output nearest to them takes up.") +
                     heat_table(r) + heat_key() + far_table(r) +
                     (failed.empty() ? "" : failed.html()));
}

// Errors of what is left beside NaN and infinity are not shown.
Cell error_cell(const Distance& d, double error) {
  return d.says_it_all() ? number_cell(error) : Cell{"NaN", "number"};
}

Cell error_cell(const AlsoJudged::Error& all, double error) {
  return all.wrong_non_finite > 0 ? Cell{"NaN", "number"} : number_cell(error);
}

// Beside another implementation, where one was asked.
std::string also_table(const Report& report) {
  if (!report.also) return "";
  const AlsoJudged& also = *report.also;
  Table table("Beside " + also.name,
              {"output", "nearer to FP64", "#rms, Vernier", "#rms, " + also.name, "#ratio",
               "#worst, Vernier", "#worst, " + also.name, "#rms of R"});
  for (const AlsoJudged::Output& o : also.outputs) {
    const std::optional<double> ratio = o.ratio();
    table.row({name_cell(o.name),
               text_cell(o.nearer() == "other"     ? also.name
                         : o.nearer() == "vernier" ? "Vernier"
                                                   : "equal"),
               error_cell(o.engine, o.engine.rms), error_cell(o.other, o.other.rms),
               ratio ? Cell{fmt::format("{:.3g}", *ratio), "number"} : Cell{"–", "number"},
               error_cell(o.engine, o.engine.worst), error_cell(o.other, o.other.worst),
               number_cell(o.rms_reference)});
  }
  std::string said = fmt::format(
      "{} {} ran the model on the inputs of {} of {} cells. The errors "
      "of both are to FP64, over these cells. They decide no verdict.",
      also.name, also.version, also.answered, also.cells);
  if (!also.refused.empty()) said += " No answer: " + also.refused;
  return "<h3>Beside " + escaped(also.name) + "</h3>\n" + hint(said) +
         (table.empty() ? "" : table.html());
}

// What the answers are worth, where a task was given.
std::string task_line(const Report& report) {
  if (!report.task) return "";
  return "<h3>Task</h3>\n<p>" + escaped(task_text(*report.task)) + ".</p>\n";
}

std::string outputs(const ReportPage& page) {
  if (page.report.outputs.empty())
    return empty_section("outputs", "Outputs", "No output was compared.");
  Table table("Outputs",
              {"output", "verdict", "why", "held to", "worst at", "rankings that change",
               "#max |E − R|", "#mean", "#99th percentile", "#max relative", "#rms", "#noise rms",
               "#rms of R", "#ULP", "#1 − cosine", "#SNR dB"},
              Table::Form::kCards);
  for (const OutputResult& o : page.report.outputs) {
    const Distance& d = o.worst;
    table.row(
        {name_cell(o.name), verdict_cell(name(o.verdict)),
         text_cell(o.why.empty() && o.mixed_by_model ? "mixes rows by the model" : o.why, "why"),
         text_cell(limits_text(o.limits), "why"),
         text_cell(fmt::format("{}, row {}", o.worst_cell, d.worst_row), "short"),
         text_cell(ranking_text(o), "short"), error_cell(d, d.max_abs), error_cell(d, d.mean_abs),
         error_cell(d, d.p99_abs), error_cell(d, d.max_rel), error_cell(d, d.rms),
         number_cell(o.noise_rms), number_cell(d.rms_reference), error_cell(d, d.max_ulp),
         error_cell(d, 1 - d.cosine),
         d.says_it_all() ? Cell{fmt::format("{:.1f}", d.snr_db), "number"} : error_cell(d, 0)},
        o.verdict == Verdict::kPass ? "" : "class=\"failed\"");
  }
  return section("outputs", "Outputs",
                 hint("The engine against FP64 of the model, each output at its worst cell. Noise: "
                      "what rounding in the engine's types is expected to do here.") +
                     table.html() + task_line(page.report) + also_table(page.report));
}

std::string checks(const ReportPage& page) {
  if (page.report.checks.empty()) return empty_section("checks", "Checks", "No check was made.");
  Table table("Checks", {"check", "result", "#made", "#failed", "note"});
  for (const CheckResult& c : page.report.checks) {
    const Cell result =
        c.done == 0 ? text_cell("does not apply") : verdict_cell(c.failed == 0 ? "pass" : "failed");
    table.row({text_cell(c.name, "check"), result, count_cell(c.done), count_cell(c.failed),
               text_cell(c.note, "why")},
              c.failed > 0 ? "class=\"failed\"" : "");
  }
  return section("checks", "Checks", table.html());
}

std::string notes(const ReportPage& page) {
  std::string items;
  for (const std::string& note : page.report.notes) items += "<li>" + escaped(note) + "</li>\n";
  if (!page.report.resumed.empty()) items += "<li>" + escaped(page.report.resumed) + "</li>\n";
  for (const std::string& note : page.plan.notes)
    items += "<li>of the build: " + escaped(note) + "</li>\n";
  if (items.empty()) return empty_section("notes", "Notes", "Nothing to note.");
  return section("notes", "Notes",
                 hint("What the inputs were taken to be, and what else matters.") + "<ul>\n" +
                     items + "</ul>\n");
}

}  // namespace vernier::verify::html
