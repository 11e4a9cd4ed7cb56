// A pass: a function over the graph, and the manager that runs the one ordered list.
// Contract: docs/adding_a_pass.md. The order stands in pipeline.cpp and nowhere else.
#pragma once
#include <functional>
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

/// Does the device have a kernel of its own for `node` of `graph`? The node may be one that a pass
/// would make: it need not be in the graph, only its inputs and outputs.
using Takes = std::function<bool(const ir::Graph& graph, const ir::Node& node)>;

/// Options a user may set: which passes are off (`--fuse NAME=off`).
struct PassOptions {
  std::set<std::string> off;
  /// Empty: no pass runs that fuses only what the device takes.
  Takes takes;
  /// Called after each pass that changed something, with the pass name (dumping, tests).
  std::function<void(std::string_view pass, const ir::Graph&)> after;
  /// Asked before each pass, and by those that evaluate before each evaluation.
  Watch watch = {};
};

struct Pass {
  std::string_view name;
  Phase phase;
  bool optional;  ///< may be switched off by name
  /// Changes the graph; returns how many places it changed.
  int (*run)(ir::Graph& graph);
  /// Runs instead when the pass is switched off; null: nothing does.
  int (*when_off)(ir::Graph& graph) = nullptr;
  /// Of a pass that fuses only what the device takes: stands in place of `run`.
  int (*run_where)(ir::Graph& graph, const Takes& takes) = nullptr;
  /// Of a pass that takes time and memory at every place: stands in place of `run`.
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
