// Engines of field cases: a model at hand (from a file, built, or changed), compiled under a
// policy.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "ir/graph.h"
#include "onnx/import.h"
#include "onnx/model_builder.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::verify::field {

struct Policy {
  std::string mode = "model";
  std::vector<std::string> rules = {}, passes_off = {}, outputs = {};
  std::string layer_precisions = {}, layer_output_types = {};
};

inline CompileOptions options_of(const Policy& policy) {
  CompileOptions options = test::options_here();
  options.mode = policy.mode;
  options.rules = policy.rules;
  options.passes_off = policy.passes_off;
  options.extra_outputs = policy.outputs;
  options.layer_precisions = policy.layer_precisions;
  options.layer_output_types = policy.layer_output_types;
  return options;
}

inline std::shared_ptr<ir::Graph> model_named(const std::string& name) {
  return onnx::import_model(test::example_model(name).path);
}

inline plan::Plan plan_of(const ir::Graph& model, const Policy& policy) {
  return compiler::plan_of(model, options_of(policy));
}

inline std::shared_ptr<const Engine> engine_of(const plan::Plan& plan) {
  return Engine::from_bytes(engine::engine_bytes(plan));
}

inline Report verify_policy(const ir::Graph& model, const Policy& policy, Request request) {
  request.threads = 2;
  return verify_engine(engine_of(plan_of(model, policy)), model, request);
}

/// One run of a plan beside R of its model and I of the plan.
struct Errors {
  double engine = 0, ideal = 0;  ///< rms(E − R), rms(I − R): all outputs, finite elements of R
  double reference = 0;          ///< rms(R)
  bool finite_where_r_is = true, nan_where_r_is = true;
  std::map<std::string, EvalTensor> answers;
};
Errors errors_of(const ir::Graph& model, const plan::Plan& plan,
                 const std::map<std::string, Tensor>& inputs);

/// Seeded normal values times `scale` plus `mean`.
Tensor normal_values(Shape shape, uint64_t seed, double scale = 1, double mean = 0);

}  // namespace vernier::verify::field
