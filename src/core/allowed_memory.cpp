// Memory of the process: see allowed_memory.h. Formats: proc(5), and the kernel's
// Documentation/admin-guide/cgroup-v2.rst (memory.max) and cgroup-v1/memory.rst.
#include "core/allowed_memory.h"

#include <algorithm>
#include <fstream>

#include "core/control_groups.h"

namespace vernier {
namespace {

double first_number(const std::string& file) {
  std::ifstream in(file);
  double number = 0;
  return in >> number ? number : 0;  // "max": no limit
}
double bytes_of_v2(const std::string& folder) { return first_number(folder + "/memory.max"); }
double bytes_of_v1(const std::string& folder) {
  return first_number(folder + "/memory.limit_in_bytes");
}

// "MemTotal:       24689780 kB"
double bytes_of_machine(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string name;
  double kilobytes = 0;
  return file >> name >> kilobytes && name == "MemTotal:" ? kilobytes * 1024 : 0;
}

}  // namespace

uint64_t allowed_memory(const std::string& root) {
  const double machine = bytes_of_machine(root),
               group = least_of_control_groups(root, "memory", &bytes_of_v2, &bytes_of_v1);
  return static_cast<uint64_t>(group > 0 && machine > 0 ? std::min(machine, group)
                                                        : std::max(machine, group));
}

}  // namespace vernier
