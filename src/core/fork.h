// Has this process been forked? What a fork does not carry over (threads, a GPU's context) is made
// again or refused in the child.
#pragma once
#include <cstdint>
#include <mutex>

namespace vernier {

/// A number that differs between a process and its children by fork(): counts the forks. Cheap: one
/// load.
uint32_t forks();

/// Held while a fork() copies the process. Whoever changes what all threads share in ways that a
/// child could not finish (a library's own cache, the first use of a static object) holds it
/// meanwhile. Not for long work: a fork waits.
std::mutex& fork_mutex();

}  // namespace vernier
