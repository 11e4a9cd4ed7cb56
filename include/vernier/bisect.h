// Bisect: the smallest set of ONNX nodes that have to be raised to f32 for an engine to pass.
// Contract: docs/diagnosis.md "Bisect". The set need not be a prefix of the model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/dtype.h"
#include "vernier/verdict.h"

namespace vernier::verify {

struct Request;

enum class BisectOutcome : uint8_t {
  kPasses,        ///< the engine passes: there is nothing to find
  kFound,         ///< Bisection::nodes
  kNotPrecision,  ///< a finding of another kind, or it stays with every node at f32
};

/// A node of the set: what it has in the engine that failed, and what would raise it.
struct BisectedNode {
  std::string node, key, op;  ///< ONNX name, "path#index" and ONNX operator
  std::string composite;      ///< the composite or operator it became part of, else empty
  DType store = DType::kUndefined, compute = DType::kUndefined, accumulate = DType::kUndefined;
  int32_t step = -1;
  std::string kernel;
  std::string by;                    ///< who asked for its types: "mode fp16", "rule 2"
  std::string rule;                  ///< text of the user's rule that lowered it; empty: none did
  std::vector<std::string> raising;  ///< rules that raise it: "name:/enc/0/Softmax compute=f32"
};

struct Bisection {
  BisectOutcome outcome = BisectOutcome::kPasses;
  Verdict verdict = Verdict::kPass;  ///< of the engine, as verify gives it
  std::string explanation;           ///< likewise
  std::string inputs;                ///< what every probe ran on: "batch 8, length 16"
  size_t candidates = 0;  ///< nodes that have less than f32 somewhere or ask to be stored so …
  size_t candidate_steps = 0;       ///< … and in how many steps
  std::vector<BisectedNode> nodes;  ///< none can be left out; in file order
  bool rules_pass = false;          ///< the engine built with their rules was tried: it passes
  std::vector<std::string> notes;
  int builds = 0;
  double ms = 0, verify_ms = 0;  ///< all of it; of that the first verification
};

/// Verifies the engine of `request` (as verify()) and, where it fails for its precision, tries
/// builds of the same model and options with more and more chosen sets of nodes raised. The model
/// is read once and R evaluated once. Throws as verify().
Bisection bisect(const Request& request);
/// The result for a terminal, and as JSON: docs/diagnosis.md "Bisect".
std::string to_text(const Bisection& found);
std::string to_json(const Bisection& found);

}  // namespace vernier::verify
