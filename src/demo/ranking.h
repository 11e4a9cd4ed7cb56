// Ranking a reranker's evaluation set, for `vernier demo`. Contract of its files:
// tests/models/demo_reranker/README.md.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "vernier/tensor.h"

namespace vernier::demo {

/// Is there an evaluation set in `folder` (eval.npz and examples.json)?
bool has_evaluation_set(const std::filesystem::path& folder);

/// One run of the engine on arrays named as its inputs.
using RunEngine = std::function<NamedTensors(const NamedTensors& inputs)>;

/// The whole set, ranked three times. MRR: mean reciprocal rank of the right passage.
struct Ranking {
  std::string examples;  ///< a few queries in words, with their first passages
  int64_t queries = 0, candidates = 0;
  double mrr_bm25 = 0, mrr_reference = 0, mrr_engine = 0;  ///< reference: the stored FP64 scores
  int64_t changed = 0;  ///< queries whose order of passages is not FP64's
  double worst = 0;     ///< largest |score - reference| / (1 + |reference|)
  bool within = true;   ///< every score within the limit of its FP64 value
  double median_ms = 0;
  /// The scores are the stored ones within FP32, and rank better than BM25.
  bool passed() const { return within && mrr_engine > mrr_bm25; }
};

/// Ranks the set of `folder`. `noise`: what rounding may add to a score. Throws Error(kInput) when
/// its files do not fit together.
Ranking rank_evaluation_set(const RunEngine& run, const std::filesystem::path& folder,
                            const std::vector<std::string>& input_names, double noise);

/// The examples and the figures, as the demo prints them.
std::string to_text(const Ranking& ranking);

}  // namespace vernier::demo
