// Peak memory of a model with long attention: no [seq, seq] array anywhere. As the session reports
// it, and as the operating system saw it in a process of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "plan/graphs.h"
#include "runtime/engines.h"

namespace vernier::test {
namespace {

constexpr int64_t kSeq = 8192, kHidden = 128;
constexpr size_t kMiB = size_t{1} << 20, kMost = 64 * kMiB;

// One layer as exporters write it: two heads of 64, an additive mask, a residual and a norm. The
// scores are 268 MB per head.
constexpr std::string_view kLayer =
    R"(graph layer(%x: f32[batch, seq, 128], %mask: i64[batch, seq]) {
  %wq = const f32[128, 128] normal(seed=1, mean=0, std=0.1)
  %wk = const f32[128, 128] normal(seed=2, mean=0, std=0.1)
  %wv = const f32[128, 128] normal(seed=3, mean=0, std=0.1)
  %wo = const f32[128, 128] normal(seed=4, mean=0, std=0.1)
  %scale = const f32[128] normal(seed=5, mean=1, std=0.1)
  %q0 = MatMul(%x, %wq)
  %q1 = Reshape(%q0) {shape=(batch, seq, 2, 64), has_shape=true}
  %q = Transpose(%q1) {perm=[0, 2, 1, 3]}
  %k0 = MatMul(%x, %wk)
  %k1 = Reshape(%k0) {shape=(batch, seq, 2, 64), has_shape=true}
  %k = Transpose(%k1) {perm=[0, 2, 3, 1]}
  %v0 = MatMul(%x, %wv)
  %v1 = Reshape(%v0) {shape=(batch, seq, 2, 64), has_shape=true}
  %v = Transpose(%v1) {perm=[0, 2, 1, 3]}
  %seen = Cast(%mask) {to=f32}
  %unseen = Sub(f32[]{1}, %seen)
  %far = Mul(%unseen, f32[]{-3.4e+38})
  %bias = Unsqueeze(%far) {axes=[1, 2]}
  %s = MatMul(%q, %k)
  %scaled = Mul(%s, f32[]{0.125})
  %masked = Add(%scaled, %bias)
  %p = Softmax(%masked) {axis=-1}
  %c = MatMul(%p, %v)
  %c1 = Transpose(%c) {perm=[0, 2, 1, 3]}
  %c2 = Reshape(%c1) {shape=(batch, seq, 128), has_shape=true}
  %o = MatMul(%c2, %wo)
  %r = Add(%o, %x)
  %y = LayerNorm(%r, %scale) {axis=-1, epsilon=1e-05}
  return %y as "y"
})";

std::shared_ptr<const Engine> compiled_layer() {
  CompileOptions options;
  options.shapes = "batch=1..2,seq=1..8192";
  return Engine::from_bytes(engine::engine_bytes(compiler::plan_of(*graph_of(kLayer), options)));
}

// The first `real` tokens of one sequence of `seq`.
Arrays layer_inputs(int64_t seq, int64_t real) {
  Tensor x = random_f32({1, seq, kHidden}, 1);
  std::vector<int64_t> mask(static_cast<size_t>(seq), 0);
  std::fill_n(mask.begin(), real, 1);
  return {{"x", std::move(x)}, {"mask", i64({1, seq}, std::move(mask))}};
}

size_t bytes_of(const Arrays& arrays) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : arrays) bytes += tensor.bytes();
  return bytes;
}

TEST(Memory, AttentionOver8192TokensStaysWithin64MiB) {
  Session session(compiled_layer(), {.threads = 2});
  const Arrays outputs = run(session, layer_inputs(kSeq, 5));
  // The arena holds activations, workspaces and outputs.
  EXPECT_LT(session.arena_bytes(), kMost + bytes_of(outputs));
  EXPECT_GT(session.arena_bytes(), bytes_of(outputs));
  // What it computed there is right: five real tokens see only one another.
  const Arrays alone = run(session, layer_inputs(5, 5));
  for (int64_t i = 0; i < 5 * kHidden; ++i)
    ASSERT_NEAR(outputs.at("y").float_at(i), alone.at("y").float_at(i), 1e-5) << i;
}

// What the bound above is for: the same graph step by step keeps its scores.
TEST(Memory, WithoutFusionTheScoresAreKept) {
  constexpr int64_t kShorter = 1024;
  const auto arena_of = [&](std::shared_ptr<const Engine> engine) {
    Session session(std::move(engine), {.threads = 1});
    session.prepare(
        std::vector<InputShape>{{"x", {1, kShorter, kHidden}}, {"mask", {1, kShorter}}});
    return session.arena_bytes();
  };
  const size_t scores = 2 * kShorter * kShorter * sizeof(float);
  EXPECT_GT(arena_of(engine_of(kLayer, "batch=1..2,seq=1..8192")), scores);
  EXPECT_LT(arena_of(compiled_layer()), scores);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnMemory = false;
#else
constexpr bool kOwnMemory = true;
#endif

// A line of /proc/self/status in bytes; 0 if it is not there.
size_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// The peak of resident memory over what was there before, of a session made and run.
size_t peak_of_run(const std::shared_ptr<const Engine>& engine, const Arrays& inputs) {
  const size_t before = status_bytes("VmRSS");
  Session session(engine, {.threads = 2});
  session.run(inputs_of(inputs));
  const size_t peak = status_bytes("VmHWM");
  return peak > before ? peak - before : 0;
}

TEST(Memory, TheProcessGrowsByNoMoreEither) {
  if (!kOwnMemory) GTEST_SKIP() << "a sanitizer's own memory is counted with it";
  if (status_bytes("VmHWM") == 0) GTEST_SKIP() << "/proc/self/status has no VmHWM here";
  const auto engine = compiled_layer();
  const Arrays inputs = layer_inputs(kSeq, kSeq);
  // In a child: there the peak starts from what the parent holds now, not from its own peak.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    size_t peak = 0;
    try {
      peak = peak_of_run(engine, inputs);
    } catch (...) {
      _exit(2);
    }
    _exit(write(ends[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
  }
  close(ends[1]);
  size_t peak = 0;
  EXPECT_EQ(read(ends[0], &peak, sizeof peak), static_cast<ssize_t>(sizeof peak));
  close(ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const size_t outputs = kSeq * kHidden * sizeof(float);
  std::printf("peak %.1f MB over the start, outputs %.1f MB, weights %.1f MB\n",
              static_cast<double>(peak) / 1e6, static_cast<double>(outputs) / 1e6,
              static_cast<double>(engine->weight_bytes()) / 1e6);
  EXPECT_LT(peak, kMost + outputs + engine->weight_bytes());
  EXPECT_GT(peak, outputs);
}

}  // namespace
}  // namespace vernier::test
