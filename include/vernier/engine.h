// Engine: a compiled model, opened from a `.vn` file. Immutable; share it between threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "vernier/canary.h"
#include "vernier/certificate.h"
#include "vernier/dtype.h"
#include "vernier/error.h"
#include "vernier/kernel_set.h"
#include "vernier/limits.h"

namespace vernier {

/// One size of an input or output: a number, or an expression over named sizes ("batch", "2*seq").
struct PortDim {
  std::string text;
  int64_t min = 0, max = 0;  ///< the range the engine was built for (equal: fixed)
};

struct Port {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<PortDim> dims;
  /// "[batch=1..64, seq=1..512]"
  std::string shape_text() const;
};

struct EngineOptions {
  /// Kernels in place of the device's own, looked up there by name; must outlive the engine. Null:
  /// the device's own.
  const KernelSet* kernels = nullptr;
  /// The file is read, not mapped: later writes to it change nothing, and truncating it does not
  /// end the process (SIGBUS). Costs its size in memory and the time to read it.
  bool read_into_memory = false;
  /// For opening: max_bytes limits what is read into memory and packed again for this machine.
  Limits limits = {};
};

class Engine {
 public:
  /// Maps the file; weights are not copied. A program that replaces the file while it is open must
  /// rename another one over it, as Vernier does (not with EngineOptions::read_into_memory). Throws
  /// Error(kInput), which says what to do, if it is not an engine, truncated, corrupt or of another
  /// format.
  static std::shared_ptr<const Engine> open(const std::string& path);
  /// As open(), with `kernels` in place of the device's own: they are looked up there by name.
  /// `kernels` must outlive the engine.
  static std::shared_ptr<const Engine> open(const std::string& path, const KernelSet& kernels);
  static std::shared_ptr<const Engine> open(const std::string& path, const EngineOptions& options);
  /// As open(), from bytes in memory.
  static std::shared_ptr<const Engine> from_bytes(std::vector<std::byte> bytes);
  static std::shared_ptr<const Engine> from_bytes(std::vector<std::byte> bytes,
                                                  const KernelSet& kernels);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::vector<Port>& inputs() const;
  const std::vector<Port>& outputs() const;
  /// "cpu" or "cuda".
  const std::string& device() const;
  /// Hash of everything in the file but the certificate and the canary, in hex.
  const std::string& content_hash() const;
  /// What the engine was verified with; null when it carries no certificate. Always of this
  /// content, but of the weights only once check_weights() has read them.
  const Certificate* certificate() const;
  /// What the engine answered when it was built; null when it carries none.
  const Canary* canary() const;
  /// Bytes of weights in the file.
  uint64_t weight_bytes() const;
  /// Reads all weights and compares their checksums. Throws Error(kInput) naming the first bad one.
  void check_weights() const;
  /// Throws Error(kMachine) if the mapped file was written to since it was opened: the engine's
  /// numbers may be wrong then. Every new Session calls this; one stat(), nothing is read.
  void check_unchanged() const;

  struct Impl;  ///< src/runtime/engine_impl.h
  const Impl& impl() const { return *impl_; }

 private:
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace vernier
