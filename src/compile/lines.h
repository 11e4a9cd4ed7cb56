// Lines of reports. What a report shows comes from files: a name must not end its line or move the
// terminal's cursor.
#pragma once
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "vernier/printable.h"

namespace vernier {

template <class T>
using Shown = std::conditional_t<std::is_convertible_v<const T&, std::string_view>, std::string, T>;

template <class T>
Shown<T> shown(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    return printable_name(value);
  } else {
    return value;
  }
}

/// fmt::format, with every text among `args` through printable_name(); `format` stays as it is.
template <class... Args>
std::string format_line(fmt::format_string<const Shown<Args>&...> format, const Args&... args) {
  const std::tuple<Shown<Args>...> all(shown(args)...);
  return std::apply([&](const auto&... each) { return fmt::format(format, each...); }, all);
}

/// "2 nodes" of a container with two.
template <class Container>
std::string count_of(const Container& items, std::string_view noun) {
  return counted(static_cast<int64_t>(std::size(items)), noun);
}

}  // namespace vernier
