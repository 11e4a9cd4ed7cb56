// Weights that hold NaN or infinities: see weights.h.
#include "compile/weights.h"

#include <atomic>
#include <cmath>

#include "core/threads.h"
#include "vernier/printable.h"

namespace vernier::compiler {
namespace {

struct Census {
  int64_t nan = 0, positive = 0, negative = 0;  // of NaN, +Inf, -Inf
  int64_t other_than_zero = 0;                  // finite
  int64_t first = -1;                           // of NaN and infinities
};

// Is there a NaN or an infinity: bits with an exponent of all ones? One quick pass.
template <class Bits>
bool any_with_exponent(const Tensor& tensor, Bits exponent) {
  constexpr int64_t kLeastElems = int64_t{1} << 20;  // of a thread
  const auto* bits = reinterpret_cast<const Bits*>(tensor.data());
  std::atomic<int64_t> found = 0;
  in_parallel(tensor.elems(), kLeastElems, [&](int64_t begin, int64_t end) {
    int64_t here = 0;
    for (int64_t i = begin; i < end; ++i) here += (bits[i] & exponent) == exponent;
    found += here;
  });
  return found > 0;
}
bool any_non_finite(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kF64:
      return any_with_exponent<uint64_t>(tensor, 0x7ff0000000000000);
    case DType::kF32:
      return any_with_exponent<uint32_t>(tensor, 0x7f800000);
    case DType::kF16:
      return any_with_exponent<uint16_t>(tensor, 0x7c00);
    case DType::kBF16:
      return any_with_exponent<uint16_t>(tensor, 0x7f80);
    default:
      return true;  // small types: the census decides
  }
}

Census take_census(const Tensor& tensor) {
  Census census;
  for (int64_t i = 0; i < tensor.elems(); ++i) {
    const double value = tensor.float_at(i);
    if (std::isfinite(value)) {
      census.other_than_zero += value != 0;
      continue;
    }
    if (census.first < 0) census.first = i;
    ++(std::isnan(value) ? census.nan : value > 0 ? census.positive : census.negative);
  }
  return census;
}

bool is_meant(const Census& census, const Tensor& tensor) {
  if (census.nan > 0) return false;
  const bool is_mask = census.positive == 0 && census.other_than_zero == 0;
  return is_mask || tensor.elems() == 1;
}

std::string line(const ir::Value& value, const Census& census) {
  std::string counts;
  const auto add = [&counts](int64_t count, const char* what) {
    if (count > 0) counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add(census.nan, "NaN");
  add(census.positive, "+Inf");
  add(census.negative, "-Inf");
  return "weight '" + value.name + "' " + std::string(name(value.dtype)) +
         str(value.constant.shape()) + " holds " + counts + " among " +
         counted(value.constant.elems(), "value") + ", the first at " +
         position_text(census.first, value.constant.shape()) +
         ": what depends on them will not be finite; check the exported model";
}

}  // namespace

std::vector<std::string> non_finite_weights(const ir::Graph& graph) {
  std::vector<std::string> lines;
  for (size_t v = 0; v < graph.num_values(); ++v) {
    const auto id = static_cast<ir::ValueId>(v);
    const ir::Value& value = graph.value(id);
    if (!value.is_constant() || !is_float(value.dtype)) continue;
    if ((value.users.empty() && !graph.is_output(id)) || !any_non_finite(value.constant)) continue;
    const Census census = take_census(value.constant);
    if (census.first >= 0 && !is_meant(census, value.constant))
      lines.push_back(line(value, census));
  }
  return lines;
}

}  // namespace vernier::compiler
