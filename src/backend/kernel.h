// The one contract between plan/, runtime/ and the devices. A backend is a list of kernels, in the
// order in which they are tried, and a Device that owns memory and streams. It sees core only.
//
// The life of a kernel:
//   build   supports, numerics, pack   by the planner, on the host
//   load    create                     once per session and step: handles, primitives
//   shape   prepare                    once per step and new input shape: workspace, tables
//   run     launch                     no allocation of its own, no lock, no log
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/attr_codec.h"
#include "core/numerics.h"
#include "core/op_kind.h"
#include "core/tensor.h"
#include "vernier/kernel_set.h"

namespace vernier {
class ThreadTeam;
}

namespace vernier::backend {

inline constexpr int kMaxRank = 10;

// ---- build time ------------------------------------------------------------------------------

/// One operand of a problem.
struct Operand {
  bool present = false;             ///< false: an optional input or output that is not there
  DType dtype = DType::kUndefined;  ///< the type it is stored in
  SymShape shape;
  /// The contents of a constant, as the model holds them. Their type may be wider than `dtype`:
  /// pack() rounds them to it.
  const Tensor* constant = nullptr;
  bool packed = false;  ///< a constant that is packed for a kernel; `constant` is null
  bool is_constant() const { return constant != nullptr || packed; }
};

/// What the planner wants computed: one node of the fused graph.
struct Problem {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<Operand> inputs, outputs;
  /// What is asked of the node. A kernel with a choice (the evaluator) declares what suits.
  Request asked = {};
  /// Is input `i` present: listed and not left out?
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].present; }
  template <class A>
  A attrs_as() const {
    return decode<A>(attrs);
  }
};

/// A constant operand that is rewritten for a kernel: a packed weight. The engine holds it instead
/// of input `input`.
struct PackedConstant {
  int input = 0;
  std::string layout;  ///< the kernel's own description, for example "panels64 f32 K=768 N=3072"
  std::vector<std::byte> bytes;
};

/// What pack() makes of an input, without the contents.
struct PackedLayout {
  int input = 0;
  std::string layout;
  size_t bytes = 0;
};

// ---- run time --------------------------------------------------------------------------------

/// A dense or strided array on the device. Strides are in elements.
struct TensorArg {
  std::byte* data = nullptr;        ///< null where there are no contents (yet)
  DType dtype = DType::kUndefined;  ///< kUndefined: the operand is absent
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{}, strides{};

  int64_t elems() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[static_cast<size_t>(i)];
    return n;
  }
  /// Size of axis `i`; a negative `i` counts from the end.
  int64_t dim(int i) const { return shape[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// A constant as the engine holds it: in a mapped file, or on a GPU, uploaded once per engine.
struct ConstantArg {
  int input = 0;
  std::string_view layout;  ///< empty: plain
  std::span<const std::byte> bytes;
};

/// What a kernel runs on: threads on the CPU, a stream on a GPU.
struct Execution {
  ThreadTeam* threads = nullptr;
  void* stream = nullptr;          ///< a cudaStream_t
  void* library_handle = nullptr;  ///< the Device's own: a cublasLtHandle_t
};

/// What create() made for a step of a session.
class KernelState {
 public:
  virtual ~KernelState() = default;
};
/// What prepare() made for a step and a shape.
class ShapeState {
 public:
  virtual ~ShapeState() = default;
  /// Scratch memory of a launch. It begins at a multiple of 64 bytes (CPU) or 256 bytes (CUDA), and
  /// its contents are lost when the launch is over.
  size_t workspace_bytes = 0;
};

struct CreateCall {
  AttrView attrs;
  const Numerics* numerics;  ///< what numerics(problem) declared for this step
  std::span<const ConstantArg> constants;
  std::span<const TensorArg> constant_inputs;  ///< by input; `data` is null where it is no constant
  const Execution& execution;
  std::string_view tuning = {};  ///< what tune() said of this step; empty: it was not asked
};
class Device;
/// A step that is timed on the device. `in` and `out` have the sizes of the largest shape that the
/// engine is built for, and no contents.
struct TuneCall {
  CreateCall create;
  std::span<const TensorArg> in, out;
  Device& device;
};
struct PrepareCall {
  AttrView attrs;
  KernelState* state;
  std::span<const TensorArg> in, out;  ///< final shapes and strides, no contents yet
  const Execution& execution;
};
struct LaunchCall {
  AttrView attrs;
  KernelState* state;
  ShapeState* shape_state;
  std::span<const TensorArg> in, out;
  std::byte* workspace;
  const Execution& execution;
  /// A hint to begin with the last rows, set for every second step: the step before wrote them
  /// last, so they are still in the cache. No bit depends on it.
  bool backwards = false;
};

/// What a kernel can do and how: a file of kernels defines one for each of its rows.
struct KernelBody {
  /// Yes if it takes the problem for every shape that the symbols allow, or why not. The reason is
  /// read by users: it becomes a row of the ledger.
  Support (*supports)(const Problem&) = nullptr;
  /// What it does to the node it covers. Asked only of problems that it supports.
  Numerics (*numerics)(const Problem&) = nullptr;
  /// Why the bits of a row do not depend on its neighbors: "row" (each row is computed alone, in a
  /// fixed order), or the name of a class of kernels that are proven to give equal bits.
  std::string_view bit_class = "row";
  /// Bit i set: input i may have any outer strides. Its innermost axis is contiguous; only view
  /// operators (kView) with bit 0 take any stride there too.
  uint32_t strided_inputs = 0;
  /// Bit i set: an outer stride of input i may also be 0, which is what Expand makes without a
  /// copy. Counts only for inputs in strided_inputs.
  uint32_t repeating_inputs = ~0u;
  /// Rewrites constant operands for this machine. Null: there is nothing to rewrite.
  std::vector<PackedConstant> (*pack)(const Problem&) = nullptr;
  /// Makes the plain array of a packed constant again: for another machine, or to verify. Null
  /// where pack is null.
  Tensor (*unpack)(const Problem&, const ConstantArg&) = nullptr;
  /// What pack makes of a supported problem on this machine. A packed constant of another layout
  /// was packed for another machine or by another version; one of another length is damaged. Null
  /// where pack is null.
  std::vector<PackedLayout> (*packed_layouts)(const Problem&) = nullptr;
  /// Makes what a session keeps for the step. Null: it keeps nothing.
  std::unique_ptr<KernelState> (*create)(const CreateCall&) = nullptr;
  /// Makes what a new shape needs. Null: it needs nothing.
  std::unique_ptr<ShapeState> (*prepare)(const PrepareCall&) = nullptr;
  /// Does the work, or enqueues it. Shapes, types and attributes are as inference lets them pass.
  /// Throws Error(kInput) only for values that it must check (core/value_rules.h).
  void (*launch)(const LaunchCall&) = nullptr;
  /// Times the ways it has to do a step and names the fastest, as text for CreateCall::tuning. All
  /// ways give the same bits. Null: there is one way.
  std::string (*tune)(const TuneCall&) = nullptr;
};

/// One row of a backend's kernels.def.
struct KernelDef : KernelBody {
  std::string_view name;  ///< <device>.<op>.<strategy>
  OpKind op = OpKind::kIdentity;
};

/// Work that was recorded and is replayed as one launch: a CUDA graph.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay(void* stream) = 0;
  virtual int64_t num_kernels() const = 0;
};
/// A moment on a stream.
class Mark {
 public:
  virtual ~Mark() = default;
};

/// Memory and streams of one device. Each session has one.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::byte* allocate(size_t bytes) = 0;  ///< throws Error(kMachine) with the sizes
  virtual void free(std::byte* data) = 0;
  virtual void copy_to_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  virtual void copy_to_host(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  virtual void synchronise(void* stream) = 0;
  virtual bool host_memory() const = 0;  ///< true if its memory is host memory
  virtual size_t alignment() const = 0;
  virtual Execution execution() = 0;
  /// Copies within the device, on the stream.
  virtual void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  /// Host memory that is fast to copy to and from the device.
  virtual std::byte* allocate_staging(size_t bytes) = 0;
  virtual void free_staging(std::byte* data) = 0;
  /// Records what `work` enqueues on the stream of the execution that it gets, without running it.
  /// Null if this device cannot record.
  virtual std::unique_ptr<Recording> record(const std::function<void(const Execution&)>& work) = 0;
  /// A mark behind everything that is enqueued so far; the time between two marks that the device
  /// has passed.
  virtual std::unique_ptr<Mark> mark(void* stream) = 0;
  virtual double milliseconds_between(const Mark& first, const Mark& second) = 0;
  /// Makes this the device that the calling thread works on, and returns the one before, which
  /// leave() restores. See OnDevice.
  virtual int enter() { return 0; }
  virtual void leave(int before) { (void)before; }
};

/// While it lives, the thread works on this device; afterwards on the one before.
class OnDevice {
 public:
  explicit OnDevice(Device& device) : device_(device), before_(device.enter()) {}
  ~OnDevice() { device_.leave(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Device& device_;
  int before_;
};

struct DeviceOptions {
  int threads = 0;         ///< of a CPU; 0: as many as the CPUs that the process may use
  void* stream = nullptr;  ///< of a GPU: the caller's cudaStream_t; null: the device makes one
};

}  // namespace vernier::backend

namespace vernier {

/// The public handle (vernier/kernel_set.h), as src/ sees it; written backend::Backend there.
struct KernelSet {
  std::string_view name;  ///< "cpu", "cuda"
  std::span<const backend::KernelDef> kernels;
  std::unique_ptr<backend::Device> (*make_device)(const backend::DeviceOptions&);
  /// What packed weights depend on, such as "x86-64 avx512 oneDNN 2.6.3"; the engine holds it. On a
  /// machine without the device, where plans are made too: what the kernels are compiled for.
  std::string (*target)();
  /// Yes, or why nothing can run here: "no CUDA device: …". Null: it always can.
  backend::Support (*available)() = nullptr;
  /// Yes, or why an engine that was built for `target` cannot run here. Null: every engine can.
  backend::Support (*runs_engine_of)(std::string_view target) = nullptr;
};

}  // namespace vernier

namespace vernier::backend {

using Backend = KernelSet;

/// The kernel of that name in a backend, or null.
const KernelDef* find_kernel(const Backend& backend, std::string_view name);
/// Is the kernel of that name a last resort, which runs the FP64 evaluator of the operator?
inline bool is_evaluator(std::string_view kernel) { return kernel.ends_with(".evaluator"); }

}  // namespace vernier::backend
