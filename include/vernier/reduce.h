// Reduce: the smallest part of a model that still fails, as a model with inputs and one command.
// Contract: docs/diagnosis.md "Reduce".
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "vernier/verdict.h"

namespace vernier::verify {

struct Request;

enum class ReduceOutcome : uint8_t {
  kPasses,         ///< the engine passes: there is nothing to reduce
  kReduced,        ///< the files are written, and fail when they are read again
  kNotReproduced,  ///< not even the whole model fails when it is built with fixed sizes
};

struct Reduction {
  ReduceOutcome outcome = ReduceOutcome::kPasses;
  Verdict verdict = Verdict::kPass;       ///< of the engine, as verify gives it
  std::string explanation;                ///< likewise
  std::string inputs;                     ///< what it was reduced on: "batch 1, length 4"
  std::vector<std::string> nodes;         ///< of the part, in file order
  size_t model_nodes = 0;                 ///< of the whole main graph
  Verdict part_verdict = Verdict::kPass;  ///< of the written files
  std::string part_explanation;           ///< likewise
  std::string command;                    ///< what command.txt holds
  std::filesystem::path folder;           ///< of the files
  int builds = 0;
  double ms = 0;
};

/// Where the part goes.
struct ReduceTarget {
  std::filesystem::path folder;      ///< created if it does not exist
  std::vector<std::string> plugins;  ///< libraries of the request's kernels, for the command
};

/// Verifies the engine of `request`, and where it fails writes model.onnx, inputs.npz, command.txt
/// and, of an engine with scales, scales.json into the target's folder. The part is built for the
/// sizes of the smallest failing cell, with the requests of its nodes. Throws as verify(), and
/// Error(kMachine) where the files cannot be written.
Reduction reduce(const Request& request, const ReduceTarget& target);
/// The result for a terminal, and as JSON.
std::string to_text(const Reduction& found);
std::string to_json(const Reduction& found);

}  // namespace vernier::verify
