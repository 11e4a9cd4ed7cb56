// Polygraphy's JSON on the command line: run, verify and commands that take one set of arrays. The
// format: tests/io/polygraphy_test.cpp.
#include "io/polygraphy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Polygraphy : public WithEngine {
 protected:
  // As --save-inputs writes them: the arrays of `sets`, which Vernier writes as results.
  static std::string saved(const std::string& name, const io::ArraySets& sets) {
    io::write_polygraphy(file(name), sets);
    const json all = json::parse(read_file(file(name)));
    json feeds = json::array();
    for (const json& iteration : all.at("lst")[0][1]) {
      json feed = json::object();
      for (const auto& [array, lazy] : iteration.at("outputs").items())
        feed[array] = lazy["values"];
      feeds.push_back(std::move(feed));
    }
    write_file(file(name), feeds.dump());
    return file(name);
  }
  static std::string two() {
    const NamedTensors arrays = io::read_arrays(inputs());
    return saved("two.json", {arrays, arrays});
  }
  static std::string one() { return saved("one.json", {io::read_arrays(inputs())}); }
};

TEST_F(Polygraphy, RunGivesTheBitsOfAnNpz) {
  ASSERT_EQ(run_program({"run", engine(), "--inputs", inputs(), "-o", file("o.npz")}).code, 0);
  const NamedTensors want = io::read_arrays(file("o.npz"));
  const Outcome all =
      run_program({"run", engine(), "--inputs", two(), "-o", file("o.json"), "--json"});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(json::parse(all.out).at("runs"), 2);
  const io::ArraySets sets = io::read_polygraphy(file("o.json"));
  ASSERT_EQ(sets.size(), 2u);
  for (const NamedTensors& got : sets) {
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(got[0].first, want[0].first);
    EXPECT_EQ(io::data_hash(got), io::data_hash(want));
  }
  ASSERT_EQ(run_program({"run", engine(), "--inputs", one(), "-o", file("p.npz")}).code, 0);
  EXPECT_EQ(io::data_hash(io::read_arrays(file("p.npz"))), io::data_hash(want));
}

TEST_F(Polygraphy, VerifyMakesACellOfEachIteration) {
  ASSERT_EQ(run_program({"run", engine(), "--inputs", one(), "-o", file("out.json")}).code, 0);
  const Outcome outcome = run_program({"verify", engine(), "--model", kModel, "--inputs", two(),
                                       "--expect", file("out.json"), "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  const json cells = json::parse(outcome.out).at("cells");
  ASSERT_EQ(cells.size(), 2u);
  EXPECT_THAT(cells[1].at("label").get<std::string>(), HasSubstr("two.json #1"));
}

TEST_F(Polygraphy, CommandsOfOneSetTakeTheFirst) {
  const Outcome outcome =
      run_program({"bench", engine(), "--inputs", two(), "--seconds", "0.01", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("holds 2 sets of arrays; the first is used"));
}

TEST_F(Polygraphy, Refusals) {
  const auto refused = [](const std::vector<std::string>& words,
                          const std::vector<std::string>& parts) {
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({"run", engine(), "--inputs", two(), "-o", file("o.npz")},
          {"holds 2 sets of arrays", "write to a .json file"});
  write_file(file("damaged.json"), "[{\"input_ids\": ");
  refused({"run", engine(), "--inputs", file("damaged.json"), "-o", file("o.npz")},
          {"damaged.json", "--save-inputs"});
  NamedTensors arrays = io::read_arrays(inputs());
  arrays[0].first = "ids";
  refused({"run", engine(), "--inputs", saved("named.json", {arrays}), "-o", file("o.json")},
          {"'ids'"});
}

}  // namespace
}  // namespace vernier::test
