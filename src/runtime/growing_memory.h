// Memory of a session that grows with the largest shape: the arena, and host memory for copies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#include "backend/kernel.h"

namespace vernier::runtime {

/// One block. Its contents are lost when it grows.
class GrowingMemory {
 public:
  /// kStaging: host memory that copies to and from the device run fast on.
  enum class Place : uint8_t { kDevice, kStaging };
  /// `device` must outlive it.
  GrowingMemory(backend::Device& device, Place place) : device_(device), place_(place) {}
  ~GrowingMemory() { release(); }
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  /// At least so many bytes. The old block is freed first: both may not fit. Throws Error(kMachine)
  /// where memory is short; then there is none.
  void grow(size_t bytes) {
    if (bytes <= capacity_) return;
    release();
    data_ = place_ == Place::kDevice ? device_.allocate(bytes) : device_.allocate_staging(bytes);
    capacity_ = bytes;
  }
  /// Gives it up without freeing it: in a child by fork() it is the parent's.
  void abandon() {
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  void release() {
    capacity_ = 0;
    std::byte* data = std::exchange(data_, nullptr);
    if (!data) return;
    place_ == Place::kDevice ? device_.free(data) : device_.free_staging(data);
  }

  backend::Device& device_;
  Place place_;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace vernier::runtime
