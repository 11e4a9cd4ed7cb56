// Products of doubles in host memory on the GPU.
#pragma once
#include <memory>

#include "core/fp64_device.h"

namespace vernier::backend::cuda {

/// On the first GPU; throws Error(kMachine). Cost: a and c once over the bus, b each time or, if it
/// is kept, once. Memory of the device: kept matrices, as far as it has enough; for each of up to
/// twelve threads b and two chunks of 512 rows, which page-locked memory of the host holds, too.
std::unique_ptr<Fp64Device> make_fp64_products();

}  // namespace vernier::backend::cuda
