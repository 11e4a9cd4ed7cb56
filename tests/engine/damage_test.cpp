// Damaged, foreign and newer files: a clear error, whatever byte is wrong. Contract:
// docs/engine_format.md "What a reader checks".
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "assemble.h"
#include "engine/codec.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr size_t kHeaderChecksumAt = kHeaderBytes - 8;

std::string message_of(const Bytes& bytes) {
  try {
    read_engine_bytes(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput) << error.what();
    return error.what();
  }
  return "no error";
}

Bytes sample_bytes() { return engine_bytes(sample_plan()); }

Bytes to_bytes(const std::string& text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

template <class T>
void poke(Bytes& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
}
// The header with its checksum made right again.
Bytes resealed(Bytes bytes) {
  poke(bytes, kHeaderChecksumAt, checksum(std::span(bytes).first(kHeaderChecksumAt)));
  return bytes;
}
// Where the table says offset (0), size (8) or checksum (16) of section `index`.
size_t entry_at(size_t index, size_t field) { return 40 + index * 32 + 8 + field; }

TEST(Damage, AFileCutAnywhereIsTruncated) {
  const Bytes bytes = sample_bytes();
  EXPECT_THAT(message_of({}), HasSubstr("engine in memory: it is empty"));
  for (size_t size = 1; size < bytes.size(); ++size) {
    const std::string message =
        message_of({bytes.begin(), bytes.begin() + static_cast<long>(size)});
    ASSERT_THAT(message, HasSubstr("engine in memory: it is truncated: it has " +
                                   std::to_string(size) + " of "))
        << size;
    ASSERT_THAT(message, HasSubstr("copy it again or rebuild it"));
  }
}

TEST(Damage, AFlippedBitBeforeTheWeightsIsFoundWhenOpening) {
  Bytes bytes = sample_bytes();
  const size_t weights_at = read_engine_bytes(bytes)->weights_offset;
  ASSERT_GT(weights_at, kHeaderBytes);
  for (size_t at = 0; at < weights_at; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      const std::string message = message_of(bytes);
      ASSERT_THAT(message, HasSubstr("engine in memory: it")) << at << " bit " << bit;
      ASSERT_THAT(message, AnyOf(HasSubstr("corrupt"), HasSubstr("not an engine"),
                                 HasSubstr("format version")));
      bytes[at] ^= static_cast<std::byte>(1 << bit);
    }
  }
}

TEST(Damage, AFlippedBitInTheWeightsIsFoundWhenChecked) {
  Bytes bytes = sample_bytes();
  const auto good = read_engine_bytes(bytes);
  for (size_t at = good->weights_offset; at < bytes.size(); ++at) {
    bytes[at] ^= std::byte{16};
    const auto file = read_engine_bytes(bytes);
    EXPECT_EQ(file->content_hash, good->content_hash);
    EXPECT_THROW(check_weights(*file), Error) << at;
    bytes[at] ^= std::byte{16};
  }
}

TEST(Damage, BadWeightsAreNamedByOffsetAndBlob) {
  plan::Plan plan = weighty_plan(40001);
  Bytes bytes = engine_bytes(plan);
  const auto offset = read_engine_bytes(bytes)->weights_offset;
  bytes[offset + 65536 + 5] ^= std::byte{1};
  try {
    check_weights(*read_engine_bytes(bytes));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_EQ(error.what(), "engine in memory: its weights are corrupt between offsets " +
                                std::to_string(offset + 65536) + " and " +
                                std::to_string(offset + 131072) +
                                ": blob 0 ('w'); copy the file again or rebuild it");
  }
}

TEST(Damage, ABadSectionIsNamed) {
  const Bytes good = sample_bytes();
  struct Case {
    size_t section;
    const char* expected;
  };
  for (const Case& c : {Case{0, "its plan section at offset 208"}, Case{1, "its ledger section"},
                        Case{2, "its weight checksums section"}}) {
    Bytes bytes = good;
    uint64_t offset = 0;
    std::memcpy(&offset, bytes.data() + entry_at(c.section, 0), 8);
    bytes[offset] ^= std::byte{1};
    EXPECT_THAT(message_of(bytes), AllOf(HasSubstr(c.expected), HasSubstr("is corrupt"),
                                         HasSubstr("copy the file again or rebuild it")));
  }
}

TEST(Damage, ForeignFilesAreNoEngines) {
  for (const char* text : {"\x08\x08\x12\x07pytorch", "PK\x03\x04", "VERNIES", "x"}) {
    EXPECT_THAT(message_of(to_bytes(text)),
                AllOf(HasSubstr("it is not an engine"), HasSubstr("vernier build")));
  }
  EXPECT_THAT(message_of(Bytes(4096)), HasSubstr("it is not an engine"));
}

TEST(Damage, ANewerFormatSaysWhatToDo) {
  Bytes bytes = sample_bytes();
  poke(bytes, 8, kFormatVersion + 1);
  const std::string expected =
      "it has format version 17, this program reads 16; update "
      "Vernier or rebuild the engine with this one";
  EXPECT_THAT(message_of(resealed(bytes)), HasSubstr(expected));
  bytes.resize(12);  // whatever else a newer format has
  EXPECT_THAT(message_of(bytes), HasSubstr(expected));
  poke(bytes, 8, uint32_t{0});
  EXPECT_THAT(message_of(bytes), HasSubstr("its header is corrupt (format version 0)"));
}

TEST(Damage, AnOlderFormatSaysWhatToDo) {
  Bytes bytes = sample_bytes();
  poke(bytes, 8, kFormatVersion - 1);
  EXPECT_THAT(message_of(resealed(bytes)),
              HasSubstr("it has format version 15, this program reads 16; build it again from its "
                        "model"));
}

TEST(Damage, AHeaderThatMakesNoSenseIsCorrupt) {
  const Bytes good = sample_bytes();
  struct Case {
    size_t at;
    uint64_t value;
    const char* expected;
  };
  const uint64_t big = UINT64_MAX - 63;
  const std::vector<Case> cases{
      {16, good.size() + 1, "it is truncated"},
      {16, big, "it is truncated"},
      {16, good.size() - 1, "it has 1 bytes too many"},
      {24, 1, "its content does not have the hash in its header"},
      {40, 9, "unknown section"},
      {entry_at(0, 0), 64, "section plan at 64"},
      {entry_at(0, 8), big, "section plan at"},
      {entry_at(1, 0), 0, "section ledger at 0"},
      {entry_at(1, 8), 0, "section weight checksums at"},
      {entry_at(3, 0), big, "section weights at"},
      {entry_at(3, 8), 64, "section records at"},
      {entry_at(4, 8), big, "section records at"},
  };
  for (const Case& c : cases) {
    Bytes bytes = good;
    poke(bytes, c.at, c.value);
    EXPECT_THAT(message_of(resealed(bytes)), HasSubstr(c.expected)) << c.at << " " << c.value;
  }
  Bytes bytes = good;
  poke(bytes, 12, uint32_t{4});
  EXPECT_THAT(message_of(resealed(bytes)), HasSubstr("wrong number of sections"));
}

TEST(Damage, ChecksumsThatDoNotFitTheWeightsAreCorrupt) {
  // One section's bytes moved to its neighbour: a header whose sections still follow one another.
  Bytes bytes = sample_bytes();
  uint64_t ledger_bytes = 0, checksum_at = 0;
  std::memcpy(&ledger_bytes, bytes.data() + entry_at(1, 8), 8);
  std::memcpy(&checksum_at, bytes.data() + entry_at(2, 0), 8);
  poke(bytes, entry_at(1, 8), ledger_bytes + 8);
  poke(bytes, entry_at(2, 0), checksum_at + 8);
  poke(bytes, entry_at(2, 8), uint64_t{0});
  EXPECT_THAT(message_of(resealed(bytes)), HasSubstr("checksums do not fit"));
}

TEST(Damage, BytesAfterTheEndAreAnError) {
  Bytes bytes = sample_bytes();
  bytes.resize(bytes.size() + 3);
  EXPECT_THAT(message_of(bytes), HasSubstr("it has 3 bytes too many"));
  poke(bytes, 16, uint64_t{bytes.size()});
  EXPECT_THAT(message_of(resealed(bytes)),
              HasSubstr(std::to_string(bytes.size() - 3) + " bytes of sections"));
}

// ---- right checksums around wrong sections ---------------------------------------------------

std::string message_of_sections(const Bytes& plan, const Bytes& ledger) {
  const auto file = read_engine_bytes(sample_bytes());
  return message_of(
      assemble({plan, ledger, Bytes(file->weights.begin(), file->weights.end()), {}}));
}

TEST(Damage, APlanThatDoesNotDecodeSaysWhere) {
  const Bytes plan = encode_plan(sample_plan()), ledger = encode_ledger(sample_plan());
  Bytes bad = plan;
  bad.push_back(std::byte{0});
  EXPECT_THAT(message_of_sections(bad, ledger),
              AllOf(HasSubstr("its plan section at offset 208 cannot be decoded: at byte"),
                    HasSubstr("1 bytes too many"), HasSubstr("rebuild it")));
  EXPECT_THAT(message_of_sections({}, ledger), HasSubstr("ends inside a number"));
  EXPECT_THAT(message_of_sections(plan, Bytes(4, std::byte{0xff})),
              AllOf(HasSubstr("its ledger section"),
                    HasSubstr("a list of 4294967295 items in the last 0 bytes")));
  EXPECT_THAT(message_of_sections(Bytes(1000, std::byte{0xff}), ledger),
              HasSubstr("a list of 4294967295 items"));
}

TEST(Damage, EveryCutPlanAndLedgerIsAnError) {
  const Bytes plan = encode_plan(sample_plan()), ledger = encode_ledger(sample_plan());
  for (size_t size = 0; size < plan.size(); ++size)
    ASSERT_THROW(decode_plan(std::span(plan).first(size)), Error) << size;
  for (size_t size = 0; size < ledger.size(); ++size)
    ASSERT_THROW(decode_ledger(std::span(ledger).first(size)), Error) << size;
}

// The text of one field replaced by another of the same length.
Bytes replaced(Bytes bytes, const std::string& from, const std::string& to) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(from.size(), to.size());
  return to_bytes(text.replace(at, to.size(), to));
}

TEST(Damage, WrongFieldsAreNamed) {
  const Bytes plan = encode_plan(sample_plan()), ledger = encode_ledger(sample_plan());
  EXPECT_THAT(message_of_sections(replaced(plan, "Gather", "Lather"), ledger),
              HasSubstr("operator 'Lather' is not one of this version"));
  EXPECT_THAT(message_of_sections(plan, replaced(ledger, "folded", "fooled")),
              HasSubstr("'fooled' is not a state of a ledger row"));
  EXPECT_THAT(message_of_sections(replaced(plan, "batch*seq", "batch**eq"), ledger),
              HasSubstr("bad size expression 'batch**eq'"));
  EXPECT_THAT(message_of_sections(replaced(plan, "batch*seq", "seq*batch"), ledger),
              HasSubstr("size expression 'seq*batch' should be written batch*seq"));
  // The type of "ids" follows its name; the first TypeRequest of the ledger follows "Linear".
  EXPECT_THAT(message_of_sections(replaced(plan, "ids\x0e", "ids\x63"), ledger),
              HasSubstr("unknown type or kind 99"));
  EXPECT_THAT(message_of_sections(plan, replaced(ledger, "Linear\x01\x01", "Linear\x01\x02")),
              HasSubstr("neither 0 nor 1 but 2"));
  const std::string eight("\x08\0\0\0\x04", 5), seven("\x07\0\0\0\x04", 5);
  EXPECT_THAT(message_of_sections(replaced(plan, eight, seven), ledger),
              HasSubstr("7 items where 8 are expected"));
}

// ---- files -----------------------------------------------------------------------------------

TEST(Damage, MissingFilesAndFoldersAreNamed) {
  try {
    read_engine("/no/such/engine.vn");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_STREQ(error.what(), "cannot read '/no/such/engine.vn': No such file or directory");
  }
  try {
    read_engine("/tmp");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("'/tmp': it is not a regular file"));
  }
}

TEST(Damage, FilesAreNamedInMessages) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("vernier_damage_" + std::to_string(::getpid()) + ".vn");
  for (const std::string text : {"", "VERN", "not an engine"}) {
    std::ofstream(path) << text;
    try {
      read_engine(path);
      ADD_FAILURE() << "no error for '" << text << "'";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("engine '" + path.string() + "': it is "));
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace vernier::engine
