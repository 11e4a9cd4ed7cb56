// verify --also onnxruntime where ONNX Runtime is missing, refuses or ends: programs of the tests
// stand for the Python. What it answers is judged in tests/python/also_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Also : public WithEngine {
 protected:
  /// A program that writes these lines of a shell; its standard input is the connection.
  static std::string python(const std::string& lines) {
    std::string path = file("python");
    write_file(path, "#!/bin/sh\n" + lines);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  /// "echo 'FIELDS' >&0", with the folder that arrays are exchanged in.
  static std::string says(const std::string& fields) {
    const std::string folder = file("exchange");
    std::filesystem::create_directory(folder);
    return R"(echo '{"version": "9.9", "folder": ")" + folder + "\"" + fields + "}' >&0\n";
  }
  static Outcome verify(const std::string& program, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"verify", engine(), "--model",     kModel,          "--inputs",
                                   inputs(), "--also", "onnxruntime", "--also-python", program};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  static void refused(const Outcome& outcome, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.code, 2) << outcome.err << outcome.out;
    for (const std::string& part : parts) EXPECT_THAT(outcome.err, HasSubstr(part));
  }
};

TEST_F(Also, NoSuchProgram) {
  refused(verify("/no/such/python"), {"cannot start '/no/such/python': No such file",
                                      "a Python that has onnxruntime: --also-python PROGRAM"});
}

TEST_F(Also, AProgramThatSaysNothing) {
  refused(verify(python("echo first; echo 'no Python at all' >&2; exit 3\n")),
          {"got no answer from", "which printed 'no Python at all'", "--also-python PROGRAM"});
  refused(verify(python("echo nonsense >&0\n")), {"got no answer from"});
}

TEST_F(Also, APythonWithoutOnnxruntime) {
  refused(verify(python(R"(echo '{"missing": "No module named onnxruntime"}' >&0)")),
          {"has no onnxruntime (No module named onnxruntime)", "pip install onnxruntime",
           "--also-python PROGRAM"});
}

TEST_F(Also, AModelThatItDoesNotTake) {
  const Outcome outcome =
      verify(python(says(R"(, "refused": "no kernel for Foo")") + "read line\n"), {"--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("verdict"), "pass");
  EXPECT_EQ(report.at("also").at("refused"), "no kernel for Foo");
  EXPECT_EQ(report.at("also").at("cells"), 1);
  EXPECT_EQ(report.at("also").at("answered"), 0);
  EXPECT_EQ(report.at("also").at("version"), "9.9");
  EXPECT_TRUE(report.at("also").at("outputs").empty());
}

TEST_F(Also, OneThatEndsInTheMiddle) {
  const Outcome outcome =
      verify(python(says("") + "read line\necho 'out of memory' >&2\nexit 1\n"),
             {"--batches", "1", "--lengths", "4,16", "--report", file("page.html")});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("also onnxruntime 9.9: rms of the error against FP64, 0 of 3 cells"),
                    HasSubstr("no answer: it ended in the middle of the work: out of memory"),
                    HasSubstr("verdict: pass")));
  EXPECT_THAT(read_file(file("page.html")), HasSubstr("Beside onnxruntime"));
  EXPECT_FALSE(std::filesystem::exists(file("exchange")));
}

TEST_F(Also, OneThatRefusesACell) {
  const Outcome outcome =
      verify(python(says("") + "read line\necho '{\"refused\": \"bad shape\"}' >&0\nread line\n"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("in.npz: bad shape"));
}

TEST_F(Also, OneThatNeverAnswersEndsWithTheTime) {
  const Outcome outcome = verify(python("sleep 100\n"), {"--max-seconds", "1"});
  EXPECT_EQ(outcome.code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("waiting for ONNX Runtime"));
}

TEST_F(Also, WhatItDoesNotGoWith) {
  refused(verify(python("exit 1\n"), {"--from", "input_ids"}),
          {"--also onnxruntime judges the answers of the whole model", "--from and --to"});
  refused(run_program({"verify", engine(), "--model", kModel, "--also", "tensorrt"}),
          {"--also", "tensorrt", "onnxruntime"});
  refused(run_program({"verify", engine(), "--model", kModel, "--also-python", "python3"}),
          {"--also-python", "--also"});
}

}  // namespace
}  // namespace vernier::test
