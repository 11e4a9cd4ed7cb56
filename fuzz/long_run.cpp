// The long run: many inputs of one target in child processes, so that a crash or a hang is recorded
// and the run continues; it can be stopped and resumed. Needs no libFuzzer: works in a release
// build and under gcc's sanitizers. Contract: docs/testing.md "Long runs".
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "target.h"

// Options of the sanitizers' runtimes, if they are linked. One report ends the child.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "exitcode=77:allocator_may_return_null=1:max_allocation_size_mb=4096";
}
extern "C" const char* __ubsan_default_options();
extern "C" const char* __ubsan_default_options() {
  return "halt_on_error=1:print_stacktrace=1:exitcode=77";
}

namespace vernier::fuzz {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string target;
  uint64_t count = 1000, seed = 1, batch = 200;
  unsigned limit_s = 20;
  fs::path state, found = "found";
  std::vector<fs::path> replay;
};

// Results of the children, in memory shared with the parent.
struct Shared {
  std::atomic<uint64_t> current;
  std::atomic<uint64_t> outcomes[3];
};

struct Totals {
  uint64_t next = 0, refused = 0, too_large = 0, launched = 0, crashes = 0, hangs = 0, reports = 0;

  uint64_t failures() const { return crashes + hangs + reports; }
};

// The target for the test of this program (tests/dev/fuzz_long_test.py): a byte selects how it
// ends.
constexpr size_t kSelfTestKinds = 8;
constinit const Target kSelfTest{
    "self_test", [](SplitMix& random) { return random_bytes(random, 1); },
    [](std::span<const std::byte> input, SplitMix&) { return Bytes(input.begin(), input.end()); },
    [](std::span<const std::byte> input) {
      switch (static_cast<size_t>(input[0]) % kSelfTestKinds) {
        case 0:
          broken("self_test", "a crash on purpose");
        case 1:
          for (;;) ::pause();
        case 2:
          std::_Exit(77);
        case 3:
          return Outcome::kRefused;
        default:
          return Outcome::kLaunched;
      }
    }};

const Target& target_named(const std::string& name) {
  for (const Target* target : all_targets())
    if (target->name == name) return *target;
  if (name == kSelfTest.name) return kSelfTest;
  throw std::runtime_error("unknown target '" + name +
                           "'; expected compile, run, request or verify");
}

// Input number `index` of a run; depends only on seed and index.
Bytes input_of(const Target& target, uint64_t seed, uint64_t index) {
  SplitMix mix(seed * 0x10001 + index);
  SplitMix random(mix.next());
  return target.make(random);
}

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read '" + path.string() + "'");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_file(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) throw std::runtime_error("cannot write '" + path.string() + "'");
}

// The most important line of a log: the sanitizer's summary, else the last one.
std::string summary_of(const fs::path& log) {
  std::ifstream file(log);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("SUMMARY:") || line.find("runtime error:") != std::string::npos)
      return line;
    if (!line.empty()) last = line;
  }
  return last.substr(0, 300);
}

class LongRun {
 public:
  explicit LongRun(const Options& options)
      : options_(options), target_(target_named(options.target)) {
    void* memory =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map memory shared with children");
    shared_ = new (memory) Shared{};
    fs::create_directories(options_.found);
    load();
  }
  ~LongRun() { ::munmap(shared_, sizeof(Shared)); }
  LongRun(const LongRun&) = delete;
  LongRun& operator=(const LongRun&) = delete;

  int run() {
    const auto start = std::chrono::steady_clock::now();
    while (totals_.next < options_.count) {
      run_batch(std::min(options_.count, totals_.next + options_.batch));
      save();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    print(seconds.count());
    return totals_.failures() == 0 ? 0 : 1;
  }

 private:
  fs::path log_path() const { return options_.found / (std::string(target_.name) + ".log"); }

  // Runs in the child and ends it.
  [[noreturn]] void work(uint64_t end) const {
    const int log = ::open(log_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (log < 0 || ::dup2(log, STDERR_FILENO) < 0) std::_Exit(78);
    for (uint64_t i = totals_.next; i < end; ++i) {
      shared_->current = i;
      const Bytes input = input_of(target_, options_.seed, i);
      ::alarm(options_.limit_s);
      const Outcome outcome = target_.execute(input);
      ::alarm(0);
      ++shared_->outcomes[static_cast<size_t>(outcome)];
    }
    shared_->current = end;
    std::exit(0);  // a sanitizer looks for leaks here
  }

  void run_batch(uint64_t end) {
    shared_->current = totals_.next;
    for (auto& count : shared_->outcomes) count = 0;
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("cannot start a child process");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      work(end);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    totals_.refused += shared_->outcomes[0];
    totals_.too_large += shared_->outcomes[1];
    totals_.launched += shared_->outcomes[2];
    const uint64_t reached = shared_->current;
    totals_.next = std::min(end, reached + 1);
    if (status != 0) record(status, reached, end);
  }

  void record(int status, uint64_t index, uint64_t end) {
    std::string what = "sanitizer report";
    if (WIFSIGNALED(status)) {
      const bool hang = WTERMSIG(status) == SIGALRM;
      what = hang ? "hang" : "crash (signal " + std::to_string(WTERMSIG(status)) + ")";
      ++(hang ? totals_.hangs : totals_.crashes);
    } else {
      ++totals_.reports;
    }
    // A leak is found at the end of a batch and belongs to no single input.
    const std::string name = std::string(target_.name) + "-" + std::to_string(options_.seed) + "-" +
                             std::to_string(index) + (index == end ? "-end" : "");
    if (index < end)
      write_file(options_.found / (name + ".bin"), input_of(target_, options_.seed, index));
    std::error_code none;
    fs::rename(log_path(), options_.found / (name + ".log"), none);
    std::printf("%s %s: %s\n", name.c_str(), what.c_str(),
                summary_of(options_.found / (name + ".log")).c_str());
    std::fflush(stdout);
  }

  static constexpr const char* kHeading = "vernier_fuzz_long";
  void save() const {
    if (options_.state.empty()) return;
    std::ofstream file(options_.state);
    file << kHeading << ' ' << target_.name << ' ' << options_.seed << ' ' << totals_.next << ' '
         << totals_.refused << ' ' << totals_.too_large << ' ' << totals_.launched << ' '
         << totals_.crashes << ' ' << totals_.hangs << ' ' << totals_.reports << '\n';
    if (!file.flush()) throw std::runtime_error("cannot write '" + options_.state.string() + "'");
  }
  void load() {
    std::ifstream file(options_.state);
    if (options_.state.empty() || !file) return;
    std::string heading, target;
    uint64_t seed = 0;
    Totals& t = totals_;
    file >> heading >> target >> seed >> t.next >> t.refused >> t.too_large >> t.launched >>
        t.crashes >> t.hangs >> t.reports;
    if (!file || heading != kHeading || target != target_.name || seed != options_.seed)
      throw std::runtime_error("'" + options_.state.string() + "' is not the state of a run of '" +
                               options_.target + "' with seed " + std::to_string(options_.seed) +
                               "; give another file");
  }

  void print(double seconds) const {
    const uint64_t done = totals_.next;
    const auto share = [&](uint64_t part) {
      return done == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(done);
    };
    std::printf(
        "%s: %llu inputs of seed %llu: %llu refused, %llu too large to run, %llu reached a first "
        "launch (%.1f %%); %llu crashes, %llu hangs, %llu sanitizer reports; %.0f s\n",
        target_.name.data(), count(done), count(options_.seed), count(totals_.refused),
        count(totals_.too_large), count(totals_.launched), share(totals_.launched),
        count(totals_.crashes), count(totals_.hangs), count(totals_.reports), seconds);
  }
  static unsigned long long count(uint64_t number) { return number; }

  Options options_;
  const Target& target_;
  Shared* shared_ = nullptr;
  Totals totals_;
};

int replay(const Options& options) {
  const Target& target = target_named(options.target);
  constexpr const char* kOutcomes[] = {"refused", "too large to run", "reached a first launch"};
  for (const fs::path& path : options.replay) {
    std::printf("%s: ", path.c_str());
    std::fflush(stdout);
    ::alarm(options.limit_s);
    const Outcome outcome = target.execute(read_file(path));
    ::alarm(0);
    std::printf("%s\n", kOutcomes[static_cast<size_t>(outcome)]);
  }
  return 0;
}

int main_of(int argc, char** argv) {
  Options options;
  CLI::App app("Runs many inputs of a fuzz target; crashes and hangs are recorded.",
               "vernier_fuzz_long");
  app.add_option("target", options.target, "compile, run, request or verify")->required();
  app.add_option("--count", options.count, "number of inputs, including those of the state file");
  app.add_option("--seed", options.seed, "seed of the inputs");
  app.add_option("--state", options.state, "state file: read if it exists, and written");
  app.add_option("--found", options.found, "folder for the inputs and logs of failures");
  app.add_option("--batch", options.batch, "inputs for each child process");
  app.add_option("--limit", options.limit_s, "seconds after which an input counts as a hang");
  app.add_option("--replay", options.replay, "run only these inputs, in this process");
  CLI11_PARSE(app, argc, argv);
  return options.replay.empty() ? LongRun(options).run() : replay(options);
}

}  // namespace
}  // namespace vernier::fuzz

int main(int argc, char** argv) {
  try {
    return vernier::fuzz::main_of(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vernier_fuzz_long: %s\n", error.what());
    return 2;
  }
}
