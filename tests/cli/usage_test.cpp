// Wrong usage of the program: exit code 2, nothing on stdout, and a message that says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/program.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

struct WrongUsage {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> message;  ///< parts of stderr
};

void PrintTo(const WrongUsage& row, std::ostream* out) { *out << row.name; }

class Usage : public testing::TestWithParam<WrongUsage> {};

TEST_P(Usage, IsRefusedWithAMessage) {
  const Outcome outcome = run_program(GetParam().arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, StartsWith("vernier: error: "));
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
}

const std::vector<WrongUsage> kRows{
    {"no_command", {}, {"subcommand is required", "Run 'vernier --help'"}},
    {"unknown_command",
     {"bild"},
     {"no command or option 'bild'; did you mean 'build'? Run 'vernier --help'"}},
    {"a_command_like_none", {"frobnicate"}, {"no command or option 'frobnicate'. Run"}},
    {"mistyped_option",
     {"verify", "e.vn", "--model", "m.onnx", "--toleranse", "rms=1e-3"},
     {"'vernier verify' does not take '--toleranse'; did you mean '--tolerance'? Run "
      "'vernier verify --help'"}},
    {"mistyped_option_with_value",
     {"verify", "e.vn", "--model", "m.onnx", "--toleranse=rms=1e-3"},
     {"did you mean '--tolerance'?"}},
    {"mistyped_required_option",
     {"verify", "e.vn", "--modle", "m.onnx"},
     {"does not take '--modle'; did you mean '--model'?"}},
    {"unknown_global_option", {"--fast"}, {"no command or option '--fast'"}},
    {"build_without_model", {"build"}, {"vernier build: MODEL is required", "build --help"}},
    {"build_without_output", {"build", "m.onnx"}, {"--output is required"}},
    {"unknown_mode",
     {"build", "m.onnx", "-o", "e.vn", "--fp12"},
     {"'vernier build' does not take '--fp12'; did you mean", "'--fp32'", "build --help"}},
    {"an_option_like_none",
     {"build", "m.onnx", "-o", "e.vn", "--x"},
     {"'vernier build' does not take '--x'; its options are ", "--fp32", "build --help"}},
    {"two_modes",
     {"build", "m.onnx", "-o", "e.vn", "--fp16", "--bf16"},
     {"--fp16 and --bf16 exclude each other", "--rule"}},
    {"unknown_device",
     {"build", "m.onnx", "-o", "e.vn", "--device", "abacus"},
     {"--device: got 'abacus', but this program has only cpu"}},
    {"fuse_without_value",
     {"build", "m.onnx", "-o", "e.vn", "--fuse", "attention"},
     {"--fuse 'attention': write PASS=off"}},
    {"fuse_on", {"build", "m.onnx", "-o", "e.vn", "--fuse", "attention=on"}, {"write PASS=off"}},
    {"empty_output_name",
     {"build", "m.onnx", "-o", "e.vn", "--outputs", "A,,B"},
     {"--outputs 'A,,B' has an empty entry", "separated by commas"}},
    {"run_without_inputs", {"run", "e.vn", "-o", "o.npz"}, {"--inputs is required"}},
    {"run_without_outputs", {"run", "e.vn", "--inputs", "i.npz"}, {"--outputs is required"}},
    {"two_outputs",
     {"run", "e.vn", "--inputs", "i.npz", "-o", "a.npz", "--outputs", "b.npz"},
     {"--outputs", "received 2"}},
    {"two_inputs",
     {"run", "e.vn", "--inputs", "i.npz", "--inputs", "j.npz", "-o", "a.npz"},
     {"--inputs", "received 2"}},
    {"two_engines",
     {"build", "m.onnx", "-o", "a.vn", "--output", "b.vn"},
     {"--output", "received 2"}},
    {"negative_threads",
     {"run", "e.vn", "--inputs", "i.npz", "-o", "o.npz", "--threads", "-1"},
     {"--threads", "not in range"}},
    {"threads_in_words",
     {"run", "e.vn", "--inputs", "i.npz", "-o", "o.npz", "--threads", "two"},
     {"--threads", "two"}},
    {"verify_without_model", {"verify", "e.vn", "--inputs", "i.npz"}, {"--model is required"}},
    {"timing_without_report",
     {"verify", "e.vn", "--model", "m.onnx", "--timing"},
     {"--timing goes into the report", "--report FILE.html"}},
    {"localise_without_model", {"localise", "e.vn"}, {"--model is required"}},
    {"bisect_without_model", {"bisect", "e.vn"}, {"--model is required"}},
    {"reduce_without_folder", {"reduce", "e.vn", "--model", "m.onnx"}, {"--output is required"}},
    {"localise_two_batches",
     {"localise", "e.vn", "--model", "m.onnx", "--batch", "1,2"},
     {"--batch and --length take one size"}},
    {"localise_inputs_with_sizes",
     {"localise", "e.vn", "--model", "m.onnx", "--inputs", "i.npz", "--batch", "2"},
     {"--inputs excludes --batch and --length"}},
    {"bench_with_zero_rows",
     {"bench", "e.vn", "--batch", "0"},
     {"--batch", "Value 0 not in range 1 to"}},
    {"bench_with_negative_seconds", {"bench", "e.vn", "--seconds", "-1"}, {"--seconds"}},
    {"bench_with_negative_pause", {"bench", "e.vn", "--pause", "-5"}, {"--pause"}},
    {"inspect_without_file", {"inspect"}, {"FILE is required"}},
    {"two_views", {"inspect", "a.vn", "--plan", "--ledger"}, {"choose one view of --raised"}},
    {"two_files", {"inspect", "a.onnx", "b.onnx"}, {"does not take 'b.onnx'"}},
    {"make_model_without_output", {"make-model", "bert"}, {"--output is required"}},
};

INSTANTIATE_TEST_SUITE_P(Rows, Usage, testing::ValuesIn(kRows),
                         [](const auto& row) { return row.param.name; });

// With --json standard output is one JSON document, whatever happens; text goes to stderr as
// always.
TEST(Errors, AreJsonUnderJson) {
  struct Row {
    std::vector<std::string> arguments;
    int exit_code;
    std::string code, message;
  };
  const TemporaryFolder folder;
  const std::string none = folder / "none.vn";
  const std::vector<Row> rows{
      {{"build", "--json"}, 2, "input", "MODEL is required"},
      {{"build", none, "-o", folder / "e.vn", "--json"}, 2, "input", "none.vn"},
      {{"build", none, "-o", folder / "a/e.vn", "--json"}, 3, "machine", "does not exist"},
      {{"run", none, "--inputs", "i.npz", "-o", folder / "o.npz", "--json"}, 2, "input", "none.vn"},
      {{"verify", none, "--model", none, "--json"}, 2, "input", "none.vn"},
      {{"verify", none, "--json", "--toleranse"}, 2, "input", "did you mean '--tolerance'?"},
      {{"localise", none, "--model", none, "--json"}, 2, "input", "none.vn"},
      {{"bisect", none, "--model", none, "--json"}, 2, "input", "none.vn"},
      {{"reduce", none, "--model", none, "-o", folder / "part", "--json"}, 2, "input", "none.vn"},
      {{"inspect", none, "--json"}, 2, "input", "none.vn"},
      {{"bench", none, "--json"}, 2, "input", "none.vn"},
      {{"make-model", "brt", "-o", none, "--json"}, 2, "input", "did you mean 'bert'?"},
      {{"biuld", "--json"}, 2, "input", "did you mean 'build'?"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::PrintToString(row.arguments));
    const Outcome outcome = run_program(row.arguments);
    EXPECT_EQ(outcome.code, row.exit_code);
    EXPECT_THAT(outcome.err, StartsWith("vernier: error: "));
    ASSERT_TRUE(nlohmann::json::accept(outcome.out)) << outcome.out;
    const nlohmann::json error = nlohmann::json::parse(outcome.out).at("error");
    EXPECT_EQ(error.at("code"), row.code);
    EXPECT_EQ(error.at("exit_code"), row.exit_code);
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr(row.message));
    EXPECT_EQ(error.size(), 3U);
  }
}

// None of the files that these commands read is there: the place of the output is looked at first.
TEST(Outputs, FoldersThatDoNotExistAreRefusedBeforeTheWork) {
  const TemporaryFolder folder;
  const std::string place = folder / "none/file";
  const std::vector<std::vector<std::string>> commands{
      {"build", "m.onnx", "-o", place},
      {"build", "m.onnx", "-o", folder / "e.vn", "--save-policy", place},
      {"build", "m.onnx", "-o", folder / "e.vn", "--tuning", place},
      {"run", "e.vn", "--inputs", "i.npz", "-o", place},
      {"run", "e.vn", "--inputs", "i.npz", "--outputs", place},
      {"verify", "e.vn", "--model", "m.onnx", "--report", place},
      {"verify", "e.vn", "--model", "m.onnx", "--inputs", "i.npz", "--report", place},
      {"localise", "e.vn", "--model", "m.onnx", "-o", place},
      {"bisect", "e.vn", "--model", "m.onnx", "-o", place},
      {"reduce", "e.vn", "--model", "m.onnx", "-o", place},
      {"make-model", "bert", "-o", place},
  };
  for (const std::vector<std::string>& arguments : commands) {
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, 3) << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("'" + place + "': the folder '" + (folder / "none") +
                                       "' does not exist; make it or choose another folder"))
        << testing::PrintToString(arguments);
  }
}

TEST(Help, EveryCommandHasExamples) {
  for (const char* command : {"build", "run", "verify", "localise", "bisect", "reduce", "inspect",
                              "bench", "demo", "make-model"}) {
    const Outcome outcome = run_program({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr(std::string("  vernier ") + command + " ")) << command;
    EXPECT_EQ(outcome.err, "") << command;
  }
}

TEST(Help, ExamplesNamePassesThatExist) {
  const std::string model = "tests/models/bge_reranker_ts17/model.onnx";
  const Outcome wrong = run_program({"build", model, "-o", "none.vn", "--fuse", "no=off"});
  const std::string help = run_program({"build", "--help"}).out;
  const std::string refusal =
      run_program({"build", model, "-o", "none.vn", "--fuse", "qkv_merge"}).err;
  for (const std::string& text : {help, refusal}) {
    const size_t begin = text.rfind("--fuse ") + 7, end = text.find("=off", begin);
    ASSERT_NE(end, std::string::npos) << text;
    EXPECT_THAT(wrong.err, HasSubstr(", " + text.substr(begin, end - begin)));
  }
}

TEST(Help, TheProgramListsItsCommandsAndExitCodes) {
  const Outcome outcome = run_program({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"build", "run", "verify", "inspect", "bench", "Exit codes: 0 ok"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
}

TEST(Help, VersionIsPrinted) {
  const Outcome outcome = run_program({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, testing::MatchesRegex("vernier 0.1.0 .build [0-9a-f]{32}.\n"));
}

}  // namespace
}  // namespace vernier::test
