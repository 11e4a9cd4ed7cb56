// Words of reports that follow a number.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace vernier::verify {

/// "1 node", "3 nodes"
inline std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace vernier::verify
