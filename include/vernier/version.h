// The version of the library; the engine format has its own (docs/engine_format.md).
#pragma once

namespace vernier {
inline constexpr const char* kVersion = "0.1.0";
/// What this program was built from and how: 32 hex digits of a hash of the library's sources, the
/// compiler and its flags. Programs of the same build (command line, Python package) have the same.
const char* build_id();
}  // namespace vernier
