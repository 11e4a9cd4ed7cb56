// Which oneDNN this build and machine use; the folder without_onednn answers for builds without.
#pragma once
#include <string>

namespace vernier::backend::cpu::onednn {

/// "oneDNN 2.6.3 isa 231" (library version and the instruction set it chose, dnnl_cpu_isa_t), or
/// "no oneDNN".
std::string version();

}  // namespace vernier::backend::cpu::onednn
