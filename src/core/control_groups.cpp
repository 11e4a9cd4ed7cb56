// Control groups: see control_groups.h.
#include "core/control_groups.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace vernier {
namespace {

// The smallest limit of the group `path` and its parents, under a mount point.
double least_limit(const std::string& mount, std::string path, ReadGroupLimit read) {
  double least = 0;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const double limit = read(mount + path);
    if (limit > 0) least = least > 0 ? std::min(least, limit) : limit;
    if (path.empty()) return least;
    path.erase(path.find_last_of('/'));
  }
}

bool names(const std::string& controllers, const std::string& controller) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

}  // namespace

double least_of_control_groups(const std::string& root, const std::string& controller,
                               ReadGroupLimit read_v2, ReadGroupLimit read_v1) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  double least = 0;
  const auto add = [&](double limit) {
    if (limit > 0) least = least > 0 ? std::min(least, limit) : limit;
  };
  // "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1, one line per hierarchy).
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || line.compare(second + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      add(least_limit(mounts, path, read_v2));
      add(least_limit(mounts + "/unified", path, read_v2));
    } else if (names(controllers, controller)) {
      add(least_limit(mounts + "/" + controllers, path, read_v1));
      if (controllers != controller) add(least_limit(mounts + "/" + controller, path, read_v1));
    }
  }
  return least;
}

}  // namespace vernier
