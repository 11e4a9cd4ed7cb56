// Times Linear with LayerNorm (src/backend/cuda/kernels/linear/linear_norm_sm90.h): its one kernel
// beside a product with the norm behind it, beside Linear and AddLayerNorm as two steps, and as
// whole waves of rows in the one kernel. The constants of linear_sm90.cpp are fitted to these
// times.
//   build/cuda/bench/bench_linear_norm [--rest MS] [ROWS…]
// Medians of graphs of launches, in turns; --rest: milliseconds of rest before each graph, so that
// the chip is below its power limit. What the kernels compute is checked by tests/backend;
// `test_backend_cuda --time` times the rows of kernels.def. C++17.
#include "backend/cuda/kernels/linear/linear_norm_sm90.h"
#include "backend/cuda/kernels/norm/norm_packed.h"
#include "products.h"

namespace {
using namespace vernier::backend::cuda;
using vernier::DType;

struct Case {
  int64_t m;
  int n, k;
  GemmType type = GemmType::kF16;
  bool bias = true, shift = true;
};
constexpr float kEpsilon = 1e-5f;

struct Problem {
  Case c;
  Buffer x, w, bias, residual, scale, shift, y;
  explicit Problem(const Case& c)
      : c(c),
        x(static_cast<size_t>(c.m * c.k) * 2),
        w(static_cast<size_t>(c.n) * c.k * 2),
        bias(static_cast<size_t>(c.n) * 4),
        residual(static_cast<size_t>(c.m * c.n) * 2),
        scale(static_cast<size_t>(c.n) * 4),
        shift(static_cast<size_t>(c.n) * 4),
        y(static_cast<size_t>(c.m * c.n) * 2) {
    fill(x, c.m * c.k, c.type, 1, 1);
    fill(w, int64_t{c.n} * c.k, c.type, 1 / std::sqrt(static_cast<float>(c.k)), 2);
    fill(bias, c.n, GemmType::kF32, 1, 3);
    fill(residual, c.m * c.n, c.type, 1, 4);
    fill(scale, c.n, GemmType::kF32, 1, 5);
    fill(shift, c.n, GemmType::kF32, 1, 6);
  }
  LinearNormSm90 call() const {
    LinearNormSm90 made{};
    made.product = {x.data(),
                    w.data(),
                    c.bias ? bias.data() : nullptr,
                    residual.data(),
                    y.data(),
                    c.m,
                    c.n,
                    c.k,
                    c.type,
                    GemmType::kF32,
                    c.type,
                    c.type,
                    0,
                    processors(),
                    true};
    made.scale = static_cast<const float*>(scale.data());
    made.shift = c.shift ? static_cast<const float*>(shift.data()) : nullptr;
    made.epsilon = kEpsilon;
    made.wave = linear_norm_sm90_wave(c.n, processors());
    return made;
  }
};
void launch_apart(const LinearNormSm90& call, int variant, cudaStream_t stream) {
  GemmSm90 product = call.product;
  product.residual = nullptr;
  require(launch_gemm_sm90(product, variant, stream), "product");
  require(launch_linear_norm_rows(call, stream), "norm");
}

void time_one(int64_t m, int k, int n) {
  Problem p({m, n, k});
  const Buffer between(p.y.bytes);
  const int copies = m <= 128 ? std::max(2, (160 << 20) / (n * k * 2)) : 1;
  std::vector<Buffer*> ws;
  for (int i = 0; i < copies; ++i) {
    ws.push_back(new Buffer(p.w.bytes));
    fill(*ws.back(), int64_t{n} * k, GemmType::kF16, 1 / std::sqrt(static_cast<float>(k)), 10 + i);
  }
  const auto call_of = [&](int i) {
    LinearNormSm90 call = p.call();
    call.product.w = ws[i % copies]->data();
    call.product.backwards = i % 2 == 1;
    return call;
  };
  const auto two_steps = [&](int variant) {
    return [&, variant](cudaStream_t stream, int i) {
      const LinearNormSm90 call = call_of(i);
      GemmSm90 product = call.product;
      product.residual = nullptr, product.y = between.data();
      require(launch_gemm_sm90(product, variant, stream), "product");
      PackedNorm norm{};
      norm.x = between.data(), norm.addend = p.residual.data(), norm.y = p.y.data();
      norm.scale = call.scale, norm.bias = call.shift, norm.rows = m, norm.cols = n;
      norm.epsilon = kEpsilon, norm.type = DType::kF16;
      norm.is_aligned = norm.has_constants = true, norm.backwards = call.product.backwards;
      require(launch_packed_norm(norm, stream), "norm");
    };
  };
  const auto apart = [&](int variant) {
    return [&, variant](cudaStream_t stream, int i) { launch_apart(call_of(i), variant, stream); };
  };
  const auto joined = [&](cudaStream_t stream, int i) {
    require(launch_linear_norm_joined(call_of(i), stream), "joined");
  };
  const int64_t wave = p.call().wave, whole = m / wave * wave;
  const auto waves = [&](cudaStream_t stream, int i) {
    LinearNormSm90 call = call_of(i);
    call.product.m = whole;
    if (whole > 0) require(launch_linear_norm_joined(call, stream), "joined");
    call.product.m = m - whole;
    call.product.x = static_cast<const char*>(call.product.x) + whole * k * 2;
    call.product.residual = static_cast<const char*>(call.product.residual) + whole * n * 2;
    call.product.y = static_cast<char*>(call.product.y) + whole * n * 2;
    if (whole < m)
      launch_apart(call, gemm_sm90_choice(m - whole, n, k, GemmType::kF16, processors()), stream);
  };
  const double flops = 2.0 * m * n * k;
  const int count = std::clamp(static_cast<int>(2000 / (5 + flops / 6e8)), 6, 200);
  double best_steps = 1e30, best_apart = 1e30;
  int steps_at = 0, apart_at = 0;
  for (int v = 0; v < gemm_sm90_variants(); ++v) {
    if (!gemm_sm90_has(v, GemmType::kF16)) continue;
    const double steps = time_us(two_steps(v), count, 3), both = time_us(apart(v), count, 3);
    if (steps < best_steps) best_steps = steps, steps_at = v;
    if (both < best_apart) best_apart = both, apart_at = v;
  }
  std::vector<double> times[4];
  for (int round = 0; round < 5; ++round) {
    times[0].push_back(time_us(two_steps(steps_at), count, 5));
    times[1].push_back(time_us(apart(apart_at), count, 5));
    times[2].push_back(time_us(joined, count, 5));
    times[3].push_back(time_us(waves, count, 5));
  }
  for (auto& each : times) std::sort(each.begin(), each.end());
  std::printf("%6lld %4d->%4d", static_cast<long long>(m), k, n);
  for (const auto& each : times) std::printf(" %8.2f", each[2]);
  for (int i = 1; i < 4; ++i) std::printf(" %6.3f", times[0][2] / times[i][2]);
  std::printf("   %s | %s\n", gemm_sm90_name(steps_at), gemm_sm90_name(apart_at));
  for (Buffer* w : ws) delete w;
}

void time_all(const std::vector<int64_t>& rows) {
  std::printf(
      "f16, us: two steps | product, then norm | one kernel | whole waves in it | two steps / each "
      "of them | tiles\n");
  for (int n : {256, 384, 512, 768, 1024})
    std::printf("%d columns: %lld rows in a wave\n", n,
                static_cast<long long>(linear_norm_sm90_wave(n, processors())));
  const int shapes[7][2] = {{384, 384},  {1536, 384}, {512, 512},  {2048, 512},
                            {1024, 256}, {768, 768},  {1024, 1024}};
  for (int64_t m : rows)
    for (const auto& s : shapes) time_one(m, s[0], s[1]);
}

}  // namespace

int main(int argc, char** argv) {
  take_rest(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) rows.push_back(rows_of(argv[i]));
  if (rows.empty()) rows = {16384, 4096, 2048, 1024, 128};
  require(prepare_gemm_sm90(), "preparing the product");
  require(prepare_linear_norm_sm90(), "preparing the kernels");
  time_all(rows);
  return 0;
}
