// Verify for an engine and a model that are in memory; for files: vernier/verify.h. Contract:
// docs/verification.md.
#pragma once
#include <memory>
#include <string>

#include "evaluate/rows.h"
#include "ir/graph.h"
#include "vernier/certificate.h"
#include "vernier/verify.h"

namespace vernier::verify {

using namespace evaluate;  // NOLINT(google-build-using-namespace): its words are ours

/// As verify(), without a page.
Report verify_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                     const Request& request);

/// The model of `request` as `engine` means it: outputs that it fills with 0 at padding are 0 there
/// (docs/unpadding.md). Throws as onnx::import_model, and Error(kInput) where it is another model.
std::shared_ptr<ir::Graph> model_of(const Engine& engine, const Request& request);

/// The engine of `request`, with its backend, and its model; the weights are checked while the
/// model is read. Throws Error as Engine::open and model_of.
struct Opened {
  std::shared_ptr<const Engine> engine;
  std::shared_ptr<ir::Graph> model;
};
Opened open_checked(const Request& request);

/// As localise().
Localisation localise_model(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                            const Request& request);

/// What the report of `engine` says, for its file. `model_hash`: of the model's file.
Certificate certificate_of(const Engine& engine, const Report& report,
                           const std::string& model_hash);

}  // namespace vernier::verify
