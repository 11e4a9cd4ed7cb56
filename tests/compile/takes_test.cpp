// Fusions that need a kernel: an engine has them where its backend has one of its own, and the CPU,
// which would run them on the FP64 evaluator, has none.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/cpu.h"
#include "compile/pipeline.h"

namespace vernier::test {
namespace {

const std::string kModel = std::string(VERNIER_TEST_MODELS) + "/bert_ts11/model.onnx";
constexpr OpKind kFused = OpKind::kLinearAddLayerNorm;

class Takes : public ::testing::Test {
 protected:
  Takes() {
    const auto& cpu = backend::cpu_backend().kernels;
    const auto evaluator = std::ranges::find(cpu, kFused, &backend::KernelDef::op);
    kernels_.assign(cpu.begin(), cpu.end());
    kernels_.insert(kernels_.begin(), *evaluator);
    kernels_.front().name = "cpu.linear_add_layer_norm.toy";
    backend_ = backend::cpu_backend();
    backend_.kernels = kernels_;
  }

  static int64_t fused_steps(const CompileOptions& options) {
    const plan::Plan plan = compiler::run(kModel, options).plan;
    return std::ranges::count(plan.steps, kFused, &plan::Step::op);
  }

  std::vector<backend::KernelDef> kernels_;
  backend::Backend backend_;
};

TEST_F(Takes, NothingIsFusedForTheEvaluator) { EXPECT_EQ(fused_steps({}), 0); }

TEST_F(Takes, AKernelOfTheBackendIsUsed) {
  CompileOptions options;
  options.kernels = &backend_;
  EXPECT_GT(fused_steps(options), 0);
  options.passes_off = {"linear_add_layer_norm"};
  EXPECT_EQ(fused_steps(options), 0);
}

TEST_F(Takes, AKernelThatRefusesIsNotUsed) {
  kernels_.front().supports = [](const backend::Problem&) { return no("it is a toy"); };
  CompileOptions options;
  options.kernels = &backend_;
  EXPECT_EQ(fused_steps(options), 0);
}

TEST_F(Takes, AKernelThatFallsShortOfTheRequestIsNotUsed) {
  kernels_.front().numerics = [](const backend::Problem&) {
    return Numerics{.inner = DType::kF16};
  };
  CompileOptions options;
  options.kernels = &backend_;
  EXPECT_EQ(fused_steps(options), 0);
}

}  // namespace
}  // namespace vernier::test
