// TensorReader: converts TensorProto to Tensor. Every size is checked against the bytes present
// before anything is allocated.
#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"
#include "onnx/external_data.h"
#include "onnx/import.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

/// What a missing weight is filled with.
enum class WeightRole : uint8_t {
  kPlain,     ///< normal around 0
  kScale,     ///< around 1 (the scale of a norm)
  kVariance,  ///< around 1 and positive
};

/// Does a tensor of INT4 or UINT4 become one of i4 or u4, or of i8 or u8 with the same numbers? The
/// latter where nothing depends on its type.
enum class FourBits : uint8_t { kAsTheyAre, kAsBytes };

class TensorReader {
 public:
  TensorReader(std::filesystem::path folder, MissingWeights missing)
      : external_(std::move(folder)), missing_(missing) {}

  /// The array; raw bytes are moved out of `tensor` where that saves a copy.
  /// Throws Error(kInput) naming `where` for types, sizes and data that do not fit together.
  Tensor read(proto::TensorProto& tensor, const std::string& where,
              WeightRole role = WeightRole::kPlain, FourBits four_bits = FourBits::kAsTheyAre);

  /// Names of the tensors that got seeded values because their file is missing.
  const std::vector<std::string>& seeded() const { return seeded_; }

 private:
  Tensor read_packed(proto::TensorProto& tensor, DType dtype, const std::string& where);
  std::optional<Tensor> read_external(proto::TensorProto& tensor, DType dtype, const Shape& shape,
                                      const std::string& where);

  ExternalData external_;
  MissingWeights missing_;
  std::vector<std::string> seeded_;
};

/// Values of a missing weight: a function of name, shape and role only.
Tensor seeded_weight(const std::string& name, DType dtype, Shape shape, WeightRole role);

}  // namespace vernier::onnx
