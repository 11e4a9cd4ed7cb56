// The FP64 product of matmul.h for matrices that are worth the trouble: vectors, tiles in
// registers, all threads.
#pragma once
#include "reference/matmul.h"

namespace vernier::reference {

/// c[m, n] += a[m, k] · b[k, n], as multiply_plainly(). An element is the sum, from k = 0 on, of
/// blocks of 256 products, each summed in order with fused multiply-adds (where the CPU has them):
/// its bits depend on its row of a and its column of b alone.
void multiply_in_blocks(MatMulSizes sizes, const double* a, const double* b, double* c);

}  // namespace vernier::reference
