// Names that try to act on the terminal: of models, nodes, values, sizes, files, arrays. Whatever a
// command prints of them is escaped; they still name what they name. Contract: docs/security.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "io/npz.h"
#include "onnx/model_builder.h"

namespace vernier::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Clears the screen, forges a line, turns the direction of text, is CSI in 8 bits.
const std::string kName = "\x1b[2J\nvernier: all is well\u202E\u009B\x7f\x07";
// The end of all of them, on its line and visible.
const std::string kShown = "\\nvernier: all is well\\u202e\\u009b\\u007f";
// … and is not UTF-8, which names in models must be and names in files need not be.
const std::string kEvil = kName + "\xff";
// What an .npz file can hold as the name of an array.
const std::string kEvilArray = "\nvernier: all is well\u202E\u009B\x7f";

class Terminal : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    onnx::ModelBuilder builder(17);
    builder.graph().set_name("graph " + kName);
    builder.model().set_producer_name("producer " + kName);
    builder.input(input(), onnx::kFloat, {"rows" + kName, int64_t{2}}).output("y" + kEvilArray);
    builder.initializer(onnx::f32_tensor("w" + kName, {2, 2}, {1, NAN, 3, 4}));
    builder.node("MatMul", {input(), "w" + kName}, {"h" + kName}).set_name("node " + kName);
    builder.node("Relu", {"h" + kName}, {"y" + kEvilArray}).set_name("other " + kName);
    write_file(model(), builder.bytes());
    io::write_npz(arrays(),
                  {{input(), Tensor::from(DType::kF32, {1, 2}, {std::vector<double>{1, 0}})}});
    const Outcome built = run_program({"build", model(), "-o", engine()});
    ASSERT_EQ(built.code, 0) << built.err;
    expect_quiet(built, {});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string input() { return "x" + kEvilArray; }
  static std::string model() { return *folder_ / ("m" + kEvil + ".onnx"); }
  static std::string engine() { return *folder_ / ("e" + kEvil + ".vn"); }
  static std::string arrays() { return *folder_ / ("a" + kEvil + ".npz"); }
  static std::string plain(const std::string& name) { return *folder_ / name; }

  static void expect_quiet(const Outcome& outcome, const std::vector<std::string>& arguments) {
    for (const std::string& text : {outcome.out, outcome.err}) {
      for (const char c : text)
        EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << int{c} << text;
      for (const char* bad : {"\x7f", "\u202E", "\u009B", "\xff", "\nvernier: all is well"})
        EXPECT_THAT(text, Not(HasSubstr(bad))) << testing::PrintToString(arguments);
    }
  }
  static Outcome quiet_run(const std::vector<std::string>& arguments) {
    Outcome outcome = run_program(arguments);
    expect_quiet(outcome, arguments);
    return outcome;
  }
  static TemporaryFolder* folder_;
};
TemporaryFolder* Terminal::folder_ = nullptr;

TEST_F(Terminal, EveryViewShowsNamesAsTheyAreSpelt) {
  for (const std::vector<std::string>& view : std::vector<std::vector<std::string>>{
           {}, {"--ledger"}, {"--plan"}, {"--memory"}, {"--timing"}, {"--why", "node " + kName}}) {
    std::vector<std::string> arguments{"inspect", engine()};
    arguments.insert(arguments.end(), view.begin(), view.end());
    const Outcome text = quiet_run(arguments);
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr(kShown)) << testing::PrintToString(arguments);
    arguments.push_back("--json");
    const Outcome as_json = quiet_run(arguments);
    EXPECT_EQ(as_json.code, 0) << as_json.err;
    EXPECT_FALSE(nlohmann::json::parse(as_json.out, nullptr, false).is_discarded()) << as_json.out;
    EXPECT_THAT(as_json.out, HasSubstr(kShown));
  }
  for (const std::vector<std::string>& view : std::vector<std::vector<std::string>>{
           {}, {"--raised"}, {"--dump-graph"}, {"--raised", "--dump-graph"}, {"--typed", "fp16"}}) {
    std::vector<std::string> arguments{"inspect", model()};
    arguments.insert(arguments.end(), view.begin(), view.end());
    EXPECT_EQ(quiet_run(arguments).code, 0) << testing::PrintToString(arguments);
    arguments.push_back("--json");
    const Outcome as_json = quiet_run(arguments);
    EXPECT_EQ(as_json.code, 0) << as_json.err;
    EXPECT_FALSE(nlohmann::json::parse(as_json.out, nullptr, false).is_discarded());
  }
}

TEST_F(Terminal, TheyStillNameWhatTheyName) {
  const Outcome run = quiet_run({"run", engine(), "--inputs", arrays(), "-o", plain("y.npz")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(io::read_arrays(plain("y.npz")).at(0).first, "y" + kEvilArray);
  EXPECT_EQ(quiet_run({"bench", engine(), "--seconds", "0", "--runs", "1"}).code, 0);
  EXPECT_EQ(quiet_run({"bench", engine(), "--seconds", "0", "--runs", "1", "--json"}).code, 0);
}

TEST_F(Terminal, ReportsAndErrorsShowThemToo) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"verify", engine(), "--model", model(), "--report", plain("r.html")},
           {"verify", engine(), "--model", model(), "--json"},
           {"localise", engine(), "--model", model()},
           {"bisect", engine(), "--model", model()},
           {"build", model(), "-o", plain("new.vn"), "--json"},
           {"build", model(), "-o", plain("new.vn"), "--outputs", "h" + kName + "?"},
           {"build", model(), "-o", plain("new.vn"), "--rule", kEvil},
           {"build", arrays(), "-o", plain("new.vn")},
           {"run", engine(), "--inputs", model(), "-o", plain("new.npz")},
           {"run", engine(), "--inputs", kEvil, "-o", plain("new.npz")},
           {"run", model(), "--inputs", arrays(), "-o", plain("new.npz")},
           {"inspect", engine(), "--why", kEvil},
           {"inspect", kEvil},
           {kEvil},
           {"inspect", engine(), "--" + kEvil}}) {
    const Outcome outcome = quiet_run(arguments);
    EXPECT_NE(outcome.code, 4) << testing::PrintToString(arguments) << outcome.err;
    EXPECT_FALSE(outcome.out.empty() && outcome.err.empty());
  }
  io::write_npz(plain("wrong.npz"),
                {{kEvilArray, Tensor::from(DType::kF32, {1, 2}, {std::vector<double>{1, 0}})}});
  const Outcome wrong =
      quiet_run({"run", engine(), "--inputs", plain("wrong.npz"), "-o", plain("new.npz")});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("does not exist; the engine's inputs are 'x\n  vernier: all"));
  const std::string page = read_file(plain("r.html"));
  for (const char* bad : {"\x1b", "\u202E", "\u009B", "\x7f"})
    EXPECT_THAT(page, Not(HasSubstr(bad)));
}

}  // namespace
}  // namespace vernier::test
