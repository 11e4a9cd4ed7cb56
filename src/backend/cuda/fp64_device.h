// FP64 evaluations on the GPU.
#pragma once
#include <memory>

#include "core/fp64_device.h"

namespace vernier::backend::cuda {

/// On the first GPU; throws Error(kMachine). Memory of the device: kept constants, as far as it has
/// enough; what evaluations hold; for products in host memory, of each of up to twelve threads, b
/// and two chunks of 512 rows, which page-locked memory of the host holds, too.
std::unique_ptr<Fp64Device> make_fp64_device();

}  // namespace vernier::backend::cuda
