// Checks and times the sm_90a matrix product (src/backend/cuda/kernels/linear/gemm_sm90.h) against
// FP64 on the host and against cuBLASLt in the same run.
//   build/cuda/bench/bench_gemm [check|time|table|all] [out.json] [f16|bf16|tf32] [ROWS…]
// table: every tile shape too; ROWS: numbers of rows instead of the usual ones.
// Check: sampled elements against FP64, every tile shape, ragged sizes, poisoned outputs, guard
// bytes, NaN and ±max, and that a row has the same bits in every tile shape at every M.
// Time: medians of graphs of launches, ours and the best of cuBLASLt's candidates in turns; weights
// rotate through more than the second-level cache where M <= 128. C++17.
#include "products.h"

namespace {
using namespace vernier::backend::cuda;

const char* products_of(GemmType t) { return t == GemmType::kF32 ? "tf32" : name_of(t); }
// An operand as its products take it: f32 at the nearest TF32, ties to even.
double operand(const std::vector<char>& host, GemmType type, int64_t i) {
  const double value = widen(host, type, i);
  if (type != GemmType::kF32 || value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, 11 - exponent)), exponent - 11);
}

struct Case {
  int64_t m;
  int n, k;
  GemmType type = GemmType::kF16, y_type = GemmType::kF16, bias_type = GemmType::kF32,
           residual_type = GemmType::kF16;
  bool bias = false, residual = false;
  int activation = 0;
};

// The tile shapes that there are for a type.
std::vector<int> variants(GemmType type) {
  std::vector<int> found;
  for (int v = 0; v < gemm_sm90_variants(); ++v) {
    if (gemm_sm90_has(v, type)) found.push_back(v);
  }
  return found;
}

struct Problem {
  Case c;
  Buffer x, w, bias, residual, y;
  explicit Problem(const Case& c)
      : c(c),
        x(static_cast<size_t>(c.m * c.k) * bytes_of(c.type)),
        w(static_cast<size_t>(c.n) * c.k * bytes_of(c.type)),
        bias(static_cast<size_t>(c.n) * bytes_of(c.bias_type)),
        residual(c.residual ? static_cast<size_t>(c.m * c.n) * bytes_of(c.residual_type) : 16),
        y(static_cast<size_t>(c.m * c.n) * bytes_of(c.y_type)) {
    fill(x, c.m * c.k, c.type, 1, 1);
    fill(w, int64_t{c.n} * c.k, c.type, 1 / std::sqrt(static_cast<float>(c.k)), 2);
    fill(bias, c.n, c.bias_type, 1, 3);
    if (c.residual) fill(residual, c.m * c.n, c.residual_type, 1, 4);
  }
  GemmSm90 call() const {
    return {x.data(),
            w.data(),
            c.bias ? bias.data() : nullptr,
            c.residual ? residual.data() : nullptr,
            y.data(),
            c.m,
            c.n,
            c.k,
            c.type,
            c.bias_type,
            c.residual_type,
            c.y_type,
            c.activation,
            processors(),
            true};
  }
  void run(int variant) {
    y.poison();
    require(launch_gemm_sm90(call(), variant, nullptr), "launch");
    require(cudaDeviceSynchronize(), gemm_sm90_name(variant));
  }
};

int failures = 0;
void report(bool ok, const std::string& what) {
  if (ok) return;
  ++failures;
  std::printf("WRONG: %s\n", what.c_str());
}
std::string text(const Case& c, int variant) {
  return std::string(gemm_sm90_name(variant)) + " M=" + std::to_string(c.m) +
         " N=" + std::to_string(c.n) + " K=" + std::to_string(c.k) + " " + products_of(c.type) +
         "->" + name_of(c.y_type) + (c.bias ? " bias" : "") + (c.residual ? " residual" : "") +
         " act " + std::to_string(c.activation);
}

// `samples` elements (all where there are fewer) against FP64; the limit is K^½·2^-24·Σ|x||w|·8
// plus half an ulp of y and 4e-7 of the activation.
void check_values(const Case& c, int samples) {
  Problem p(c);
  const auto x = fetch(p.x.data(), p.x.bytes), w = fetch(p.w.data(), p.w.bytes);
  const auto bias = fetch(p.bias.data(), p.bias.bytes),
             residual = fetch(p.residual.data(), p.residual.bytes);
  std::mt19937_64 random(seed());
  const int64_t count = c.m * c.n;
  std::vector<int64_t> at;
  for (int64_t i = 0; i < std::min<int64_t>(samples, count); ++i)
    at.push_back(count <= samples ? i : static_cast<int64_t>(random() % count));
  std::vector<double> expected, limit;
  for (int64_t i : at) {
    double sum = 0, magnitude = 0;
    for (int k = 0; k < c.k; ++k) {
      const double product =
          operand(x, c.type, i / c.n * c.k + k) * operand(w, c.type, i % c.n * c.k + k);
      sum += product, magnitude += std::abs(product);
    }
    if (c.bias) sum += widen(bias, c.bias_type, i % c.n);
    double y = activation_of(c.activation, sum);
    if (c.residual) y += widen(residual, c.residual_type, i);
    const double half_ulp = c.y_type == GemmType::kF32   ? 0x1p-24
                            : c.y_type == GemmType::kF16 ? 0x1p-11
                                                         : 0x1p-8;
    expected.push_back(y);
    limit.push_back(8 * std::sqrt(static_cast<double>(c.k)) * 0x1p-24 * magnitude +
                    half_ulp * std::abs(y) * 1.01 + 4e-7 * (1 + std::abs(y)));
  }
  for (int v : variants(c.type)) {
    p.run(v);
    const auto y = fetch(p.y.data(), p.y.bytes);
    double worst = 0;
    for (size_t s = 0; s < at.size(); ++s) {
      const double error = std::abs(widen(y, c.y_type, at[s]) - expected[s]) / limit[s];
      worst = std::isnan(error) ? 1e9 : std::max(worst, error);
    }
    report(worst <= 1, text(c, v) + ": " + std::to_string(worst) + " times the limit");
    bool written = true;
    for (int64_t i = 0; i < count; ++i) written = written && !std::isnan(widen(y, c.y_type, i));
    report(written, text(c, v) + ": an element is NaN or was not written");
    report(p.y.guards_whole(), text(c, v) + ": wrote outside y");
  }
}

void check_bits(const Case& c) {
  const int n = c.n, k = c.k;
  const GemmType type = c.type;
  const auto y_bytes = static_cast<int64_t>(bytes_of(c.y_type)),
             residual_bytes = static_cast<int64_t>(bytes_of(c.residual_type));
  Problem all(c);
  all.run(variants(type).front());
  const Buffer reference(all.y.bytes);
  require(cudaMemcpy(reference.data(), all.y.data(), all.y.bytes, cudaMemcpyDeviceToDevice),
          "copy");
  for (int64_t m : {1, 16, 128, 512, 4096, 16384}) {
    for (int v : variants(type)) {
      for (int64_t first : {int64_t{0}, 16384 - m}) {
        GemmSm90 call = all.call();
        call.m = m;
        call.x = static_cast<const char*>(all.x.data()) + first * k * bytes_of(type);
        if (c.residual)
          call.residual =
              static_cast<const char*>(all.residual.data()) + first * n * residual_bytes;
        all.y.poison();
        require(launch_gemm_sm90(call, v, nullptr), "launch");
        const auto differ = different_words(
            all.y.data(), static_cast<const char*>(reference.data()) + first * n * y_bytes,
            static_cast<size_t>(m * n * y_bytes));
        report(differ == 0, std::string("bits of ") + gemm_sm90_name(v) +
                                " M=" + std::to_string(m) + " N=" + std::to_string(n) +
                                " K=" + std::to_string(k) + (c.residual ? " residual" : "") + ": " +
                                std::to_string(differ) + " differ");
      }
    }
  }
}

// One x is NaN, another the largest number: their rows, and no other, are NaN or not finite.
void check_special() {
  for (GemmType type : {GemmType::kF16, GemmType::kBF16, GemmType::kF32}) {
    for (int activation : {0, 1, 2, 3, 4}) {
      Case c{130, 256, 200, type, type};
      c.activation = activation, c.bias = true;
      Problem p(c);
      // The largest f32 would be infinite as TF32.
      const uint32_t nan = type == GemmType::kF32 ? 0x7FFFFFFF : 0x7FFF;
      const uint32_t most = type == GemmType::kF32   ? 0x7F000000
                            : type == GemmType::kF16 ? 0x7BFF
                                                     : 0x7F7F;
      const size_t bytes = bytes_of(type);
      const auto put = [&](int at, uint32_t bits) {
        cudaMemcpy(static_cast<char*>(p.x.data()) + at * bytes, &bits, bytes,
                   cudaMemcpyHostToDevice);
      };
      put(3 * 200, nan), put(129 * 200 + 199, nan), put(64 * 200 + 7, most);
      for (int v : variants(type)) {
        p.run(v);
        const auto y = fetch(p.y.data(), p.y.bytes);
        bool right = true;
        for (int64_t i = 0; i < c.m * c.n; ++i) {
          const int64_t row = i / c.n;
          const double value = widen(y, type, i);
          right = right && std::isnan(value) == (row == 3 || row == 129);
        }
        report(right, text(c, v) + ": NaN went astray or was lost");
      }
    }
  }
}

// x of ties and of numbers beside them, times the identity: y is x as the products take it.
void check_rounding() {
  Case c{64, 8, 8, GemmType::kF32, GemmType::kF32};
  Problem p(c);
  std::vector<uint32_t> x(64 * 8), w(64);
  const uint32_t low[8] = {0x0000, 0x1000, 0x3000, 0x0FFF, 0x1001, 0x2FFF, 0x3001, 0x1FFF};
  std::mt19937 random(static_cast<unsigned>(seed()));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] =
        (i % 3 ? 0 : 0x80000000u) | (90 + random() % 60) << 23 | (random() & 0x7FC000) | low[i % 8];
  for (int i = 0; i < 8; ++i) w[i * 9] = 0x3F800000;
  cudaMemcpy(p.x.data(), x.data(), x.size() * 4, cudaMemcpyHostToDevice);
  cudaMemcpy(p.w.data(), w.data(), w.size() * 4, cudaMemcpyHostToDevice);
  const auto host = fetch(p.x.data(), p.x.bytes);
  for (int v : variants(c.type)) {
    p.run(v);
    const auto y = fetch(p.y.data(), p.y.bytes);
    int even = 0, away = 0, down = 0;
    for (int64_t i = 0; i < 64 * 8; ++i) {
      const uint32_t bits = x[static_cast<size_t>(i)];
      const auto as_float = [](uint32_t b) {
        float f;
        std::memcpy(&f, &b, 4);
        return f;
      };
      const double got = widen(y, GemmType::kF32, i);
      even += got != operand(host, GemmType::kF32, i);
      away += got != as_float((bits + 0x1000) & ~0x1FFFu);
      down += got != as_float(bits & ~0x1FFFu);
    }
    report(even == 0, std::string("rounding to TF32 in ") + gemm_sm90_name(v) + ": " +
                          std::to_string(even) + " are not the nearest, ties to even (away: " +
                          std::to_string(away) + ", towards zero: " + std::to_string(down) + ")");
  }
}

// In a graph behind a copy of x, with the launch allowed to begin early.
void check_graph() {
  Case c{64, 256, 128};
  Problem p(c);
  p.run(3);
  const auto expected = fetch(p.y.data(), p.y.bytes);
  const Buffer source(p.x.bytes);
  require(cudaMemcpy(source.data(), p.x.data(), p.x.bytes, cudaMemcpyDeviceToDevice), "copy");
  p.x.poison(), p.y.poison();
  require(cudaDeviceSynchronize(), "poison");  // the stream below does not wait for it
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  require(cudaMemcpyAsync(p.x.data(), source.data(), p.x.bytes, cudaMemcpyDeviceToDevice, stream),
          "captured copy");
  for (int variant : {3, 0, 3}) require(launch_gemm_sm90(p.call(), variant, stream), "launch");
  require(cudaStreamEndCapture(stream, &graph), "end of capture");
  require(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  require(cudaGraphLaunch(exec, stream), "graph");
  require(cudaStreamSynchronize(stream), "graph run");
  report(fetch(p.y.data(), p.y.bytes) == expected, "a graph with a copy gives other bits");
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}

int check() {
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed()));
  for (GemmType type : {GemmType::kF16, GemmType::kBF16, GemmType::kF32}) {
    for (int64_t m : {1, 7, 63, 129, 1000}) {
      check_values({m, 200, 136, type, type}, 1 << 20);
      check_values({m, 1024, 768, type, type, type, type, true, true, 1}, 4000);
      check_values({m, 264, 136, type, type, type, type, true, true, 0}, 1 << 20);
    }
    check_values({300, 8, 8, type, type}, 1 << 20);
    check_values({300, 392, 1032, type, GemmType::kF32, type, GemmType::kF32, true, true, 2}, 4000);
    check_values({300, 392, 64, type, type, GemmType::kF32, type, true, true, 3}, 4000);
    check_values({300, 392, 64, type, type, GemmType::kF32, type, true, false, 4}, 4000);
    check_values({4096, 4096, 1024, type, type, GemmType::kF32, type, true, false, 1}, 4000);
    check_values({5000, 1024, 4096, type, type, type, type, true, true, 0}, 2000);
    check_bits({16384, 1024, 4096, type, GemmType::kF32});
    check_bits({16384, 768, 3072, type, GemmType::kF32});
    check_bits({16384, 4096, 1000, type, GemmType::kF32});
    check_bits({16384, 1024, 768, type, type, type, type, true, true, 0});
  }
  check_rounding();
  check_special();
  check_graph();
  std::printf("check: %d wrong\n", failures);
  return failures;
}

// ---- timing ------------------------------------------------------------------------------------

struct Row {
  int k, n;
  int64_t m;
  std::string variant;
  double library, ours, ours_gelu, overlapped;
  bool split;
};

Row time_one(const Library& library, int64_t m, int k, int n, GemmType type, bool table) {
  Case c{m, n, k, type, type, type};
  c.bias = true;
  Problem p(c);
  const int copies =
      m <= 128 ? std::max<int>(2, static_cast<int>((160 << 20) / (n * k * bytes_of(type)))) : 1;
  std::vector<Buffer*> ws;
  for (int i = 0; i < copies; ++i) {
    ws.push_back(new Buffer(p.w.bytes));
    fill(*ws.back(), int64_t{n} * k, type, 1 / std::sqrt(static_cast<float>(k)), 10 + i);
  }
  const double flops = 2.0 * m * n * k;
  const int count = std::clamp(static_cast<int>(2000 / (3 + flops / 7e8)), 10, 200);
  const auto ours = [&](int variant, int activation, bool overlap) {
    return [&, variant, activation, overlap](cudaStream_t stream, int i) {
      GemmSm90 call = p.call();
      call.w = ws[i % copies]->data();
      call.activation = activation, call.overlap = call.constant_bias = overlap;
      require(launch_gemm_sm90(call, variant, stream), "launch");
    };
  };
  const auto theirs = [&](const Library::Plan& plan, size_t algorithm) {
    return [&, algorithm](cudaStream_t stream, int i) {
      library.run(plan, algorithm, ws[i % copies]->data(), p.x.data(), p.y.data(), stream);
    };
  };
  const Library::Best best = library.best({m, n, k}, type, p.bias.data(), count, theirs);
  int variant = gemm_sm90_choice(m, n, k, type, processors());
  if (table) {
    double best_ours = 1e30;
    std::string line;
    for (int v : variants(type)) {
      const double us = time_us(ours(v, 1, m <= 512), count, 2);
      char cell[64];
      std::snprintf(cell, sizeof cell, " %s:%.1f", gemm_sm90_name(v), us);
      if (us < best_ours * 1.6) line += cell;
      if (us < best_ours) best_ours = us, variant = v;
    }
    std::printf("   M=%lld K=%d N=%d choice %s |%s\n", static_cast<long long>(m), k, n,
                gemm_sm90_name(gemm_sm90_choice(m, n, k, type, processors())), line.c_str());
  }
  std::vector<double> a, b, g, o;
  for (int round = 0; round < 5; ++round) {
    a.push_back(time_us(theirs(best.plan, best.algorithm), count, 3));
    b.push_back(time_us(ours(variant, 0, false), count, 3));
    g.push_back(time_us(ours(variant, 1, false), count, 3));
    o.push_back(time_us(ours(variant, 1, true), count, 3));
  }
  for (auto* v : {&a, &b, &g, &o}) std::sort(v->begin(), v->end());
  for (Buffer* w : ws) delete w;
  return {k, n, m, gemm_sm90_name(variant), a[2], b[2], g[2], o[2], best.splits_k()};
}

void time_all(GemmType type, const char* json, bool table, const std::vector<int64_t>& rows) {
  const Library library(F32Products::kTF32);
  const int shapes[7][2] = {{1024, 3072}, {1024, 1024}, {1024, 4096}, {4096, 1024},
                            {768, 768},   {768, 3072},  {3072, 768}};
  FILE* out = json && *json ? std::fopen(json, "w") : nullptr;
  if (out) std::fprintf(out, "[\n");
  std::printf(
      "%s, us: cuBLASLt, best of 16 | ours | ours with erf GELU | that, launches overlapped | "
      "cuBLASLt/ours, /GELU\n",
      products_of(type));
  const char* comma = "";
  for (int64_t m : rows)
    for (const auto& s : shapes) {
      const Row r = time_one(library, m, s[0], s[1], type, table);
      std::printf("%6lld %4d->%4d %8.2f%s %8.2f %8.2f %8.2f  %.3f %.3f  %4.0f TF  %s\n",
                  static_cast<long long>(r.m), r.k, r.n, r.library, r.split ? "s" : " ", r.ours,
                  r.ours_gelu, r.overlapped, r.library / r.ours, r.library / r.ours_gelu,
                  2e-6 * r.m * r.k * r.n / r.ours_gelu, r.variant.c_str());
      if (out)
        std::fprintf(out,
                     "%s{\"m\":%lld,\"k\":%d,\"n\":%d,\"cublaslt_us\":%.3f,\"cublaslt_split_k\":%s,"
                     "\"ours_us\":%.3f,\"ours_gelu_us\":%.3f,\"ours_gelu_overlapped_us\":%.3f,"
                     "\"tile\":\"%s\"}",
                     comma, static_cast<long long>(r.m), r.k, r.n, r.library,
                     r.split ? "true" : "false", r.ours, r.ours_gelu, r.overlapped,
                     r.variant.c_str());
      comma = ",\n";
    }
  if (out) std::fprintf(out, "\n]\n"), std::fclose(out);
}

}  // namespace

int main(int argc, char** argv) {
  take_rest(argc, argv);
  const std::string what = argc > 1 ? argv[1] : "all";
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  require(prepare_gemm_sm90(), "preparing the kernels");
  int wrong = 0;
  if (what == "check" || what == "all") wrong = check();
  const std::string products = argc > 3 ? argv[3] : "f16";
  std::vector<int64_t> rows;
  for (int i = 4; i < argc; ++i) rows.push_back(std::atoll(argv[i]));
  if (rows.empty()) rows = {16384, 4096, 512, 128, 32, 1};
  if (what != "check")
    time_all(products == "tf32"   ? GemmType::kF32
             : products == "bf16" ? GemmType::kBF16
                                  : GemmType::kF16,
             argc > 2 ? argv[2] : nullptr, what == "table" || what == "all", rows);
  return wrong ? 1 : 0;
}
