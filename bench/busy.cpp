// bench_busy: sessions of one engine, each in a thread of its own, which run as often as they can
// until the time is over; and a soak of them.
//   bench_busy ENGINE.vn --sessions 4 --threads 0 --sizes batch=1,seq=16 --seconds 2
//   bench_busy ENGINE.vn --sessions 4 --windows --seconds 1
//   bench_busy ENGINE.vn --sessions 16 --soak --seconds 600
// Prints JSON: the milliseconds of every run of every session. --windows: prints "ready", then
// reads times (seconds since 1970: so that several processes begin together), a line each, runs for
// --seconds from each and prints a line of JSON; ends with the input. --soak: random sizes and
// numbers of threads, every output held against one made on one thread, children forked meanwhile
// that run a session of the parent's; exit 1 if a bit was wrong, and the wait for a hanging child
// is not endless. Used by bench/peers/busy.py.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "vernier/engine.h"
#include "vernier/session.h"
#include "vernier/synthetic.h"

namespace {

using vernier::Engine;
using vernier::Input;
using vernier::InputArray;
using vernier::Output;
using vernier::Session;
using Clock = std::chrono::steady_clock;
using Wall = std::chrono::system_clock;

struct Options {
  std::string engine, sizes = "batch=1,seq=16";
  int sessions = 1, threads = 0;
  double seconds = 2;
  bool soak = false, windows = false;
};

constexpr int kWarmUpRuns = 5;
constexpr unsigned kChildSeconds = 120;

std::vector<Input> as_inputs(const std::vector<InputArray>& arrays) {
  std::vector<Input> inputs;
  for (const InputArray& array : arrays)
    inputs.push_back({array.name, array.dtype, array.shape, array.bytes.data()});
  return inputs;
}

double ms_between(Clock::time_point first, Clock::time_point last) {
  return std::chrono::duration<double, std::milli>(last - first).count();
}

// ---- as fast as they can

using Sessions = std::vector<std::unique_ptr<Session>>;

std::vector<double> run_until(Session& session, const std::vector<Input>& inputs,
                              Wall::time_point begin, double seconds) {
  std::vector<double> times;
  times.reserve(size_t{1} << 16);
  std::this_thread::sleep_until(begin);
  const auto first = Clock::now();
  for (auto last = first; ms_between(first, last) < seconds * 1e3;) {
    session.run(inputs);
    const auto now = Clock::now();
    times.push_back(ms_between(last, now));
    last = now;
  }
  return times;
}

nlohmann::json window(const Sessions& sessions, const std::vector<Input>& inputs,
                      Wall::time_point begin, double seconds) {
  std::vector<std::vector<double>> times(sessions.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < sessions.size(); ++i)
    threads.emplace_back([&, i] { times[i] = run_until(*sessions[i], inputs, begin, seconds); });
  for (std::thread& thread : threads) thread.join();
  size_t arena_bytes = 0;
  for (const auto& session : sessions) arena_bytes += session->arena_bytes();
  return {{"times_ms", times}, {"arena_bytes", arena_bytes}};
}

void measure(const Options& o) {
  const auto engine = Engine::open(o.engine);
  const std::vector<InputArray> arrays = vernier::synthetic_inputs(*engine, o.sizes);
  const std::vector<Input> inputs = as_inputs(arrays);
  Sessions sessions;
  for (int i = 0; i < o.sessions; ++i) {
    sessions.push_back(
        std::make_unique<Session>(engine, vernier::SessionOptions{.threads = o.threads}));
    for (int run = 0; run < kWarmUpRuns; ++run) sessions.back()->run(inputs);
  }
  if (!o.windows) {
    const auto begin = Wall::now() + std::chrono::milliseconds(50);
    std::cout << window(sessions, inputs, begin, o.seconds).dump() << "\n";
    return;
  }
  std::cout << "ready" << std::endl;
  for (double at = 0; std::cin >> at;) {
    const Wall::time_point begin(
        std::chrono::duration_cast<Wall::duration>(std::chrono::duration<double>(at)));
    std::cout << window(sessions, inputs, begin, o.seconds).dump() << std::endl;
  }
}

// ---- soak

std::vector<std::string> answers(Session& session, const std::vector<Input>& inputs) {
  std::vector<std::string> bytes;
  for (const Output& output : session.run(inputs))
    bytes.emplace_back(static_cast<const char*>(output.data), output.bytes);
  return bytes;
}

struct Case {
  std::vector<InputArray> arrays;
  std::vector<Input> inputs;
  std::vector<std::string> answers;  // on one thread
};

std::vector<Case> make_cases(const std::shared_ptr<const Engine>& engine) {
  std::vector<Case> cases;
  Session alone(engine, {.threads = 1});
  for (int batch : {1, 2, 3, 8}) {
    for (int seq : {1, 5, 16, 33, 128}) {
      Case made;
      made.arrays = vernier::synthetic_inputs(
          *engine, "batch=" + std::to_string(batch) + ",seq=" + std::to_string(seq));
      made.inputs = as_inputs(made.arrays);
      made.answers = answers(alone, made.inputs);
      cases.push_back(std::move(made));
    }
  }
  return cases;
}

// A child runs a session that was made before the fork. Its exit code; -1: a signal, SIGALRM where
// it hangs.
int child_runs(Session& session, const Case& what) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(kChildSeconds);
    _exit(answers(session, what.inputs) == what.answers ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

nlohmann::json soak(const Options& o) {
  const auto engine = Engine::open(o.engine);
  const std::vector<Case> cases = make_cases(engine);
  std::atomic<int64_t> runs{0}, wrong{0}, children{0}, bad_children{0};
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(o.seconds));
  std::vector<std::thread> threads;
  for (int i = 0; i < o.sessions; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<unsigned>(i));
      const auto any = [&](size_t count) { return random() % count; };
      while (Clock::now() < end) {
        Session session(engine, {.threads = static_cast<int>(any(6))});
        for (int run = 0; run < 50 && Clock::now() < end; ++run) {
          const Case& what = cases[any(cases.size())];
          wrong += answers(session, what.inputs) != what.answers;
          ++runs;
          if (any(100) == 0) {
            bad_children += child_runs(session, what) != 0;
            ++children;
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {{"runs", runs.load()},
          {"wrong", wrong.load()},
          {"children", children.load()},
          {"bad_children", bad_children.load()}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Sessions of one engine, side by side");
  Options o;
  app.add_option("engine", o.engine)->required();
  app.add_option("--sizes", o.sizes);
  app.add_option("--sessions", o.sessions)->check(CLI::Range(1, 1024));
  app.add_option("--threads", o.threads)->check(CLI::Range(0, 1024));
  app.add_option("--seconds", o.seconds)->check(CLI::Range(0.0, 36000.0));
  app.add_flag("--windows", o.windows);
  app.add_flag("--soak", o.soak);
  CLI11_PARSE(app, argc, argv);
  try {
    if (!o.soak) {
      measure(o);
      return 0;
    }
    const nlohmann::json result = soak(o);
    std::cout << result.dump() << "\n";
    return result["wrong"] != 0 || result["bad_children"] != 0 ? 1 : 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_busy: " << error.what() << "\n";
    return 2;
  }
}
