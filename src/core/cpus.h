// How many CPUs this process may use: its affinity mask and the quota of its control groups.
#pragma once
#include <string>

namespace vernier {

/// CPUs of the affinity mask of the process's first thread, or fewer under a quota of CPU time; at
/// least 1. Read at the first call, so limits must be set before (`taskset`, a container's --cpus,
/// systemd's CPUQuota).
int allowed_cpus();

/// Allows the calling thread to run on all CPUs of that mask, whichever thread started it. Does
/// nothing if the system refuses.
void use_allowed_cpus();

/// The CPUs that the quotas of this process's control groups and their parents allow (version 2:
/// cpu.max; version 1: cpu.cfs_quota_us); 0: no quota. `root` is a prefix of /proc and /sys.
double cgroup_cpus(const std::string& root);

/// The number of threads for this quota: a thread beyond the quota makes all threads wait for the
/// next period, so it is rounded down, to at least 1.
int cpus_within(int affinity, double quota);

}  // namespace vernier
