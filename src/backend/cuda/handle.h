// RAII owners of the handles of CUDA's libraries.
#pragma once

namespace vernier::backend {

/// A handle that `Destroy` gives back, or none.
template <class T, auto Destroy>
struct Handle {
  T value = nullptr;
  Handle() = default;
  ~Handle() {
    if (value) Destroy(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

}  // namespace vernier::backend
