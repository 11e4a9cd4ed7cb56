// Runs one operator case on every CPU kernel row that supports it. Contract:
// docs/adding_a_kernel.md
// ("Its tests"). A case is data; what is checked of each row is the same for all rows:
//   values against the FP64 evaluator, guard bytes, no read of unwritten memory (outputs and
//   workspace start as signalling NaN), 1 and 2 threads and each instruction set, NaN and Inf at
//   the first, middle and last element of each float input, a row alone against the row in its
//   batch. All of it again with the f32 operands stored as f16, as bf16, and (values only) mixed.
#pragma once
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu.h"
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

struct OpCase {
  std::string name = {};
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs = {};
  std::vector<Arg> inputs = {};
  std::vector<Out> outputs = {};
  /// got is what some value within ulps · 2^-24 · max|want of the output| of want rounds to
  double ulps = 16;
  bool exact = false;  ///< integers and moved values: equal
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

/// Results of one run: output arrays, dense.
using Results = std::vector<Tensor>;

struct RunOptions {
  int threads = 1;
  bool strided = false;  ///< inputs whose bit is set get gaps (NaN) between their rows
};
/// Plans, packs, prepares and launches `kernel`; adds a test failure if a guard byte changed.
Results run_kernel(const KernelDef& kernel, const OpCase& c, const RunOptions& options);
/// The FP64 evaluator's answer, floats rounded to f64 tensors.
std::vector<EvalTensor> run_reference(const OpCase& c);
Problem make_problem(const OpCase& c);

/// All kernel rows of the case's operator except the evaluator that support it. Adds a failure if
/// there is none and `required`.
std::vector<const KernelDef*> rows_of(const OpCase& c);

/// Everything named at the top of this file, on every row. Returns how many rows ran on the case as
/// it is written; fails where its 16-bit variants have none.
int check_case(const OpCase& c);
/// The case with its f32 operands stored as `types`, in turn (inputs, then outputs; a chain's
/// output as its program gives it). Values are rounded.
OpCase stored_as(const OpCase& c, std::span<const DType> types);

/// Empty, or the first difference with its position.
std::string compare(const OpCase& c, const Results& got, const std::vector<EvalTensor>& want);
std::string compare_bits(const Tensor& a, const Tensor& b);
/// Slice [index, index+1) of axis.
Tensor slice(const Tensor& t, int axis, int64_t index);

/// The name of the best instruction set of this machine.
std::string best_target();
/// Calls body once per instruction set that this build and machine have, the best one last.
void for_each_target(const std::function<void(const std::string& target)>& body);

}  // namespace vernier::backend::test
