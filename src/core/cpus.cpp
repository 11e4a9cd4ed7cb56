// CPUs of the process: see cpus.h. Formats: sched_getaffinity(2), cgroups(7), and the kernel's
// Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cfs_quota_us).
#include "core/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

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

// The smallest quota of the group `path` and its parents, under a mount point.
template <class Read>
double least_quota(const std::string& mount, std::string path, const Read& read) {
  double least = 0;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const double quota = read(mount + path);
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
    if (path.empty()) return least;
    path.erase(path.find_last_of('/'));
  }
}

bool names_cpu(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

double cgroup_cpus(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = 0;
  const auto add = [&](double quota) {
    if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
  };
  // "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1, one line per hierarchy).
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      add(least_quota(mounts, path, &cpus_of_v2));
      add(least_quota(mounts + "/unified", path, &cpus_of_v2));
    } else if (names_cpu(controllers)) {
      add(least_quota(mounts + "/" + controllers, path, &cpus_of_v1));
      if (controllers != "cpu") add(least_quota(mounts + "/cpu", path, &cpus_of_v1));
    }
  }
  return least;
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
