// Fuzz target: the plan of a valid engine, changed field by field, written with correct checksums,
// opened, inspected and run. Every change gives outputs, the same in two runs, or Error.
// Input: choices of a seed (seeds.h), of the run, then one record for each change.
#include "engine_runs.h"
#include "plan_mutator.h"
#include "seeds.h"
#include "target.h"

namespace vernier::fuzz {
namespace {

constexpr size_t kRunBytes = 8;
using Input = Records<kSeedBytes + kRunBytes, kChangeBytes>;

Outcome execute(std::span<const std::byte> input) {
  Choices choices(input);
  Choices of_seed = choices.part(kSeedBytes), of_run = choices.part(kRunBytes);
  plan::Plan plan = any_seed(of_seed).plan;
  std::shared_ptr<const Engine> engine;
  holds("open", [&] {
    while (!choices.empty()) change_plan(plan, choices.part(kChangeBytes));
    engine = Engine::from_bytes(engine_file(plan));
  });
  if (!engine) return Outcome::kRefused;
  inspect(*engine);
  return run_small(engine, of_run);
}

}  // namespace

constinit const Target kRun{"run", &Input::make, &Input::mutate, &execute};

}  // namespace vernier::fuzz
