// How many CPUs this process may use: its affinity mask and the quota of its control groups.
#pragma once
#include <string>

namespace vernier {

/// CPUs of the affinity mask, or fewer where a quota of CPU time says so; at least 1. Read once,
/// when first asked: `taskset`, a container's --cpus and systemd's CPUQuota act before that.
int allowed_cpus();

/// The CPUs that the quotas of this process's control groups leave, of any parent too (version 2:
/// cpu.max; version 1: cpu.cfs_quota_us); 0: no quota. `root` stands before /proc and /sys.
double cgroup_cpus(const std::string& root);

/// The same number as threads: a thread beyond the quota makes all of them wait for the next
/// period, so it is rounded down, but to 1 at least.
int cpus_within(int affinity, double quota);

}  // namespace vernier
