// vernier extract: what it prints and how it exits. What parts hold: tests/onnx/extract_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"
#include "onnx/model_builder.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Extract : public WithEngine {
 protected:
  static std::string a_part() { return file("part.onnx"); }
};

TEST_F(Extract, APartBuildsAndPasses) {
  const Outcome whole = run_program({"inspect", engine(), "--ledger", "--json"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Outcome made = run_program(
      {"extract", kModel, "--to", "/m/classifier/dense/Gemm", "-o", a_part(), "--json"});
  ASSERT_EQ(made.code, 0) << made.err << made.out;
  const json report = json::parse(made.out);
  EXPECT_TRUE(report.at("imports"));
  EXPECT_LT(report.at("onnx_nodes"), report.at("model_nodes"));
  EXPECT_EQ(report.at("inputs").size(), 2u);
  ASSERT_EQ(report.at("outputs").size(), 1u);
  EXPECT_EQ(report.at("outputs")[0].at("shape")[0], "batch");
  EXPECT_EQ(run_program({"build", a_part(), "-o", file("part.vn")}).code, 0);
  const Outcome verified =
      run_program({"verify", file("part.vn"), "--model", a_part(), "--inputs", inputs()});
  EXPECT_EQ(verified.code, 0) << verified.out;
}

TEST_F(Extract, SaysWhatItWrote) {
  const Outcome made =
      run_program({"extract", kModel, "--to", "/m/classifier/dense/Gemm", "-o", a_part()});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out,
              AllOf(HasSubstr("wrote " + a_part()), HasSubstr(" nodes, "),
                    HasSubstr("input     input_ids i64 [batch, seq]"), HasSubstr("output    ")));
}

TEST_F(Extract, Refusals) {
  const auto refused = [](const std::vector<std::string>& words, const std::string& part) {
    const Outcome outcome = run_program(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  refused({"extract", kModel, "-o", a_part()}, "add --from or --to");
  refused({"extract", kModel, "--to", "/m/classifier/dense/Gem", "-o", a_part()},
          "'/m/classifier/dense/Gemm'");
  refused({"extract", kModel, "--to", "output", "-o", kModel}, kModel);
  refused({"extract", kModel, "--to", "a,", "-o", a_part()}, "--to");
  refused({"extract", kModel, "--to", "output"}, "--output");
  const Outcome nowhere =
      run_program({"extract", kModel, "--to", "output", "-o", file("no/such/part.onnx")});
  EXPECT_EQ(nowhere.code, 3) << nowhere.out;
  EXPECT_THAT(nowhere.err, HasSubstr("no/such"));
}

// A CenterCropPad whose sizes become an input: Vernier has to know them.
TEST_F(Extract, APartThatCannotBeRead) {
  onnx::ModelBuilder model(18);
  model.input("x", onnx::kFloat, {int64_t{4}, int64_t{2}}).output("y");
  model.initializer(onnx::i64_tensor("one", {1}, {1}));
  model.node("Shape", {"x"}, {"sizes"});
  model.node("Add", {"sizes", "one"}, {"target"});
  model.node("CenterCropPad", {"x", "target"}, {"cut"});
  model.node("Relu", {"cut"}, {"y"});
  onnx::proto::ValueInfoProto target;
  target.set_name("target");
  auto& type = *target.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::kInt64);
  type.mutable_shape()->add_dim()->set_dim_value(2);
  model.graph().add_value_info(target.SerializeAsString());
  write_file(file("m.onnx"), model.bytes());
  const Outcome outcome =
      run_program({"extract", file("m.onnx"), "--from", "x,target", "-o", a_part()});
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Vernier cannot read the part: "));
}

}  // namespace
}  // namespace vernier::test
