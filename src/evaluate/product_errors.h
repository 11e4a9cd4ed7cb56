// What quantization costs a plan on seeded inputs: at every quantized product, and at the outputs.
// The fallback of a build reads it. Contract: docs/quantization.md "Fallback".
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "backend/kernel.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "evaluate/domain.h"
#include "evaluate/plan_evaluator.h"
#include "plan/plan.h"

namespace vernier::evaluate {

/// What one quantized product costs, rms, as a part of the rms of what is right; of an output over
/// all runs where that is more.
struct ProductError {
  double result = 0;   ///< at its own result
  double answers = 0;  ///< at the outputs, if no other product is quantized; the largest of them
};

/// Measures plans of one model on the same inputs: rows 0 and 1 of verify's sweep (samples.h) at
/// lengths 4, 16 and 48.
class ProductErrorMeter {
 public:
  /// `exact`: the plan with exact constants (PlanOptions::Constants), evaluated as F once. It,
  /// `backend` and `domains`, which are the model's, must outlive this.
  ProductErrorMeter(const plan::Plan& exact, const backend::Backend& backend,
                    const Domains& domains, uint64_t seed, const Watch& watch);
  /// How far a plan as engines hold it moves the outputs: the largest of them and of the cells.
  double answers(const plan::Plan& stored) const;
  /// What every QuantizedLinear of `stored`, which has the steps of `exact`, costs on row 0 at
  /// length 16. By step. One evaluation of what follows it for each product.
  std::map<size_t, ProductError> products(const plan::Plan& stored) const;

 private:
  // One run of inputs. A cell is a run and those before it that are rows of its batch.
  struct Run {
    std::vector<Tensor> inputs;
    std::vector<EvalTensor> right;  // of F, by output
    bool starts_batch = true;
  };
  void add_run(const NamedTensors& inputs, bool starts_batch);
  EvaluatorOptions options(Evaluation evaluation, ConstantCache* constants) const;

  const plan::Plan& exact_;
  const backend::Backend& backend_;
  uint64_t seed_;
  Watch watch_;
  std::unique_ptr<ConstantCache> in_fp64_;  // constants of `exact_`
  std::vector<Run> runs_;
  std::vector<double> scales_;  // rms of F over all runs, by output
  size_t typical_ = 0;          // the run of products()
};

/// Operations of one run of the meter in FP64, at its largest sizes (plan_work.h).
double product_errors_work(const plan::Plan& plan);

}  // namespace vernier::evaluate
