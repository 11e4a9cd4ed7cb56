// Plugins: kernels of the user's from shared libraries. Contract: docs/custom_kernels.md; what a
// library exports: vernier/custom_op.h.
#pragma once
#include <string>
#include <vector>

#include "vernier/engine.h"

namespace vernier {

namespace backend {
struct Backend;
}

/// The CPU's kernels with those of the libraries before them, in the order of `paths`. For
/// CompileOptions::backend, Engine::open and verify::Request::backend. Loads each library once;
/// they and the result stay for the life of the process. Throws Error(kInput) naming the library:
/// not there, no plugin, made for another version of the interface, or wrong in itself.
const backend::Backend& load_plugins(const std::vector<std::string>& paths);

}  // namespace vernier
