// Elementwise FP64 kernels, copies, noise and differences: see launch.h.
#include "backend/cuda/fp64/numbers.cuh"

namespace vernier::backend::cuda::fp64 {
namespace {

__device__ int64_t first_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ int64_t index_step() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__global__ void unary_kernel(Unary function, const double* x, double* y, int64_t count,
                             double factor, Point out) {
  Peak peak(out);
  for (int64_t i = first_index(); i < count; i += index_step())
    y[i] = at(out, peak, apply(function, x[i], factor));
  peak.write();
}

__global__ void binary_kernel(Binary function, Layout layout, const double* a, const double* b,
                              double* y, Point out) {
  Peak peak(out);
  for (int64_t i = first_index(); i < layout.elems; i += index_step()) {
    const auto at_i = offsets_of<2>(layout, i);
    y[i] = at(out, peak, apply(function, a[at_i.of[0]], b[at_i.of[1]]));
  }
  peak.write();
}

__global__ void where_kernel(Layout layout, const int64_t* condition, const double* a,
                             const double* b, double* y) {
  for (int64_t i = first_index(); i < layout.elems; i += index_step()) {
    const auto at_i = offsets_of<3>(layout, i);
    y[i] = condition[at_i.of[0]] != 0 ? a[at_i.of[1]] : b[at_i.of[2]];
  }
}

__global__ void strided_kernel(Layout layout, int64_t first, const double* x, double* y) {
  for (int64_t i = first_index(); i < layout.elems; i += index_step())
    y[i] = x[first + offsets_of<1>(layout, i).of[0]];
}

__global__ void take_kernel(const double* x, const int64_t* places, int64_t count, int64_t width,
                            double* y) {
  for (int64_t i = first_index(); i < count; i += index_step())
    y[i] = x[places[i / width] * width + i % width];
}

// State `state` of a generator after `steps` steps, by the matrices of 2^i steps over bits.
__device__ uint64_t jumped(uint64_t state, int64_t steps, const uint64_t* jumps) {
  for (int i = 0; steps != 0; ++i, steps >>= 1) {
    if ((steps & 1) == 0) continue;
    uint64_t next = 0;
    for (int bit = 0; bit < 64; ++bit) next ^= (state >> bit & 1) != 0 ? jumps[i * 64 + bit] : 0;
    state = next;
  }
  return state;
}

constexpr int kGenerators = 8, kDraws = 4, kWordsOfThread = 16;

__global__ void noise_kernel(const double* x, double* y, int64_t count, NoiseDraw draw,
                             const uint64_t* jumps) {
  const int64_t thread = first_index();
  const int generator = static_cast<int>(thread % kGenerators);
  const int64_t first = thread / kGenerators * kWordsOfThread;
  constexpr int64_t kOfWord = kGenerators * kDraws;
  if (first * kOfWord >= count) return;
  uint64_t word = jumped(draw.states[generator], first, jumps);
  for (int64_t w = first; w < first + kWordsOfThread; ++w) {
    word ^= word << 13;
    word ^= word >> 7;
    word ^= word << 17;
    for (int k = 0; k < kDraws; ++k) {
      const int64_t i = w * kOfWord + k * kGenerators + generator;
      if (i >= count) continue;
      const double value = static_cast<double>(word >> 16 * k & 0xffff) - 32767.5;
      const double v = x[i];
      const bool stays = draw.keeps_whole_numbers && fabs(v) <= 65536.0 && v == trunc(v);
      y[i] = stays ? v : __dmul_rn(v, __dadd_rn(1.0, __dmul_rn(value, draw.unit)));
    }
  }
}

__global__ void difference_kernel(const double* a, const double* b, int64_t count,
                                  double* partial) {
  double squares = 0, reference = 0, wrong = 0;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const double error = a[i] - b[i];
    if (isfinite(error)) {
      squares += error * error;
      reference += b[i] * b[i];
    } else if (!(a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))) {
      wrong += 1;
    }
  }
  squares = sum_of_block(squares);
  reference = sum_of_block(reference);
  wrong = sum_of_block(wrong);
  if (threadIdx.x != 0) return;
  partial[blockIdx.x * 3] = squares;
  partial[blockIdx.x * 3 + 1] = reference;
  partial[blockIdx.x * 3 + 2] = wrong;
}

__global__ void finish_kernel(Finish finish, double* y, int64_t count, int64_t cols) {
  Peak biased(finish.biased), activated(finish.activated), added(finish.added), out(finish.out);
  for (int64_t i = first_index(); i < count; i += index_step()) {
    double v = y[i];
    const int64_t row = i / cols, col = i % cols;
    if (finish.row_scale != nullptr)
      v *= finish.row_scale[row * finish.row_scale_step] *
           finish.col_scale[col * finish.col_scale_step];
    if (finish.bias != nullptr) v += finish.bias[col];
    v = at(finish.biased, biased, v);
    v = at(finish.activated, activated, apply(finish.activation, v, 1));
    if (finish.residual != nullptr) v += finish.residual[i];
    v = at(finish.added, added, v);
    y[i] = at(finish.out, out, v);
  }
  biased.write();
  activated.write();
  added.write();
  out.write();
}

__global__ void zeros_kernel(Zeros zeros, const double* x, double* y, int64_t count, int64_t cols,
                             Point out) {
  Peak peak(out);
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const double v = at(out, peak, x[i]);
    const int64_t place = i / cols * zeros.row_step + i % cols * zeros.col_step;
    y[i] = zeros.zeros == nullptr ? v : v - zeros.zeros[place];
  }
  peak.write();
}

__global__ void context_kernel(double* y, const double* divisors, int64_t queries, int64_t heads,
                               int64_t width, Point context, Point out) {
  Peak context_peak(context), out_peak(out);
  const int64_t count = queries * heads * width;
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t head = i / width % heads, query = i / width / heads;
    const double v = y[i] / divisors[head * queries + query];
    y[i] = at(out, out_peak, at(context, context_peak, v));
  }
  context_peak.write();
  out_peak.write();
}

}  // namespace

void unary(Unary function, const double* x, double* y, int64_t count, double factor,
           const Point& out, cudaStream_t stream) {
  unary_kernel<<<blocks_for(count), kThreads, 0, stream>>>(function, x, y, count, factor, out);
}

void binary(Binary function, const Layout& layout, const double* a, const double* b, double* y,
            const Point& out, cudaStream_t stream) {
  binary_kernel<<<blocks_for(layout.elems), kThreads, 0, stream>>>(function, layout, a, b, y, out);
}

void where(const Layout& layout, const int64_t* condition, const double* a, const double* b,
           double* y, cudaStream_t stream) {
  where_kernel<<<blocks_for(layout.elems), kThreads, 0, stream>>>(layout, condition, a, b, y);
}

void strided_copy(const Layout& layout, int64_t first, const double* x, double* y,
                  cudaStream_t stream) {
  strided_kernel<<<blocks_for(layout.elems), kThreads, 0, stream>>>(layout, first, x, y);
}

void take_rows(const double* x, const int64_t* places, int64_t rows, int64_t width, double* y,
               cudaStream_t stream) {
  const int64_t count = rows * width;
  take_kernel<<<blocks_for(count), kThreads, 0, stream>>>(x, places, count, width, y);
}

void noise(const double* x, double* y, int64_t count, const NoiseDraw& draw, const uint64_t* jumps,
           cudaStream_t stream) {
  constexpr int64_t kOfThread = kDraws * kWordsOfThread;
  const int64_t words = (count + kGenerators * kOfThread - 1) / (kGenerators * kOfThread);
  noise_kernel<<<blocks_for(words * kGenerators, int64_t{1} << 30), kThreads, 0, stream>>>(
      x, y, count, draw, jumps);
}

void difference(const double* a, const double* b, int64_t count, double* partial,
                cudaStream_t stream) {
  difference_kernel<<<kDifferenceBlocks, kThreads, 0, stream>>>(a, b, count, partial);
}

void subtract_zeros(const Zeros& zeros, const double* x, double* y, int64_t rows, int64_t cols,
                    const Point& out, cudaStream_t stream) {
  const int64_t count = rows * cols;
  zeros_kernel<<<blocks_for(count), kThreads, 0, stream>>>(zeros, x, y, count, cols, out);
}

void finish_product(const Finish& finish, double* y, int64_t rows, int64_t cols,
                    cudaStream_t stream) {
  const int64_t count = rows * cols;
  finish_kernel<<<blocks_for(count), kThreads, 0, stream>>>(finish, y, count, cols);
}

void finish_context(double* y, const double* divisors, int64_t queries, int64_t heads,
                    int64_t width, const Point& context, const Point& out, cudaStream_t stream) {
  const int64_t count = queries * heads * width;
  context_kernel<<<blocks_for(count), kThreads, 0, stream>>>(y, divisors, queries, heads, width,
                                                             context, out);
}

}  // namespace vernier::backend::cuda::fp64
