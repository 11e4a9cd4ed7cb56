// The ledger of the HTML report: one row per ONNX node, with the attributes that report.js filters
// by.
#include <fmt/format.h>

#include <set>

#include "verify/html/sections.h"
#include "verify/html/writer.h"

namespace vernier::verify::html {
namespace {

struct Filter {
  const char* label;
  const char* attribute;
  std::string (*value)(const plan::LedgerRow&);
};
constexpr Filter kFilters[] = {
    {"State", "state", [](const plan::LedgerRow& row) { return std::string(name(row.state)); }},
    {"Computes in", "compute",
     [](const plan::LedgerRow& row) { return type_text(row.got_compute); }},
    {"Stored in", "store", [](const plan::LedgerRow& row) { return type_text(row.got_store); }},
    {"Asked by", "by", [](const plan::LedgerRow& row) { return row.asked.by; }},
};

std::string choices(const plan::Plan& plan, const Filter& filter) {
  std::set<std::string> values;
  for (const plan::LedgerRow& row : plan.ledger) values.insert(filter.value(row));
  values.erase("");
  std::string options = "<option value=\"\">any</option>";
  for (const std::string& value : values)
    options += fmt::format("<option value=\"{0}\">{0}</option>", escaped(value));
  return fmt::format("<label>{}<select data-filter=\"{}\">{}</select></label>\n", filter.label,
                     filter.attribute, options);
}

// Hidden until the script, which makes it work, shows it.
std::string controls(const plan::Plan& plan) {
  std::string html =
      "<div class=\"filters\" hidden>\n<label>Search: node, operator, kernel, reason"
      "<input id=\"ledger-search\" type=\"search\" autocomplete=\"off\" spellcheck=\"false\">"
      "</label>\n";
  for (const Filter& filter : kFilters) html += choices(plan, filter);
  return html + "<span id=\"ledger-count\" role=\"status\"></span>\n</div>\n";
}

std::string attributes(const plan::LedgerRow& row) {
  std::string text;
  for (const Filter& filter : kFilters) {
    const std::string value = filter.value(row);
    if (!value.empty())
      text += fmt::format("{}data-{}=\"{}\"", text.empty() ? "" : " ", filter.attribute,
                          escaped(value));
  }
  return text;
}

}  // namespace

std::string ledger(const ReportPage& page) {
  if (page.plan.ledger.empty())
    return empty_section("ledger", "Ledger", "The engine carries no ledger.");
  Table table("Ledger",
              {"node", "operator", "part of", "asked", "compute", "accumulate", "store", "state",
               "#step", "kernel", "why"},
              Table::Form::kWide);
  for (const plan::LedgerRow& row : page.plan.ledger) {
    const bool part = row.composite != row.op;
    table.row(
        {name_cell(row.node.empty() ? row.key : row.node),
         operator_cell(row.op),
         operator_cell(part ? row.composite : ""),
         text_cell(asked_text(row.asked), "asked"),
         type_cell(row.got_compute),
         type_cell(row.got_accumulate),
         type_cell(row.got_store),
         text_cell(std::string(name(row.state))),
         {row.step == plan::kNone ? "" : fmt::format("<a href=\"#step-{0}\">{0}</a>", row.step),
          "number"},
         kernel_cell(row.kernel),
         text_cell(row.why, "why")},
        attributes(row));
  }
  return section("ledger", "Ledger",
                 hint("One row per ONNX node: what was asked of it, what it got, and why.") +
                     controls(page.plan) + table.html());
}

}  // namespace vernier::verify::html
