// Parts of an HTML page: see writer.h.
#include "verify/html/writer.h"

#include <fmt/format.h>

#include <cmath>

#include "vernier/printable.h"

namespace vernier::verify {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::string_view escape_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

// "cpu.<wbr>layer_<wbr>norm.<wbr>rows", "Layer<wbr>Normalization"
std::string in_parts(std::string_view name) {
  std::string html;
  char before = 0;
  for (char c : escaped(name)) {
    if (c >= 'A' && c <= 'Z' && before >= 'a' && before <= 'z') html += "<wbr>";
    html += c;
    if (c == '.' || c == '_') html += "<wbr>";
    before = c;
  }
  return html;
}

std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? "" : fmt::format(" {}=\"{}\"", name, value);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  html.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0 || is_unprintable(text.substr(0, length))) {
      html += kReplacement;
    } else if (const std::string_view reference = escape_of(text[0]); !reference.empty()) {
      html += reference;
    } else {
      html += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return html;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "infinite" : "−infinite";
  return value == 0 ? "0" : fmt::format("{:.2e}", value);
}

std::string percent_text(double share) {
  if (std::isnan(share)) return "NaN";
  if (share > 10) return "over 1000 %";
  if (share > 0 && share < 1e-4) return "under 0.01 %";
  return fmt::format("{:.{}f} %", 100 * share,
                     share >= 0.1 || share == 0 ? 0
                     : share < 0.01             ? 2
                                                : 1);
}

std::string type_text(DType type) {
  return type == DType::kUndefined ? "" : std::string(name(type));
}

std::string type_class(DType type) {
  if (type == DType::kUndefined) return "";
  if (!is_float(type)) return "type-integer";
  const std::string text = type_text(type);
  return text.starts_with("f8") ? "type-f8" : "type-" + text;
}

Cell text_cell(std::string_view text, std::string_view css) {
  return {escaped(text), std::string(css)};
}
// Long names break at their slashes first.
Cell name_cell(std::string_view name) {
  std::string html;
  for (char c : escaped(name)) {
    html += c;
    if (c == '/') html += "<wbr>";
  }
  return {name.empty() ? "" : "<code>" + html + "</code>", "name"};
}
Cell kernel_cell(std::string_view kernel) { return {in_parts(kernel), "kernel"}; }
Cell operator_cell(std::string_view op) { return {in_parts(op), "operator"}; }
Cell number_cell(double value) { return {number_text(value), "number"}; }
Cell count_cell(int64_t value) { return {std::to_string(value), "number"}; }

Cell bar_cell(double part) {
  const double shown = std::isfinite(part) ? std::min(std::max(part, 0.0), 1.0) : 1.0;
  return {fmt::format("<span class=\"bar\" style=\"--part:{:.3f}\"></span>{}", shown,
                      percent_text(part)),
          "number part"};
}

Cell type_cell(DType type) { return {type_text(type), type_class(type)}; }

Cell verdict_cell(std::string_view verdict) {
  const bool pass = verdict == "pass";
  return {fmt::format("<span class=\"mark-{}\">{} {}</span>", pass ? "pass" : "fail",
                      pass ? "✓" : "✗", escaped(verdict)),
          ""};
}

Table::Table(std::string label, const std::vector<std::string>& headings, Form form)
    : label_(std::move(label)), form_(form) {
  for (const std::string& heading : headings) {
    const bool number = heading.starts_with('#');
    labels_.push_back(escaped(number ? heading.substr(1) : heading));
    head_ += fmt::format("<th scope=\"col\"{}>{}</th>", number ? " class=\"number\"" : "",
                         labels_.back());
  }
}

void Table::row(const std::vector<Cell>& cells, std::string_view attributes) {
  body_ += fmt::format("<tr{}{}>", attributes.empty() ? "" : " ", attributes);
  for (size_t i = 0; i < cells.size(); ++i) {
    body_ += fmt::format("<td{} data-label=\"{}\">{}</td>", attribute("class", cells[i].css),
                         labels_[i], cells[i].html);
  }
  body_ += "</tr>\n";
  ++rows_;
}

std::string Table::html() const {
  constexpr const char* kForms[] = {"rows", "rows wide", "cards"};
  constexpr size_t kMostShown = 25;  // more rows scroll in their box
  return fmt::format(
      "<div class=\"scroll{}\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table "
      "class=\"{}\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table></div>\n",
      rows_ <= kMostShown ? " whole" : "", escaped(label_), kForms[static_cast<size_t>(form_)],
      head_, body_);
}

std::string section(std::string_view id, std::string_view title, std::string_view body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 "
      "id=\"{0}-title\">{1}</h2>\n{2}</section>\n",
      id, escaped(title), body);
}

std::string empty_section(std::string_view id, std::string_view title, std::string_view why) {
  return section(id, title, fmt::format("<p class=\"empty\">{}</p>\n", escaped(why)));
}

std::string hint(std::string_view text) {
  return fmt::format("<p class=\"hint\">{}</p>\n", escaped(text));
}

}  // namespace vernier::verify
