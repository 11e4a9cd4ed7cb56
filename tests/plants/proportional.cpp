// Proportional errors: see proportional.h.
#include "plants/proportional.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <memory>
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

// What a number may have been before it was rounded to 16 bits: the same one for the same number in
// the same column.
double before_rounding(double rounded, DType type, int64_t column) {
  constexpr int kHalfMantissa = 10, kBFloatMantissa = 7, kLeastHalf = -24;
  if (type == DType::kF32 || rounded == 0) return rounded;
  int exponent = 0;  // numbers below a power of two are half as far apart as those above
  const bool power_of_two = std::fabs(std::frexp(rounded, &exponent)) == 0.5;
  const int last =
      exponent - (power_of_two ? 2 : 1) - (type == DType::kF16 ? kHalfMantissa : kBFloatMantissa);
  uint64_t bits = std::bit_cast<uint64_t>(rounded) + static_cast<uint64_t>(column);
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;  // splitmix64
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  const double share = std::ldexp(static_cast<double>(bits >> 32), -32) - 0.5;
  return rounded + 0.99 * share * std::ldexp(1.0, std::max(last, kLeastHalf));
}

void multiply_results(const backend::KernelDef& right, const backend::LaunchCall& call) {
  right.launch(call);
  const backend::TensorArg& y = call.out[0];
  const auto width = static_cast<int64_t>(size_bytes(y.dtype));
  for (int64_t i = 0; i < y.elems(); ++i) {
    std::byte* element = y.data + i * width;
    const double was = before_rounding(load_float(y.dtype, element), y.dtype, i % y.dim(-1));
    store_float(y.dtype, was * (1 + too_large), element);
  }
}

struct Mode {
  const char* name;
  double first;  // the error that must be found
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
    for (const Mode& mode : kModes) {
      CompileOptions options;
      options.mode = mode.name;
      const auto engine = Engine::from_bytes(
          engine::engine_bytes(compiler::run(path.string(), options).plan), backend);
      double least = 0;
      too_large = 0;
      const bool twin_passes = !is_found(engine, *model, plant);
      too_large = mode.first;
      for (int i = 0; i < kHalves && is_found(engine, *model, plant); ++i, too_large /= 2)
        least = too_large;
      missed += least == 0 || !twin_passes;
      fmt::print("{:<20} {}  {}\n", kernel, mode.name,
                 least == 0 ? fmt::format("NOT FOUND at {:.0e}", mode.first)
                            : fmt::format("found from {:.1e} on{}", least,
                                          twin_passes ? "" : ", and its twin FAILS"));
      std::fflush(stdout);
    }
  }
  return missed;
}

}  // namespace vernier::test
