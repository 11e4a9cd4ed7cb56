// Inspect: what is in a model and in an engine, as text for a person or JSON for a program.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/engine.h"
#include "vernier/session.h"

namespace vernier {

enum class InspectFormat : uint8_t { kText, kJson };

enum class ModelView : uint8_t {
  kSummary,      ///< inputs, outputs, operators by count
  kGraph,        ///< the graph as imported, in text form
  kRaised,       ///< composites per layer, and which node stopped a pattern that did not match
  kRaisedGraph,  ///< the raised graph in text form
  kTypedGraph,   ///< the raised graph with the types and requests of a policy
};
struct ModelInspection {
  ModelView view = ModelView::kSummary;
  InspectFormat format = InspectFormat::kText;
  bool seed_missing_weights = false;
  std::string mode = {};                ///< kTypedGraph: as CompileOptions has them
  std::vector<std::string> rules = {};  ///< likewise
};
/// Reads the model at `path`. Throws Error as compile() does.
std::string inspect_model(const std::string& path, const ModelInspection& what);

enum class EngineView : uint8_t {
  kSummary,  ///< inputs, outputs, device, weights, steps, hash
  kPlan,     ///< one row per step: operator, kernel, shapes
  kMemory,   ///< arena at the largest and at the optimal shape, by value
  kTiming,   ///< one row per step: time at the given shape, share
  kLedger,   ///< one row per ONNX node: requested and actual types, kernel, reason
};
struct EngineInspection {
  EngineView view = EngineView::kSummary;
  InspectFormat format = InspectFormat::kText;
  std::string node;    ///< kLedger: only rows whose node name or key is this (--why)
  std::string shapes;  ///< kMemory, kTiming: "batch=4,seq=128"; empty: the profile's optimum
  int threads = 0;
  std::vector<Input> inputs;  ///< kTiming: arrays to run on, in place of `shapes`; empty: synthetic
};
std::string inspect_engine(const Engine& engine, const EngineInspection& what);

/// Is the file an engine (by its first bytes)? False, too, if it cannot be read.
bool is_engine_file(const std::string& path);

}  // namespace vernier
