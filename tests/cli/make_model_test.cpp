// vernier make-model: its models import, raise and agree with ONNX Runtime; equal commands give
// equal bytes; weights may lie beside the model; impossible sizes are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "io/npz.h"
#include "onnx/import.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Arguments = std::vector<std::string>;

constexpr int64_t kVocabulary = 50;

struct Family {
  const char* name;
  int linears_per_layer, linears_outside;
  const char* activation;  ///< as inspect counts it: every layer has one
};
void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

// q, k, v, the output and the two of the feed-forward part; GPT-2 projects q, k and v at once.
constexpr Family kFamilies[] = {
    {"bert", 6, 2, "Gelu"}, {"xlmr", 6, 2, "Gelu"}, {"minilm", 6, 0, "Gelu"},
    {"gpt2", 4, 1, "Gelu"}, {"vit", 6, 1, "Gelu"},
};

// A model of three layers, small enough to evaluate in FP64.
Arguments small(const std::string& family, const std::string& path, const Arguments& more = {}) {
  Arguments arguments{
      "make-model", family,    "-o", path,    "--layers", "3",       "--hidden",
      "24",         "--heads", "4",  "--ffn", "40",       "--vocab", std::to_string(kVocabulary)};
  if (family != "vit") arguments.insert(arguments.end(), {"--positions", "16"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void make(const Arguments& arguments) {
  const Outcome made = run_program(arguments);
  ASSERT_EQ(made.code, 0) << made.err;
}

class MakeModel : public testing::TestWithParam<Family> {
 protected:
  const TemporaryFolder folder_;
  const std::string model_ = folder_ / "m.onnx", engine_ = folder_ / "m.vn";
};

TEST_P(MakeModel, RaisesToItsArchitecture) {
  make(small(GetParam().name, model_));
  const Outcome outcome = run_program({"inspect", model_, "--raised", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_TRUE(report.at("leftovers").empty()) << outcome.out;
  EXPECT_EQ(report.at("shape_nodes"), 0);
  ASSERT_EQ(report.at("layers").size(), 3u);
  for (const json& layer : report.at("layers")) {
    EXPECT_EQ(layer.at("attention"), 1);
    EXPECT_EQ(layer.at("norm"), 2);
    EXPECT_EQ(layer.at("linear"), GetParam().linears_per_layer);
    EXPECT_EQ(layer.at("activation"), 1);
  }
  EXPECT_EQ(report.at("outside").at("linear"), GetParam().linears_outside);
  EXPECT_EQ(report.at("outside").at("norm"), 1);
  EXPECT_EQ(report.at("composites").at(GetParam().activation), 3);
}

Tensor ids(const Shape& shape, const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI64, shape, std::span(values));
}

// Two rows of 5 tokens, the second padded to it with `padding`; or two images.
NamedTensors inputs_of(const std::string& family) {
  if (family == "vit") {
    const Shape shape{2, 3, 224, 224};
    std::vector<double> pixels(static_cast<size_t>(num_elems(shape)));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::sin(0.37 * static_cast<double>(i));
    return {{"pixel_values", Tensor::from(DType::kF32, shape, std::span<const double>(pixels))}};
  }
  const int64_t padding = family == "xlmr" ? 1 : 0;
  NamedTensors arrays{{"input_ids", ids({2, 5}, {7, 11, 49, 4, 2, 5, 23, 2, padding, padding})},
                      {"attention_mask", ids({2, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 0, 0})}};
  if (family == "bert" || family == "minilm")
    arrays.emplace_back("token_type_ids", ids({2, 5}, {0, 0, 0, 1, 1, 0, 0, 1, 0, 0}));
  return arrays;
}

TEST_P(MakeModel, AgreesWithOnnxRuntime) {
  const std::string python = ".venv/bin/python";
  if (!std::filesystem::exists(python) ||
      run_command(python, {"-c", "import onnxruntime, numpy"}).code != 0) {
    GTEST_SKIP() << "SKIP: onnxruntime of requirements.txt is not in .venv";
  }
  const std::string in = folder_ / "in.npz", out = folder_ / "out.npz";
  make(small(GetParam().name, model_));
  io::write_npz(in, inputs_of(GetParam().name));
  const Outcome peer = run_command(python, {"tools/run_onnxruntime.py", model_, in, out});
  ASSERT_EQ(peer.code, 0) << peer.err;
  ASSERT_EQ(run_program({"build", model_, "-o", engine_}).code, 0);
  const Outcome verdict = run_program(
      {"verify", engine_, "--model", model_, "--inputs", in, "--expect", out, "--json"});
  EXPECT_EQ(verdict.code, 0) << verdict.out << verdict.err;
  // Logits that do not depend on their row would agree with anything.
  const Tensor answers = io::read_arrays(out).front().second;
  EXPECT_EQ(answers.shape()[0], 2);
  EXPECT_NE(answers.float_at(0), answers.float_at(answers.elems() / 2));
}

TEST_P(MakeModel, EqualCommandsGiveEqualBytes) {
  const std::string again = folder_ / "again.onnx", other = folder_ / "other.onnx";
  make(small(GetParam().name, model_));
  make(small(GetParam().name, again));
  make(small(GetParam().name, other, {"--seed", "2"}));
  EXPECT_EQ(read_file(model_), read_file(again));
  EXPECT_NE(read_file(model_), read_file(other));
}

TEST_P(MakeModel, WeightsBesideTheModelAreTheSameWeights) {
  const std::string external = folder_ / "external.onnx";
  make(small(GetParam().name, model_));
  make(small(GetParam().name, external, {"--external"}));
  EXPECT_LT(read_file(external).size(), read_file(model_).size());
  EXPECT_GT(read_file(external + ".data").size(), 1000u);
  const std::string engine = folder_ / "external.vn";
  ASSERT_EQ(run_program({"build", model_, "-o", engine_}).code, 0);
  ASSERT_EQ(run_program({"build", external, "-o", engine}).code, 0);
  EXPECT_EQ(read_file(engine_), read_file(engine));
}

// --positions is 16: the default profile of every family ends there, and a row that long, without
// padding, reads no position past the table.
TEST_P(MakeModel, RunsAtItsLongest) {
  const std::string family = GetParam().name, in = folder_ / "in.npz", out = folder_ / "out.npz";
  if (family == "vit") GTEST_SKIP() << "images have one size";
  make(small(family, model_));
  const Outcome built = run_program({"build", model_, "-o", engine_});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out + built.err, HasSubstr("size 'seq' defaults to 1..16"));
  NamedTensors arrays;
  for (const auto& [name, short_array] : inputs_of(family))
    arrays.emplace_back(name, ids({1, 16}, std::vector<int64_t>(16, 0)));
  io::write_npz(in, arrays);
  const Outcome run = run_program({"run", engine_, "--inputs", in, "--outputs", out});
  EXPECT_EQ(run.code, 0) << run.err;
}

INSTANTIATE_TEST_SUITE_P(Families, MakeModel, testing::ValuesIn(kFamilies),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(MakeModelOutput, SaysWhatWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.onnx";
  const Outcome outcome = run_program(small("bert", path, {"--json"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("model_bytes"), read_file(path).size());
  EXPECT_EQ(report.at("data_file"), "");
  EXPECT_GT(report.at("onnx_nodes"), 100);
  EXPECT_EQ(report.at("layers"), 3);
  EXPECT_EQ(report.at("ffn"), 40);
  // Words, positions and types, then the layers: close to what the sizes say.
  EXPECT_GT(report.at("weight_bytes"),
            4 * (50 + 16 + 2) * 24 + 3 * 4 * (4 * 24 * 24 + 2 * 24 * 40));
  EXPECT_THAT(run_program(small("bert", path)).out,
              HasSubstr("bert: 3 layers, hidden 24, 4 heads, ffn 40"));
  const json external = json::parse(run_program(small("bert", path, {"--external", "--json"})).out);
  EXPECT_EQ(external.at("data_file"), "m.onnx.data");
  EXPECT_EQ(external.at("data_bytes"), read_file(path + ".data").size());
  EXPECT_EQ(external.at("model_bytes"), read_file(path).size());
}

// The weight of that name, as imported.
Tensor weight_of(const std::string& model, const std::string& name) {
  const auto graph = onnx::import_model(model, {});
  for (size_t i = 0; i < graph->num_values(); ++i) {
    const ir::Value& value = graph->value(static_cast<ir::ValueId>(i));
    if (value.name == name && value.is_constant()) return value.constant;
  }
  ADD_FAILURE() << "no weight " << name;
  return Tensor::scalar(DType::kF32, 0);
}

TEST(MakeModelWeights, HaveTheOutlierChannelsThatTheOutputTells) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.onnx";
  const Outcome made = run_program(small("bert", path));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("Outlier channels 3, 9, 18"));
  const Tensor gain = weight_of(path, "bert.encoder.layer.1.output.LayerNorm.weight");
  ASSERT_EQ(gain.elems(), 24);
  for (int64_t c = 0; c < 24; ++c) {
    // Normal around 1 with deviation 0.2, and 8 times that.
    if (c == 3 || c == 9 || c == 18) {
      EXPECT_GT(gain.float_at(c), 2.5) << c;
    } else {
      EXPECT_LT(std::abs(gain.float_at(c)), 2.2) << c;
    }
  }
}

TEST(MakeModelWeights, TheHeadOfGpt2IsItsWordTable) {
  const TemporaryFolder folder;
  const std::string path = folder / "m.onnx";
  make(small("gpt2", path));
  const auto graph = onnx::import_model(path, {});
  const Tensor words = weight_of(path, "transformer.wte.weight");
  const ir::Value& logits = graph->value(graph->outputs[0]);
  const Tensor head = graph->value(graph->node(logits.producer).inputs[1]).constant;
  ASSERT_EQ(head.shape(), (Shape{24, kVocabulary}));
  for (int64_t word = 0; word < kVocabulary; ++word) {
    for (int64_t c = 0; c < 24; ++c)
      ASSERT_EQ(head.float_at(c * kVocabulary + word), words.float_at(word * 24 + c));
  }
}

struct Refusal {
  std::string name;
  Arguments arguments;
  std::vector<std::string> message;
};
void PrintTo(const Refusal& row, std::ostream* out) { *out << row.name; }

class MakeModelRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(MakeModelRefuses, WhatCannotBe) {
  const TemporaryFolder folder;
  Arguments arguments{"make-model"};
  arguments.insert(arguments.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  arguments.insert(arguments.end(), {"-o", folder / "m.onnx"});
  const Outcome outcome = run_program(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

const std::vector<Refusal> kRefusals{
    {"unknown_architecture",
     {"transformer"},
     {"no architecture 'transformer'", "bert, xlmr, minilm, gpt2, vit", "bge-reranker-large"}},
    {"mistyped_architecture", {"bge-rerankr"}, {"did you mean 'bge-reranker-large'?"}},
    {"heads",
     {"bert", "--hidden", "130"},
     {"--hidden 130 does not divide among --heads 12", "Give --heads 10 or"}},
    {"no_layers", {"bert", "--layers", "0"}, {"--layers 0: expected 1 to 1000"}},
    {"no_channels", {"vit", "--hidden", "-64"}, {"--hidden -64: expected 1 to 65536"}},
    {"no_heads", {"gpt2", "--heads", "0"}, {"--heads 0: expected 1 to"}},
    {"no_ffn", {"bert", "--ffn", "0"}, {"--ffn 0: expected 1 to"}},
    {"small_vocabulary", {"xlmr", "--vocab", "2"}, {"--vocab 2: expected 4 to"}},
    {"no_positions", {"bert", "--positions", "0"}, {"--positions 0: expected 1 to"}},
    {"positions_of_vit",
     {"vit", "--positions", "50"},
     {"--positions: a ViT has one position per patch", "leave the option out"}},
    {"no_number", {"bert", "--seed", "x"}, {"--seed", "make-model --help"}},
};

INSTANTIATE_TEST_SUITE_P(Rows, MakeModelRefuses, testing::ValuesIn(kRefusals),
                         [](const auto& row) { return row.param.name; });

TEST(MakeModelOutput, SaysWhereItCannotWrite) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  const Outcome taken = run_program(small("bert", folder / "folder"));
  EXPECT_EQ(taken.code, 2);
  EXPECT_THAT(taken.err, HasSubstr("it is a folder; give the name of a file"));
  const Outcome absent = run_program(small("bert", folder / "none/m.onnx"));
  EXPECT_EQ(absent.code, 3);
  EXPECT_THAT(absent.err, HasSubstr("none' does not exist; make it or choose another"));
  std::filesystem::create_directory(folder / "m.onnx.data");
  const Outcome beside = run_program(small("bert", folder / "m.onnx", {"--external"}));
  EXPECT_EQ(beside.code, 2);
  EXPECT_THAT(beside.err, HasSubstr("m.onnx.data': it is a folder"));
  EXPECT_FALSE(std::filesystem::exists(folder / "m.onnx"));
}

}  // namespace
}  // namespace vernier::test
