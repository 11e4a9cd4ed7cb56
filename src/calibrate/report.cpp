// The report of a calibration as text and JSON. Contract: vernier/calibrate.h.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compile/lines.h"
#include "vernier/calibrate.h"

namespace vernier {
namespace {

std::string percent(double part) { return fmt::format("{:.2f} %", 100 * part); }

// The site by its value, or by its first product.
std::string name_of(const CalibratedSite& site) {
  return site.x.empty() && !site.products.empty() ? "input of " + site.products[0] : site.x;
}

}  // namespace

std::string to_text(const CalibrateReport& report) {
  std::string text = fmt::format(
      "{}, {}, {} of products in int8\n"
      "  errors at the products' results, rms: rows by their own range, with factors, static\n",
      counted(report.batches, "batch", "batches"), counted(report.tokens, "token"),
      counted(std::ssize(report.sites), "operand"));
  text += fmt::format("{:>8} {:>8} {:>9} {:>6} {:>9} {:>9}  {:<18} operand\n", "channels", "rows",
                      "plain", "a", "factors", "static", "its range");
  for (const CalibratedSite& site : report.sites) {
    text += format_line("{:>8} {:>8} {:>9} {:>6} {:>9} {:>9}  {:<18} {}", site.channels, site.rows,
                        percent(site.plain_error), site.exponent, percent(site.error),
                        percent(site.static_error), site.range_method, name_of(site)) +
            "\n";
  }
  for (const std::string& note : report.notes) text += format_line("note: {}", note) + "\n";
  return text;
}

std::string to_json(const CalibrateReport& report) {
  nlohmann::ordered_json json{
      {"files", report.files},   {"batches", report.batches},
      {"tokens", report.tokens}, {"notes", report.notes},
      {"ms", report.ms},         {"sites", nlohmann::ordered_json::array()}};
  for (const CalibratedSite& site : report.sites) {
    json["sites"].push_back({{"x", site.x},
                             {"products", site.products},
                             {"channels", site.channels},
                             {"rows", site.rows},
                             {"exponent", site.exponent},
                             {"plain_error", site.plain_error},
                             {"error", site.error},
                             {"low", site.low},
                             {"high", site.high},
                             {"static_error", site.static_error},
                             {"range_method", site.range_method}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace vernier
