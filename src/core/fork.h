// Has this process been forked? What a fork does not carry over (threads, a GPU's context) is made
// again or refused in the child.
#pragma once
#include <cstdint>

namespace vernier {

/// A number that differs between a process and its children by fork(): counts the forks from the
/// first caller on. Cheap: one load.
uint32_t forks();

}  // namespace vernier
