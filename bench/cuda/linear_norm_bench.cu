// Checks and times Linear with LayerNorm (src/backend/cuda/kernels/linear/linear_norm_sm90.h): its
// one kernel against a product and the norm behind it, against Linear and AddLayerNorm as two
// steps, and against FP64 on the host.
//   build/cuda/bench/bench_linear_norm [--rest MS] [check|time|all] [ROWS…]
// Check: sampled rows against FP64, ragged sizes, poisoned outputs, guard bytes, NaN, rows of one
// value, and that both ways give a row the same bits at every number of rows, backwards too.
// Time: medians of graphs of launches, in turns; --rest: milliseconds of rest
// before each graph, so that the chip is below its power limit. C++17.
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
std::string text(const Case& c) {
  return "M=" + std::to_string(c.m) + " N=" + std::to_string(c.n) + " K=" + std::to_string(c.k) +
         " " + name_of(c.type) + (c.bias ? "" : " no bias") + (c.shift ? "" : " no shift");
}
int failures = 0;
void report(bool ok, const std::string& what) {
  if (ok) return;
  ++failures;
  std::printf("WRONG: %s\n", what.c_str());
}

constexpr float kEpsilon = 1e-5f;
double rounded(double v, GemmType type) {
  const auto f = static_cast<float>(v);
  return type == GemmType::kF16 ? __half2float(__float2half(f))
                                : __bfloat162float(__float2bfloat16(f));
}

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

void check_values(const Case& c, int rows) {
  Problem p(c);
  p.y.poison();
  require(launch_linear_norm_joined(p.call(), nullptr), "launch");
  require(cudaDeviceSynchronize(), text(c).c_str());
  const auto x = fetch(p.x.data(), p.x.bytes), w = fetch(p.w.data(), p.w.bytes),
             bias = fetch(p.bias.data(), p.bias.bytes),
             residual = fetch(p.residual.data(), p.residual.bytes),
             scale = fetch(p.scale.data(), p.scale.bytes),
             shift = fetch(p.shift.data(), p.shift.bytes), y = fetch(p.y.data(), p.y.bytes);
  const GemmType f32 = GemmType::kF32;
  std::mt19937_64 random(seed());
  double worst = 0;
  for (int r = 0; r < rows; ++r) {
    const int64_t row = r == 0 ? c.m - 1 : static_cast<int64_t>(random() % c.m);
    std::vector<double> s(c.n), products(c.n);
    double mean = 0, variance = 0;
    for (int col = 0; col < c.n; ++col) {
      double sum = c.bias ? widen(bias, f32, col) : 0;
      for (int k = 0; k < c.k; ++k)
        sum += widen(x, c.type, row * c.k + k) * widen(w, c.type, int64_t{col} * c.k + k);
      products[col] = rounded(sum, c.type);
      s[col] = products[col] + widen(residual, c.type, row * c.n + col);
      mean += s[col] / c.n;
    }
    for (double v : s) variance += (v - mean) * (v - mean) / c.n;
    for (int col = 0; col < c.n; ++col) {
      const double normal = (s[col] - mean) / std::sqrt(variance + kEpsilon);
      const double scaled = normal * widen(scale, f32, col);
      const double want = scaled + (c.shift ? widen(shift, f32, col) : 0);
      const double half_ulp = c.type == GemmType::kF16 ? 0x1p-11 : 0x1p-8;
      // A product halfway between two numbers of its type may be rounded to either.
      const double ulp = 2 * half_ulp * std::abs(products[col]) / std::sqrt(variance + kEpsilon);
      const double limit = half_ulp * 1.01 * std::abs(want) + 0x1p-25 +
                           1e-5 * (std::abs(scaled) + std::abs(widen(scale, f32, col))) +
                           1.01 * ulp * std::abs(widen(scale, f32, col));
      const double error = std::abs(widen(y, c.type, row * c.n + col) - want) / limit;
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
  }
  report(worst <= 1, text(c) + ": " + std::to_string(worst) + " times the limit");
  bool written = true;
  for (int64_t i = 0; i < c.m * c.n; ++i) written = written && !std::isnan(widen(y, c.type, i));
  report(written, text(c) + ": an element is NaN or was not written");
  report(p.y.guards_whole(), text(c) + ": wrote outside");
}

// Both ways, every number of rows, first and last rows, backwards.
void check_bits(const Case& c) {
  Problem p(c);
  require(launch_linear_norm_joined(p.call(), nullptr), "launch");
  const Buffer reference(p.y.bytes);
  require(cudaMemcpy(reference.data(), p.y.data(), p.y.bytes, cudaMemcpyDeviceToDevice), "copy");
  for (int64_t m : {int64_t{1}, int64_t{7}, int64_t{128}, int64_t{300}, int64_t{2048}, c.m}) {
    if (m > c.m) continue;
    for (int64_t first : {int64_t{0}, c.m - m}) {
      for (int variant = -1; variant < gemm_sm90_variants(); ++variant) {
        if (variant >= 0 && (!gemm_sm90_has(variant, c.type) || m > 2048)) continue;
        for (bool backwards : {false, true}) {
          LinearNormSm90 call = p.call();
          call.product.m = m, call.product.backwards = backwards;
          call.product.x = static_cast<const char*>(p.x.data()) + first * c.k * 2;
          call.product.residual = static_cast<const char*>(p.residual.data()) + first * c.n * 2;
          p.y.poison();
          if (variant < 0) {
            require(launch_linear_norm_joined(call, nullptr), "launch");
          } else {
            launch_apart(call, variant, nullptr);
          }
          const auto differ = different_words(
              p.y.data(), static_cast<const char*>(reference.data()) + first * c.n * 2,
              static_cast<size_t>(m * c.n * 2));
          report(differ == 0,
                 "bits of " + std::string(variant < 0 ? "joined" : gemm_sm90_name(variant)) +
                     (backwards ? " backwards" : "") + ", " + std::to_string(m) + " rows of " +
                     text(c) + ": " + std::to_string(differ) + " differ");
        }
      }
    }
  }
}

// One x is NaN, one the largest number: their rows and no others are NaN. A row of one value is its
// shift.
void check_special(int n, GemmType type) {
  const Case c{200, n, 64, type};
  for (bool joined : {true, false}) {
    Problem p(c);
    const uint16_t nan = 0x7FFF, most = type == GemmType::kF16 ? 0x7BFF : 0x7F7F;
    const auto put = [](const Buffer& to, int64_t at, uint16_t bits) {
      cudaMemcpy(static_cast<char*>(to.data()) + at * 2, &bits, 2, cudaMemcpyHostToDevice);
    };
    put(p.x, 3 * c.k, nan), put(p.residual, 150 * n + n - 1, nan);
    cudaMemset(static_cast<char*>(p.x.data()) + 9 * c.k * 2, 0, c.k * 2);
    for (int i = 0; i < n; ++i) put(p.residual, 9 * n + i, 0);
    put(p.residual, 70 * n + 5, most);
    cudaMemset(p.bias.data(), 0, p.bias.bytes);
    p.y.poison();
    if (joined) {
      require(launch_linear_norm_joined(p.call(), nullptr), "launch");
    } else {
      launch_apart(p.call(), 3, nullptr);
    }
    require(cudaDeviceSynchronize(), "special");
    const auto y = fetch(p.y.data(), p.y.bytes), shift = fetch(p.shift.data(), p.shift.bytes);
    bool right = true, constant = true;
    for (int64_t i = 0; i < c.m * n; ++i) {
      const int64_t row = i / n;
      const double value = widen(y, type, i);
      // bf16's largest squares to infinity in f32.
      const bool may = row == 70 && type == GemmType::kBF16;
      right = right && (may || std::isnan(value) == (row == 3 || row == 150));
      if (row == 9)
        constant = constant && std::abs(value - widen(shift, GemmType::kF32, i % n)) <=
                                   0.005 * std::abs(value) + 1e-6;
    }
    report(right, text(c) + (joined ? " joined" : " apart") + ": NaN went astray or was lost");
    report(constant, text(c) + (joined ? " joined" : " apart") + ": a row of zeros");
  }
}

int check() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  for (GemmType type : {GemmType::kF16, GemmType::kBF16}) {
    for (int n : {256, 384, 512, 768, 1024}) {
      for (int64_t m : {1, 17, 128, 129, 1000}) check_values({m, n, 136, type}, 6);
      check_values({300, n, 64, type, false, true}, 6);
      check_values({300, n, 200, type, true, false}, 6);
      check_values({9000, n, 768, type}, 4);
      check_bits({9000, n, 256, type});
      check_special(n, type);
    }
    check_bits({16384, 384, 1536, type});
  }
  std::printf("check: %d wrong\n", failures);
  return failures;
}

// ---- timing ------------------------------------------------------------------------------------

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
  const std::string what = argc > 1 ? argv[1] : "all";
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  require(prepare_gemm_sm90(), "preparing the product");
  require(prepare_linear_norm_sm90(), "preparing the kernels");
  const int wrong = what == "time" ? 0 : check();
  std::vector<int64_t> rows;
  for (int i = 2; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {16384, 4096, 2048, 1024, 128};
  if (what != "check") time_all(rows);
  return wrong ? 1 : 0;
}
