// Interpolation kernels in f64, as GridSample and Resize define them.
#pragma once

namespace vernier::backend::cuda {

/// Keys' cubic convolution kernel with parameter a.
__device__ inline double cubic_kernel(double distance, double a) {
  const double t = fabs(distance);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  if (t < 2) return a * (((t - 5) * t + 8) * t - 4);
  return 0;
}
__device__ inline double linear_kernel(double distance) {
  const double weight = 1 - fabs(distance);
  return weight > 0 ? weight : 0;
}

}  // namespace vernier::backend::cuda
