// Threads that share the machine: one pool of workers per process, and for each session a
// ThreadTeam, which says into how many parts a step is cut and how many threads may work on it.
//
// How a step is cut depends on the team's size alone, so results never depend on timing. Who does a
// part is free: the caller begins with the first, workers with theirs, and whoever is done takes
// what is left. A worker that does not come delays nobody. No more threads work at once, callers
// included, than the process may use CPUs (core/cpus.h): where enough callers work, each works
// alone. docs/decisions/0015-one-pool-per-process.md says why. in_parallel: for work outside
// sessions, such as a build's.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>

namespace vernier {

/// Of one caller at a time; any number of teams work at once.
class ThreadTeam {
 public:
  static constexpr int kMostThreads = 1024;

  /// Steps are cut into up to `threads` parts; 0: allowed_cpus(). Starts the workers that the pool
  /// lacks for it. Where the system refuses (RLIMIT_NPROC, memory) a line of the log says so, and
  /// the work is done by those that there are, at worst by the caller alone.
  explicit ThreadTeam(int threads);
  /// The last team takes the workers with it.
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  /// Parts that a step is cut into at most; results do not depend on it.
  int size() const { return size_; }

  /// Calls body(context, part) once for each part in [0, parts), parts <= size(), and returns when
  /// all are done. `part` is the only index of scratch memory: threads have none. What a body
  /// throws is thrown here, that of the first part that throws, after all parts have ended; a
  /// single thread may skip those behind it. A body that calls run() again does that work itself.
  /// No allocation, no lock. Waits by spinning shortly, then on a futex.
  void run(int parts, void (*body)(void* context, int part), void* context);

  /// body(begin, end, part) over [0, count) cut into contiguous parts whose bounds are multiples of
  /// `grain`: the least that is worth another thread (a microsecond or two of work).
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
    if (count <= 0) return;
    struct Context {
      const Body* body;
      int64_t count, grain, blocks;
      int parts;
    } context{&body, count, grain, (count + grain - 1) / grain, size_};
    context.parts = static_cast<int>(std::min<int64_t>(size_, context.blocks));
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

  /// How long one kind of run takes, kept from run to run by whoever starts them.
  struct Pace {
    double part_us = 0;  ///< a part of a step; 0: not known yet
    // Beside other programs: a run that shared its steps, and one that did not; 0: not known.
    double shared_us = 0, alone_us = 0;
    uint32_t crowd = 0;                         ///< which crowd they were measured in
    uint32_t until_probe = 0, probe_every = 0;  ///< runs
  };
  /// While it lives the caller works on one run: it counts among the threads at work, workers stay
  /// awake between its steps, and the time that other programs take is watched. run() makes its own
  /// where there is none.
  class Turn {
   public:
    explicit Turn(ThreadTeam& team, Pace* pace = nullptr);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    ThreadTeam& team_;
    bool outermost_;
    Pace* pace_;
    ThreadTeam* before_ = nullptr;                        // the turn that this one stands in
    int64_t wall_ns_ = 0, cpu_ns_ = 0, preemptions_ = 0;  // when it began
  };

 private:
  void share(int parts, void (*body)(void*, int), void* context);
  bool works_alone(Pace& pace) const;
  void measure(Pace& pace, double wall_ns, double cpu_ns) const;
  void watch(int64_t now, double wall_ns, double lost);

  int size_ = 1;
  class Pool* pool_ = nullptr;  // during a turn: the process's, which is another after a fork
  struct Job* job_ = nullptr;   // during a turn: where workers find our parts; null: they do not
  int64_t own_parts_ = 0;       // that the caller did in this turn
  int64_t slept_ns_ = 0;        // that it waited in this turn for parts as long as its own
  bool shares_ = false;         // this turn has shared a step
  bool alone_ = false;          // this turn shares nothing
  int helped_ = 0;              // parts of the last shared job that workers did
  int called_ = 0;              // workers, the last time that any were, at this time
  int64_t called_ns_ = 0;
  double lost_ = 0;           // share of our time that went to other programs, lately
  bool crowded_ = false;      // so much that a run may be faster on one thread
  uint32_t crowds_ = 0;       // how often that began
  int64_t crowd_end_ns_ = 0;  // when it ended last
  double fall_ns_;            // how slowly `lost_` falls
};

/// body(begin, end) over [0, count) cut into contiguous parts of at least `least` (> 0), at most
/// one per CPU. How it is cut depends on the machine: a body must give the same results however it
/// is.
void in_parallel(int64_t count, int64_t least,
                 const std::function<void(int64_t begin, int64_t end)>& body);

/// For tests: while it lives the process may use `cpus` CPUs, whatever the machine has. Made and
/// ended while there is no team.
class PretendCpus {
 public:
  explicit PretendCpus(int cpus);
  ~PretendCpus();
  PretendCpus(const PretendCpus&) = delete;
  PretendCpus& operator=(const PretendCpus&) = delete;
};
/// For tests: worker threads that the pool has now.
int pool_workers();

}  // namespace vernier
