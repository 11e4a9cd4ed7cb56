// Numbers of the FP64 kernels: rounding points, functions, sums of a block.
#pragma once
#include "backend/cuda/fp64/launch.h"

namespace vernier::backend::cuda::fp64 {

constexpr int kThreads = 256;
constexpr double kInfinity = __builtin_huge_val();
constexpr unsigned long long kSize = ~(1ull << 63), kInfinityBits = 0x7ffull << 52;

// FloatRounder::nearest() and truncated().
__device__ inline double rounded(const Rounder& r, double x) {
  if (r.mode == Rounder::kNone) return x;
  const double power =
      __longlong_as_double(__double_as_longlong(x) & static_cast<long long>(kInfinityBits));
  const double binade = power > r.min_normal || isnan(power) ? power : r.min_normal;
  const double shift = binade * r.shift;
  double y = copysign(__dsub_rn(__dadd_rn(x, shift), shift), x);
  const auto is_value = [&](double v) { return v >= r.least && fabs(v) <= r.max_finite; };
  const double overflowed = isnan(x) ? x : copysign(r.overflow, x);
  if (r.mode == Rounder::kNearest) {
    y += r.zero;
    return is_value(y) ? y : overflowed;
  }
  if (fabs(y) > fabs(x)) y -= copysign(binade * r.spacing, x);
  y += r.zero;
  if (is_value(y)) return y;
  const double most = copysign(r.max_finite, x);
  return isfinite(x) && fabs(x) > r.max_finite && is_value(most) ? most : overflowed;
}

// The bits by which finite magnitudes are ordered; 0 for others.
__device__ inline unsigned long long peak_bits(double x) {
  const unsigned long long size = static_cast<unsigned long long>(__double_as_longlong(x)) & kSize;
  return size < kInfinityBits ? size : 0;
}

// The largest value so far at a point, of a thread and then of all.
class Peak {
 public:
  __device__ explicit Peak(const Point& point) : to_(point.peak) {}
  __device__ void see(double x) {
    if (to_ == nullptr) return;
    const unsigned long long size = peak_bits(x);
    most_ = size > most_ ? size : most_;
  }
  // By whole warps.
  __device__ void write() const {
    if (to_ == nullptr) return;
    unsigned long long most = most_;
    for (int lane = 16; lane > 0; lane /= 2) {
      const unsigned long long other = __shfl_xor_sync(~0u, most, lane);
      most = other > most ? other : most;
    }
    if (threadIdx.x % 32 == 0 && most > 0) atomicMax(to_, most);
  }

 private:
  unsigned long long* to_;
  unsigned long long most_ = 0;
};

__device__ inline double at(const Point& point, Peak& peak, double x) {
  peak.see(x);
  return rounded(point.rounder, x);
}

__device__ inline double apply(Unary function, double x, double factor) {
  switch (function) {
    case Unary::kCopy:
      return x;
    case Unary::kNeg:
      return -x;
    case Unary::kAbs:
      return fabs(x);
    case Unary::kSqrt:
      return sqrt(x);
    case Unary::kReciprocal:
      return 1.0 / x;
    case Unary::kExp:
      return exp(x);
    case Unary::kLog:
      return log(x);
    case Unary::kErf:
      return erf(x);
    case Unary::kTanh:
      return tanh(x);
    case Unary::kSigmoid: {
      if (x >= 0) return 1.0 / (1.0 + exp(-x));
      const double e = exp(x);
      return e / (1.0 + e);
    }
    case Unary::kRelu:
      return x < 0 ? 0.0 : x;
    case Unary::kGeluErf:
      return 0.5 * x * erfc(-x / 1.4142135623730951);
    case Unary::kGeluTanh: {
      const double inner = 0.79788456080286541 * (x + 0.044715 * x * x * x);
      return x / (1.0 + exp(-2.0 * inner));
    }
    case Unary::kSin:
      return sin(x);
    case Unary::kCos:
      return cos(x);
    case Unary::kScale:
      return factor * x;
  }
  return x;
}

__device__ inline double apply(Binary function, double a, double b) {
  switch (function) {
    case Binary::kAdd:
      return a + b;
    case Binary::kSub:
      return a - b;
    case Binary::kMul:
      return a * b;
    case Binary::kDiv:
      return a / b;
    case Binary::kPow:
      return b == 2 ? a * a : pow(a, b);
    case Binary::kMin:
      return a < b || isnan(a) ? a : b;
    case Binary::kMax:
      return a > b || isnan(a) ? a : b;
  }
  return a;
}

// Where element i of a layout lies in each of `kOperands` operands.
template <int kOperands>
struct Offsets {
  int64_t of[kOperands];
};
template <int kOperands>
__device__ Offsets<kOperands> offsets_of(const Layout& layout, int64_t i) {
  Offsets<kOperands> offsets = {};
  const auto add = [&](int d, int64_t place) {
    for (int n = 0; n < kOperands; ++n) offsets.of[n] += place * layout.strides[n][d];
  };
  if (layout.elems < (int64_t{1} << 31)) {
    auto rest = static_cast<uint32_t>(i);
    for (int d = layout.rank - 1; d > 0; --d) {
      const auto size = static_cast<uint32_t>(layout.sizes[d]);
      const uint32_t outer = rest / size;
      add(d, rest - outer * size);
      rest = outer;
    }
    add(0, rest);
    return offsets;
  }
  for (int d = layout.rank - 1; d > 0; --d) {
    add(d, i % layout.sizes[d]);
    i /= layout.sizes[d];
  }
  add(0, i);
  return offsets;
}

struct Add {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Largest {  // NaN does not count
  __device__ double operator()(double a, double b) const { return b > a ? b : a; }
};

// The values of all lanes of a warp combined; each gets the result.
template <class Combine>
__device__ double of_warp(double value, const Combine& combine) {
  for (int lane = 16; lane > 0; lane /= 2)
    value = combine(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}
__device__ inline double sum_of_warp(double value) { return of_warp(value, Add{}); }
__device__ inline double largest_of_warp(double value) { return of_warp(value, Largest{}); }

// The values of all threads of a block combined, in an order that does not change; every thread
// gets the result.
template <class Combine>
__device__ double of_block(double value, double identity, const Combine& combine) {
  __shared__ double warps[32];
  value = of_warp(value, combine);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
  __syncthreads();
  return of_warp(threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : identity, combine);
}
__device__ inline double sum_of_block(double value) { return of_block(value, 0.0, Add{}); }
__device__ inline double largest_of_block(double value) {
  return of_block(value, -kInfinity, Largest{});
}

inline unsigned blocks_for(int64_t count, int64_t most = 1 << 14) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

}  // namespace vernier::backend::cuda::fp64
