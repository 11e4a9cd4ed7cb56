// The version of the library; the engine format has its own (docs/engine_format.md).
#pragma once

namespace vernier {
inline constexpr const char* kVersion = "0.1.0";
}
