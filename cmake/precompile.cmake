# Precompiled headers. The headers that most sources include are read once for many libraries, which
# takes a fifth off a cold build. Sources still include what they use: the preset 'lint' builds
# without (CMAKE_DISABLE_PRECOMPILE_HEADERS).

# vernier_headers(name libraries...): precompiles the standard headers, and fmt where a library brings
# it, with the flags of a static library. vernier_precompile(target name) uses them.
function(vernier_headers name)
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE vernier_options ${ARGN})
  target_precompile_headers(${name} PRIVATE
    <algorithm> <array> <cmath> <cstdint> <deque> <functional> <limits> <map>
    <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <tuple> <unordered_map>
    <utility> <variant> <vector>)
  if("fmt::fmt" IN_LIST ARGN)
    target_precompile_headers(${name} PRIVATE <fmt/format.h>)
  endif()
  vernier_precompiled_for_ccache(${name})
endfunction()

# Without these flags ccache does not know when a precompiled header is the same.
function(vernier_precompiled_for_ccache target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

function(vernier_precompile target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  vernier_precompiled_for_ccache(${target})
  # GCC 12 forgets that precompiled headers are the system's, and warns about std::string's memcpy.
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>")
endfunction()
