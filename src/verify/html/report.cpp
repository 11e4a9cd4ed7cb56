// The HTML report: the page around its sections, and the order of these. See html_report.h.
#include "verify/html/report.h"

#include <fmt/format.h>

#include "verify/html/assets.h"
#include "verify/html/sections.h"
#include "verify/html/writer.h"

namespace vernier::verify {
namespace {

struct Part {
  const char* id;
  const char* title;
  std::string (*make)(const ReportPage&);
};
constexpr Part kParts[] = {
    {"verdict", "Verdict", html::verdict},
    {"facts", "What was verified", html::facts},
    {"cells", "Batches and lengths", html::cells},
    {"outputs", "Outputs", html::outputs},
    {"checks", "Checks", html::checks},
    {"growth", "Error growth", html::growth},
    {"precision", "Precision map", html::precision},
    {"ranges", "Range audit", html::ranges},
    {"ledger", "Ledger", html::ledger},
    {"times", "Step times", html::times},
    {"replay", "Replay", html::replay},
    {"rewrites", "Rewrites", html::rewrites},
    {"notes", "Notes", html::notes},
};

// Nothing may be fetched: not even a name that slipped through the escaping could do so.
constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'";

// Rows as cards: always in tables of the form .cards, in others where the window is narrow. A style
// sheet cannot share rules between media queries, so that the page has them three times.
std::string card_rules() {
  constexpr std::string_view kForm = ".cards";
  const std::string rules(card_style());
  const auto within = [&](std::string_view form, int most_pixels) {
    std::string of_form = rules;
    for (size_t at = of_form.find(kForm); at != std::string::npos; at = of_form.find(kForm, at))
      of_form.replace(at, kForm.size(), form);
    return fmt::format("@media (max-width: {}px) {{\n{}}}\n", most_pixels, of_form);
  };
  return rules + within(".wide", 1300) + within(".rows", 800);
}

}  // namespace

std::string to_html(const ReportPage& page) {
  std::string links, body;
  for (const Part& part : kParts) {
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>", part.id, part.title);
    body += part.make(page);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}: {} – Vernier</title>\n<style>\n{}{}</style>\n</head>\n<body>\n"
      "<a class=\"skip\" href=\"#verdict\">To the verdict</a>\n"
      "<header><h1>Vernier report</h1>\n<p class=\"lead\">Engine <code>{}</code> against the FP64 "
      "evaluation of model <code>{}</code></p>\n"
      "<nav aria-label=\"Sections\"><ul>{}</ul></nav></header>\n<main>\n{}</main>\n"
      "<script>\n{}</script>\n</body>\n</html>\n",
      kPolicy, escaped(name(page.report.verdict)), escaped(page.engine_file), report_style(),
      card_rules(), escaped(page.engine_file), escaped(page.model_file), links, body,
      report_script());
}

}  // namespace vernier::verify
