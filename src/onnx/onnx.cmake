# vernier_onnx: reading models. The messages are generated code, compiled without our warnings.
add_library(vernier_onnx_proto STATIC ${PROJECT_SOURCE_DIR}/src/onnx/onnx.proto)
protobuf_generate(TARGET vernier_onnx_proto LANGUAGE cpp IMPORT_DIRS ${PROJECT_SOURCE_DIR}/src
                  PROTOC_OUT_DIR ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/generated)
target_include_directories(vernier_onnx_proto SYSTEM PUBLIC ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(vernier_onnx_proto PUBLIC protobuf::libprotobuf-lite)

vernier_library(vernier_onnx onnx)
target_link_libraries(vernier_onnx PUBLIC vernier_ir vernier_onnx_proto
                                   PRIVATE nlohmann_json::nlohmann_json)
