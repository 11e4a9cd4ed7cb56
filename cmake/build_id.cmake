# The id of a build: a hash of the library's sources, the compiler and its flags. Two uses: included,
# it defines vernier_build_id(target); as a script (cmake -DLIST=F -DHOW=F -DOUT=F -P) it writes the
# source that returns the id. Certificates name it (docs/verification.md "Certificate").
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} files)
  file(READ ${HOW} text)
  foreach(file ${files})
    file(SHA256 ${ROOT}/${file} hash)
    string(APPEND text "${file} ${hash}\n")
  endforeach()
  string(SHA256 id "${text}")
  string(SUBSTRING ${id} 0 32 id)
  file(WRITE ${OUT} "// Made by cmake/build_id.cmake; do not edit.
#include \"vernier/version.h\"

namespace vernier {

const char* build_id() { return \"${id}\"; }

}  // namespace vernier
")
  return()
endif()

# Of everything that numbers and verdicts depend on: not of the command line, its demo and models.
function(vernier_build_id target)
  set(folder ${PROJECT_BINARY_DIR}/build_id)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/src/*.cpp
       ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/src/*.def ${PROJECT_SOURCE_DIR}/src/*.cu
       ${PROJECT_SOURCE_DIR}/src/*.cuh ${PROJECT_SOURCE_DIR}/src/*.proto
       ${PROJECT_SOURCE_DIR}/src/*.cmake ${PROJECT_SOURCE_DIR}/src/CMakeLists.txt
       ${PROJECT_SOURCE_DIR}/cmake/*.cmake)
  list(FILTER sources EXCLUDE REGEX "^src/(cli|demo|make_model)/")
  list(SORT sources)
  list(JOIN sources "\n" lines)
  file(CONFIGURE OUTPUT ${folder}/sources.txt CONTENT "${lines}\n" @ONLY)
  file(CONFIGURE OUTPUT ${folder}/how.txt CONTENT "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}
${CMAKE_SYSTEM_PROCESSOR} ${CMAKE_BUILD_TYPE} ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}
hardening ${VERNIER_HARDENING} sanitize ${VERNIER_SANITIZE} onednn ${VERNIER_ONEDNN}
cuda ${VERNIER_CUDA} ${VERNIER_CUDA_ARCH} ${CMAKE_CUDA_COMPILER_VERSION} ${CMAKE_CUDA_FLAGS}
" @ONLY)
  list(TRANSFORM sources PREPEND ${PROJECT_SOURCE_DIR}/)
  add_custom_command(
    OUTPUT ${folder}/build_id.cpp
    COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DLIST=${folder}/sources.txt
            -DHOW=${folder}/how.txt -DOUT=${folder}/build_id.cpp
            -P ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
    DEPENDS ${sources} ${folder}/sources.txt ${folder}/how.txt
            ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${folder}/build_id.cpp)
endfunction()
