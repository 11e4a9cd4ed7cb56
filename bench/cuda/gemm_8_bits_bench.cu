// Times the sm_90a matrix product of operands of 8 bits (src/backend/cuda/kernels/linear/
// gemm_sm90.h) beside the best of cuBLASLt's candidates, in the same run.
//   build/cuda/bench/bench_gemm_8_bits [--rest MS] [--tiles] [--rows-scales] [--json FILE]
//                                      [i8|f8|f8-fast] [ROWS...]
// Ours: into f16; into f16 with erf GELU; that, quantized to the operands' type; into f16 with a
// residual. cuBLASLt: i8 into i8, f8e4m3 into f16, each with one scale for all, and of f8 without
// and with its fast accumulation. f8-fast: ours with sums that are not promoted. Medians of graphs
// of launches, in turns; --tiles: every tile shape too. What the product computes is checked by
// tests/backend. C++17.
#include "products.h"

namespace {
using namespace vernier::backend::cuda;

bool is_f8(GemmType type) { return type == GemmType::kF8 || type == GemmType::kF8Fast; }

__global__ void fill_bytes_kernel(uint8_t* data, int64_t count, bool f8, uint64_t seed) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint64_t h = mixed(seed ^ mixed(i));
    // Of f8: signs, exponents of about a normal number's, any mantissa.
    data[i] = f8 ? static_cast<uint8_t>((h & 0x87) | (5 + h / 256 % 4) << 3)
                 : static_cast<uint8_t>(h % 64 + h / 64 % 64 - 64);
  }
}
void fill_bytes(const Buffer& buffer, int64_t count, bool f8, uint64_t salt) {
  fill_bytes_kernel<<<1024, 256>>>(static_cast<uint8_t*>(buffer.data()), count, f8,
                                   seed() + salt * 7919);
  require(cudaGetLastError(), "fill");
}

enum class Finish { kF16, kGelu, kGeluOwn, kResidual, kCount };
constexpr const char* kFinishes[] = {"f16", "gelu", "gelu q", "residual"};
constexpr int kFinishCount = static_cast<int>(Finish::kCount);

struct Problem {
  int64_t m;
  int n, k;
  GemmType type;
  bool by_row;
  Buffer x, w, bias, y, residual, q, x_scales, w_scales, w_sums, one, zero;
  Problem(int64_t m, int n, int k, GemmType type, bool by_row)
      : m(m),
        n(n),
        k(k),
        type(type),
        by_row(by_row),
        x(m * k),
        w(static_cast<size_t>(n) * k),
        bias(n * 2),
        y(m * n * 2),
        residual(m * n * 2),
        q(m * n),
        x_scales(m * 4),
        w_scales(n * 4),
        w_sums(n * 4),
        one(4),
        zero(4) {
    const bool f8 = is_f8(type);
    fill_bytes(x, m * k, f8, 1), fill_bytes(w, int64_t{n} * k, f8, 2);
    fill(bias, n, GemmType::kF16, 1, 3), fill(residual, m * n, GemmType::kF16, 1, 4);
    const float deviation = (f8 ? 0.5f : 1e-3f) / std::sqrt(static_cast<float>(k));
    fill(x_scales, m, GemmType::kF32, 0.1f, 5), fill(w_scales, n, GemmType::kF32, deviation, 6);
    require(cudaMemset(w_sums.data(), 0, w_sums.bytes), "zeros");
    require(cudaMemset(zero.data(), 0, 4), "zeros");
    const float scale = 0.03f;
    require(cudaMemcpy(one.data(), &scale, 4, cudaMemcpyHostToDevice), "scale");
  }
  GemmSm90 call(Finish finish) const {
    GemmSm90 call{};
    call.x = x.data(), call.w = w.data(), call.bias = bias.data(), call.y = y.data();
    call.m = m, call.n = n, call.k = k, call.operands = type;
    call.bias_type = call.residual_type = call.y_type = GemmType::kF16;
    call.processors = processors();
    call.activation = finish == Finish::kGelu || finish == Finish::kGeluOwn;
    if (finish == Finish::kResidual) call.residual = residual.data();
    call.scales.x = static_cast<const float*>(x_scales.data());
    call.scales.w = static_cast<const float*>(w_scales.data());
    call.scales.w_sums = static_cast<const float*>(w_sums.data());
    call.scales.by_column = true;
    call.scales.by_row = by_row, call.scales.folded = !by_row;
    if (finish == Finish::kGeluOwn) {
      call.quantized.q = static_cast<int8_t*>(q.data());
      call.quantized.scale = static_cast<const float*>(one.data());
      if (type == GemmType::kI8) call.quantized.zero = static_cast<const float*>(zero.data());
    }
    return call;
  }
};

// cuBLASLt's best candidate: y^T = w x^T, one scale for all.
class EightBitLibrary {
 public:
  EightBitLibrary() {
    require(cublasLtCreate(&handle_), "handle");
    require(cudaMalloc(&workspace_, kWorkspace), "workspace");
  }
  double best_us(const Problem& p, bool fast, int count, int rounds) const {
    const bool f8 = is_f8(p.type);
    const cudaDataType_t in = f8 ? CUDA_R_8F_E4M3 : CUDA_R_8I, out = f8 ? CUDA_R_16F : CUDA_R_8I;
    cublasLtMatmulDesc_t operation;
    require(cublasLtMatmulDescCreate(&operation, f8 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32I,
                                     CUDA_R_32F),
            "desc");
    const cublasOperation_t t = CUBLAS_OP_T;
    cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t));
    const int8_t fast_sums = fast;
    if (f8)
      cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast_sums,
                                     sizeof(fast_sums));
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatrixLayoutCreate(&w, in, p.k, p.n, p.k);
    cublasLtMatrixLayoutCreate(&x, in, p.k, p.m, p.k);
    cublasLtMatrixLayoutCreate(&y, out, p.n, p.m, p.n);
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulPreferenceCreate(&preference);
    const size_t limit = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &limit, sizeof(limit));
    std::vector<cublasLtMatmulHeuristicResult_t> found(16);
    int number = 0;
    if (cublasLtMatmulAlgoGetHeuristic(handle_, operation, w, x, y, y, preference, 16, found.data(),
                                       &number) != CUBLAS_STATUS_SUCCESS)
      return 0;
    double least = 1e30;
    const float one = 1e-3f, zero = 0;
    const auto run = [&](int a) {
      return [&, a](cudaStream_t stream, int) {
        require(cublasLtMatmul(handle_, operation, &one, p.w.data(), w, p.x.data(), x, &zero,
                               p.y.data(), y, p.y.data(), y, &found[a].algo, workspace_, kWorkspace,
                               stream),
                "cublasLtMatmul");
      };
    };
    int best = 0;
    for (int a = 0; a < number; ++a) {
      const double us = time_us(run(a), count, 1);
      if (us < least) least = us, best = a;
    }
    return number == 0 ? 0 : time_us(run(best), count, rounds);
  }

 private:
  static constexpr size_t kWorkspace = 32 << 20;
  cublasLtHandle_t handle_;
  void* workspace_;
};

void time_one(const EightBitLibrary& library, const Problem& p, bool table, FILE* out,
              const char* comma) {
  const double flops = 2.0 * p.m * p.n * p.k;
  const int count = std::clamp(static_cast<int>(3000 / (3 + flops / 1.4e9)), 10, 200);
  constexpr int kRounds = 3;
  const auto ours = [&](int variant, Finish finish) {
    return [&p, variant, finish](cudaStream_t stream, int) {
      require(launch_gemm_sm90(p.call(finish), variant, stream), "launch");
    };
  };
  std::string names[kFinishCount];
  double us[kFinishCount];
  for (int f = 0; f < kFinishCount; ++f) {
    us[f] = 1e30;
    int best = 0;
    std::string line;
    for (int v = 0; v < gemm_sm90_variants(); ++v) {
      if (!gemm_sm90_has(v, p.type)) continue;
      const double time = time_us(ours(v, static_cast<Finish>(f)), count, 1);
      char cell[64];
      std::snprintf(cell, sizeof cell, " %s:%.1f", gemm_sm90_name(v), time);
      if (time < us[f] * 1.5) line += cell;
      if (time < us[f]) us[f] = time, best = v;
    }
    us[f] = time_us(ours(best, static_cast<Finish>(f)), count, kRounds);
    names[f] = gemm_sm90_name(best);
    if (table)
      std::printf("   M=%lld K=%d N=%d %s |%s\n", static_cast<long long>(p.m), p.k, p.n,
                  kFinishes[f], line.c_str());
  }
  const double exact = library.best_us(p, false, count, kRounds);
  const double fast = is_f8(p.type) ? library.best_us(p, true, count, kRounds) : exact;
  std::printf("%6lld %4d->%4d %8.1f %8.1f |", static_cast<long long>(p.m), p.k, p.n, exact, fast);
  for (int f = 0; f < kFinishCount; ++f) std::printf(" %8.1f", us[f]);
  std::printf(" | %.3f  %4.0f T/s  %s\n", exact / us[0], 1e-6 * flops / us[0], names[0].c_str());
  if (out == nullptr) return;
  std::fprintf(out,
               "%s{\"m\":%lld,\"k\":%d,\"n\":%d,\"cublaslt_us\":%.3f,\"cublaslt_fast_us\":%.3f",
               comma, static_cast<long long>(p.m), p.k, p.n, exact, fast);
  for (int f = 0; f < kFinishCount; ++f)
    std::fprintf(out, ",\"%s_us\":%.3f,\"%s_tile\":\"%s\"", kFinishes[f], us[f], kFinishes[f],
                 names[f].c_str());
  std::fprintf(out, "}");
}

}  // namespace

int main(int argc, char** argv) {
  take_rest(argc, argv);
  const bool tiles = take_option(argc, argv, "--tiles", false) != nullptr;
  const bool by_row = take_option(argc, argv, "--rows-scales", false) != nullptr;
  const char* json = take_option(argc, argv, "--json", true);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  GemmType type = GemmType::kI8;
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "i8")
      type = GemmType::kI8;
    else if (argument == "f8")
      type = GemmType::kF8;
    else if (argument == "f8-fast")
      type = GemmType::kF8Fast;
    else
      rows.push_back(rows_of(argument));
  }
  if (rows.empty()) rows = {16384, 4096, 512, 128};
  require(prepare_gemm_sm90(), "preparing the kernels");
  const EightBitLibrary library;
  std::printf("%s, us: cuBLASLt, with fast accumulation | ours into",
              type == GemmType::kI8 ? "i8" : "f8e4m3");
  for (const char* finish : kFinishes) std::printf(" %s,", finish);
  std::printf(" | cuBLASLt / ours into f16\n");
  constexpr int kShapes[7][2] = {{1024, 3072}, {1024, 1024}, {1024, 4096}, {4096, 1024},
                                 {768, 768},   {768, 3072},  {3072, 768}};
  FILE* out = json ? std::fopen(json, "w") : nullptr;
  if (out) std::fprintf(out, "[\n");
  const char* comma = "";
  for (const int64_t m : rows) {
    for (const auto& shape : kShapes) {
      time_one(library, Problem(m, shape[1], shape[0], type, by_row), tiles, out, comma);
      comma = ",\n";
    }
  }
  if (out) std::fprintf(out, "\n]\n"), std::fclose(out);
  return 0;
}
