// An engine's weights in a device's own memory: uploaded once, shared by the engine's sessions.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/device_memory.h"
#include "backend/kernel.h"
#include "plan/plan.h"

namespace vernier::runtime {

class DeviceWeights {
 public:
  /// Uploads every blob of the plan. Throws Error(kMachine) with the sizes when memory is short.
  DeviceWeights(const backend::Backend& backend, const plan::Plan& plan);
  /// In a child by fork() the weights are not freed: they are the parent's.
  ~DeviceWeights();
  DeviceWeights(const DeviceWeights&) = delete;
  DeviceWeights& operator=(const DeviceWeights&) = delete;

  /// Were they uploaded by the process that this one was forked from?
  bool of_parent() const;

  std::byte* blob(int32_t index) const { return memory_->data() + offsets_[index]; }
  /// The same bytes in host memory; null: `address` is not in a blob.
  const std::byte* on_host(const std::byte* address) const;

 private:
  const plan::Plan& plan_;
  std::unique_ptr<backend::Device> device_;
  std::unique_ptr<backend::DeviceMemory> memory_;
  uint32_t made_forks_;
  size_t bytes_ = 0;
  std::vector<size_t> offsets_;  // by blob, ascending
};

}  // namespace vernier::runtime
