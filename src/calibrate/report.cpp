// The reports of a calibration and of an import as text and JSON. Contract: vernier/calibrate.h.
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

std::string to_text(const ImportCacheReport& report) {
  std::string text = format_line("TensorRT {}, {}: ranges for {} of {} of products in int8\n",
                                 report.version, report.algorithm, report.found.size(),
                                 counted(report.found.size() + report.missing.size(), "operand"));
  text += fmt::format("{:>10}  operand\n", "range");
  for (const ImportedRange& range : report.found)
    text += format_line("{:>10}  {}\n", fmt::format("±{:.4g}", range.limit), range.x);
  for (const ImportedRange& range : report.missing)
    text += format_line("{:>10}  {}, read by {}\n", "none", range.x, range.products[0]);
  if (!report.missing.empty())
    text += format_line(
        "note: warning: the cache has no range for {}: build without --static, or keep their "
        "products in 16 bits\n",
        counted(report.missing.size(), "operand"));
  for (const std::string& name : report.unknown)
    text += format_line("note: the model has no tensor '{}' of the cache\n", name);
  return text;
}

std::string to_json(const ImportCacheReport& report) {
  const auto listed = [](const std::vector<ImportedRange>& ranges) {
    auto list = nlohmann::ordered_json::array();
    for (const ImportedRange& range : ranges)
      list.push_back({{"x", range.x}, {"products", range.products}, {"limit", range.limit}});
    return list;
  };
  const nlohmann::ordered_json json{
      {"version", report.version},     {"algorithm", report.algorithm},
      {"found", listed(report.found)}, {"missing", listed(report.missing)},
      {"unknown", report.unknown},     {"ms", report.ms}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace vernier
