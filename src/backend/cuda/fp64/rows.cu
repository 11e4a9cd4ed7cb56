// FP64 kernels with a block for each row: norms, softmax, sums, rows of attention. See launch.h.
#include "backend/cuda/fp64/numbers.cuh"

namespace vernier::backend::cuda::fp64 {
namespace {

__global__ void norm_kernel(Norm norm, double* y, int64_t cols) {
  double* row = y + static_cast<int64_t>(blockIdx.x) * cols;
  Peak x_peak(norm.x), mean_peak(norm.mean_point), var_peak(norm.var),
      normalized_peak(norm.normalized), out_peak(norm.out);
  const auto count = static_cast<double>(cols);
  double sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    const double v = row[j] = at(norm.x, x_peak, row[j]);
    sum += v;
  }
  double mean = 0;
  if (!norm.rms) {
    mean = sum_of_block(sum) / count;
    if (threadIdx.x == 0) mean_peak.see(mean);
    mean = rounded(norm.mean_point.rounder, mean);
  }
  double squares = 0;
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    const double v = row[j] = norm.rms ? row[j] : rounded(norm.inner, row[j] - mean);
    squares += rounded(norm.inner, v * v);
  }
  double var = sum_of_block(squares) / count;
  if (threadIdx.x == 0) var_peak.see(var);
  var = rounded(norm.var.rounder, var);
  const double inv_std = rounded(norm.inner, 1.0 / sqrt(rounded(norm.inner, var + norm.epsilon)));
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    double v = at(norm.normalized, normalized_peak, rounded(norm.inner, row[j] * inv_std));
    if (norm.scale != nullptr) {
      v = rounded(norm.inner, v * norm.scale[j]);
      if (norm.bias != nullptr) v += norm.bias[j];
      v = at(norm.out, out_peak, v);
    }
    row[j] = v;
  }
  if (threadIdx.x == 0 && norm.mean != nullptr) norm.mean[blockIdx.x] = mean;
  if (threadIdx.x == 0 && norm.inv_std != nullptr) norm.inv_std[blockIdx.x] = inv_std;
  x_peak.write();
  mean_peak.write();
  var_peak.write();
  normalized_peak.write();
  out_peak.write();
}

constexpr int kWarps = kThreads / 32;

__device__ int64_t warp_index() {
  return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}

// A warp for each line.
__global__ void softmax_kernel(Lines lines, const double* x, double* y, Rounder inner, Point out) {
  const int64_t line = warp_index();
  if (line >= lines.outer * lines.inner) return;
  const int64_t start = line / lines.inner * lines.size * lines.inner + line % lines.inner;
  const auto place = [&](int64_t k) { return start + k * lines.inner; };
  const int lane = threadIdx.x % 32;
  double top = -kInfinity;
  for (int64_t k = lane; k < lines.size; k += 32) top = Largest{}(top, rounded(inner, x[place(k)]));
  top = largest_of_warp(top);
  double sum = 0;
  for (int64_t k = lane; k < lines.size; k += 32) {
    const double v = rounded(inner, rounded(inner, x[place(k)]) - top);
    sum += y[place(k)] = rounded(inner, exp(v));
  }
  sum = sum_of_warp(sum);
  Peak peak(out);
  for (int64_t k = lane; k < lines.size; k += 32) y[place(k)] = at(out, peak, y[place(k)] / sum);
  peak.write();
}

__global__ void sum_kernel(const double* x, double* y, int64_t cols, double divisor, Rounder inner,
                           Point out) {
  const double* row = x + static_cast<int64_t>(blockIdx.x) * cols;
  double sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) sum += rounded(inner, row[j]);
  sum = sum_of_block(sum) / divisor;
  Peak peak(out);
  if (threadIdx.x == 0) y[blockIdx.x] = at(out, peak, sum);
  peak.write();
}

__global__ void quantize_kernel(QuantizeRows how, const double* x, double* y, int64_t cols) {
  const double* from = x + static_cast<int64_t>(blockIdx.x) * cols;
  double* to = y + static_cast<int64_t>(blockIdx.x) * cols;
  const auto value = [&](int64_t i) {
    return how.factor == nullptr ? from[i] : from[i] * how.factor[i];
  };
  double scale = 0, zero = 0;
  if (how.scale != nullptr) {
    scale = *how.scale;
    zero = how.is_f8 ? 0 : *how.zero;
  } else {
    double low = 0, high = 0, sum = 0;
    for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
      const double v = value(i);
      low = Largest{}(low, -v);
      high = Largest{}(high, v);
      sum += v - v;  // NaN where one of them is not finite
    }
    low = -largest_of_block(low);
    high = largest_of_block(high);
    sum = sum_of_block(sum);
    constexpr double kSteps = 254;
    scale = (how.is_f8 ? fmax(high, -low) / how.largest : (high - low) / kSteps) + sum;
    zero = scale == 0 || how.is_f8 ? 0 : -(high + low) / 2 / scale;
  }
  const bool is_zero = how.scale == nullptr && scale == 0;
  Peak peak(how.out);
  for (int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const double v = value(i) / scale + zero;
    double q = 0;
    if (!is_zero) {
      q = at(how.out, peak, v);
      if (how.is_f8 && isnan(q) && !isnan(v)) q = copysign(how.largest, v);
    }
    to[i] = q;
  }
  peak.write();
  if (threadIdx.x == 0 && how.scales != nullptr) how.scales[blockIdx.x] = scale;
  if (threadIdx.x == 0 && how.zeros != nullptr) how.zeros[blockIdx.x] = zero;
}

// Blocks of keys whose largest scores a warp keeps.
__host__ __device__ int64_t blocks_of(const AttentionRows& rows) {
  return rows.block > 0 ? (rows.keys + rows.block - 1) / rows.block : 0;
}

// One row of scores, of a warp.
class Row {
 public:
  __device__ Row(const AttentionRows& rows, double* scores, int64_t row)
      : rows_(rows),
        head_(row / rows.queries),
        query_(row % rows.queries),
        row_(scores + row * rows.keys) {}

  // Scales, biases, rounds and masks. Returns whether all probabilities are to be 0.
  __device__ bool finish() {
    Peak peak(rows_.scores);
    const bool keeps_query = rows_.keep_queries == nullptr ||
                             rows_.keep_queries[head_ * rows_.keep_query_strides[0] +
                                                query_ * rows_.keep_query_strides[1]] != 0;
    const int64_t last_seen = query_ + rows_.keys - rows_.queries;
    double seen = 0, kept = 0;  // keys that bias and masks, and that keep, do not hide
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32) {
      const double bias =
          rows_.bias == nullptr
              ? 0
              : rows_.bias[head_ * rows_.bias_strides[0] + query_ * rows_.bias_strides[1] +
                           j * rows_.bias_strides[2]];
      double score = row_[j] * rows_.scale;
      if (rows_.bias != nullptr) score += bias;
      score = at(rows_.scores, peak, score);
      const bool keep_hides =
          !keeps_query ||
          (rows_.keep != nullptr &&
           rows_.keep[head_ * rows_.keep_strides[0] + query_ * rows_.keep_strides[1] +
                      j * rows_.keep_strides[2]] == 0);
      const bool masked = (rows_.causal && j > last_seen) || keep_hides;
      if (masked) score = rows_.masks_add ? score - kInfinity : rows_.fill;
      if ((masked ? bias - kInfinity : bias) != -kInfinity) seen = 1;
      if (!keep_hides) kept = 1;
      row_[j] = score;
    }
    peak.write();
    if (rows_.zero_hidden_rows && largest_of_warp(kept) == 0) return true;
    return rows_.masks_add && largest_of_warp(seen) == 0;
  }

  // Probabilities; returns the divisor of P·V.
  __device__ double exponentiate(double* tops) {
    double top = -kInfinity;
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32) top = Largest{}(top, row_[j]);
    top = largest_of_warp(top);
    Peak peak(rows_.probs);
    double divisor = 1;
    if (rows_.form == AttentionRows::kUnnormalized && rows_.block > 0 && top > -kInfinity)
      divisor = in_blocks(top, tops, peak);
    else
      divisor = at_once(top, peak);
    peak.write();
    return divisor;
  }
  __device__ void clear() {
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32) row_[j] = 0;
  }

 private:
  __device__ double at_once(double top, Peak& peak) {
    double sum = 0;
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32) {
      double v = exp(row_[j] - top);
      const double exact = v;
      if (rows_.form != AttentionRows::kNormalized) v = at(rows_.probs, peak, v);
      sum += rows_.form == AttentionRows::kUnnormalizedRoundedSum ? v : exact;
      row_[j] = v;
    }
    sum = sum_of_warp(sum);
    if (rows_.zero_nan_rows && isnan(sum)) {
      clear();
      return 1;
    }
    if (rows_.form != AttentionRows::kNormalized) return sum;
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32)
      row_[j] = at(rows_.probs, peak, row_[j] / sum);
    return 1;
  }
  // Against the largest score up to the end of each block of keys, then rescaled to the final one.
  __device__ double in_blocks(double top, double* tops, Peak& peak) {
    const int64_t block = rows_.block, blocks = blocks_of(rows_);
    for (int64_t b = threadIdx.x % 32; b < blocks; b += 32) {
      double largest = -kInfinity;
      for (int64_t j = b * block; j < rows_.keys && j < (b + 1) * block; ++j)
        largest = Largest{}(largest, row_[j]);
      tops[b] = largest;
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      for (int64_t b = 1; b < blocks; ++b) tops[b] = Largest{}(tops[b - 1], tops[b]);
    }
    __syncwarp();
    double sum = 0;
    for (int64_t j = threadIdx.x % 32; j < rows_.keys; j += 32) {
      const double so_far = tops[j / block];
      const double base = so_far == -kInfinity ? 0 : so_far;
      const double to_final = so_far == -kInfinity ? 1 : exp(base - top);
      sum += exp(row_[j] - top);
      row_[j] = at(rows_.probs, peak, exp(row_[j] - base)) * to_final;
    }
    sum = sum_of_warp(sum);
    if (!rows_.zero_nan_rows || !isnan(sum)) return sum;
    clear();
    return 1;
  }

  const AttentionRows& rows_;
  int64_t head_, query_;
  double* row_;
};

__global__ void attention_kernel(AttentionRows rows, double* scores, double* divisors) {
  extern __shared__ double tops[];  // of blocks of keys, for each warp
  const int64_t at = warp_index();
  if (at >= rows.heads * rows.queries) return;
  Row row(rows, scores, at);
  const bool all_hidden = row.finish();
  double divisor = row.exponentiate(tops + threadIdx.x / 32 * blocks_of(rows));
  if (all_hidden) {
    row.clear();
    divisor = 1;
  }
  if (threadIdx.x % 32 == 0) divisors[at] = divisor;
}

unsigned blocks_of_warps(int64_t rows) {
  return static_cast<unsigned>((rows + kWarps - 1) / kWarps);
}

}  // namespace

void normalize_rows(const Norm& norm, double* y, int64_t rows, int64_t cols, cudaStream_t stream) {
  norm_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(norm, y, cols);
}

void quantize_rows(const QuantizeRows& how, const double* x, double* y, int64_t rows, int64_t cols,
                   cudaStream_t stream) {
  quantize_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(how, x, y, cols);
}

void softmax(const Lines& lines, const double* x, double* y, const Rounder& inner, const Point& out,
             cudaStream_t stream) {
  softmax_kernel<<<blocks_of_warps(lines.outer * lines.inner), kThreads, 0, stream>>>(lines, x, y,
                                                                                      inner, out);
}

void sum_rows(const double* x, double* y, int64_t rows, int64_t cols, double divisor,
              const Rounder& inner, const Point& out, cudaStream_t stream) {
  sum_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, y, cols, divisor, inner, out);
}

void attention_rows(const AttentionRows& rows, double* scores, double* divisors,
                    cudaStream_t stream) {
  const size_t shared = static_cast<size_t>(kWarps * blocks_of(rows)) * sizeof(double);
  attention_kernel<<<blocks_of_warps(rows.heads * rows.queries), kThreads, shared, stream>>>(
      rows, scores, divisors);
}

}  // namespace vernier::backend::cuda::fp64
