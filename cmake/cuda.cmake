# The CUDA backend, only with VERNIER_CUDA. Kernels are C++17 (nvcc's front end and g++ 12's C++20
# headers do not agree); VERNIER_CUDA_ARCH picks the machine code.
if(VERNIER_CUDA_ARCH MATCHES "^(9[0-9]|[1-9][0-9][0-9])$")
  # Their fast kernels use what only one chip has, and code for sm_90 holds a trap instead.
  message(FATAL_ERROR "VERNIER_CUDA_ARCH=${VERNIER_CUDA_ARCH}: write ${VERNIER_CUDA_ARCH}a")
endif()
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cpp
     ${PROJECT_SOURCE_DIR}/src/backend/cuda/*.cu)
add_library(vernier_cuda STATIC ${cuda_sources})
set_target_properties(vernier_cuda PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON
                                              CUDA_RUNTIME_LIBRARY Static)
set(VERNIER_CUDA_FLAGS -gencode=arch=compute_${VERNIER_CUDA_ARCH},code=sm_${VERNIER_CUDA_ARCH}
    -Xcompiler=-Wall,-Wextra -Werror=all-warnings CACHE INTERNAL "Flags of device code")
target_compile_options(vernier_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:${VERNIER_CUDA_FLAGS}>")
target_include_directories(vernier_cuda SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(vernier_cuda PUBLIC vernier_backend CUDA::cudart_static CUDA::cublasLt)
target_compile_definitions(vernier_cuda PRIVATE VERNIER_CUDA_ARCH="${VERNIER_CUDA_ARCH}")
