# Compile options shared by every target: warnings are errors; Release keeps assertions of our own.
add_library(vernier_options INTERFACE)
target_include_directories(vernier_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(vernier_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra $<$<BOOL:${VERNIER_WARNINGS_AS_ERRORS}>:-Werror> -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast>)
# FMA contraction off: the evaluators and host code give the same bits on every compiler.
target_compile_options(vernier_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(VERNIER_SANITIZE)
  target_compile_options(vernier_options INTERFACE -fsanitize=${VERNIER_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(vernier_options INTERFACE -fsanitize=${VERNIER_SANITIZE})
endif()
if(VERNIER_FUZZ)
  # clang warns about other things than gcc, whose warnings are the gated ones.
  target_compile_options(vernier_options INTERFACE -Wno-error -fsanitize=fuzzer-no-link
                         -fno-omit-frame-pointer -g1)
  if(VERNIER_COVERAGE)
    target_compile_options(vernier_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
    target_link_options(vernier_options INTERFACE -fprofile-instr-generate)
  else()
    target_compile_options(vernier_options INTERFACE -fsanitize=address)
    target_link_options(vernier_options INTERFACE -fsanitize=address)
  endif()
endif()

# vernier_library(name folder...): a static library of every .cpp below the folders of src/.
function(vernier_library target)
  set(sources)
  foreach(folder ${ARGN})
    file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(${target} STATIC ${sources})
  target_link_libraries(${target} PUBLIC vernier_options)
endfunction()

# vernier_compile_quickly(sources...): compiles command-line and report code at -O1. Its templates
# (CLI11, JSON) are slow to compile and run only for milliseconds; -O1 takes about two thirds as long.
function(vernier_compile_quickly)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O1>)
endfunction()
