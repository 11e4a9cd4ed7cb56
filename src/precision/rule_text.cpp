// Parses rules in Vernier's and in trtexec's syntax. Grammar: docs/precision.md. Any text gives
// rules or an Error(kInput) with the position of the mistake.
#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"
#include "core/names.h"
#include "precision/policy.h"

namespace vernier::precision {
namespace {

constexpr size_t kMaxChars = 1024;  // of one rule; bounds the time of matching and of messages

// ---- words

struct TypeWord {
  std::string_view word;
  DType type;
};
constexpr std::array kTypeWords{
    TypeWord{"f32", DType::kF32},       TypeWord{"fp32", DType::kF32},
    TypeWord{"float32", DType::kF32},   TypeWord{"f16", DType::kF16},
    TypeWord{"fp16", DType::kF16},      TypeWord{"half", DType::kF16},
    TypeWord{"bf16", DType::kBF16},     TypeWord{"tf32", DType::kTF32},
    TypeWord{"f8e4m3", DType::kF8E4M3}, TypeWord{"fp8", DType::kF8E4M3},
    TypeWord{"f8e5m2", DType::kF8E5M2}, TypeWord{"int8", DType::kQ8},
    TypeWord{"q8", DType::kQ8},         TypeWord{"w8", DType::kW8},
    TypeWord{"w4", DType::kW4},
};
constexpr const char* kExpectedType =
    "expected f32 (fp32, float32), f16 (fp16, half), bf16, tf32, f8e4m3 (fp8), f8e5m2, int8, w8 or "
    "w4";

// As a rule spells it.
std::string_view said(DType type) { return type == DType::kQ8 ? "int8" : name(type); }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Text for a message: one line, of bounded length, in quotes.
std::string quoted(std::string_view text) {
  constexpr size_t kShown = 120;
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "'";
  for (char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out + (text.size() > kShown ? "…'" : "'");
}

// A text that is read from left to right; errors name it and the column.
class Reader {
 public:
  Reader(std::string what, std::string_view text) : what_(std::move(what)), text_(text) {
    if (text.size() > kMaxChars) {
      fail(kMaxChars, "a rule has at most " + std::to_string(kMaxChars) + " characters, got " +
                          std::to_string(text.size()));
    }
    const size_t zero = text.find('\0');
    if (zero != text.npos) fail(zero, "a NUL byte");
  }

  [[noreturn]] void fail(size_t at, const std::string& message) const {
    throw Error(ErrorCode::kInput, what_ + " " + quoted(text_) + ", column " +
                                       std::to_string(at + 1) + ": " + message);
  }

  DType type(size_t at, std::string_view word) const {
    for (const TypeWord& row : kTypeWords) {
      if (row.word == word) return row.type;
    }
    if (is_one_of(word, {"i8", "uint8", "u8", "int4", "fp4"})) {
      fail(at, "quantized types such as " + quoted(word) +
                   " cannot be requested by rules in this version; " + kExpectedType);
    }
    if (is_one_of(word, {"int32", "i32", "int64", "i64", "bool"})) {
      fail(at, quoted(word) + ": integers keep the model's type; " + kExpectedType);
    }
    fail(at, quoted(word) + " is not a type that a rule can request; " + kExpectedType);
  }

  /// The type of sums.
  DType sum_type(size_t at, std::string_view word) const {
    const DType read = type(at, word);
    if (is_quantized(read)) {
      fail(at, std::string(said(read)) +
                   " is the type of a product's operands (compute=), not of sums");
    }
    return read;
  }

  /// The type of results in memory; tf32 has no storage.
  DType storage_type(size_t at, std::string_view word) const {
    const DType read = type(at, word);
    if (read == DType::kTF32) fail(at, "tf32 is a compute type, results cannot be stored in it");
    if (is_quantized(read) && read != DType::kF8E4M3) {
      fail(at, std::string(said(read)) +
                   " is the type of a product's operands (compute=), results cannot be stored in "
                   "it");
    }
    return read;
  }

  std::string_view text() const { return text_; }

 private:
  std::string what_;
  std::string_view text_;
};

// ---- Vernier's syntax

class RuleReader : Reader {
 public:
  explicit RuleReader(std::string_view text) : Reader("rule", trimmed(text)) {
    rule_.text = std::string(this->text());
  }

  Rule run() {
    for (skip_spaces(); at_ < text().size(); skip_spaces()) word();
    if (rule_.selector.terms.empty()) {
      fail(at_, "no selector; expected name:, op:, role: or layer: ('name:*' for every node)");
    }
    if (settings_ == 0) fail(at_, "no setting; expected compute=, accumulate= or store=");
    return std::move(rule_);
  }

 private:
  void skip_spaces() {
    while (at_ < text().size() && is_space(text()[at_])) ++at_;
  }

  void word() {
    const size_t start = at_;
    while (at_ < text().size() && text()[at_] != ':' && text()[at_] != '=' &&
           !is_space(text()[at_]))
      ++at_;
    const std::string_view key = text().substr(start, at_ - start);
    const char next = at_ < text().size() ? text()[at_] : ' ';
    if (next == ':') return selector(start, key);
    if (next == '=') return setting(start, key);
    fail(start, quoted(key) +
                    " is neither a selector (name:, op:, role:, layer:) nor a setting (compute=, "
                    "accumulate=, store=)");
  }

  // Up to the next space; in "…" anything, with \" and \\ for these two.
  std::string value(std::string_view of) {
    const size_t start = at_;
    std::string read;
    if (at_ < text().size() && text()[at_] == '"') {
      for (++at_;; ++at_) {
        if (at_ == text().size()) fail(start, "the closing quote is missing");
        if (text()[at_] == '"') break;
        if (text()[at_] == '\\' && at_ + 1 < text().size()) ++at_;
        read += text()[at_];
      }
      ++at_;
      if (at_ < text().size() && !is_space(text()[at_])) fail(at_, "expected a space");
    } else {
      while (at_ < text().size() && !is_space(text()[at_])) read += text()[at_++];
    }
    if (read.empty()) fail(start, "nothing after '" + std::string(of) + "'");
    return read;
  }

  void selector(size_t start, std::string_view key) {
    if (!is_one_of(key, {"name", "op", "role", "layer"}))
      fail(start, "unknown selector " + quoted(key) + "; expected name, op, role or layer");
    const size_t value_at = ++at_;
    Term term;
    term.pattern = value(std::string(key) + ":");
    if (key == "op") term.kind = Term::Kind::kOp;
    if (key == "role") read_role(value_at, term);
    if (key == "layer") read_layers(value_at, term);
    rule_.selector.terms.push_back(std::move(term));
  }

  void read_role(size_t at, Term& term) const {
    term.kind = Term::Kind::kRole;
    const auto role = parse_role(term.pattern);
    if (!role) {
      std::vector<std::string> known;
      for (Role one : all_roles()) known.emplace_back(name(one));
      fail(at, "unknown role " + quoted(term.pattern) + nearest_names(term.pattern, known));
    }
    term.role = *role;
    term.pattern.clear();
  }

  // "3" or "0..3".
  void read_layers(size_t at, Term& term) const {
    term.kind = Term::Kind::kLayer;
    const std::string text = std::move(term.pattern);
    term.pattern.clear();
    const size_t dots = text.find("..");
    const auto number = [&](std::string_view digits, int& into) {
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
      const bool whole = error == std::errc() && end == digits.data() + digits.size();
      if (!whole || into < 0) {
        fail(at, quoted(text) + " is not a range of blocks; expected layer:3 or layer:0..3");
      }
    };
    number(std::string_view(text).substr(0, dots), term.first);
    term.last = term.first;
    if (dots != text.npos) number(std::string_view(text).substr(dots + 2), term.last);
    if (term.last < term.first) fail(at, quoted(text) + ": the last block is below the first");
  }

  void setting(size_t start, std::string_view key) {
    const std::array settings{
        std::pair{"compute", &rule_.compute}, std::pair{"accumulate", &rule_.accumulate},
        std::pair{"acc", &rule_.accumulate}, std::pair{"store", &rule_.store}};
    const auto found = std::find_if(settings.begin(), settings.end(),
                                    [&](const auto& s) { return key == s.first; });
    if (found == settings.end()) {
      fail(start,
           "unknown setting " + quoted(key) + "; expected compute, accumulate (acc) or store");
    }
    TypeRequest& asked = *found->second;
    if (asked.type != DType::kUndefined) fail(start, quoted(key) + " is set twice");
    ++at_;
    const bool exact = at_ < text().size() && text()[at_] == '=';
    at_ += exact;
    const size_t value_at = at_;
    const std::string word = value(std::string(key) + (exact ? "==" : "="));
    const bool stored = &asked == &rule_.store;
    const bool summed = &asked == &rule_.accumulate;
    asked = {stored   ? storage_type(value_at, word)
             : summed ? sum_type(value_at, word)
                      : type(value_at, word),
             exact};
    ++settings_;
  }

  Rule rule_;
  size_t at_ = 0;
  int settings_ = 0;
};

// ---- trtexec's syntax

struct Entry {
  std::string_view text;  ///< "Softmax_12:fp32"
  std::string pattern;
  std::string_view types;
  size_t types_at = 0;
};

// 'a:b':fp32 names a layer whose name has a colon or a comma.
Entry read_entry(const Reader& reader) {
  const std::string_view text = reader.text();
  Entry entry{.text = text, .pattern = {}, .types = {}};
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0 || colon + 1 == text.size())
    reader.fail(0, "expected LAYER:TYPE, e.g. LayerNormalization_*:fp32");
  entry.types = text.substr(colon + 1);
  entry.types_at = colon + 1;
  std::string_view layer = text.substr(0, colon);
  if (layer.size() > 1 && layer.front() == '\'' && layer.back() == '\'')
    layer = layer.substr(1, layer.size() - 2);
  if (layer.empty()) reader.fail(0, "an empty layer name");
  entry.pattern = std::string(layer);
  return entry;
}

std::vector<std::string_view> split_entries(std::string_view text) {
  std::vector<std::string_view> entries;
  size_t start = 0;
  bool in_quotes = false;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '\'') in_quotes = !in_quotes;
    if (i < text.size() && (text[i] != ',' || in_quotes)) continue;
    entries.push_back(trimmed(text.substr(start, i - start)));
    start = i + 1;
  }
  return entries;
}

std::vector<Rule> read_entries(std::string_view text, Spelling spelling) {
  const char* option =
      spelling == Spelling::kLayerPrecisions ? "--layerPrecisions" : "--layerOutputTypes";
  std::vector<Rule> rules;
  if (trimmed(text).empty()) return rules;
  for (std::string_view one : split_entries(text)) {
    const Reader reader(option, one);
    const Entry entry = read_entry(reader);
    Rule rule;
    rule.selector.terms.push_back({.kind = Term::Kind::kTrtexec, .pattern = entry.pattern});
    rule.text = std::string(one);
    rule.spelling = spelling;
    if (spelling == Spelling::kLayerPrecisions) {
      rule.compute = {reader.type(entry.types_at, entry.types), false};
      if (rule.compute.type == DType::kF32) rule.accumulate = rule.compute;
      rules.push_back(std::move(rule));
      continue;
    }
    for (size_t at = entry.types_at; at <= one.size();) {
      const size_t end = std::min(one.find('+', at), one.size());
      const DType type = reader.storage_type(at, one.substr(at, end - at));
      if (rule.store.type != DType::kUndefined && rule.store.type != type)
        reader.fail(at, "outputs of one node are stored in one type; expected the same type again");
      rule.store = {type, false};
      at = end + 1;
    }
    rules.push_back(std::move(rule));
  }
  return rules;
}

}  // namespace

Rule parse_rule(std::string_view text) { return RuleReader(text).run(); }

std::vector<Rule> parse_layer_precisions(std::string_view text) {
  return read_entries(text, Spelling::kLayerPrecisions);
}

std::vector<Rule> parse_layer_output_types(std::string_view text) {
  return read_entries(text, Spelling::kLayerOutputTypes);
}

void check_precision_constraints(std::string_view text, size_t num_rules) {
  if (text == "obey" || (text == "none" && num_rules == 0)) return;
  const std::string who = "--precisionConstraints=" + std::string(text);
  if (text == "none") {
    throw Error(ErrorCode::kInput, who + " would ignore the " + std::to_string(num_rules) +
                                       (num_rules == 1 ? " rule" : " rules") +
                                       " given; remove them, or write obey: rules always bind");
  }
  if (text == "prefer") {
    throw Error(ErrorCode::kInput,
                who +
                    ": a rule that cannot be met is an error in Vernier, never dropped; write "
                    "obey, and remove the rules that are not required");
  }
  throw Error(ErrorCode::kInput,
              "--precisionConstraints=" + quoted(text) + ": expected obey, prefer or none");
}

}  // namespace vernier::precision
