// Plugins: the user's kernels, from shared libraries. Contract: docs/custom_kernels.md; what a
// library exports: vernier/custom_op.h.
#pragma once
#include <string>
#include <vector>

#include "vernier/kernel_set.h"

namespace vernier {

/// The CPU's kernels with those of the libraries before them, in the order of `paths`. For
/// CompileOptions::kernels, EngineOptions::kernels and verify::Request::kernels. Loads each library
/// once; they and the result stay for the life of the process. Throws Error(kInput) naming the
/// library: missing, not a plugin, made for another version of the interface, or inconsistent.
const KernelSet& load_plugins(const std::vector<std::string>& paths);

}  // namespace vernier
