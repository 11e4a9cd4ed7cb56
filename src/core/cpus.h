// How many CPUs this process may use: its affinity mask and the quota of its control groups.
#pragma once
#include <string>

namespace vernier {

/// CPUs of the affinity mask, or fewer where a quota of CPU time says so; at least 1. Read once,
/// when first asked: `taskset`, a container's --cpus and systemd's CPUQuota act before that. The
/// mask is that of the process's first thread.
int allowed_cpus();

/// The calling thread may run on all CPUs of that mask, whichever thread started it. Where the
/// system refuses, it stays as it is.
void use_allowed_cpus();

/// The CPUs that the quotas of this process's control groups leave, of any parent too (version 2:
/// cpu.max; version 1: cpu.cfs_quota_us); 0: no quota. `root` stands before /proc and /sys.
double cgroup_cpus(const std::string& root);

/// The same number as threads: a thread beyond the quota makes all of them wait for the next
/// period, so it is rounded down, but to 1 at least.
int cpus_within(int affinity, double quota);

}  // namespace vernier
