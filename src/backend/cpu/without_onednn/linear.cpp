// Builds without oneDNN (VERNIER_ONEDNN=OFF): the oneDNN rows of kernels.def decline every problem.
#include "backend/cpu/kernels/linear/linear.h"

#include "backend/cpu/onednn/version.h"

namespace vernier::backend::cpu {

std::string onednn::version() { return "no oneDNN"; }

std::unique_ptr<LinearState> make_onednn_linear(const PackedWeight&, int) { return nullptr; }

extern const KernelBody linear_onednn;
constexpr KernelBody linear_onednn{
    .supports = [](const Problem&) { return no("built without oneDNN"); },
    .numerics = &f32_numerics,
    .launch = [](const LaunchCall&) { VERNIER_ASSERT(false, "a kernel that supports nothing"); },
};

}  // namespace vernier::backend::cpu
