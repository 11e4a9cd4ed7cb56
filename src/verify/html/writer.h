// Small parts of an HTML page: escaped text, numbers, tables, sections. Whatever comes from a model
// goes through escaped() (names may hold < & " and line breaks). Internal to the HTML report.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace vernier::verify {

/// Text as the content of an element or of a quoted attribute. What printable()
/// would escape becomes U+FFFD; line breaks stay.
std::string escaped(std::string_view text);

/// "3.1e-07", "0", "infinite", "NaN".
std::string number_text(double value);
/// "0.4 %", "36 %", "over 1000 %".
std::string percent_text(double share);
/// The class of the color of a type: "type-f16"; both f8 types share one.
std::string type_class(DType type);
/// "f32"; empty for kUndefined.
std::string type_text(DType type);

/// One cell of a table: finished HTML, and its class.
struct Cell {
  std::string html, css;
};
Cell text_cell(std::string_view text, std::string_view css = "");
/// A name of the model: in code type.
Cell name_cell(std::string_view name);
/// A name of a kernel or an operator, which breaks at its dots, bars and capitals first.
Cell kernel_cell(std::string_view kernel);
Cell operator_cell(std::string_view op);
Cell number_cell(double value);
Cell count_cell(int64_t value);
/// A bar and the percentage: part 1 is a full bar.
Cell bar_cell(double part);
/// A type on its color.
Cell type_cell(DType type);
/// "pass" or the verdict, with a sign before it.
Cell verdict_cell(std::string_view verdict);

/// A table in a box that scrolls by itself and can be reached by the keyboard. Where the window is
/// too narrow for its columns, each row is a card: its cells with their headings (report.css).
class Table {
 public:
  /// kTable: rows from 800 pixels on. kWide: from 1300, for many columns. kCards: never.
  enum class Form : uint8_t { kTable, kWide, kCards };
  /// `label`: what a screen reader calls the box. A heading that begins with '#' is of a column of
  /// numbers.
  Table(std::string label, const std::vector<std::string>& headings, Form form = Form::kTable);
  /// `attributes`: of the row, finished HTML such as `id="step-7"`.
  void row(const std::vector<Cell>& cells, std::string_view attributes = "");
  bool empty() const { return rows_ == 0; }
  std::string html() const;

 private:
  std::string label_, head_, body_;
  std::vector<std::string> labels_;  // of the columns, escaped
  Form form_;
  size_t rows_ = 0;
};

/// A section with a heading and an anchor; `body` is finished HTML.
std::string section(std::string_view id, std::string_view title, std::string_view body);
/// The same without data: one line that says what would fill it.
std::string empty_section(std::string_view id, std::string_view title, std::string_view why);
/// A paragraph of explanation below a heading.
std::string hint(std::string_view text);

}  // namespace vernier::verify
