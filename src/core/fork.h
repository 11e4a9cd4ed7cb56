// Detects forks of the process. What a fork does not copy (threads, a GPU's context) is created
// again or refused in the child.
#pragma once
#include <cstdint>
#include <mutex>

namespace vernier {

/// A number that differs between a process and its children by fork(): counts the forks. Cheap: one
/// load.
uint32_t forks();

/// Locked while a fork() copies the process. Code that changes shared state which a child could not
/// finish (a library's cache, the first use of a static object) locks it meanwhile. Only for short
/// work: a fork waits.
std::mutex& fork_mutex();

}  // namespace vernier
