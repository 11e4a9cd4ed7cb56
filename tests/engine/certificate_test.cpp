// Certificates: stamped into a file whose engine stays the same, read back, and refused when they
// are damaged, senseless or of another engine. Contract: vernier/certificate.h, engine/writer.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>

#include "assemble.h"
#include "core/hash.h"
#include "engine/codec.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Bytes slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

class Stamp : public ::testing::Test {
 protected:
  Stamp()
      : folder_(fs::temp_directory_path() /
                ("vernier_stamp_" + std::to_string(::getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "model.vn") {
    fs::create_directories(folder_);
    write_engine(path_, sample_plan());
    certificate_ = sample_certificate(read_engine(path_)->content_hash);
  }
  ~Stamp() override { fs::remove_all(folder_); }

  // The error of stamping; the file must be as it was, and alone.
  std::string refusal(const Certificate& certificate) const {
    const Bytes before = slurp(path_);
    std::string message = "no error";
    try {
      stamp_certificate(path_, certificate);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput) << error.what();
      message = error.what();
    }
    EXPECT_EQ(slurp(path_), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
    return message;
  }

  fs::path folder_, path_;
  Certificate certificate_;
};

TEST_F(Stamp, EveryFieldComesBackAndTheEngineStays) {
  const auto plain = read_engine(path_);
  EXPECT_FALSE(plain->records.certificate);
  stamp_certificate(path_, certificate_);
  const auto stamped = read_engine(path_);
  ASSERT_TRUE(stamped->records.certificate);
  EXPECT_EQ(*stamped->records.certificate, certificate_);
  EXPECT_TRUE(stamped->records.certificate->passed());
  EXPECT_EQ(stamped->content_hash, plain->content_hash);
  EXPECT_TRUE(same(stamped->plan, sample_plan()));
  EXPECT_NO_THROW(check_weights(*stamped));
  EXPECT_EQ(slurp(path_), engine_bytes(sample_plan(), {.certificate = certificate_}));
}

TEST_F(Stamp, TheLastOneCounts) {
  stamp_certificate(path_, certificate_);
  const Bytes first = slurp(path_);
  Certificate failed = certificate_;
  failed.verdict = "precision";
  failed.ranges.clear();
  failed.tolerances = {{"worst", -0.0}};
  stamp_certificate(path_, failed);
  EXPECT_EQ(*read_engine(path_)->records.certificate, failed);
  EXPECT_FALSE(read_engine(path_)->records.certificate->passed());
  stamp_certificate(path_, certificate_);
  EXPECT_EQ(slurp(path_), first) << "the same certificate gives the same bytes";
}

TEST_F(Stamp, OpenEnginesAndPermissionsStay) {
  ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  const auto before = read_engine(path_);
  stamp_certificate(path_, certificate_);
  EXPECT_NO_THROW(check_weights(*before));
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(Stamp, ALinkStaysALink) {
  fs::create_symlink("model.vn", folder_ / "link.vn");
  stamp_certificate(folder_ / "link.vn", certificate_);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.vn"));
  EXPECT_TRUE(read_engine(path_)->records.certificate);
}

TEST_F(Stamp, AnotherEnginesCertificateIsRefused) {
  write_engine(path_, weighty_plan(7));
  EXPECT_THAT(
      refusal(certificate_),
      AllOf(HasSubstr("engine '" + path_.string() +
                      "' was not stamped: the certificate is "
                      "of another engine: verified was the content with hash " +
                      certificate_.engine_hash + ", here is " + read_engine(path_)->content_hash),
            HasSubstr("verify the engine again")));
}

TEST_F(Stamp, CorruptWeightsAreNotCertified) {
  Bytes bytes = slurp(path_);
  bytes.back() ^= std::byte{1};
  std::ofstream(path_, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<long>(bytes.size()));
  EXPECT_THAT(refusal(certificate_), HasSubstr("its weights are corrupt between offsets"));
}

TEST_F(Stamp, AFullDiskLeavesTheEngineAsItWas) {
  const Bytes before = slurp(path_);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit full{before.size(), old.rlim_max};  // room for the engine, not for its certificate
  ::setrlimit(RLIMIT_FSIZE, &full);
  try {
    stamp_certificate(path_, certificate_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_THAT(error.what(), HasSubstr("cannot write engine '" + path_.string() + "': File too "));
  }
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(slurp(path_), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Stamp, OnlyEnginesAreStamped) {
  std::ofstream(path_) << "not an engine";
  EXPECT_THAT(refusal(certificate_), HasSubstr("model.vn': it is not an engine"));
  fs::remove(path_);
  EXPECT_THROW(stamp_certificate(path_, certificate_), Error);
}

struct Senseless {
  const char* message;
  void (*change)(Certificate&);
};

// Stamping refuses them, and so does opening a file that holds one all the same.
TEST_F(Stamp, CertificatesThatMakeNoSenseAreRefused) {
  const auto file = read_engine(path_);
  for (const Senseless& row : std::vector<Senseless>{
           {"has no verdict in plain text", [](Certificate& c) { c.verdict = ""; }},
           {"has no verdict in plain text", [](Certificate& c) { c.verdict = "pass\x1b[2J"; }},
           {"has engine hash 'x', expected 32 hex digits",
            [](Certificate& c) { c.engine_hash = "x"; }},
           {"has model hash '', expected 32 hex digits", [](Certificate& c) { c.model_hash = ""; }},
           {"has data hash 'FFEEDDCCBBAA99887766554433221100', expected",
            [](Certificate& c) { c.data_hash = "FFEEDDCCBBAA99887766554433221100"; }},
           {"has size 'batch' = 0, expected ascending sizes",
            [](Certificate& c) { c.ranges[0][0].swept[2] = 0; }},
           {"has size 'batch' = 2, expected ascending sizes",
            [](Certificate& c) { c.ranges[0][0].swept[2] = 2; }},
           {"has size 'seq' = -4, expected ascending sizes of at least 0",
            [](Certificate& c) { c.ranges[0][1].swept[0] = -4; }},
           {"has no value of size 'seq'", [](Certificate& c) { c.ranges[1][1].swept.clear(); }},
           {"has a size without a name", [](Certificate& c) { c.ranges[1][0].name = ""; }},
           {"has an output without a name", [](Certificate& c) { c.outputs[0].output = ""; }},
           {"has limit rms = nan", [](Certificate& c) { c.outputs[0].limits[0].value = NAN; }},
           {"has limit noise = inf", [](Certificate& c) { c.outputs[0].noise_rms = INFINITY; }},
           {"has a plugin without a name", [](Certificate& c) { c.plugins[0].name = ""; }},
           {"has plugin hash 'x', expected 32 hex digits",
            [](Certificate& c) { c.plugins[0].hash = "x"; }},
           {"has a limit without a name", [](Certificate& c) { c.tolerances[1].name = ""; }},
           {"has limit rms = nan", [](Certificate& c) { c.tolerances[0].value = NAN; }},
           {"has limit rms = inf", [](Certificate& c) { c.tolerances[0].value = INFINITY; }},
           {"has a version without a name or number",
            [](Certificate& c) { c.versions[0].of = ""; }},
           {"has a version without a name or number",
            [](Certificate& c) { c.versions[1].number = ""; }},
           {"is of another engine",
            [](Certificate& c) { c.engine_hash = "00000000000000000000000000000000"; }},
       }) {
    Certificate certificate = certificate_;
    row.change(certificate);
    EXPECT_THAT(refusal(certificate),
                AllOf(HasSubstr("was not stamped"),
                      HasSubstr("the certificate " + std::string(row.message))));
    const Bytes bytes = assemble({encode_plan(file->plan), encode_ledger(file->plan),
                                  Bytes(file->weights.begin(), file->weights.end()),
                                  encode_records({.certificate = certificate})});
    try {
      read_engine_bytes(bytes);
      ADD_FAILURE() << "no error: " << row.message;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInput);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("its records section at offset "),
                                      HasSubstr(row.message), HasSubstr("rebuild it")));
    }
  }
}

TEST_F(Stamp, EveryFlippedBitAndEveryCutIsFound) {
  stamp_certificate(path_, certificate_);
  Bytes bytes = slurp(path_);
  const size_t begin = bytes.size() - encode_records({.certificate = certificate_}).size();
  for (size_t at = begin; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      try {
        read_engine_bytes(bytes);
        ADD_FAILURE() << "no error for bit " << bit << " of byte " << at;
      } catch (const Error& error) {
        ASSERT_THAT(error.what(),
                    AllOf(HasSubstr("its records section at offset " + std::to_string(begin)),
                          HasSubstr("is corrupt; copy the file again")));
      }
      bytes[at] ^= static_cast<std::byte>(1 << bit);
    }
  }
  for (size_t size = begin; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<long>(size));
    EXPECT_THROW(read_engine_bytes(cut), Error) << size;
  }
}

TEST_F(Stamp, SectionsThatDoNotDecodeAreErrors) {
  const Bytes section = encode_records({.certificate = certificate_});
  for (size_t size = 0; size < section.size(); ++size)
    EXPECT_THROW(decode_records(std::span(section).first(size)), Error) << size;
  const auto file = read_engine(path_);
  try {
    read_engine_bytes(assemble({encode_plan(file->plan), encode_ledger(file->plan),
                                Bytes(file->weights.begin(), file->weights.end()), Bytes(3)}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("records section at offset"));
    EXPECT_THAT(error.what(), HasSubstr("the section ends inside a number"));
  }
}

}  // namespace
}  // namespace vernier::engine
