// Times the f32 matrix product (src/backend/cuda/kernels/linear/linear_f32.h) in each tile shape,
// beside the best of cuBLASLt's candidates, which may split K, in the same run.
//   build/cuda/bench/bench_linear_f32 [--rest MS] [ROWS…]
// ROWS: these numbers of rows only. Medians of graphs of launches, ours in its fastest tile shape
// and cuBLASLt in turns; weights rotate through more than the second-level cache where M <= 128.
// What the product computes is checked by tests/backend; `test_backend_cuda --time` times the rows
// of kernels.def. C++17.
#include "backend/cuda/kernels/linear/linear_f32.h"
#include "products.h"

namespace {
using vernier::DType;

struct Case {
  int64_t m;
  int n, k;
};

__global__ void pack_kernel(const float* w, float* packed, int n, int k) {
  const int64_t steps = (k + kPanelSteps - 1) / kPanelSteps * kPanelSteps;
  const int64_t count = (n + kPanelCols - 1) / kPanelCols * kPanelCols * steps;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t col = i / (steps * kPanelCols) * kPanelCols + i % kPanelCols;
    const int64_t row = i / kPanelCols % steps;
    packed[i] = row < k && col < n ? w[row * n + col] : 0.0f;
  }
}
size_t packed_bytes(int n, int k) {
  return static_cast<size_t>(panels_of(n) * kPanelCols * padded_k(k)) * 4;
}

struct Problem {
  Case c;
  Buffer x, w, packed, bias, y;
  explicit Problem(const Case& c)
      : c(c),
        x(static_cast<size_t>(c.m * c.k) * 4),
        w(static_cast<size_t>(c.n) * c.k * 4),
        packed(packed_bytes(c.n, c.k)),
        bias(static_cast<size_t>(c.n) * 4),
        y(static_cast<size_t>(c.m * c.n) * 4) {
    fill(x, c.m * c.k, GemmType::kF32, 1, 1);
    fill(w, int64_t{c.n} * c.k, GemmType::kF32, 1 / std::sqrt(static_cast<float>(c.k)), 2);
    fill(bias, c.n, GemmType::kF32, 1, 3);
    pack_kernel<<<1024, 256>>>(static_cast<const float*>(w.data()),
                               static_cast<float*>(packed.data()), c.n, c.k);
    require(cudaGetLastError(), "pack");
  }
  LinearF32 call() const {
    return {static_cast<const float*>(x.data()),
            static_cast<const float*>(packed.data()),
            bias.data(),
            nullptr,
            y.data(),
            c.m,
            c.n,
            c.k,
            DType::kF32,
            DType::kF32,
            DType::kF32,
            0,
            processors()};
  }
};

void time_one(const Library& library, int64_t m, int k, int n) {
  Problem p({m, n, k});
  const int copies = m <= 128 ? std::max<int>(2, (160 << 20) / (n * k * 4)) : 1;
  std::vector<Buffer*> ws;
  for (int i = 0; i < copies; ++i) {
    ws.push_back(new Buffer(p.packed.bytes));
    fill(*ws.back(), static_cast<int64_t>(p.packed.bytes / 4), GemmType::kF32,
         1 / std::sqrt(static_cast<float>(k)), 10 + i);
  }
  const double flops = 2.0 * m * n * k;
  const int count = std::clamp(static_cast<int>(2000 / (3 + flops / 5e7)), 2, 100);
  const auto ours = [&](int variant, int activation) {
    return [&, variant, activation](cudaStream_t stream, int i) {
      LinearF32 call = p.call();
      call.w = static_cast<const float*>(ws[i % copies]->data());
      call.activation = activation;
      require(launch_linear_f32(call, variant, stream), "launch");
    };
  };
  const auto theirs = [&](const Library::Plan& plan, size_t algorithm) {
    return [&, algorithm](cudaStream_t stream, int i) {
      library.run(plan, algorithm, ws[i % copies]->data(), p.x.data(), p.y.data(), stream);
    };
  };
  const Library::Best best = library.best({m, n, k}, GemmType::kF32, p.bias.data(), count, theirs);
  constexpr int kLeastForManyRows = 5;  // smaller tiles are far behind there
  int variant = -1;
  double least = 1e30;
  std::string line;
  for (int v = m >= 4096 ? kLeastForManyRows : 0; v < linear_f32_variants(); ++v) {
    const double us = time_us(ours(v, 1), count, 2);
    char cell[64];
    std::snprintf(cell, sizeof cell, " %s:%.1f", linear_f32_name(v), us);
    if (us < least * 1.5) line += cell;
    if (us < least) least = us, variant = v;
  }
  std::vector<double> a, b, g;
  for (int round = 0; round < 5; ++round) {
    a.push_back(time_us(theirs(best.plan, best.algorithm), count, 1));
    b.push_back(time_us(ours(variant, 0), count, 1));
    g.push_back(time_us(ours(variant, 1), count, 1));
  }
  for (auto* v : {&a, &b, &g}) std::sort(v->begin(), v->end());
  for (Buffer* w : ws) delete w;
  std::printf("%6lld %4d->%4d %8.2f%s %8.2f %8.2f  %.3f %.3f  %5.1f %5.1f TF  %-8s | %s:%s\n",
              static_cast<long long>(m), k, n, a[2], best.splits_k() ? "s" : " ", b[2], g[2],
              a[2] / b[2], a[2] / g[2], 1e-6 * flops / a[2], 1e-6 * flops / b[2],
              linear_f32_name(variant), linear_f32_name(linear_f32_choice(m, n, k, processors())),
              line.c_str());
}

void time_all(const std::vector<int64_t>& rows) {
  const Library library(F32Products::kF32);
  const int shapes[9][2] = {{768, 2304},  {768, 768},   {768, 3072},  {3072, 768}, {1024, 3072},
                            {1024, 1024}, {1024, 4096}, {4096, 1024}, {4096, 4096}};
  std::printf(
      "f32, us: cuBLASLt, best of 16 (s: splits K) | ours with bias | with bias and erf GELU | "
      "cuBLASLt/ours, /GELU | TFLOP/s cuBLASLt, ours | tile | choice untuned: tiles with GELU\n");
  for (int64_t m : rows)
    for (const auto& s : shapes) time_one(library, m, s[0], s[1]);
}

}  // namespace

int main(int argc, char** argv) {
  take_rest(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) rows.push_back(rows_of(argv[i]));
  if (rows.empty()) rows = {16384, 4096, 512, 128, 32, 1};
  require(prepare_linear_f32(), "preparing the kernels");
  time_all(rows);
  return 0;
}
