// Child processes and temporary folders of the command-line tests: see program.h.
#include "cli/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace vernier::test {
namespace {

constexpr int kCannotBecome = 127;

void limit(__rlimit_resource resource, uint64_t bytes) {
  const rlimit both{bytes, bytes};
  if (bytes > 0 && setrlimit(resource, &both) != 0) _exit(kCannotBecome);
}

/// In the child: standard input empty, output and errors to files, then the program.
[[noreturn]] void become(std::string program, const std::vector<std::string>& arguments,
                         const std::string& out, const std::string& err,
                         const Conditions& conditions) {
  const int in = open("/dev/null", O_RDONLY);
  const std::string& out_path =
      conditions.standard_output.empty() ? out : conditions.standard_output;
  const int out_file = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_file = open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(in, 0);
  dup2(out_file, 1);
  dup2(err_file, 2);
  std::vector<char*> argv;
  argv.push_back(program.data());
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  limit(RLIMIT_FSIZE, conditions.largest_file_bytes);
  limit(RLIMIT_AS, conditions.memory_bytes);
  if (conditions.user == Conditions::User::kNobody && geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(kCannotBecome);
  }
  execv(program.c_str(), argv.data());
  _exit(kCannotBecome);
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

std::filesystem::path new_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "vernier-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return name;
}

}  // namespace

Running::Running(const std::vector<std::string>& arguments) : folder_(new_folder()) {
  process_ = fork();
  if (process_ == 0) {
    // A test that runs in the background is started with Ctrl-C ignored.
    std::signal(SIGINT, SIG_DFL);
    become(VERNIER_PROGRAM, arguments, folder_ / "out", folder_ / "err", {});
  }
  if (process_ < 0) throw std::runtime_error("fork failed");
}

Running::~Running() {
  if (!ended_) {
    send(SIGKILL);
    waitpid(process_, &status_, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Running::send(int signal) const { kill(process_, signal); }

std::string Running::err() const {
  const std::string path = folder_ / "err";
  return std::filesystem::exists(path) ? read_file(path) : "";
}

bool Running::runs() {
  ended_ = ended_ || waitpid(process_, &status_, WNOHANG) == process_;
  return !ended_;
}

Outcome Running::wait() {
  if (!ended_ && waitpid(process_, &status_, 0) != process_)
    throw std::runtime_error("waitpid failed");
  ended_ = true;
  return {code_of(status_), read_file(folder_ / "out"), err()};
}

Outcome run_program(const std::vector<std::string>& arguments, const Conditions& conditions) {
  return run_command(VERNIER_PROGRAM, arguments, conditions);
}

Outcome run_command(const std::string& program, const std::vector<std::string>& arguments,
                    const Conditions& conditions) {
  const TemporaryFolder folder;
  const std::string out = folder / "out", err = folder / "err";
  const pid_t child = fork();
  if (child == 0) become(program, arguments, out, err, conditions);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("fork failed");
  return {code_of(status), conditions.standard_output.empty() ? read_file(out) : "",
          read_file(err)};
}

bool can_run_without_root() {
  const Outcome outcome = run_program({"--version"}, {.user = Conditions::User::kNobody});
  if (outcome.code == 0) return true;
  std::printf("SKIP: this is root, and the user nobody cannot run %s\n", VERNIER_PROGRAM);
  return false;
}

TemporaryFolder::TemporaryFolder() : path_(new_folder()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace vernier::test
