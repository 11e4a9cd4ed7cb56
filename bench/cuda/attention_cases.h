// What bench_attention checks and times: masks and shapes as cases, arrays with their host copies,
// random numbers made on the device. C++17.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "backend/cuda/kernels/attention/attention.h"

namespace cuda = vernier::backend::cuda;
using cuda::AttentionLaunch;
using cuda::AttentionType;

namespace {

constexpr float kInfinity = __builtin_huge_valf();

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(status));
  std::exit(3);
}

// ---- random numbers

__host__ __device__ uint32_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return static_cast<uint32_t>(x);
}
// About normal: four uniform numbers.
__host__ __device__ float normal(uint64_t seed, int64_t i) {
  float sum = 0;
  for (int n = 0; n < 4; ++n)
    sum += static_cast<float>(
               mix(seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(4 * i + n)) >> 8) *
               0x1p-24f -
           0.5f;
  return sum * 1.7320508f;
}
size_t bytes_of(AttentionType type) { return type == AttentionType::kF32 ? 4 : 2; }

__global__ void fill_kernel(void* data, int64_t n, AttentionType type, uint64_t seed, float scale) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const float x = normal(seed, i) * scale;
    if (type == AttentionType::kF32) static_cast<float*>(data)[i] = x;
    if (type == AttentionType::kF16) static_cast<__half*>(data)[i] = __float2half_rn(x);
    if (type == AttentionType::kBF16) static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(x);
  }
}

// A device array with a copy on the host.
struct Array {
  AttentionType type = AttentionType::kF32;
  int64_t elems = 0;
  void* data = nullptr;
  std::vector<unsigned char> host;

  Array() = default;
  Array(AttentionType t, int64_t n) : type(t), elems(n) {
    check(cudaMalloc(&data, static_cast<size_t>(std::max<int64_t>(n, 1)) * bytes_of(t)), "memory");
  }
  ~Array() { cudaFree(data); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  Array& operator=(Array&& other) noexcept {
    std::swap(type, other.type);
    std::swap(elems, other.elems);
    std::swap(data, other.data);
    std::swap(host, other.host);
    return *this;
  }
  size_t bytes() const { return static_cast<size_t>(elems) * bytes_of(type); }
  void randomise(uint64_t seed, float scale) {
    fill_kernel<<<512, 256>>>(data, elems, type, seed, scale);
    check(cudaGetLastError(), "fill");
  }
  void fetch() {
    host.resize(bytes());
    check(cudaMemcpy(host.data(), data, bytes(), cudaMemcpyDeviceToHost), "fetch");
  }
  void send() { check(cudaMemcpy(data, host.data(), bytes(), cudaMemcpyHostToDevice), "send"); }
  void poison() { check(cudaMemset(data, 0xff, bytes()), "poison"); }
  double at(int64_t i) const {
    const auto k = static_cast<size_t>(i);
    if (type == AttentionType::kF32) return reinterpret_cast<const float*>(host.data())[k];
    if (type == AttentionType::kF16)
      return __half2float(reinterpret_cast<const __half*>(host.data())[k]);
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(host.data())[k]);
  }
  void set(int64_t i, float x) {
    const auto k = static_cast<size_t>(i);
    if (type == AttentionType::kF32) reinterpret_cast<float*>(host.data())[k] = x;
    if (type == AttentionType::kF16) reinterpret_cast<__half*>(host.data())[k] = __float2half_rn(x);
    if (type == AttentionType::kBF16)
      reinterpret_cast<__nv_bfloat16*>(host.data())[k] = __float2bfloat16_rn(x);
  }
};

// ---- cases

enum class Mask {
  kNone,
  kKeep,
  kKeepAll,
  kPadding,
  kKeepFinite,
  kKeepEmpty,
  kKeepEmptyZero,
  kKeepByQuery,
  kBiasByKey,
  kBiasRelative,
  kBiasEmpty,
  kBiasAndKeep,
  kCausal,
  kCausalFinite,
  kCausalNaN,
  kMasksAdd,
  kSequences,
  kRotary,
  kRotaryPairs,
  kLargeLogits,
  kNaN,
  kUnaligned,
  kCount
};
const char* const kMaskNames[] = {"none",
                                  "keep",
                                  "keep all",
                                  "padding",
                                  "keep finite fill",
                                  "keep empty rows",
                                  "keep empty, zeroed",
                                  "keep [q,k]",
                                  "bias by key",
                                  "bias relative",
                                  "bias empty rows",
                                  "bias and keep",
                                  "causal",
                                  "causal finite",
                                  "causal NaN value",
                                  "masks add",
                                  "sequences",
                                  "rotary",
                                  "rotary pairs",
                                  "logits 1e4",
                                  "NaN in k",
                                  "unaligned"};

struct Shape {
  int64_t batch, queries, keys;
  int heads, kv_heads, dim, value_dim;
};

using Kernel = cudaError_t (*)(const AttentionLaunch&, cudaStream_t);

struct Case {
  Shape s;
  AttentionType type;
  Mask mask;
  Array q, k, v, out, bias, cos, sin;
  std::vector<uint8_t> keep;
  std::vector<int32_t> starts_q, starts_k;
  void *keep_data = nullptr, *starts_data = nullptr;
  uint8_t* finite = nullptr;
  AttentionLaunch args{};
  int64_t q_row = 0;  // elements between rows of q (and k, v where they are one array)
  bool tf32 = false;  // what the kernel rounds operands and probabilities to

  ~Case() {
    cudaFree(keep_data);
    cudaFree(starts_data);
    cudaFree(finite);
  }
  Case(const Shape& shape, AttentionType t, Mask m, uint64_t seed) : s(shape), type(t), mask(m) {
    make_operands(seed);
    make_masks(seed);
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void make_operands(uint64_t seed) {
    // Rows have a gap behind them, as views of a merged q, k, v have; unaligned: an odd one.
    const int64_t gap = mask == Mask::kUnaligned ? 3 : 2 * s.heads * s.dim;
    const auto make = [&](Array& x, int64_t rows, int heads, int width, uint64_t n, float scale) {
      const int64_t row = heads * width + gap;
      x = Array(type, s.batch * rows * row);
      x.randomise(seed * 8 + n, scale);
      return cuda::AttentionRows{x.data, rows * row, row, width, type};
    };
    const float size = mask == Mask::kLargeLogits ? 1e4f / std::sqrt(static_cast<float>(s.dim)) : 1;
    args.q = make(q, s.queries, s.heads, s.dim, 0, 2.0f * std::sqrt(size));
    args.k = make(k, s.keys, s.kv_heads, s.dim, 1, std::sqrt(size));
    args.v = make(v, s.keys, s.kv_heads, s.value_dim, 2, 1);
    out = Array(type, s.batch * s.queries * s.heads * s.value_dim);
    const int64_t row = s.heads * s.value_dim;
    args.out = {out.data, s.queries * row, row, s.value_dim, type};
    args.batch = s.batch;
    args.queries = s.queries;
    args.keys = s.keys;
    args.heads = s.heads;
    args.kv_heads = s.kv_heads;
    args.head_dim = s.dim;
    args.value_dim = s.value_dim;
    args.scale = 1 / std::sqrt(static_cast<float>(s.dim));
    args.fill = -kInfinity;
    const int64_t chunks = (s.keys + cuda::kFiniteChunk - 1) / cuda::kFiniteChunk;
    check(cudaMalloc(reinterpret_cast<void**>(&finite),
                     static_cast<size_t>(s.batch * s.kv_heads * chunks + 1)),
          "memory");
  }
  void set_keep(std::vector<uint8_t> bytes, int64_t batch, int64_t head, int64_t query,
                int64_t key) {
    keep = std::move(bytes);
    check(cudaMalloc(&keep_data, keep.size()), "memory");
    check(cudaMemcpy(keep_data, keep.data(), keep.size(), cudaMemcpyHostToDevice), "send");
    args.keep = {keep_data, batch, head, query, key, AttentionType::kF32};
  }
  // [batch, keys]: item b keeps its first keys − (b % 3)·keys/3 keys; holes: not every
  // seventh of them.
  void keep_by_key(bool empty_last, bool holes = true) {
    std::vector<uint8_t> bytes(static_cast<size_t>(s.batch * s.keys));
    for (int64_t b = 0; b < s.batch; ++b) {
      for (int64_t j = 0; j < s.keys; ++j) {
        const bool in = j < s.keys - b % 3 * s.keys / 3 && (b == 0 || !holes || j % 7 != 3);
        bytes[static_cast<size_t>(b * s.keys + j)] = in && !(empty_last && b == s.batch - 1);
      }
    }
    set_keep(std::move(bytes), s.keys, 0, 0, 1);
  }
  void bias_table(int64_t elems, const std::function<float(int64_t)>& value, AttentionType t) {
    bias = Array(t, elems);
    bias.fetch();
    for (int64_t i = 0; i < elems; ++i) bias.set(i, value(i));
    bias.send();
  }
  void make_masks(uint64_t seed) {
    const AttentionType f32 = AttentionType::kF32;
    switch (mask) {
      case Mask::kKeep:
        keep_by_key(false);
        break;
      case Mask::kKeepAll:
        set_keep(std::vector<uint8_t>(static_cast<size_t>(s.batch * s.keys), 1), s.keys, 0, 0, 1);
        break;
      case Mask::kPadding:
        keep_by_key(false, false);
        break;
      case Mask::kKeepFinite:
        keep_by_key(true);
        args.fill = -3.4028235e38f;
        break;
      case Mask::kKeepEmpty:
        keep_by_key(true);
        break;
      case Mask::kKeepEmptyZero:
        keep_by_key(true);
        args.zero_nan_rows = true;
        break;
      case Mask::kMasksAdd:
        keep_by_key(true);
        args.masks_add = args.causal = true;
        break;
      case Mask::kKeepByQuery: {
        std::vector<uint8_t> bytes(static_cast<size_t>(s.heads * s.queries * s.keys));
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = mix(seed + i) % 3 != 0;
        for (int64_t h = 0; h < s.heads; ++h)
          bytes[static_cast<size_t>(h * s.queries * s.keys)] = 1;
        set_keep(std::move(bytes), 0, s.queries * s.keys, s.keys, 1);
        args.fill = -1e4f;
        break;
      }
      case Mask::kBiasAndKeep:
        keep_by_key(false);
        args.fill = -3.4028235e38f;
        [[fallthrough]];
      case Mask::kBiasByKey:
        bias_table(
            s.batch * s.keys,
            [&](int64_t i) {
              return i % s.keys >= s.keys - i / s.keys % 3 * s.keys / 3 ? -10000.0f
                                                                        : normal(seed + 9, i);
            },
            type);
        args.bias = {bias.data, s.keys, 0, 0, 1, type};
        break;
      case Mask::kBiasEmpty:  // the last item has nothing but the lowest number
        bias_table(
            s.batch * s.keys,
            [&](int64_t i) {
              return i / s.keys == s.batch - 1 || i % s.keys % 5 == 4 ? -3.4028235e38f : 0.0f;
            },
            f32);
        args.bias = {bias.data, s.keys, 0, 0, 1, f32};
        break;
      case Mask::kBiasRelative:
        bias_table(
            s.heads * s.queries * s.keys, [&](int64_t i) { return 2 * normal(seed + 9, i); }, f32);
        args.bias = {bias.data, 0, s.queries * s.keys, s.keys, 1, f32};
        break;
      case Mask::kCausal:
        args.causal = true;
        break;
      case Mask::kCausalFinite:
        args.causal = true;
        args.fill = -3.4028235e38f;
        break;
      case Mask::kCausalNaN:
        args.causal = true;
        poison_row(v, args.v, 0, s.keys - 1, 0);
        break;
      case Mask::kNaN:
        poison_row(k, args.k, s.batch - 1, s.keys / 2, s.kv_heads - 1);
        break;
      case Mask::kSequences:
        make_sequences();
        break;
      case Mask::kRotary:
        make_rotary(s.dim, false);
        break;
      case Mask::kRotaryPairs:
        make_rotary(s.dim / 2, true);
        break;
      default:
        break;
    }
  }
  void poison_row(Array& x, const cuda::AttentionRows& rows, int64_t b, int64_t row, int64_t head) {
    x.fetch();
    x.set(b * rows.batch + row * rows.row + head * rows.head + 1, std::nanf(""));
    x.send();
  }
  // Packed: lengths that differ between q and k, one empty, rows of none at the end; the rows
  // between sequences of k hold NaN values.
  void make_sequences() {
    starts_q = {0};
    starts_k = {0};
    const int64_t parts[] = {3, 0, 2, 4, 1};
    for (int64_t part : parts) {
      starts_q.push_back(starts_q.back() + static_cast<int32_t>(s.queries * part / 11));
      starts_k.push_back(starts_k.back() + static_cast<int32_t>(s.keys * part / 12));
    }
    const size_t bytes = starts_q.size() * 4;
    check(cudaMalloc(&starts_data, 2 * bytes), "memory");
    auto* second = static_cast<char*>(starts_data) + bytes;
    check(cudaMemcpy(starts_data, starts_q.data(), bytes, cudaMemcpyHostToDevice), "send");
    check(cudaMemcpy(second, starts_k.data(), bytes, cudaMemcpyHostToDevice), "send");
    args.starts_q = starts_data;
    args.starts_k = second;
    args.sequences = static_cast<int>(starts_q.size()) - 1;
    for (int64_t j = starts_k.back(); j < s.keys; ++j) {
      poison_row(v, args.v, 0, j, 0);
      poison_row(k, args.k, 0, j, 0);
    }
  }
  void make_rotary(int width, bool pairs) {
    const int64_t rows = std::max(s.queries, s.keys);
    cos = Array(AttentionType::kF32, rows * width);
    sin = Array(type, rows * width);
    cos.randomise(77, 1);
    sin.randomise(78, 1);
    args.rotary = {cos.data, sin.data, 0,     width, 0, width, AttentionType::kF32,
                   type,     width,    width, pairs};
  }

  void run(Kernel kernel) {
    out.poison();
    args.finite = args.causal ? finite : nullptr;
    if (args.causal) check(cuda::launch_attention_finite(args, nullptr), "finite");
    check(kernel(args, nullptr), "launch");
    check(cudaDeviceSynchronize(), "run");
    out.fetch();
  }
};

}  // namespace
