// Runs the program `vernier` as a user does: arguments in, exit code and both streams out.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace vernier::test {

struct Outcome {
  int code = -1;         ///< exit code; 128 + signal if it was killed
  std::string out, err;  ///< stdout and stderr
};

/// The conditions under which the program runs, besides its arguments.
struct Conditions {
  uint64_t largest_file_bytes = 0;  ///< as on a full disk; 0: no limit
  uint64_t memory_bytes = 0;        ///< of address space; 0: no limit
  std::string standard_output;      ///< a file to write to; empty: Outcome::out gets it
  enum class User : uint8_t { kSame, kNobody } user = User::kSame;
};

/// Runs a program (a path) with these arguments, no standard input.
Outcome run_command(const std::string& program, const std::vector<std::string>& arguments,
                    const Conditions& conditions = {});
/// As run_command() for VERNIER_PROGRAM.
Outcome run_program(const std::vector<std::string>& arguments, const Conditions& conditions = {});

/// The program, beside the test.
class Running {
 public:
  explicit Running(const std::vector<std::string>& arguments);
  /// Kills it unless wait() was called.
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  int process() const { return process_; }
  void send(int signal) const;
  /// What it has printed to stderr so far.
  std::string err() const;
  /// Does it still run?
  bool runs();
  Outcome wait();

 private:
  int process_ = -1, status_ = 0;
  bool ended_ = false;
  std::filesystem::path folder_;
};

/// Polls every millisecond until the condition holds; false if `running` ends first.
template <class Condition>
bool wait_until(Running& running, const Condition& condition) {
  while (!condition()) {
    if (!running.runs()) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Root can write everywhere: then a test of permissions runs the program as nobody. False where
/// that is not possible, with the reason printed as a SKIP line.
bool can_run_without_root();

/// A folder that lives as long as this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  /// The path of a file in it, as text for a command line.
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace vernier::test
