// Certificates as a user meets them: run --require-certificate on what a certificate covers and on
// what it does not, run --check, and inspect. Contract: docs/certificates.md "Certificate".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/engine_fixture.h"
#include "engine/format.h"
#include "engine/reader.h"
#include "engine/writer.h"

namespace vernier::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The engine, stamped by verify over batches 1 to 4 and lengths 4 to 48; the inputs are 4 x 48.
class Certified : public WithEngine {
 protected:
  static void SetUpTestSuite() {
    WithEngine::SetUpTestSuite();
    std::filesystem::copy_file(engine(), file("pass.vn"));
    const Outcome verified = run_program({"verify", file("pass.vn"), "--model", kModel, "--batches",
                                          "1,4", "--lengths", "4,48", "--stamp"});
    ASSERT_EQ(verified.code, 0) << verified.out << verified.err;
    certificate_ = new Certificate(*engine::read_engine(file("pass.vn"))->records.certificate);
  }
  static void TearDownTestSuite() {
    delete certificate_;
    WithEngine::TearDownTestSuite();
  }
  /// A copy whose certificate has this change.
  template <class Change>
  static std::string stamped(const Change& change) {
    const std::string path = file("changed.vn");
    std::filesystem::copy_file(engine(), path, std::filesystem::copy_options::overwrite_existing);
    Certificate certificate = *certificate_;
    change(certificate);
    engine::stamp_certificate(path, certificate);
    return path;
  }
  static Outcome run_certified(const std::string& path,
                               std::vector<std::string> options = {"--require-certificate"}) {
    std::vector<std::string> arguments{"run",    path, "--inputs",
                                       inputs(), "-o", file("certified.npz")};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  }
  static void expect_refused(const std::string& path, const std::string& why,
                             std::vector<std::string> options = {"--require-certificate"}) {
    const Outcome outcome = run_certified(path, std::move(options));
    EXPECT_EQ(outcome.code, 1) << why;
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("vernier: error: --require-certificate: engine '" + path + "' "),
                      HasSubstr(why)));
    EXPECT_FALSE(std::filesystem::exists(file("certified.npz"))) << why;
  }
  static Certificate* certificate_;
};
Certificate* Certified::certificate_ = nullptr;

TEST_F(Certified, AnEngineThatPassedRunsAndGivesTheSameBits) {
  ASSERT_EQ(run_program({"run", engine(), "--inputs", inputs(), "-o", file("plain.npz")}).code, 0);
  const Outcome outcome = run_certified(file("pass.vn"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(file("certified.npz")), read_file(file("plain.npz")));
  std::filesystem::remove(file("certified.npz"));
  // Sizes between those that were run are covered, too.
  const std::string fewer = changed_inputs([](NamedTensors& arrays) {
    for (auto& [name, tensor] : arrays) {
      tensor = Tensor::from_bytes(tensor.dtype(), {3, 48},
                                  tensor.byte_span().first(tensor.bytes() / 4 * 3));
    }
  });
  EXPECT_EQ(run_program({"run", file("pass.vn"), "--inputs", fewer, "-o", file("fewer.npz"),
                         "--require-certificate"})
                .code,
            0);
}

TEST_F(Certified, ItRecordsWhatWasDone) {
  const Certificate& c = *certificate_;
  ASSERT_EQ(c.ranges.size(), 1U);
  EXPECT_EQ(c.ranges[0], (Certificate::Range{{"batch", {1, 4}}, {"seq", {4, 48}}}));
  EXPECT_FALSE(c.own_tolerance);
  EXPECT_FALSE(c.accepted_declared);
  ASSERT_EQ(c.outputs.size(), 1U);
  EXPECT_EQ(c.outputs[0].output, "output");
  EXPECT_GT(c.outputs[0].noise_rms, 0);
  EXPECT_GT(c.outputs[0].reference_rms, 0);
  std::vector<std::string> limits, versions;
  for (const auto& limit : c.outputs[0].limits) limits.push_back(limit.name);
  for (const auto& version : c.versions) versions.push_back(version.of);
  EXPECT_THAT(limits, testing::ElementsAre("worst", "element", "rms"));
  EXPECT_THAT(versions, testing::IsSupersetOf({"vernier", "build", "target"}));
  EXPECT_TRUE(c.plugins.empty());
}

// An engine in 16 bits is held to what its types explain, which is more than 1e-5.
TEST_F(Certified, TheLimitsAreThoseThatWereApplied) {
  const std::string half = file("half.vn");
  ASSERT_EQ(run_program({"build", kModel, "-o", half, "--bf16"}).code, 0);
  const Outcome verified = run_program({"verify", half, "--model", kModel, "--batches", "2",
                                        "--lengths", "16", "--stamp", "--json"});
  ASSERT_EQ(verified.code, 0) << verified.out;
  const json output = json::parse(verified.out).at("outputs")[0];
  const auto stored = engine::read_engine(half)->records.certificate->outputs.at(0);
  for (const auto& [name, value] : stored.limits)
    EXPECT_EQ(output.at("limits").at(name), value) << name;
  EXPECT_GT(output.at("limits").at("rms"),
            1e-4 * output.at("all_cells").at("rms_reference").get<double>());
  EXPECT_GE(output.at("limits").at("rms"), output.at("all_cells").at("rms"));
  EXPECT_EQ(stored.noise_rms, output.at("noise_rms"));
}

TEST_F(Certified, AnEngineThatNobodyVerifiedIsRefused) {
  expect_refused(engine(),
                 "has no certificate; 'vernier verify ENGINE --model MODEL.onnx --stamp' "
                 "makes one");
}

TEST_F(Certified, AnEngineThatFailedIsRefusedWithItsVerdict) {
  expect_refused(stamped([](Certificate& c) { c.verdict = "precision"; }),
                 "has the verdict 'precision', not 'pass'");
}

struct Outside {
  const char* why;
  void (*change)(Certificate&);
};

void set(Certificate& c, const std::string& of, const std::string& number) {
  const auto found = std::ranges::find(c.versions, of, &Certificate::Version::of);
  ASSERT_NE(found, c.versions.end()) << of;
  found->number = number;
}

TEST_F(Certified, WhatLiesOutsideIsRefusedWithTheReason) {
  for (const Outside& row : std::vector<Outside>{
           {"was verified with batch 1..3, seq 4..48, and these inputs have batch=4, seq=48; "
            "verify "
            "it over such sizes",
            [](Certificate& c) {
              c.ranges = {{{"batch", {1, 3}}, {"seq", {4, 48}}}};
            }},
           {"was verified with batch 1, seq 1, and these inputs",
            [](Certificate& c) {
              c.ranges = {{{"batch", {1}}, {"seq", {1}}}};
            }},
           // Each axis is inside one range, but not both inside the same.
           {"was verified with batch 4, seq 4; batch 1, seq 48, and these inputs",
            [](Certificate& c) {
              c.ranges = {{{"batch", {4}}, {"seq", {4}}}, {{"batch", {1}}, {"seq", {48}}}};
            }},
           {"was verified with no sizes", [](Certificate& c) { c.ranges.clear(); }},
           {"was verified with fixed sizes, and these", [](Certificate& c) { c.ranges = {{}}; }},
           {"was verified with build 'x' and runs with '",
            [](Certificate& c) { set(c, "build", "x"); }},
           {"was verified with vernier '0.0.9' and runs with '0.1.0'; verify it here again",
            [](Certificate& c) { set(c, "vernier", "0.0.9"); }},
           {"was verified with target 'x86_64 AVX2' and runs with '",
            [](Certificate& c) { set(c, "target", "x86_64 AVX2"); }},
           {"was verified with driver '570.1' and runs with none",
            [](Certificate& c) {
              c.versions.push_back({"driver", "570.1"});
            }},
           {"was verified with build none and runs with '",
            [](Certificate& c) {
              std::erase_if(c.versions, [](const auto& v) { return v.of == "build"; });
            }},
           {"was verified with plugin 'mine' (mine.so, XXH3-128 "
            "00112233445566778899aabbccddeeff) "
            "and runs without it",
            [](Certificate& c) {
              c.plugins = {{"mine", "mine.so", "00112233445566778899aabbccddeeff"}};
            }},
           {"passed under limits of its user's own, --tolerance rms=10; verify it without",
            [](Certificate& c) {
              c.own_tolerance = true;
              c.tolerances = {{"rms", 10}};
            }},
           {"passed because errors that its kernels declare were accepted",
            [](Certificate& c) { c.accepted_declared = true; }},
       }) {
    expect_refused(stamped(row.change), row.why);
  }
}

TEST_F(Certified, ACellOfItsOwnIsCoveredAsItIs) {
  const std::string path = stamped([](Certificate& c) {
    c.ranges = {{{"batch", {1, 2}}, {"seq", {4, 16}}}, {{"batch", {4}}, {"seq", {48}}}};
  });
  EXPECT_EQ(run_certified(path).code, 0);
  std::filesystem::remove(file("certified.npz"));
}

TEST_F(Certified, TermsAreTakenOnlyWhereTheyAreAskedFor) {
  const auto own = [](Certificate& c) { c.own_tolerance = true; };
  const auto declared = [](Certificate& c) { c.accepted_declared = true; };
  const auto both = [](Certificate& c) { c.own_tolerance = c.accepted_declared = true; };
  EXPECT_EQ(run_certified(stamped(own), {"--require-certificate", "--accept-own-tolerance"}).code,
            0);
  EXPECT_EQ(run_certified(stamped(declared), {"--require-certificate", "--accept-declared"}).code,
            0);
  std::filesystem::remove(file("certified.npz"));
  expect_refused(stamped(own), "--accept-own-tolerance",
                 {"--require-certificate", "--accept-declared"});
  expect_refused(stamped(both), "--accept-declared",
                 {"--require-certificate", "--accept-own-tolerance"});
  const Outcome alone = run_certified(stamped(own), {"--accept-own-tolerance"});
  EXPECT_EQ(alone.code, 2);
  EXPECT_THAT(alone.err, HasSubstr("--require-certificate takes; add it, or leave them out"));
}

TEST_F(Certified, NanInAnOutputIsRefusedByName) {
  const std::string model = "tests/models/vit_ts17/model.onnx", built = file("vit.vn");
  ASSERT_EQ(run_program({"build", model, "-o", built}).code, 0);
  ASSERT_EQ(run_program({"verify", built, "--model", model, "--batches", "1", "--stamp"}).code, 0);
  std::vector<float> pixels(3 * 64 * 64, 0.5F);
  const auto outcome_of = [&] {
    const auto bytes = std::as_bytes(std::span(pixels));
    io::write_npz(file("pixels.npz"),
                  {{"pixel_values", Tensor::from_bytes(DType::kF32, {1, 3, 64, 64}, bytes)}});
    return run_program({"run", built, "--inputs", file("pixels.npz"), "-o", file("vit.npz"),
                        "--require-certificate"});
  };
  EXPECT_EQ(outcome_of().code, 0);
  std::filesystem::remove(file("vit.npz"));
  pixels[100] = std::numeric_limits<float>::quiet_NaN();
  const Outcome outcome = outcome_of();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              HasSubstr("--require-certificate: output 'output' holds NaN or infinity"));
  EXPECT_FALSE(std::filesystem::exists(file("vit.npz")));
}

// What verify itself writes, under limits that are the user's.
TEST_F(Certified, ATolerancedVerdictIsTheUsersOwn) {
  std::filesystem::copy_file(engine(), file("own.vn"));
  const Outcome verified =
      run_program({"verify", file("own.vn"), "--model", kModel, "--batches", "4", "--lengths", "48",
                   "--tolerance", "rms=10", "--stamp"});
  ASSERT_EQ(verified.code, 0) << verified.out;
  expect_refused(file("own.vn"), "passed under limits of its user's own, --tolerance rms=10");
  EXPECT_EQ(run_certified(file("own.vn"), {"--require-certificate", "--accept-own-tolerance"}).code,
            0);
  std::filesystem::remove(file("certified.npz"));
}

TEST_F(Certified, BuildStampsOwnLimitsOnlyWhenToldTo) {
  const std::string model = "tests/models/vit_ts17/model.onnx", built = file("built.vn");
  const std::vector<std::string> build{"build",    model,         "-o",      built,
                                       "--verify", "--tolerance", "rms=1e-2"};
  const Outcome plain = run_program(build);
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("not stamped: the limits of --tolerance are your own"));
  EXPECT_FALSE(engine::read_engine(built)->records.certificate);
  std::vector<std::string> told = build;
  told.insert(told.end(), {"--stamp", "--json"});
  const Outcome stamped = run_program(told);
  ASSERT_EQ(stamped.code, 0) << stamped.err;
  EXPECT_EQ(json::parse(stamped.out).at("stamped"), true);
  ASSERT_TRUE(engine::read_engine(built)->records.certificate);
  EXPECT_TRUE(engine::read_engine(built)->records.certificate->own_tolerance);
  const Outcome usual = run_program({"build", model, "-o", built, "--verify"});
  ASSERT_EQ(usual.code, 0);
  EXPECT_THAT(usual.out, Not(HasSubstr("not stamped")));
  EXPECT_FALSE(engine::read_engine(built)->records.certificate->own_tolerance);
  const Outcome lonely = run_program({"build", model, "-o", built, "--stamp"});
  EXPECT_EQ(lonely.code, 2);
  EXPECT_THAT(lonely.err, HasSubstr("add --verify"));
}

// The section begins with its version; the engine is read whatever it is.
TEST_F(Certified, ACertificateOfAnotherVersionDoesNotCount) {
  std::string bytes = read_file(file("pass.vn"));
  const auto put = [&](size_t at, auto number) {
    std::memcpy(bytes.data() + at, &number, sizeof number);
  };
  const auto checksum_of = [&](size_t begin, size_t end) {
    return engine::checksum(std::as_bytes(std::span(bytes).subspan(begin, end - begin)));
  };
  constexpr size_t kEntry = 40 + 4 * 32;  // of the certificate, in the header
  uint64_t begin = 0;
  std::memcpy(&begin, bytes.data() + kEntry + 8, sizeof begin);
  put(begin, engine::kRecordsVersion - 1);
  put(kEntry + 24, checksum_of(begin, bytes.size()));
  put(engine::kHeaderBytes - 8, checksum_of(0, engine::kHeaderBytes - 8));
  write_file(file("old.vn"), bytes);
  expect_refused(file("old.vn"),
                 "has a certificate of another version, which does not record what it was verified "
                 "with; verify it here again");
  EXPECT_EQ(run_certified(file("old.vn"), {"--check"}).code, 0) << "the engine itself is read";
  std::filesystem::remove(file("certified.npz"));
  EXPECT_THAT(run_program({"inspect", file("old.vn")}).out,
              HasSubstr("certificate of another version, which does not count"));
  engine::stamp_certificate(file("old.vn"), *certificate_);
  EXPECT_EQ(run_certified(file("old.vn")).code, 0);
  std::filesystem::remove(file("certified.npz"));
}

TEST_F(Certified, TheWeightsAreReadToo) {
  const std::string path = file("pass.vn");
  std::string bytes = read_file(path);
  const auto weights_at = engine::read_engine(path)->weights_offset;
  bytes[weights_at + 100] = static_cast<char>(bytes[weights_at + 100] ^ 1);
  write_file(file("flipped.vn"), bytes);
  for (const char* option : {"--require-certificate", "--check"}) {
    const Outcome outcome = run_certified(file("flipped.vn"), {option});
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_THAT(outcome.err, HasSubstr("its weights are corrupt between offsets"));
    EXPECT_FALSE(std::filesystem::exists(file("certified.npz")));
  }
  EXPECT_EQ(run_certified(path, {"--check"}).code, 0);
  std::filesystem::remove(file("certified.npz"));
}

TEST_F(Certified, InspectShowsIt) {
  const std::string path = stamped([](Certificate& c) {
    c.verdict = "precision";
    c.model_hash = std::string(32, 'a');
    c.own_tolerance = c.accepted_declared = true;
    c.tolerances = {{"rms", 0.001}};
    c.outputs = {{"output", 0.25, 2, {{"worst", 1e-5}, {"rms", 0.75}}}};
    c.versions = {{"vernier", "0.1.0"}, {"driver", "570.1"}};
    c.plugins = {{"mine", "mine.so", std::string(32, 'c')}};
    c.ranges.push_back({{"batch", {1}}, {"seq", {512}}});
  });
  const Outcome text = run_program({"inspect", path});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const std::string& part :
       {std::string("certificate precision\n"), "model     " + std::string(32, 'a') + "\n",
        std::string("sizes     batch 1, 4; seq 4, 48\n"),
        std::string("sizes     batch 1; seq 512\n"),
        std::string("limits    rms 0.001 (the user's own)\n"),
        std::string("output    output: held to worst 1e-05, rms 0.75; noise 0.25, rms of the "
                    "reference 2\n"),
        std::string("accepted  errors that kernels declare above the cap\n"),
        std::string("version   vernier 0.1.0\n"), std::string("version   driver 570.1\n"),
        "plugin    mine: mine.so (" + std::string(32, 'c') + ")\n"}) {
    EXPECT_THAT(text.out, HasSubstr(part));
  }
  const json summary = json::parse(run_program({"inspect", path, "--json"}).out);
  const json expected{
      {"verdict", "precision"},
      {"engine_hash", summary.at("engine_hash")},
      {"model_hash", std::string(32, 'a')},
      {"data_hash", certificate_->data_hash},
      {"ranges", {{{"batch", {1, 4}}, {"seq", {4, 48}}}, {{"batch", {1}}, {"seq", {512}}}}},
      {"tolerance", {{"rms", 0.001}}},
      {"own_tolerance", true},
      {"accepted_declared", true},
      {"outputs", json::array({{{"name", "output"},
                                {"noise_rms", 0.25},
                                {"rms_reference", 2.0},
                                {"limits", {{"worst", 1e-5}, {"rms", 0.75}}}}})},
      {"versions", {{"vernier", "0.1.0"}, {"driver", "570.1"}}},
      {"plugins",
       json::array({{{"name", "mine"}, {"file", "mine.so"}, {"hash", std::string(32, 'c')}}})}};
  EXPECT_EQ(summary.at("certificate"), expected);
  EXPECT_THAT(run_program({"inspect", engine()}).out, HasSubstr("certificate none: not verified"));
  EXPECT_TRUE(
      json::parse(run_program({"inspect", engine(), "--json"}).out).at("certificate").is_null());
}

}  // namespace
}  // namespace vernier::test
