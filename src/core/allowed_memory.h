// How much memory this process may use: the machine's, and the limits of its control groups.
#pragma once
#include <cstdint>
#include <string>

namespace vernier {

/// Bytes of the machine's memory, or fewer where a control group allows less (a container's
/// --memory, systemd's MemoryMax). 0: the system does not say. `root` is a prefix of /proc and
/// /sys.
uint64_t allowed_memory(const std::string& root = "");

}  // namespace vernier
