// F and I: the evaluation of a plan in FP64 with rounding off, or with the roundings its kernels
// declare (design "Words"). Runs every step of an engine through the naive evaluators; what I
// simulates and what it takes as noise: docs/numerics.md.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "core/constant_cache.h"
#include "core/fp64_device.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/data_sizes.h"

namespace vernier::evaluate {

/// The sizes of all symbols of `plan` for these input arrays (by Plan::inputs order), but not those
/// that steps find in data. The arrays
/// must have been accepted by a Session; a mismatch asserts.
std::map<std::string, int64_t> bind_symbols(const plan::Plan& plan,
                                            const std::vector<Tensor>& inputs);

/// The elements of a view (a value of kind kAlias) of `base`, for these sizes. Reuses `memory` for
/// floats.
EvalTensor view_of(const plan::PlanValue& view, const EvalTensor& base,
                   const std::map<std::string, int64_t>& symbols, std::vector<double> memory = {});

/// Half a unit in the last place of 1 in f32.
inline constexpr double kSingleUnit = 0x1p-24;

/// The plain values of a packed constant of a step.
Tensor unpacked_constant(const plan::Plan& plan, const backend::Backend& backend,
                         const plan::Step& step, const plan::PackedInput& packed);
EvalTensor unpacked(const plan::Plan& plan, const backend::Backend& backend, const plan::Step& step,
                    const plan::PackedInput& packed);

/// Noise on a float array, by `seed`: each element off by a relative amount of deviation `size`. In
/// the memory of `noisy`, which may be `t`.
void perturb(const EvalTensor& t, double size, uint64_t seed, EvalTensor& noisy);

/// How many inputs of a product are just its operands: input i is what point i rounds. Not those of
/// an Attention that rotates q and k first. `inputs`: what the step is given, by input; null:
/// absent.
size_t num_operands(const plan::Step& step, std::span<const EvalTensor* const> inputs);

/// What the rounding of plain f32 accumulation is worth at a step: products summed per output.
/// 1 where there are none. `in` and `out` are the step's concrete shapes.
double sum_length(const plan::Step& step, std::span<const Shape> in, std::span<const Shape> out,
                  std::span<const DType> in_types, std::span<const DType> out_types);

/// Memory of large arrays that are no longer needed. Layers have weights of equal size: to allocate
/// memory for each, and to fill it with zeros, costs more than the work on it.
class SpareMemory {
 public:
  /// An array of this size, whatever is in it; empty where there is none, and for a small one.
  std::vector<double> take(size_t elems);
  /// Of the last ones as many stay as take at most 64 MiB.
  void keep(std::vector<double> array);

 private:
  static constexpr size_t kLeastElems = size_t{1} << 16;
  std::vector<std::vector<double>> arrays_;
};

enum class Evaluation : uint8_t {
  kExact,  ///< F: nothing is rounded
  kIdeal,  ///< I: each step's numerics
};

/// How a plan is evaluated.
/// seed   kIdeal: of the noise that stands for f32 arithmetic; the same seed gives the same I
/// peaks  called after each step with the largest |value| at each of its rounding points
/// watch  asked before every step; of memory in begin(): bytes()
/// constants  that evaluations share; null: none are. Must outlive the evaluator
struct EvaluatorOptions {
  Evaluation evaluation = Evaluation::kExact;
  uint64_t seed = 0;
  std::function<void(size_t step, const PointPeaks&)> peaks = {};
  Watch watch = {};
  ConstantCache* constants = nullptr;
};

/// Values of one plan on one input set, in FP64.
class PlanEvaluator {
 public:
  /// `backend` unpacks packed constants. `plan` and `backend` must outlive this.
  PlanEvaluator(const plan::Plan& plan, const backend::Backend& backend,
                EvaluatorOptions options = {});
  /// Input `input` of step `step` as the model holds it: kExact takes it instead of the engine's
  /// constant, which may be rounded; kIdeal does not. Asserts that the shapes agree.
  void set_exact_constant(size_t step, size_t input, const Tensor& contents);
  /// Evaluates all steps in order; inputs by Plan::inputs order. After each step calls
  /// observe(step index, output value index, value) for every output it defined.
  template <class Observe>
  void run(const std::vector<Tensor>& inputs, const Observe& observe) {
    begin(inputs);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      evaluate_step(s);
      for (int32_t out : plan_.steps[s].outputs) {
        if (out == plan::kNone) continue;
        if (!leaves_on_device_) slot_of(out)->to_host();
        observe(s, static_cast<size_t>(out), *slot_of(out));
      }
      release_after(s);
    }
  }
  /// run() in pieces, for a caller that follows an engine step by step: begin, then for every step
  /// in order evaluate_step and release_after. `peaks`, where given, gets the largest absolute
  /// value at each rounding point of the step.
  void begin(const std::vector<Tensor>& inputs);
  /// From now on what run() shows may lie on the device in use (core/fp64_device.h).
  void leave_on_device() { leaves_on_device_ = true; }
  /// Without showing anything.
  void run(const std::vector<Tensor>& inputs) {
    begin(inputs);
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      evaluate_step(s);
      release_after(s);
    }
  }
  /// The most bytes that an evaluation with these sizes holds at a time: live values and what a
  /// step reads and writes, in 8 bytes per element. Without a size of tokens: of all places.
  uint64_t bytes(std::map<std::string, int64_t> symbols) const;
  void evaluate_step(size_t step, PointPeaks* peaks = nullptr);
  void release_after(size_t step);
  /// What a step just made becomes `value` instead (another run's, to follow it from there). Sizes
  /// that the step found in data become those of `value`: then all of its outputs must be set.
  void set_value(size_t index, EvalTensor value);
  /// The inputs of a step that set_exact_constant() replaced.
  std::vector<size_t> exact_inputs(size_t step) const;
  /// What the step reads, by input index; empty: absent, or a table of large_tables(). Until
  /// release_after(step).
  std::vector<std::optional<EvalTensor>> inputs_of(size_t step) const;
  /// A constant of which the step reads few rows, those of the numbers in input `ids`.
  struct LargeTable {
    size_t table = 0, ids = 0;  // inputs
    const Tensor* contents = nullptr;
  };
  /// Tables that are not converted as a whole (reference/cut_tables.h), as this evaluation has
  /// them.
  std::vector<LargeTable> large_tables(size_t step) const;
  /// The value of a plan value that is an input, a constant, an output or still live (aliases are
  /// copied).
  EvalTensor value(size_t index) const;
  /// The same, on the device if its array is there.
  EvalTensor value_anywhere(size_t index) const;
  EvalTensor value(int32_t index) const { return value(static_cast<size_t>(index)); }

 private:
  // What a step reads, by input: values of the evaluator and constants that others read, too, as
  // they are, or copies that may be changed.
  struct Held {
    std::vector<const EvalTensor*> in;                      // null: absent
    std::vector<std::optional<EvalTensor>> own;             // where in[i] is a copy
    std::vector<std::shared_ptr<const EvalTensor>> shared;  // where it is a constant of the cache
    explicit Held(size_t count) : in(count), own(count), shared(count) {}
    void keep(size_t i, EvalTensor t) {
      own[i] = std::move(t);
      in[i] = &*own[i];
    }
    // Copies what lies on a device.
    void to_host() {
      for (size_t i = 0; i < in.size(); ++i) {
        if (in[i] == nullptr || in[i]->there == nullptr) continue;
        if (!own[i]) keep(i, *in[i]);
        own[i]->to_host();
      }
    }
  };
  std::optional<EvalTensor>& slot_of(int32_t value) { return values_[value]; }
  // How many inputs a step has, by index.
  size_t num_inputs(size_t step) const;
  /// `tables`: gets those whose rows were numbered anew.
  Held read(size_t step, std::vector<LargeTable>* tables = nullptr) const;
  void read_value(int32_t index, size_t input, Held& held) const;
  // A constant's values, in the given memory if it is large enough.
  using Make = std::function<EvalTensor(std::vector<double> memory)>;
  void read_constant(const Tensor& constant, size_t input, Held& held, const Make& make) const;
  void keep_memory(Held& held);
  // `device`: where the step is evaluated; null: on this CPU.
  void round_operands(size_t step, Rounding& rounding, Held& held, Fp64Device* device) const;
  std::vector<EvalTensor> outputs_of(size_t step) const;
  void add_noise(size_t step, const std::vector<EvalTensor>& outputs, Held& held,
                 Fp64Device* device) const;
  Shape shape_of(const SymShape& shape) const;
  runtime::FoundSizes find_sizes(size_t step, const Held& held);

  const plan::Plan& plan_;
  const backend::Backend& backend_;
  EvaluatorOptions options_;
  bool leaves_on_device_ = false;
  std::map<std::pair<size_t, size_t>, Tensor> exact_constants_;  // by step and input
  std::vector<plan::Guard> guards_;  // the plan's, and what its steps need besides
  std::map<std::string, int64_t> symbols_;
  std::vector<std::optional<EvalTensor>> values_;  // by value index; empty: not defined or dead
  std::vector<std::vector<size_t>> dies_after_;    // by step
  mutable SpareMemory spare_;                      // of operands that were read
};

}  // namespace vernier::evaluate
