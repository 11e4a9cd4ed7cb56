// Shared constants: see constant_cache.h.
#include "core/constant_cache.h"

#include "core/fp64_device.h"

namespace vernier {

ConstantCache::~ConstantCache() {
  for (const auto& [bytes, kept] : kept_) forget_on_device(kept.value->f.data());
}

std::shared_ptr<const EvalTensor> ConstantCache::get(const Tensor& constant,
                                                     const std::function<EvalTensor()>& make) {
  constexpr int64_t kSmallElems = 128;
  if (constant.elems() <= kSmallElems) return std::make_shared<const EvalTensor>(make());
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(constant.data());
    if (found != kept_.end() && found->second.constant.shape() == constant.shape())
      return found->second.value;
  }
  auto made = std::make_shared<const EvalTensor>(make());
  const uint64_t bytes = made->f.size() * sizeof(double) + made->i.size() * sizeof(int64_t);
  const std::lock_guard lock(mutex_);
  if (bytes <= most_bytes_ - bytes_ &&
      kept_.emplace(constant.data(), Kept{constant, made}).second) {
    bytes_ += bytes;
    keep_on_device(made->f.data(), std::ssize(made->f));
  }
  return made;
}

std::shared_ptr<const EvalTensor> ConstantCache::get(const Tensor& constant) {
  return get(constant, [&] { return EvalTensor::from(constant); });
}

}  // namespace vernier
