// One allocation for all blobs: see device_weights.h.
#include "runtime/device_weights.h"

#include <algorithm>

namespace vernier::runtime {

DeviceWeights::DeviceWeights(const backend::Backend& backend, const plan::Plan& plan)
    : plan_(plan), device_(backend.make_device({})) {
  const size_t alignment = device_->alignment();
  for (const plan::Blob& blob : plan.blobs) {
    offsets_.push_back(bytes_);
    bytes_ += (blob.bytes.bytes() + alignment - 1) / alignment * alignment;
  }
  data_ = device_->allocate(std::max<size_t>(bytes_, 1));
  void* stream = device_->execution().stream;
  for (size_t i = 0; i < plan.blobs.size(); ++i) {
    const Tensor& bytes = plan.blobs[i].bytes;
    if (bytes.bytes() > 0) device_->copy_to_device(blob(i), bytes.data(), bytes.bytes(), stream);
  }
  device_->synchronise(stream);
}

DeviceWeights::~DeviceWeights() {
  if (data_) device_->free(data_);
}

const std::byte* DeviceWeights::on_host(const std::byte* address) const {
  if (address < data_ || address >= data_ + bytes_) return nullptr;
  const auto offset = static_cast<size_t>(address - data_);
  const auto next = std::ranges::upper_bound(offsets_, offset);
  const auto index = static_cast<size_t>(next - offsets_.begin()) - 1;
  return plan_.blobs[index].bytes.data() + (offset - offsets_[index]);
}

}  // namespace vernier::runtime
