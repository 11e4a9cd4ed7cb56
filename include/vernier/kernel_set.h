// KernelSet: the kernels that an engine is built with and runs on. A handle: its contents are not
// part of the interface.
#pragma once
#include <string>

namespace vernier {

/// The kernels of a device, or those of plugins and then the CPU's: load_plugins() returns one.
/// Take it by reference or pointer; it must outlive the calls and the engines that it is given to.
struct KernelSet;

/// Can engines of this device ("cpu", "cuda") run here? Empty, or why not: a program that was built
/// without it, no such device, a driver that is too old.
std::string why_unavailable(const std::string& device);

}  // namespace vernier
