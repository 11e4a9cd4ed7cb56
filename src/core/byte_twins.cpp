// Finds equal arrays: see byte_twins.h.
#include "core/byte_twins.h"

#include <algorithm>

#include "core/hash.h"

namespace vernier {
namespace {

bool equal_bytes(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.byte_span(), b.byte_span());
}

// Equal arrays have equal samples.
std::string sample(const Tensor& t) {
  constexpr size_t kStep = 64;
  const std::string_view bytes(reinterpret_cast<const char*>(t.data()), t.bytes());
  if (bytes.size() <= 3 * kStep) return std::string(bytes);
  return std::string(bytes.substr(0, kStep)) + std::string(bytes.substr(bytes.size() / 2, kStep)) +
         std::string(bytes.substr(bytes.size() - kStep));
}

std::string hash_of(const Tensor& t) {
  Hash128 hash;
  hash.add(t.byte_span());
  return hex(hash.digest());
}

}  // namespace

std::optional<int32_t> ByteTwins::find_or_add(const std::string& kind, const Tensor& array,
                                              int32_t id) {
  const std::string key = kind + '\n' + std::to_string(array.bytes()) + '\n' + sample(array);
  const auto [bucket, fresh] = buckets_.try_emplace(key, Bucket{{array, id}, {}});
  if (fresh) return std::nullopt;
  if (equal_bytes(bucket->second.first.array, array)) return bucket->second.first.id;
  auto& others = bucket->second.others;
  std::string hash = hash_of(array);
  for (auto [it, end] = others.equal_range(hash); it != end; ++it) {
    if (equal_bytes(it->second.array, array)) return it->second.id;
  }
  others.emplace(std::move(hash), Entry{array, id});
  return std::nullopt;
}

}  // namespace vernier
