// Writing engine files: see writer.h.
#include "engine/writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "engine/codec.h"
#include "engine/format.h"
#include "engine/validate.h"

namespace vernier::engine {
namespace {

namespace fs = std::filesystem;

// Calls write(bytes) for each blob and the zeros that align the next one.
template <class Write>
void for_each_weight_piece(const plan::Plan& plan, Write write) {
  constexpr std::array<std::byte, kBlobAlignment> kZeros{};
  for (const plan::Blob& blob : plan.blobs) {
    const auto bytes = blob.bytes.byte_span();
    write(bytes);
    write(std::span(kZeros).first(align_up(bytes.size(), kBlobAlignment) - bytes.size()));
  }
}

// A plan that could not be read back is our bug, and is found here, not by the user of the file.
void check_readable(const plan::Plan& plan, std::span<const std::byte> plan_section,
                    std::span<const std::byte> ledger_section) {
  try {
    check_plan(plan);
    decode_plan(plan_section);
    decode_ledger(ledger_section);
  } catch (const Error& error) {
    assertion_failed("plan can be read back", __FILE__, __LINE__, error.what());
  }
}

struct Head {
  std::vector<std::byte> bytes;  // everything before the weights
  uint64_t weight_bytes = 0;
};

Head make_head(const plan::Plan& plan) {
  const std::vector<std::byte> plan_section = encode_plan(plan);
  const std::vector<std::byte> ledger_section = encode_ledger(plan);
  check_readable(plan, plan_section, ledger_section);
  Head head;
  ChunkChecksums chunks;
  for_each_weight_piece(plan, [&](std::span<const std::byte> piece) {
    chunks.add(piece);
    head.weight_bytes += piece.size();
  });
  const std::vector<uint64_t> checksums = chunks.finish();
  head.bytes = file_head({plan_section, ledger_section, checksums, head.weight_bytes, {}});
  return head;
}

// A new file that is removed again unless it was renamed to where it belongs.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& target, uint64_t bytes_needed)
      : target_(target), bytes_needed_(bytes_needed) {
    for (int attempt = 0; descriptor_ < 0; ++attempt) {
      path_ = target;
      path_ += '.';
      path_ += std::to_string(::getpid()) + "_" + std::to_string(attempt) + ".tmp";
      descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor_ < 0 && (errno != EEXIST || attempt == 100)) fail(errno);
    }
  }
  ~TemporaryFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail(written < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  // After this the target is the new file, also if the machine loses power.
  void commit() {
    if (::fsync(descriptor_) != 0) fail(errno);
    if (::rename(path_.c_str(), target_.c_str()) != 0) fail(errno);
    ::close(descriptor_);
    descriptor_ = -1;
    sync_folder();
  }

 private:
  // The file is whole by now; a file system that cannot sync folders is no reason to fail.
  void sync_folder() const {
    const fs::path folder = fs::absolute(target_).parent_path();
    const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
  }
  [[noreturn]] void fail(int number) const {
    throw Error(ErrorCode::kMachine,
                "cannot write engine '" + target_.string() + "': " + std::strerror(number) +
                    "; it needs " + std::to_string(bytes_needed_) +
                    " bytes in a folder that can be written: free space or choose another folder");
  }

  fs::path target_, path_;
  uint64_t bytes_needed_;
  int descriptor_ = -1;
};

void check_replaceable(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  throw Error(ErrorCode::kInput, "cannot write engine '" + path.string() + "': it is " +
                                     (S_ISDIR(status.st_mode) ? "a folder" : "no regular file") +
                                     "; give the name of a file");
}

}  // namespace

std::vector<std::byte> engine_bytes(const plan::Plan& plan) {
  Head head = make_head(plan);
  std::vector<std::byte> bytes = std::move(head.bytes);
  bytes.reserve(bytes.size() + head.weight_bytes);
  for_each_weight_piece(plan, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  return bytes;
}

void write_engine(const fs::path& path, const plan::Plan& plan) {
  check_replaceable(path);
  const Head head = make_head(plan);
  TemporaryFile file(path, head.bytes.size() + head.weight_bytes);
  file.write(head.bytes);
  for_each_weight_piece(plan, [&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

}  // namespace vernier::engine
