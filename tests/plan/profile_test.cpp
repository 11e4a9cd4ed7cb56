// Ranges of sizes: what --shapes may say, what it may not, and the defaults. Contract:
// plan/profile.h.
#include "plan/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/graphs.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

// A position table of 512 rows stops seq; `pad` was unified with seq.
constexpr std::string_view kEncoder =
    R"(graph g(%ids: i64[batch, seq], %mask: i64[batch, seq], %x: f32[batch, 3, 2*seq]) {
  %y = Add(%ids, %mask)
  guard min(512, seq) == seq "Slice_1"
  symbol pad = seq
  return %y as "y"
})";

std::string profile(const std::string& shapes, std::string_view text = kEncoder) {
  std::vector<std::string> notes;
  std::string result;
  for (const plan::Symbol& s : plan::make_profile(*graph_of(text), shapes, notes)) {
    result += (result.empty() ? "" : " ") + s.name + "=" + std::to_string(s.min) + ".." +
              std::to_string(s.opt) + ".." + std::to_string(s.max);
  }
  return result;
}

struct Form {
  const char *name, *shapes, *result;
};
class Forms : public ::testing::TestWithParam<Form> {};
TEST_P(Forms, AreRead) { EXPECT_EQ(profile(GetParam().shapes), GetParam().result); }
INSTANTIATE_TEST_SUITE_P(
    Table, Forms,
    ::testing::Values(
        Form{"Default", "", "batch=1..1..64 seq=1..128..512"},
        Form{"BySymbol", "batch=1..32,seq=4..256", "batch=1..32..32 seq=4..256..256"},
        Form{"OneSymbolOnly", "batch=2..8", "batch=2..8..8 seq=1..128..512"},
        Form{"ByInput", "ids=1..32x4..512", "batch=1..32..32 seq=4..512..512"},
        Form{"ByEveryInput", "ids=1..32x4..64,mask=1..32x4..64", "batch=1..32..32 seq=4..64..64"},
        Form{"WithAnOptimum", "batch=1..8..32,seq=16..64..128", "batch=1..8..32 seq=16..64..128"},
        Form{"Fixed", "ids=4x128", "batch=4..4..4 seq=128..128..128"},
        Form{"ByDimension", "ids:1=1..100", "batch=1..1..64 seq=1..100..100"},
        Form{"ByAnEqualSize", "pad=8..16", "batch=1..1..64 seq=8..16..16"},
        Form{"AFixedSizeMayBeRepeated", "x:1=3", "batch=1..1..64 seq=1..128..512"}),
    [](const auto& one) { return std::string(one.param.name); });

struct Mistake {
  const char *name, *shapes;
  std::vector<std::string> says;
};
class Mistakes : public ::testing::TestWithParam<Mistake> {};
TEST_P(Mistakes, NameThePartAndWhatWasExpected) {
  const std::string error = error_of([&] { profile(GetParam().shapes); });
  for (const std::string& part : GetParam().says) EXPECT_THAT(error, HasSubstr(part));
}
INSTANTIATE_TEST_SUITE_P(
    Table, Mistakes,
    ::testing::Values(
        Mistake{"UnknownName",
                "batches=1..4",
                {"'batches=1..4'", "neither an input nor a named size", "ids[batch, seq]"}},
        Mistake{"NoRange", "batch", {"'batch'", "expected NAME=RANGE"}},
        Mistake{"NoNumber", "batch=1..x", {"'batch=1..x'", "got 'x'"}},
        Mistake{"Empty", "batch=", {"got ''"}},
        Mistake{"Zero", "batch=0..4", {"got '0'", "sizes from 1 to 2147483647"}},
        Mistake{"TooLarge", "batch=1..2147483648", {"got '2147483648'", "to 2147483647"}},
        Mistake{"Falling", "batch=8..2", {"MIN <= OPT <= MAX"}},
        Mistake{"FourParts", "batch=1..2..3..4", {"MIN..OPT..MAX"}},
        Mistake{"WrongRank", "ids=1..4", {"got 1 sizes", "input 'ids' has 2: [batch, seq]"}},
        Mistake{"FixedInTheModel", "x:1=4", {"dimension 1 is fixed at 3"}},
        Mistake{"AnExpression", "x:2=4..8", {"dimension 2 is 2*seq"}},
        Mistake{"NoSuchDimension", "ids:2=4", {"dimensions 0..1", "':2'"}},
        Mistake{"NoSuchInput", "idx:0=4", {"'idx' is not an input"}},
        Mistake{"Disagreement", "ids=1..4x1..8,mask=1..4x1..9", {"'seq' was given as 1..8 before"}},
        Mistake{"BeyondTheTable", "seq=1..513", {"at most 512 in this model"}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(Defaults, AreSaidInANote) {
  std::vector<std::string> notes;
  plan::make_profile(*graph_of(kEncoder), "seq=1..16", notes);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("size 'batch' defaults to 1..64"));
}

TEST(Defaults, StopAtTheModelsOwnTables) {
  EXPECT_EQ(profile("",
                    "graph g(%ids: i64[n, seq]) { %y = Abs(%ids) guard min(77, seq) == seq "
                    "\"positions\" return %y as \"y\" }"),
            "n=1..1..64 seq=1..77..77");
}

TEST(Defaults, WithoutVariableSizesThereIsNothingToSay) {
  EXPECT_EQ(profile("", "graph g(%x: f32[2, 3]) { %y = Abs(%x) return %y as \"y\" }"), "");
}

}  // namespace
}  // namespace vernier::test
