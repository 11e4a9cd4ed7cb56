// Teams and their turns: see threads.h; workers: worker_pool.h.
#include "core/threads.h"

#include <exception>
#include <utility>

#include "core/cpus.h"
#include "core/worker_pool.h"

namespace vernier {
namespace {

// A caller waits for parts that workers have begun as long as an uneven division explains, a
// quarter of what its own took; then it sleeps, so that a worker gets the CPU if that is what it
// lacks.
constexpr int64_t kUneven = 4;

// The share of a caller's time that other programs took: it follows a rise within one time slice of
// the scheduler, and a fall slowly, since working alone may be why it fell: more slowly each time
// that the crowd was there again at once.
constexpr double kRiseNs = 20e6, kFallNs = 200e6, kSlowestFallNs = 5e9;
constexpr int64_t kAtOnceNs = 1'000'000'000;
constexpr double kCrowdBegins = 0.15, kCrowdEnds = 0.05;
// In a crowd a part of this length is worth a thread that has to be woken and may lose its CPU, as
// long as nothing was measured. From time to time a run goes the other way, to measure that: more
// and more rarely.
constexpr double kLongPartUs = 150;
constexpr uint32_t kFirstProbe = 16, kRarestProbe = 1024;  // every so many runs
constexpr double kNewest = 0.125;                          // weight of the last run in the mean

void add_to_mean(double& mean, double value) { mean += (mean > 0 ? kNewest : 1) * (value - mean); }

// The run that this thread works on.
thread_local ThreadTeam* own_turn = nullptr;

}  // namespace

// ---- ThreadTeam

ThreadTeam::ThreadTeam(int threads) : fall_ns_(kFallNs) {
  Pool& pool = Pool::here();
  size_ = std::min(threads > 0 ? threads : pool.cpus(), kMostThreads);
  pool.add_team();
  pool.start_workers(size_);
}

ThreadTeam::~ThreadTeam() { Pool::here().remove_team(); }

void ThreadTeam::run(int parts, void (*body)(void*, int), void* context) {
  const auto all_alone = [&] {
    const InAPart here;
    for (int part = 0; part < parts; ++part) body(context, part);
  };
  if (parts <= 1 || InAPart::is()) return all_alone();
  const Turn turn(*this);
  if (alone_ || !job_ || pool_->workers() == 0 || pool_->room() <= 0) {
    own_parts_ += parts;
    return all_alone();
  }
  shares_ = true;
  share(parts, body, context);
}

void ThreadTeam::share(int parts, void (*body)(void*, int), void* context) {
  const int64_t begun = now_ns();
  job_->open_parts(parts, body, context);
  // Those that came to the last job are there, those that were just called are on their way.
  const int on_their_way = begun - called_ns_ < pool_->patience_ns() ? called_ : 0;
  const int called = pool_->call_workers(parts - 1, std::max(helped_, on_their_way));
  if (called > 0) {
    called_ = called;
    called_ns_ = begun;
  }
  int own = 0;
  for (int part = job_->take(0); part >= 0; part = job_->take(0)) {
    job_->perform(part);
    ++own;
  }
  helped_ = parts - own;
  own_parts_ += own;
  const int64_t now = now_ns();
  const int64_t slept =
      job_->wait_for(helped_, now + std::max(pool_->patience_ns(), (now - begun) / kUneven));
  // A part as long as ours may have begun when ours ended; what is longer, other programs took.
  if (slept > 0 && own > 0) slept_ns_ += std::min(slept, (now - begun) / own);
  if (job_->error) std::rethrow_exception(std::exchange(job_->error, nullptr));
}

// ---- Turn

ThreadTeam::Turn::Turn(ThreadTeam& team, Pace* pace)
    : team_(team), outermost_(team.pool_ == nullptr && !InAPart::is()), pace_(pace) {
  if (!outermost_) return;
  Pool& pool = Pool::here();
  team.pool_ = &pool;
  pool.start_workers(team.size_);  // after a fork: there are none
  team.job_ = pool.enter(team.size_ > 1);
  team.own_parts_ = team.slept_ns_ = 0;
  team.shares_ = false;
  team.alone_ = team.crowded_ && pace && team.works_alone(*pace);
  before_ = std::exchange(own_turn, &team);
  if (team.size_ == 1) return;
  wall_ns_ = now_ns();
  cpu_ns_ = thread_cpu_ns();
  preemptions_ = preemptions();
}

ThreadTeam::Turn::~Turn() {
  if (!outermost_) return;
  if (team_.size_ > 1) {
    const int64_t now = now_ns();
    const auto cpu_ns = static_cast<double>(thread_cpu_ns() - cpu_ns_);
    const auto wall_ns = static_cast<double>(now - wall_ns_);
    // Who was never interrupted waited for a disk, or for a worker, and lost nothing to others. The
    // first run of a kind says nothing: it reads what others have in memory.
    const bool first = pace_ && pace_->part_us == 0;
    const bool interrupted = preemptions() > preemptions_;
    const double awake_ns = std::max(1.0, wall_ns - static_cast<double>(team_.slept_ns_));
    if (pace_) team_.measure(*pace_, wall_ns, cpu_ns);
    if (!first)
      team_.watch(now, wall_ns, interrupted ? std::clamp(1 - cpu_ns / awake_ns, 0.0, 1.0) : 0);
  }
  team_.pool_->leave(team_.job_);
  team_.pool_ = nullptr;
  team_.job_ = nullptr;
  own_turn = before_;
}

// In a crowd: the faster way of the two, as far as both are known.
bool ThreadTeam::works_alone(Pace& pace) const {
  if (pace.crowd != crowds_) {
    pace = {.part_us = pace.part_us,
            .crowd = crowds_,
            .until_probe = kFirstProbe,
            .probe_every = kFirstProbe};
  }
  const bool both = pace.shared_us > 0 && pace.alone_us > 0;
  const bool alone = both ? pace.alone_us <= pace.shared_us : pace.part_us < kLongPartUs;
  if (--pace.until_probe > 0) return alone;
  pace.probe_every = std::min(2 * pace.probe_every, kRarestProbe);
  pace.until_probe = pace.probe_every;
  return !alone;
}

// After a run that took `wall_ns`, of which this thread had a CPU for `cpu_ns`.
void ThreadTeam::measure(Pace& pace, double wall_ns, double cpu_ns) const {
  if (own_parts_ == 0) return;
  pace.part_us = cpu_ns / 1e3 / static_cast<double>(own_parts_);
  if (!crowded_ || pace.crowd != crowds_) return;
  if (alone_) add_to_mean(pace.alone_us, wall_ns / 1e3);
  if (shares_) add_to_mean(pace.shared_us, wall_ns / 1e3);
}

// After a run of `wall_ns`, the share `lost` of which went to other programs.
void ThreadTeam::watch(int64_t now, double wall_ns, double lost) {
  const double weight = std::min(1.0, wall_ns / (lost > lost_ ? kRiseNs : fall_ns_));
  lost_ += weight * (lost - lost_);
  const bool before = crowded_;
  crowded_ = lost_ > (crowded_ ? kCrowdEnds : kCrowdBegins);
  if (before && !crowded_) crowd_end_ns_ = now;
  if (!before && crowded_) {
    ++crowds_;
    const bool at_once = crowd_end_ns_ > 0 && now - crowd_end_ns_ < kAtOnceNs;
    fall_ns_ = at_once ? std::min(2 * fall_ns_, kSlowestFallNs) : kFallNs;
  }
  pool_->set_crowded(crowded_);
}

// ---- work outside sessions

void in_parallel(int64_t count, int64_t least,
                 const std::function<void(int64_t begin, int64_t end)>& body) {
  if (count < 2 * least) return body(0, count);
  struct Context {
    const std::function<void(int64_t, int64_t)>* body;
    int64_t count, parts;
  } context{&body, count, 1};
  const auto share_on = [&](ThreadTeam& team) {
    context.parts = std::min<int64_t>(count / least, team.size());
    team.run(
        static_cast<int>(context.parts),
        [](void* opaque, int part) {
          const auto& c = *static_cast<Context*>(opaque);
          (*c.body)(c.count * part / c.parts, c.count * (part + 1) / c.parts);
        },
        &context);
  };
  if (own_turn) return share_on(*own_turn);  // a session's work has a session's threads
  ThreadTeam team(0);
  share_on(team);
}

// ---- for tests

PretendCpus::PretendCpus(int cpus) { Pool::here().set_cpus(cpus); }
PretendCpus::~PretendCpus() { Pool::here().set_cpus(allowed_cpus()); }
int pool_workers() { return Pool::here().workers(); }

}  // namespace vernier
