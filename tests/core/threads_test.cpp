// Threads that share the machine: teams, the process's workers, and how many CPUs there are
// (core/threads.h, core/cpus.h).
#include "core/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <thread>

#include "core/allowed_memory.h"
#include "core/cpus.h"
#include "core/fork.h"

namespace vernier {
namespace {

using testing::HasSubstr;

// The machine of a test has this many CPUs, so that parts are shared on any.
constexpr int kCpus = 4;

void expect_every_element_once(ThreadTeam& team, int64_t count, int64_t grain) {
  std::vector<int> seen(static_cast<size_t>(count), 0);
  team.parallel_for(count, grain, [&](int64_t begin, int64_t end, int part) {
    EXPECT_LT(part, team.size());
    EXPECT_EQ(begin % grain, 0);
    EXPECT_LT(begin, end);
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count) << team.size() << " threads";
}

// Calls `body` in threads of its own, `count` of them at once.
void in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

// Exit code of `body` in a child by fork(); a signal or a minute without an end is -1.
int exit_code_of_child(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int64_t sum_shared(ThreadTeam& team, int64_t count) {
  std::atomic<int64_t> sum{0};
  team.parallel_for(count, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) sum += i;
  });
  return sum;
}

class Threads : public ::testing::Test {
  PretendCpus cpus_{kCpus};
};

TEST_F(Threads, EveryElementOnceWhateverTheCount) {
  for (const int threads : {1, 2, 3, 4, 9, 100, 1024}) {
    ThreadTeam team(threads);
    EXPECT_EQ(team.size(), threads);
    for (const int64_t count : {0, 1, 7, 64, 65, 1000}) expect_every_element_once(team, count, 16);
    expect_every_element_once(team, 3000, 1);
  }
}

TEST_F(Threads, PartsDependOnTheSizesAlone) {
  ThreadTeam team(3);
  const auto bounds = [&] {
    std::vector<std::pair<int64_t, int64_t>> of_part(3, {-1, -1});
    team.parallel_for(1000, 16, [&](int64_t begin, int64_t end, int part) {
      of_part[static_cast<size_t>(part)] = {begin, end};
    });
    return of_part;
  };
  const auto first = bounds();
  EXPECT_EQ(first[0], (std::pair<int64_t, int64_t>{0, 336}));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(bounds(), first);
}

TEST_F(Threads, ZeroIsAllCpusAndMoreThanThereAreWaitForNobody) {
  EXPECT_EQ(ThreadTeam(0).size(), kCpus);
  ThreadTeam many(64);
  EXPECT_EQ(many.size(), 64);
  EXPECT_LE(pool_workers(), kCpus - 1);
  EXPECT_EQ(ThreadTeam(5000).size(), ThreadTeam::kMaxThreads);
}

TEST_F(Threads, WorkersComeWithTheTeamsThatWantThemAndGoWithTheLast) {
  EXPECT_EQ(pool_workers(), 0);
  auto one = std::make_unique<ThreadTeam>(1);
  EXPECT_EQ(pool_workers(), 0);
  auto two = std::make_unique<ThreadTeam>(2);
  EXPECT_EQ(pool_workers(), 1);
  ThreadTeam three(3);
  EXPECT_EQ(pool_workers(), 2);
  one.reset();
  two.reset();
  EXPECT_EQ(pool_workers(), 2);
  expect_every_element_once(three, 1000, 1);
}

TEST_F(Threads, AreGoneBehindTheLastTeam) {
  { ThreadTeam team(4); }
  EXPECT_EQ(pool_workers(), 0);
}

// Each part waits until all have begun: they can only have been begun by different threads.
TEST_F(Threads, PartsRunAtTheSameTime) {
  ThreadTeam team(kCpus);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> begun{0};
    team.parallel_for(kCpus, 1, [&](int64_t, int64_t, int) {
      ++begun;
      while (begun < kCpus) std::this_thread::yield();
    });
    EXPECT_EQ(begun, kCpus);
  }
}

TEST_F(Threads, WakeAfterSleeping) {
  ThreadTeam team(2);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than they spin
    std::atomic<int> begun{0};
    team.parallel_for(2, 1, [&](int64_t, int64_t, int) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
    EXPECT_EQ(begun, 2);
  }
}

TEST_F(Threads, TheCallerSleepsWhileAWorkerIsBusy) {
  ThreadTeam team(2);
  for (int round = 0; round < 5; ++round) {
    std::atomic<int> begun{0}, ended{0};
    team.parallel_for(2, 1, [&](int64_t, int64_t, int part) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
      if (part == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ended;
    });
    EXPECT_EQ(ended, 2);
  }
}

TEST_F(Threads, ManyCallersAtOnce) {
  in_threads(16, [](int caller) {
    for (int session = 0; session < 4; ++session) {
      ThreadTeam team(1 + (caller + session) % 5);
      for (int64_t run = 0; run < 100; ++run) {
        const ThreadTeam::Turn turn(team);
        for (int64_t count = 1; count < 20; ++count)
          ASSERT_EQ(sum_shared(team, count), count * (count - 1) / 2);
      }
    }
  });
  EXPECT_EQ(pool_workers(), 0);
}

// More runs at once than the pool has places for: the others work alone.
TEST_F(Threads, MoreCallersThanPlaces) {
  std::atomic<int> in_turn{0};
  in_threads(80, [&](int) {
    ThreadTeam team(2);
    const ThreadTeam::Turn turn(team);
    ++in_turn;
    while (in_turn < 80) std::this_thread::yield();
    EXPECT_EQ(sum_shared(team, 100), 4950);
  });
}

// Threads at work, callers included, are no more than CPUs: as many callers as those work alone.
TEST_F(Threads, AsManyCallersAsCpusWorkAlone) {
  std::atomic<int> ready{0}, ended{0};
  in_threads(kCpus, [&](int) {
    ThreadTeam team(kCpus);
    const ThreadTeam::Turn turn(team);
    ++ready;
    while (ready < kCpus) std::this_thread::yield();
    const auto self = std::this_thread::get_id();
    for (int i = 0; i < 500; ++i) {
      team.parallel_for(
          kCpus, 1, [&](int64_t, int64_t, int) { EXPECT_EQ(std::this_thread::get_id(), self); });
    }
    ++ended;
    while (ended < kCpus) std::this_thread::yield();
  });
}

TEST_F(Threads, TheFirstPartThatThrowsIsHeard) {
  ThreadTeam team(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> ended{0};
    try {
      team.parallel_for(4, 1, [&](int64_t, int64_t, int part) {
        ++ended;
        if (part > 0) throw std::runtime_error("part " + std::to_string(part));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "part 1");
    }
    EXPECT_EQ(sum_shared(team, 100), 4950);  // and the next step runs
  }
}

TEST_F(Threads, WorkWithinAPartIsDoneByItsThread) {
  ThreadTeam outer(3), inner(3);
  std::atomic<int64_t> sum{0};
  outer.parallel_for(3, 1, [&](int64_t, int64_t, int) {
    const auto self = std::this_thread::get_id();
    ThreadTeam own(3);
    own.parallel_for(10, 1, [&](int64_t begin, int64_t end, int) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      sum += end - begin;
    });
    in_parallel(10, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  });
  EXPECT_EQ(sum, 60);
}

TEST_F(Threads, OtherWorkInARunHasTheThreadsOfTheRun) {
  ThreadTeam team(1);
  const ThreadTeam::Turn turn(team);
  int parts = 0;
  in_parallel(1000, 1, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(end - begin, 1000);
    ++parts;
  });
  EXPECT_EQ(parts, 1);
}

TEST_F(Threads, APartOfItsOwnForEach) {
  for (const int64_t count : {0, 1, 7, 64, 1000}) {
    std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
    in_parallel(count, 8, [&](int64_t begin, int64_t end) {
      EXPECT_TRUE(count < 16 || end - begin >= 8) << begin << " to " << end;
      for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
    });
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), count);
  }
}

TEST_F(Threads, WhatWorkOutsideSessionsThrowsIsHeard) {
  const auto fails = [](int64_t, int64_t) { throw std::bad_alloc(); };
  EXPECT_THROW(in_parallel(1000, 1, fails), std::bad_alloc);
}

// While other programs want the CPUs: every sum is right, whoever is delayed.
TEST_F(Threads, RightUnderLoad) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> load;
  for (int i = 0; i < 2 * kCpus; ++i) {
    load.emplace_back([&] {
      while (!stop) {
      }
    });
  }
  in_threads(3, [](int caller) {
    ThreadTeam team(2 + caller);
    ThreadTeam::Pace pace;
    for (int run = 0; run < 60; ++run) {
      const ThreadTeam::Turn turn(team, &pace);
      for (int step = 0; step < 20; ++step) ASSERT_EQ(sum_shared(team, 100), 4950);
    }
  });
  stop = true;
  for (std::thread& thread : load) thread.join();
}

// ---- threads that cannot be started

TEST_F(Threads, ThatCannotBeStartedAreDoneWithout) {
  const int code = exit_code_of_child([] {
    // No room for more stacks than those that glibc keeps from threads that have ended.
    std::ifstream memory("/proc/self/statm");
    rlim_t pages = 0;
    memory >> pages;
    const rlim_t bytes = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (1 << 20);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    const PretendCpus cpus(64);
    testing::internal::CaptureStderr();
    ThreadTeam team(64);
    const std::string log = testing::internal::GetCapturedStderr();
    const std::string count = std::to_string(pool_workers() + 1);
    if (pool_workers() >= 63) return 1;
    if (log.find(": work continues with " + count +
                 " threads, the results are the same; check 'ulimit -u'") == std::string::npos)
      return 2;
    if (log.find("could not be started") != log.rfind("could not be started")) return 3;  // once
    for (int run = 0; run < 100; ++run) {
      if (sum_shared(team, 1000) != 499500) return 4;
    }
    return 0;
  });
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static_cast<void>(code);  // their shadow memory leaves no limit to set
  GTEST_SKIP() << "SKIP: sanitizers reserve address space";
#else
  EXPECT_EQ(code, 0);
#endif
}

// ---- CPUs of a thread

// A thread that keeps to one CPU does not keep the workers that it starts to it.
TEST_F(Threads, WorkersHaveTheCpusOfTheProcess) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(getpid(), sizeof all, &all), 0);
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    ThreadTeam team(2);
    std::atomic<int> workers{0}, kept{0};
    const auto self = std::this_thread::get_id();
    for (int run = 0; run < 1000 && workers == 0; ++run) {
      team.parallel_for(2, 1, [&](int64_t, int64_t, int) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));  // until the other one comes
        if (std::this_thread::get_id() == self) return;
        cpu_set_t its;
        ++workers;
        kept += sched_getaffinity(0, sizeof its, &its) != 0 || !CPU_EQUAL(&its, &all);
      });
    }
    EXPECT_GT(workers, 0);
    EXPECT_EQ(kept, 0);
  }).join();
}

// ---- fork

#if !defined(__SANITIZE_THREAD__)  // which ends children of a program with threads
TEST_F(Threads, AChildHasWorkersOfItsOwn) {
  ThreadTeam team(kCpus);
  // All workers are past their start: they may allocate there, and GCC 12's address sanitizer
  // leaves the lock of its allocator held in a child.
  std::atomic<int> started{0};
  team.parallel_for(kCpus, 1, [&](int64_t, int64_t, int) {
    ++started;
    while (started < kCpus) std::this_thread::yield();
  });
  ASSERT_EQ(sum_shared(team, 1000), 499500);
  const uint32_t parents = forks();
  const int code = exit_code_of_child([&] {
    if (forks() == parents) return 1;
    if (pool_workers() != 0) return 2;
    if (sum_shared(team, 1000) != 499500) return 3;
    if (pool_workers() != kCpus - 1) return 4;
    ThreadTeam other(2);
    std::atomic<int> begun{0};
    other.parallel_for(2, 1, [&](int64_t, int64_t, int) {
      ++begun;
      while (begun < 2) std::this_thread::yield();
    });
    return begun == 2 ? 0 : 5;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(forks(), parents);
  EXPECT_EQ(sum_shared(team, 1000), 499500);
}

TEST_F(Threads, AForkWhileOthersWork) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "SKIP: the address sanitizer's allocator may stay locked in a child";
#endif
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 4; ++i) {
    others.emplace_back([&, i] {
      while (!stop) {  // teams come and go, too: their lock is often held
        ThreadTeam team(1 + i);
        for (int run = 0; run < 20; ++run) EXPECT_EQ(sum_shared(team, 100), 4950);
      }
    });
  }
  ThreadTeam team(3);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(exit_code_of_child([&] { return sum_shared(team, 1000) == 499500 ? 0 : 1; }), 0);
    ASSERT_EQ(sum_shared(team, 1000), 499500);
  }
  stop = true;
  for (std::thread& thread : others) thread.join();
}

// A program may end while workers wait, and while a team is a global object.
TEST_F(Threads, AProgramEndsWithThem) {
  const int code = exit_code_of_child([] {
    static ThreadTeam global(kCpus);
    if (sum_shared(global, 1000) != 499500) return 1;
    std::exit(0);  // runs destructors of global objects
  });
  EXPECT_EQ(code, 0);
}
#endif

// ---- CPUs

class Groups : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / ("groups" + std::to_string(getpid()));
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = root_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double cpus() const { return cgroup_cpus(root_.string()); }
  std::filesystem::path root_;
};

TEST_F(Groups, WithoutAQuota) {
  EXPECT_EQ(cpus(), 0);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(cpus(), 0);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus(), 0);
  write("proc/self/cgroup", "nonsense\n7:cpu\n::\n0::relative\n");
  EXPECT_EQ(cpus(), 0);
}

TEST_F(Groups, OfVersionTwo) {
  write("proc/self/cgroup", "0::/system.slice/app.service\n");
  write("sys/fs/cgroup/system.slice/app.service/cpu.max", "350000 100000\n");
  EXPECT_EQ(cpus(), 3.5);
  write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");  // a parent's is less
  EXPECT_EQ(cpus(), 1.5);
  write("sys/fs/cgroup/cpu.max", "garbage\n");
  EXPECT_EQ(cpus(), 1.5);
}

// In a container the file names the host's path, and the folder is the container's own.
TEST_F(Groups, OfVersionOneInAContainer) {
  write("proc/self/cgroup", "5:cpuset:/docker/1\n4:cpu,cpuacct:/docker/1\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(cpus(), 4);
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpus(), 0);
}

TEST_F(Groups, OfMemory) {
  const auto bytes = [&] { return allowed_memory(root_.string()); };
  EXPECT_EQ(bytes(), 0U);
  write("proc/meminfo", "MemTotal:        4194304 kB\nMemFree:  1 kB\n");
  EXPECT_EQ(bytes(), uint64_t{4} << 30);
  write("proc/self/cgroup", "0::/a/b\n4:memory:/a\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(bytes(), uint64_t{4} << 30);
  write("sys/fs/cgroup/a/memory.max", "2147483648\n");
  EXPECT_EQ(bytes(), uint64_t{2} << 30);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(bytes(), uint64_t{1} << 30);
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(bytes(), uint64_t{2} << 30);
}

TEST(Cpus, AreThoseOfTheMaskWithinTheQuota) {
  EXPECT_EQ(cpus_within(8, 0), 8);
  EXPECT_EQ(cpus_within(8, 3.5), 3);
  EXPECT_EQ(cpus_within(8, 0.5), 1);
  EXPECT_EQ(cpus_within(2, 64), 2);
  EXPECT_EQ(cpus_within(0, 0), 1);
  EXPECT_GE(allowed_cpus(), 1);
}

}  // namespace
}  // namespace vernier
