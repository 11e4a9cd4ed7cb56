// Files of models in tests: written and read as they are.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "onnx/model_builder.h"

namespace vernier::onnx {

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
inline proto::ModelProto model_of(const std::filesystem::path& path) {
  proto::ModelProto model;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file)) << path;
  return model;
}

}  // namespace vernier::onnx
