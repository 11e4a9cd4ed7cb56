# The C++ package: shared libraries of the static ones, and what an installed tree needs.
#   vernier::runtime  opens and runs engines; no protobuf, no compiler
#   vernier::vernier  everything in include/vernier; needs vernier::runtime and brings it along
# In the source tree (add_subdirectory) the targets have the same names. Contract:
# docs/cpp_package.md.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(VERNIER_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # 0.x: 0.1 and 0.2 differ
set(package_folder ${PROJECT_BINARY_DIR}/package)
file(WRITE ${package_folder}/empty.cpp "// A shared library of static libraries has no source of its own.\n")

# vernier_shared(target name PARTS static... LINKS library...): the shared library vernier::name of
# all objects of PARTS. Only symbols of namespace vernier are visible.
function(vernier_shared target name)
  cmake_parse_arguments(arg "" "" "PARTS;LINKS" ${ARGN})
  add_library(${target} SHARED ${package_folder}/empty.cpp)
  add_library(vernier::${name} ALIAS ${target})
  set(archives)
  foreach(part ${arg_PARTS})
    list(APPEND archives $<TARGET_FILE:${part}>)
  endforeach()
  add_dependencies(${target} ${arg_PARTS})
  target_link_libraries(${target} PRIVATE
    -Wl,--whole-archive ${archives} -Wl,--no-whole-archive ${arg_LINKS})
  target_link_options(${target} PRIVATE
    LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/symbols.map LINKER:--no-undefined)
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name} VERSION ${PROJECT_VERSION} SOVERSION ${VERNIER_SOVERSION}
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/symbols.map;${archives}" INSTALL_RPATH "$ORIGIN")
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

set(runtime_links Threads::Threads PkgConfig::XXHASH PkgConfig::HWY ${CMAKE_DL_LIBS})
set(runtime_parts vernier_core vernier_reference vernier_rules vernier_backend vernier_cpu
    vernier_engine_reader vernier_runtime)
if(VERNIER_ONEDNN)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  list(APPEND runtime_links ${DNNL_LIBRARY} OpenMP::OpenMP_CXX)
endif()
if(VERNIER_CUDA)
  list(APPEND runtime_parts vernier_cuda)
  list(APPEND runtime_links CUDA::cudart_static CUDA::cublasLt)
endif()
vernier_shared(vernier_runtime_shared runtime PARTS ${runtime_parts} LINKS ${runtime_links})
set_target_properties(vernier_runtime_shared PROPERTIES OUTPUT_NAME vernier_runtime)

vernier_shared(vernier_shared vernier
  PARTS vernier_ir vernier_analysis vernier_passes vernier_onnx_proto vernier_onnx vernier_engine_writer vernier_io
        vernier_evaluate vernier_compiler vernier_calibrate vernier_verify
  LINKS vernier_runtime_shared protobuf::libprotobuf-lite PkgConfig::XXHASH PkgConfig::LIBZIP
        fmt::fmt Threads::Threads)
set_target_properties(vernier_shared PROPERTIES OUTPUT_NAME vernier)
# A user of vernier::vernier calls functions of vernier::runtime, too.
target_link_libraries(vernier_shared INTERFACE vernier_runtime_shared)

option(VERNIER_INSTALL "Install the libraries, the headers and the program" ${PROJECT_IS_TOP_LEVEL})
if(NOT VERNIER_INSTALL)
  return()
endif()

# ---- an installed tree
install(TARGETS vernier_shared vernier_runtime_shared EXPORT vernier
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS vernier RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/vernier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/vernier)
install(EXPORT vernier NAMESPACE vernier:: FILE vernierTargets.cmake DESTINATION ${cmake_folder})
file(WRITE ${package_folder}/vernierConfig.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/vernierTargets.cmake)\n")
write_basic_package_version_file(${package_folder}/vernierConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${package_folder}/vernierConfig.cmake ${package_folder}/vernierConfigVersion.cmake
        DESTINATION ${cmake_folder})

# vernier_pkg_config(name description libraries requires)
function(vernier_pkg_config name description libraries requires)
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  file(WRITE ${package_folder}/${name}.pc
"prefix=\${pcfiledir}/${up}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: ${name}
Description: ${description}
Version: ${PROJECT_VERSION}
Requires: ${requires}
Cflags: -I\${includedir}
Libs: -L\${libdir} ${libraries}
")
  install(FILES ${package_folder}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
vernier_pkg_config(vernier-runtime "Opens and runs Vernier engines" "-lvernier_runtime" "")
vernier_pkg_config(vernier "Compiles ONNX Transformers into engines and verifies them" "-lvernier"
                   "vernier-runtime")

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

# ---- a Debian package: cpack --config build/release/CPackConfig.cmake
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME vernier)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Vernier developers <vernier@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler, runtime and precision checker for ONNX Transformers")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)  # and scripts that run ldconfig
set(CPACK_STRIP_FILES ON)
include(CPack)
