// Files on disk: whole or not at all, named errors, weights mapped and not copied. Contract:
// src/engine/writer.h, reader.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "engine/format.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

class Write : public ::testing::Test {
 protected:
  Write()
      : folder_(fs::temp_directory_path() /
                ("vernier_engine_" + std::to_string(::getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        path_(folder_ / "model.vn") {
    fs::create_directories(folder_);
  }
  ~Write() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }
  fs::path folder_, path_;
};

Bytes slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}

Error error_of(const fs::path& path, const plan::Plan& plan) {
  try {
    write_engine(path, plan);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::kInternal, "no error"};
}

// Files of this process may not grow past `bytes` while this lives, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

// Root may write anywhere; as nobody it may not.
class NotRoot {
 public:
  NotRoot() {
    if (::geteuid() == 0) changed_ = ::seteuid(65534) == 0;
  }
  // Prints why not.
  static bool possible() {
    const NotRoot nobody;
    if (::geteuid() != 0) return true;
    std::printf("SKIP: this is root, which may not become nobody here\n");
    return false;
  }
  ~NotRoot() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool changed_ = false;
};

TEST_F(Write, TheFileIsTheBytes) {
  const plan::Plan plan = sample_plan();
  write_engine(path_, plan);
  EXPECT_EQ(slurp(path_), engine_bytes(plan));
  EXPECT_EQ(names(), std::vector<std::string>{"model.vn"});
  const auto file = read_engine(path_);
  EXPECT_TRUE(same(file->plan, plan));
  EXPECT_EQ(file->file_bytes, fs::file_size(path_));
  EXPECT_NO_THROW(check_weights(*file));
}

TEST_F(Write, ANameWithoutFolderIsInThisFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_engine("here.vn", sample_plan());
  fs::current_path(before);
  EXPECT_TRUE(same(read_engine(folder_ / "here.vn")->plan, sample_plan()));
}

TEST_F(Write, ThePermissionsAreThoseOfANewFile) {
  const mode_t before = ::umask(027);
  write_engine(path_, sample_plan());
  ::umask(before);
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(Write, AnOldFileIsReplacedAndStaysValidForItsReaders) {
  write_engine(path_, sample_plan());
  const auto old = read_engine(path_);
  write_engine(path_, weighty_plan(100));
  EXPECT_TRUE(same(read_engine(path_)->plan, weighty_plan(100)));
  EXPECT_TRUE(same(old->plan, sample_plan()));
  EXPECT_EQ(names(), std::vector<std::string>{"model.vn"});
}

TEST_F(Write, AFullDiskLeavesTheOldFileAndNothingElse) {
  write_engine(path_, sample_plan());
  const Bytes before = slurp(path_);
  const plan::Plan big = weighty_plan(100000);
  const size_t needed = engine_bytes(big).size();
  for (const rlim_t limit :
       {0u, 100u, 65536u, 400000u}) {  // in the header, the weights, at the end
    Error error(ErrorCode::kInput, "");
    {
      const FileSizeLimit full(limit);
      error = error_of(path_, big);
    }
    EXPECT_EQ(error.code(), ErrorCode::kMachine) << limit;
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("cannot write engine '" + path_.string() + "': File too large"),
                      HasSubstr("it needs " + std::to_string(needed) + " bytes"),
                      HasSubstr("free space or choose another folder")));
    EXPECT_EQ(slurp(path_), before);
    EXPECT_EQ(names(), std::vector<std::string>{"model.vn"});
  }
}

// A child that is killed (SIGKILL: nothing of ours runs any more) when its file would grow past
// `bytes`; what it was to write is at `path` only if it ended by itself, which is returned.
bool survives_writing(const fs::path& path, const plan::Plan& plan, rlim_t bytes) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, [](int) { ::kill(::getpid(), SIGKILL); });
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_engine(path, plan);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) || WTERMSIG(status) == SIGKILL) << status;
  return WIFEXITED(status);
}

TEST_F(Write, AWriterThatIsKilledLeavesTheOldFile) {
  write_engine(path_, sample_plan());
  const Bytes before = slurp(path_);
  const plan::Plan big = weighty_plan(100000);
  const Bytes whole = engine_bytes(big);
  const std::vector<rlim_t> limits{0, 100, 4096, 65536, 400000, whole.size() - 1};
  for (const rlim_t limit : limits) {
    EXPECT_FALSE(survives_writing(path_, big, limit)) << limit;
    EXPECT_EQ(slurp(path_), before) << limit;
    EXPECT_EQ(names().size(), 2u) << "what it wrote lies beside it; that of the one before is gone";
  }
  EXPECT_TRUE(survives_writing(path_, big, whole.size()));
  EXPECT_EQ(slurp(path_), whole);
  EXPECT_EQ(names(), std::vector<std::string>{"model.vn"});
}

TEST_F(Write, AnEngineThatIsMappedKeepsItsBytes) {
  write_engine(path_, weighty_plan(100000));
  const Bytes before = slurp(path_);
  const auto mapped = read_engine(path_);
  write_engine(path_, sample_plan());
  EXPECT_NO_THROW(mapped->file->check_unchanged()) << "another file has its name";
  EXPECT_NO_THROW(check_weights(*mapped));
  EXPECT_TRUE(std::ranges::equal(mapped->file->bytes(), before));
}

TEST_F(Write, FilesOfOtherNamesAreNobodysLeftovers) {
  const fs::path other = path_.string() + "." + std::to_string(::getpid()) + "_0.tmp";
  std::ofstream(other) << "half an engine";
  write_engine(path_, sample_plan());
  EXPECT_TRUE(same(read_engine(path_)->plan, sample_plan()));
  EXPECT_EQ(fs::file_size(other), 14u) << "it may be another program's";
}

TEST_F(Write, AFolderThatCannotBeWrittenIsNamed) {
  if (!NotRoot::possible()) GTEST_SKIP();
  write_engine(path_, sample_plan());
  const Bytes before = slurp(path_);
  fs::permissions(folder_, fs::perms(0555));
  Error error(ErrorCode::kInput, "");
  {
    const NotRoot nobody;
    error = error_of(path_, weighty_plan(10));
  }
  fs::permissions(folder_, fs::perms(0755));
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), HasSubstr("model.vn': Permission denied"));
  EXPECT_EQ(slurp(path_), before);
}

TEST_F(Write, AFileThatCannotBeReadIsNamed) {
  if (!NotRoot::possible()) GTEST_SKIP();
  write_engine(path_, sample_plan());
  fs::permissions(path_, fs::perms(0));
  const NotRoot nobody;
  try {
    read_engine(path_);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_THAT(error.what(), HasSubstr("model.vn': Permission denied"));
  }
}

TEST_F(Write, AFolderThatIsNotThereIsNamed) {
  const Error error = error_of(folder_ / "none" / "model.vn", sample_plan());
  EXPECT_EQ(error.code(), ErrorCode::kMachine);
  EXPECT_THAT(error.what(), HasSubstr("none/model.vn': the folder '"));
  EXPECT_THAT(error.what(), HasSubstr("none' does not exist; make it or choose another folder"));
}

TEST_F(Write, OnlyFilesAreReplaced) {
  EXPECT_THAT(error_of(folder_, sample_plan()).what(),
              HasSubstr("it is a folder; give the name of a file"));
  const Error error = error_of("/dev/null", sample_plan());
  EXPECT_EQ(error.code(), ErrorCode::kInput);
  EXPECT_THAT(error.what(), HasSubstr("'/dev/null': it is not a regular file"));
  EXPECT_THAT(error_of("", sample_plan()).what(),
              HasSubstr("cannot write engine: its name is empty"));
}

TEST_F(Write, APlanThatBreaksTheRulesTouchesNothing) {
  write_engine(path_, sample_plan());
  const Bytes before = slurp(path_);
  plan::Plan plan = sample_plan();
  plan.segments.clear();
  EXPECT_EQ(error_of(path_, plan).code(), ErrorCode::kInternal);
  EXPECT_EQ(slurp(path_), before);
  EXPECT_EQ(names(), std::vector<std::string>{"model.vn"});
}

// ---- mapping -----------------------------------------------------------------------------------

// The range of this process's memory that is `path`, from the kernel.
std::pair<uintptr_t, uintptr_t> mapping_of(const fs::path& path) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(path.string()) == std::string::npos) continue;
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream(line) >> std::hex >> begin >> dash >> end;
    return {begin, end};
  }
  return {};
}
size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(Write, WeightsAreMappedAndNotRead) {
  constexpr size_t kWeightBytes = size_t{64} << 20;
  write_engine(path_, weighty_plan(kWeightBytes / 4));
  const size_t before = resident_bytes();
  const auto file = read_engine(path_);
  const size_t after = resident_bytes();
  // Opening touches plan, ledger and 8 KiB of checksums; the kernel maps pages around a touched
  // one that it has in memory, at most 64 KiB each time.
  EXPECT_LT(after, before + (size_t{4} << 20));
  const auto [begin, end] = mapping_of(path_);
  const Tensor& bytes = file->plan.blobs[0].bytes;
  const auto data = reinterpret_cast<uintptr_t>(bytes.data());
  EXPECT_GE(data, begin);
  EXPECT_LE(data + bytes.bytes(), end);
  EXPECT_EQ(data % kBlobAlignment, 0u);
  EXPECT_NO_THROW(check_weights(*file));
}

TEST_F(Write, TheMappingLivesAsLongAsABlob) {
  write_engine(path_, weighty_plan(100000));
  Tensor weights = read_engine(path_)->plan.blobs[0].bytes;
  EXPECT_NE(mapping_of(path_).first, 0u);
  EXPECT_EQ(weights.float_at(99999), 99999.5);
  weights = Tensor();
  EXPECT_EQ(mapping_of(path_).first, 0u);
}

}  // namespace
}  // namespace vernier::engine
