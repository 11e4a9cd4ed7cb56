# Embeds text files in the program: cmake -DOUT=FILE.cpp -DHEADER=H -DNAMESPACE=N -P embed.cmake
# NAME=FILE... makes FILE.cpp with `std::string_view NAME()` for each. GCC and Clang take raw strings
# of any length; the delimiter must not occur in the files, which is checked.
set(text "// Made by cmake/embed.cmake; do not edit.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
foreach(at RANGE ${CMAKE_ARGC})
  if(NOT "${CMAKE_ARGV${at}}" MATCHES "^([a-z_]+)=(/.+)$")
    continue()
  endif()
  set(function ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} content)
  string(FIND "${content}" ")embedded\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${CMAKE_MATCH_2} holds the delimiter )embedded\"")
  endif()
  string(APPEND text "std::string_view ${function}() {\n  return R\"embedded(${content})embedded\";\n}\n\n")
endforeach()
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUT} "${text}")
