// Scales files: see scales.h.
#include "compile/scales.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace vernier::compiler {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kFormat = "vernier-scales";
constexpr int kMaxDepth = 6;  // object, sites, a site, static, errors
constexpr size_t kMostChannels = size_t{1} << 15;

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without its bracket.
std::string plain(const std::string& what) {
  const size_t end = what.find("] ");
  return end == what.npos ? what : what.substr(end + 2);
}

// What an error shows of a value.
std::string shown(const Json& value) {
  constexpr size_t kMost = 40;
  if (value.is_structured()) return "an " + std::string(value.type_name());
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Scales read(std::string_view text) const;

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(ErrorCode::kInput, "scales '" + file_ + "': " + message);
  }
  [[noreturn]] void wrong(const std::string& where, const Json& value,
                          const std::string& expected) const {
    fail(where + " is " + shown(value) + ", expected " + expected);
  }

  Json parsed(std::string_view text) const;
  void check_format(const Json& json) const;
  // A member that must be there.
  const Json& member(const Json& json, const char* key, const std::string& where,
                     const std::string& expected) const {
    const auto found = json.find(key);
    if (found == json.end())
      fail(where + " has no \"" + key + "\"; expected " + expected +
           ". Was the file edited? Write it again with 'vernier calibrate'");
    return *found;
  }
  std::string text_of(const Json& value, const std::string& where) const {
    if (!value.is_string()) wrong(where, value, "a text");
    return value.get<std::string>();
  }
  std::vector<std::string> texts_of(const Json& value, const std::string& where) const;
  double number_of(const Json& value, const std::string& where) const {
    if (!value.is_number()) wrong(where, value, "a number");
    return value.get<double>();
  }
  int64_t count_of(const Json& value, const std::string& where) const {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > (uint64_t{1} << 62))
      wrong(where, value, "a number of rows or files");
    return value.get<int64_t>();
  }
  NamedErrors errors_of(const Json& value, const std::string& where) const;
  std::vector<float> factors_of(const Json& value, const std::string& where) const;
  void read_static(const Json& value, const std::string& where, ScalesSite& site) const;
  ScalesSite site_of(const Json& value, const std::string& where) const;
  void check_products(const Scales& scales) const;

  const std::string& file_;
};

Json Reader::parsed(std::string_view text) const {
  std::set<std::pair<int, std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) fail("nested too deeply; expected a list of sites");
    if (event == Json::parse_event_t::object_start)
      std::erase_if(keys, [&](const auto& key) { return key.first > depth; });
    if (event == Json::parse_event_t::key && !keys.emplace(depth, value.get<std::string>()).second)
      fail("the key " + shown(value) + " occurs twice in one object");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail("it is not JSON: " + plain(error.what()) +
         ". Expected a file that 'vernier calibrate' has written");
  }
}

void Reader::check_format(const Json& json) const {
  const char* advice = ". Write it again with this version's 'vernier calibrate'";
  if (!json.is_object()) wrong("the file", json, "an object");
  const auto format = json.find("format");
  if (format == json.end() || *format != kFormat)
    fail("\"format\" is " + (format == json.end() ? "missing" : shown(*format)) + ", expected \"" +
         kFormat + "\": a file that 'vernier calibrate' has written");
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer() || *version != kVersion)
    fail("\"version\" is " + (version == json.end() ? "missing" : shown(*version)) + ", expected " +
         std::to_string(kVersion) + advice);
}

std::vector<std::string> Reader::texts_of(const Json& value, const std::string& where) const {
  if (!value.is_array()) wrong(where, value, "a list of names");
  std::vector<std::string> texts;
  for (const Json& each : value)
    texts.push_back(text_of(each, where + "[" + std::to_string(texts.size()) + "]"));
  return texts;
}

NamedErrors Reader::errors_of(const Json& value, const std::string& where) const {
  if (!value.is_object()) wrong(where, value, "an object of numbers");
  NamedErrors errors;
  for (const auto& [key, number] : value.items())
    errors.emplace_back(key, number_of(number, where + "." + key));
  return errors;
}

std::vector<float> Reader::factors_of(const Json& value, const std::string& where) const {
  if (!value.is_array() || value.empty() || value.size() > kMostChannels)
    fail(where + " has " + (value.is_array() ? std::to_string(value.size()) : "no") +
         " numbers, expected one for each channel of x, 1 to " + std::to_string(kMostChannels));
  std::vector<float> factors;
  for (const Json& each : value) {
    const std::string at = where + "[" + std::to_string(factors.size()) + "]";
    int exponent = 0;
    const double factor = number_of(each, at);
    const bool is_power = factor > 0 && std::frexp(factor, &exponent) == 0.5;
    if (!is_power || std::abs(exponent - 1) > kMostFactor)
      wrong(at, each, fmt::format("a power of two, 2^-{0} to 2^{0}", kMostFactor));
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

void Reader::read_static(const Json& value, const std::string& where, ScalesSite& site) const {
  if (!value.is_object()) wrong(where, value, "an object");
  for (const auto& [key, each] : value.items()) {
    const std::string at = where + "." + key;
    if (key == "low")
      site.low = number_of(each, at);
    else if (key == "high")
      site.high = number_of(each, at);
    else if (key == "method")
      site.range_method = text_of(each, at);
    else if (key == "errors")
      site.range_errors = errors_of(each, at);
    else
      fail("unknown key \"" + at + "\"; expected low, high, method, errors");
  }
  if (!(site.low <= 0 && site.high >= 0))
    fail(where +
         fmt::format(" is {:g} to {:g}, expected a range that holds 0", site.low, site.high));
  constexpr double kLargest = std::numeric_limits<float>::max();
  if (!(site.low >= -kLargest && site.high <= kLargest))
    fail(where + fmt::format(" is {:g} to {:g}, expected numbers of f32", site.low, site.high));
}

ScalesSite Reader::site_of(const Json& value, const std::string& where) const {
  if (!value.is_object()) wrong(where, value, "an object");
  ScalesSite site;
  site.products =
      texts_of(member(value, "products", where, "names of ONNX nodes"), where + ".products");
  if (site.products.empty()) fail(where + ".products is empty, expected names of ONNX nodes");
  site.factors = factors_of(member(value, "factors", where, "one number for each channel of x"),
                            where + ".factors");
  for (const auto& [key, each] : value.items()) {
    const std::string at = where + "." + key;
    if (key == "products" || key == "factors") continue;
    if (key == "x")
      site.x = text_of(each, at);
    else if (key == "rows")
      site.rows = count_of(each, at);
    else if (key == "static")
      read_static(each, at, site);
    else if (key == "errors")
      site.factor_errors = errors_of(each, at);
    else
      fail("unknown key \"" + at + "\"; expected x, products, rows, factors, errors, static");
  }
  return site;
}

// A product is at one site.
void Reader::check_products(const Scales& scales) const {
  std::map<std::string, size_t> site_of;
  for (size_t s = 0; s < scales.sites.size(); ++s) {
    for (const std::string& product : scales.sites[s].products) {
      const auto [at, fresh] = site_of.emplace(product, s);
      if (!fresh)
        fail(
            fmt::format("product '{}' is at sites[{}] and at sites[{}], expected one site for "
                        "each product",
                        product, at->second, s));
    }
  }
}

Scales Reader::read(std::string_view text) const {
  const Json json = parsed(text);
  check_format(json);
  Scales scales;
  const Json& model = member(json, "model", "the file", "the model's file and hash");
  if (!model.is_object()) wrong("model", model, "an object");
  scales.model_hash = text_of(member(model, "hash", "model", "a hash in hex"), "model.hash");
  for (const auto& [key, value] : model.items()) {
    if (key == "file")
      scales.model_file = text_of(value, "model.file");
    else if (key != "hash")
      fail("unknown key \"model." + key + "\"; expected file and hash");
  }
  const Json& sites = member(json, "sites", "the file", "a list of sites");
  if (!sites.is_array()) wrong("sites", sites, "a list");
  for (const Json& each : sites)
    scales.sites.push_back(site_of(each, "sites[" + std::to_string(scales.sites.size()) + "]"));
  for (const auto& [key, value] : json.items()) {
    if (key == "format" || key == "version" || key == "model" || key == "sites") continue;
    if (key == "method") {
      scales.method = text_of(value, key);
    } else if (key == "data" && value.is_object()) {
      for (const auto& [what, number] : value.items()) {
        if (what == "files")
          scales.data_files = texts_of(number, "data.files");
        else if (what == "batches")
          scales.batches = count_of(number, "data.batches");
        else if (what == "tokens")
          scales.tokens = count_of(number, "data.tokens");
        else
          fail("unknown key \"data." + what + "\"; expected files, batches, tokens");
      }
    } else {
      fail("unknown key \"" + key + "\"; expected format, version, model, data, method, sites");
    }
  }
  check_products(scales);
  return scales;
}

Json json_of(const NamedErrors& errors) {
  Json json = Json::object();
  for (const auto& [name, value] : errors) json[name] = value;
  return json;
}

Json json_of(const ScalesSite& site) {
  Json json{{"x", site.x}, {"products", site.products}, {"rows", site.rows}};
  json["errors"] = json_of(site.factor_errors);
  json["static"] = {{"low", site.low},
                    {"high", site.high},
                    {"method", site.range_method},
                    {"errors", json_of(site.range_errors)}};
  json["factors"] = site.factors;
  return json;
}

}  // namespace

std::string save_scales(const Scales& scales) {
  const Json head{
      {"format", kFormat},
      {"version", kVersion},
      {"model", {{"file", scales.model_file}, {"hash", scales.model_hash}}},
      {"data",
       {{"files", scales.data_files}, {"batches", scales.batches}, {"tokens", scales.tokens}}},
      {"method", scales.method}};
  try {
    std::string text = "{\n";
    for (const auto& [key, value] : head.items())
      text += " \"" + key + "\": " + value.dump() + ",\n";
    text += " \"sites\": [";
    const char* before = "\n";
    for (const ScalesSite& site : scales.sites) {
      text += std::string(before) + "  {";
      const char* between = "";
      const Json json = json_of(site);
      for (const auto& [key, value] : json.items()) {
        text += std::string(between) + "\"" + key + "\": " + value.dump();
        between = ",\n   ";
      }
      text += "}";
      before = ",\n";
    }
    return text + "\n ]\n}\n";
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInput, "a scales file must be UTF-8: " + plain(error.what()));
  }
}

Scales load_scales(std::string_view text, const std::string& file) {
  return Reader(file).read(text);
}

}  // namespace vernier::compiler
