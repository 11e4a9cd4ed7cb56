// Runs one operator case on every kernel row that supports it, on the device of the test program
// (device_under_test.h). Contract: docs/adding_a_kernel.md ("Its tests"). A case is data; what is
// checked of each row is the same for all rows:
//   values against the FP64 evaluator, guard bytes, untouched inputs, no read of unwritten memory
//   (outputs and workspace start as signaling NaN), the device's other ways to run it (threads and
//   instruction sets; a second launch and a CUDA graph), inputs with gaps or at odd addresses, NaN
//   and Inf at the first, middle and last element of each float input, a row alone against the row
//   in its batch. All of it again with the f32 operands stored as f16, as bf16, and (values only)
//   mixed.
#pragma once
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "core/attrs.h"
#include "core/tensor.h"

namespace vernier::backend::test {

/// One operand of a case. An absent optional operand has dtype kUndefined.
struct Arg {
  Tensor value = {};
  bool constant = false;   ///< known when the plan is made (packed weights)
  int batch_axis = -1;     ///< the axis that goes over rows; -1: shared by all rows
  bool special = true;     ///< takes part in the NaN and Inf checks
  bool stays_f32 = false;  ///< not stored in 16 bits: scales that decide sizes
};
struct Out {
  DType dtype = DType::kF32;
  Shape shape = {};
  int batch_axis = 0;
};

enum class Checks : uint8_t {
  kAll,
  kValues,  ///< neither special values nor rows alone: one of many cases that differ in sizes
  kSampled  ///< large: values of a few rows of the batch, NaN in the middle of each input only
};

struct OpCase {
  std::string name = {};
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs = {};
  std::vector<Arg> inputs = {};
  std::vector<Out> outputs = {};
  /// got is what some value within ulps · 2^-24 · max|want of the output| of want rounds to. The
  /// arithmetic is f32; what a row declares beyond that is added (Expected)
  double ulps = 16;
  bool exact = false;        ///< integers and moved values: equal
  bool optional = false;     ///< a type or form that a device need not have a row for
  bool device_only = false;  ///< takes too long on the CPU
  bool cpu_only = false;     ///< what the CPU does beyond its definition in f32
  Checks checks = Checks::kAll;
  Request asked = {};  ///< as in Problem
};

/// Input makers: fixed seeds per case name and position.
class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed) {}
  Tensor normal(Shape shape, double mean = 0, double sigma = 1);
  Tensor integers(DType dtype, Shape shape, int64_t low, int64_t high);  ///< both included

 private:
  std::mt19937_64 random_;
};

/// A table of cases, made when its test runs; registers the test Cases.<table>, which skips, saying
/// why, where there is no device. Keep as a namespace-level constant of the case file:
///   const Cases kSoftmax("Softmax", [] { return std::vector<OpCase>{...}; });
class Cases {
 public:
  Cases(const char* table, std::vector<OpCase> (*make)());
};

/// Results of one run: output arrays, dense.
using Results = std::vector<Tensor>;

/// How a launch is done. Every variant gives the same bits.
enum class Way : uint8_t {
  kOnce,
  kTwice,  ///< again with the same states, outputs and workspace poisoned in between
  kGraph   ///< captured, then replayed (CUDA)
};
struct RunOptions {
  int threads = 1;  ///< CPU
  /// Inputs whose bit is set get gaps (NaN) between their rows; all begin one element late
  bool strided = false;
  Way way = Way::kOnce;
  /// Inputs, with gaps where they may have them, begin one element late even where the device has
  /// one set of bits for rounder addresses only. Outputs begin where memory of the device does.
  bool odd_inputs = false;
  bool backwards = false;        ///< LaunchCall::backwards
  std::string_view tuning = {};  ///< CreateCall::tuning
};
/// Plans, packs, prepares and launches `kernel`; adds a test failure if a guard byte or an input
/// changed.
Results run_kernel(const KernelDef& kernel, const OpCase& c, const RunOptions& options);

/// Some heads of an array [B, heads, S, width] of the first step, output 0 or input 0, as input
/// `input` of the second, [B, S, its own heads, width].
struct HeadsOfFirst {
  size_t input = 0;
  bool of_result = true;
  int64_t first = 0;
};
/// Two steps, the second on output 0 of the first: all of it at input 0, or `heads`. What the
/// second reads of the first has in its own case only a type and a shape.
struct PairOfSteps {
  const KernelDef &kernel, &next_kernel;
  const OpCase &first, &second;
  std::vector<HeadsOfFirst> heads = {};
};
/// One launch for both (KernelBody::joins): no, yes, or yes and nobody else reads the first result.
enum class Together : uint8_t { kNo, kYes, kUnused };
struct PairResults {
  Results first, second;
};
/// As run_kernel. With Together::kUnused the first result may still be the signaling NaN.
PairResults run_pair(const PairOfSteps& pair, Together together, const RunOptions& options);
/// The FP64 evaluator's answer, floats rounded to f64 tensors.
std::vector<EvalTensor> run_reference(const OpCase& c, const Rounding& rounding = {});
Problem make_problem(const OpCase& c);
/// An array without contents.
TensorArg dense_arg(DType dtype, const Shape& shape);

/// All kernel rows of the case's operator except the evaluator that support it and satisfy what it
/// asks.
std::vector<const KernelDef*> rows_of(const OpCase& c);

/// Everything named at the top of this file, on every row. Returns how many rows ran on the case as
/// it is written; fails where its 16-bit variants have none.
int check_case(const OpCase& c);
/// check_case on every case, and as many rows as the device promises. Prints one SKIP line per
/// operator of which a case has no row.
void check_cases(const std::vector<OpCase>& cases);
/// The case with its f32 operands stored as `types`, in turn (inputs, then outputs; a chain's
/// output as its program gives it). Values are rounded.
OpCase stored_as(const OpCase& c, std::span<const DType> types);
/// The case with these rows of every batched operand, in this order.
OpCase with_rows(const OpCase& c, std::span<const int64_t> rows);
/// The size of the batch axes; 0: none.
int64_t batch_of(const OpCase& c);

/// What a row may answer.
struct Expected {
  std::vector<EvalTensor> values;
  double ulps_factor = 1;              ///< of the case's ulps
  double absolute = 0, relative = 0;   ///< declared approximations
  double sum_error = 0;                ///< Numerics::sum_error
  std::vector<double> roundings = {};  ///< per output: what roundings inside the row may move
};
/// The evaluator's answer with the row's own roundings inside the operator (16-bit operands, tf32,
/// 16-bit probabilities). Those of operands happen to everybody alike; those of results may fall to
/// either side, so they add twice what they do to the answer at most.
Expected expected_of(const KernelDef& kernel, const OpCase& c);

/// Empty, or the first difference with its position.
std::string compare(const OpCase& c, const Results& got, const Expected& want);
inline std::string compare(const OpCase& c, const Results& got, std::vector<EvalTensor> want) {
  return compare(c, got, Expected{.values = std::move(want)});
}
std::string compare_bits(const Tensor& a, const Tensor& b);
/// The elements at places `rows` of an axis, in this order.
Tensor pick(const Tensor& t, int axis, std::span<const int64_t> rows);
/// Slice [index, index+1) of axis.
Tensor slice(const Tensor& t, int axis, int64_t index);

}  // namespace vernier::backend::test
