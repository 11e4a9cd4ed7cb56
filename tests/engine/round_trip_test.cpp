// What is written comes back: every field, weights in place, the same bytes for the same plan.
// Contract: docs/engine_format.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/format.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

TEST(RoundTrip, EveryFieldComesBack) {
  const plan::Plan plan = sample_plan();
  const auto file = read_engine_bytes(engine_bytes(plan));
  EXPECT_TRUE(same(file->plan, plan));
  EXPECT_EQ(file->format_version, kFormatVersion);
  EXPECT_TRUE(file->records.empty());
  EXPECT_NO_THROW(check_weights(*file));
}

TEST(RoundTrip, TheComparisonSeesADifference) {
  plan::Plan plan = sample_plan();
  EXPECT_TRUE(same(plan, sample_plan()));
  plan.steps[1].numerics.points[2].block = 64;
  EXPECT_FALSE(same(plan, sample_plan()));
}

TEST(RoundTrip, TheSamePlanGivesTheSameBytes) {
  const std::vector<std::byte> bytes = engine_bytes(sample_plan());
  EXPECT_EQ(bytes, engine_bytes(sample_plan()));
  const auto file = read_engine_bytes(bytes);
  EXPECT_EQ(engine_bytes(file->plan), bytes) << "a file that was read writes itself";
}

TEST(RoundTrip, APlanOfNothingIsAnEngine) {
  plan::Plan plan;
  plan.device = "cpu";
  plan.segments = {{0, 0}};
  const auto file = read_engine_bytes(engine_bytes(plan));
  EXPECT_TRUE(same(file->plan, plan));
  EXPECT_EQ(file->weights.size(), 0u);
  EXPECT_NO_THROW(check_weights(*file));
}

TEST(RoundTrip, EveryBlobIsAlignedInFileAndMemory) {
  const auto file = read_engine_bytes(engine_bytes(sample_plan()));
  EXPECT_EQ(file->weights_offset % kBlobAlignment, 0u);
  for (const plan::Blob& blob : file->plan.blobs) {
    const auto address = reinterpret_cast<uintptr_t>(blob.bytes.data());
    EXPECT_EQ(address % kBlobAlignment, 0u);
    EXPECT_GE(blob.bytes.data(), file->weights.data());
    EXPECT_LE(blob.bytes.data() + blob.bytes.bytes(), file->weights.data() + file->weights.size());
  }
}

TEST(RoundTrip, BlobsOutliveTheFileThatHeldThem) {
  Tensor table;
  {
    const auto file = read_engine_bytes(engine_bytes(sample_plan()));
    table = file->plan.blobs[0].bytes;
  }
  EXPECT_EQ(table.float_at(19), 19.5);
}

TEST(RoundTrip, WeightsOverSeveralChunksAreChecked) {
  for (const int64_t elems : {16383, 16384, 16385, 40001}) {  // around 64 KiB of f32, and more
    const auto file = read_engine_bytes(engine_bytes(weighty_plan(elems)));
    EXPECT_EQ(file->weight_checksums.size(), static_cast<size_t>((elems * 4 + 65535) / 65536));
    EXPECT_NO_THROW(check_weights(*file));
    EXPECT_TRUE(same(file->plan, weighty_plan(elems)));
  }
}

TEST(RoundTrip, TheHashIsOfEverythingButTheCertificate) {
  const plan::Plan plan = sample_plan();
  const auto plain = read_engine_bytes(engine_bytes(plan));
  EXPECT_EQ(plain->content_hash.size(), 32u);
  const auto stamped = read_engine_bytes(
      engine_bytes(plan, {.certificate = sample_certificate(plain->content_hash)}));
  EXPECT_EQ(stamped->content_hash, plain->content_hash);
  EXPECT_TRUE(same(stamped->plan, plan));

  plan::Plan other = plan;
  other.notes.clear();
  EXPECT_NE(read_engine_bytes(engine_bytes(other))->content_hash, plain->content_hash);
  other = plan;
  other.ledger[0].why = "";
  EXPECT_NE(read_engine_bytes(engine_bytes(other))->content_hash, plain->content_hash);
  other = plan;
  other.blobs[4].bytes = Tensor::scalar(DType::kF64, 0.0);  // one bit of the weights
  EXPECT_NE(read_engine_bytes(engine_bytes(other))->content_hash, plain->content_hash);
}

TEST(RoundTrip, TheHashIsTheSameEverywhere) {
  // Pins the format: a change of this value is a new format version.
  EXPECT_EQ(read_engine_bytes(engine_bytes(sample_plan()))->content_hash,
            "a0a9e90f0350545eb735cfcbaf0d5268");
}

}  // namespace
}  // namespace vernier::engine
