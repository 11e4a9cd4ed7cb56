// Checks and times the f32 matrix product (src/backend/cuda/kernels/linear/linear_f32.h) against
// chains of fused multiply-adds on the host and against cuBLASLt in the same run.
//   build/cuda/bench/bench_linear_f32 [check|time|all] [M]      M: times for this many rows only
// Check: sampled elements must have the chain's bits, in every tile shape; ragged sizes, addresses
// without alignment, 16-bit arrays, poisoned outputs, guard bytes, NaN; rows at every M.
// Time: medians of graphs of launches, ours in its fastest tile shape and the best of cuBLASLt's
// candidates in turns; weights rotate through more than the second-level cache where M <= 128.
// C++17.
#include "backend/cuda/kernels/linear/linear_f32.h"
#include "products.h"

namespace {
using vernier::DType;

struct Case {
  int64_t m;
  int n, k;
  bool bias = false, residual = false;
  int activation = 0;
  GemmType bias_type = GemmType::kF32, residual_type = GemmType::kF32, y_type = GemmType::kF32;
  int shift = 0;  // elements by which x, the residual and y are off their alignment
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
DType dtype_of(GemmType t) {
  return t == GemmType::kF32 ? DType::kF32 : t == GemmType::kF16 ? DType::kF16 : DType::kBF16;
}

struct Problem {
  Case c;
  Buffer x, w, packed, bias, residual, y;
  explicit Problem(const Case& c)
      : c(c),
        x(static_cast<size_t>(c.m * c.k + c.shift) * 4),
        w(static_cast<size_t>(c.n) * c.k * 4),
        packed(packed_bytes(c.n, c.k)),
        bias(static_cast<size_t>(c.n) * bytes_of(c.bias_type)),
        residual(static_cast<size_t>(c.residual ? c.m * c.n + c.shift : 4) *
                 bytes_of(c.residual_type)),
        y(static_cast<size_t>(c.m * c.n + c.shift) * bytes_of(c.y_type)) {
    fill(x, c.m * c.k + c.shift, GemmType::kF32, 1, 1);
    fill(w, int64_t{c.n} * c.k, GemmType::kF32, 1 / std::sqrt(static_cast<float>(c.k)), 2);
    fill(bias, c.n, c.bias_type, 1, 3);
    if (c.residual) fill(residual, c.m * c.n + c.shift, c.residual_type, 1, 4);
    pack();
  }
  void pack() const {
    pack_kernel<<<1024, 256>>>(static_cast<const float*>(w.data()),
                               static_cast<float*>(packed.data()), c.n, c.k);
    require(cudaGetLastError(), "pack");
  }
  void* at(const Buffer& buffer, GemmType type) const {
    return static_cast<char*>(buffer.data()) + static_cast<size_t>(c.shift) * bytes_of(type);
  }
  LinearF32 call() const {
    return {static_cast<const float*>(at(x, GemmType::kF32)),
            static_cast<const float*>(packed.data()),
            c.bias ? bias.data() : nullptr,
            c.residual ? at(residual, c.residual_type) : nullptr,
            at(y, c.y_type),
            c.m,
            c.n,
            c.k,
            dtype_of(c.bias_type),
            dtype_of(c.residual_type),
            dtype_of(c.y_type),
            c.activation,
            processors()};
  }
  void run(int variant) {
    y.poison();
    require(launch_linear_f32(call(), variant, nullptr), "launch");
    require(cudaDeviceSynchronize(), linear_f32_name(variant));
  }
};

int failures = 0;
void report(bool ok, const std::string& what) {
  if (ok) return;
  if (++failures < 40) std::printf("WRONG: %s\n", what.c_str());
}
std::string text(const Case& c, int variant) {
  return std::string(linear_f32_name(variant)) + " M=" + std::to_string(c.m) +
         " N=" + std::to_string(c.n) + " K=" + std::to_string(c.k) + "->" + name_of(c.y_type) +
         (c.bias ? " bias" : "") + (c.residual ? " residual" : "") + " act " +
         std::to_string(c.activation) + " shift " + std::to_string(c.shift);
}

// `samples` elements (all where there are fewer): the bits of the chain where nothing but sums
// happens, else within 3e-7·max(|x|, 1) and half an ulp of y.
void check_values(const Case& c, int samples) {
  Problem p(c);
  const auto x = fetch(p.x.data(), p.x.bytes), w = fetch(p.w.data(), p.w.bytes);
  const auto bias = fetch(p.bias.data(), p.bias.bytes),
             residual = fetch(p.residual.data(), p.residual.bytes);
  const float* xs = reinterpret_cast<const float*>(x.data()) + c.shift;
  const float* ws = reinterpret_cast<const float*>(w.data());
  std::mt19937_64 random(seed());
  const int64_t count = c.m * c.n;
  std::vector<int64_t> at;
  for (int64_t i = 0; i < std::min<int64_t>(samples, count); ++i)
    at.push_back(count <= samples ? i : static_cast<int64_t>(random() % count));
  std::vector<double> expected, limit;
  for (int64_t i : at) {
    float sum = 0;
    for (int k = 0; k < c.k; ++k)
      sum = std::fmaf(xs[i / c.n * c.k + k], ws[i % c.n + int64_t{c.n} * k], sum);
    if (c.bias) sum += static_cast<float>(widen(bias, c.bias_type, i % c.n));
    const double half_ulp = c.y_type == GemmType::kF32   ? 0x1p-24
                            : c.y_type == GemmType::kF16 ? 0x1p-11
                                                         : 0x1p-8;
    if (c.activation == 0) {
      if (c.residual) sum += static_cast<float>(widen(residual, c.residual_type, i + c.shift));
      expected.push_back(sum);
      limit.push_back(c.y_type == GemmType::kF32 ? 0 : half_ulp * std::abs(sum) * 1.01 + 6e-8);
      continue;
    }
    double y = activation_of(c.activation, sum);
    limit.push_back(3e-7 * std::max(std::abs(static_cast<double>(sum)), 1.0));
    if (c.residual) y += widen(residual, c.residual_type, i + c.shift);
    limit.back() += 1.01 * half_ulp * std::abs(y);
    expected.push_back(y);
  }
  for (int v = 0; v < linear_f32_variants(); ++v) {
    p.run(v);
    const auto y = fetch(p.y.data(), p.y.bytes);
    int wrong = 0;
    for (size_t s = 0; s < at.size(); ++s)
      wrong += !(std::abs(widen(y, c.y_type, at[s] + c.shift) - expected[s]) <= limit[s]);
    report(wrong == 0, text(c, v) + ": " + std::to_string(wrong) + " of " +
                           std::to_string(at.size()) + " beyond the limit");
    bool written = true;
    for (int64_t i = 0; i < count; ++i)
      written = written && !std::isnan(widen(y, c.y_type, i + c.shift));
    for (int64_t i = 0; i < c.shift; ++i) written = written && std::isnan(widen(y, c.y_type, i));
    report(written, text(c, v) + ": an element was not written, or one before y was");
    report(p.y.guards_whole(), text(c, v) + ": wrote outside y");
  }
}

void check_bits(int n, int k) {
  constexpr int64_t kRows = 4096;
  Case c{kRows, n, k};
  Problem all(c);
  all.run(linear_f32_variants() - 1);
  const Buffer reference(all.y.bytes);
  require(cudaMemcpy(reference.data(), all.y.data(), all.y.bytes, cudaMemcpyDeviceToDevice),
          "copy");
  for (int64_t m : {int64_t{1}, int64_t{13}, int64_t{128}, int64_t{512}, kRows}) {
    for (int v = 0; v < linear_f32_variants(); ++v) {
      for (int64_t first : {int64_t{0}, kRows - m}) {
        LinearF32 call = all.call();
        call.m = m;
        call.x += first * k;
        all.y.poison();
        require(launch_linear_f32(call, v, nullptr), "launch");
        const auto differ = different_words(
            all.y.data(), static_cast<const char*>(reference.data()) + first * n * 4,
            static_cast<size_t>(m * n) * 4);
        report(differ == 0, std::string("bits of ") + linear_f32_name(v) +
                                " M=" + std::to_string(m) + " N=" + std::to_string(n) + " K=" +
                                std::to_string(k) + ": " + std::to_string(differ) + " differ");
      }
    }
  }
}

// NaN in x reaches its row and no other, NaN in w its column, large numbers stay numbers.
void check_special() {
  for (int activation : {0, 1, 2, 3, 4}) {
    Case c{130, 250, 200};
    c.activation = activation, c.bias = true;
    Problem p(c);
    const float nan = std::numeric_limits<float>::quiet_NaN(), large = 0x1p120f;
    const auto put = [](const Buffer& buffer, int64_t at, float value) {
      cudaMemcpy(static_cast<float*>(buffer.data()) + at, &value, 4, cudaMemcpyHostToDevice);
    };
    put(p.x, 3 * 200, nan), put(p.x, 129 * 200 + 199, nan), put(p.x, 64 * 200 + 7, large);
    put(p.w, 199 * 250 + 249, nan);
    p.pack();
    for (int v = 0; v < linear_f32_variants(); ++v) {
      p.run(v);
      const auto y = fetch(p.y.data(), p.y.bytes);
      bool right = true;
      for (int64_t i = 0; i < c.m * c.n; ++i) {
        const int64_t row = i / c.n;
        right = right &&
                std::isnan(widen(y, c.y_type, i)) == (row == 3 || row == 129 || i % c.n == 249);
      }
      report(right, text(c, v) + ": NaN went astray or was lost");
    }
  }
}

// In a graph behind a copy of x, launches overlapped.
void check_graph() {
  Problem p(Case{64, 256, 128});
  p.run(0);
  const auto expected = fetch(p.y.data(), p.y.bytes);
  const Buffer source(p.x.bytes);
  require(cudaMemcpy(source.data(), p.x.data(), p.x.bytes, cudaMemcpyDeviceToDevice), "copy");
  p.x.poison(), p.y.poison();
  require(cudaDeviceSynchronize(), "poison");  // the graph's stream does not wait for it
  const double us = time_us(
      [&](cudaStream_t stream, int i) {
        require(
            cudaMemcpyAsync(p.x.data(), source.data(), p.x.bytes, cudaMemcpyDeviceToDevice, stream),
            "captured copy");
        require(launch_linear_f32(p.call(), i % linear_f32_variants(), stream), "launch");
      },
      2 * linear_f32_variants(), 1);
  report(us > 0 && fetch(p.y.data(), p.y.bytes) == expected,
         "a graph with a copy gives other bits");
}

int check() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  for (int64_t m : {1, 7, 63, 129, 1000}) {
    check_values({m, 200, 136}, 1 << 20);
    check_values({m, 1024, 768, true, true, 1}, 4000);
  }
  check_values({300, 1, 1}, 1 << 20);
  check_values({300, 8, 33, true}, 1 << 20);
  check_values({70, 17, 65, true, true, 0}, 1 << 20);
  for (int shift : {0, 1, 3}) {
    const GemmType f32 = GemmType::kF32, f16 = GemmType::kF16, bf16 = GemmType::kBF16;
    check_values({131, 390, 130, true, true, 2, f32, f32, f32, shift}, 4000);
    check_values({131, 392, 64, true, true, 3, f16, bf16, bf16, shift}, 4000);
    check_values({131, 391, 64, true, false, 4, bf16, f32, f16, shift}, 4000);
    check_values({131, 256, 96, false, true, 0, f32, f32, f32, shift}, 4000);
  }
  check_values({4096, 4096, 1024, true, false, 1}, 2000);
  check_values({5000, 1024, 4096, true, true, 0}, 1000);
  check_bits(1024, 4096);
  check_bits(768, 768);
  check_bits(1000, 200);
  check_special();
  check_graph();
  std::printf("check: %d wrong\n", failures);
  return failures;
}

// ---- timing ------------------------------------------------------------------------------------

void time_one(const Library& library, int64_t m, int k, int n) {
  Case c{m, n, k};
  c.bias = true;
  Problem p(c);
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

void time_all(int64_t only) {
  const Library library(F32Products::kF32);
  const int shapes[9][2] = {{768, 2304},  {768, 768},   {768, 3072},  {3072, 768}, {1024, 3072},
                            {1024, 1024}, {1024, 4096}, {4096, 1024}, {4096, 4096}};
  std::printf(
      "f32, us: cuBLASLt, best of 16 (s: splits K) | ours with bias | with bias and erf GELU | "
      "cuBLASLt/ours, /GELU | TFLOP/s cuBLASLt, ours | tile | choice untuned: tiles with GELU\n");
  for (int64_t m : {16384, 4096, 512, 128, 32, 1})
    for (const auto& s : shapes)
      if (only == 0 || only == m) time_one(library, m, s[0], s[1]);
}

}  // namespace

int main(int argc, char** argv) {
  take_rest(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "all";
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  require(prepare_linear_f32(), "preparing the kernels");
  const int wrong = what == "time" ? 0 : check();
  if (what != "check") time_all(argc > 2 ? std::atoll(argv[2]) : 0);
  return wrong ? 1 : 0;
}
