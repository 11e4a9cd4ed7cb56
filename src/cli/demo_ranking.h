// The ranking part of `vernier demo`: a reranker's evaluation set. Contract of its files:
// tests/models/demo_reranker/README.md.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "vernier/session.h"

namespace vernier::cli {

/// Is there an evaluation set in `folder` (eval.npz and examples.json)?
bool has_evaluation_set(const std::filesystem::path& folder);

/// Ranks three readable queries and the whole set, prints MRR of BM25, of the stored FP64 scores
/// and of the engine's, and the time per query. True if the engine's scores are the stored ones
/// within FP32 and rank better than BM25. Throws Error(kInput) when the files do not fit together.
bool rank_evaluation_set(Session& session, const std::filesystem::path& folder,
                         const std::vector<std::string>& input_names, double noise);

}  // namespace vernier::cli
