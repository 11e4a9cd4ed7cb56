// Plants: see plants.h. Most call the right kernel first and then spoil what it did.
#include "plants/plants.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <string>

#include "backend/cpu/cpu.h"
#include "core/attrs.h"

namespace vernier::test {
namespace {

using backend::LaunchCall;
using backend::TensorArg;

const backend::KernelDef& cpu_kernel(std::string_view name) {
  const backend::KernelDef* kernel = backend::find_kernel(backend::cpu_backend(), name);
  VERNIER_ASSERT(kernel, std::string(name));
  return *kernel;
}
constexpr std::string_view kNorm = "cpu.add_layer_norm.rows", kPlainNorm = "cpu.layer_norm.rows",
                           kLinear = "cpu.linear.onednn_brg", kHead = "cpu.linear.highway",
                           kAttention = "cpu.attention.blocked", kSoftmax = "cpu.softmax.rows";

struct RowView {
  float* data;
  int64_t rows, cols;
};
RowView rows_of(const TensorArg& t) {
  const int64_t cols = t.dim(-1);
  return {t.as<float>(), t.elems() / cols, cols};
}

// The last column takes in a little of the row below.
void reads_past_its_row(const LaunchCall& call) {
  cpu_kernel(kNorm).launch(call);
  const RowView y = rows_of(call.out[0]);
  for (int64_t r = 0; r + 1 < y.rows; ++r) {
    float& last = y.data[(r + 1) * y.cols - 1];
    last += 0x1p-12F * y.data[(r + 1) * y.cols];
  }
}

// var = E[x²] − E[x]², in f32: what cancels where the mean is large.
void one_pass_variance(const LaunchCall& call) {
  cpu_kernel(kPlainNorm).launch(call);
  const double epsilon = decode<NormAttrs>(call.attrs).epsilon;
  const RowView x = rows_of(call.in[0]), y = rows_of(call.out[0]);
  const float* scale = call.in[1].as<float>();
  const float* bias = call.in.size() > 2 && call.in[2].data ? call.in[2].as<float>() : nullptr;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.data + r * x.cols;
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      sum += row[c];
      squares += row[c] * row[c];
    }
    const auto n = static_cast<float>(x.cols);
    const float mean = sum / n;
    const float variance = std::max(squares / n - mean * mean, 0.0F);
    const float inverse = 1 / std::sqrt(variance + static_cast<float>(epsilon));
    for (int64_t c = 0; c < x.cols; ++c)
      y.data[r * x.cols + c] = (row[c] - mean) * inverse * scale[c] + (bias ? bias[c] : 0);
  }
}

// Key j is kept as key j + 1 should be.
void mask_off_by_one(const LaunchCall& call) {
  constexpr size_t kKeep = 4;
  std::vector<TensorArg> in(call.in.begin(), call.in.end());
  std::vector<uint8_t> shifted;
  if (in.size() > kKeep && in[kKeep].data) {
    TensorArg& keep = in[kKeep];
    const int64_t keys = keep.dim(-1);
    shifted.resize(static_cast<size_t>(keep.elems()));
    for (int64_t i = 0; i < keep.elems(); ++i) {
      const int64_t key = i % keys;
      const int64_t from = key + 1 < keys ? i + 1 : i;
      shifted[static_cast<size_t>(i)] = keep.as<uint8_t>()[from];
    }
    keep.data = reinterpret_cast<std::byte*>(shifted.data());
  }
  LaunchCall other = call;
  other.in = in;
  cpu_kernel(kAttention).launch(other);
}

void softmax_without_maximum(const LaunchCall& call) {
  const RowView x = rows_of(call.in[0]), y = rows_of(call.out[0]);
  for (int64_t r = 0; r < x.rows; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < x.cols; ++c) {
      y.data[r * x.cols + c] = std::exp(x.data[r * x.cols + c]);
      sum += y.data[r * x.cols + c];
    }
    for (int64_t c = 0; c < x.cols; ++c) y.data[r * x.cols + c] /= sum;
  }
}

// With more than 64 rows the last 16 × 16 tile stays as the memory was.
void skips_a_tile(const LaunchCall& call) {
  constexpr int64_t kTile = 16, kRows = 64;
  const RowView y = rows_of(call.out[0]);
  if (y.rows <= kRows) return cpu_kernel(kLinear).launch(call);
  std::vector<float> before;
  for (int64_t r = y.rows - kTile; r < y.rows; ++r)
    before.insert(before.end(), y.data + (r + 1) * y.cols - kTile, y.data + (r + 1) * y.cols);
  cpu_kernel(kLinear).launch(call);
  for (int64_t r = 0; r < kTile; ++r)
    std::copy_n(before.begin() + r * kTile, kTile,
                y.data + (y.rows - kTile + r + 1) * y.cols - kTile);
}

void writes_nothing(const LaunchCall&) {}

// Every launch finds another winner: what a race does, made certain.
void races(const LaunchCall& call) {
  static std::atomic<uint32_t> arrivals{0};
  cpu_kernel(kNorm).launch(call);
  static constexpr uint32_t kOrders = 7;
  call.out[0].as<float>()[0] += 0x1p-10F * static_cast<float>(arrivals++ % kOrders);
}

constexpr Plant kPlants[] = {
    {"reads-past-row", "the last column takes in a little of the row below", "bge_reranker_ts17",
     kNorm, "bug", true, &reads_past_its_row},
    {"one-pass-variance", "variance as E[x²] − E[x]² in f32", "large_mean", kPlainNorm, "bug", true,
     &one_pass_variance},
    {"mask-off-by-one", "key j is kept as key j + 1 should be", "bge_reranker_ts17", kAttention,
     "bug", true, &mask_off_by_one},
    {"softmax-without-max", "exp of large logits overflows", "large_logits", kSoftmax, "overflow",
     true, &softmax_without_maximum},
    {"skipped-tile", "a 16 × 16 tile is not written at M > 64", "bge_reranker_ts17", kLinear,
     "bug (uninitialised read)", true, &skips_a_tile},
    {"unwritten-output", "the head writes nothing", "bge_reranker_ts17", kHead,
     "bug (uninitialised read)", true, &writes_nothing},
    {"race", "one element depends on who comes first", "bge_reranker_ts17", kNorm, "bug (race)",
     true, &races},
};

}  // namespace

std::span<const Plant> plants() { return kPlants; }

const backend::Backend& planted_backend(const Plant* plant) {
  static std::deque<std::pair<std::vector<backend::KernelDef>, backend::Backend>> made;
  const backend::Backend& cpu = backend::cpu_backend();
  made.emplace_back(std::vector<backend::KernelDef>(cpu.kernels.begin(), cpu.kernels.end()), cpu);
  auto& [kernels, backend] = made.back();
  for (backend::KernelDef& kernel : kernels) {
    if (plant && kernel.name == plant->kernel) kernel.launch = plant->launch;
  }
  backend.kernels = kernels;
  return backend;
}

}  // namespace vernier::test
