// Times the sm_90a matrix product (src/backend/cuda/kernels/linear/gemm_sm90.h) beside the best of
// cuBLASLt's candidates, which may split K, in the same run.
//   build/cuda/bench/bench_gemm [--rest MS] [--tiles] [--json FILE] [f16|bf16|tf32] [ROWS…]
// --tiles: every tile shape too; ROWS: numbers of rows instead of the usual ones. Medians of graphs
// of launches, in turns; weights rotate through more than the second-level cache where M <= 128.
// What the product computes is checked by tests/backend; `test_backend_cuda --time` times the rows
// of kernels.def. C++17.
#include "products.h"

namespace {
using namespace vernier::backend::cuda;

const char* products_of(GemmType t) { return t == GemmType::kF32 ? "tf32" : name_of(t); }

struct Case {
  int64_t m;
  int n, k;
  GemmType type;  // of all arrays
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
  Buffer x, w, bias, y;
  explicit Problem(const Case& c)
      : c(c),
        x(static_cast<size_t>(c.m * c.k) * bytes_of(c.type)),
        w(static_cast<size_t>(c.n) * c.k * bytes_of(c.type)),
        bias(static_cast<size_t>(c.n) * bytes_of(c.type)),
        y(static_cast<size_t>(c.m * c.n) * bytes_of(c.type)) {
    fill(x, c.m * c.k, c.type, 1, 1);
    fill(bias, c.n, c.type, 1, 3);
  }
  GemmSm90 call() const {
    GemmSm90 call{};
    call.x = x.data(), call.bias = bias.data(), call.y = y.data();
    call.m = c.m, call.n = c.n, call.k = c.k;
    call.operands = call.bias_type = call.residual_type = call.y_type = c.type;
    call.processors = processors(), call.overlap = true;
    return call;
  }
};

struct Row {
  int k, n;
  int64_t m;
  std::string variant;
  double library, ours, ours_gelu, overlapped;
  bool split;
};

Row time_one(const Library& library, int64_t m, int k, int n, GemmType type, bool table) {
  const Problem p({m, n, k, type});
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
  FILE* out = json ? std::fopen(json, "w") : nullptr;
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
  const bool tiles = take_option(argc, argv, "--tiles", false) != nullptr;
  const char* json = take_option(argc, argv, "--json", true);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  GemmType type = GemmType::kF16;
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "f16" || argument == "bf16" || argument == "tf32") {
      type = argument == "f16"    ? GemmType::kF16
             : argument == "bf16" ? GemmType::kBF16
                                  : GemmType::kF32;
    } else {
      rows.push_back(rows_of(argument));
    }
  }
  if (rows.empty()) rows = {16384, 4096, 512, 128, 32, 1};
  require(prepare_gemm_sm90(), "preparing the kernels");
  time_all(type, json, tiles, rows);
  return 0;
}
