// The program that a Python runs for `--also onnxruntime`: src/verify/also/onnxruntime.py, as the
// build put it into the library (cmake/embed.cmake).
#pragma once
#include <string_view>

namespace vernier::verify {

std::string_view onnxruntime_script();

}  // namespace vernier::verify
