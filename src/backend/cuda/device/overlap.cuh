// Launches that begin before the kernel ahead of them in the stream has ended (programmatic
// dependent launch, CUDA C++ Programming Guide, section 4.5; PTX ISA 9.0, griddepcontrol). C++17.
//
// A kernel that is launched so must call wait_for_previous_kernel() in every block before its first
// read of anything that an earlier kernel writes and before its first write of anything at all: an
// earlier kernel may still read it. Constants of the engine may be read before. From an ordinary
// launch both functions do nothing.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace vernier::backend::cuda {

/// The next kernel may be scheduled as blocks of this one end or leave room.
__device__ __forceinline__ void allow_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// Waits until the kernels before have ended and all that they wrote can be seen.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Whether the device in use can overlap launches (compute capability 9.0 on).
inline bool overlaps_launches() {
  static const bool kCan = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  return kCan;
}

/// kernel<<<grid, block, shared_bytes, stream>>>(argument), overlapped where the device can. The
/// kernel calls wait_for_previous_kernel() as said above.
template <class Argument>
cudaError_t launch_overlapped(void (*kernel)(Argument), dim3 grid, dim3 block, size_t shared_bytes,
                              cudaStream_t stream, Argument argument) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlaps_launches() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, argument);
}

/// How a kernel of clusters is launched: `clusters` of `blocks` each, overlapped if `overlaps`.
struct ClusterLaunch {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};

  ClusterLaunch(int64_t clusters, int blocks, int threads, size_t shared_bytes, bool overlaps) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = static_cast<unsigned>(blocks);
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(static_cast<unsigned>(clusters * blocks));
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = attributes;
    config.numAttrs = overlaps ? 2 : 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;  // config points into it
};

}  // namespace vernier::backend::cuda
