// What the commands share: registration, errors and exit codes, progress, JSON on stdout.
// Contract: docs/commands.md "Exit codes". Results go to stdout, everything else to stderr.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace CLI {
class App;
}

namespace vernier::cli {

/// The body of the command that was chosen; returns the exit code, throws vernier::Error.
using Run = std::function<int()>;

// One per file: adds the command and its options to `app`; parsing it sets `run`.
void add_build(CLI::App& app, Run& run);
void add_calibrate(CLI::App& app, Run& run);
void add_run(CLI::App& app, Run& run);
void add_inspect(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_verify(CLI::App& app, Run& run);
void add_localise(CLI::App& app, Run& run);
void add_bisect(CLI::App& app, Run& run);
void add_reduce(CLI::App& app, Run& run);
void add_extract(CLI::App& app, Run& run);
void add_demo(CLI::App& app, Run& run);
void add_make_model(CLI::App& app, Run& run);
void add_trtexec(CLI::App& app, Run& run);

enum class ErrorFormat : uint8_t { kText, kJson };
/// Was --json among the arguments? Asked before they are parsed: errors of parsing are JSON, too.
ErrorFormat error_format(int argc, const char* const* argv);
/// Runs `body` and turns what it throws into "vernier: error: ..." on stderr and an exit code; as
/// JSON also into {"error": ...} on stdout (docs/json.md).
int run_guarded(const Run& body, ErrorFormat format);

/// "vernier: warning: ..." on stderr: the command goes on.
void warn(std::string_view message);

/// Text or JSON to stdout, followed by a newline where it has none, through printable(): names come
/// from files. Nothing else of the program writes to stdout.
void print(std::string_view text);
/// The same for one line: no name ends it.
void print_line(std::string_view line);
void print_json(const nlohmann::json& value);

/// "a, b" -> {"a", "b"}; empty parts are an Error(kInput) naming `option`.
std::vector<std::string> split_list(const std::string& text, const std::string& option);

/// All of a small file. Throws Error(kInput) where it cannot be read; `what` was expected:
/// "policy".
std::string read_text_file(const std::string& path, const std::string& what);
/// Throws Error(kInput) when `output` is a file that the command reads: writing would destroy it.
void check_keeps_inputs(const std::string& output, const std::vector<std::string>& inputs);

/// Milliseconds since the construction of the clock.
class Clock {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Says on stderr what is being done, once it has taken over a second; then every new stage.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// A new stage of the work, e.g. "raise_attention".
  void stage(std::string_view name);

 private:
  void say() const;
  std::string what_, stage_;
  Clock clock_;
  bool talking_ = false, done_ = false;
  std::mutex mutex_;
  std::condition_variable finished_;
  std::thread timer_;
};

/// Freed memory stays with the process, for commands that make and drop large arrays all the time
/// (evaluations in FP64): the system takes longer to give a page than they take to fill it. Arrays
/// above 32 MiB still go back.
void keep_freed_memory();

}  // namespace vernier::cli
