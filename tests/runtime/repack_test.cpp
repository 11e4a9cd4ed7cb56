// Weights packed for another machine, on a backend of this test: packed again, plain where nothing
// packs, refused where nobody knows them. Contract: runtime/repack.h.
#include "runtime/repack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/attrs.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "runtime/backends.h"
#include "runtime/engines.h"

namespace vernier::test {
namespace {

using backend::KernelDef;
using backend::Problem;
using testing::HasSubstr;

// Layouts are "old" (the bytes reversed) and "new" (the bytes as they are).
std::vector<backend::PackedConstant> pack_new(const Problem& problem) {
  const auto bytes = problem.inputs[1].constant->byte_span();
  return {{.input = 1, .layout = "new", .bytes = {bytes.begin(), bytes.end()}}};
}
Tensor unpack_old(const Problem& problem, const backend::ConstantArg& packed) {
  if (packed.layout != "old") throw Error(ErrorCode::kInternal, "unknown layout");
  const std::vector<std::byte> bytes(packed.bytes.rbegin(), packed.bytes.rend());
  const SymShape& shape = problem.inputs[1].shape;
  return Tensor::from_bytes(DType::kF32, {shape[0].constant(), shape[1].constant()}, bytes);
}
std::vector<backend::PackedLayout> new_layouts(const Problem& problem) {
  const SymShape& shape = problem.inputs[1].shape;
  const int64_t elems = shape[0].constant() * shape[1].constant();
  return {{.input = 1, .layout = "new", .bytes = static_cast<size_t>(elems) * sizeof(float)}};
}
Support always(const Problem&) { return yes(); }
Support never(const Problem&) { return no("needs a machine of the past"); }
Numerics f32_numerics(const Problem&) { return {}; }
Numerics half_numerics(const Problem&) { return {.compute = DType::kF16}; }

KernelDef row(std::string_view name) {
  return {{.supports = &always,
           .numerics = &f32_numerics,
           .pack = &pack_new,
           .unpack = &unpack_old,
           .packed_layouts = &new_layouts},
          name,
          OpKind::kLinear};
}

class Repack : public ::testing::Test {
 protected:
  Repack() {
    plan_ = cpu_plan(*graph_of(linear_text(16, 64, 3)));
    for (plan::Step& step : plan_.steps) {
      if (step.op == OpKind::kLinear) step_ = &step;
    }
    step_->kernel = "test.linear.own";
    step_->numerics = {};
    plan::Blob& blob = plan_.blobs[static_cast<size_t>(step_->packed.at(0).blob)];
    const std::vector<double> numbers = [] {
      std::vector<double> list(16 * 64);
      for (size_t i = 0; i < list.size(); ++i) list[i] = static_cast<double>(i);
      return list;
    }();
    plain_ = Tensor::from(DType::kF32, {16, 64}, std::span<const double>(numbers));
    const auto bytes = plain_.byte_span();
    const std::vector<std::byte> reversed(bytes.rbegin(), bytes.rend());
    blob.layout = "old";
    blob.bytes = Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(reversed.size())}, reversed);
    plan_.target = "a machine of the past";
  }

  runtime::Placed place(std::vector<KernelDef> rows) {
    rows_ = std::move(rows);
    const backend::Backend backend{
        .name = "test", .kernels = rows_, .make_device = nullptr, .target = nullptr};
    return runtime::place_step(backend, plan_, *step_);
  }

  std::vector<KernelDef> rows_;
  plan::Plan plan_;
  plan::Step* step_ = nullptr;
  Tensor plain_;
};

TEST_F(Repack, TheOldLayoutIsPackedAgain) {
  const runtime::Placed placed = place({row("test.linear.own")});
  EXPECT_EQ(placed.kernel->name, "test.linear.own");
  ASSERT_TRUE(placed.repacked);
  ASSERT_EQ(placed.repacked->packed.size(), 1u);
  EXPECT_EQ(placed.repacked->packed[0].layout, "new");
  EXPECT_TRUE(std::ranges::equal(placed.repacked->packed[0].bytes, plain_.byte_span()));
  EXPECT_TRUE(placed.repacked->plain.empty());
}

TEST_F(Repack, ALayoutOfThisMachineStays) {
  plan_.blobs[static_cast<size_t>(step_->packed[0].blob)].layout = "new";
  const runtime::Placed placed = place({row("test.linear.own")});
  EXPECT_EQ(placed.kernel->name, "test.linear.own");
  EXPECT_FALSE(placed.repacked);
}

TEST_F(Repack, AnotherKernelTakesTheWeightPlain) {
  KernelDef own = row("test.linear.own"), other = row("test.linear.plain");
  own.supports = &never;
  other.pack = nullptr;
  const runtime::Placed placed = place({own, other});
  EXPECT_EQ(placed.kernel->name, "test.linear.plain");
  ASSERT_TRUE(placed.repacked);
  EXPECT_TRUE(placed.repacked->packed.empty());
  ASSERT_EQ(placed.repacked->plain.size(), 1u);
  EXPECT_EQ(placed.repacked->plain[0].first, 1);
  EXPECT_TRUE(std::ranges::equal(placed.repacked->plain[0].second.byte_span(), plain_.byte_span()));
}

TEST_F(Repack, NoKernelOfLessPrecisionTakesItsPlace) {
  KernelDef own = row("test.linear.own"), other = row("test.linear.half");
  own.supports = &never;
  other.numerics = &half_numerics;
  EXPECT_THAT(error_of([&] {
                place({own, other});
              }),
              HasSubstr("the engine was built for another machine (a machine of the past) and "
                        "step '" +
                        step_->name +
                        "' cannot run here: test.linear.own needs a machine of the past; build it "
                        "again on this machine"));
}

TEST_F(Repack, ALayoutThatNobodyKnowsIsRefused) {
  plan_.blobs[static_cast<size_t>(step_->packed[0].blob)].layout = "ancient";
  EXPECT_THAT(error_of([&] { place({row("test.linear.own")}); }),
              HasSubstr("holds a weight packed as 'ancient', which kernel test.linear.own does not "
                        "know here; build the engine again"));
}

TEST_F(Repack, WhatIsUnpackedIsWhatTheStepWasProvenWith) {
  KernelDef turned = row("test.linear.own"), other = row("test.linear.own");
  turned.unpack = [](const Problem& problem, const backend::ConstantArg& packed) {
    return unpack_old(problem, packed).reshaped({64, 16});
  };
  other.unpack = [](const Problem&, const backend::ConstantArg&) {
    return Tensor::filled(DType::kF16, {16, 64},
                          [](std::byte* bytes) { std::fill_n(bytes, 16 * 64 * 2, std::byte{}); });
  };
  for (const KernelDef& wrong : {turned, other}) {
    EXPECT_THAT(error_of([&] { place({wrong}); }),
                HasSubstr("(input 1, f32[16, 64]) holds a weight packed as 'old', which kernel "
                          "test.linear.own does not know here"));
  }
}

TEST_F(Repack, AnInputThatNoKernelPacksIsRefused) {
  step_->inputs.at(0) = plan::kNone;
  step_->packed.push_back({0, step_->packed.at(0).blob});
  EXPECT_THAT(error_of([&] { place({row("test.linear.own")}); }),
              HasSubstr("(input 0, f32[16, 64]) holds a weight packed as 'old'"));
}

// 16-bit numbers where f32 is unpacked, text that is no layout: errors of the input.
TEST(WidenedLayouts, OfOtherTypesAreRefused) {
  const backend::KernelDef* kernel =
      backend::find_kernel(runtime::backend_named("cpu", "the test"), "cpu.linear.highway_widened");
  ASSERT_NE(kernel, nullptr);
  const Problem problem{
      .op = OpKind::kLinear,
      .attrs = encode(LinearAttrs{}),
      .inputs = {{.present = true, .dtype = DType::kF16, .shape = {8, 32}},
                 {.present = true, .dtype = DType::kF32, .shape = {32, 48}, .packed = true}},
      .outputs = {{.present = true, .dtype = DType::kF16, .shape = {8, 48}}}};
  const std::vector<std::byte> bytes(32 * 64 * 2);
  for (const std::string_view layout :
       {"f32 as panels64 f16 K=32 N=48", "i64 as panels64 f16 K=32 N=48", "panels64 f16 K=32 N=48",
        "x as panels64 f16 K=32 N=48"}) {
    EXPECT_THAT(error_of([&] {
                  kernel->unpack(problem, {1, layout, bytes});
                }),
                HasSubstr("weight has layout \"" + std::string(layout)));
  }
}

// ---- whole engines of another machine

TEST(OtherTarget, RunsWithOneLogLineAndTheSameAnswers) {
  plan::Plan plan = cpu_plan(*graph_of(linear_text(16, 64, 3)));
  const Arrays inputs{{plan.input_names.at(0), random_f32({3, 16}, 7)}};
  Session here(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 1});
  plan.target = "another ISA, oneDNN 1.0";
  testing::internal::CaptureStderr();
  const auto engine = Engine::from_bytes(engine::engine_bytes(plan));
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("vernier: warn: the engine was built for 'another ISA, oneDNN 1.0' "
                             "and runs on '"));
  EXPECT_THAT(log, HasSubstr("its packed weights fit as they are"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1);
  Session there(engine, {.threads = 1});
  EXPECT_EQ(difference(run(there, inputs), run(here, inputs)), "");
}

TEST(OtherTarget, OfThisMachineIsNotWorthALine) {
  const plan::Plan plan = cpu_plan(*graph_of(linear_text(16, 64, 3)));
  testing::internal::CaptureStderr();
  Engine::from_bytes(engine::engine_bytes(plan));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace vernier::test
