// Runs the program `vernier` as a user does: arguments in, exit code and both streams out.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace vernier::test {

struct Outcome {
  int code = -1;         ///< exit code; 128 + signal if it was killed
  std::string out, err;  ///< stdout and stderr
};

/// Runs a program (a path) with these arguments, no standard input.
Outcome run_command(const std::string& program, const std::vector<std::string>& arguments);
/// As run_command() for VERNIER_PROGRAM.
Outcome run_program(const std::vector<std::string>& arguments);

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
