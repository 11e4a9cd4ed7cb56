// A plugin's kernel as a row of a backend's list: the C interface of vernier/custom_op.h on one
// side, backend/kernel.h on the other. Internal to runtime/.
#pragma once
#include <string>

#include "backend/kernel.h"
#include "vernier/custom_op.h"

namespace vernier::runtime {

struct PluginKernel {
  std::string plugin, row;  ///< names: "my_norm", "plugin.my_norm.layer_norm.two_pass"
  OpKind op = OpKind::kIdentity;
  const vernier_kernel* functions = nullptr;
};

/// The row of a kernel, which is kept for the life of the process, as its library is. Throws
/// Error(kInput) once the process has too many.
backend::KernelDef row_of(PluginKernel kernel);

}  // namespace vernier::runtime
