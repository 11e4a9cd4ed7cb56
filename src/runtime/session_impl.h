// What a Session holds, and how verify and the profiler watch a run. Internal to runtime/ and
// verify/; an observer changes nothing: same steps, kernels, addresses and bits.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/fork.h"
#include "core/limits.h"
#include "core/threads.h"
#include "runtime/engine_impl.h"
#include "vernier/session.h"

namespace vernier {

/// Called before the first step with the whole arena (to poison it), before every step with its
/// workspace and its outputs (the same: what an earlier step left there is nobody's), and after it
/// with its arguments (to copy values out). On a GPU all see a copy in host memory.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void before_run(std::span<std::byte> arena) { (void)arena; }
  virtual void before_step(std::span<std::byte> unwritten) { (void)unwritten; }
  virtual void after_step(int32_t step, const backend::LaunchCall& call) = 0;
};

struct Session::Impl {
  Impl(std::shared_ptr<const Engine> engine, const SessionOptions& options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::span<const Output> run(std::span<const Input> inputs, RunObserver* observer);
  void run(std::span<const Input> inputs, std::span<const OutputBuffer> buffers);
  void enqueue(std::span<const Input> inputs, std::span<const OutputBuffer> buffers);
  void wait();
  void check_inputs(std::span<const Input> inputs);
  void prepare(std::span<const InputShape> shapes);
  /// Milliseconds of each step, from one run.
  std::vector<double> time_steps(std::span<const Input> inputs);
  /// How many kernels each step launches; empty where the device does not record them.
  std::vector<int64_t> count_kernels(std::span<const Input> inputs);
  /// Milliseconds on the device of `runs` runs one after the other, without copies from and to the
  /// host.
  double time_runs(std::span<const Input> inputs, int runs);

  /// Where an argument's bytes are: `base` indexes the table of bases of a run (the arena, the
  /// shape values, then the inputs); kFixed: data is already final (constants).
  struct Source {
    static constexpr int32_t kFixed = -1, kArena = 0, kShapeValues = 1, kFirstInput = 2;
    int32_t base = kFixed;
    size_t offset = 0;
  };
  struct StepRun {
    std::vector<backend::TensorArg> in, out;
    std::vector<Source> in_sources, out_sources;
    std::unique_ptr<backend::ShapeState> shape_state;
    size_t workspace_offset = 0;
    bool empty = false;  ///< nothing to write or to check: neither prepared nor launched
  };
  /// Everything that depends on the input shapes, made when they are first seen.
  struct ShapeEntry {
    std::vector<int64_t> symbols, slots;
    std::vector<StepRun> steps;
    std::vector<std::byte> shape_values;
    std::vector<std::vector<int64_t>> output_shapes;
    std::vector<backend::TensorArg> outputs;
    std::vector<Source> output_sources;
    size_t arena_bytes = 0;
    uint64_t last_used = 0;
    // Only where device memory is not the host's: inputs and shape values lie together in the
    // arena, as they do in the staging memory that they are copied from.
    size_t staged_offset = 0, staged_bytes = 0;
    std::vector<size_t> input_offsets;  ///< from staged_offset
    size_t shape_values_offset = 0;     ///< from staged_offset
    ThreadTeam::Pace pace;              ///< the CPU's
    bool launched = false, recordable = true;
    std::unique_ptr<backend::Recording> recording;  ///< of the steps, made at the second run
  };
  static constexpr size_t kMaxShapes = 32;

  std::shared_ptr<const Engine> engine;
  const Engine::Impl& parts;
  const Limits limits;
  std::unique_ptr<backend::Device> device;
  backend::Execution execution;
  std::vector<std::unique_ptr<backend::KernelState>> states;  ///< by step
  std::vector<std::unique_ptr<ShapeEntry>> shapes;            ///< the last kMaxShapes
  std::byte* arena = nullptr;
  size_t arena_capacity = 0;
  std::byte* staging = nullptr;  ///< host memory that copies to and from the device run fast on
  size_t staging_capacity = 0;
  uint64_t runs = 0;

 private:
  /// How one size of one input is checked: against a number, or a symbol it binds or repeats.
  struct SizeRule {
    enum class Kind : uint8_t { kNumber, kBinds, kRepeats, kExpression } kind = Kind::kNumber;
    int64_t number = 0;                      ///< kNumber
    int32_t symbol = -1;                     ///< kBinds, kRepeats
    int32_t slot = -1;                       ///< kExpression
    int32_t first_input = 0, first_dim = 0;  ///< kRepeats: where the symbol was bound
  };
  enum class Data : uint8_t { kNeeded, kNotNeeded };

  /// One call of the session. Throws where another thread is in one, or where the session's GPU
  /// stayed in the process that this one was forked from; then works on the session's device.
  class Call {
   public:
    explicit Call(Impl& session);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    class InUse {
     public:
      explicit InUse(Impl& session);
      ~InUse();
      InUse(const InUse&) = delete;
      InUse& operator=(const InUse&) = delete;

     private:
      Impl& session_;
      bool outermost_ = true;
    };
    InUse in_use_;
    backend::OnDevice here_;
  };

  void make_rules();
  void bind(std::span<const Input> inputs, Data data);
  void bind_size(size_t input, size_t dim, int64_t size);
  void check_range() const;
  void check_expressions(const ShapeEntry& entry) const;
  void check_ids(const ShapeEntry& entry) const;
  ShapeEntry& entry_for_bound_symbols();
  std::unique_ptr<ShapeEntry> make_entry();
  void check_guards(const ShapeEntry& entry) const;
  /// "batch=4, seq=128", of the shapes that are bound.
  std::string symbols_text() const;
  void place_staged(ShapeEntry& entry) const;
  void fill_shape_values(ShapeEntry& entry, std::vector<size_t>& offsets) const;
  backend::TensorArg argument(const ShapeEntry& entry, int32_t value) const;
  backend::TensorArg packed_argument(size_t step, const plan::PackedInput& packed) const;
  void check_alias(const ShapeEntry& entry, int32_t value) const;
  void check_least_memory(const ShapeEntry& entry) const;
  void make_arguments(ShapeEntry& entry);
  void make_layout(ShapeEntry& entry, const std::vector<size_t>& shape_value_offsets);
  void create_states();
  const std::byte* constant_data(int32_t blob) const;
  void grow_arena(size_t bytes);
  void grow_staging(size_t bytes);
  ShapeEntry& bind_and_place(std::span<const Input> inputs);
  void resolve(ShapeEntry& entry);
  bool on_host() const { return weights_ == nullptr; }
  void synchronise();
  void check_not_forked() const;
  void leave_to_parent();
  void stage_inputs(const ShapeEntry& entry);
  /// Does `work`; errors name the step's node: a kernel does not know which one it works for.
  template <class Work>
  void at_step(size_t s, const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      const plan::Step& step = parts.plan.steps[s];
      throw Error(error.code(), "node '" + step.name + "' (step " + std::to_string(s) + ", " +
                                    step.kernel + "): " + error.what());
    }
  }
  void launch_step(ShapeEntry& entry, size_t step, const backend::Execution& on);
  void launch_all(ShapeEntry& entry, const backend::Execution& on, const Watch& watch);
  void start(ShapeEntry& entry, const Watch& watch);
  void check_time(const Watch& watch, size_t step) const;
  void check_memory(const ShapeEntry& entry) const;
  void run_observed(ShapeEntry& entry, RunObserver& observer, const Watch& watch);
  void run_mirrored(ShapeEntry& entry, RunObserver& observer, const Watch& watch);
  /// Calls body(bytes) for the workspace and each output of a step, in the arena.
  template <class Body>
  void each_unwritten(const StepRun& step, const Body& body) const;
  backend::LaunchCall call_of(ShapeEntry& entry, size_t step, const backend::Execution& on) const;
  void fetch_outputs(const ShapeEntry& entry);
  const backend::TensorArg& output_named(const ShapeEntry& entry, const OutputBuffer& buffer) const;
  void copy_to(const ShapeEntry& entry, std::span<const OutputBuffer> buffers);
  [[noreturn]] void fail(size_t input, const std::string& what) const;

  std::vector<std::vector<SizeRule>> rules_;  // by input and dimension
  std::vector<const Input*> bound_;           // by input, during a run
  std::vector<int64_t> symbols_;              // by symbol, during a run
  std::vector<std::byte*> bases_;
  std::vector<Output> outputs_;
  const runtime::DeviceWeights* weights_ = nullptr;  // null: device memory is the host's
  bool staging_in_use_ = false;                      // until the next wait()
  std::byte* fetched_ = nullptr;                     // host memory of outputs_
  size_t fetched_capacity_ = 0;
  std::vector<size_t> output_offsets_;
  std::vector<std::byte> mirror_;  // of the arena, for observers
  std::atomic<uint64_t> user_{0};  // the thread in a call, see session.cpp; 0: none
  uint32_t made_forks_ = forks();
};

}  // namespace vernier
