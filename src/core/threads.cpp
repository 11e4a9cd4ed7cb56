// Teams and their turns: see threads.h; workers: worker_pool.h.
#include "core/threads.h"

#include <exception>
#include <utility>

#include "core/cpus.h"
#include "core/worker_pool.h"

namespace vernier {
namespace {

// A caller spins for parts that workers have begun for as long as an uneven division explains, a
// quarter of the time of its own parts; then it sleeps, so that a worker that needs the CPU gets
// it.
constexpr int64_t kUneven = 4;

// A thread that asks for its CPU time ends its time slice early, and the scheduler moves it to a
// free CPU less often. So short runs on one thread are only timed: what they take beyond an
// undisturbed one went to other programs. Longer ones are all interrupted, and ask.
constexpr double kShortRunUs = 4e3;
// Without an undisturbed run the time of one rises by so much in a second: CPUs become slower, too.
constexpr double kUndisturbedRise = 0.2;
// Caches alone make a run this much longer.
constexpr double kUneventful = 1.1;
// Under load from other programs a part of this length is worth waking a thread that may lose its
// CPU, until both variants are measured. Shorter ones are shared only after a trial, which comes
// last.
constexpr double kLongPartUs = 150;
// A block of runs spans several time slices of the scheduler (3 to 4 ms each), so that blocks can
// be compared. The faster variant is kept for at least 16 times the length of a trial of the other
// one, twice as long after each trial that confirms it.
constexpr double kTrialUs = 50e3, kKeptUs = 1e6, kLongestKeptUs = 16e6, kKeptTrials = 16;
constexpr double kShortAloneUs = 4e6;  // with short parts, before the first trial of sharing
constexpr double kTrialRuns = 2;
// Sharing must pay for the CPUs that it takes from others: other sessions of this process, too. Of
// two threads among many that are ready each has the CPU as often as one: a run of twice the cost
// looks faster. With short parts, more of which wait for a thread that is not there, that is most
// of what a trial sees.
constexpr double kWorthSharing = 0.8;       // of the time of a run on one thread
constexpr double kShortWorthSharing = 0.5;  // of that, with parts below kLongPartUs
// A run stops sharing its steps after this many times the length of a run on one thread: other
// programs have the workers' CPUs, and each further step would wait for them.
constexpr double kGiveUpAfter = 3;

// The run of the calling thread.
thread_local ThreadTeam* own_turn = nullptr;

}  // namespace

// ---- ThreadTeam

ThreadTeam::ThreadTeam(int threads) {
  Pool& pool = Pool::here();
  size_ = parts_ = std::min(threads > 0 ? threads : pool.cpus(), kMaxThreads);
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
  share(parts, body, context);
}

void ThreadTeam::share(int parts, void (*body)(void*, int), void* context) {
  const int64_t begun = now_ns();
  job_->open_parts(parts, body, context);
  // Workers of the last job are awake, those that were just called are starting.
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
  // A part as long as ours may have started when ours ended; other programs took the rest.
  if (slept > 0 && own > 0) {
    const int64_t explained = std::min(slept, (now - begun) / own);
    slept_ns_ += explained;
    late_ns_ += slept - explained;
  }
  if (give_up_ns_ > 0 && now > give_up_ns_) alone_ = true;
  if (job_->error) std::rethrow_exception(std::exchange(job_->error, nullptr));
}

// ---- Turn

ThreadTeam::Turn::Turn(ThreadTeam& team, Pace* pace)
    : team_(team), outermost_(team.pool_ == nullptr && !InAPart::is()), pace_(pace) {
  if (!outermost_) return;
  Pool& pool = Pool::here();
  team.pool_ = &pool;
  pool.start_workers(team.size_);  // after a fork there are none
  team.job_ = pool.enter(team.size_ > 1);
  team.own_parts_ = team.slept_ns_ = team.late_ns_ = 0;
  team.alone_ = team.load_.crowded() && pace && pace->part_us > 0 && team.works_alone(*pace);
  team.parts_ = team.alone_ ? 1 : team.size_;
  team.give_up_ns_ = 0;
  before_ = std::exchange(own_turn, &team);
  if (team.size_ == 1) return;
  wall_ns_ = now_ns();
  if (team.load_.crowded() && pace && !team.alone_ && pace->alone_us > 0)
    team.give_up_ns_ = wall_ns_ + static_cast<int64_t>(kGiveUpAfter * 1e3 * pace->alone_us);
  const bool short_and_known =
      pace && pace->undisturbed_us > 0 && pace->undisturbed_us < kShortRunUs;
  asks_ = !team.alone_ || !short_and_known;
  if (!asks_) return;
  cpu_ns_ = thread_cpu_ns();
  preemptions_ = preemptions();
}

ThreadTeam::Turn::~Turn() {
  if (!outermost_) return;
  if (team_.size_ > 1) {
    const int64_t now = now_ns();
    const auto wall_ns = static_cast<double>(now - wall_ns_);
    // The first run of a kind is not representative: it reads cold memory.
    const bool first = pace_ && pace_->part_us == 0;
    const double lost = asks_ ? share_lost(wall_ns) : share_of_pace(wall_ns);
    if (!first) {
      team_.load_.add(now, wall_ns, lost);
      team_.pool_->set_crowded(team_.load_.crowded());
    }
    if (pace_) team_.count(*pace_, wall_ns);
  }
  team_.parts_ = team_.size_;
  team_.pool_->leave(team_.job_);
  team_.pool_ = nullptr;
  team_.job_ = nullptr;
  own_turn = before_;
}

// The share of this run that other programs took, as the system says. A thread that was never
// preempted lost to them what it waited for parts that took longer than its own: their workers were
// preempted. The rest of its waits are for a disk.
double ThreadTeam::Turn::share_lost(double wall_ns) {
  const auto cpu_ns = static_cast<double>(thread_cpu_ns() - cpu_ns_);
  const bool interrupted = preemptions() > preemptions_;
  const double awake_ns = std::max(1.0, wall_ns - static_cast<double>(team_.slept_ns_));
  if (pace_ && team_.own_parts_ > 0)
    pace_->part_us = cpu_ns / 1e3 / static_cast<double>(team_.own_parts_);
  return interrupted ? std::clamp(1 - cpu_ns / awake_ns, 0.0, 1.0)
                     : static_cast<double>(team_.late_ns_) / awake_ns;
}

// The same of a run on one thread, from its length.
double ThreadTeam::Turn::share_of_pace(double wall_ns) const {
  return std::max(0.0, 1 - kUneventful * 1e3 * pace_->undisturbed_us / wall_ns);
}

// Under load: the variant of the current block of runs.
bool ThreadTeam::works_alone(Pace& pace) const {
  if (pace.crowd != load_.periods()) {
    const bool is_short = pace.part_us < kLongPartUs;
    pace = {.part_us = pace.part_us,
            .undisturbed_us = pace.undisturbed_us,
            .alone = is_short,
            .trial = !is_short,
            .kept_us = is_short ? kShortAloneUs : 0,
            .crowd = load_.periods()};
  }
  return pace.alone;
}

// After a run that took `wall_ns`.
void ThreadTeam::count(Pace& pace, double wall_ns) const {
  if (parts_ == 1) {
    const double risen = pace.undisturbed_us * (1 + kUndisturbedRise * wall_ns / 1e9);
    const double run_us = wall_ns / 1e3;
    pace.undisturbed_us = risen > 0 ? std::min(risen, run_us) : run_us;
  }
  const bool none_shared = own_parts_ == 0 && parts_ > 1;
  if (none_shared || !load_.crowded() || pace.crowd != load_.periods()) return;
  pace.block_us += wall_ns / 1e3;
  ++pace.runs;
  const bool gave_up = pace.trial && alone_ && !pace.alone;
  const bool over = pace.block_us >= (pace.trial ? kTrialUs : pace.kept_us);
  if ((over || gave_up) && pace.runs >= kTrialRuns) end_block(pace);
}

// Chooses the variant of the next block: after a kept block a trial of the other variant, after a
// trial the faster one.
void ThreadTeam::end_block(Pace& pace) {
  const double length_us = std::exchange(pace.block_us, 0);
  (pace.alone ? pace.alone_us : pace.shared_us) = length_us / std::exchange(pace.runs, 0);
  const bool both = pace.shared_us > 0 && pace.alone_us > 0;
  if (!pace.trial || !both) {
    pace.alone = !pace.alone;
    pace.trial = true;
    return;
  }
  const double worth = pace.part_us < kLongPartUs ? kShortWorthSharing : kWorthSharing;
  const bool alone = pace.shared_us > worth * pace.alone_us;
  const bool confirmed = alone != pace.alone && pace.kept_us > 0;
  const double kept_us = confirmed ? std::min(2 * pace.kept_us, kLongestKeptUs) : kKeptUs;
  pace.kept_us = std::max(kept_us, kKeptTrials * length_us);
  pace.alone = alone;
  pace.trial = false;
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
