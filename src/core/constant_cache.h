// Constants in FP64 that several evaluations share, so that each is converted once.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "core/tensor.h"

namespace vernier {

/// May be used by several threads at the same time.
class ConstantCache {
 public:
  /// Keeps constants up to so many bytes, those that come first; others are made anew each time.
  explicit ConstantCache(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  ~ConstantCache();
  ConstantCache(const ConstantCache&) = delete;
  ConstantCache& operator=(const ConstantCache&) = delete;
  /// What `make` makes of `constant`, whose bytes never change: always the same function for one
  /// constant. Small ones are made each time.
  std::shared_ptr<const EvalTensor> get(const Tensor& constant,
                                        const std::function<EvalTensor()>& make);
  /// Its values.
  std::shared_ptr<const EvalTensor> get(const Tensor& constant);

 private:
  struct Kept {
    Tensor constant;  // keeps its address from being used again
    std::shared_ptr<const EvalTensor> value;
  };
  const uint64_t most_bytes_;
  std::mutex mutex_;
  uint64_t bytes_ = 0;
  std::map<const std::byte*, Kept> kept_;
};

}  // namespace vernier
