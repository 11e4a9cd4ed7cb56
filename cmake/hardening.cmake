# Flags that end the program when a memory error occurs: for every target, also for generated code.
# Off: -DVERNIER_HARDENING=OFF (measurements). tests/dev/hardening_test.py reads from the program
# which of them it was built with. Contract: docs/security.md.
option(VERNIER_HARDENING "Stack protectors, checked library calls and containers, read-only tables" ON)
if(NOT VERNIER_HARDENING)
  return()
endif()
include(CheckCXXCompilerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES CXX)  # links programs with -pie

# vernier_harden(flag...): of these, those that the compiler knows; for nvcc's host code too.
function(vernier_harden)
  foreach(flag ${ARGN})
    string(MAKE_C_IDENTIFIER "VERNIER_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:${flag}>
                          $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
    endif()
  endforeach()
endfunction()

# Indices of vectors, spans and arrays are checked. Not in .cu files: device code cannot call it.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-D_GLIBCXX_ASSERTIONS>)
if(NOT VERNIER_SANITIZE AND NOT VERNIER_FUZZ)  # sanitizers see more, and not through checked calls
  vernier_harden(-fstack-protector-strong -fstack-clash-protection -fcf-protection)
  # Needs optimization; distributions may define another level.
  add_compile_options("$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
  # clang before 15 and glibc before 2.34 take level 3 as 2.
endif()
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
