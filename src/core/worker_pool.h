// The process's worker threads and their jobs. Internal to core/threads.cpp.
//
// A caller that starts a run takes one of kPlaces jobs and keeps it until the run ends. For each
// step it writes the body and its context and then opens the parts: one bit each in `open`. A
// thread takes a part by clearing its bit, and then executes it. A bit is set only after body and
// context are written, and the caller waits for every part taken by others: so a thread that has
// cleared a bit never reads a stale body.
//
// Required order: the caller sets `open` before it reads `sleepers`, and a worker that goes to
// sleep increments `sleepers` before it reads `open`, all sequentially consistent: at least one of
// the two sees the other's write. The same holds for `done` and `awaited`.
#pragma once
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "core/threads.h"

namespace vernier {

/// Waits while `word` is `value`; may return at any time. Wakes at most `count` waiting threads.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value);
void futex_wake(std::atomic<uint32_t>& word, int count);
/// Nanoseconds of a monotonic clock, and of the calling thread's CPU time.
int64_t now_ns();
int64_t thread_cpu_ns();
/// Involuntary context switches of the calling thread.
int64_t preemptions();
/// The processor's hint for a spin loop.
void pause();

/// One step of one run, divided into parts.
struct alignas(64) Job {
  static constexpr int kWordBits = 64;
  static constexpr int kWords = ThreadTeam::kMaxThreads / kWordBits;

  void (*body)(void*, int) = nullptr;
  void* context = nullptr;
  std::atomic<int> words{1};  ///< words of `open` that this job uses
  std::array<std::atomic<uint64_t>, kWords> open{};

  alignas(64) std::atomic<uint32_t> done{0};  ///< parts that workers have ended; a futex
  std::atomic<uint32_t> awaited{0};           ///< what `done` must be to wake the caller; 0: awake

  std::mutex mutex;  ///< for the two below; locked only if a body throws
  std::exception_ptr error;
  int error_part = 0;

  /// Opens the parts [0, parts) of a step.
  void open_parts(int parts, void (*what)(void*, int), void* with);
  /// Takes an open part, preferably `favorite`; -1: none is open.
  int take(int favorite);
  /// Executes a part that was taken; keeps its exception if no earlier part has thrown.
  void perform(int part) noexcept;
  /// Waits until workers have ended `parts` parts: spins until the time `patient_until`, then
  /// sleeps. Returns the nanoseconds slept.
  int64_t wait_for(int parts, int64_t patient_until);
};

/// Marks that the thread executes a part: a nested run() is executed by this thread alone.
class InAPart {
 public:
  InAPart() : before_(current_) { current_ = true; }
  ~InAPart() { current_ = before_; }
  InAPart(const InAPart&) = delete;
  InAPart& operator=(const InAPart&) = delete;
  static bool is() { return current_; }

 private:
  static thread_local bool current_;
  bool before_;
};

class Pool {  // NOLINT(clang-analyzer-optin.performance.Padding): cache lines of their own
 public:
  static constexpr int kPlaces = 64;  ///< runs that share steps at once; further ones work alone

  /// The pool of this process; a child by fork() has a new one without threads.
  static Pool& here();

  explicit Pool(int cpus) : cpus_(cpus) {}

  void add_team();
  void remove_team();
  /// Starts the workers that a team of `size` may use. After a failed start it does not try again
  /// before the next team.
  void start_workers(int size);

  /// A caller begins or ends a run. Returns its job, or null if none is free or it wants none.
  Job* enter(bool shares);
  void leave(Job* job);
  /// The number of workers that may be awake now.
  int room() const {
    return cpus_.load(std::memory_order_relaxed) - callers_.load(std::memory_order_relaxed);
  }
  int workers() const { return workers_.load(std::memory_order_relaxed); }
  /// Wakes workers for an opened job on which `wanted` can work, of which `coming` are awake,
  /// within the limit of CPUs. Returns how many it woke.
  int call_workers(int wanted, int coming);

  int cpus() const { return cpus_.load(std::memory_order_relaxed); }
  void set_cpus(int cpus) { cpus_.store(cpus); }
  /// Under load from other programs: waiting threads sleep soon.
  void set_crowded(bool crowded) { crowded_.store(crowded, std::memory_order_relaxed); }
  /// How long an idle worker spins before it sleeps.
  int64_t patience_ns() const;

 private:
  static void* thread_main(void* opaque);
  bool start_worker();
  void work(int worker);
  bool help(int worker, size_t& place);
  bool anything_open() const;
  int call(int most);
  void lie_down();
  void stop_workers();
  /// Are more threads awake than there are CPUs?
  bool too_many_awake(int awake) const {
    return callers_.load(std::memory_order_relaxed) + awake > cpus();
  }

  std::atomic<int> cpus_;
  alignas(64) std::atomic<uint64_t> taken_{0};  // jobs in use, one bit each
  std::atomic<int> callers_{0};
  std::atomic<bool> crowded_{false};
  alignas(64) std::atomic<int> sleepers_{0};  // uncalled workers that sleep or are about to
  std::atomic<uint32_t> calls_{0};            // pending calls; the futex that they sleep on
  std::atomic<bool> stop_{false};
  std::atomic<int> workers_{0};
  std::atomic<bool> refused_{false};  // the system starts no more threads
  std::array<Job, kPlaces> jobs_;

 public:
  // Held while a fork() copies the process, too.
  std::mutex mutex;
  int teams = 0;
  std::vector<pthread_t> threads;
};

}  // namespace vernier
