// The compiler's stages in order, for compile(), inspect and the tests.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/clock.h"
#include "compile/scales.h"
#include "evaluate/domain.h"
#include "ir/graph.h"
#include "passes/pass.h"
#include "passes/quantize.h"
#include "plan/planner.h"
#include "precision/ask.h"
#include "precision/policy.h"
#include "vernier/compile.h"

namespace vernier::compiler {

struct Compiled {
  plan::Plan plan;
  int64_t onnx_nodes = 0, opset = 0;
  std::string exported_policy;            ///< of a model that --export-qdq wrote, as JSON
  std::vector<std::string> report_notes;  ///< behind the plan's, which engines hold
  evaluate::Domains domains;              ///< of the inputs, where a canary is asked for
};

/// The options of a build, with its policy and its scales parsed once for all stages.
struct Job {
  /// Throws Error(kInput) for a mode, a rule, a policy file or a scales file that is wrong.
  Job(CompileOptions asked = {});  // NOLINT(google-explicit-constructor): one is the other, parsed
  CompileOptions options;
  precision::Policy policy;
  std::optional<Scales> scales;
  std::set<std::string>
      fragile;  ///< keys of ONNX nodes that the fallback of int8 keeps (fallback.h)
  /// Of the model that is planned, where it is planned many times (bisect): planned_again().
  std::shared_ptr<const precision::KnownModel> known;
};

/// A product that mode int8 quantizes.
struct QuantizedProduct {
  std::vector<passes::ProductName> names;  ///< of its ONNX nodes
  ir::ValueId x = ir::kNoValue;            ///< equal for products that read the same value
  std::string x_name;                      ///< its ONNX name; may be empty
  Tensor weight;                           ///< [K, N], or [N, K] with trans_w
  bool trans_w = false;
};

/// `job` whose clock runs.
Job begun(Job job);
/// Before the work: throws Error where one of the files that a build writes cannot be written, or
/// where two of them are one.
void check_targets(const std::string& engine_path, const CompileOptions& options);
/// Reports what is done next, and ends the work where the options' limits do.
void stage(const CompileOptions& options, std::string_view name);
/// The backend of `--device`. Throws Error(kInput) for one that this build does not have.
const backend::Backend& backend_named(const std::string& device);
/// The kernels of the options, or those of their device.
const backend::Backend& backend_of(const CompileOptions& options);
/// What goes into an imported graph, read off the raised one.
evaluate::Domains domains_of(const ir::Graph& imported);
/// The model as imported, with the extra outputs added.
std::shared_ptr<ir::Graph> import(const std::string& model_path, const CompileOptions& options,
                                  Compiled& result);
/// Import, then the passes up to raising.
std::shared_ptr<ir::Graph> raise(const std::string& model_path, const CompileOptions& options,
                                 Compiled& result);
/// An imported graph raised, asked for precision and typed, before anything is fused.
std::shared_ptr<ir::Graph> typed(const ir::Graph& imported, const Job& job);
/// `job` for planning `imported` again and again: what does not depend on the precision that is
/// asked for is made once, here. The job plans no other graph.
Job planned_again(const ir::Graph& imported, Job job);
/// The plan of an imported graph: raised, asked for precision, typed, fused, planned. `raised`:
/// keys of ONNX nodes that take and store at least f32 whatever the mode and the rules ask, exact
/// ones too; the plan does not record them (probes of bisect, which are never saved). `kept`: as in
/// PlanOptions.
plan::Plan plan_of(const ir::Graph& imported, const Job& job,
                   plan::PlanOptions::Constants constants = plan::PlanOptions::Constants::kStored,
                   const std::set<std::string>& raised = {}, plan::KeptConstants* kept = nullptr);
/// A graph that only the planner needs, and what the plan takes from the steps before.
struct Fused {
  std::shared_ptr<ir::Graph> graph;
  std::vector<plan::TableBound> table_bounds;
  std::vector<std::string> notes;
  std::set<std::string> quantized;  ///< as of precision::Asked
};
using Quantizes = std::function<void(const ir::Graph&, const ir::Node&, const Tensor&,
                                     const std::optional<passes::StaticRange>&)>;
/// plan_of() up to the planner. Calls `quantizes` for each product that it quantizes.
Fused fuse(const ir::Graph& imported, const Job& job, const std::set<std::string>& raised,
           plan::PlanOptions::Constants constants, const Quantizes& quantizes = {});
/// The rest of it.
plan::Plan plan_fused(const Fused& fused, const Job& job, plan::PlanOptions::Constants constants,
                      plan::KeptConstants* kept = nullptr);
/// As above, of a graph that nobody needs any more.
plan::Plan plan_fused(Fused&& fused, const Job& job, plan::PlanOptions::Constants constants,
                      plan::KeptConstants* kept = nullptr);
/// The products of an imported graph that this job quantizes, in order.
std::vector<QuantizedProduct> quantized_products(const ir::Graph& imported, const Job& job);
/// The options that an engine was built with, as it records them.
CompileOptions options_of(const plan::Plan& plan);
/// All stages, the range audit among them. Throws Error.
Compiled run(const std::string& model_path, const Job& job);
/// Writes the engine, with its canary, for which the plan's weights are given up. What compile()
/// returns.
CompileReport write(const std::string& engine_path, Compiled& compiled,
                    const CompileOptions& options, const Clock& clock);
/// What compile() returns. `ms`: since its beginning.
CompileReport report_of(const Compiled& compiled, double ms);

}  // namespace vernier::compiler
