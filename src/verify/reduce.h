// Reduce for an engine and a model that are in memory; for files: vernier/reduce.h.
#pragma once
#include <memory>

#include "ir/graph.h"
#include "onnx/slice.h"
#include "vernier/engine.h"
#include "vernier/reduce.h"
#include "vernier/verify.h"

namespace vernier::verify {

/// As reduce(); `slicer` has the nodes of the model's file.
Reduction reduce_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                        const onnx::ModelSlicer& slicer, const Request& request,
                        const ReduceTarget& target);

}  // namespace vernier::verify
