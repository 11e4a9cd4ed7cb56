// The oneDNN version of this build and machine; without_onednn/ defines it for builds without.
#pragma once
#include <string>

namespace vernier::backend::cpu::onednn {

/// Disables oneDNN's tile instructions (AMX) permanently; call before its first use. They add a
/// row's products in an order that depends on the number of rows (measured: 4 of 8 models, oneDNN
/// 2.6.3 on an Intel Xeon with AMX).
void leave_out_tiles();

/// "oneDNN 2.6.3 isa 231" (library version and the instruction set it chose, dnnl_cpu_isa_t), or
/// "no oneDNN".
std::string version();

}  // namespace vernier::backend::cpu::onednn
