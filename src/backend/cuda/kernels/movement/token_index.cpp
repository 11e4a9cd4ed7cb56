// cuda.token_index.scan: see token_index.cu. Workspace: a number of 32 bits for each row.
#include "backend/cuda/kernels/movement/token_index.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  return workspace_only(static_cast<size_t>(call.in[0].dim(0)) * sizeof(int32_t));
}

void launch(const LaunchCall& call) {
  const TokenRule rule = TokenIndexAttrs::rule_of(call.attrs);
  check_cuda(index_tokens({.mask = array_of(call.in[0]),
                           .rows = optional_array(call.out, 0),
                           .positions = optional_array(call.out, 1),
                           .starts = optional_array(call.out, 2),
                           .places = optional_array(call.out, 3),
                           .ordinals = optional_array(call.out, 4),
                           .kept = optional_array(call.out, 5),
                           .counts = reinterpret_cast<int32_t*>(call.workspace),
                           .padding = rule.padding,
                           .front = rule.front,
                           .behind = rule.behind},
                          stream_of(call.execution)),
             "TokenIndex");
}

}  // namespace

extern const KernelBody token_index_scan;
constexpr KernelBody token_index_scan{
    .supports = [](const Problem&) { return yes(); },
    .numerics = &exact_numerics,
    .prepare = &prepare,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
