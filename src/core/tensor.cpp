// Tensor and EvalTensor: see tensor.h.
#include "core/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "core/threads.h"

namespace vernier {
namespace {

constexpr std::align_val_t kAlignment{64};

// Uninitialized, 64-byte aligned, shared bytes (at least one, so that data() is never null).
std::shared_ptr<std::byte> allocate(size_t bytes) {
  auto* raw = static_cast<std::byte*>(::operator new(std::max<size_t>(bytes, 1), kAlignment));
  return {raw, [](std::byte* p) { ::operator delete(p, kAlignment); }};
}

}  // namespace

int64_t num_elems(std::span<const int64_t> shape) {
  int64_t most = 1;
  bool is_empty = false;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(most, std::max<int64_t>(d, 1), &most) ||
        most > kMaxArrayElems) {
      throw Error(ErrorCode::kInput,
                  "shape " + str(shape) + " has a negative size or too many elements");
    }
    is_empty = is_empty || d == 0;
  }
  return is_empty ? 0 : most;
}

std::string str(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string position_text(int64_t flat, std::span<const int64_t> shape) {
  Shape position(shape.size());
  for (size_t d = shape.size(); d > 0; --d) {
    position[d - 1] = flat % shape[d - 1];
    flat /= shape[d - 1];
  }
  return str(position);
}

Shape row_major_strides(std::span<const int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * shape[i - 1];
  return strides;
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<const void> owner, const std::byte* data)
    : dtype_(dtype),
      shape_(std::move(shape)),
      elems_(num_elems(shape_)),
      owner_(std::move(owner)),
      data_(data) {}

Tensor Tensor::filled(DType dtype, Shape shape, const std::function<void(std::byte*)>& fill) {
  auto storage = allocate(static_cast<size_t>(num_elems(shape)) * vernier::size_bytes(dtype));
  fill(storage.get());
  const std::byte* data = storage.get();
  return {dtype, std::move(shape), std::move(storage), data};
}

Tensor Tensor::from_bytes(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  VERNIER_ASSERT(bytes.size() ==
                 static_cast<size_t>(num_elems(shape)) * vernier::size_bytes(dtype));
  return filled(dtype, std::move(shape), [bytes](std::byte* dst) {
    if (!bytes.empty()) std::memcpy(dst, bytes.data(), bytes.size());
  });
}

namespace {
template <class T, class Store>
Tensor convert(DType dtype, Shape shape, std::span<const T> values, Store store) {
  VERNIER_ASSERT(static_cast<size_t>(num_elems(shape)) == values.size());
  const size_t width = size_bytes(dtype);
  constexpr int64_t kMinElems = int64_t{1} << 16;  // per thread
  return Tensor::filled(dtype, std::move(shape), [&](std::byte* dst) {
    in_parallel(std::ssize(values), kMinElems, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
        store(values[i], dst + i * width);
    });
  });
}
}  // namespace

Tensor Tensor::from(DType dtype, Shape shape, std::span<const double> values) {
  return convert(dtype, std::move(shape), values,
                 [dtype](double v, std::byte* dst) { store_float(dtype, v, dst); });
}
Tensor Tensor::from(DType dtype, Shape shape, std::span<const int64_t> values) {
  return convert(dtype, std::move(shape), values, [dtype](int64_t v, std::byte* dst) {
    if (is_float(dtype))
      store_float(dtype, static_cast<double>(v), dst);
    else
      store_integer(dtype, v, dst);
  });
}
Tensor Tensor::scalar(DType dtype, double value) { return from(dtype, {}, std::span(&value, 1)); }
Tensor Tensor::i64(std::vector<int64_t> values) {
  const auto count = static_cast<int64_t>(values.size());
  return from(DType::kI64, {count}, std::span<const int64_t>(values));
}

double Tensor::float_at(int64_t i) const {
  return load_float(dtype_, data_ + static_cast<size_t>(i) * vernier::size_bytes(dtype_));
}
int64_t Tensor::integer_at(int64_t i) const {
  return load_integer(dtype_, data_ + static_cast<size_t>(i) * vernier::size_bytes(dtype_));
}
std::vector<int64_t> Tensor::integers() const {
  std::vector<int64_t> values(static_cast<size_t>(elems_));
  for (int64_t i = 0; i < elems_; ++i) values[i] = integer_at(i);
  return values;
}
Tensor Tensor::reshaped(Shape shape) const {
  VERNIER_ASSERT(num_elems(shape) == elems_, str(shape) + " from " + str(shape_));
  return {dtype_, std::move(shape), owner_, data_};
}

EvalTensor::EvalTensor(DType type, Shape sizes) : dtype(type), shape(std::move(sizes)) {
  const auto count = static_cast<size_t>(num_elems(shape));
  if (is_float())
    f.assign(count, 0.0);
  else
    i.assign(count, 0);
}

EvalTensor EvalTensor::shaped(DType type, Shape sizes) {
  EvalTensor result;
  result.dtype = type;
  result.shape = std::move(sizes);
  return result;
}

void EvalTensor::to_host() {
  if (there == nullptr) return;
  f.resize(static_cast<size_t>(there->elems()));
  there->copy_to(f.data());
  there = nullptr;
  if (is_float()) return;
  i.assign(f.begin(), f.end());
  f.clear();
}

namespace {

// As f16_to_f32, without branches: a loop of it becomes vectors.
double value_of_f16(uint16_t bits) {
  const uint32_t magnitude = (bits & 0x7fffu) << 13, sign = (bits & 0x8000u) << 16;
  constexpr uint32_t kExponent = 0x7c00u << 13, kInfinity = 0x7f80'0000u;
  // Exponents of f16 in f32's place are too small by 112, subnormal numbers' too.
  const float finite = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t beyond = (magnitude & kExponent) == kExponent ? kInfinity : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(finite) | beyond | sign);
}

}  // namespace

void read_floats(const Tensor& t, int64_t first, int64_t count, double* to) {
  const auto each = [&]<class Stored>(const auto& value_of) {
    const Stored* from = reinterpret_cast<const Stored*>(t.data()) + first;
    for (int64_t k = 0; k < count; ++k) to[k] = value_of(from[k]);
  };
  if (t.dtype() == DType::kF32) {
    each.operator()<float>([](float v) { return double{v}; });
  } else if (t.dtype() == DType::kF16) {
    each.operator()<uint16_t>([](uint16_t v) { return value_of_f16(v); });
  } else if (t.dtype() == DType::kBF16) {
    each.operator()<uint16_t>([](uint16_t v) { return double{bf16_to_f32(v)}; });
  } else {
    for (int64_t k = 0; k < count; ++k) to[k] = t.float_at(first + k);
  }
}

EvalTensor EvalTensor::from(const Tensor& t, std::vector<double> memory) {
  EvalTensor result;
  result.dtype = t.dtype();
  result.shape = t.shape();
  if (!result.is_float()) {
    result.i = t.integers();
    return result;
  }
  constexpr int64_t kMinElems = int64_t{1} << 18;  // per thread
  result.f = std::move(memory);
  result.f.resize(t.elems());
  in_parallel(t.elems(), kMinElems, [&](int64_t begin, int64_t end) {
    read_floats(t, begin, end - begin, result.f.data() + begin);
  });
  return result;
}

Tensor EvalTensor::to_tensor() const {
  return is_float() ? Tensor::from(dtype, shape, std::span<const double>(f))
                    : Tensor::from(dtype, shape, std::span<const int64_t>(i));
}

}  // namespace vernier
