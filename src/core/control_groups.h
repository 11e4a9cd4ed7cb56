// Limits of the control groups of this process. Formats: cgroups(7).
#pragma once
#include <string>

namespace vernier {

/// Reads a limit from a folder of a group; 0: it has none.
using ReadGroupLimit = double (*)(const std::string& folder);

/// The smallest limit of this process's groups and their parents; 0: there is none. `read_v2` is
/// for groups of version 2, `read_v1` for those of `controller` in version 1. `root` is a prefix of
/// /proc and /sys.
double least_of_control_groups(const std::string& root, const std::string& controller,
                               ReadGroupLimit read_v2, ReadGroupLimit read_v1);

}  // namespace vernier
