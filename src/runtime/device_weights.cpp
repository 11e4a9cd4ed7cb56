// One allocation for all blobs: see device_weights.h.
#include "runtime/device_weights.h"

#include <algorithm>

#include "core/error.h"
#include "core/fork.h"

namespace vernier::runtime {

DeviceWeights::DeviceWeights(const backend::Backend& backend, const plan::Plan& plan)
    : plan_(plan), device_(backend.make_device({})), made_forks_(forks()) {
  const backend::OnDevice here(*device_);
  const size_t alignment = device_->alignment();
  for (const plan::Blob& blob : plan.blobs) {
    offsets_.push_back(bytes_);
    bytes_ += (blob.bytes.bytes() + alignment - 1) / alignment * alignment;
  }
  try {
    memory_ = std::make_unique<backend::DeviceMemory>(*device_, bytes_);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + "; it was for the engine's weights");
  }
  void* stream = device_->execution().stream;
  for (size_t i = 0; i < plan.blobs.size(); ++i) {
    const Tensor& bytes = plan.blobs[i].bytes;
    if (bytes.bytes() > 0)
      device_->copy_to_device(memory_->data() + offsets_[i], bytes.data(), bytes.bytes(), stream);
  }
  device_->synchronise(stream);
}

DeviceWeights::~DeviceWeights() {
  if (!of_parent()) return;
  static_cast<void>(memory_.release());
  static_cast<void>(device_.release());
}

bool DeviceWeights::of_parent() const { return forks() != made_forks_; }

const std::byte* DeviceWeights::on_host(const std::byte* address) const {
  const std::byte* data = memory_->data();
  if (address < data || address >= data + bytes_) return nullptr;
  const auto offset = static_cast<size_t>(address - data);
  const auto next = std::ranges::upper_bound(offsets_, offset);
  const auto index = static_cast<size_t>(next - offsets_.begin()) - 1;
  return plan_.blobs[index].bytes.data() + (offset - offsets_[index]);
}

}  // namespace vernier::runtime
