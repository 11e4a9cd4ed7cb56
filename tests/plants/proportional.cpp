// Proportional errors: see proportional.h.
#include "plants/proportional.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "plants/plants.h"
#include "runtime/models.h"
#include "verify/verify.h"

namespace vernier::test {
namespace {

double too_large = 0;  // of the kernel that is verified now: kernels have plain functions

// Of dense results, before they are rounded to their type: the kernel writes f32 elsewhere.
void multiply_results(const backend::KernelDef& right, const backend::LaunchCall& call) {
  std::vector<backend::TensorArg> out(call.out.begin(), call.out.end());
  std::vector<float> results(static_cast<size_t>(out[0].elems()));
  out[0].data = reinterpret_cast<std::byte*>(results.data());
  out[0].dtype = DType::kF32;
  backend::LaunchCall other = call;
  other.out = out;
  right.launch(other);
  const backend::TensorArg& y = call.out[0];
  const auto width = static_cast<int64_t>(size_bytes(y.dtype));
  for (int64_t i = 0; i < y.elems(); ++i)
    store_float(y.dtype, results[static_cast<size_t>(i)] * (1 + too_large), y.data + i * width);
}

// The error that must be found.
struct Mode {
  std::string_view name;
  double error;
};
constexpr Mode kModes[] = {{"fp32", 1e-5}, {"fp16", 2e-4}, {"bf16", 2e-3}};

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
  int missed = 0;
  for (const auto& [mode, first] : kModes) {
    CompileOptions options;
    options.mode = mode;
    const auto bytes = engine::engine_bytes(compiler::run(path.string(), options).plan);
    for (std::string_view kernel :
         {"cpu.linear", "cpu.add_layer_norm", "cpu.attention", "cpu.embed_norm"}) {
      const Plant plant{.name = "proportional",
                        .defect = "all results are too large by a factor",
                        .model = "bge_reranker_ts17",
                        .kernel = kernel,
                        .verdict = "bug",
                        .names_step = true,
                        .launch = &multiply_results};
      const auto engine = Engine::from_bytes(bytes, planted_backend(&plant));
      too_large = 0;
      const bool twin_passes = !is_found(engine, *model, plant);
      double least = 0;
      too_large = first;
      for (int i = 0; i < kHalves && is_found(engine, *model, plant); ++i, too_large /= 2)
        least = too_large;
      missed += least == 0 || !twin_passes;
      fmt::print("{:<5} {:<20} {}{}\n", mode, kernel,
                 least == 0 ? fmt::format("NOT FOUND at {:.0e}", first)
                            : fmt::format("found from {:.1e} on", least),
                 twin_passes ? "" : ", and its twin FAILS");
      std::fflush(stdout);
    }
  }
  return missed;
}

}  // namespace vernier::test
