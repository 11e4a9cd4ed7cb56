// Files whole or not at all, and what becomes of their temporary files. Contract:
// src/core/whole_file.h, include/vernier/process.h.
#include "core/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "core/mapped_file.h"
#include "core/temporary_files.h"
#include "vernier/process.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Whole : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("vernier_whole_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path target() const { return folder_ / "out.vn"; }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    return found;
  }
  static void write(WholeFile& file, const std::string& text) {
    file.write(std::as_bytes(std::span(text)));
  }
  void write_whole(const std::string& text) const {
    WholeFile file({target(), "text", 0});
    write(file, text);
    file.commit();
  }
  std::string read() const {
    std::ifstream file(target(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // What a process leaves that is killed while it writes.
  void die_while_writing(const fs::path& path) const {
    const pid_t child = ::fork();
    if (child == 0) {
      WholeFile file({path, "text", 0});
      write(file, "half a file");
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
  }
  fs::path folder_;
};

TEST_F(Whole, WhatADeadProcessLeftIsSweptByTheNextWriter) {
  write_whole("old");
  die_while_writing(target());
  EXPECT_EQ(names().size(), 2u);
  write_whole("new");
  EXPECT_EQ(names(), std::vector<std::string>{"out.vn"});
  EXPECT_EQ(read(), "new");
}

TEST_F(Whole, OnlyTemporariesOfTheSameTargetAreSwept) {
  die_while_writing(folder_ / "out.vn.data");
  die_while_writing(folder_ / "ut.vn");
  for (const char* name :
       {"out.vn.tmp", "out.vn.1-0-0.tmp", "out.vn.x-01234567-0.tmp", "out.vn.1-01234567-.tmp",
        "out.vn.1-01234567-0.tmp.bak", "out.vn.", "out.vn.1-0123456z-0.tmp"})
    std::ofstream(folder_ / name) << "somebody's";
  fs::create_directory(folder_ / "out.vn.1-01234567-7.tmp");
  const size_t before = names().size();
  write_whole("new");
  EXPECT_EQ(names().size(), before + 1) << testing::PrintToString(names());
  std::ofstream(folder_ / "out.vn.1-01234567-8.tmp") << "of a process of another boot";
  write_whole("newer");
  EXPECT_EQ(names().size(), before + 1);
}

TEST_F(Whole, WhatIsBeingWrittenStays) {
  // Another process, which holds its lock; its name says a process that is not seen from here.
  int ready[2], go[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    WholeFile file({target(), "text", 0});
    char byte = 0;
    if (::write(ready[1], "x", 1) != 1 || ::read(go[0], &byte, 1) != 1) ::_exit(1);
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  std::string name = names().at(0);
  write_whole("new");
  EXPECT_EQ(names(), (std::vector<std::string>{"out.vn", name})) << "its process is there";
  const size_t pid = name.find(std::to_string(child));
  const std::string hidden = name.substr(0, pid) + "1-01234567-0.tmp";
  fs::rename(folder_ / name, folder_ / hidden);
  write_whole("newer");
  EXPECT_EQ(names(), (std::vector<std::string>{"out.vn", hidden})) << "it is locked";
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  write_whole("newest");
  EXPECT_EQ(names(), std::vector<std::string>{"out.vn"});
}

TEST_F(Whole, TwoWritersOfOneProcessDoNotSweepEachOther) {
  WholeFile one({target(), "text", 0});
  WholeFile two({target(), "text", 0});
  write(one, "one");
  write(two, "two");
  EXPECT_EQ(names().size(), 2u);
  one.commit();
  two.commit();
  EXPECT_EQ(read(), "two");
  EXPECT_EQ(names(), std::vector<std::string>{"out.vn"});
}

TEST_F(Whole, AHandlerOfAChildLeavesItsParentsFiles) {
  WholeFile file({target(), "text", 0});
  write(file, "whole");
  const pid_t child = ::fork();
  if (child == 0) {
    remove_temporary_files();
    WholeFile own({folder_ / "own", "text", 0});
    remove_temporary_files();
    _exit(names().size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  file.commit();
  EXPECT_EQ(read(), "whole");
}

TEST_F(Whole, AHandlerRemovesWhatIsBeingWritten) {
  WholeFile file({target(), "text", 0});
  write(file, "half");
  {
    WholeFile other({folder_ / "other", "text", 0});
    EXPECT_EQ(names().size(), 2u);
    remove_temporary_files();
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
  try {
    file.commit();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("No such file or directory"));
  }
  write_whole("a file that is whole is not touched");
  remove_temporary_files();
  EXPECT_EQ(names(), std::vector<std::string>{"out.vn"});
}

TEST_F(Whole, ALongNameHasATemporaryFileToo) {
  const fs::path path = folder_ / std::string(250, 'n');
  EXPECT_LT(temporary_beside(path, 99).filename().string().size(), 255u);
  EXPECT_NE(temporary_beside(path, 0), temporary_beside(folder_ / std::string(249, 'n'), 0));
  WholeFile file({path, "text", 0});
  write(file, "text");
  file.commit();
  EXPECT_EQ(fs::file_size(path), 4u);
  die_while_writing(path);
  EXPECT_EQ(names().size(), 2u);
  WholeFile again({path, "text", 0});
  EXPECT_EQ(names().size(), 2u) << "that of the dead one is gone";
}

TEST_F(Whole, SeeksAndTells) {
  WholeFile file({target(), "text", 0});
  write(file, "0123456789");
  file.seek(2);
  write(file, "ab");
  EXPECT_EQ(file.position(), 4u);
  file.commit();
  EXPECT_EQ(read(), "01ab456789");
}

TEST_F(Whole, BytesOfAMappedFileThatWasCutShortAreSaidSo) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const fs::path source = folder_ / "source";
  std::ofstream(source) << std::string(4 * page, 's');
  const auto mapped = MappedFile::open(source);
  fs::resize_file(source, 0);
  WholeFile file({target(), "text", 0});
  try {
    file.write(mapped->bytes().subspan(page));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_THAT(error.what(), HasSubstr("a source file was truncated"));
  }
}

}  // namespace
}  // namespace vernier
