// bench_dispatch: what it costs to share a step: nanoseconds of a step of tiny parts, by how long
// each part takes and how long the caller does something else before the next.
//   bench_dispatch [--threads 2] [--steps 20000]
// Subjects: "pool", the process's workers as sessions use them (core/threads.h); "barrier", one
// thread that spins for each step and has a fixed half of it, the least that sharing between two
// can cost where every thread has a CPU (and what sessions had before the pool); "alone", the
// caller only. Prints JSON: median and p99 per subject and cell. Subjects take turns within a cell.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/threads.h"

namespace {

using Clock = std::chrono::steady_clock;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

void work_for(int64_t ns) {
  if (ns == 0) return;
  const auto end = Clock::now() + std::chrono::nanoseconds(ns);
  while (Clock::now() < end) {
  }
}

/// Workers of its own that spin; the division is fixed.
class Barrier {
 public:
  explicit Barrier(int threads) {
    for (int i = 1; i < threads; ++i) {
      workers_.emplace_back([this, i] {
        for (uint32_t seen = 0;;) {
          uint32_t now = 0;
          while ((now = step_.load(std::memory_order_acquire)) == seen) pause();
          seen = now;
          if (stop_) return;
          body_(context_, i);
          pending_.fetch_sub(1, std::memory_order_release);
        }
      });
    }
  }
  ~Barrier() {
    stop_ = true;
    ++step_;
    for (std::thread& worker : workers_) worker.join();
  }
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  void run(void (*body)(void*, int), void* context) {
    body_ = body;
    context_ = context;
    pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    step_.fetch_add(1, std::memory_order_release);
    body(context, 0);
    while (pending_.load(std::memory_order_acquire) > 0) pause();
  }

 private:
  std::vector<std::thread> workers_;
  std::atomic<uint32_t> step_{0};
  std::atomic<int> pending_{0};
  std::atomic<bool> stop_{false};
  void (*body_)(void*, int) = nullptr;
  void* context_ = nullptr;
};

struct Cell {
  int64_t part_ns, pause_ns;  // of each part; between two steps
};

void body(void* cell, int) { work_for(static_cast<const Cell*>(cell)->part_ns); }

template <class Step>
std::vector<double> time_steps(int steps, const Cell& cell, const Step& step) {
  std::vector<double> times;
  for (int i = 0; i < steps; ++i) {
    work_for(cell.pause_ns);
    const auto begin = Clock::now();
    step();
    times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  return times;
}

void add(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

nlohmann::json summary(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) {
    return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1))];
  };
  return {{"median_ns", at(0.5)}, {"p99_ns", at(0.99)}};
}

nlohmann::json measure(int threads, int steps, Cell cell) {
  constexpr int kRounds = 10;
  std::vector<double> pool, barrier, alone;
  for (int round = 0; round < kRounds; ++round) {
    {
      vernier::ThreadTeam team(threads);
      const vernier::ThreadTeam::Turn turn(team);
      add(pool, time_steps(steps / kRounds, cell, [&] { team.run(threads, &body, &cell); }));
    }
    {
      Barrier team(threads);
      add(barrier, time_steps(steps / kRounds, cell, [&] { team.run(&body, &cell); }));
    }
    add(alone, time_steps(steps / kRounds, cell, [&] {
          for (int part = 0; part < threads; ++part) body(&cell, part);
        }));
  }
  return {{"part_ns", cell.part_ns},
          {"pause_ns", cell.pause_ns},
          {"pool", summary(pool)},
          {"barrier", summary(barrier)},
          {"alone", summary(alone)}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What sharing a step costs");
  int threads = 2, steps = 20000;
  app.add_option("--threads", threads)->check(CLI::Range(2, 1024));
  app.add_option("--steps", steps)->check(CLI::Range(100, 10000000));
  CLI11_PARSE(app, argc, argv);
  nlohmann::json cells = nlohmann::json::array();
  for (const int64_t part_ns : {0, 2000, 20000}) {
    for (const int64_t pause_ns : {0, 2000, 50000})
      cells.push_back(measure(threads, steps, {part_ns, pause_ns}));
  }
  std::cout << nlohmann::json{{"threads", threads}, {"cells", cells}}.dump(1) << "\n";
}
