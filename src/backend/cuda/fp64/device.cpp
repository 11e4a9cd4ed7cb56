// FP64 evaluations on the GPU: see fp64_device.h.
#include <array>
#include <cmath>
#include <mutex>

#include "backend/cuda/check.h"
#include "backend/cuda/cublaslt/fp64_products.h"
#include "backend/cuda/fp64/operators.h"
#include "backend/cuda/fp64_device.h"

namespace vernier::backend::cuda {
namespace {

using namespace fp64;  // NOLINT(google-build-using-namespace): its words are ours

// One step of xorshift, as in reference/noise_each.cpp.
uint64_t next_of(uint64_t word) {
  word ^= word << 13;
  word ^= word >> 7;
  word ^= word << 17;
  return word;
}

// The generator's step is linear in its bits: what 2^i steps make of each bit, for every i.
std::vector<uint64_t> jumps_of_generator() {
  constexpr int kBits = 64;
  std::vector<uint64_t> jumps(static_cast<size_t>(kJumps * kBits));
  for (int bit = 0; bit < kBits; ++bit) jumps[bit] = next_of(uint64_t{1} << bit);
  for (int i = 1; i < kJumps; ++i) {
    const uint64_t* before = jumps.data() + (i - 1) * kBits;
    for (int bit = 0; bit < kBits; ++bit) {
      uint64_t twice = 0;
      for (int b = 0; b < kBits; ++b) twice ^= (before[bit] >> b & 1) != 0 ? before[b] : 0;
      jumps[i * kBits + bit] = twice;
    }
  }
  return jumps;
}

// The first states of noise_each().
void begin_generators(uint64_t seed, NoiseDraw& draw) {
  for (uint64_t& state : draw.states) {
    seed += 0x9e3779b97f4a7c15u;
    uint64_t word = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    state = (word ^ word >> 31) | 1;
  }
}

class Device final : public Fp64Device {
 public:
  double least() const override { return products_.least(); }
  void multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                    double* c) override {
    products_.multiply_add(m, n, k, a, b, c);
  }
  void keep(const double* b, int64_t elems) override { shared_.kept.keep(b, elems); }
  void forget(const double* b) override { shared_.kept.forget(b); }

  bool takes(OpKind op, const EvalCall& call) const override { return fp64::takes(op, call); }
  void evaluate(OpKind op, const EvalCall& call) override { fp64::evaluate(shared_, op, call); }

  EvalTensor copied(const EvalTensor& x) override {
    EvalTensor copy = EvalTensor::shaped(x.dtype, x.shape);
    copy.there = on_gpu(shared_, x);
    return copy;
  }
  EvalTensor rounded(const PointRounding& rounding, const EvalTensor& x) override {
    const auto from = on_gpu(shared_, x);
    return made(x.dtype, x.shape, [&](double* y) {
      unary(Unary::kCopy, from->data(), y, from->elems(), 1, {rounder_of(rounding), nullptr},
            kStream);
    });
  }
  void see(const Rounding& rounding, size_t point, const EvalTensor& x) override {
    if (!rounding.records() || x.elems() == 0) return;
    const auto from = on_gpu(shared_, x);
    Array copy(from->elems());
    DeviceMemory peak(sizeof(uint64_t));
    check_cuda(cudaMemsetAsync(peak.data(), 0, sizeof(uint64_t), kStream), "clearing a peak");
    unary(Unary::kCopy, from->data(), copy.data(), from->elems(), 1,
          {{}, static_cast<unsigned long long*>(peak.data())}, kStream);
    double most = 0;
    check_cuda(cudaMemcpyAsync(&most, peak.data(), sizeof(most), cudaMemcpyDeviceToHost, kStream),
               "copying a peak from the GPU");
    check_cuda(cudaStreamSynchronize(kStream), "evaluating in FP64");
    rounding.see(point, std::span(&most, 1));
  }
  EvalTensor perturbed(const EvalTensor& x, const Noise& of) override {
    constexpr double kRoot3 = 1.7320508075688772, kMiddle = 32767.5;
    NoiseDraw draw;
    draw.unit = of.size * kRoot3 / kMiddle;
    draw.keeps_whole_numbers = of.keeps_whole_numbers;
    begin_generators(of.seed, draw);
    const auto from = on_gpu(shared_, x);
    return made(x.dtype, x.shape,
                [&](double* y) { noise(from->data(), y, from->elems(), draw, jumps(), kStream); });
  }
  EvalTensor strided(const EvalTensor& x, const Shape& shape, const Shape& strides,
                     int64_t first) override {
    const auto from = on_gpu(shared_, x);
    return made(x.dtype, shape, [&](double* y) {
      strided_copy(layout_of(shape, std::array{strides}), first, from->data(), y, kStream);
    });
  }
  EvalTensor with_rows(const EvalTensor& x, const Rows& rows) override {
    const auto before = on_gpu(shared_, x), from = on_gpu(shared_, rows.from);
    const Integers places(rows.places);
    const auto count = std::ssize(rows.places);
    return made(x.dtype, x.shape, [&](double* y) {
      unary(Unary::kCopy, before->data(), y, before->elems(), 1, {}, kStream);
      if (count > 0) take_rows(from->data(), places.data(), count, rows.width, y, kStream);
    });
  }
  SquaredDifference difference(const EvalTensor& a, const EvalTensor& b) override {
    const auto left = on_gpu(shared_, a), right = on_gpu(shared_, b);
    Array partial(kDifferenceBlocks * 3);
    fp64::difference(left->data(), right->data(), left->elems(), partial.data(), kStream);
    check_cuda(cudaGetLastError(), "launching an FP64 kernel");
    std::array<double, kDifferenceBlocks * 3> sums{};
    partial.copy_to(sums.data());
    SquaredDifference difference;
    for (size_t i = 0; i < sums.size(); i += 3) {
      difference.squares += sums[i];
      difference.reference += sums[i + 1];
      difference.agree = difference.agree && sums[i + 2] == 0;
    }
    return difference;
  }

 private:
  template <class Fill>
  static EvalTensor made(DType dtype, Shape shape, const Fill& fill) {
    EvalTensor result = EvalTensor::shaped(dtype, std::move(shape));
    auto y = std::make_shared<Array>(result.elems());
    if (result.elems() > 0) fill(y->data());
    check_cuda(cudaGetLastError(), "launching an FP64 kernel");
    result.there = std::move(y);
    return result;
  }
  const uint64_t* jumps() {
    std::call_once(jumps_made_, [&] {
      const std::vector<uint64_t> words = jumps_of_generator();
      void* there = nullptr;
      check_cuda(cudaMalloc(&there, words.size() * sizeof(uint64_t)), "allocating for noise");
      jumps_.reset(static_cast<uint64_t*>(there));
      check_cuda(
          cudaMemcpy(there, words.data(), words.size() * sizeof(uint64_t), cudaMemcpyHostToDevice),
          "copying to the GPU");
    });
    return jumps_.get();
  }

  Shared shared_;
  HostProducts products_{shared_.kept};
  std::once_flag jumps_made_;
  std::unique_ptr<uint64_t, cudaError_t (*)(void*)> jumps_{nullptr, &cudaFree};
};

}  // namespace

std::unique_ptr<Fp64Device> make_fp64_device() { return std::make_unique<Device>(); }

}  // namespace vernier::backend::cuda
