// The harness finds what it is there to find: planted faults of a kernel row.
#include "backend/harness.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"

namespace vernier::backend::test {
namespace {

// y = max(x, 0), with a fault.
using Launch = void (*)(const LaunchCall&);
void relu(const LaunchCall& call) {
  const int64_t cols = call.in[0].dim(-1), rows = call.in[0].elems() / cols;
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float x = call.in[0].as<const float>()[i / cols * call.in[0].stride(0) + i % cols];
    call.out[0].as<float>()[i] = x < 0 ? 0 : x;
  }
}
KernelDef row(Launch launch, size_t workspace_bytes = 0) {
  KernelDef kernel = *find_kernel(cpu_backend(), "cpu.relu.loop");
  kernel.name = "planted";
  kernel.strided_inputs = 1;
  kernel.create = nullptr;
  kernel.prepare = nullptr;
  if (workspace_bytes > 0) {
    kernel.prepare = [](const PrepareCall&) {
      auto state = std::make_unique<ShapeState>();
      state->workspace_bytes = 16;
      return state;
    };
  }
  kernel.launch = launch;
  return kernel;
}
OpCase relu_case() {
  Maker make(1);
  OpCase c{.name = "relu", .op = OpKind::kRelu};
  c.inputs = {{.value = make.normal({3, 5}), .batch_axis = 0}};
  c.outputs = {{.shape = {3, 5}}};
  return c;
}
std::string difference(Launch launch, const RunOptions& options = {}) {
  const OpCase c = relu_case();
  return compare(c, run_kernel(row(launch, 16), c, options), run_reference(c));
}

TEST(Harness, ARightRowPasses) {
  EXPECT_EQ(difference(&relu), "");
  EXPECT_EQ(difference(&relu, {.strided = true}), "");
  EXPECT_EQ(difference(&relu, {.way = Way::kTwice}), "");
}

TEST(Harness, FindsWritesOutsideTheirArrays) {
  EXPECT_NONFATAL_FAILURE(difference([](const LaunchCall& call) {
                            relu(call);
                            call.out[0].as<float>()[15] = 0;
                          }),
                          "wrote outside output 0");
  EXPECT_NONFATAL_FAILURE(difference([](const LaunchCall& call) {
                            relu(call);
                            call.out[0].as<float>()[-1] = 0;
                          }),
                          "wrote outside output 0");
  EXPECT_NONFATAL_FAILURE(difference([](const LaunchCall& call) {
                            relu(call);
                            call.in[0].as<float>()[7] += 1;
                          }),
                          "wrote to input 0");
  EXPECT_NONFATAL_FAILURE(difference([](const LaunchCall& call) {
                            relu(call);
                            call.workspace[16] = std::byte{0};
                          }),
                          "wrote outside its workspace");
}

TEST(Harness, FindsElementsNotWrittenAndMemoryNotWrittenBefore) {
  EXPECT_NE(difference([](const LaunchCall& call) {
              const float before = call.out[0].as<float>()[14];
              relu(call);
              call.out[0].as<float>()[14] = before;
            }),
            "");
  EXPECT_NE(difference([](const LaunchCall& call) {
              relu(call);
              call.out[0].as<float>()[0] += 0 * reinterpret_cast<const float*>(call.workspace)[3];
            }),
            "");
}

TEST(Harness, FindsRowsThatIgnoreStrides) {
  EXPECT_NE(difference(
                [](const LaunchCall& call) {
                  for (int64_t i = 0; i < 15; ++i) {
                    const float x = call.in[0].as<const float>()[i];
                    call.out[0].as<float>()[i] = x < 0 ? 0 : x;
                  }
                },
                {.strided = true}),
            "");
}

TEST(Harness, FindsWrongValuesAndLostNaN) {
  EXPECT_NE(difference([](const LaunchCall& call) {
              relu(call);
              call.out[0].as<float>()[3] += 1e-4f;
            }),
            "");
  OpCase c = relu_case();
  const std::vector<double> values(15, NAN);
  c.inputs[0].value = Tensor::from(DType::kF32, {3, 5}, std::span<const double>(values));
  const auto zero = [](const LaunchCall& call) {
    for (int64_t i = 0; i < 15; ++i) call.out[0].as<float>()[i] = 0;
  };
  EXPECT_NE(compare(c, run_kernel(row(zero), c, {}), run_reference(c)), "");
}

// A row that declares tf32 operands must answer with them; one that declares f32 must not.
TEST(Harness, HoldsARowToTheRoundingsItDeclares) {
  Maker make(2);
  OpCase c{.name = "product", .op = OpKind::kMatMul};
  c.inputs = {{.value = make.normal({3, 64})}, {.value = make.normal({64, 5})}};
  c.outputs = {{.shape = {3, 5}, .batch_axis = -1}};
  KernelDef exact = *rows_of(c).at(0), coarse = exact;
  coarse.numerics = [](const Problem& problem) {
    Numerics numerics = find_kernel(cpu_backend(), "cpu.mat_mul.packed")->numerics(problem);
    numerics.compute = numerics.points[0].type = numerics.points[1].type = DType::kTF32;
    return numerics;
  };
  const Results got = run_kernel(exact, c, {});
  EXPECT_EQ(compare(c, got, expected_of(exact, c)), "");
  EXPECT_NE(compare(c, got, expected_of(coarse, c)), "");
}

}  // namespace
}  // namespace vernier::backend::test
