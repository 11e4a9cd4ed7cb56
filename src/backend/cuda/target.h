// Which GPUs machine code runs on, as text: no driver is asked. Compute capabilities are written as
// nvcc does, "90a": major, minor, and a suffix where the code uses what only that chip has.
#pragma once
#include <string>
#include <string_view>

#include "core/error.h"

namespace vernier::backend::cuda {

/// The digits of a compute capability: "90" of "90a".
inline std::string_view digits_of(std::string_view chip) {
  return chip.substr(0, chip.find_first_not_of("0123456789"));
}

/// Has a program with machine code for `compiled` (and no PTX) code for a GPU of this compute
/// capability? The same major and no smaller minor; with a suffix that very chip.
inline Support has_code_for(std::string_view compiled, int major, int minor) {
  const std::string_view digits = digits_of(compiled);
  const int code = std::stoi(std::string(digits)), gpu = 10 * major + minor;
  const bool exact = digits.size() < compiled.size();
  if (exact ? code == gpu : code / 10 == major && code <= gpu) return yes();
  return no("the GPU is sm_" + std::to_string(gpu) + ", this program has code for sm_" +
            std::string(compiled) + " only; build it with -DVERNIER_CUDA_ARCH=" +
            std::to_string(gpu) + (gpu >= 90 ? "a" : ""));
}

/// The chip of a target text, "90" of "cuda sm_90 cuBLASLt 130101"; empty if it names none.
inline std::string_view chip_of(std::string_view target) {
  constexpr std::string_view kBefore = "cuda sm_";
  if (!target.starts_with(kBefore)) return {};
  return digits_of(target.substr(kBefore.size()));
}

/// Does an engine that was built for one target run on another? Kernels are chosen for a chip when
/// an engine is built.
inline Support runs_on(std::string_view built_for, std::string_view here) {
  if (chip_of(built_for).empty() || chip_of(built_for) == chip_of(here)) return yes();
  return no("its kernels are those of sm_" + std::string(chip_of(built_for)) +
            ", and this GPU is sm_" + std::string(chip_of(here)));
}

}  // namespace vernier::backend::cuda
