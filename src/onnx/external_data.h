// ExternalData: the weight files of a model. A location may not leave the model's folder, and
// nothing is read before offset and length are checked against the file.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/mapped_file.h"
#include "core/tensor.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

class ExternalData {
 public:
  /// `folder` empty: no external data is allowed.
  explicit ExternalData(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// The array of a tensor whose data is outside the model file, sharing the mapped file (copied
  /// only where the offset is not aligned for the type). Empty if the file does not exist.
  /// Throws Error(kInput) for an absolute location, one with "..", one that leads out of the folder
  /// through a link, bad or unknown keys, ranges that do not fit file or tensor, and if copies
  /// would take more than 2 GiB.
  std::optional<Tensor> read(const proto::TensorProto& tensor, DType dtype, Shape shape,
                             const std::string& where);

 private:
  std::shared_ptr<const MappedFile> map(const std::string& location, const std::string& where);

  /// Counts a copy of `bytes`, made because `offset` is not a multiple of `width`.
  void charge_copy(const std::string& where, size_t offset, size_t width, size_t bytes);

  std::filesystem::path folder_;
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  size_t copied_bytes_ = 0;
};

/// The location a tensor names, for messages; "" if it names none.
std::string external_location(const proto::TensorProto& tensor);

}  // namespace vernier::onnx
