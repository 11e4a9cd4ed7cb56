// Fuzz target: verify of a small model against a changed engine. It ends with a verdict and its
// explanation, or with Error.
// Input: choices of a seed (seeds.h), of the sweep, then one record for each change.
#include "verify/verify.h"

#include "engine_runs.h"
#include "plan_mutator.h"
#include "seeds.h"
#include "target.h"

namespace vernier::fuzz {
namespace {

constexpr size_t kSweepBytes = 8;
using Input = Records<kSeedBytes + kSweepBytes, kChangeBytes>;

void check(const verify::Report& report) {
  if (name(report.verdict).empty()) broken("verify", "no verdict");
  if (!report.passed() && report.explanation.empty())
    broken("verify", std::string(name(report.verdict)) + " without an explanation");
  if (verify::to_text(report).empty() || verify::to_json(report).empty())
    broken("verify", "an empty report");
}

Outcome execute(std::span<const std::byte> input) {
  Choices choices(input);
  Choices of_seed = choices.part(kSeedBytes), of_sweep = choices.part(kSweepBytes);
  Seed seed = text_seed(of_seed);
  Outcome outcome = Outcome::kRefused;
  holds("verify", [&] {
    while (!choices.empty()) {
      Choices change = choices.part(kChangeBytes);
      // Most changes keep the plan valid: this target needs engines that open.
      const bool gently = !change.one_in(4);
      (gently ? change_plan_gently : change_plan)(seed.plan, change);
    }
    const auto engine = Engine::from_bytes(engine_file(seed.plan));
    if (!fits(*engine, small_sizes(*engine, of_sweep))) return;
    verify::Request request;
    request.batches = {1, 2};
    request.lengths = {2 + static_cast<int64_t>(of_sweep.below(3))};
    request.threads = 2;
    request.seed = 1 + of_sweep.below(100);
    request.localise = of_sweep.one_in(4);
    check(verify::verify_engine(engine, *seed.graph, request));
    outcome = Outcome::kLaunched;
  });
  return outcome;
}

}  // namespace

constinit const Target kVerify{"verify", &Input::make, &Input::mutate, &execute};

}  // namespace vernier::fuzz
