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

struct ExportedModel {
  uint64_t nodes = 0, weight_bytes = 0;
  std::string data_file;  ///< of the weights; empty: they are in the model file
};
/// Writes the raised graph of the model at `path` as a standard ONNX model of opset 21, with
/// weights of 1 GiB and more in "<to>.data". Composites become the operators they are made of. The
/// model answers as the one at `path`, but for rounding. Throws Error as compile() does, and
/// Error(kInput) where an operator or a size has no form in ONNX, or `to` is a file of the model.
ExportedModel export_onnx(const std::string& path, const std::string& to,
                          bool seed_missing_weights = false);

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
