// vernier calibrate and build --scales: the flow, what is resumed, and every refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/program.h"
#include "io/npz.h"
#include "onnx/model_builder.h"
#include "runtime/models.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

constexpr int64_t kVocabulary = 200;

// Seeded sentences: rows of `length` ids, of which a part is padding.
NamedTensors sentences(int64_t rows, int64_t length, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int64_t> ids, mask;
  for (int64_t r = 0; r < rows; ++r) {
    const auto valid = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(length));
    for (int64_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<int64_t>(random() % kVocabulary));
      mask.push_back(i < valid);
    }
  }
  return test::encoder_inputs({rows, length}, ids, mask);
}

int64_t tokens(const NamedTensors& arrays) {
  int64_t sum = 0;
  for (const int64_t valid : arrays[1].second.integers()) sum += valid;
  return sum;
}

/// A small encoder whose norms have outlier channels, and batches for it.
class Calibrate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder;
    make_model("m.onnx", "1");
    fs::create_directory(file("data"));
    for (int i = 0; i < 3; ++i)
      io::write_npz(file("data/" + std::to_string(i) + ".npz"),
                    sentences(16, 24 + i, static_cast<uint64_t>(i)));
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static std::string file(const std::string& name) { return *folder_ / name; }
  static void make_model(const std::string& name, const std::string& seed) {
    const Outcome made = run_program({"make-model",  "minilm",
                                      "-o",          file(name),
                                      "--layers",    "2",
                                      "--hidden",    "64",
                                      "--heads",     "4",
                                      "--ffn",       "128",
                                      "--vocab",     std::to_string(kVocabulary),
                                      "--positions", "64",
                                      "--outliers",  "32",
                                      "--seed",      seed});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  static Outcome calibrate(const std::string& output, const Arguments& more = {}) {
    Arguments arguments{"calibrate", file("m.onnx"), "--data", file("data"), "-o", file(output)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  // The scales of the suite's model, made once.
  static json scales() {
    if (!fs::exists(file("s.json"))) {
      const Outcome outcome = calibrate("s.json");
      EXPECT_EQ(outcome.code, 0) << outcome.err;
    }
    return json::parse(read_file(file("s.json")));
  }
  static Outcome build(const std::string& engine, const Arguments& more) {
    Arguments arguments{"build", file("m.onnx"), "-o", file(engine), "--no-compare", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  // A build with scales that were changed by hand.
  template <class Change>
  static Outcome build_with(const Change& change) {
    json changed = scales();
    change(changed);
    write_file(file("changed.json"), changed.dump());
    return build("changed.vn", {"--int8", "--scales", file("changed.json")});
  }

 private:
  static TemporaryFolder* folder_;
};
TemporaryFolder* Calibrate::folder_ = nullptr;

TEST_F(Calibrate, FindsTheOperandsOfInt8Products) {
  const json found = scales();
  EXPECT_EQ(found.at("format"), "vernier-scales");
  EXPECT_EQ(found.at("model").at("file"), "m.onnx");
  EXPECT_EQ(found.at("data").at("batches"), 3);
  int64_t expected = 0;
  for (int i = 0; i < 3; ++i)
    expected += tokens(io::read_arrays(file("data/" + std::to_string(i) + ".npz")));
  EXPECT_EQ(found.at("data").at("tokens"), expected) << "padding does not count";
  // q, k and v read one value; the output, up and down one each.
  ASSERT_EQ(found.at("sites").size(), 2 * 4);
  EXPECT_EQ(found.at("sites")[0].at("products").size(), 3);
  EXPECT_EQ(found.at("sites")[0].at("factors").size(), 64);
  EXPECT_EQ(found.at("sites")[3].at("factors").size(), 128);
  for (const json& site : found.at("sites")) {
    EXPECT_EQ(site.at("rows"), expected);
    EXPECT_LT(site.at("errors").at("0").get<double>(), 0.2);
    EXPECT_EQ(site.at("static").at("errors").size(), 6);
  }
}

TEST_F(Calibrate, PrintsATableAndJson) {
  const Outcome table = calibrate("t.json");
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_THAT(table.out, AllOf(HasSubstr("3 batches, "), HasSubstr("8 operands"),
                               HasSubstr("--int8 --scales"), HasSubstr("fewer than 1000")));
  const Outcome text = calibrate("t.json", {"--json", "--method", "max"});
  ASSERT_EQ(text.code, 0) << text.err;
  const json report = json::parse(text.out);
  EXPECT_EQ(report.at("sites").size(), 8);
  EXPECT_EQ(report.at("sites")[0].at("range_method"), "max");
  for (const json& site : report.at("sites"))
    EXPECT_LE(site.at("error").get<double>(), site.at("plain_error").get<double>());
}

TEST_F(Calibrate, MakesTheEngineMoreExactAndVerifies) {
  scales();
  ASSERT_EQ(build("plain.vn", {"--int8"}).code, 0);
  const Outcome built = build("calibrated.vn", {"--int8", "--scales", file("s.json")});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, Not(HasSubstr("warning")));
  const auto error = [&](const std::string& engine) {
    const Outcome outcome = run_program({"verify", file(engine), "--model", file("m.onnx"),
                                         "--inputs", file("data/0.npz"), "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    const json all = json::parse(outcome.out).at("outputs")[0].at("all_cells");
    return all.at("rms").get<double>() / all.at("rms_reference").get<double>();
  };
  EXPECT_LT(error("calibrated.vn"), 0.8 * error("plain.vn"));
  const Outcome sweep = run_program({"verify", file("calibrated.vn"), "--model", file("m.onnx")});
  EXPECT_EQ(sweep.code, 0) << sweep.out;
}

TEST_F(Calibrate, RowsKeepTheirBitsInEveryBatch) {
  scales();
  ASSERT_EQ(build("rows.vn", {"--int8", "--scales", file("s.json")}).code, 0);
  const NamedTensors batch = sentences(5, 20, 77);
  const auto answer = [&](const NamedTensors& arrays) {
    io::write_npz(file("in.npz"), arrays);
    const Outcome run =
        run_program({"run", file("rows.vn"), "--inputs", file("in.npz"), "-o", file("out.npz")});
    EXPECT_EQ(run.code, 0) << run.err;
    return io::read_arrays(file("out.npz"))[0].second;
  };
  const Tensor all = answer(batch);
  NamedTensors one;
  for (const auto& [name, tensor] : batch)
    one.emplace_back(name, Tensor::from_bytes(tensor.dtype(), {1, 20},
                                              tensor.byte_span().subspan(3 * 20 * 8, 20 * 8)));
  const Tensor alone = answer(one);
  const auto row = all.byte_span().subspan(3 * alone.bytes(), alone.bytes());
  EXPECT_TRUE(std::ranges::equal(row, alone.byte_span()));
}

TEST_F(Calibrate, CutsAFileWithManyRowsIntoBatches) {
  const NamedTensors many = sentences(150, 16, 5);
  io::write_npz(file("many.npz"), many);
  const Outcome outcome = run_program(
      {"calibrate", file("m.onnx"), "--data", file("many.npz"), "-o", file("many.json"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json report = json::parse(outcome.out);
  EXPECT_EQ(report.at("batches"), 3) << "of 64 rows at most";
  EXPECT_EQ(report.at("tokens"), tokens(many));
}

TEST_F(Calibrate, GoesOnAfterAKillAndWritesTheSameFile) {
  fs::create_directory(file("long"));
  for (uint64_t i = 0; i < 12; ++i)
    io::write_npz(file("long/" + std::to_string(10 + i) + ".npz"), sentences(64, 60, 40 + i));
  const auto command = [&](const std::string& output) {
    return Arguments{"calibrate", file("m.onnx"), "--data", file("long"), "-o", file(output)};
  };
  ASSERT_EQ(run_program(command("whole.json")).code, 0);
  const std::string checkpoint = file("killed.json.checkpoint.npz");
  {
    Running running(command("killed.json"));
    ASSERT_TRUE(wait_until(running, [&] { return fs::exists(checkpoint); })) << running.err();
    running.send(SIGKILL);
    running.wait();
  }
  EXPECT_FALSE(fs::exists(file("killed.json")));
  ASSERT_TRUE(fs::exists(checkpoint));
  const Outcome again = run_program(command("killed.json"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("went on after "));
  EXPECT_TRUE(read_file(file("killed.json")) == read_file(file("whole.json")));
  EXPECT_FALSE(fs::exists(checkpoint));
}

TEST_F(Calibrate, ACheckpointOfOtherDataIsNotUsed) {
  for (const std::string& contents : {std::string("no archive"), read_file(file("data/0.npz"))}) {
    write_file(file("o.json.checkpoint.npz"), contents);
    const Outcome outcome = calibrate("o.json");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("was not used: it is damaged, or of another model"));
    scales();
    EXPECT_TRUE(read_file(file("o.json")) == read_file(file("s.json")));
  }
}

TEST_F(Calibrate, EveryErrorIsAMessage) {
  fs::create_directory(file("empty"));
  write_file(file("text.npz"), "no archive");
  NamedTensors wrong = sentences(2, 8, 1);
  wrong[0].first = "ids";
  io::write_npz(file("wrong.npz"), wrong);
  io::write_npz(file("long.npz"), sentences(2, 65, 1));
  NamedTensors padded = sentences(2, 8, 1);
  padded[1].second =
      Tensor::from(DType::kI64, {2, 8}, std::span<const int64_t>(std::vector<int64_t>(16, 0)));
  io::write_npz(file("padded.npz"), padded);
  const Arguments begin{"calibrate", file("m.onnx"), "-o", file("e.json"), "--data"};
  struct Row {
    Arguments arguments;
    int code;
    std::string message;
  };
  const Row rows[] = {
      {{file("empty")}, 2, "holds no .npz file"},
      {{file("absent.npz")}, 2, "absent.npz"},
      {{file("text.npz")}, 2, "text.npz"},
      {{file("wrong.npz")}, 2, "wrong.npz': "},
      {{file("long.npz")}, 2, "long.npz': "},
      {{file("padded.npz")}, 2, "all of them are padding"},
      {{file("data"), "--method", "median"}, 2, "--method: got 'median'"},
      {{file("data"), "--max-seconds", "0.001"}, 3, "limit"},
  };
  for (const Row& row : rows) {
    Arguments arguments = begin;
    arguments.insert(arguments.end(), row.arguments.begin(), row.arguments.end());
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.code, row.code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
    EXPECT_FALSE(fs::exists(file("e.json")));
    fs::remove(file("e.json.checkpoint.npz"));
  }
  const Outcome over = run_program(
      {"calibrate", file("m.onnx"), "--data", file("data/0.npz"), "-o", file("data/0.npz")});
  EXPECT_EQ(over.code, 2);
  EXPECT_THAT(over.err, HasSubstr("would destroy"));
}

TEST_F(Calibrate, AModelWithoutInt8ProductsIsRefused) {
  onnx::ModelBuilder builder(17);
  builder.input("x", onnx::kFloat, {int64_t{2}}).output("y");
  builder.node("Relu", {"x"}, {"y"});
  write_file(file("relu.onnx"), builder.bytes());
  const Outcome outcome = run_program(
      {"calibrate", file("relu.onnx"), "--data", file("data"), "-o", file("none.json")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("there is nothing to calibrate"));
}

TEST_F(Calibrate, ScalesOfAnotherModelAreRefused) {
  make_model("other.onnx", "2");
  scales();
  const Outcome outcome = run_program(
      {"build", file("other.onnx"), "-o", file("x.vn"), "--int8", "--scales", file("s.json")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("are of another model: of 'm.onnx' with hash"),
                                 HasSubstr("has hash"), HasSubstr("vernier calibrate")));
}

TEST_F(Calibrate, WrongScalesAreRefused) {
  const Outcome absent = build("x.vn", {"--int8", "--scales", file("absent.json")});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.err, HasSubstr("there is no such file"));
  const Outcome shorter = build_with([](json& all) { all.at("sites")[2].at("factors").erase(5); });
  EXPECT_EQ(shorter.code, 2);
  EXPECT_THAT(shorter.err,
              AllOf(HasSubstr("changed.json"), HasSubstr("has 63 factors, expected 64")));
  const Outcome unknown =
      build_with([](json& all) { all.at("sites")[1].at("products")[0] = "/nowhere/MatMul"; });
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err,
              HasSubstr("sites[1].products names '/nowhere/MatMul', which is no node"));
  const Outcome zero = build_with([](json& all) { all.at("sites")[0].at("factors")[7] = 0; });
  EXPECT_EQ(zero.code, 2);
  EXPECT_THAT(zero.err, HasSubstr("sites[0].factors[7] is 0, expected a power of two"));
}

TEST_F(Calibrate, ProductsWithoutAnEntryKeepTheScalesOfTheirRows) {
  const Outcome fewer = build_with([](json& all) { all.at("sites").erase(0); });
  ASSERT_EQ(fewer.code, 0) << fewer.err;
  EXPECT_THAT(fewer.out, HasSubstr("have no entry for 3 products: '"));
  const Outcome half = build_with([](json& all) { all.at("sites")[0].at("products").erase(1); });
  ASSERT_EQ(half.code, 0) << half.err;
  EXPECT_THAT(half.out, HasSubstr("have no entry for "));
  const Outcome verified = run_program({"verify", file("changed.vn"), "--model", file("m.onnx"),
                                        "--batches", "1,2", "--lengths", "4"});
  EXPECT_EQ(verified.code, 0) << verified.out;
}

// Every operand takes the file's range: a row is the same in every batch, and beside any other row.
TEST_F(Calibrate, StaticRangesHoldForAllRows) {
  scales();
  ASSERT_EQ(build("by_row.vn", {"--int8", "--scales", file("s.json")}).code, 0);
  const Outcome built = build("static.vn", {"--int8", "--scales", file("s.json"), "--static"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, Not(HasSubstr("warning")));
  const json plan =
      json::parse(run_program({"inspect", file("static.vn"), "--plan", "--json"}).out);
  int quantized = 0;
  for (const json& step : plan.at("steps")) {
    if (step.at("op") != "QuantizeRows") continue;
    ++quantized;
    EXPECT_EQ(step.at("outputs").size(), 1) << step;
    ASSERT_EQ(step.at("inputs").size(), 4) << step;
    EXPECT_FALSE(step.at("inputs")[2].is_null()) << step;
  }
  EXPECT_EQ(quantized, 2 * 4);
  const Outcome verified = run_program(
      {"verify", file("static.vn"), "--model", file("m.onnx"), "--inputs", file("data/0.npz")});
  EXPECT_EQ(verified.code, 0) << verified.out;
  const auto answer = [](const std::string& engine) {
    const Outcome run = run_program(
        {"run", file(engine), "--inputs", file("data/1.npz"), "-o", file("static.npz")});
    EXPECT_EQ(run.code, 0) << run.err;
    return read_file(file("static.npz"));
  };
  EXPECT_FALSE(answer("static.vn") == answer("by_row.vn"));
}

// What the data did not show saturates, which is what the kernels are to do: no verdict of a bug.
TEST_F(Calibrate, ValuesBeyondAStaticRangeAreNoBug) {
  json narrow = scales();
  for (json& site : narrow.at("sites")) {
    site.at("static").at("low") = site.at("static").at("low").get<double>() / 8;
    site.at("static").at("high") = site.at("static").at("high").get<double>() / 8;
  }
  write_file(file("narrow.json"), narrow.dump());
  const Outcome built = build(
      "narrow.vn", {"--int8", "--int8-error", "1000", "--scales", file("narrow.json"), "--static"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome verified = run_program({"verify", file("narrow.vn"), "--model", file("m.onnx"),
                                        "--inputs", file("data/0.npz"), "--json"});
  const json report = json::parse(verified.out);
  EXPECT_EQ(report.at("verdict"), "precision") << verified.out;
  for (const json& step : report.at("steps")) EXPECT_TRUE(step.at("passed")) << step;
}

TEST_F(Calibrate, StaticScalesNeedARangeOfEveryOperand) {
  scales();
  const Outcome none = build("x.vn", {"--int8", "--static"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, AllOf(HasSubstr("--static takes the ranges of operands from a scales file"),
                              HasSubstr("--scales FILE")));
  const auto static_build = [](const json& changed, const Arguments& more = {}) {
    write_file(file("changed.json"), changed.dump());
    Arguments arguments{"--int8", "--scales", file("changed.json"), "--static"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return build("x.vn", arguments);
  };
  json changed = scales();
  const std::string x = changed.at("sites")[1].at("x"),
                    product = changed.at("sites")[1].at("products")[0];
  changed.at("sites")[1].erase("static");
  changed.at("sites")[2].at("static") = {{"low", 0}, {"high", 0}};
  changed.at("sites").erase(7);
  const Outcome missing = static_build(changed);
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err,
              AllOf(HasSubstr("have no static range for 3 operands of quantized products"),
                    HasSubstr(x.empty() ? "input of " + product : x),
                    HasSubstr("Calibrate the model again")));
  json one = scales();
  one.at("sites")[1].erase("static");
  EXPECT_EQ(static_build(one).code, 2);
  const Outcome kept = static_build(one, {"--rule", "name:" + product + " compute=f16"});
  EXPECT_EQ(kept.code, 0) << kept.err;
}

// The ranges that calibration has found, written as TensorRT writes them.
std::string cache_of(const json& scales, const std::vector<size_t>& sites) {
  std::string text = "TRT-8601-EntropyCalibration2\nnot_here: 3c010a14\n";
  for (const size_t s : sites) {
    const json& site = scales.at("sites").at(s);
    const double largest = std::max(-site.at("static").at("low").get<double>(),
                                    site.at("static").at("high").get<double>());
    char digits[16];
    std::snprintf(digits, sizeof digits, "%08x",
                  std::bit_cast<uint32_t>(static_cast<float>(largest / 127)));
    text += site.at("x").get<std::string>() + ": " + digits + "\n";
  }
  return text;
}

TEST_F(Calibrate, TakesTheRangesOfACacheOfTensorRt) {
  const Outcome max = calibrate("max.json", {"--method", "max"});
  ASSERT_EQ(max.code, 0) << max.err;
  const json made = json::parse(read_file(file("max.json")));
  const auto import = [](const std::string& text, const Arguments& more = {}) {
    write_file(file("m.cache"), text);
    Arguments arguments{"calibrate",     file("m.onnx"), "--import-cache",
                        file("m.cache"), "-o",           file("imported.json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  const Outcome all = import(cache_of(made, {0, 1, 2, 3, 4, 5, 6, 7}));
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, AllOf(HasSubstr("TensorRT 8601, EntropyCalibration2: ranges for 8 of 8"),
                             HasSubstr("the model has no tensor 'not_here' of the cache"),
                             HasSubstr("--scales " + file("imported.json") + " --static")));
  const json imported = json::parse(read_file(file("imported.json")));
  ASSERT_EQ(imported.at("sites").size(), 8);
  for (size_t s = 0; s < 8; ++s) {
    const json &own = imported.at("sites")[s], &theirs = made.at("sites")[s];
    EXPECT_EQ(own.at("products"), theirs.at("products"));
    EXPECT_EQ(own.at("factors").size(), theirs.at("factors").size());
    for (const json& factor : own.at("factors")) EXPECT_EQ(factor, 1);
    EXPECT_EQ(own.at("static").at("low").get<double>(), -own.at("static").at("high").get<double>());
  }
  const Outcome built =
      build("imported.vn", {"--int8", "--scales", file("imported.json"), "--static"});
  ASSERT_EQ(built.code, 0) << built.err;
  const Outcome some = import(cache_of(made, {0, 3}), {"--json"});
  ASSERT_EQ(some.code, 0) << some.err;
  const json report = json::parse(some.out);
  EXPECT_EQ(report.at("found").size(), 2);
  EXPECT_EQ(report.at("missing").size(), 6);
  EXPECT_EQ(report.at("missing")[0].at("x"), made.at("sites")[1].at("x"));
  EXPECT_EQ(report.at("unknown"), json({"not_here"}));
  const Outcome refused = build("x.vn", {"--int8", "--scales", file("imported.json"), "--static"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("have no static range for 6 operands"));
  const Outcome none = import(cache_of(made, {}));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("has no scale of an operand of the products that mode int8"));
  const Outcome wrong = import("TRT-8601-EntropyCalibration2\na: 7fc00000\n");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("m.cache', line 2: the scale of tensor 'a' is nan")));
}

TEST_F(Calibrate, TakesDataOrACache) {
  const Outcome neither = run_program({"calibrate", file("m.onnx"), "-o", file("n.json")});
  EXPECT_EQ(neither.code, 2);
  EXPECT_THAT(neither.err, HasSubstr("--data is missing"));
  const Outcome both = calibrate("n.json", {"--import-cache", file("m.onnx")});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, AllOf(HasSubstr("--import-cache"), HasSubstr("--data")));
}

TEST_F(Calibrate, ScalesWithoutInt8ChangeNothing) {
  scales();
  const Outcome outcome = build("wide.vn", {"--fp32", "--scales", file("s.json")});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("change nothing: no product takes operands of 8 bits"));
}

TEST_F(Calibrate, FactorsOfOneGiveTheEngineWithoutScales) {
  const Outcome ones = build_with([](json& all) {
    for (json& site : all.at("sites"))
      for (json& factor : site.at("factors")) factor = 1;
  });
  ASSERT_EQ(ones.code, 0) << ones.err;
  ASSERT_EQ(build("plain.vn", {"--int8"}).code, 0);
  const auto answer = [&](const std::string& engine) {
    const Outcome run =
        run_program({"run", file(engine), "--inputs", file("data/1.npz"), "-o", file("ones.npz")});
    EXPECT_EQ(run.code, 0) << run.err;
    return read_file(file("ones.npz"));
  };
  EXPECT_TRUE(answer("changed.vn") == answer("plain.vn"));
}

}  // namespace
}  // namespace vernier::test
