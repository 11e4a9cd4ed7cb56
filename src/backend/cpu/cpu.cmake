# The CPU kernels. Instruction sets: AVX-512, AVX2 and a portable one; the others only cost compile
# time. oneDNN is one folder, or the folder that says that there is none.
file(GLOB VERNIER_CPU_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp
     ${CMAKE_CURRENT_LIST_DIR}/simd/*.cpp ${CMAKE_CURRENT_LIST_DIR}/kernels/*/*.cpp)
if(VERNIER_ONEDNN)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  file(GLOB VERNIER_CPU_MATMUL CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/onednn/*.cpp)
else()
  file(GLOB VERNIER_CPU_MATMUL CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/without_onednn/*.cpp)
endif()
add_library(vernier_cpu STATIC ${VERNIER_CPU_SOURCES} ${VERNIER_CPU_MATMUL})
target_link_libraries(vernier_cpu PUBLIC vernier_backend vernier_reference PRIVATE PkgConfig::HWY)
# The fuzz targets read files; two instruction sets are enough for the kernels that they reach.
target_compile_definitions(vernier_cpu PRIVATE
  "HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4|HWY_AVX3_DL$<$<BOOL:${VERNIER_FUZZ}>:|HWY_AVX2>)")
# Kernels divide by constants and compare with NaN on purpose; sums keep their written order.
target_compile_options(vernier_cpu PRIVATE -fno-math-errno)
if(VERNIER_ONEDNN)
  target_include_directories(vernier_cpu SYSTEM PRIVATE ${DNNL_INCLUDE_DIR})
  target_link_libraries(vernier_cpu PRIVATE ${DNNL_LIBRARY} OpenMP::OpenMP_CXX)
endif()
