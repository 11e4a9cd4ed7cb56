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
// the scheduler, and a fall slowly, since working alone may be why it fell.
constexpr double kRiseNs = 20e6, kFallNs = 200e6;
constexpr double kCrowdBegins = 0.15, kCrowdEnds = 0.05;
// In a crowd a part of this length is worth a thread that has to be woken and may lose its CPU.
constexpr double kLongPartUs = 150;

// The run that this thread works on.
thread_local ThreadTeam* own_turn = nullptr;

}  // namespace

// ---- ThreadTeam

ThreadTeam::ThreadTeam(int threads) {
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
  ++jobs_;
  if (alone_ || !job_ || pool_->workers() == 0 || pool_->room() <= 0) return all_alone();
  ++shared_jobs_;
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
  const int64_t now = now_ns();
  job_->wait_for(helped_, now + std::max(pool_->patience_ns(), (now - begun) / kUneven));
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
  team.jobs_ = team.shared_jobs_ = 0;
  team.alone_ = team.crowded_ && pace && pace->part_us < kLongPartUs;
  before_ = std::exchange(own_turn, &team);
  if (team.size_ == 1) return;
  wall_ns_ = now_ns();
  cpu_ns_ = thread_cpu_ns();
}

ThreadTeam::Turn::~Turn() {
  if (!outermost_) return;
  if (team_.size_ > 1) {
    const auto cpu_ns = static_cast<double>(thread_cpu_ns() - cpu_ns_);
    team_.watch(static_cast<double>(now_ns() - wall_ns_), cpu_ns);
    if (pace_ && team_.jobs_ > 0) pace_->part_us = team_.part_us(cpu_ns);
  }
  team_.pool_->leave(team_.job_);
  team_.pool_ = nullptr;
  team_.job_ = nullptr;
  own_turn = before_;
}

// The mean of a run whose caller worked for `cpu_ns`: on one part of a shared step, on all of
// others.
double ThreadTeam::part_us(double cpu_ns) const {
  const bool shared = 2 * shared_jobs_ > jobs_;
  return cpu_ns / 1e3 / jobs_ / (shared ? 1 : std::min(size_, pool_->cpus()));
}

// After a run that took `wall_ns`, of which this thread had a CPU for `cpu_ns`.
void ThreadTeam::watch(double wall_ns, double cpu_ns) {
  if (wall_ns <= 0) return;
  const double lost = std::clamp(1 - cpu_ns / wall_ns, 0.0, 1.0);
  const double weight = std::min(1.0, wall_ns / (lost > lost_ ? kRiseNs : kFallNs));
  lost_ += weight * (lost - lost_);
  crowded_ = lost_ > (crowded_ ? kCrowdEnds : kCrowdBegins);
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
