// Options of a build in words: see build_options.h.
#include "verify/build_options.h"

#include "core/numerics.h"
#include "precision/policy_file.h"

namespace vernier::verify {
namespace {

// A name in a rule: in quotes where it has spaces.
std::string rule_word(std::string_view text) {
  if (!text.empty() && text.find_first_of(" \t\r\n\"\\") == text.npos) return std::string(text);
  std::string word = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') word += '\\';
    word += c;
  }
  return word + "\"";
}

std::string setting(const char* key, const TypeRequest& wish) {
  if (wish.type == DType::kUndefined) return "";
  return std::string(" ") + key + (wish.exact ? "==" : "=") + std::string(name(wish.type));
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string build_command(const plan::Plan& plan, const std::string& model,
                          const std::string& engine, const std::vector<std::string>& rules) {
  const plan::BuildOptions& build = plan.build;
  std::string text = "vernier build " + shell_word(model) + " -o " + shell_word(engine);
  const auto add = [&](const char* option, const std::string& value) {
    text += std::string(" ") + option + " " + shell_word(value);
  };
  if (plan.device != "cpu") add("--device", plan.device);
  precision::Policy policy;
  if (!build.policy.empty()) policy = precision::load_policy(build.policy, "the engine's policy");
  if (policy.mode != precision::Mode::kModel)
    text += " --" + std::string(precision::name(policy.mode));
  for (const precision::Rule& rule : policy.rules) {
    using enum precision::Spelling;
    add(rule.spelling == kRule              ? "--rule"
        : rule.spelling == kLayerPrecisions ? "--layerPrecisions"
                                            : "--layerOutputTypes",
        rule.text);
  }
  for (const std::string& rule : rules) add("--rule", rule);
  if (!build.shapes.empty()) add("--shapes", build.shapes);
  std::string outputs;
  for (const std::string& name : build.outputs) outputs += (outputs.empty() ? "" : ",") + name;
  if (!outputs.empty()) add("--outputs", outputs);
  for (const std::string& pass : build.passes_off) add("--fuse", pass + "=off");
  if (!build.scales.empty()) text += " --scales SCALES.json";
  if (build.static_scales) text += " --static";
  if (build.zero_fill) text += " --unpad zero-fill";
  for (const plan::Plugin& plugin : build.plugins) add("--plugin", plugin.file);
  return text;
}

std::vector<std::string> raising_rules(const plan::LedgerRow& row) {
  const auto raised = [](const TypeRequest& wish) {
    return below_f32(wish.type) ? TypeRequest{DType::kF32, false} : TypeRequest{};
  };
  plan::LedgerRow wanted = row;
  wanted.asked = {.compute = raised(row.asked.compute),
                  .accumulate = raised(row.asked.accumulate),
                  .store = raised(row.asked.store),
                  .by = {},
                  .inner = raised(row.asked.inner)};
  return asking_rules(wanted, row.node);
}

std::vector<std::string> asking_rules(const plan::LedgerRow& row, const std::string& name) {
  const Request& asked = row.asked;
  const std::string selector = "name:" + rule_word(name);
  const std::string settings = setting("compute", asked.compute) +
                               setting("accumulate", asked.accumulate) +
                               setting("store", asked.store);
  std::vector<std::string> rules;
  if (!settings.empty()) rules.push_back(selector + settings);
  // What is inside a whole Attention has no name of its own.
  if (asked.inner.type != DType::kUndefined)
    rules.push_back(selector + " role:attention.softmax" + setting("compute", asked.inner));
  return rules;
}

}  // namespace vernier::verify
