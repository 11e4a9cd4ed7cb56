// Workers: see worker_pool.h.
#include "core/worker_pool.h"

#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>

#include "core/cpus.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/log.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vernier {
namespace {

// Steps of a model follow each other faster than this; a sleeping thread starts 5 to 50 µs late.
constexpr int64_t kPatienceNs = 100'000;
// Under load from other programs, spinning takes CPU time from them, and then from us.
constexpr int64_t kPatienceInCrowdNs = 5'000;
constexpr int kLooksPerClock = 32;  // checks for work between two readings of the clock

int64_t ns_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return int64_t{1'000'000'000} * time.tv_sec + time.tv_nsec;
}

// Blocks all signals in a worker, except those that its own instructions raise.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      sigdelset(&all, own);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Never destroyed: a team may be a global object.
constinit std::atomic<Pool*> the_pool{nullptr};

Pool* make_pool() {
  const std::lock_guard lock(fork_mutex());
  if (the_pool.load() == nullptr) the_pool.store(new Pool(allowed_cpus()));
  return the_pool.load();
}

// Locked while a fork() copies the process, so that the list of workers does not change.
Pool* locked = nullptr;
void before_fork() {
  locked = the_pool.load();
  if (locked) locked->mutex.lock();
}
void parent_of_fork() {
  if (locked) locked->mutex.unlock();
}
// The child of a fork() has one thread and a copy of a pool that the parent's threads may have been
// changing: it gets a new pool. The old one is not freed: a run may be using it.
void child_of_fork() {
  if (!locked) return the_pool.store(nullptr);
  auto* own = new Pool(locked->cpus());
  own->teams = locked->teams;
  the_pool.store(own);
  locked->mutex.unlock();
}
[[maybe_unused]] const int registered =
    pthread_atfork(&before_fork, &parent_of_fork, &child_of_fork);

struct WorkerStart {
  WorkerStart(Pool* its_pool, int number) : pool(its_pool), worker(number) {}
  Pool* pool;
  int worker;
};

}  // namespace

void futex_wait(std::atomic<uint32_t>& word, uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, value, nullptr,
          nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr,
          nullptr, 0);
}
int64_t now_ns() { return ns_of(CLOCK_MONOTONIC); }
int64_t thread_cpu_ns() { return ns_of(CLOCK_THREAD_CPUTIME_ID); }
int64_t preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}
void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// ---- Job

thread_local bool InAPart::current_ = false;

// No bit is set before: all parts of the previous step were taken.
void Job::open_parts(int parts, void (*what)(void*, int), void* with) {
  body = what;
  context = with;
  done.store(0, std::memory_order_relaxed);
  const int used = (parts + kWordBits - 1) / kWordBits;
  words.store(used, std::memory_order_relaxed);
  for (int word = 0; word < used; ++word) {
    const int bits = std::min(parts - word * kWordBits, kWordBits);
    open[word].store(~uint64_t{0} >> (kWordBits - bits), std::memory_order_seq_cst);
  }
}

int Job::take(int favorite) {
  const int used = words.load(std::memory_order_relaxed);
  favorite %= used * kWordBits;
  for (int i = 0; i < used; ++i) {
    const int word = (favorite / kWordBits + i) % used;
    std::atomic<uint64_t>& bits = open[word];
    uint64_t seen = bits.load(std::memory_order_relaxed);
    while (seen != 0) {
      const int liked = favorite % kWordBits;
      const bool has_liked = i == 0 && (seen >> liked & 1) != 0;
      const int bit = has_liked ? liked : std::countr_zero(seen);
      const uint64_t mask = uint64_t{1} << bit;
      seen = bits.fetch_and(~mask, std::memory_order_acq_rel);
      if ((seen & mask) != 0) return word * kWordBits + bit;
    }
  }
  return -1;
}

void Job::perform(int part) noexcept {
  const InAPart here;
  try {
    body(context, part);
  } catch (...) {
    const std::lock_guard lock(mutex);
    if (error && error_part < part) return;
    error = std::current_exception();
    error_part = part;
  }
}

int64_t Job::wait_for(int parts, int64_t patient_until) {
  const auto others = static_cast<uint32_t>(parts);
  int64_t now = 0;
  for (int looks = 1; done.load(std::memory_order_acquire) != others; ++looks) {
    pause();
    if (looks % kLooksPerClock != 0 || (now = now_ns()) < patient_until) continue;
    awaited.store(others, std::memory_order_seq_cst);
    uint32_t seen = 0;
    while ((seen = done.load(std::memory_order_seq_cst)) != others) futex_wait(done, seen);
    awaited.store(0, std::memory_order_relaxed);
    return now_ns() - now;
  }
  return 0;
}

// ---- Pool

Pool& Pool::here() {
  Pool* pool = the_pool.load(std::memory_order_acquire);
  return pool ? *pool : *make_pool();
}

int64_t Pool::patience_ns() const {
  return crowded_.load(std::memory_order_relaxed) ? kPatienceInCrowdNs : kPatienceNs;
}

void Pool::add_team() {
  const std::lock_guard lock(mutex);
  ++teams;
  refused_.store(false);
}

void Pool::start_workers(int size) {
  const int wanted = std::min(size, cpus()) - 1;
  if (workers() >= wanted || refused_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  try {
    while (workers() < wanted && start_worker()) {
    }
  } catch (const std::bad_alloc&) {  // without memory for the list, work continues without threads
    threads.resize(workers());
    refused_.store(true);
  }
}

void* Pool::thread_main(void* opaque) {
  const std::unique_ptr<WorkerStart> start(static_cast<WorkerStart*>(opaque));
  use_allowed_cpus();
  start->pool->work(start->worker);
  return nullptr;
}

bool Pool::start_worker() {
  const int worker = workers() + 1;
  threads.emplace_back();
  auto start = std::make_unique<WorkerStart>(this, worker);
  const int status = [&] {
    const SignalsBlocked blocked;
    return pthread_create(&threads.back(), nullptr, &Pool::thread_main, start.get());
  }();
  if (status == 0) {
    static_cast<void>(start.release());  // the thread's own
    pthread_setname_np(threads.back(), "vernier");
    workers_.store(worker);
    return true;
  }
  threads.pop_back();
  refused_.store(true);
  log::warn("thread " + std::to_string(worker + 1) + " could not be started (" +
            std::strerror(status) + "): work continues with " + std::to_string(worker) +
            " threads, the results are the same; check 'ulimit -u' and 'ulimit -v'");
  return false;
}

void Pool::remove_team() {
  const std::lock_guard lock(mutex);
  if (--teams == 0) stop_workers();
}

void Pool::stop_workers() {
  stop_.store(true);
  call(sleepers_.load());
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  threads.clear();
  workers_.store(0);
  crowded_.store(false);
  stop_.store(false);
}

Job* Pool::enter(bool shares) {
  callers_.fetch_add(1, std::memory_order_relaxed);
  if (!shares) return nullptr;
  uint64_t taken = taken_.load(std::memory_order_relaxed);
  while (~taken != 0) {
    const int place = std::countr_one(taken);
    if (taken_.compare_exchange_weak(taken, taken | uint64_t{1} << place,
                                     std::memory_order_acq_rel))
      return &jobs_[place];
  }
  return nullptr;
}

void Pool::leave(Job* job) {
  callers_.fetch_sub(1, std::memory_order_relaxed);
  if (job) taken_.fetch_and(~(uint64_t{1} << (job - jobs_.data())), std::memory_order_acq_rel);
}

int Pool::call_workers(int wanted, int coming) {
  const int asleep = sleepers_.load(std::memory_order_seq_cst);
  if (asleep == 0) return 0;
  const int awake = workers() - asleep;
  return call(std::min(wanted - std::min(coming, awake), room() - awake));
}

// The caller counts the called workers as awake at once, so they are not called twice.
int Pool::call(int most) {
  int asleep = sleepers_.load(std::memory_order_seq_cst), called = 0;
  do {
    called = std::min(most, asleep);
    if (called <= 0) return 0;
  } while (!sleepers_.compare_exchange_weak(asleep, asleep - called, std::memory_order_seq_cst));
  calls_.fetch_add(static_cast<uint32_t>(called), std::memory_order_seq_cst);
  futex_wake(calls_, called);
  return called;
}

// Takes one part of a job; jobs are served round-robin.
bool Pool::help(int worker, size_t& place) {
  const uint64_t taken = taken_.load(std::memory_order_acquire);
  for (size_t i = 1; taken != 0 && i <= kPlaces; ++i) {
    const size_t next = (place + i) % kPlaces;
    if ((taken >> next & 1) == 0) continue;
    Job& job = jobs_[next];
    const int part = job.take(worker);
    if (part < 0) continue;
    place = next;
    job.perform(part);
    const uint32_t done = job.done.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (job.awaited.load(std::memory_order_seq_cst) == done) futex_wake(job.done, 1);
    return true;
  }
  return false;
}

bool Pool::anything_open() const {
  const uint64_t taken = taken_.load(std::memory_order_seq_cst);
  for (size_t i = 0; i < kPlaces; ++i) {
    if ((taken >> i & 1) == 0) continue;
    for (const std::atomic<uint64_t>& word : jobs_[i].open) {
      if (word.load(std::memory_order_seq_cst) != 0) return true;
    }
  }
  return false;
}

// `sleepers_` already counts this thread: it sleeps until called, unless there is work now.
void Pool::lie_down() {
  const int awake = workers() - sleepers_.load(std::memory_order_seq_cst);
  const bool wanted = !too_many_awake(awake + 1) && anything_open();
  if (wanted || stop_.load(std::memory_order_seq_cst)) call(1);  // may wake this thread itself
  for (;;) {
    uint32_t calls = calls_.load(std::memory_order_acquire);
    if (calls == 0)
      futex_wait(calls_, 0);
    else if (calls_.compare_exchange_weak(calls, calls - 1, std::memory_order_acq_rel))
      return;
  }
}

void Pool::work(int worker) {
  auto place = static_cast<size_t>(worker);
  int64_t idle_since = now_ns();
  for (int looks = 1; !stop_.load(std::memory_order_acquire); ++looks) {
    // Counted one by one: exactly the surplus workers go to sleep.
    int asleep = sleepers_.load(std::memory_order_relaxed);
    if (too_many_awake(workers() - asleep)) {
      if (!sleepers_.compare_exchange_strong(asleep, asleep + 1)) continue;
      lie_down();
      idle_since = now_ns();
      continue;
    }
    if (help(worker, place)) {
      looks = 0;
      idle_since = 0;
      continue;
    }
    pause();
    if (looks % kLooksPerClock != 0) continue;
    const int64_t now = now_ns();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < patience_ns()) continue;
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    lie_down();
    idle_since = now_ns();
  }
}

}  // namespace vernier
