// Where the time of an encoder's layer goes at few rows: a CUDA graph of 24 layers, launches
// overlapped as in an engine, of the kernels that the letters name: q (product of q, k and v),
// a (attention; k: under a mask of keys), o (product of the context), n (residual + norm), f
// (product and erf GELU), g (product back). Capital letters: products in bf16, the same work in
// another kernel. After a '/' the letters of the steps that belong to a layer in INT8 with static
// scales: products of i8, the results of a, n and f quantized by the step itself. Tiles of q, o, f,
// g as tuning names them. Weights are distinct per layer, with --hot those of the first layer for
// all; --rest MS before each graph; sequences of --length tokens (128, or all rows where there are
// fewer), heads of --head-dim (32, 64 or 128). C++17.
//   build/cuda/bench/bench_layer [--hot] [--rest MS] [--length N] [--head-dim D]
//                                [ROWS [WIDTH [SEQUENCE[/LETTERS][:TILES]...]]]
//   build/cuda/bench/bench_layer 128 1024 qkonfgn qkonfgn:64x32,64x32,64x32,64x32
//   build/cuda/bench/bench_layer 128 1024 qkonfgn/qkonfg qkonfgn/n
// What attention adds between its two products: bench_layer --length 512 16384 1024 qo qao qko;
// what a norm adds to a product: bench_layer 128 768 o on.
#include <algorithm>
#include <cctype>
#include <string>

#include "backend/cuda/kernels/attention/attention.h"
#include "backend/cuda/kernels/norm/norm_packed.h"
#include "products.h"

namespace {

constexpr int kLayers = 24;

constexpr GemmType kType = GemmType::kF16;

struct Weights {
  Buffer q, o, f, g;
  explicit Weights(int64_t w) : q(6 * w * w), o(2 * w * w), f(8 * w * w), g(8 * w * w) {
    const float deviation = 1 / std::sqrt(static_cast<float>(w));
    fill(q, 3 * w * w, kType, deviation, 1), fill(o, w * w, kType, deviation, 2);
    fill(f, 4 * w * w, kType, deviation, 3), fill(g, 4 * w * w, kType, deviation / 2, 4);
  }
};

struct Heads {
  int64_t length;  // tokens of a sequence
  int dim;
};

class Layers {
 public:
  Layers(int64_t rows, int width, const Heads& heads, bool hot)
      : hot_(hot),
        heads_(heads),
        rows_(rows),
        width_(width),
        x_(2 * rows * width),
        y_(2 * rows * width),
        middle_(2 * rows * width),
        context_(2 * rows * width),
        qkv_(6 * rows * width),
        inner_(8 * rows * width),
        bias_(4 * 4 * width),
        scale_(4 * width),
        keep_(rows),
        bytes_(4 * rows * width),
        ones_(4 * 4 * width),
        sums_(4 * 4 * width),
        numbers_(8) {
    require(cudaMemset(keep_.data(), 1, static_cast<size_t>(rows)), "mask");
    fill(x_, rows * width, kType, 1, 5), fill(context_, rows * width, kType, 1, 6);
    fill(inner_, 4 * rows * width, kType, 1, 7), fill(qkv_, 3 * rows * width, kType, 1, 8);
    fill(y_, rows * width, kType, 1, 9), fill(middle_, rows * width, kType, 1, 11);
    fill(bias_, 4 * width, GemmType::kF32, 0.1f, 10);
    fill(scale_, width, GemmType::kF32, 1, 12);
    require(cudaMemset(bytes_.data(), 1, bytes_.bytes), "bytes");
    require(cudaMemset(sums_.data(), 0, sums_.bytes), "sums of w");
    const std::vector<float> ones(static_cast<size_t>(4) * width, 1.0f);
    require(cudaMemcpy(ones_.data(), ones.data(), ones_.bytes, cudaMemcpyHostToDevice), "ones");
    const float scale_and_zero[] = {0.05f, 3};
    require(cudaMemcpy(numbers_.data(), scale_and_zero, numbers_.bytes, cudaMemcpyHostToDevice),
            "scale");
    for (int i = 0; i < kLayers; ++i) weights_.push_back(new Weights(width));
  }
  ~Layers() {
    for (Weights* w : weights_) delete w;
  }
  Layers(const Layers&) = delete;

  double time(const std::string& sequence, const std::string& in_8_bits,
              const std::vector<int>& tiles) const {
    const auto layer = [&](cudaStream_t stream, int i) {
      const Weights& w = *weights_[hot_ ? 0 : static_cast<size_t>(i)];
      bool second = false;
      for (char letter : sequence) {
        const char step = static_cast<char>(std::tolower(letter));
        products_type_ = letter == step ? GemmType::kF16 : GemmType::kBF16;
        in_8_bits_ = in_8_bits.find(step) != std::string::npos;
        if (step == 'q') product(x_, w.q, qkv_, 3, 1, 0, tiles[0], stream);
        if (step == 'a' || step == 'k') attention(step == 'k', stream);
        if (step == 'o') product(context_, w.o, y_, 1, 1, 0, tiles[1], stream);
        if (step == 'f') product(middle_, w.f, inner_, 4, 1, 1, tiles[2], stream);
        if (step == 'g') product(inner_, w.g, y_, 1, 4, 0, tiles[3], stream);
        if (step == 'n') {
          norm(second ? middle_ : x_, second ? x_ : middle_, stream);
          second = true;
        }
      }
    };
    constexpr int kRounds = 25;
    return time_us(layer, kLayers, kRounds);
  }

 private:
  void product(const Buffer& x, const Buffer& w, const Buffer& y, int n, int k, int activation,
               int tile, cudaStream_t stream) const {
    GemmSm90 call{};
    call.x = x.data(), call.w = w.data(), call.y = y.data(), call.bias = bias_.data();
    call.m = rows_, call.n = n * width_, call.k = k * width_, call.activation = activation;
    call.operands = call.residual_type = call.y_type = products_type_,
    call.bias_type = GemmType::kF32;
    if (in_8_bits_) {
      call.x = bytes_.data(), call.operands = GemmType::kI8;
      call.residual_type = call.y_type = GemmType::kF16;
      call.scales.x = number(0), call.scales.x_zeros = number(1), call.scales.folded = true;
      call.scales.w = static_cast<const float*>(ones_.data()), call.scales.by_column = true;
      call.scales.w_sums = static_cast<const float*>(sums_.data());
      if (activation == 1)
        call.quantized = {static_cast<int8_t*>(y.data()), factors(), number(0), number(1)};
    }
    call.processors = processors(), call.overlap = call.constant_bias = true;
    if (tile < 0) tile = gemm_sm90_choice(rows_, call.n, call.k, call.operands, call.processors);
    require(launch_gemm_sm90(call, tile, stream), "product");
  }
  void attention(bool keep, cudaStream_t stream) const {
    const int64_t row = int64_t{3} * width_, length = heads_.length;
    const auto part = [&](int i) {
      return AttentionRows{static_cast<char*>(qkv_.data()) + i * width_ * 2, length * row, row,
                           heads_.dim, AttentionType::kF16};
    };
    AttentionLaunch args{};
    args.q = part(0), args.k = part(1), args.v = part(2);
    args.out = {context_.data(), length * width_, width_, heads_.dim, AttentionType::kF16};
    args.batch = rows_ / length, args.queries = args.keys = length;
    args.heads = args.kv_heads = width_ / heads_.dim;
    args.head_dim = args.value_dim = heads_.dim;
    args.scale = 1 / std::sqrt(static_cast<float>(heads_.dim)), args.fill = -__builtin_huge_valf();
    if (keep) args.keep = {keep_.data(), length, 0, 0, 1, AttentionType::kF32};
    if (in_8_bits_)
      args.quantized = {static_cast<int8_t*>(context_.data()), factors(), number(0), number(1)};
    require(launch_attention_sm90(args, stream), "attention");
  }
  void norm(const Buffer& residual, const Buffer& to, cudaStream_t stream) const {
    PackedNorm args;
    args.x = y_.data(), args.addend = residual.data(), args.y = to.data();
    args.scale = static_cast<const float*>(scale_.data());
    args.bias = static_cast<const float*>(bias_.data());
    args.rows = rows_, args.cols = width_, args.epsilon = 1e-5f;
    args.type = vernier::DType::kF16, args.is_aligned = args.has_constants = true;
    if (in_8_bits_) {
      args.q = static_cast<int8_t*>(bytes_.data()), args.factors = factors();
      args.given_scale = number(0), args.given_zero = number(1);
    }
    require(launch_packed_norm(args, stream), "norm");
  }
  const float* number(int i) const { return static_cast<const float*>(numbers_.data()) + i; }
  const float* factors() const { return static_cast<const float*>(ones_.data()); }

  const bool hot_;
  const Heads heads_;
  mutable GemmType products_type_ = kType;
  mutable bool in_8_bits_ = false;
  int64_t rows_;
  int width_;
  Buffer x_, y_, middle_, context_, qkv_, inner_, bias_, scale_, keep_;
  Buffer bytes_, ones_, sums_, numbers_;  // operands of 8 bits, factors, Σ_k w, a scale and a zero
  std::vector<Weights*> weights_;
};

int tile_named(const std::string& name, GemmType type) {
  for (int v = 0; v < gemm_sm90_variants(); ++v)
    if (name == gemm_sm90_name(v) && gemm_sm90_has(v, type)) return v;
  std::printf("there is no tile '%s'; expected four of:", name.c_str());
  for (int v = 0; v < gemm_sm90_variants(); ++v)
    if (gemm_sm90_has(v, type)) std::printf(" '%s'", gemm_sm90_name(v));
  std::printf("\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  require(prepare_gemm_sm90(), "preparing products");
  const bool hot = take_option(argc, argv, "--hot", false) != nullptr;
  take_rest(argc, argv);
  const char* length = take_option(argc, argv, "--length", true);
  const char* head_dim = take_option(argc, argv, "--head-dim", true);
  const int64_t rows = argc > 1 ? rows_of(argv[1]) : 128;
  const int width = argc > 2 ? std::atoi(argv[2]) : 1024;
  const Heads heads{length ? std::atoll(length) : std::min<int64_t>(rows, 128),
                    head_dim ? std::atoi(head_dim) : 64};
  const bool has_dim = heads.dim == 32 || heads.dim == 64 || heads.dim == 128;
  if (!has_dim || heads.length < 1 || rows % heads.length != 0) {
    std::printf(
        "--length %lld --head-dim %d: expected a length that divides the %lld rows, and a "
        "head size of 32, 64 or 128\n",
        static_cast<long long>(heads.length), heads.dim, static_cast<long long>(rows));
    return 2;
  }
  if (width < heads.dim || width % heads.dim != 0 || width % 64 != 0 || width > 1024) {
    std::printf("%d columns: expected 64 to 1024, a multiple of 64 and of the head size\n", width);
    return 2;
  }
  const Layers layers(rows, width, heads, hot);
  std::vector<std::string> sequences;
  for (int i = 3; i < argc; ++i) sequences.emplace_back(argv[i]);
  if (sequences.empty()) sequences = {"q", "o", "f", "g", "qofg", "qaofg", "qonfgn", "qaonfgn"};
  layers.time("qaonfgn", "", {-1, -1, -1, -1});  // warms the chip
  for (const std::string& s : sequences) {
    std::vector<int> tiles{-1, -1, -1, -1};
    const size_t colon = s.find(':'), slash = std::min(s.find('/'), colon);
    const std::string in_8_bits =
        slash == colon
            ? ""
            : s.substr(slash + 1, colon == std::string::npos ? colon : colon - slash - 1);
    if (colon != std::string::npos) {
      size_t at = colon + 1;
      for (size_t i = 0; i < tiles.size(); ++i) {
        const size_t end = std::min(s.find(',', at), s.size());
        const bool is_8_bits = in_8_bits.find("qofg"[i]) != std::string::npos;
        tiles[i] = tile_named(s.substr(at, end - at), is_8_bits ? GemmType::kI8 : kType);
        at = std::min(end + 1, s.size());
      }
    }
    std::printf("%5lld x %4d %-60s %8.2f us per layer\n", static_cast<long long>(rows), width,
                s.c_str(), layers.time(s.substr(0, slash), in_8_bits, tiles));
  }
  return 0;
}
