// Session: one execution context of an engine. One per thread; sessions share the engine's weights
// and the process's threads (docs/serving.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/engine.h"

namespace vernier {

/// Where a caller's array is: memory of the host, or of the engine's device ("cpu": the same). It
/// is not checked: an address of the other memory crashes, as in any CUDA call.
enum class Memory : uint8_t { kHost, kDevice };

/// An input array: dense, row-major, alive during run(). Ids in device memory are not checked
/// before the run: one outside its table reads the nearest entry.
struct Input {
  std::string_view name;
  DType dtype = DType::kUndefined;
  std::span<const int64_t> shape;
  const void* data = nullptr;
  Memory memory = Memory::kHost;
};

/// An output array in the session's host memory: dense, row-major, valid until the next run() or
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
  Memory memory = Memory::kHost;
};

/// The shape of one input, for prepare().
struct InputShape {
  std::string_view name;
  std::vector<int64_t> shape;
};

struct SessionOptions {
  /// CPUs that a run may use at most; 0: all that the process may. Results do not depend on it.
  int threads = 0;
  /// A GPU's: the cudaStream_t that everything is ordered on; null: the session makes its own,
  /// which waits for nothing else, so inputs on the device must be complete. CUDA's default stream,
  /// whose handle is null too, is passed as cudaStreamLegacy or cudaStreamPerThread.
  void* stream = nullptr;
  /// max_bytes: of inputs, outputs, activations, and of weights that are not mapped or lie on the
  /// device, known exactly for each shape and checked before the activations are allocated.
  /// max_seconds: of one run, unless `since` is set; checked between the launches of steps. On a
  /// GPU, which works asynchronously, only before a run and between the launches of a shape's
  /// first.
  Limits limits = {};
  /// Only what the engine's certificate covers is run: the constructor throws Error(kCheckFailed)
  /// unless there is one with the verdict "pass" of this program, machine and plugins, on terms as
  /// these; a run, where its sizes are outside those that were verified. Of the weights it holds
  /// once Engine::check_weights() has read them. Outputs are not looked at: is_non_finite().
  std::optional<CertificateTerms> certificate = {};
  /// The constructor runs the engine's canary (Engine::canary()) first, and throws
  /// Error(kCheckFailed) where there is none or an answer has other bits than at the build.
  bool canary = false;
};

/// For one thread at a time: a call while another thread is in one throws Error(kInput). After
/// fork() a session of the CPU still works in the child; one of a GPU throws there.
class Session {
 public:
  explicit Session(std::shared_ptr<const Engine> engine, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs the engine. All inputs by name, in any order. Throws Error(kInput) before anything runs
  /// when a name, type, shape or size range does not fit, naming the input, what it is and what was
  /// expected. After a shape has been seen once: no allocation, no lock, no log line. The last
  /// 32 shapes are remembered. Where the model computes sizes (NonZero, a Slice to a computed end),
  /// the host waits within the run for what they follow from, and allocates.
  std::span<const Output> run(std::span<const Input> inputs);
  /// As above, with the named outputs in the caller's buffers.
  void run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers);
  /// As run(), but returns at once where the device works asynchronously and all inputs are in its
  /// memory: the buffers are complete when the session's stream is (or after wait()), and the
  /// inputs must not change until then. Inputs of the host are copied first, after a wait for the
  /// run before; where the model computes sizes, the run waits for them.
  void enqueue(std::span<const Input> inputs, std::span<const OutputBuffer> buffers);
  /// Waits for all enqueued runs.
  void wait();
  /// Throws as run() does where a name, type, shape or size range does not fit; the data is not
  /// read and may be null. For callers that check before they read the arrays.
  void check_inputs(std::span<const Input> inputs);
  /// The shapes of the outputs, in the engine's order, that run() gives for such inputs: to make
  /// buffers for it. Throws as check_inputs() does, and Error(kInput) where the model computes the
  /// size of an output: only a run knows it.
  std::vector<std::vector<int64_t>> output_shapes(std::span<const Input> inputs);
  /// A GPU's: the cudaStream_t that runs are ordered on; null: the device has none.
  void* stream() const;
  /// Does the once-per-shape work of run() for these input shapes.
  void prepare(std::span<const InputShape> shapes);
  /// Milliseconds on the device of `runs` runs one after the other, without the copies from and to
  /// the host.
  double device_milliseconds(std::span<const Input> inputs, int runs);
  /// Bytes of activation memory now held.
  size_t arena_bytes() const;
  const Engine& engine() const;

  struct Impl;  ///< src/runtime/session_impl.h
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace vernier
