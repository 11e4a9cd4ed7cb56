// Text for a terminal: see vernier/printable.h.
#include "vernier/printable.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace vernier {
namespace {

enum class LineBreaks : uint8_t { kStay, kEscaped };

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0xFFU >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3FU);
  return code;
}

std::string formatted(const char* format, unsigned value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string escape_of(std::string_view character, LineBreaks line_breaks) {
  if (line_breaks == LineBreaks::kEscaped && character == "\n") return "\\n";
  if (line_breaks == LineBreaks::kEscaped && character == "\t") return "\\t";
  if (!is_unprintable(character)) return {};
  const uint32_t code = code_point(character);
  // JSON never has characters below 0x20 unescaped; the others may occur in its strings.
  return formatted(code < 0x20 ? "\\x%02x" : "\\u%04x", code);
}

std::string shown(std::string_view text, LineBreaks line_breaks) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) {
      result += formatted("\\x%02x", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view character = text.substr(0, length);
    const std::string escape = escape_of(character, line_breaks);
    result += escape.empty() ? character : std::string_view(escape);
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first < 0xF0 || first > 0xF4) return 0;
  const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
  return follows(1, low, high) && follows(2, 0x80, 0xBF) && follows(3, 0x80, 0xBF) ? 4 : 0;
}

bool is_unprintable(std::string_view character) {
  const uint32_t code = code_point(character);
  if (code == '\n' || code == '\t') return false;
  const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
  const bool line = code == 0x2028 || code == 0x2029;
  const bool direction = code == 0x061C || code == 0x200E || code == 0x200F ||
                         (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
  return control || line || direction;
}

std::string printable(std::string_view text) { return shown(text, LineBreaks::kStay); }
std::string printable_name(std::string_view name) { return shown(name, LineBreaks::kEscaped); }

std::string printable_message(std::string_view message) {
  constexpr std::string_view kIndent = "  ";
  const std::string text = printable(message);
  std::string result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (begin > 0) result += '\n';
    if (begin > 0 && !line.empty() && !line.starts_with(kIndent)) result += kIndent;
    result += line;
    begin = end + 1;
  }
  return result;
}

std::string counted(int64_t count, std::string_view noun, std::string_view plural) {
  const std::string number = std::to_string(count) + " ";
  if (count == 1) return number + std::string(noun);
  return number + (plural.empty() ? std::string(noun) + "s" : std::string(plural));
}

}  // namespace vernier
