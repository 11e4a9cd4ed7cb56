// What a Session holds. Internal to runtime/ and those that watch or time runs. Each part is a type
// with its own state; this one puts them together.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/limits.h"
#include "runtime/binding.h"
#include "runtime/data_sizes.h"
#include "runtime/engine_impl.h"
#include "runtime/entry_maker.h"
#include "runtime/growing_memory.h"
#include "runtime/observed_run.h"
#include "runtime/run_observer.h"
#include "runtime/session_use.h"
#include "runtime/shape_entry.h"
#include "runtime/step_launcher.h"
#include "runtime/transfer.h"
#include "vernier/session.h"

namespace vernier {

struct Session::Impl {
  using ShapeEntry = runtime::ShapeEntry;
  using StepRun = runtime::StepRun;
  static constexpr size_t kMaxShapes = 32;

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
  size_t arena_bytes() const { return arena_.capacity(); }
  /// Milliseconds of each step, from one run.
  std::vector<double> time_steps(std::span<const Input> inputs);
  /// How many kernels each step launches; empty where the device does not record them.
  std::vector<int64_t> count_kernels(std::span<const Input> inputs);
  /// Milliseconds on the device of `runs` runs one after the other, without copies from and to the
  /// host.
  double time_runs(std::span<const Input> inputs, int runs);

  std::shared_ptr<const Engine> engine;
  const Engine::Impl& parts;
  const Limits limits;
  const bool certified;  ///< only sizes that the certificate covers are run
  std::unique_ptr<backend::Device> device;
  const backend::Execution execution;

 private:
  /// One call of the session: its thread has the session and works on its device. Throws
  /// Error(kInput) where another thread has it, or where the session's GPU stayed in the process
  /// that this one was forked from.
  class Call {
   public:
    explicit Call(Impl& session)
        : turn_(session.use_), here_((session.check_not_forked(), *session.device)) {}

   private:
    runtime::SessionUse::Turn turn_;
    backend::OnDevice here_;
  };

  bool on_host() const { return arguments_.on_host(); }
  void check_not_forked() const;
  ShapeEntry& entry_of(const std::vector<int64_t>& symbols, size_t segment);
  void grow_memory(ShapeEntry& entry);
  ShapeEntry& place(size_t segment);
  /// Binds the inputs and, for each segment of the plan, places its arguments and calls
  /// body(entry), which runs its steps. Returns the last entry, which has the outputs.
  template <class Body>
  ShapeEntry& each_segment(std::span<const Input> inputs, const Body& body);
  template <class Grow>
  void grow(const ShapeEntry& entry, const Grow& grow);
  runtime::FoundSizes find_sizes(const ShapeEntry& entry);
  void store_results(const ShapeEntry& entry, const runtime::FoundSizes& found);
  double time_of(int count, const std::function<void()>& run_once);
  void start(ShapeEntry& entry, const Watch& watch);
  void launch(const ShapeEntry& entry, size_t step, const backend::Execution& on) const {
    steps_.launch(entry, step, on, arena_.data());
  }

  runtime::SessionUse use_;
  runtime::Arguments arguments_;
  runtime::Binding binding_;
  runtime::StepLauncher steps_;
  runtime::GrowingMemory arena_;
  std::vector<std::unique_ptr<runtime::GrowingMemory>> carried_;  // by Engine::Impl::carried
  runtime::Transfer transfer_;
  runtime::ObservedRuns observed_;
  std::vector<std::byte*> bases_;  // of a run: see runtime::Source
  uint64_t runs_ = 0;

 public:
  std::vector<std::unique_ptr<ShapeEntry>> shapes;  ///< the last kMaxShapes
};

}  // namespace vernier
