// The contract between plan/, runtime/ and the devices. A backend is a list of kernels, in the
// order in which they are tried, and a Device that owns memory and streams. It includes only core.
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
class Fp64Device;
class ThreadTeam;
}  // namespace vernier

namespace vernier::backend {

inline constexpr int kMaxRank = 10;

// ---- build time ------------------------------------------------------------------------------

/// One operand of a problem.
struct Operand {
  bool present = false;             ///< false: an absent optional input or output
  DType dtype = DType::kUndefined;  ///< its storage type
  SymShape shape;
  /// The contents of a constant in the model's type, which may be wider than `dtype`: pack() rounds
  /// them.
  const Tensor* constant = nullptr;
  bool packed = false;  ///< a constant that is packed for a kernel; `constant` is null
  bool is_constant() const { return constant != nullptr || packed; }
};

/// What a kernel is asked to compute: one node of the fused graph.
struct Problem {
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<Operand> inputs, outputs;
  /// The request of the node. A kernel with a choice (the evaluator) adapts its numerics to it.
  Request asked = {};
  /// Is input `i` present: listed and not left out?
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i].present; }
  template <class A>
  A attrs_as() const {
    return decode<A>(attrs);
  }
};

/// A constant operand in a kernel's own layout: a packed weight. The engine stores it instead of
/// input `input`.
struct PackedConstant {
  int input = 0;
  std::string layout;  ///< the kernel's own description, for example "panels64 f32 K=768 N=3072"
  std::vector<std::byte> bytes;
};

/// The layout of a packed input, without the contents.
struct PackedLayout {
  int input = 0;
  std::string layout;
  size_t bytes = 0;
};

// ---- run time --------------------------------------------------------------------------------

/// A dense or strided array on the device. Strides are in elements.
struct TensorArg {
  std::byte* data = nullptr;        ///< null if there are no contents (yet)
  DType dtype = DType::kUndefined;  ///< kUndefined: the operand is absent
  int rank = 0;
  std::array<int64_t, kMaxRank> shape{}, strides{};

  int64_t elems() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= shape[i];
    return n;
  }
  /// Size of axis `i`; a negative `i` counts from the end.
  int64_t dim(int i) const { return shape[i < 0 ? rank + i : i]; }
  int64_t stride(int i) const { return strides[i < 0 ? rank + i : i]; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// A constant of the engine: in a mapped file, or on a GPU, uploaded once per engine.
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

/// The result of create() for a step of a session.
class KernelState {
 public:
  virtual ~KernelState() = default;
};
/// The result of prepare() for a step and a shape.
class ShapeState {
 public:
  virtual ~ShapeState() = default;
  /// Scratch memory of a launch, aligned to 64 bytes (CPU) or 256 bytes (CUDA). Its contents are
  /// lost after the launch.
  size_t workspace_bytes = 0;
};

struct CreateCall {
  AttrView attrs;
  const Numerics* numerics;  ///< what numerics(problem) declared for this step
  std::span<const ConstantArg> constants;
  std::span<const TensorArg> constant_inputs;  ///< by input; `data` is null if it is not constant
  const Execution& execution;
  std::string_view tuning = {};  ///< the result of tune() for this step; empty: not tuned
};
class Device;
/// A step to be timed on the device. `in` and `out` have the sizes of the largest shape that the
/// engine is built for, and no contents.
struct TuneCall {
  CreateCall create;
  std::span<const TensorArg> in, out;
  Device& device;
  /// Of the step behind, where the launch does its work too (KernelBody::joins) and nobody else
  /// reads output 0; empty: there is none. What it writes has no address.
  std::span<const TensorArg> next_in = {}, next_out = {};
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
  /// A hint to begin with the last rows, set for every second step: the previous step wrote them
  /// last, so they are still in the cache. No bit depends on it.
  bool backwards = false;
  /// The call of the step behind this one, whose work this launch does too (KernelBody::joins).
  const LaunchCall* next = nullptr;
  /// Nobody but `next` reads output 0: it need not be written.
  bool result_unused = false;
};

/// A size at which a kernel takes another way: the end of a tile of rows or of a block of keys, the
/// most rows of a variant. Only a hint where defects may begin: `vernier verify` visits some of
/// them and sizes beside them.
struct VariantSize {
  enum class Of : uint8_t {
    kRows,   ///< of all sequences
    kLength  ///< positions of one sequence
  };
  Of of = Of::kRows;
  int64_t size = 0;
  bool repeats = false;  ///< at its multiples, too
};

/// The functions and properties of a kernel: a file of kernels defines one for each of its rows.
struct KernelBody {
  /// Yes if it takes the problem for every shape that the symbols allow, or the reason why not.
  /// Users read the reason in the ledger.
  Support (*supports)(const Problem&) = nullptr;
  /// The numerics for the node it covers. Called only for problems that it supports.
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
  /// Packs constant operands for this machine. Null: nothing is packed.
  std::vector<PackedConstant> (*pack)(const Problem&) = nullptr;
  /// Restores the plain array of a packed constant: for another machine, or to verify. Null if pack
  /// is null.
  Tensor (*unpack)(const Problem&, const ConstantArg&) = nullptr;
  /// The layouts that pack gives for a supported problem on this machine. A packed constant with
  /// another layout was packed for another machine or by another version; one with another length
  /// is damaged. Null if pack is null.
  std::vector<PackedLayout> (*packed_layouts)(const Problem&) = nullptr;
  /// Makes the session's state for the step. Null: there is none.
  std::unique_ptr<KernelState> (*create)(const CreateCall&) = nullptr;
  /// Makes the state for a new shape. Null: there is none.
  std::unique_ptr<ShapeState> (*prepare)(const PrepareCall&) = nullptr;
  /// Does the work, or enqueues it. Inference has checked shapes, types and attributes. Throws
  /// Error(kInput) only for values that it must check (core/value_rules.h).
  void (*launch)(const LaunchCall&) = nullptr;
  /// Times the variants of the kernel for a step and returns the name of the fastest, for
  /// CreateCall::tuning. All variants give the same bits. Null: there is one variant.
  std::string (*tune)(const TuneCall&) = nullptr;
  /// Can its launch do the work of the step `next` as well (LaunchCall::next), which reads output 0
  /// of `own` (joined_inputs) and is of a row with `may_be_joined`? Both steps' arrays have the
  /// bits of two launches, but for a result that nobody else reads. Null: of none. A run that is
  /// observed or timed by steps launches both.
  bool (*joins)(const Problem& own, const Problem& next) = nullptr;
  bool may_be_joined = false;
  /// Bit i: `next` may read output 0 at its input i. If only bit 0 is set, it reads all of it
  /// there; else launch() has to look what is read, and launches both if it cannot do it at once.
  uint32_t joined_inputs = 1;
  /// Where it changes its variant. Must live as long as the program.
  std::span<const VariantSize> variants = {};
};

/// One row of a backend's kernels.def.
struct KernelDef : KernelBody {
  std::string_view name;  ///< <device>.<op>.<strategy>
  OpKind op = OpKind::kIdentity;
};

/// Recorded work that is replayed as one launch: a CUDA graph.
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
  virtual bool host_memory() const = 0;  ///< true if the host can access its memory
  virtual size_t alignment() const = 0;
  virtual Execution execution() = 0;
  /// Copies within the device, on the stream.
  virtual void copy_on_device(std::byte* dst, const std::byte* src, size_t bytes, void* stream) = 0;
  /// Host memory that is fast to copy to and from the device.
  virtual std::byte* allocate_staging(size_t bytes) = 0;
  virtual void free_staging(std::byte* data) = 0;
  /// Records what `work` enqueues on the stream of its argument, without running it. Null if this
  /// device cannot record.
  virtual std::unique_ptr<Recording> record(const std::function<void(const Execution&)>& work) = 0;
  /// A mark after everything enqueued so far. milliseconds_between: the time between two marks that
  /// the device has passed.
  virtual std::unique_ptr<Mark> mark(void* stream) = 0;
  virtual double milliseconds_between(const Mark& first, const Mark& second) = 0;
  /// Selects this device for the calling thread and returns the previous one, which leave()
  /// restores. See OnDevice.
  virtual int enter() { return 0; }
  virtual void leave(int before) { (void)before; }
};

/// Selects a device for the thread during the object's lifetime; then restores the previous one.
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
  int threads = 0;         ///< of a CPU; 0: one per CPU that the process may use
  void* stream = nullptr;  ///< of a GPU: the caller's cudaStream_t; null: the device makes one
};

}  // namespace vernier::backend

namespace vernier {

/// {"driver", "580.65.06"}
struct NamedVersion {
  std::string of, number;
};

/// The public handle (vernier/kernel_set.h), as src/ sees it; written backend::Backend there.
struct KernelSet {
  std::string_view name;  ///< "cpu", "cuda"
  std::span<const backend::KernelDef> kernels;
  std::unique_ptr<backend::Device> (*make_device)(const backend::DeviceOptions&);
  /// What packed weights depend on, such as "x86-64 avx512 oneDNN 2.6.3"; stored in the engine. On
  /// a machine without the device, where plans can be made too: what the kernels are compiled for.
  std::string (*target)();
  /// What bits may depend on besides the target and the program, each with its version: the chip,
  /// the driver, shared libraries. Null: nothing.
  std::vector<NamedVersion> (*environment)() = nullptr;
  /// Yes, or why nothing can run here: "no CUDA device: …". Null: always yes.
  Support (*available)() = nullptr;
  /// Yes, or why an engine built for `target` cannot run here. Null: always yes.
  Support (*runs_engine_of)(std::string_view target) = nullptr;
  /// What mode int8 asks of attention's products: the type of 16 bits that is multiplied best.
  DType attended = DType::kF16;
  /// A size that counts tokens takes so many values between two powers of two: what is made for one
  /// (a recording, places in memory) serves several counts.
  int64_t token_size_parts = 16;
  /// The device as a help of the FP64 evaluators, where it is available. Null: it is none.
  std::unique_ptr<Fp64Device> (*fp64_device)() = nullptr;
};

}  // namespace vernier

namespace vernier::backend {

using Backend = KernelSet;

/// The kernel of that name in a backend, or null.
const KernelDef* find_kernel(const Backend& backend, std::string_view name);
/// Does the kernel take the problem? What its row says, but types that only evaluators compute with
/// (core/dtype.h) are moved by kernels of kMoves and refused by all others.
Support supports(const KernelDef& kernel, const Problem& problem);
/// True for the last row of an operator, which runs its FP64 evaluator.
inline bool is_evaluator(std::string_view kernel) { return kernel.ends_with(".evaluator"); }

}  // namespace vernier::backend
