# Precompiled headers: the standard headers that most sources include are parsed once for many
# libraries. Sources must still include what they use: the preset 'lint' turns precompiled headers
# off (CMAKE_DISABLE_PRECOMPILE_HEADERS).

# vernier_headers(name libraries...): precompiles the standard headers, plus fmt if it is among the
# libraries. vernier_precompile(target name) makes a static library use them.
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

# ccache needs these flags to recognize an unchanged precompiled header.
function(vernier_precompiled_for_ccache target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>
    "$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

function(vernier_precompile target name)
  target_precompile_headers(${target} REUSE_FROM ${name})
  vernier_precompiled_for_ccache(${target})
  vernier_without_false_warnings(${target})
endfunction()

# GCC 12 gives false warnings about memcpy inside std::string: with precompiled headers it no longer
# treats them as system headers.
function(vernier_without_false_warnings target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-restrict>")
endfunction()
