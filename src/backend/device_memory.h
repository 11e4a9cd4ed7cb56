// Device memory for work outside of sessions: tuning, measuring rates.
#pragma once
#include "backend/kernel.h"

namespace vernier::backend {

/// Device memory that is freed with the object.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, size_t bytes)
      : device_(device), data_(device.allocate(bytes > 0 ? bytes : 1)) {}
  ~DeviceMemory() { device_.free(data_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::byte* data_;
};

}  // namespace vernier::backend
