// Error growth of the HTML report: total and local error of every step on a logarithmic scale,
// drawn here as SVG; report.js adds a cursor. The numbers stand in a table below it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "verify/html/sections.h"
#include "verify/html/writer.h"

namespace vernier::verify::html {
namespace {

constexpr double kLeft = 64, kRight = 16, kTop = 16, kBottom = 36, kHeight = 340;
constexpr double kLeastWidth = 960, kStepWidth = 5;  // models of more steps scroll
constexpr double kNarrowWidth = 340;  // of the chart for narrow windows, whatever the model has

// Relative to what the step computes; nothing where there is nothing to show on a logarithmic
// scale, and where some elements are NaN or infinite: the error of the others means nothing.
std::optional<double> relative(double error, const StepError& step) {
  if (!step.says_it_all() || !(error > 0) || !(step.reference_rms > 0)) return std::nullopt;
  return error / step.reference_rms;
}

struct Scale {
  size_t steps = 0;
  bool narrow = false;
  int low = -8, high = -6;  // powers of ten at the lower and the upper edge
  double width() const {
    return narrow ? kNarrowWidth : std::max(kLeastWidth, kStepWidth * static_cast<double>(steps));
  }
  double column() const { return (width() - kLeft - kRight) / static_cast<double>(steps); }
  double x(size_t step) const { return kLeft + (static_cast<double>(step) + 0.5) * column(); }
  double y(double value) const {
    const double part = (std::log10(value) - low) / (high - low);
    return kHeight - kBottom - part * (kHeight - kTop - kBottom);
  }
};

Scale scale_of(const std::vector<StepError>& steps, bool narrow) {
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const StepError& step : steps) {
    for (double error : {step.total_rms, step.local_rms}) {
      const auto value = relative(error, step);
      if (!value) continue;
      least = std::min(least, *value);
      most = std::max(most, *value);
    }
  }
  Scale scale{.steps = steps.size(), .narrow = narrow};
  if (most <= 0) return scale;
  // Errors far below the others are exact for the eye: twelve powers of ten are shown.
  constexpr int kMostPowers = 12;
  scale.high = static_cast<int>(std::ceil(std::log10(most) + 0.05));
  scale.low =
      std::max(static_cast<int>(std::floor(std::log10(least) - 0.05)), scale.high - kMostPowers);
  return scale;
}

std::string line(const char* css, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css, x1, y1,
      x2, y2);
}

std::string label(const char* anchor, double x, double y, std::string_view text) {
  return fmt::format("<text text-anchor=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", anchor, x, y,
                     escaped(text));
}

std::string axes(const Scale& scale) {
  const double right = scale.width() - kRight, floor = kHeight - kBottom;
  std::string svg;
  for (int power = scale.low; power <= scale.high; ++power) {
    const double y = scale.y(std::pow(10, power));
    svg += line("grid", kLeft, y, right, y) +
           label("end", kLeft - 6, y + 4, fmt::format("1e{}", power));
  }
  const size_t most = scale.narrow ? 5 : 12;
  const size_t between = std::max<size_t>(1, (scale.steps + most - 1) / most);
  for (size_t step = 0; step < scale.steps; step += between)
    svg += label("middle", scale.x(step), floor + 16, std::to_string(step));
  svg += label("middle", (kLeft + right) / 2, kHeight - 4, "step");
  // What one rounding costs: half a unit in the last place, relative.
  struct Unit {
    const char* text;
    double size;
  };
  for (const Unit& unit :
       {Unit{"f32 unit", 0x1p-24}, {"f16 unit", 0x1p-11}, {"bf16 unit", 0x1p-8}}) {
    const double y = scale.y(unit.size);
    if (y < kTop || y > floor) continue;
    svg += line("unit", kLeft, y, right, y) + label("end", right - 4, y - 4, unit.text);
  }
  return svg;
}

// A line broken where there is no value, and a mark at each: a disc, or a square.
std::string series(const Scale& scale, const std::vector<StepError>& steps, const char* css,
                   double StepError::*error) {
  std::string path, marks;
  bool drawing = false;
  const bool square = std::string_view(css) == "local";
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto value = relative(steps[s].*error, steps[s]);
    if (!value) {
      drawing = false;
      continue;
    }
    const double x = scale.x(s), y = std::min(scale.y(*value), kHeight - kBottom);
    path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", x, y);
    marks += square
                 ? fmt::format(
                       "<rect class=\"dot-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"4\" "
                       "height=\"4\"/>",
                       css, x - 2, y - 2)
                 : fmt::format("<circle class=\"dot-{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"/>",
                               css, x, y);
    drawing = true;
  }
  return fmt::format("<path class=\"series {}\" d=\"{}\"/>\n{}\n", css, path, marks);
}

// A band behind each run of steps whose results hold NaN or infinity: there is no error to draw.
std::string bands(const Scale& scale, const std::vector<StepError>& steps) {
  std::string svg;
  for (size_t s = 0; s < steps.size();) {
    size_t end = s;
    while (end < steps.size() && !steps[end].says_it_all()) ++end;
    if (end > s) {
      const double left = scale.x(s) - scale.column() / 2,
                   width = static_cast<double>(end - s) * scale.column();
      svg += fmt::format(
          "<rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
          left, kTop, width, kHeight - kTop - kBottom);
      svg += fmt::format("<text class=\"mark-fail\" x=\"{:.1f}\" y=\"{:.1f}\">NaN</text>\n",
                         std::clamp(left + width / 2, kLeft + 14, scale.width() - kRight - 14),
                         (kHeight - kBottom + kTop) / 2);
    }
    s = std::max(end, s + 1);
  }
  return svg;
}

std::string summary(const StepError& s, bool has_shares) {
  std::string line =
      fmt::format("step {}: {} ({}, stored in {}). ", s.step, s.name, s.kernel, type_text(s.store));
  if (!s.says_it_all())
    return line + fmt::format("No error: {} elements are NaN or infinite.", s.non_finite);
  const auto text = [&](double error) {
    const auto value = relative(error, s);
    return value ? number_text(*value) : std::string("0");
  };
  line += fmt::format("Relative rms: total {}, local {}.", text(s.total_rms), text(s.local_rms));
  if (has_shares)
    line += fmt::format(" Share of the error at the outputs: {}.", percent_text(s.share));
  return line;
}

// One invisible column per step: what the pointer is over, with a text that needs no script.
std::string columns(const Scale& scale, const Localisation& found) {
  const std::vector<StepError>& steps = found.steps;
  std::string svg;
  for (size_t s = 0; s < steps.size(); ++s) {
    const std::string text = escaped(summary(steps[s], found.has_shares()));
    if (steps[s].own_non_finite > 0)
      svg += fmt::format("<text class=\"mark-fail\" x=\"{:.1f}\" y=\"{:.1f}\">✗</text>", scale.x(s),
                         kTop + 6);
    svg += fmt::format(
        "<rect class=\"hit\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "data-text=\"{}\"><title>{}</title></rect>\n",
        scale.x(s) - scale.column() / 2, kTop, scale.column(), kHeight - kTop - kBottom, text,
        text);
  }
  return svg;
}

std::string chart(const Localisation& found, bool narrow) {
  const std::vector<StepError>& steps = found.steps;
  const Scale scale = scale_of(steps, narrow);
  return fmt::format(
             "<div {}class=\"scroll whole growth-chart {}\" role=\"group\" tabindex=\"0\" "
             "aria-label=\"Error by step; the arrow keys move along the steps\"><div "
             "class=\"chart\" style=\"min-width:{:.0f}px\"><svg viewBox=\"0 0 {:.0f} {:.0f}\" "
             "role=\"img\" aria-label=\"Relative error of every step, logarithmic\">\n",
             narrow ? "" : "id=\"growth-chart\" ", narrow ? "narrow" : "roomy",
             scale.width() > kLeastWidth ? scale.width() : 0, scale.width(), kHeight) +
         bands(scale, steps) + axes(scale) + series(scale, steps, "local", &StepError::local_rms) +
         series(scale, steps, "total", &StepError::total_rms) +
         line("cursor", 0, kTop, 0, kHeight - kBottom) + columns(scale, found) +
         "</svg></div></div>\n";
}

constexpr const char* kKey =
    "<ul class=\"key\" aria-label=\"Lines\">"
    "<li><svg width=\"36\" height=\"12\" aria-hidden=\"true\"><path class=\"series total\" d=\"M0 "
    "6H36\"/><circle class=\"dot-total\" cx=\"18\" cy=\"6\" r=\"3\"/></svg> total error: engine "
    "against FP64</li>"
    "<li><svg width=\"36\" height=\"12\" aria-hidden=\"true\"><path class=\"series local\" d=\"M0 "
    "6H36\"/><rect class=\"dot-local\" x=\"15\" y=\"3\" width=\"6\" height=\"6\"/></svg> local "
    "error: what the step adds on the engine's own inputs</li></ul>\n";

// "NaN" where elements are left out of the error.
Cell error_cell(const StepError& s, double error) {
  return s.says_it_all() ? number_cell(error) : Cell{"NaN", "number"};
}

std::string table(const Localisation& found) {
  Table rows("Errors of the steps",
             {"#step", "node", "kernel", "store", "#rms in FP64", "#local rms", "#weights rms",
              "#total rms", "#carries on", "share of the outputs' error", "#NaN or infinite"},
             Table::Form::kWide);
  for (const StepError& s : found.steps) {
    rows.row(
        {count_cell(s.step), name_cell(s.name), kernel_cell(s.kernel), type_cell(s.store),
         number_cell(s.reference_rms), error_cell(s, s.local_rms), error_cell(s, s.weights_rms),
         error_cell(s, s.total_rms),
         s.says_it_all() ? Cell{fmt::format("{:.2g}", s.amplification), "number"}
                         : error_cell(s, 0),
         found.has_shares() ? bar_cell(s.share) : Cell{"–", "number"}, count_cell(s.non_finite)},
        s.own_non_finite > 0 ? "class=\"failed\"" : "");
  }
  return rows.html();
}

}  // namespace

std::string growth(const ReportPage& page) {
  const auto& found = page.report.localisation;
  if (!found || found->steps.empty()) {
    return empty_section("growth", "Error growth",
                         "Not measured: verify --report fills it, except for a part of the model "
                         "(--from, --to).");
  }
  std::string warning;
  if (!found->has_shares()) {
    const StepError& first = found->steps[found->first_non_finite];
    warning = fmt::format(
        "<p class=\"mark-fail warning\">✗ NaN or infinity begins in step {} (<code>{}</code>). "
        "Behind it there is no error to show: the line is broken.</p>\n",
        first.step, escaped(first.name));
  }
  std::string text =
      "Root mean squares, relative to what the step computes in FP64. Inputs: " + found->inputs +
      ".";
  if (found->has_shares()) {
    for (size_t s : found->by_share(0.1)) {
      text +=
          fmt::format(" Step {} ({}) adds {} of the error at the outputs.", found->steps[s].step,
                      found->steps[s].name, percent_text(found->steps[s].share));
    }
  }
  return section("growth", "Error growth",
                 warning + hint(text) + kKey + chart(*found, false) + chart(*found, true) +
                     "<p id=\"growth-readout\" class=\"readout\" role=\"status\">Point at a "
                     "step, or focus the chart and use the arrow keys.</p>\n" +
                     table(*found));
}

}  // namespace vernier::verify::html
