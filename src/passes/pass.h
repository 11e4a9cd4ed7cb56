// A pass: a function over the graph, and the manager that runs the ordered list of passes.
// Contract: docs/adding_a_pass.md. The order is defined in pipeline.cpp only.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/limits.h"
#include "ir/graph.h"

namespace vernier::passes {

enum class Phase : uint8_t {
  kRaise,  ///< infer, fold, canonicalise, raise: before precision is decided
  kFuse,   ///< fuse, layout: after it; may only keep or raise precision
};

/// Does the device have a kernel of its own for `node` of `graph`? The node need not be in the
/// graph, only its inputs and outputs: a pass asks before it makes the node.
using Takes = std::function<bool(const ir::Graph& graph, const ir::Node& node)>;

/// The factors of the columns of a product's operand x, positive numbers.
using SharedFactors = std::shared_ptr<const std::vector<float>>;
/// By the names of the products' ONNX nodes (passes/quantize.h).
using ColumnFactors = std::map<std::string, SharedFactors, std::less<>>;

/// What becomes -127 … 127 of a product's operand x, multiplied by its factors: low <= 0 <= high.
struct StaticRange {
  double low = 0, high = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): an ordering
  friend auto operator<=>(const StaticRange&, const StaticRange&) = default;
};
using StaticRanges = std::map<std::string, StaticRange, std::less<>>;

/// Options a user may set: which passes are off (`--fuse NAME=off`).
struct PassOptions {
  std::set<std::string> off;
  /// Empty: passes that depend on the device's kernels do not run.
  Takes takes;
  /// Weights that a pass quantizes stay real numbers: for an FP64 evaluation of the model's own.
  bool exact_weights = false;
  /// What calibration found of products that are quantized.
  ColumnFactors factors = {};
  /// The range that all rows of a product's operand take. Not listed: that of each row.
  StaticRanges ranges = {};
  /// Scales of a weight's columns in whose units it is whole numbers already, by the products'
  /// ONNX nodes as `factors`. Not listed: found anew.
  ColumnFactors weight_scales = {};
  /// Called with each Linear that takes operands of 8 bits, before it does, its weight, and the
  /// range that all rows of x · factors take; none: that of each row.
  std::function<void(const ir::Graph&, const ir::Node& linear, const Tensor& weight,
                     const std::optional<StaticRange>& range)>
      quantizes = {};
  /// Called after each pass that changed something, with the pass name (dumping, tests).
  std::function<void(std::string_view pass, const ir::Graph&)> after;
  /// Checked before each pass, and before each evaluation in passes that evaluate.
  Watch watch = {};
};

struct Pass {
  std::string_view name;
  Phase phase;
  bool optional;  ///< may be switched off by name
  /// Changes the graph; returns the number of changes.
  int (*run)(ir::Graph& graph);
  /// Runs instead if the pass is switched off; null: nothing runs.
  int (*when_off)(ir::Graph& graph) = nullptr;
  /// Replaces `run` in a pass that depends on the device's kernels (options.takes).
  int (*run_where)(ir::Graph& graph, const PassOptions& options) = nullptr;
  /// Replaces `run` in a pass whose changes take time and memory.
  int (*run_watched)(ir::Graph& graph, const Watch& watch) = nullptr;
};

/// The ordered list (pipeline.cpp).
std::span<const Pass> pipeline();

struct PassReport {
  std::string_view pass;
  int changes = 0;
  double ms = 0;
};

/// Runs the passes of `phase` in order. After each: dead nodes removed, order restored, inference
/// brought up to date, ir::check. Throws Error(kInput) if an option names no optional pass.
std::vector<PassReport> run_passes(ir::Graph& graph, Phase phase, const PassOptions& options);

}  // namespace vernier::passes
