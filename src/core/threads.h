// Threads that share the machine: one pool of workers per process, and for each session a
// ThreadTeam, which says into how many parts a step is cut and how many threads may work on it.
//
// The division of a step depends only on the team's size, so results never depend on timing. Any
// thread may compute any part: the caller starts with the first, workers with theirs, and a thread
// that has finished takes another one. A worker that does not start delays nobody. At most as many
// threads work at once, callers included, as the process may use CPUs (core/cpus.h): with enough
// callers each works alone. Reasons: docs/decisions/0015-one-pool-per-process.md. in_parallel: for
// work outside sessions, such as a build.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

#include "core/load_estimate.h"

namespace vernier {

/// A team serves one caller at a time; any number of teams work at once.
class ThreadTeam {
 public:
  static constexpr int kMaxThreads = 1024;

  /// Steps are divided into up to `threads` parts; 0: allowed_cpus(). Starts missing workers of the
  /// pool. If the system refuses (RLIMIT_NPROC, memory), a line is logged and the existing threads
  /// do the work, at worst the caller alone.
  explicit ThreadTeam(int threads);
  /// The last team ends the workers.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// The most parts of a step; results do not depend on it.
  int size() const { return size_; }

  /// Calls body(context, part) once for each part in [0, parts), parts <= size(), and returns when
  /// all are done. Scratch memory is indexed by `part`, not by thread. If bodies throw, the
  /// exception of the first such part is rethrown here after all parts have ended; a single thread
  /// may skip later parts. A nested run() is executed by the calling thread alone. No allocation,
  /// no lock. Waits by spinning briefly, then on a futex.
  void run(int parts, void (*body)(void* context, int part), void* context);

  /// body(begin, end, part) over [0, count) in contiguous parts whose bounds are multiples of
  /// `grain`: the minimum work for another thread (a microsecond or two).
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    if (count <= 0) return;
    struct Context {
      const Body* body;
      int64_t count, grain, blocks;
      int parts;
    } context{&body, count, grain, (count + grain - 1) / grain, size_};
    context.parts = static_cast<int>(std::min<int64_t>(parts_, context.blocks));
    run(
        context.parts,
        [](void* opaque, int part) {
          const auto& c = *static_cast<Context*>(opaque);
          const int64_t begin = c.blocks * part / c.parts * c.grain;
          const int64_t end = std::min(c.count, c.blocks * (part + 1) / c.parts * c.grain);
          (*c.body)(begin, end, part);
        },
        &context);
  }

  /// Measured times of one kind of run, kept by the caller between runs.
  struct Pace {
    double part_us = 0;  ///< a part of a step; 0: not known yet
    /// A run on one thread that nothing interrupts; 0: not known. Rises slowly until the next one.
    double undisturbed_us = 0;
    // Under load runs come in blocks, which share their steps or do not.
    bool alone = false;                  ///< the variant of the current block
    bool trial = true;                   ///< a short block, to compare with the other variant
    double block_us = 0, runs = 0;       ///< of the current block, so far
    double kept_us = 0;                  ///< length of a block of the faster variant
    double shared_us = 0, alone_us = 0;  ///< mean of a run in the last block of each; 0: not known
    uint32_t crowd = 0;                  ///< the period of load of the measurement
  };
  /// During its lifetime the caller executes one run: it counts as a working thread, workers stay
  /// awake between steps, and the time taken by other programs is measured. run() creates one if
  /// there is none.
  class Turn {
   public:
    explicit Turn(ThreadTeam& team, Pace* pace = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    double share_lost(double wall_ns);
    double share_of_pace(double wall_ns) const;

    ThreadTeam& team_;
    bool outermost_, asks_ = false;  // asks_: the system, for what other programs took of this run
    Pace* pace_;
    ThreadTeam* before_ = nullptr;                        // the enclosing turn
    int64_t wall_ns_ = 0, cpu_ns_ = 0, preemptions_ = 0;  // at its start
  };

 private:
  void share(int parts, void (*body)(void*, int), void* context);
  bool works_alone(Pace& pace) const;
  void count(Pace& pace, double wall_ns) const;
  static void end_block(Pace& pace);

  int size_ = 1;
  int parts_ = 1;               // those that parallel_for() makes: 1 in a turn that works alone
  class Pool* pool_ = nullptr;  // during a turn: the process's pool, a new one after a fork
  struct Job* job_ = nullptr;   // during a turn: our job; null: steps are not shared
  int64_t own_parts_ = 0;       // parts that the caller did in this turn
  int64_t slept_ns_ = 0;        // time waited in this turn for parts as long as its own
  int64_t late_ns_ = 0;         // and for parts that took longer
  bool alone_ = false;          // the steps of this turn are not shared, or no longer
  int64_t give_up_ns_ = 0;      // when this turn stops sharing steps; 0: never
  int helped_ = 0;              // parts of the last shared job done by workers
  int called_ = 0;              // workers called the last time, at the time below
  int64_t called_ns_ = 0;
  LoadEstimate load_;
};

/// body(begin, end) over [0, count) in contiguous parts of at least `least` (> 0), at most one per
/// CPU. The division depends on the machine; results of the body must not depend on it.
void in_parallel(int64_t count, int64_t least,
                 const std::function<void(int64_t begin, int64_t end)>& body);

/// For tests: during its lifetime the process may use `cpus` CPUs. Created and destroyed while
/// there is no team.
class PretendCpus {
 public:
  explicit PretendCpus(int cpus);
  ~PretendCpus();
  PretendCpus(const PretendCpus&) = delete;
  PretendCpus& operator=(const PretendCpus&) = delete;
};
/// For tests: the number of the pool's worker threads.
int pool_workers();

}  // namespace vernier
