// Proportional errors: see proportional.h.
#include "plants/proportional.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string_view>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::test {
namespace {

double too_large = 0;  // of the kernel that is verified now: kernels have plain functions

void multiply_results(const backend::KernelDef& right, const backend::LaunchCall& call) {
  right.launch(call);
  const backend::TensorArg& y = call.out[0];
  for (float& v : std::span(y.as<float>(), static_cast<size_t>(y.elems())))
    v = static_cast<float>(v * (1 + too_large));
}

constexpr double kFirst = 1e-5;  // the error that must be found

// Does verify find it, and name the kernel?
bool is_found(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
              const Plant& plant) {
  verify::Request request;
  request.threads = 2;
  const verify::Report report = verify::verify_engine(engine, model, request);
  return report.verdict == plant.verdict &&
         report.explanation.find(plant.kernel) != std::string::npos;
}

}  // namespace

int find_proportional_errors() {
  constexpr int kHalves = 8;
  const std::filesystem::path path = models_folder() / "bge_reranker_ts17" / "model.onnx";
  const auto model = onnx::import_model(path);
  const auto bytes = engine::engine_bytes(compiler::run(path.string(), {}).plan);
  int missed = 0;
  for (std::string_view kernel :
       {"cpu.linear", "cpu.add_layer_norm", "cpu.attention", "cpu.embed_norm"}) {
    const Plant plant{.name = "proportional",
                      .defect = "all results are too large by a factor",
                      .model = "bge_reranker_ts17",
                      .kernel = kernel,
                      .verdict = "bug",
                      .names_step = true,
                      .launch = &multiply_results};
    const backend::Backend& backend = planted_backend(&plant);
    const auto engine = Engine::from_bytes(bytes, backend);
    too_large = 0;
    const bool twin_passes = !is_found(engine, *model, plant);
    double least = 0;
    too_large = kFirst;
    for (int i = 0; i < kHalves && is_found(engine, *model, plant); ++i, too_large /= 2)
      least = too_large;
    missed += least == 0 || !twin_passes;
    fmt::print("{:<20} {}{}\n", kernel,
               least == 0 ? fmt::format("NOT FOUND at {:.0e}", kFirst)
                          : fmt::format("found from {:.1e} on", least),
               twin_passes ? "" : ", and its twin FAILS");
    std::fflush(stdout);
  }
  return missed;
}

}  // namespace vernier::test
