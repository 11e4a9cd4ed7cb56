// Building in a mode that quantizes (int8, fp8, w8, w4) beside 16 bits: both engines are timed on
// this machine, and the faster one is kept. compile() times nothing and gives the same bytes
// everywhere. Contract: docs/quantization.md "Is it faster?".
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "vernier/compile.h"
#include "vernier/engine.h"

namespace vernier {

/// Medians of runs of both engines at these sizes, in turn.
struct ComparedTimes {
  std::string sizes;  ///< "batch=8,seq=128"; empty where the model fixes all
  double quantized_ms = 0, other_ms = 0;
};

struct Comparison {
  std::string mode;                               ///< "int8", "fp8", "w8" or "w4"
  std::string other;                              ///< the mode that it is compared with: "bf16"
  uint64_t quantized_bytes = 0, other_bytes = 0;  ///< of weights; 0: there is no other engine
  std::vector<ComparedTimes> times;               ///< empty: nothing was measured
  std::string why_not;                            ///< why nothing was measured
  /// other_ms / quantized_ms: of int8 the geometric mean, of w8 and w4 that at one row, which they
  /// are for.
  double speedup = 1;
  bool kept_quantized = true;
};

/// Times two engines of one model. Throws Error where one of them does not run.
using TimeEngines =
    std::function<std::vector<ComparedTimes>(const Engine& quantized, const Engine& other)>;

struct CompareOptions {
  /// kFaster: the quantized engine, unless it is slower by more than the noise.
  enum class Keep : uint8_t { kFaster, kQuantized } keep = Keep::kFaster;
  TimeEngines time = {};  ///< empty: time_engines()
};

struct ComparedReport {
  CompileReport build;  ///< of the engine that was kept; its notes tell the comparison
  std::optional<Comparison> comparison;  ///< none: the mode quantizes nothing
};

/// Runs both at one row and at a batch of the profile, in turn; two to four seconds where a run is
/// short. On a GPU the time is the device's. `progress` is called with what is timed.
std::vector<ComparedTimes> time_engines(const Engine& quantized, const Engine& other,
                                        const Limits& limits = {},
                                        const std::function<void(std::string_view)>& progress = {});

/// compile(), and in modes int8, fp8, w8 and w4 the same model and options in 16 bits as well (bf16
/// on a CPU, fp16 on a GPU; rules that ask for quantized products stay): the engine that is written
/// is the faster one. Where nothing can be timed it is the mode's, and a note says why. Throws
/// Error as compile() does.
ComparedReport compile_faster(const std::string& model_path, const std::string& engine_path,
                              const CompileOptions& options = {},
                              const CompareOptions& compare = {});

/// As JSON (docs/json.md "build").
std::string to_json(const Comparison& comparison);

}  // namespace vernier
