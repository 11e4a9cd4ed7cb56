// A Python with ONNX Runtime: see process.h. The two ends of a socket pair: the program's is its
// standard input. What it prints goes into memory, of which the last line is shown if it ends.
#include "verify/also/process.h"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/npz.h"
#include "verify/also/script.h"

namespace vernier::verify {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char *kInputs = "in.npz", *kOutputs = "out.npz";
constexpr size_t kLongestLine = size_t{1} << 20;  // of a reply: a path or a message

[[noreturn]] void cannot_ask(const std::string& why) {
  throw Error(ErrorCode::kInput, "--also onnxruntime: " + why +
                                     "; name a Python that has onnxruntime: --also-python PROGRAM");
}

struct FileActions {
  FileActions() { ::posix_spawn_file_actions_init(&actions); }
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  posix_spawn_file_actions_t actions{};
};

// A group of its own: Ctrl-C is for this process, which then ends the other.
struct OwnGroup {
  OwnGroup() {
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    ::posix_spawnattr_setpgroup(&attributes, 0);
  }
  ~OwnGroup() { ::posix_spawnattr_destroy(&attributes); }
  OwnGroup(const OwnGroup&) = delete;
  OwnGroup& operator=(const OwnGroup&) = delete;
  posix_spawnattr_t attributes{};
};

std::string string_at(const json& reply, const char* key) {
  const auto found = reply.find(key);
  return found != reply.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

// A line of the program, or its end.
struct OnnxRuntime::Reply {
  bool ended = false;
  std::string missing = {}, refused = {}, version = {}, folder = {};
};

OnnxRuntime::OnnxRuntime(const Options& options, const Watch& watch) {
  try {
    start(options);
    const Reply reply = receive(watch);
    if (reply.ended) {
      const std::string said = last_words();
      cannot_ask(fmt::format("got no answer from '{}'{}", options.python,
                             said.empty() ? "" : ", which printed '" + said + "'"));
    }
    if (!reply.missing.empty()) {
      throw Error(ErrorCode::kInput,
                  fmt::format("--also onnxruntime: '{}' has no onnxruntime ({}); install it there "
                              "(pip install onnxruntime), or name a Python that has it: "
                              "--also-python PROGRAM",
                              options.python, reply.missing));
    }
    version_ = reply.version;
    refused_ = reply.refused;
    folder_ = reply.folder;
  } catch (...) {
    end();
    throw;
  }
}

OnnxRuntime::~OnnxRuntime() { end(); }

void OnnxRuntime::start(const Options& options) {
  std::array<int, 2> ends{-1, -1};
  printed_ = ::memfd_create("vernier-also", MFD_CLOEXEC);
  if (printed_ < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(ErrorCode::kMachine, fmt::format("--also onnxruntime: cannot make a connection: {}",
                                                 std::strerror(errno)));
  }
  connection_ = ends[0];
  FileActions files;
  ::posix_spawn_file_actions_adddup2(&files.actions, ends[1], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, printed_, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, printed_, STDERR_FILENO);
  const OwnGroup group;
  std::array<std::string, 5> words{options.python, "-c", std::string(onnxruntime_script()),
                                   fs::absolute(options.model).string(),
                                   std::to_string(options.threads)};
  std::array<char*, 6> arguments{};
  for (size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int error = ::posix_spawnp(&process_, options.python.c_str(), &files.actions,
                                   &group.attributes, arguments.data(), environ);
  ::close(ends[1]);
  if (error == 0) return;
  process_ = -1;
  cannot_ask(fmt::format("cannot start '{}': {}", options.python, std::strerror(error)));
}

// Waits for a line, and looks at the limits meanwhile.
OnnxRuntime::Reply OnnxRuntime::receive(const Watch& watch) {
  constexpr int kMilliseconds = 100;
  size_t end = 0;
  while ((end = received_.find('\n')) == std::string::npos) {
    watch.check_time("waiting for ONNX Runtime");
    pollfd waiting{.fd = connection_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kMilliseconds) == 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::recv(connection_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0 || received_.size() > kLongestLine) return {.ended = true};
    received_.append(buffer.data(), static_cast<size_t>(count));
  }
  const json reply = json::parse(received_.substr(0, end), nullptr, false);
  received_.erase(0, end + 1);
  if (!reply.is_object()) return {.ended = true};
  return {.missing = string_at(reply, "missing"),
          .refused = string_at(reply, "refused"),
          .version = string_at(reply, "version"),
          .folder = string_at(reply, "folder")};
}

OnnxRuntime::Answers OnnxRuntime::run(const NamedTensors& inputs, const Watch& watch) {
  if (!refused_.empty()) return {.outputs = {}, .refused = refused_};
  try {
    io::write_npz(folder_ / kInputs, inputs);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return {.outputs = {}, .refused = error.what()};  // a type that NumPy does not have
  }
  const bool sent = ::send(connection_, "run\n", 4, MSG_NOSIGNAL) == 4;
  const Reply reply = sent ? receive(watch) : Reply{.ended = true};
  if (reply.ended) {
    const std::string said = last_words();
    refused_ = "it ended in the middle of the work" + (said.empty() ? "" : ": " + said);
    return {.outputs = {}, .refused = refused_};
  }
  if (!reply.refused.empty()) return {.outputs = {}, .refused = reply.refused};
  return {.outputs = io::read_arrays(folder_ / kOutputs), .refused = {}};
}

// The last line that the program has printed.
std::string OnnxRuntime::last_words() const {
  constexpr off_t kMost = 4096;
  struct stat status {};
  if (::fstat(printed_, &status) != 0) return "";
  std::string text(static_cast<size_t>(std::min(status.st_size, kMost)), '\0');
  const ssize_t count =
      ::pread(printed_, text.data(), text.size(), status.st_size - static_cast<off_t>(text.size()));
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  text.erase(text.find_last_not_of("\n ") + 1);
  return text.substr(text.rfind('\n') + 1);
}

void OnnxRuntime::end() noexcept {
  constexpr int kTries = 50;  // of 10 ms: what a Python takes to end
  if (connection_ >= 0) ::close(connection_);
  bool ended = process_ < 0;
  for (int i = 0; i < kTries && !ended; ++i) {
    ended = ::waitpid(process_, nullptr, WNOHANG) != 0;
    if (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (!ended) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  if (printed_ >= 0) ::close(printed_);
  std::error_code ignored;
  if (!folder_.empty()) {  // the program removes it, unless it was killed
    for (const char* name : {kInputs, kOutputs}) fs::remove(folder_ / name, ignored);
    fs::remove(folder_, ignored);
  }
  process_ = connection_ = printed_ = -1;
}

}  // namespace vernier::verify
