// Reads TensorProto in all its encodings: see tensor_reader.h.
#include "onnx/tensor_reader.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/random.h"
#include "onnx/element_types.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": " + what);
}

constexpr int64_t kMaxRank = 64;  // far above any model; bounds the work of a damaged file

Shape read_shape(const proto::TensorProto& tensor, const std::string& where) {
  if (tensor.dims_size() > kMaxRank) {
    fail(where, "has " + std::to_string(tensor.dims_size()) + " dimensions; at most " +
                    std::to_string(kMaxRank) + " are supported");
  }
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  int64_t elems = 1;
  for (int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elems, std::max<int64_t>(size, 1), &elems) ||
        elems > kMaxArrayElems) {
      fail(where, "has an invalid shape " + str(shape));
    }
  }
  return shape;
}

void check_count(size_t got, const Shape& shape, const char* field, const std::string& where) {
  const auto expected = static_cast<size_t>(num_elems(shape));
  if (got != expected) {
    fail(where, std::string(field) + " holds " + std::to_string(got) + " values; shape " +
                    str(shape) + " needs " + std::to_string(expected));
  }
}

// raw_data, moved out of the message: the string becomes the owner of the bytes.
Tensor read_raw(proto::TensorProto& tensor, DType dtype, Shape shape, const std::string& where) {
  const size_t needed = static_cast<size_t>(num_elems(shape)) * size_bytes(dtype);
  const std::string& raw = tensor.raw_data();
  if (raw.size() != needed) {
    fail(where, "raw_data has " + std::to_string(raw.size()) + " bytes; shape " + str(shape) +
                    " of " + std::string(name(dtype)) + " needs " + std::to_string(needed));
  }
  constexpr size_t kWorthMoving = 4096;
  if (needed < kWorthMoving) {
    return Tensor::from_bytes(dtype, std::move(shape),
                              std::as_bytes(std::span(raw.data(), raw.size())));
  }
  const std::shared_ptr<const std::string> owner(tensor.release_raw_data());
  const auto* data = reinterpret_cast<const std::byte*>(owner->data());
  return {dtype, std::move(shape), owner, data};
}

template <class Item, class Source>
Tensor convert(DType dtype, Shape shape, const Source& source) {
  const std::vector<Item> values(source.begin(), source.end());
  return Tensor::from(dtype, std::move(shape), std::span<const Item>(values));
}

// int32_data holds f16, bf16 and f8 as their bits, small integers and bool as numbers.
Tensor read_int32_data(const proto::TensorProto& tensor, DType dtype, Shape shape) {
  if (!is_float(dtype)) return convert<int64_t>(dtype, std::move(shape), tensor.int32_data());
  const size_t width = size_bytes(dtype);
  std::vector<std::byte> bytes;
  bytes.reserve(static_cast<size_t>(tensor.int32_data_size()) * width);
  for (int32_t bits : tensor.int32_data()) {
    const auto low = static_cast<uint32_t>(bits);
    bytes.push_back(static_cast<std::byte>(low & 0xff));
    if (width == 2) bytes.push_back(static_cast<std::byte>((low >> 8) & 0xff));
  }
  return Tensor::from_bytes(dtype, std::move(shape), bytes);
}

// The typed field that the format assigns to `dtype`.
Tensor read_typed(const proto::TensorProto& tensor, DType dtype, Shape shape,
                  const std::string& where) {
  switch (dtype) {
    case DType::kF32:
      check_count(static_cast<size_t>(tensor.float_data_size()), shape, "float_data", where);
      return Tensor::from_bytes(
          dtype, std::move(shape),
          std::as_bytes(std::span(tensor.float_data().data(),
                                  static_cast<size_t>(tensor.float_data_size()))));
    case DType::kF64:
      check_count(static_cast<size_t>(tensor.double_data_size()), shape, "double_data", where);
      return convert<double>(dtype, std::move(shape), tensor.double_data());
    case DType::kI64:
      check_count(static_cast<size_t>(tensor.int64_data_size()), shape, "int64_data", where);
      return convert<int64_t>(dtype, std::move(shape), tensor.int64_data());
    case DType::kU32:
    case DType::kU64:
      check_count(static_cast<size_t>(tensor.uint64_data_size()), shape, "uint64_data", where);
      return convert<int64_t>(dtype, std::move(shape), tensor.uint64_data());
    default:
      check_count(static_cast<size_t>(tensor.int32_data_size()), shape, "int32_data", where);
      return read_int32_data(tensor, dtype, std::move(shape));
  }
}

bool has_typed_data(const proto::TensorProto& tensor) {
  return tensor.float_data_size() + tensor.int32_data_size() + tensor.int64_data_size() +
             tensor.double_data_size() + tensor.uint64_data_size() + tensor.string_data_size() >
         0;
}

// Integers are indices: position ids count along the last axis, all others are 0.
Tensor seeded_indices(const std::string& name, DType dtype, Shape shape) {
  const int64_t last = shape.empty() ? 1 : shape.back();
  std::vector<int64_t> values(static_cast<size_t>(num_elems(shape)), 0);
  if (name.find("position") != std::string::npos) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i) % last;
  }
  return Tensor::from(dtype, std::move(shape), std::span<const int64_t>(values));
}

}  // namespace

Tensor seeded_weight(const std::string& name, DType dtype, Shape shape, WeightRole role) {
  constexpr int64_t kMaxElems = int64_t{1} << 33;
  if (num_elems(shape) > kMaxElems) {
    fail("tensor " + quote(name), "is too large to be filled with seeded values: " + str(shape));
  }
  if (!is_float(dtype)) return seeded_indices(name, dtype, std::move(shape));
  SplitMix random(XXH3_64bits(name.data(), name.size()));
  const auto count = static_cast<size_t>(num_elems(shape));
  const double deviation = role == WeightRole::kPlain ? 0.02 + 0.03 * random.uniform() : 0.05;
  const double center = role == WeightRole::kPlain ? 0.0 : 1.0;
  std::vector<double> values(count);
  for (double& value : values) {
    value = center + deviation * random.normal();
    if (dtype == DType::kF8E8M0) value = std::abs(value);  // it has no others
    if (role == WeightRole::kVariance) value = std::abs(value) + 0.01;
  }
  return Tensor::from(dtype, std::move(shape), std::span<const double>(values));
}

// The array in its file; empty where that is missing and the weight is to be seeded.
std::optional<Tensor> TensorReader::read_external(proto::TensorProto& tensor, DType dtype,
                                                  const Shape& shape, const std::string& where) {
  if (tensor.has_raw_data() || has_typed_data(tensor)) {
    fail(where, "is external but also has data in the model file");
  }
  if (auto external = external_.read(tensor, dtype, shape, where)) return external;
  const std::string file = quote(external_location(tensor));
  if (missing_ == MissingWeights::kError) {
    fail(where, "its external data file " + file +
                    " does not exist. Copy it next to the model (it was saved with the model)");
  }
  seeded_.push_back(tensor.name());
  return std::nullopt;
}

// Several elements in a byte, as raw data, int32_data or in a file.
Tensor TensorReader::read_packed(proto::TensorProto& tensor, DType dtype,
                                 const std::string& where) {
  const Shape shape = read_shape(tensor, where);
  const int64_t held = packed_bytes(dtype, num_elems(shape));
  if (tensor.has_segment()) fail(where, "is stored in segments, which is not supported");
  std::optional<Tensor> bytes;
  if (tensor.data_location() == proto::TensorProto::EXTERNAL) {
    bytes = read_external(tensor, DType::kU8, {held}, where);
    if (!bytes) return seeded_weight(tensor.name(), dtype, shape, WeightRole::kPlain);
  } else if (tensor.has_raw_data()) {
    if (has_typed_data(tensor)) fail(where, "has both raw_data and typed data");
    bytes = read_raw(tensor, DType::kU8, {held}, where);
  } else {
    check_count(static_cast<size_t>(tensor.int32_data_size()), {held}, "int32_data", where);
    bytes = read_int32_data(tensor, DType::kU8, {held});
  }
  return unpacked(dtype, shape, bytes->data());
}

Tensor TensorReader::read(proto::TensorProto& tensor, const std::string& where, WeightRole role,
                          FourBits four_bits) {
  const DType dtype = element_type(tensor.data_type(), where);
  if (is_packed(dtype)) {
    const auto read = std::make_shared<const Tensor>(read_packed(tensor, dtype, where));
    const auto held = type_of_4_bits(tensor.data_type());
    if (!held || four_bits == FourBits::kAsTheyAre) return *read;
    return {*held, read->shape(), read, read->data()};  // the same bytes
  }
  Shape shape = read_shape(tensor, where);
  if (tensor.has_segment()) fail(where, "is stored in segments, which is not supported");
  if (tensor.data_location() == proto::TensorProto::EXTERNAL) {
    if (auto external = read_external(tensor, dtype, shape, where)) return *std::move(external);
    return seeded_weight(tensor.name(), dtype, std::move(shape), role);
  }
  if (tensor.external_data_size() > 0) {
    fail(where, "has a location of external data but is not marked as external");
  }
  if (tensor.has_raw_data()) {
    if (has_typed_data(tensor)) fail(where, "has both raw_data and typed data");
    return read_raw(tensor, dtype, std::move(shape), where);
  }
  return read_typed(tensor, dtype, std::move(shape), where);
}

}  // namespace vernier::onnx
