// The arena: values alive at the same step never share memory, and memory is used again.
// Contract: runtime/arena.h.
#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/engines.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

using runtime::Interval;

constexpr size_t kAlignment = 64;

std::vector<Interval> random_intervals(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Interval> intervals(1 + random() % 60);
  for (Interval& i : intervals) {
    i.bytes = random() % 5 == 0 ? 0 : random() % 5000;
    i.first = static_cast<int32_t>(random() % 40);
    i.last = i.first + static_cast<int32_t>(random() % 8);
  }
  return intervals;
}

bool overlap(const Interval& a, const Interval& b) {
  const bool same_time = a.first <= b.last && b.first <= a.last;
  const bool same_place = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return a.bytes > 0 && b.bytes > 0 && same_time && same_place;
}

// The most bytes that are alive at one step.
size_t most_alive(const std::vector<Interval>& intervals) {
  size_t most = 0;
  for (const Interval& at : intervals) {
    size_t alive = 0;
    for (const Interval& i : intervals) {
      if (i.first <= at.first && at.first <= i.last)
        alive += (i.bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    most = std::max(most, alive);
  }
  return most;
}

TEST(Place, NeverPutsTwoLiveValuesOnOneByte) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::vector<Interval> intervals = random_intervals(seed);
    const size_t total = runtime::place(intervals, kAlignment);
    EXPECT_GE(total, most_alive(intervals)) << "seed " << seed;
    for (size_t a = 0; a < intervals.size(); ++a) {
      EXPECT_EQ(intervals[a].offset % kAlignment, 0u) << "seed " << seed;
      EXPECT_LE(intervals[a].offset + intervals[a].bytes, total) << "seed " << seed;
      for (size_t b = 0; b < a; ++b) {
        ASSERT_FALSE(overlap(intervals[a], intervals[b]))
            << "seed " << seed << ": intervals " << a << " and " << b;
      }
    }
  }
}

TEST(Place, IsTheSameEachTime) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<Interval> a = random_intervals(seed), b = random_intervals(seed);
    EXPECT_EQ(runtime::place(a, kAlignment), runtime::place(b, kAlignment));
    for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].offset, b[i].offset);
  }
}

TEST(Place, UsesMemoryAgain) {
  std::vector<Interval> chain;
  for (int32_t i = 0; i < 50; ++i) chain.push_back({1000, i, i + 1, 0});
  EXPECT_EQ(runtime::place(chain, kAlignment), 2u * 1024);
}

// The definition, word by word: largest first, each at the lowest place that is free.
size_t place_one_by_one(std::vector<Interval>& intervals) {
  std::vector<Interval*> by_size;
  for (Interval& interval : intervals) by_size.push_back(&interval);
  std::ranges::stable_sort(by_size, std::greater<>{}, &Interval::bytes);
  std::vector<Interval*> placed;
  size_t total = 0;
  for (Interval* current : by_size) {
    const auto taken = [&](size_t offset) -> const Interval* {
      current->offset = offset;
      for (const Interval* other : placed) {
        if (overlap(*current, *other)) return other;
      }
      return nullptr;
    };
    size_t offset = 0;
    while (const Interval* other = taken(offset))
      offset = std::max(offset + kAlignment,
                        runtime::round_up(other->offset + other->bytes, kAlignment));
    placed.push_back(current);
    if (current->bytes > 0)
      total = std::max(total, offset + runtime::round_up(current->bytes, kAlignment));
  }
  return total;
}

TEST(Place, PutsEachAtTheLowestFreePlace) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::vector<Interval> quick = random_intervals(seed), slow = quick;
    ASSERT_EQ(runtime::place(quick, kAlignment), place_one_by_one(slow)) << "seed " << seed;
    for (size_t i = 0; i < quick.size(); ++i)
      ASSERT_EQ(quick[i].offset, slow[i].offset) << "seed " << seed << ", interval " << i;
  }
}

TEST(Place, TakesManyValuesAtOnce) {
  constexpr int32_t kSteps = 100'000;
  std::vector<Interval> chain, kept;
  for (int32_t i = 0; i < kSteps; ++i) {
    chain.push_back({1000, i, i + 1, 0});
    kept.push_back({1000, i, kSteps, 0});
  }
  EXPECT_EQ(runtime::place(chain, kAlignment), 2u * 1024);
  EXPECT_EQ(runtime::place(kept, kAlignment), size_t{kSteps} * 1024);
}

TEST(Place, HasNothingToDoWithoutValues) {
  std::vector<Interval> none;
  EXPECT_EQ(runtime::place(none, kAlignment), 0u);
}

TEST(Place, RefusesWhatNoAddressCanTell) {
  const size_t huge = size_t{1} << 61;
  std::vector<Interval> one = {{huge, 0, 1, 0}};
  EXPECT_EQ(runtime::place(one, kAlignment), huge);
  std::vector<Interval> many(8, {huge, 0, 1, 0});  // 2^64 bytes: nothing, if it wrapped
  EXPECT_THROW(runtime::place(many, kAlignment), Error);
  std::vector<Interval> most = {{SIZE_MAX, 0, 1, 0}};
  EXPECT_THROW(runtime::place(most, kAlignment), Error);
  EXPECT_THROW(runtime::product_of_bytes(huge, 8), Error);
  EXPECT_EQ(runtime::product_of_bytes(huge, 2), runtime::kMostBytes);
}

// Issue "The spine": peak memory of a run <= weights + 1.2 x live activations + 64 MiB.
TEST(Arena, OfEveryExampleModelIsCloseToWhatIsAlive) {
  for (const ExampleModel& model : example_models()) {
    const auto engine = Engine::from_bytes(compile_to_bytes(model.path.string()));
    Session session(engine, {.threads = 2});
    session.run(refs(model.cases()[0].inputs));
    const plan::Plan& plan = engine->impl().plan;
    const Session::Impl::ShapeEntry& entry = *session.impl().shapes.back();
    std::vector<Interval> intervals;
    for (size_t s = 0; s < entry.steps.size(); ++s) {
      const auto step = static_cast<int32_t>(s);
      for (size_t o = 0; o < entry.steps[s].out.size(); ++o) {
        const bool is_kept = entry.steps[s].out_sources[o].base == runtime::Source::kKept;
        if (plan.steps[s].outputs[o] == plan::kNone || is_kept) continue;
        const plan::PlanValue& v = plan.values[static_cast<size_t>(plan.steps[s].outputs[o])];
        intervals.push_back(
            {static_cast<size_t>(entry.steps[s].out[o].elems()) * size_bytes(v.dtype), v.first_step,
             v.last_step, entry.steps[s].out_sources[o].offset});
      }
      if (const auto& state = entry.steps[s].shape_state; state && state->workspace_bytes > 0)
        intervals.push_back({state->workspace_bytes, step, step, entry.steps[s].workspace_offset});
    }
    for (size_t a = 0; a < intervals.size(); ++a) {
      for (size_t b = 0; b < a; ++b)
        ASSERT_FALSE(overlap(intervals[a], intervals[b])) << model.name << " " << a << " " << b;
    }
    const size_t alive = most_alive(intervals);
    EXPECT_LE(static_cast<double>(entry.arena_bytes), 1.2 * static_cast<double>(alive))
        << model.name;
    std::printf("%-30s arena %zu bytes, at most %zu alive\n", model.name.c_str(), entry.arena_bytes,
                alive);
  }
}

}  // namespace
}  // namespace vernier::test
