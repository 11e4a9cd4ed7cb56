// Canaries in engine files: written with the engine, kept when it is stamped, refused when they
// are senseless. Contract: vernier/canary.h, engine/writer.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Canaries : public ::testing::Test {
 protected:
  Canaries()
      : folder_(fs::temp_directory_path() / ("vernier_canary_" + std::to_string(::getpid()))),
        path_(folder_ / "model.vn") {
    fs::create_directories(folder_);
  }
  ~Canaries() override { fs::remove_all(folder_); }
  fs::path folder_, path_;
};

TEST_F(Canaries, AreRecordedOfTheFileThatIsWritten) {
  write_engine(path_, sample_plan());
  const auto plain = read_engine(path_);
  write_engine(path_, sample_plan(), Watch(), [&](const fs::path& written) {
    EXPECT_NE(written, path_);
    EXPECT_EQ(read_engine(written)->content_hash, plain->content_hash);
    EXPECT_TRUE(read_engine(written)->records.empty());
    return Records{.certificate = {}, .canary = sample_canary()};
  });
  const auto file = read_engine(path_);
  EXPECT_EQ(file->content_hash, plain->content_hash);
  ASSERT_TRUE(file->records.canary);
  EXPECT_EQ(*file->records.canary, sample_canary());
  EXPECT_TRUE(same(file->plan, sample_plan()));
  EXPECT_NO_THROW(check_weights(*file));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Canaries, StayWhenTheEngineIsStamped) {
  write_engine(path_, sample_plan(), Watch(), [](const fs::path&) {
    return Records{.certificate = {}, .canary = sample_canary()};
  });
  const Certificate certificate = sample_certificate(read_engine(path_)->content_hash);
  stamp_certificate(path_, certificate);
  const auto file = read_engine(path_);
  ASSERT_TRUE(file->records.canary && file->records.certificate);
  EXPECT_EQ(*file->records.canary, sample_canary());
  EXPECT_EQ(*file->records.certificate, certificate);
}

TEST_F(Canaries, ThatMakeNoSenseAreErrors) {
  struct Row {
    std::string_view message;
    void (*change)(Canary&);
  };
  for (const Row& row : std::vector<Row>{
           {"has outputs hash 'x', expected 32 hex digits",
            [](Canary& c) { c.runs[0].outputs_hash = "x"; }},
           {"has input 'ids' of 7 bytes, expected a name and 8 for i32[1, 2]",
            [](Canary& c) { c.runs[0].inputs[0].bytes.pop_back(); }},
           {"has input '' of 8 bytes", [](Canary& c) { c.runs[0].inputs[0].name.clear(); }},
           {"has input 'ids' of shape [-1, 2]",
            [](Canary& c) { c.runs[0].inputs[0].shape[0] = -1; }},
           {"has input 'ids' of shape",
            [](Canary& c) {
              c.runs[0].inputs[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
            }},
           {"has a version without a name or number",
            [](Canary& c) { c.versions[0].number.clear(); }},
       }) {
    Canary canary = sample_canary();
    row.change(canary);
    try {
      engine_bytes(sample_plan(), {.certificate = {}, .canary = canary});
      ADD_FAILURE() << "no error: " << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput);
      EXPECT_THAT(error.what(), HasSubstr("the canary " + std::string(row.message)));
    }
  }
}

}  // namespace
}  // namespace vernier::engine
