// FP64 evaluation of a whole graph on concrete inputs (R and F of docs/design.md), and folding of
// one node. The meaning of every operator is its evaluator in reference/.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/constant_cache.h"
#include "core/limits.h"
#include "core/tensor.h"
#include "ir/graph.h"

namespace vernier::ops {

/// The size of every symbol, from the shapes of the graph's inputs.
using Binding = std::map<std::string, int64_t>;

/// Binds the graph's symbols to the sizes in `shapes` (by input name, one for every input). Throws
/// Error(kInput) for a missing or unknown input, a wrong rank or size, a symbol that two inputs
/// disagree on (naming both), and a violated guard.
Binding bind_symbols(const ir::Graph& graph, const std::map<std::string, Shape>& shapes);

enum class Keep : uint8_t {
  kOutputs,  ///< graph outputs only
  kNamed,    ///< also every computed value that equals an ONNX value (Value::name)
};
struct EvaluateOptions {
  Keep keep = Keep::kOutputs;
  /// Values given as arrays instead of computed, for a part of the graph: nodes needed only for
  /// them are not evaluated. Types and shapes must match.
  std::map<ir::ValueId, EvalTensor> given;
  /// Instead of the graph's outputs: these values, by the id in the given graph, in
  /// Evaluation::values.
  std::vector<ir::ValueId> wanted;
  /// Keep::kNamed: only values of these names; null: of all. Must outlive the evaluation.
  const std::set<std::string>* names = nullptr;
  /// Constants that evaluations share; null: none are. Must outlive the evaluation.
  ConstantCache* constants = nullptr;
  /// Evaluation::values may lie on the device in use (core/fp64_device.h).
  bool leave_on_device = false;
  /// Time is checked before every node, memory once before the first: evaluation_bytes().
  Watch watch;
};
struct Evaluation {
  std::map<std::string, EvalTensor> outputs;  ///< by output name
  std::map<ir::ValueId, EvalTensor> values;   ///< Keep::kNamed: by the id in the given graph
  Binding symbols;
};

/// The most bytes that evaluate() holds at a time, in 8 per element: live values, and the constants
/// that a node reads. An estimate: sizes that depend on data count 0.
uint64_t evaluation_bytes(const ir::Graph& graph, const Binding& sizes);

/// Evaluates the graph: floats in double without rounding between nodes, integers exactly. Shapes
/// come from inference at the concrete sizes, where every small computed tensor is known. Values
/// are freed after their last use. Throws Error(kInput) as bind_symbols does, for an input of the
/// wrong type, and where an operator has no meaning for its values (naming the node).
Evaluation evaluate(const ir::Graph& graph, const std::map<std::string, Tensor>& inputs,
                    const EvaluateOptions& options = {});

/// Limits of the work of one folded node, and of all together (a few seconds), in operations:
/// Cost::flops, 16 per element read or written, sizes of 0 counting as 1. kFoldWorkPerWeight is
/// added for each element of the node's constants, or of the model's weights. A small file can ask
/// for any number of operations; nodes above the limit stay in the graph.
inline constexpr double kMaxFoldWork = 0x1p30, kMaxFoldWorkInAll = 0x1p31;
inline constexpr double kFoldWorkPerWeight = 1024, kFoldWorkPerElem = 16;

/// The outputs of a node whose inputs are all constants, or whose integer contents inference knows
/// as numbers; each rounded once to its type, or to f32 if f16 or bf16 cannot represent it. Empty
/// for other nodes, if an output has more than `max_elems` elements, or if it would take too much
/// work (see above; counted in Graph::folded_work). The outputs must have been inferred.
std::optional<std::vector<Tensor>> fold_node(ir::Graph& graph, ir::NodeId node, int64_t max_elems);

}  // namespace vernier::ops
