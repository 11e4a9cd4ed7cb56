// The one contract between plan/, runtime/ and the devices. A backend is a list of kernels, in the
// order they are tried, plus a Device that owns memory and streams. Sees core only.
//
// Life of a kernel:
//   build    supports(problem) → numerics(problem) → pack(problem)       (planner, host)
//   load     create(...)        once per session and step: handles, primitives
//   shape    prepare(...)       once per step and new input shape: workspace size, shape-specific
//   state run      launch(...)        no allocation of ours, no lock, no log
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

namespace vernier {
class ThreadTeam;
}

namespace vernier::backend {

inline constexpr int kMaxRank = 10;

// ---- build time ------------------------------------------------------------------------------

/// One operand of a problem. `present` false: an absent optional input or unwanted output.
/// `dtype` is the type it is stored in. A constant's contents may be wider (what the model holds):
/// pack() rounds them to `dtype` first.
struct Operand {
  bool present = false;
  DType dtype = DType::kUndefined;
  SymShape shape;
  const Tensor* constant = nullptr;  ///< contents, if it is a constant
  bool packed = false;  ///< a constant whose contents are packed for a kernel: `constant` is null
  bool is_constant() const { return constant != nullptr || packed; }
};

/// What the planner wants computed: one node of the fused graph.
struct Problem {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<Operand> inputs, outputs;
  /// What is asked of the node: a kernel that can do several (the evaluator) declares what suits.
  Request asked = {};
  /// Is input `i` present: listed and not left out?
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].present; }
  template <class A>
  A attrs_as() const {
    return decode<A>(attrs);
  }
};

/// A constant operand rewritten for a kernel (a packed weight). Replaces input `input` in the
/// engine.
struct PackedConstant {
  int input = 0;
  std::string layout;  ///< the kernel's own description, e.g. "brgemm f32 K=768 N=3072 b64"
  std::vector<std::byte> bytes;
};

/// What pack() makes of an input, without making it: the layout's text and its length.
struct PackedLayout {
  int input = 0;
  std::string layout;
  size_t bytes = 0;
};

// ---- run time --------------------------------------------------------------------------------

/// A dense or strided array on the device. Strides in elements.
struct TensorArg {
  std::byte* data = nullptr;  ///< null: absent
  DType dtype = DType::kUndefined;
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{}, strides{};

  int64_t elems() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[static_cast<size_t>(i)];
    return n;
  }
  /// Size of axis `i`; negative counts from the end.
  int64_t dim(int i) const { return shape[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  int64_t stride(int i) const { return strides[static_cast<size_t>(i < 0 ? rank + i : i)]; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// A packed or plain constant as the engine holds it (mapped; on CUDA: uploaded once per engine).
struct ConstantArg {
  int input = 0;
  std::string_view layout;  ///< empty: plain
  std::span<const std::byte> bytes;
};

/// What a kernel runs on: threads on the CPU; a stream (cudaStream_t as void*) on a GPU.
struct Execution {
  ThreadTeam* threads = nullptr;
  void* stream = nullptr;
  int device_ordinal = 0;
  void* library_handle = nullptr;  ///< the Device's own, e.g. cublasLtHandle_t
};

/// Per session and step: whatever create() made.
class KernelState {
 public:
  virtual ~KernelState() = default;
};
/// Per step and shape: whatever prepare() made. workspace_bytes is served from the arena, 64-byte
/// (CPU) or 256-byte (CUDA) aligned, valid for the launch only.
class ShapeState {
 public:
  virtual ~ShapeState() = default;
  size_t workspace_bytes = 0;
};

struct CreateCall {
  AttrView attrs;
  const Numerics* numerics;  ///< what numerics(problem) declared for this step
  std::span<const ConstantArg> constants;
  std::span<const TensorArg> constant_inputs;  ///< by input index; data null where not constant
  const Execution& execution;
  std::string_view tuning = {};  ///< what tune() said of this step; empty: nothing
};
class Device;
/// A step to be timed on the device. `in` and `out` have the sizes of the largest shape the engine
/// is built for, without data.
struct TuneCall {
  CreateCall create;
  std::span<const TensorArg> in, out;
  Device& device;
};
struct PrepareCall {
  AttrView attrs;
  KernelState* state;
  std::span<const TensorArg> in, out;  ///< shapes and strides final, data not yet
  const Execution& execution;
};
struct LaunchCall {
  AttrView attrs;
  KernelState* state;
  ShapeState* shape_state;
  std::span<const TensorArg> in, out;
  std::byte* workspace;
  const Execution& execution;
  /// Advice: begin with the last rows instead of the first. Every second step is told so, since
  /// what the step before wrote last is what a cache still holds. No bit depends on it.
  bool backwards = false;
};

/// One row of a backend's kernels.def.
struct KernelDef {
  std::string_view name;  ///< <device>.<op>.<strategy>
  OpKind op;
  /// Can it, for every shape the symbols allow? If not, why.
  Support (*supports)(const Problem&);
  /// What it does to the node it covers.
  Numerics (*numerics)(const Problem&);
  /// Why a row's bits do not depend on its neighbours: "row" (each row alone, fixed order) or the
  /// name of a class of kernels proven equal.
  std::string_view bit_class;
  /// Bit i set: input i may have any outer strides (its innermost axis stays contiguous). Rows of
  /// view operators (kView) with bit 0 take any strides.
  uint32_t strided_inputs;
  /// Bit i set: of these, the stride of an axis may also be 0 (what Expand makes without a copy).
  uint32_t repeating_inputs = ~0u;
  /// Rewrites constant operands for this machine; null: none.
  std::vector<PackedConstant> (*pack)(const Problem&);
  /// The plain array back from a packed constant (another machine, verification); null with pack.
  Tensor (*unpack)(const Problem&, const ConstantArg&);
  /// What pack(problem) gives on this machine, of a problem that is supported: a packed constant of
  /// another layout was packed for another machine or version, one of another length is damaged.
  /// Null with pack.
  std::vector<PackedLayout> (*packed_layouts)(const Problem&);
  /// Null where there is nothing to make.
  std::unique_ptr<KernelState> (*create)(const CreateCall&);
  std::unique_ptr<ShapeState> (*prepare)(const PrepareCall&);
  /// Enqueues or does the work. Shapes, types and attributes are as inference lets them pass.
  /// Throws Error(kInput) only for values that it must check (core/value_rules.h).
  void (*launch)(const LaunchCall&);
  /// Times the ways it has to do a step and says which to take, as text for CreateCall::tuning. All
  /// of them give the same bits. Null: there is one way.
  std::string (*tune)(const TuneCall&) = nullptr;
};

/// What was enqueued while it was recorded, replayed as one launch (a CUDA graph).
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

/// Memory and streams of one device. One per session.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::byte* allocate(size_t bytes) = 0;  ///< throws Error(kMachine) with the sizes
  virtual void free(std::byte* data) = 0;
  virtual void copy_to_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  virtual void copy_to_host(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  virtual void synchronise(void* stream) = 0;
  virtual bool host_memory() const = 0;  ///< true: device pointers are host pointers
  virtual size_t alignment() const = 0;
  virtual Execution execution() = 0;
  /// From anywhere to anywhere on the device, on the stream.
  virtual void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  /// Host memory that copies to and from the device run fast on.
  virtual std::byte* allocate_staging(size_t bytes) = 0;
  virtual void free_staging(std::byte* data) = 0;
  /// Records what `work` enqueues on the stream of the execution it is given, without running it.
  /// Null: this device records nothing.
  virtual std::unique_ptr<Recording> record(const std::function<void(const Execution&)>& work) = 0;
  /// A mark behind everything enqueued so far, and the time between two that the device has passed.
  virtual std::unique_ptr<Mark> mark(void* stream) = 0;
  virtual double milliseconds_between(const Mark& first, const Mark& second) = 0;
  /// Makes this device the calling thread's, which CUDA keeps for each thread, and says which was;
  /// leave() makes that the thread's again. See OnDevice.
  virtual int enter() { return 0; }
  virtual void leave(int before) { (void)before; }
};

/// While it lives, the thread works on this device; then on what it worked on before.
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
  int threads = 0;  ///< 0: all CPUs that the process may use
  int ordinal = 0;
  void* stream = nullptr;  ///< a GPU's: the caller's cudaStream_t, or null: the device makes one
};

struct Backend {
  std::string_view name;  ///< "cpu", "cuda"
  std::span<const KernelDef> kernels;
  std::unique_ptr<Device> (*make_device)(const DeviceOptions&);
  /// What packed weights depend on, e.g. "x86-64 avx512 oneDNN 2.6.3"; stored in the engine. Plans
  /// are made on machines without the device too: then what the kernels were compiled for.
  std::string (*target)();
  /// Yes, or why nothing can run here ("no CUDA device: …").
  Support (*available)() = nullptr;
  /// Yes, or why an engine that was built for this target cannot run here. Null: every one can.
  Support (*runs_engine_of)(std::string_view target) = nullptr;
};

/// The kernel of that name in a backend, or null.
const KernelDef* find_kernel(const Backend& backend, std::string_view name);
/// Is the kernel of that name a row of last resort, which runs the operator's FP64 evaluator?
inline bool is_evaluator(std::string_view kernel) { return kernel.ends_with(".evaluator"); }

}  // namespace vernier::backend
