// Errors, progress and printing of the commands: see common.h.
#include "cli/common.h"

#include <malloc.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>

#include "vernier/error.h"
#include "vernier/printable.h"

namespace vernier::cli {
namespace {

constexpr auto kQuiet = std::chrono::seconds(1);  // work shorter than this prints no progress

/// One message to stderr, with nothing in it that a terminal would act on.
void write_line(std::string line) {
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void say(const char* kind, std::string_view message) {
  std::fflush(stdout);
  write_line("vernier: " + std::string(kind) + ": " + printable_message(message));
}

int report(ErrorFormat format, ErrorCode code, std::string_view message) {
  say("error", message);
  const int exit_code = static_cast<int>(code);
  if (format == ErrorFormat::kJson) {
    print_json({{"error", {{"code", name(code)}, {"exit_code", exit_code}, {"message", message}}}});
    std::fflush(stdout);
  }
  return exit_code;
}

}  // namespace

void warn(std::string_view message) { say("warning", message); }

ErrorFormat error_format(int argc, const char* const* argv) {
  const std::span arguments(argv, static_cast<size_t>(argc));
  const auto is_json = [](std::string_view argument) { return argument == "--json"; };
  return std::ranges::any_of(arguments, is_json) ? ErrorFormat::kJson : ErrorFormat::kText;
}

int run_guarded(const Run& body, ErrorFormat format) {
  const auto fail = [format](ErrorCode code, const std::string& message) {
    return report(format, code, message);
  };
  try {
    const int code = body();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)  // nor could JSON be written
      return report(ErrorFormat::kText, ErrorCode::kMachine,
                    "standard output could not be written; is the disk full?");
    return code;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kMachine,
                "out of memory; use smaller batches or lengths, or a machine with more memory");
  } catch (const std::system_error& error) {  // files, threads: what the system refuses
    return fail(ErrorCode::kMachine, std::string("the operating system refused: ") + error.what() +
                                         "; see the limits of 'ulimit -a' and the disk");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal,
                std::string("internal error: ") + error.what() +
                    ". This is a bug in Vernier; please report it with the command");
  }
}

void print(std::string_view whole) {
  const std::string text = printable(whole);
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
}

void print_line(std::string_view line) { print(printable_name(line)); }

void print_json(const nlohmann::json& value) {
  print(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<std::string> split_list(const std::string& text, const std::string& option) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    const size_t last = text.find_last_not_of(' ', end == 0 ? 0 : end - 1);
    if (first == std::string::npos || first >= end) {
      throw Error(ErrorCode::kInput,
                  option + " '" + text + "' has an empty entry; write names separated by commas");
    }
    parts.push_back(text.substr(first, last - first + 1));
    begin = end + 1;
  }
  return parts;
}

std::string read_text_file(const std::string& path, const std::string& what) {
  constexpr std::streamoff kLargest = std::streamoff{16} << 20;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || !std::filesystem::is_regular_file(path))
    throw Error(ErrorCode::kInput, "cannot read '" + path + "': there is no such file");
  const std::streamoff size = file.tellg();
  if (size > kLargest)
    throw Error(ErrorCode::kInput,
                "'" + path + "' is larger than 16 MiB; expected a " + what + " file");
  std::string text(static_cast<size_t>(size), '\0');
  file.seekg(0);
  file.read(text.data(), size);
  if (!file) throw Error(ErrorCode::kMachine, "cannot read '" + path + "' to its end");
  return text;
}

void check_keeps_inputs(const std::string& output, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) {
    std::error_code error;  // two files that are not there are not the same
    if (!std::filesystem::equivalent(output, input, error)) continue;
    throw Error(ErrorCode::kInput, "writing '" + output + "' would destroy '" + input +
                                       "', which the command reads; give another name");
  }
}

Progress::Progress(std::string what) : what_(std::move(what)) {
  try {
    timer_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      if (finished_.wait_for(lock, kQuiet, [this] { return done_; })) return;
      talking_ = true;
      say();
    });
  } catch (const std::system_error&) {  // no thread can be started: no progress is shown
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  finished_.notify_all();
  if (timer_.joinable()) timer_.join();
  if (talking_) {
    write_line("vernier: " + printable_name(what_) + ": " +
               std::to_string(static_cast<int64_t>(clock_.ms())) + " ms");
  }
}

void Progress::stage(std::string_view name) {
  const std::lock_guard lock(mutex_);
  stage_ = name;
  if (talking_) say();
}

void Progress::say() const {
  write_line("vernier: " + printable_name(what_ + (stage_.empty() ? "" : ": " + stage_)) + " ...");
}

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMostOfGlibc = 32 << 20, kNever = INT_MAX;
  mallopt(M_MMAP_THRESHOLD, kMostOfGlibc);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_ARENA_MAX, 1);  // those of other threads are small and go back as a whole
#endif
}

}  // namespace vernier::cli
