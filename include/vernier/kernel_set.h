// KernelSet: the kernels that an engine is built with and runs on. A handle: its contents are not
// part of the interface.
#pragma once

namespace vernier {

/// The kernels of a device, or those of plugins and then the CPU's: load_plugins() returns one.
/// Take it by reference or pointer; it must outlive the calls and the engines that it is given to.
struct KernelSet;

}  // namespace vernier
