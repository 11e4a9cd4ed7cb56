// Sessions: outputs, shapes seen and forgotten, memory, observers, other machines. Contract:
// include/vernier/session.h.
#include "vernier/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "engine/reader.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "runtime/backends.h"
#include "runtime/certified.h"
#include "runtime/engine_impl.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "vernier/compile.h"
#include "vernier/version.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

// y = |x|·w, shifted; n numbers 0..n-1 come out as sizes.
constexpr std::string_view kSmall =
    R"(graph small(%x: f32[batch, 16], %shift: f32[batch, 1]) {
  %a = Abs(%x)
  %w = const f32[16, 64] normal(seed=5, mean=0, std=1)
  %h = Linear(%a, %w)
  %y = Add(%h, %shift)
  %sizes = ShapeValues() {values=(batch, 2*batch), dtype=i64}
  return %y as "y", %sizes as "sizes", %x as "echo", f32[2]{1, 2} as "constant"
})";

Arrays small_inputs(int64_t batch, uint64_t seed = 1) {
  return {{"x", random_f32({batch, 16}, seed)}, {"shift", random_f32({batch, 1}, seed + 100)}};
}

TEST(Session, GivesEveryKindOfOutput) {
  Session session(engine_of(kSmall), {.threads = 1});
  const Arrays inputs = small_inputs(3);
  const Arrays outputs = run(session, inputs);
  EXPECT_EQ(outputs.at("y").shape(), (Shape{3, 64}));
  EXPECT_EQ(outputs.at("sizes").integers(), (std::vector<int64_t>{3, 6}));
  EXPECT_EQ(difference({{"x", outputs.at("echo")}}, {{"x", inputs.at("x")}}), "");
  EXPECT_EQ(outputs.at("constant").float_at(1), 2);
}

TEST(Session, CopiesIntoTheCallersBuffers) {
  Session session(engine_of(kSmall), {.threads = 1});
  const Arrays inputs = small_inputs(2);
  std::vector<float> y(2 * 64 + 1, -7);
  int64_t sizes[2] = {};
  const OutputBuffer buffers[] = {{"y", y.data(), 2 * 64 * sizeof(float)},
                                  {"sizes", sizes, sizeof sizes}};
  session.run(inputs_of(inputs), buffers);
  const auto outputs = session.run(inputs_of(inputs));
  EXPECT_TRUE(std::equal(y.begin(), y.end() - 1, reinterpret_cast<const float*>(outputs[0].data)));
  EXPECT_EQ(y.back(), -7) << "wrote past the end";
  EXPECT_EQ(sizes[1], 4);
}

TEST(Session, ForgetsTheOldestShapesAndIsRightAboutAll) {
  const auto engine = engine_of(kSmall);
  Session session(engine, {.threads = 1});
  std::vector<Arrays> first;
  constexpr int64_t kShapes = 40;  // more than are remembered
  for (int64_t batch = 1; batch <= kShapes; ++batch)
    first.push_back(run(session, small_inputs(batch)));
  EXPECT_EQ(session.impl().shapes.size(), Session::Impl::kMaxShapes);
  for (int64_t batch = kShapes; batch >= 1; --batch) {
    EXPECT_EQ(difference(run(session, small_inputs(batch)), first[static_cast<size_t>(batch - 1)]),
              "")
        << "batch " << batch;
  }
}

TEST(Session, KeepsTheShapesUsedLast) {
  Session session(engine_of(kSmall), {.threads = 1});
  for (int64_t batch = 1; batch <= 40; ++batch) {
    run(session, small_inputs(batch));
    run(session, small_inputs(1));
  }
  bool kept = false;
  for (const auto& entry : session.impl().shapes) kept = kept || entry->symbols[0] == 1;
  EXPECT_TRUE(kept);
}

TEST(Session, PrepareDoesTheWorkOfANewShape) {
  Session session(engine_of(kSmall), {.threads = 1});
  EXPECT_EQ(session.arena_bytes(), 0u);
  session.prepare(std::vector<InputShape>{{"x", {64, 16}}, {"shift", {64, 1}}});
  const size_t prepared = session.arena_bytes();
  EXPECT_GT(prepared, 64u * 64 * 4);
  run(session, small_inputs(64));
  run(session, small_inputs(2));
  EXPECT_EQ(session.arena_bytes(), prepared);
  EXPECT_EQ(session.impl().shapes.size(), 2u);
}

TEST(Session, GoesOnAfterAnError) {
  Session session(engine_of(kSmall), {.threads = 1});
  const Arrays want = run(session, small_inputs(3));
  error_of([&] { run(session, small_inputs(65)); });
  error_of([&] { run(session, {{"x", random_f32({3, 16}, 1)}}); });
  EXPECT_EQ(difference(run(session, small_inputs(3)), want), "");
}

TEST(Session, GoesOnAfterAnIdOutsideItsTable) {
  Session session(engine_of("graph g(%ids: i64[n]) { %y = Gather(f32[4, 2]{0, 1, 2, 3, 4, 5, 6, "
                            "7}, %ids) {axis=0} return %y as \"y\" }"),
                  {.threads = 2});
  const Arrays good{{"ids", i64({2}, {3, 0})}};
  const Arrays want = run(session, good);
  const std::string error = error_of([&] { run(session, {{"ids", i64({2}, {0, 4})}}); });
  EXPECT_THAT(error, HasSubstr("4"));
  EXPECT_EQ(difference(run(session, good), want), "");
}

TEST(Session, OfAnEngineWithoutStepsWorks) {
  Session session(engine_of("graph g(%x: f32[n]) { return f32[2]{1, 2} as \"c\" }"),
                  {.threads = 1});
  EXPECT_EQ(run(session, {{"x", f32({3}, {1, 2, 3})}}).at("c").float_at(0), 1);
}

TEST(Session, ReadsInputsWithZerosInTheirShapes) {
  Session session(engine_of("graph g(%x: f32[n, 0]) { %y = Abs(%x) return %y as \"y\" }"),
                  {.threads = 1});
  const Arrays inputs{{"x", f32({4, 0}, {})}};
  EXPECT_EQ(run(session, inputs).at("y").shape(), (Shape{4, 0}));
}

TEST(Session, ManyOfOneEngineDoNotDisturbEachOther) {
  const auto engine = engine_of(kSmall);
  Session a(engine, {.threads = 1}), b(engine, {.threads = 2});
  const auto inputs_a = small_inputs(5, 1), inputs_b = small_inputs(5, 2);
  const std::span<const Output> first = a.run(inputs_of(inputs_a));
  const std::vector<std::byte> before(
      static_cast<const std::byte*>(first[0].data),
      static_cast<const std::byte*>(first[0].data) + first[0].bytes);
  const Arrays other = run(b, inputs_b);
  EXPECT_EQ(std::memcmp(first[0].data, before.data(), before.size()), 0);
  EXPECT_EQ(difference(run(a, inputs_b), other), "");
}

// ---- observers ---------------------------------------------------------------------------------

// Fills the arena before a run and counts steps.
class Poison final : public RunObserver {
 public:
  explicit Poison(uint32_t pattern) : pattern_(pattern) {}
  void before_run(std::span<std::byte> arena) override {
    for (size_t i = 0; i + sizeof pattern_ <= arena.size(); i += sizeof pattern_)
      std::memcpy(arena.data() + i, &pattern_, sizeof pattern_);
  }
  void after_step(int32_t step, const backend::LaunchCall& call) override {
    EXPECT_EQ(step, steps++);
    for (const backend::TensorArg& out : call.out) {
      if (out.data) seen.emplace_back(out.data, out.data + bytes(out));
    }
  }
  std::vector<std::vector<std::byte>> seen;
  int32_t steps = 0;

 private:
  static size_t bytes(const backend::TensorArg& t) {
    return static_cast<size_t>(t.elems()) * size_bytes(t.dtype);
  }
  uint32_t pattern_;
};

constexpr uint32_t kSignallingNan = 0x7fa00000, kAllOnes = 0xffffffff, kHuge = 0x7f7fffff;

TEST(Observer, SeesEveryStepAndChangesNoBit) {
  for (const ExampleModel& model : example_models()) {
    const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), options_here()));
    Session plain(engine, {.threads = 2}), watched(engine, {.threads = 2});
    const NamedTensors inputs = model.cases()[0].inputs;
    const Arrays arrays(inputs.begin(), inputs.end());
    const Arrays want = run(plain, arrays);
    Poison zero(0);
    EXPECT_EQ(difference(run(watched, arrays, &zero), want), "") << model.name;
    EXPECT_EQ(static_cast<size_t>(zero.steps), engine->impl().plan.steps.size()) << model.name;
  }
}

// A step that reads memory nobody wrote gives other bits for other poisons.
TEST(Observer, PoisonedMemoryChangesNoBitOfAnyValue) {
  for (const ExampleModel& model : example_models()) {
    const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string(), options_here()));
    Session session(engine, {.threads = 2});
    const NamedTensors inputs = model.cases()[0].inputs;
    const Arrays arrays(inputs.begin(), inputs.end());
    Poison first(kSignallingNan);
    const Arrays want = run(session, arrays, &first);
    for (const uint32_t pattern : {kAllOnes, kHuge}) {
      Poison poison(pattern);
      EXPECT_EQ(difference(run(session, arrays, &poison), want), "") << model.name;
      for (size_t i = 0; i < first.seen.size(); ++i)
        ASSERT_EQ(poison.seen[i] == first.seen[i], true) << model.name << " value " << i;
    }
  }
}

// ---- weights of another machine ----------------------------------------------------------------

plan::Plan plan_of_small() { return cpu_plan(*graph_of(kSmall)); }

TEST(OtherMachine, AnUnknownLayoutIsAnErrorThatNamesStepAndLayout) {
  plan::Plan plan = plan_of_small();
  for (plan::Blob& blob : plan.blobs) {
    if (!blob.layout.empty()) blob.layout = "panels of the future";
  }
  const std::string error = error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); });
  EXPECT_THAT(error, HasSubstr("packed as 'panels of the future'"));
  EXPECT_THAT(error, HasSubstr("build the engine again"));
}

TEST(OtherMachine, AnUnknownKernelIsAnErrorThatNamesStepAndKernel) {
  plan::Plan plan = plan_of_small();
  plan.steps[0].kernel = "cpu.abs.of_tomorrow";
  const std::string error = error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); });
  EXPECT_THAT(error, HasSubstr("uses kernel 'cpu.abs.of_tomorrow'"));
  EXPECT_THAT(error, HasSubstr("build the engine again"));
}

TEST(OtherMachine, AKernelOfAnotherOperatorIsRefused) {
  plan::Plan plan = plan_of_small();
  plan.steps[0].kernel = "cpu.neg.loop";
  EXPECT_THAT(error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); }),
              HasSubstr("cpu.neg.loop"));
}

TEST(OtherMachine, AnUnknownDeviceIsAnErrorThatSaysWhatToDo) {
  plan::Plan plan = plan_of_small();
  plan.device = "abacus";
  EXPECT_THAT(error_of([&] { Engine::from_bytes(engine::engine_bytes(plan)); }),
              HasSubstr("device: got 'abacus', but this program has only cpu"));
}

TEST(Files, AnEngineKnowsItsCertificate) {
  const plan::Plan plan = plan_of_small();
  const auto plain = Engine::from_bytes(engine::engine_bytes(plan));
  EXPECT_EQ(plain->certificate(), nullptr);
  const Certificate certificate{.verdict = "pass",
                                .engine_hash = plain->content_hash(),
                                .model_hash = std::string(32, '1'),
                                .data_hash = std::string(32, '2')};
  const auto stamped = Engine::from_bytes(engine::engine_bytes(plan, {.certificate = certificate}));
  ASSERT_NE(stamped->certificate(), nullptr);
  EXPECT_EQ(*stamped->certificate(), certificate);
  EXPECT_EQ(stamped->content_hash(), plain->content_hash());
}

// The engine of kSmall, with a certificate of this program and machine for batches 2 to 4.
std::vector<std::byte> certified_bytes(const plan::Plan& plan) {
  const auto plain = Engine::from_bytes(engine::engine_bytes(plan));
  return engine::engine_bytes(
      plan,
      {.certificate = Certificate{.verdict = "pass",
                                  .engine_hash = plain->content_hash(),
                                  .model_hash = std::string(32, '1'),
                                  .data_hash = std::string(32, '2'),
                                  .ranges = {{{"batch", {2, 4}}}},
                                  .versions = runtime::environment_of(*plain->impl().backend)}});
}

TEST(Certificates, ASessionRunsOnlyTheSizesThatItsCertificateCovers) {
  Session session(Engine::from_bytes(certified_bytes(plan_of_small())),
                  {.threads = 1, .certificate = CertificateTerms{}});
  for (const int64_t batch : {2, 3, 4}) EXPECT_NO_THROW(run(session, small_inputs(batch))) << batch;
  for (const int64_t batch : {1, 5}) {
    try {
      run(session, small_inputs(batch));
      FAIL() << batch;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCheckFailed);
      EXPECT_THAT(error.what(), HasSubstr("was verified with batch 2..4, and these inputs have "
                                          "batch=" +
                                          std::to_string(batch)));
    }
  }
  EXPECT_NO_THROW(run(session, small_inputs(3))) << "the session stays usable";
}

TEST(Certificates, ASessionWithoutTermsAsksForNone) {
  Session session(Engine::from_bytes(certified_bytes(plan_of_small())), {.threads = 1});
  EXPECT_NO_THROW(run(session, small_inputs(9)));
}

TEST(Certificates, ASessionIsRefusedWithoutOne) {
  EXPECT_THAT(
      error_of(
          [] { Session(engine_of(kSmall), {.threads = 1, .certificate = CertificateTerms{}}); },
          ErrorCode::kCheckFailed),
      HasSubstr("has no certificate"));
}

TEST(Certificates, TheBuildIsNamed) {
  EXPECT_THAT(build_id(), testing::MatchesRegex("[0-9a-f]{32}"));
  const auto versions = runtime::environment_of(runtime::backend_named("cpu", "it"));
  EXPECT_NE(std::ranges::find(versions, Certificate::Version{"build", build_id()}), versions.end());
}

TEST(Files, AViewThatLeavesItsBaseIsRefusedWhenTheShapeIsKnown) {
  plan::Plan plan = cpu_plan(*graph_of(
      "graph g(%x: f32[n, 4]) { %r = Reshape(%x) {shape=(4*n), has_shape=true} %y = Abs(%r) return "
      "%y as \"y\" }"));
  for (plan::PlanValue& v : plan.values) {
    if (v.kind == plan::PlanValue::Kind::kAlias) v.offset_elems = Dim::symbol("n");
  }
  Session session(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 1});
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({2, 4}, 1)}});
              }),
              HasSubstr("reaches outside the value that it is a view of"));
}

}  // namespace
}  // namespace vernier::test
