// What a certificate says of a report: the sizes that it covers, the limits that were applied, the
// program and the machine. Contract: vernier/certificate.h, docs/certificates.md "Certificate".
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/pipeline.h"
#include "engine/writer.h"
#include "onnx/import.h"
#include "runtime/certified.h"
#include "runtime/models.h"
#include "verify/verify.h"
#include "vernier/engine.h"

namespace vernier::verify {
namespace {

using Range = Certificate::Range;

std::shared_ptr<const Engine> engine_of(const std::string& name, const std::string& mode = {}) {
  CompileOptions options;
  options.mode = mode;
  const std::string path = test::example_model(name).path.string();
  return Engine::from_bytes(engine::engine_bytes(compiler::run(path, options).plan));
}

CellResult cell(int64_t batch, int64_t length) {
  CellResult one;
  one.batch = batch;
  one.length = length;
  one.named_sizes = {{"batch", batch}, {"seq", length}};
  return one;
}

Range range(std::vector<int64_t> batches, std::vector<int64_t> lengths) {
  return {{"batch", std::move(batches)}, {"seq", std::move(lengths)}};
}

TEST(CertificateOf, TheGridIsOneRangeAndEveryOtherCellIsItsOwn) {
  Report report;
  for (const int64_t length : {16, 4}) {
    for (const int64_t batch : {1, 4, 2}) report.cells.push_back(cell(batch, length));
  }
  for (const auto& [batch, length] : {std::pair{1, 512}, {3, 511}}) {
    report.cells.push_back(cell(batch, length));
    report.cells.back().far = true;
  }
  for (int file = 0; file < 2; ++file) {  // two files of the same sizes
    report.cells.push_back(cell(2, 90));
    report.cells.back().given = true;
  }
  const Certificate certificate = certificate_of(*engine_of("bert_ts11"), report, "hash");
  EXPECT_EQ(certificate.ranges, (std::vector<Range>{range({1, 2, 4}, {4, 16}), range({1}, {512}),
                                                    range({3}, {511}), range({2}, {90})}));
}

// Files alone make no grid: batch 1 of length 100 and batch 8 of length 4 say nothing of 8 x 100.
TEST(CertificateOf, FilesAreNoGrid) {
  Report report;
  report.cells = {cell(1, 100), cell(8, 4)};
  for (CellResult& one : report.cells) one.given = true;
  const Certificate certificate = certificate_of(*engine_of("bert_ts11"), report, "hash");
  EXPECT_EQ(certificate.ranges, (std::vector<Range>{range({1}, {100}), range({8}, {4})}));
}

TEST(CertificateOf, ASweepWithCellsBeyondItsGrid) {
  const auto model = onnx::import_model(test::example_model("bert_ts11").path);
  const auto engine = engine_of("bert_ts11");
  Request request;
  request.threads = 2;
  const Report report = verify_engine(engine, *model, request);
  ASSERT_TRUE(report.passed()) << to_text(report);
  const Certificate certificate = certificate_of(*engine, report, "hash");
  ASSERT_GT(certificate.ranges.size(), 1U);
  EXPECT_EQ(certificate.ranges[0], range({1, 2, 4, 8}, {4, 16, 48}));
  for (size_t i = 1; i < certificate.ranges.size(); ++i) {
    for (const Certificate::Size& size : certificate.ranges[i])
      EXPECT_EQ(size.swept.size(), 1U) << runtime::range_text(certificate.ranges[i]);
  }
  EXPECT_EQ(certificate.versions, runtime::environment_of(*engine->impl().backend));
}

TEST(CertificateOf, LimitsAreThoseThatTheOutputsWereHeldTo) {
  const auto model = onnx::import_model(test::example_model("bert_ts11").path);
  const auto engine = engine_of("bert_ts11", "bf16");
  Request request;
  request.threads = 2;
  request.batches = {2};
  request.lengths = {16};
  const Report report = verify_engine(engine, *model, request);
  ASSERT_TRUE(report.passed()) << to_text(report);
  const Certificate certificate = certificate_of(*engine, report, "hash");
  EXPECT_FALSE(certificate.own_tolerance);
  ASSERT_EQ(certificate.outputs.size(), report.outputs.size());
  for (size_t i = 0; i < report.outputs.size(); ++i) {
    const OutputResult& output = report.outputs[i];
    // bf16 explains more than 1e-5: that is what an element and all of them may be off by.
    EXPECT_GT(output.limits.element, 1e-3);
    EXPECT_GT(output.limits.rms, 1e-3 * output.all_rms_reference);
    EXPECT_LE(output.all_rms, output.limits.rms);
    EXPECT_EQ(certificate.outputs[i].output, output.name);
    EXPECT_EQ(certificate.outputs[i].noise_rms, output.noise_rms);
    EXPECT_EQ(
        certificate.outputs[i].limits,
        (std::vector<Certificate::Limit>{
            {"worst", 1e-5}, {"element", output.limits.element}, {"rms", output.limits.rms}}));
  }
  EXPECT_NE(to_text(report).find("held to each element 1e-05·(1+|reference|) or "),
            std::string::npos);
  request.tolerance = parse_tolerance("rms=0.5,flips=1");
  const Report own = verify_engine(engine, *model, request);
  const Certificate certified = certificate_of(*engine, own, "hash");
  EXPECT_TRUE(certified.own_tolerance);
  EXPECT_EQ(certified.tolerances, (std::vector<Certificate::Limit>{{"rms", 0.5}, {"flips", 1}}));
  ASSERT_EQ(certified.outputs[0].limits.size(), 2U);
  EXPECT_EQ(certified.outputs[0].limits[0].name, "rms");
  EXPECT_NEAR(certified.outputs[0].limits[0].value, 0.5 * own.outputs[0].all_rms_reference, 1e-9);
}

}  // namespace
}  // namespace vernier::verify
