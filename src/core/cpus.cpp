// CPUs of the process: see cpus.h. Formats: sched_getaffinity(2), cgroups(7), and the kernel's
// Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cfs_quota_us).
#include "core/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <thread>

#include "core/control_groups.h"

namespace vernier {
namespace {

constexpr size_t kMaxCpus = 1 << 16;

// The affinity mask of the first thread, which stands for the process: other threads may have
// restricted themselves. A kernel with more than 1024 CPUs refuses the default mask size (EINVAL):
// then a larger one is tried. Empty if the system reports none. Allocates nothing, because starting
// threads call it.
struct CpuMask {
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> sets{};
  size_t bytes = 0;

  CpuMask() {
    for (size_t count = 1; count <= sets.size() && bytes == 0; count *= 2) {
      const size_t size = count * sizeof(cpu_set_t);
      if (sched_getaffinity(getpid(), size, sets.data()) == 0) bytes = size;
    }
  }
};

int cpus_of_affinity() {
  const CpuMask mask;
  if (mask.bytes == 0) return static_cast<int>(std::thread::hardware_concurrency());
  return CPU_COUNT_S(mask.bytes, mask.sets.data());
}

// "max 100000" or "150000 100000": microseconds of CPU time per period.
double cpus_of_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}
// -1: no quota.
double cpus_of_v1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  return quota_file >> quota && period_file >> period && quota > 0 && period > 0 ? quota / period
                                                                                 : 0;
}

}  // namespace

double cgroup_cpus(const std::string& root) {
  return least_of_control_groups(root, "cpu", &cpus_of_v2, &cpus_of_v1);
}

int cpus_within(int affinity, double quota) {
  int cpus = std::max(1, affinity);
  if (quota > 0 && quota < cpus) cpus = std::max(1, static_cast<int>(quota));
  return cpus;
}

void use_allowed_cpus() {
  const CpuMask mask;
  if (mask.bytes > 0) sched_setaffinity(0, mask.bytes, mask.sets.data());
}

int allowed_cpus() {
  static const int cpus = cpus_within(cpus_of_affinity(), cgroup_cpus(""));
  return cpus;
}

}  // namespace vernier
