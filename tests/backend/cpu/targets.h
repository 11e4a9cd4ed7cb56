// The instruction sets that this build and machine have, for tests of the CPU's own code.
#pragma once
#include <functional>
#include <string>

namespace vernier::backend::test {

/// The name of the best instruction set of this machine.
std::string best_target();
/// Calls body once per instruction set, the best one last.
void for_each_target(const std::function<void(const std::string& target)>& body);

}  // namespace vernier::backend::test
