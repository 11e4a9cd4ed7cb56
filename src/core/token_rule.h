// Which padding of a mask an engine does not compute.
#pragma once
#include <cstdint>

namespace vernier {

/// What of the padding of a mask is left out: where it lies in a row. An element that equals
/// `padding` is padding.
struct TokenRule {
  int64_t padding = 0;
  bool front = false;  ///< in front of the first token
  bool behind = true;  ///< behind the last token
  bool operator==(const TokenRule&) const = default;
};

}  // namespace vernier
