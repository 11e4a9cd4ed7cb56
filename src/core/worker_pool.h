// The process's worker threads, and the places where they find work. Internal to core/threads.cpp.
//
// A caller that starts a run takes one of kPlaces places (Job) and keeps it until the run ends. For
// each step it writes what is to be done and then opens the parts: one bit each in `open`. Taking a
// part is clearing its bit; whoever cleared it does it. A bit is only ever set while the job's text
// (body, context) is final, and the caller waits for every part that others took: so what is behind
// a bit that was cleared is never stale, whichever step it was read in.
//
// Orders that matter: `open` is set before `sleepers` is read (by the caller) and `sleepers`
// counted before `open` is read (by a worker that lies down), all sequentially consistent: one of
// the two sees the other. The same of `done` and `awaited`.
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

/// Waits while `word` is `value`; may return at any time. Wakes at most `count` that wait.
void futex_wait(std::atomic<uint32_t>& word, uint32_t value);
void futex_wake(std::atomic<uint32_t>& word, int count);
/// Nanoseconds of a clock that only runs forward, and of the calling thread's work.
int64_t now_ns();
int64_t thread_cpu_ns();
/// How often the calling thread lost its CPU to another while it had work.
int64_t preemptions();
/// Tells the processor that this is a loop that waits.
void pause();

/// One step of one run, cut into parts.
struct alignas(64) Job {
  static constexpr int kWordBits = 64;
  static constexpr int kWords = ThreadTeam::kMaxThreads / kWordBits;

  void (*body)(void*, int) = nullptr;
  void* context = nullptr;
  std::atomic<int> words{1};  ///< of `open`, that this job uses
  std::array<std::atomic<uint64_t>, kWords> open{};

  alignas(64) std::atomic<uint32_t> done{0};  ///< parts that workers have ended; a futex
  std::atomic<uint32_t> awaited{0};           ///< what `done` must be to wake the caller; 0: awake

  std::mutex mutex;  ///< of the two below; only where a body throws
  std::exception_ptr error;
  int error_part = 0;

  /// Opens the parts [0, parts) of a step to whoever comes.
  void open_parts(int parts, void (*what)(void*, int), void* with);
  /// Takes an open part, `favorite` if it can be; -1: none is open.
  int take(int favorite);
  /// Does a part that was taken; keeps what it throws if no earlier part has thrown.
  void perform(int part) noexcept;
  /// Returns when workers have ended `parts` parts: spins until the clock says `patient_until`,
  /// then sleeps. Nanoseconds that it slept.
  int64_t wait_for(int parts, int64_t patient_until);
};

/// While it lives the thread does a part of a step: what it calls in there it does alone.
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

class Pool {
 public:
  static constexpr int kPlaces = 64;  ///< runs that share at once; further ones work alone

  /// This process's; a child by fork() has a new one, without threads.
  static Pool& here();

  explicit Pool(int cpus) : cpus_(cpus) {}

  void add_team();
  void remove_team();
  /// Starts workers until a team of `size` has what it may use. Once a start has failed, not again
  /// before the next team.
  void start_workers(int size);

  /// A caller begins or ends a run: its place, or null where all are taken or it wants none.
  Job* enter(bool shares);
  void leave(Job* job);
  /// Workers that may be awake now.
  int room() const {
    return cpus_.load(std::memory_order_relaxed) - callers_.load(std::memory_order_relaxed);
  }
  int workers() const { return workers_.load(std::memory_order_relaxed); }
  /// Wakes workers for a job that was opened and that `wanted` can work on, `coming` of which come
  /// by themselves, as far as there is room; says how many.
  int call_workers(int wanted, int coming);

  int cpus() const { return cpus_.load(std::memory_order_relaxed); }
  void set_cpus(int cpus) { cpus_.store(cpus); }
  /// Other programs want the CPUs: who waits soon sleeps.
  void set_crowded(bool crowded) { crowded_.store(crowded, std::memory_order_relaxed); }
  /// How long whoever has nothing to do looks for work before it sleeps.
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
  /// Is another thread awake than there are CPUs for?
  bool too_many_awake(int awake) const {
    return callers_.load(std::memory_order_relaxed) + awake > cpus();
  }

  std::atomic<int> cpus_;
  alignas(64) std::atomic<uint64_t> taken_{0};  // places, one bit each
  std::atomic<int> callers_{0};
  std::atomic<bool> crowded_{false};
  alignas(64) std::atomic<int> sleepers_{0};  // workers asleep, or about to be, that nobody called
  std::atomic<uint32_t> calls_{0};            // not yet followed; the futex that they sleep on
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
