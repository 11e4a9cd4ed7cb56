// Text from files as text for a terminal. Names in models, engines and arrays may hold any bytes:
// a program prints them, and Error::what(), through these functions only.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace vernier {

/// `text` without anything that a terminal would act on: control characters (of ASCII but line
/// break and tab, DEL, U+0080..U+009F), U+2028 and U+2029, characters that turn the direction of
/// text (U+061C, U+200E, U+200F, U+202A..U+202E, U+2066..U+2069) and bytes that are not UTF-8
/// become visible escapes: \x1b, \u202e. What was UTF-8 stays valid JSON where it was JSON.
std::string printable(std::string_view text);
/// The same for what must stay on its line: line breaks and tabs are escaped too.
std::string printable_name(std::string_view name);
/// The same for a message of several lines: every line but the first is indented, so that none can
/// be mistaken for a line of the program.
std::string printable_message(std::string_view message);

/// "1 node", "2 nodes", "1 query", "0 queries": a count and its noun. `plural`: where it is not the
/// noun and an s.
std::string counted(int64_t count, std::string_view noun, std::string_view plural = "");
template <std::integral Count>
std::string counted(Count count, std::string_view noun, std::string_view plural = "") {
  return counted(static_cast<int64_t>(count), noun, plural);
}

/// Bytes of the UTF-8 character at the start of `text`; 0 where there is none (RFC 3629, table 3-7
/// of Unicode: no overlong forms, no surrogates, nothing above U+10FFFF).
size_t utf8_length(std::string_view text);
/// Is this valid character (utf8_length() bytes) one that printable() escapes? Line breaks and tabs
/// are not.
bool is_unprintable(std::string_view character);

}  // namespace vernier
