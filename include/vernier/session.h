// Session: one execution context of an engine. One per thread; sessions share the engine's weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/engine.h"

namespace vernier {

/// An input array in the caller's host memory: dense, row-major, alive during run().
struct Input {
  std::string_view name;
  DType dtype = DType::kUndefined;
  std::span<const int64_t> shape;
  const void* data = nullptr;
};

/// An output array in the session's memory: dense, row-major, valid until the next run() or
/// prepare().
struct Output {
  std::string_view name;
  DType dtype = DType::kUndefined;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

/// Caller's memory for an output; `bytes` must be at least the output's size.
struct OutputBuffer {
  std::string_view name;
  void* data = nullptr;
  size_t bytes = 0;
};

/// The shape of one input, for prepare().
struct InputShape {
  std::string_view name;
  std::vector<int64_t> shape;
};

struct SessionOptions {
  int threads = 0;  ///< 0: one per core. Results do not depend on it.
};

class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs the engine. All inputs by name, in any order. Throws Error(kInput) before anything runs
  /// when a name, type, shape or size range does not fit, naming the input, what it is and what was
  /// expected. After a shape has been seen once: no allocation, no lock, no log of ours. The last
  /// 32 shapes are remembered.
  std::span<const Output> run(std::span<const Input> inputs);
  /// As above, and copies the named outputs into the caller's buffers.
  std::span<const Output> run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers);
  /// Does the once-per-shape work of run() for these input shapes.
  void prepare(std::span<const InputShape> shapes);
  /// Bytes of activation memory now held.
  size_t arena_bytes() const;

  struct Impl;  ///< src/runtime/session_impl.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace vernier
