// Files mapped and files read. Contract: src/core/mapped_file.h, include/vernier/process.h.
#include "core/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "vernier/process.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class Mapped : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("vernier_mapped_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    write("first");
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path path() const { return folder_ / "file\x1b[2J"; }
  // In place: what `cp` does to a file that is there.
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << text;
  }
  static std::string text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  static std::string complaint(const MappedFile& file) {
    try {
      file.check_unchanged();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMachine);
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(Mapped, WhatIsWrittenInPlaceIsNoticed) {
  const auto file = MappedFile::open(path());
  EXPECT_EQ(complaint(*file), "");
  write("other bytes");
  EXPECT_THAT(complaint(*file),
              AllOf(HasSubstr("' was written to since it was opened: it had 5 bytes and has 11"),
                    HasSubstr("rename it over the old")));
}

TEST_F(Mapped, BytesOfTheSameNumberAreNoticedByTheirTime) {
  const auto file = MappedFile::open(path());
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  const timespec times[2] = {{0, UTIME_OMIT}, {status.st_mtim.tv_sec + 1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path().c_str(), times, 0), 0);
  EXPECT_THAT(complaint(*file), HasSubstr("was written to"));
}

TEST_F(Mapped, AFileInItsPlaceIsNoChange) {
  const auto file = MappedFile::open(path());
  fs::rename(path(), folder_ / "moved");
  EXPECT_EQ(complaint(*file), "");
  write("another file");
  EXPECT_EQ(complaint(*file), "");
  EXPECT_EQ(text_of(*file), "first");
  fs::remove(path());
  EXPECT_EQ(complaint(*file), "");
}

TEST_F(Mapped, WhatWasReadStaysWhateverIsWritten) {
  const auto file = MappedFile::open(path(), FileAccess::kRead);
  EXPECT_EQ(text_of(*file), "first");
  write("");
  EXPECT_EQ(text_of(*file), "first");
  EXPECT_EQ(complaint(*file), "");
  EXPECT_EQ(MappedFile::open(path(), FileAccess::kRead)->bytes().size(), 0u);
}

TEST_F(Mapped, ReadingTakesMemoryThatALimitMayRefuse) {
  Limits limits;
  limits.max_bytes = 4;
  EXPECT_NO_THROW(MappedFile::open(path(), FileAccess::kMapped, Watch(limits)));
  try {
    MappedFile::open(path(), FileAccess::kRead, Watch(limits));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_THAT(error.what(), HasSubstr("into memory would take 5 bytes"));
  }
}

TEST_F(Mapped, AnAddressTellsItsFile) {
  const std::byte* address = nullptr;
  {
    const auto file = MappedFile::open(path());
    address = file->bytes().data();
    ASSERT_NE(mapped_file_at(address), nullptr);
    EXPECT_THAT(mapped_file_at(address + 4), HasSubstr("file\\x1b[2J")) << "as a terminal shows it";
    EXPECT_EQ(mapped_file_at(&file), nullptr);
    const auto again = MappedFile::open(path());
    EXPECT_NE(mapped_file_at(again->bytes().data()), nullptr);
    const auto read = MappedFile::open(path(), FileAccess::kRead);
    EXPECT_EQ(mapped_file_at(read->bytes().data()), nullptr);
  }
  EXPECT_EQ(mapped_file_at(address), nullptr);
}

// Pages of the process, of files and of its own: /proc/self/statm.
size_t resident_pages() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident;
}

TEST_F(Mapped, DroppedPagesAreReadAgain) {
  const std::string contents(size_t{1} << 24, 'x');
  write(contents);
  const auto file = MappedFile::open(path());
  const auto same = [&](std::span<const std::byte> bytes) {
    return std::memcmp(bytes.data(), contents.data(), bytes.size()) == 0;
  };
  ASSERT_TRUE(same(file->bytes()));
  const size_t pages = resident_pages();
  drop_pages(file->bytes().subspan(100, (size_t{1} << 23)));
  const auto least = static_cast<size_t>((size_t{1} << 22) / sysconf(_SC_PAGESIZE));
  EXPECT_LT(resident_pages() + least, pages);
  EXPECT_TRUE(same(file->bytes()));
  drop_pages({});
  drop_pages(std::as_bytes(std::span(contents)));  // memory that no file stands behind stays
  EXPECT_EQ(contents, std::string(contents.size(), 'x'));
}

TEST_F(Mapped, ManyThreadsMapAndUnmap) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 200; ++i) {
        const auto file = MappedFile::open(path());
        EXPECT_NE(mapped_file_at(file->bytes().data()), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace vernier
