// The engine that the build made with `vernier build` (tests/CMakeLists.txt), opened by programs
// that link the runtime alone: no compiler, no protobuf.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "vernier/engine.h"
#include "vernier/session.h"
#include "vernier/synthetic.h"

namespace vernier::test {

/// The models of tests/models that the engines were made of.
std::vector<std::string> engine_names();
std::shared_ptr<const Engine> engine_named(const std::string& name);
/// A reranker, opened once.
std::shared_ptr<const Engine> shared_engine();

/// Inputs of these sizes: token ids that vary with `seed`, masks of ones.
std::vector<InputArray> arrays_of(const Engine& engine, int64_t batch, int64_t seq, uint64_t seed);
std::vector<Input> refs(const std::vector<InputArray>& arrays);
/// All output bytes of a run.
std::vector<std::byte> bytes_of(std::span<const Output> outputs);

}  // namespace vernier::test
