// cuda.zero_padding.units: see zero_padding.cu.
#include "backend/cuda/kernels/movement/zero_padding.h"

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"

namespace vernier::backend::cuda {
namespace {

void launch(const LaunchCall& call) {
  check_cuda(zero_padding({.x = array_of(call.in[0]),
                           .mask = array_of(call.in[1]),
                           .places = optional_array(call.in, 2),
                           .y = array_of(call.out[0]),
                           .padding = decode<ZeroPaddingAttrs>(call.attrs).padding},
                          stream_of(call.execution)),
             "ZeroPadding");
}

}  // namespace

extern const KernelBody zero_padding_units;
constexpr KernelBody zero_padding_units{
    .supports = &keeps_type,
    .numerics = &exact_numerics,
    .launch = &launch,
};

}  // namespace vernier::backend::cuda
