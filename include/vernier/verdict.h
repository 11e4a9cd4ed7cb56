// Verdicts of verify. One table (src/verify/verdict.cpp) has their rank, name, advice and exit
// code. Contract: docs/verification.md "Verdicts".
#pragma once
#include <cstdint>
#include <string_view>

namespace vernier::verify {

/// By rank, the most severe first: of several findings, the one that explains the others is the
/// verdict. A smaller value has a higher rank.
enum class Verdict : uint8_t {
  kConstant,           ///< "bug (constant)": a constant is not the model's, rounded
  kRewriteBug,         ///< "bug (rewrite)": a pass changed what the graph computes
  kUninitialisedRead,  ///< "bug (uninitialised read)"
  kRace,               ///< "bug (race)"
  kBug,                ///< "bug": a kernel is wrong on its own inputs
  kOverflow,           ///< "overflow": a type cannot hold a value
  kNan,                ///< "nan": NaN or infinity where FP64 has none, or the reverse
  kNeighbours,         ///< "neighbours": a row depends on its batch
  kDeclared,           ///< "declared error": a kernel declares more error than the cap
  kPrecision,          ///< "precision": the limits are not met
  kReference,          ///< "reference": the model is not what --expect holds
  kPass,               ///< "pass"
};

/// As it is printed, stored in JSON and in certificates.
std::string_view name(Verdict verdict);
/// Throws Error(kInput) for any other text.
Verdict verdict_named(std::string_view text);
/// What a user does about it, in a sentence or two.
std::string_view advice(Verdict verdict);
/// Exit code of the command line: 0 for pass, else 1.
int exit_code(Verdict verdict);

inline bool operator==(Verdict verdict, std::string_view text) { return name(verdict) == text; }

}  // namespace vernier::verify
