// Policy files: see policy_file.h.
#include "precision/policy_file.h"

#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"

namespace vernier::precision {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr const char* kVersionKey = "vernier_policy";
constexpr const char* kExpectedMode =
    "expected \"model\", \"fp32\", \"tf32\", \"fp16\", \"bf16\", \"int8\", \"w8\" or \"w4\"";
constexpr int kMaxDepth = 3;  // object, array of rules, one rule

constexpr std::array kRuleKeys{std::pair{"rule", Spelling::kRule},
                               std::pair{"layerPrecisions", Spelling::kLayerPrecisions},
                               std::pair{"layerOutputTypes", Spelling::kLayerOutputTypes}};

[[noreturn]] void fail(const std::string& file, const std::string& message) {
  throw Error(ErrorCode::kInput, "policy '" + file + "': " + message);
}

// "[json.exception.parse_error.101] parse error at line 1, column 2: …" without its bracket.
std::string plain(const std::string& what) {
  const size_t end = what.find("] ");
  return end == what.npos ? what : what.substr(end + 2);
}

Json parsed(std::string_view text, const std::string& file) {
  std::set<std::pair<int, std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth)
      fail(file, "nested too deeply; expected rules as {\"rule\": \"SELECTOR SETTING\"}");
    if (event == Json::parse_event_t::object_start) {
      // Keys of this object come at depth + 1.
      std::erase_if(keys, [&](const auto& key) { return key.first > depth; });
    }
    if (event == Json::parse_event_t::key && !keys.emplace(depth, value.get<std::string>()).second)
      fail(file, "the key \"" + value.get<std::string>() + "\" occurs twice in one object");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail(file, plain(error.what()));
  }
}

std::vector<Rule> read_rule(const Json& json, size_t index, const std::string& file) {
  const std::string where = "rules[" + std::to_string(index) + "]";
  const char* expected =
      ": expected an object with one of \"rule\", \"layerPrecisions\" or "
      "\"layerOutputTypes\" with a string";
  if (!json.is_object() || json.size() != 1 || !json.begin().value().is_string())
    fail(file, where + expected);
  const auto text = json.begin().value().get<std::string>();
  for (const auto& [key, spelling] : kRuleKeys) {
    if (json.begin().key() != key) continue;
    try {
      if (spelling == Spelling::kRule) return {parse_rule(text)};
      return spelling == Spelling::kLayerPrecisions ? parse_layer_precisions(text)
                                                    : parse_layer_output_types(text);
    } catch (const Error& error) {
      fail(file, where + ": " + error.what());
    }
  }
  fail(file, where + expected + "; got \"" + json.begin().key() + "\"");
}

void check_version(const Json& json, const std::string& file) {
  const auto found = json.find(kVersionKey);
  if (found == json.end())
    fail(file, "no \"vernier_policy\"; expected \"vernier_policy\": 1 first");
  if (!found->is_number_integer() || *found != kVersion) {
    fail(file, "\"vernier_policy\" is " + found->dump() + ", this version reads " +
                   std::to_string(kVersion));
  }
}

}  // namespace

std::string save_policy(const Policy& policy) {
  Json json{{kVersionKey, kVersion}, {"mode", name(policy.mode)}, {"rules", Json::array()}};
  for (const Rule& rule : policy.rules) {
    for (const auto& [key, spelling] : kRuleKeys) {
      if (spelling == rule.spelling) json["rules"].push_back(Json::object({{key, rule.text}}));
    }
  }
  try {
    return json.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInput, "a policy file must be UTF-8: " + plain(error.what()));
  }
}

Policy load_policy(std::string_view text, const std::string& file) {
  const Json json = parsed(text, file);
  if (!json.is_object()) fail(file, "expected an object, got " + std::string(json.type_name()));
  check_version(json, file);
  Policy policy;
  bool has_mode = false;
  for (const auto& [key, value] : json.items()) {
    if (key == kVersionKey) continue;
    if (key == "mode") {
      const auto mode = value.is_string() ? parse_mode(value.get<std::string>()) : std::nullopt;
      if (!mode) fail(file, "\"mode\": " + std::string(kExpectedMode));
      policy.mode = *mode;
      has_mode = true;
    } else if (key == "rules") {
      if (!value.is_array()) fail(file, "\"rules\": expected an array");
      for (size_t i = 0; i < value.size(); ++i) {
        auto rules = read_rule(value[i], i, file);
        std::move(rules.begin(), rules.end(), std::back_inserter(policy.rules));
      }
    } else {
      fail(file, "unknown key \"" + key + "\"; expected \"mode\" and \"rules\"");
    }
  }
  if (!has_mode) fail(file, "no \"mode\"; " + std::string(kExpectedMode));
  return policy;
}

}  // namespace vernier::precision
