// How far positions reach into their table, in every form that exporters write; what only looks
// like positions bounds nothing. Contract: plan/table_bounds.h.
#include "plan/table_bounds.h"

#include <gtest/gtest.h>

#include "plan/graphs.h"
#include "plan/profile.h"

namespace vernier::test {
namespace {

// A table of 66 rows, read at `%positions`, which `body` makes of ids [batch, seq] and `mask`.
std::string positions_text(const std::string& body) {
  return "graph g(%ids: i64[batch, seq], %mask: i64[batch, seq]) {\n" + body +
         "\n  %table = const f32[66, 4] normal(seed=1, mean=0, std=1)"
         "\n  %rows = Gather(%table, %positions)\n  return %rows as \"rows\"\n}";
}

constexpr const char* kCountedOverIds =
    "  %pad = Equal(%ids, i64{1})\n  %real = Not(%pad)\n  %ones = Cast(%real) {to=i32}\n"
    "  %count = CumSum(%ones, i32{1})\n  %masked = Mul(%count, %ones)\n"
    "  %wide = Cast(%masked) {to=i64}\n  %positions = Add(%wide, i64{1})";

struct Form {
  const char* name;
  std::string body;
  std::string bounds;  ///< "last<rows", with "?" where padding decides
  std::string profile;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

class Positions : public ::testing::TestWithParam<Form> {};

TEST_P(Positions, BoundTheLength) {
  const std::shared_ptr<ir::Graph> graph = graph_of(positions_text(GetParam().body));
  const std::vector<plan::TableBound> bounds = plan::table_bounds(*graph);
  std::string text;
  for (const plan::TableBound& b : bounds) {
    text +=
        (text.empty() ? "" : " ") + b.last.str() + (b.always ? "<" : "?<") + std::to_string(b.rows);
  }
  EXPECT_EQ(text, GetParam().bounds);
  std::vector<std::string> notes;
  std::string profile;
  for (const plan::Symbol& s : plan::make_profile(*graph, "batch=1..2", notes, bounds))
    profile += s.name == "seq" ? std::to_string(s.max) : "";
  EXPECT_EQ(profile, GetParam().profile);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Positions,
    ::testing::Values(
        Form{"Range",
             "  %n = ShapeValues() {values=(seq), scalar=true}\n"
             "  %positions = Range(i64{0}, %n, i64{1})",
             "seq - 1<66", "66"},
        Form{"RangeFromTwo",
             "  %n = ShapeValues() {values=(seq), scalar=true}\n"
             "  %r = Range(i64{0}, %n, i64{1})\n  %positions = Add(%r, i64{2})",
             "seq + 1<66", "64"},
        Form{"CountOfTokensThatAreNotPadding", kCountedOverIds, "seq + 1?<66", "64"},
        Form{"CountOfTheMaskLessOne",
             "  %count = CumSum(%mask, i64{1})\n  %before = Sub(%count, i64{1})\n"
             "  %hidden = Equal(%mask, i64{0})\n  %positions = Where(%hidden, i64{1}, %before)",
             "max(1, seq - 1)?<66", "66"},
        Form{"Ids", "  %positions = Identity(%ids)", "", "512"},
        Form{"BucketsOfDistances",
             "  %far = Greater(%ids, i64{15})\n  %cut = Min(%ids, i64{31})\n"
             "  %positions = Where(%far, %cut, %ids)",
             "", "512"}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(TableBounds, TwoFreeSizesShareATable) {
  const auto graph = graph_of(
      R"(graph g(%cache: f32[1, past], %x: f32[1, seq]) {
  %n = ShapeValues() {values=(seq), scalar=true}
  %from = ShapeValues() {values=(past), scalar=true}
  %r = Range(i64{0}, %n, i64{1})
  %positions = Add(%r, %from)
  %table = const f32[66, 4] normal(seed=1, mean=0, std=1)
  %rows = Gather(%table, %positions)
  %a = Abs(%cache)
  %b = Abs(%x)
  return %rows as "rows", %a as "a", %b as "b"
})");
  const auto bounds = plan::table_bounds(*graph);
  ASSERT_EQ(bounds.size(), 1u);
  std::vector<std::string> notes;
  for (const plan::Symbol& s : plan::make_profile(*graph, "", notes, bounds))
    EXPECT_EQ(s.max, 33) << s.name;
  for (const plan::Symbol& s : plan::make_profile(*graph, "past=1..60", notes, bounds))
    EXPECT_EQ(s.max, s.name == "past" ? 60 : 6) << s.name;
  const std::string error =
      error_of([&] { plan::make_profile(*graph, "past=1..60,seq=1..20", notes, bounds); });
  EXPECT_NE(error.find("'seq' can be at most 6"), std::string::npos) << error;
}

TEST(TableBounds, AGivenLengthPastTheTableIsRefusedUnlessPaddingMayShortenIt) {
  std::vector<std::string> notes;
  const auto counted = graph_of(positions_text(kCountedOverIds));
  const auto profile =
      plan::make_profile(*counted, "batch=1..2,seq=1..100", notes, plan::table_bounds(*counted));
  EXPECT_EQ(profile[1].max, 100);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("reads row 101 of a table of 66 rows (0..65) unless enough of it is "
                          "padding"),
            std::string::npos)
      << notes[0];
  const auto ranged =
      graph_of(positions_text("  %n = ShapeValues() {values=(seq), scalar=true}\n"
                              "  %positions = Range(i64{0}, %n, i64{1})"));
  const std::string error = error_of(
      [&] { plan::make_profile(*ranged, "seq=1..100", notes, plan::table_bounds(*ranged)); });
  EXPECT_NE(error.find("'seq' can be at most 66"), std::string::npos) << error;
}

}  // namespace
}  // namespace vernier::test
