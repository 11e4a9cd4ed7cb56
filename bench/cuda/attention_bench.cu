// Checks the CUDA attention kernels against FP64 loops on the host, and times them. C++17. Target
// bench_attention of the preset cuda:
//   bench_attention check flash|sm90|plain|f32|tf32 [0|1]
//   bench_attention time [OUT.json [KERNEL [SHAPE]]], as in time '' tf32 32x16x512x64
// The peers (PyTorch's cuDNN and flash attention) are timed by attention_peers.py beside it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "attention_cases.h"

namespace {

// ---- the meaning, in FP64

double round_to_type(AttentionType type, double x) {
  if (type == AttentionType::kF16) return __half2float(__float2half_rn(static_cast<float>(x)));
  if (type == AttentionType::kBF16)
    return __bfloat162float(__float2bfloat16_rn(static_cast<float>(x)));
  return x;
}

// To nearest, halves to even.
double round_to_tf32(double x) {
  const auto value = static_cast<float>(x);
  if (std::isnan(value)) return value;
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff};
  float rounded;
  std::memcpy(&rounded, &bits, 4);
  return rounded;
}
double round_operand(const Case& c, double x) {
  return c.tf32 ? round_to_tf32(x) : round_to_type(c.type, x);
}

// One row of q or k, rotated; rounded where the kernel's products take less than f32.
std::vector<double> row_of(const Case& c, const Array& x, const cuda::AttentionRows& rows,
                           int64_t b, int64_t row, int64_t head, bool rounds) {
  std::vector<double> r(static_cast<size_t>(c.s.dim));
  for (int d = 0; d < c.s.dim; ++d)
    r[static_cast<size_t>(d)] = x.at(b * rows.batch + row * rows.row + head * rows.head + d);
  const std::vector<double> old = r;
  if (c.tf32) {
    for (double& v : r) v = round_to_tf32(v);
  }
  if (c.args.rotary.cos == nullptr) return r;
  const int half = c.s.dim / 2, width = c.args.rotary.cos_width;
  for (int i = 0; i < half; ++i) {
    const int lo = c.args.rotary.interleaved ? 2 * i : i;
    const int hi = c.args.rotary.interleaved ? 2 * i + 1 : i + half;
    const int64_t at_lo = row * width + (width == c.s.dim ? lo : i);
    const int64_t at_hi = row * width + (width == c.s.dim ? hi : i);
    const auto l = static_cast<size_t>(lo), h = static_cast<size_t>(hi);
    r[l] = old[l] * c.cos.at(at_lo) - old[h] * c.sin.at(at_lo);
    r[h] = old[h] * c.cos.at(at_hi) + old[l] * c.sin.at(at_hi);
  }
  if (rounds) {
    for (double& v : r) v = round_operand(c, v);
  }
  return r;
}

struct Expected {
  std::vector<double> value, bound;  // by column
};

Expected expect_row(const Case& c, int64_t b, int64_t h, int64_t i, bool rounds) {
  const AttentionLaunch& a = c.args;
  int64_t q_begin = 0, q_end = c.s.queries, k_begin = 0, k_end = c.s.keys;
  if (!c.starts_q.empty()) {
    size_t n = 0;
    while (n + 1 < c.starts_q.size() && i >= c.starts_q[n + 1]) ++n;
    const bool in = n + 1 < c.starts_q.size();
    q_begin = c.starts_q[n];
    q_end = in ? c.starts_q[n + 1] : c.s.queries;
    k_begin = in ? c.starts_k[n] : 0;
    k_end = in ? c.starts_k[n + 1] : 0;
  }
  const int64_t keys = k_end - k_begin, offset = keys - (q_end - q_begin);
  const int64_t kv = h / (c.s.heads / c.s.kv_heads);
  const auto width = static_cast<size_t>(c.s.value_dim);
  Expected e{std::vector<double>(width, 0), std::vector<double>(width, 0)};
  if (keys == 0) return e;
  const std::vector<double> q = row_of(c, c.q, a.q, b, i, h, rounds);
  std::vector<double> scores(static_cast<size_t>(keys));
  bool all_hidden = true;
  double top = -HUGE_VAL, largest = 0;
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t key = k_begin + j;
    const std::vector<double> k = row_of(c, c.k, a.k, b, key, kv, rounds);
    double dot = 0, size = 0, added = 0;  // size: of what rounding can change
    for (size_t d = 0; d < q.size(); ++d) dot += q[d] * k[d], size += std::fabs(q[d] * k[d]);
    double score = dot * a.scale;
    if (a.bias.data != nullptr)
      added = c.bias.at(b * a.bias.batch + h * a.bias.head + i * a.bias.query + key * a.bias.key);
    score += added;
    const bool ahead = a.causal && j > i - q_begin + offset;
    const bool dropped = a.keep.data != nullptr &&
                         c.keep[static_cast<size_t>(b * a.keep.batch + h * a.keep.head +
                                                    i * a.keep.query + key * a.keep.key)] == 0;
    if (ahead || dropped) {
      added -= HUGE_VAL;
      score = a.masks_add ? score - HUGE_VAL : a.fill;
    } else if (std::fabs(score) < 1e30) {
      largest = std::max({largest, size * a.scale, std::fabs(score)});
    }
    all_hidden = all_hidden && added == -HUGE_VAL;
    scores[static_cast<size_t>(j)] = score;
    if (score > top) top = score;
  }
  double sum = 0;
  for (double& p : scores) sum += p = std::exp(p - top);
  const bool empty = (a.zero_nan_rows && std::isnan(sum)) || (a.masks_add && all_hidden);
  const double u = c.type == AttentionType::kF16    ? 0x1p-11
                   : c.type == AttentionType::kBF16 ? 0x1p-8
                                                    : 0x1p-24;
  const double u_probs = c.tf32 ? 0x1p-11 : u;
  for (size_t col = 0; col < width; ++col) {
    double value = 0, size = 0, peak = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const double v = round_operand(c, c.v.at(b * a.v.batch + (k_begin + j) * a.v.row +
                                               kv * a.v.head + static_cast<int64_t>(col)));
      const double p = empty ? 0 : scores[static_cast<size_t>(j)];
      value += p * v;
      size += p * std::fabs(v);
      peak = std::max(peak, std::fabs(v));
    }
    e.value[col] = empty ? value : value / sum;
    // Rounded probabilities and result; f32 sums and scores; probabilities below f16's normals.
    e.bound[col] =
        1.01 * u * std::fabs(e.value[col]) +
        (u_probs + (rounds && a.rotary.cos != nullptr ? 0.3 * u_probs * largest : 0) +
         0x1p-24 * (8 + 6 * largest + std::sqrt(static_cast<double>(keys)) * 2)) *
            size / sum +
        (c.type == AttentionType::kF16 ? static_cast<double>(keys) * 0x1p-25 * peak / sum : 0) +
        (c.type == AttentionType::kF16 ? 0x1p-25 : 0x1p-126);
  }
  return e;
}

struct Score {
  int cases = 0, failures = 0;
  double worst = 0;  // error over bound
};

// Sampled rows of all kinds against FP64; every element must have been written.
void check_case(Case& c, Kernel kernel, const std::string& name, bool rounds, Score& score) {
  c.q.fetch();
  c.k.fetch();
  c.v.fetch();
  if (c.cos.elems > 0) c.cos.fetch(), c.sin.fetch();
  c.run(kernel);
  ++score.cases;
  double worst = 0, errors = 0, squares = 0;
  std::string wrong;
  const int64_t samples[] = {0, c.s.queries - 1, c.s.queries / 2, c.s.queries / 3, c.s.queries / 7};
  const int rows = c.s.keys > 4096 ? 3 : 10;
  for (int n = 0; n < rows; ++n) {
    const int64_t i = samples[n % 5], b = n % 2 == 0 ? c.s.batch - 1 : n / 2 % c.s.batch;
    const int64_t h = n % c.s.heads;
    const Expected e = expect_row(c, b, h, i, rounds);
    for (size_t col = 0; col < e.value.size(); ++col) {
      const int64_t at = b * c.args.out.batch + i * c.args.out.row + h * c.args.out.head;
      const double got = c.out.at(at + static_cast<int64_t>(col)), want = e.value[col];
      double ratio = std::fabs(got - want) / e.bound[col];
      if (std::isnan(got) != std::isnan(want)) ratio = 1e9;
      if (std::isnan(want)) ratio = std::isnan(got) ? 0 : 1e9;
      if (ratio > worst) {
        worst = ratio;
        char text[160];
        std::snprintf(text, sizeof(text), "b%lld h%lld q%lld c%zu got %g want %g bound %g",
                      static_cast<long long>(b), static_cast<long long>(h),
                      static_cast<long long>(i), col, got, want, e.bound[col]);
        wrong = text;
      }
      if (!std::isnan(want)) errors += (got - want) * (got - want), squares += want * want;
    }
  }
  // The poison is NaN: an element that nobody wrote shows where no NaN is expected.
  const bool nan_expected = c.mask == Mask::kKeepEmpty || c.mask == Mask::kCausalNaN ||
                            c.mask == Mask::kNaN ||
                            (c.mask == Mask::kCausal && c.s.queries > c.s.keys);
  if (!nan_expected) {
    for (int64_t i = 0; i < c.out.elems; ++i) {
      if (!std::isnan(c.out.at(i))) continue;
      worst = 1e9;
      wrong = "NaN or unwritten at " + std::to_string(i);
      break;
    }
  }
  score.worst = std::max(score.worst, worst);
  if (worst <= 1) return;
  ++score.failures;
  if (score.failures > 25) return;
  std::printf("WRONG %s: B%lld Sq%lld Sk%lld H%d/%d D%d/%d %s: %.3g of the bound, rms %.2g: %s\n",
              name.c_str(), static_cast<long long>(c.s.batch), static_cast<long long>(c.s.queries),
              static_cast<long long>(c.s.keys), c.s.heads, c.s.kv_heads, c.s.dim, c.s.value_dim,
              kMaskNames[static_cast<int>(c.mask)], worst, std::sqrt(errors / (squares + 1e-300)),
              wrong.c_str());
}

// ---- bits of a row

bool same_bits(const Case& a, int64_t from_a, const std::vector<unsigned char>& b, int64_t from_b,
               int64_t elems) {
  const size_t size = bytes_of(a.type);
  return std::memcmp(a.out.host.data() + static_cast<size_t>(from_a) * size,
                     b.data() + static_cast<size_t>(from_b) * size,
                     static_cast<size_t>(elems) * size) == 0;
}

// Item b of a batch of 8 alone; without the padding that its mask hides; a query alone; with other
// items full of NaN.
void check_bits(Kernel kernel, AttentionType type, int dim, int64_t length, Mask mask,
                const std::string& name, Score& score) {
  // So that a batch of 8 and an item alone take different tiles.
  const int heads = length <= 128 ? 40 : 8;
  Case c({8, length, length, heads, heads, dim, dim}, type, mask, 5);
  c.run(kernel);
  const std::vector<unsigned char> all = c.out.host;
  const AttentionLaunch full = c.args;
  const int64_t row = heads * dim, item = length * row;
  std::string wrong;
  const auto at = [&](const cuda::AttentionRows& x, int64_t elems) {
    return static_cast<char*>(x.data) + elems * static_cast<int64_t>(bytes_of(type));
  };
  for (int64_t b : {0, 1, 5}) {
    AttentionLaunch& a = c.args;
    a = full;
    a.batch = 1;
    a.q.data = at(full.q, b * full.q.batch);
    a.k.data = at(full.k, b * full.k.batch);
    a.v.data = at(full.v, b * full.v.batch);
    if (a.keep.data != nullptr)
      a.keep.data = static_cast<const uint8_t*>(full.keep.data) + b * full.keep.batch;
    if (a.bias.data != nullptr)
      a.bias.data = static_cast<const char*>(full.bias.data) +
                    b * full.bias.batch * static_cast<int64_t>(bytes_of(full.bias.type));
    c.run(kernel);
    if (!same_bits(c, 0, all, b * item, item)) wrong += " alone:" + std::to_string(b);
    if (mask == Mask::kKeep) {
      a.keys = length - b % 3 * length / 3;
      c.run(kernel);
      if (!same_bits(c, 0, all, b * item, item)) wrong += " own length:" + std::to_string(b);
      a.keys = length;
    }
    if (mask != Mask::kCausal && mask != Mask::kBiasRelative) {
      a.queries = 1;
      a.q.data = at(full.q, b * full.q.batch + (length - 1) * full.q.row);
      c.run(kernel);
      if (!same_bits(c, 0, all, b * item + (length - 1) * row, row))
        wrong += " query alone:" + std::to_string(b);
    }
  }
  c.args = full;
  for (Array* x : {&c.q, &c.k, &c.v}) {
    x->fetch();
    for (int64_t i = 0; i < x->elems / 8; ++i) x->set(2 * (x->elems / 8) + i, std::nanf(""));
    x->send();
  }
  c.run(kernel);
  if (!same_bits(c, 3 * item, all, 3 * item, 5 * item) || !same_bits(c, 0, all, 0, 2 * item))
    wrong += " neighbours";
  ++score.cases;
  if (wrong.empty()) return;
  ++score.failures;
  std::printf("BITS %s D%d length %lld %s:%s\n", name.c_str(), dim, static_cast<long long>(length),
              kMaskNames[static_cast<int>(mask)], wrong.c_str());
}

cudaError_t run_sm90(const AttentionLaunch& args, cudaStream_t stream) {
  return cuda::attention_sm90_takes(args) ? cuda::launch_attention_sm90(args, stream)
                                          : cuda::launch_attention_flash(args, stream);
}

cudaError_t run_f32(const AttentionLaunch& args, cudaStream_t stream) {
  return cuda::attention_f32_takes(args) ? cuda::launch_attention_f32(args, stream)
                                         : cuda::launch_attention_plain(args, stream);
}

// The f32 kernel has the bits of the plain one.
void check_against_plain(Case& c, const std::string& name, Score& score) {
  const std::vector<unsigned char> own = c.out.host;
  c.run(&cuda::launch_attention_plain);
  if (same_bits(c, 0, own, 0, c.out.elems)) return;
  ++score.failures;
  std::printf("BITS %s: D%d Sq%lld Sk%lld %s: differ from those of the plain kernel\n",
              name.c_str(), c.s.dim, static_cast<long long>(c.s.queries),
              static_cast<long long>(c.s.keys), kMaskNames[static_cast<int>(c.mask)]);
}

std::vector<std::pair<int, int>> dims_of(const std::string& which) {
  if (which == "sm90") return {{32, 32}, {64, 64}, {128, 128}};
  if (which == "plain") return {{64, 64}, {6, 5}, {40, 72}, {128, 128}, {80, 200}};
  if (which == "f32") return {{64, 64}, {32, 32}, {20, 20}, {80, 80}, {96, 96}, {128, 128}};
  return {{64, 64}, {32, 32}, {40, 40}, {80, 80}, {96, 96}, {128, 128}, {8, 8}};
}
std::vector<AttentionType> types_of(const std::string& which) {
  if (which == "plain") return {AttentionType::kF32, AttentionType::kF16};
  if (which == "f32" || which == "tf32") return {AttentionType::kF32};
  return {AttentionType::kF16, AttentionType::kBF16};
}

// only: 0 or 1 picks one of the kernel's two types, -1 both.
int check_kernel(const std::string& which, int only) {
  const Kernel kernel = which == "flash"  ? &cuda::launch_attention_flash
                        : which == "sm90" ? &run_sm90
                        : which == "f32"  ? &run_f32
                        : which == "tf32" ? &cuda::launch_attention_tf32
                                          : &cuda::launch_attention_plain;
  const bool f32 = which == "f32", sm90 = which == "sm90";
  const bool plain = which == "plain" || f32;
  const std::vector<AttentionType> types = types_of(which);
  const std::vector<std::pair<int, int>> dims = dims_of(which);
  int failures = 0;
  for (AttentionType type : types) {
    if (only >= 0 && type != types[static_cast<size_t>(only)]) continue;
    const std::string name = which + (type == AttentionType::kF32   ? " f32"
                                      : type == AttentionType::kF16 ? " f16"
                                                                    : " bf16");
    for (const auto& [dim, value_dim] : dims) {
      Score score;
      const auto check_one = [&](Case& c) {
        c.tf32 = which == "tf32";
        check_case(c, kernel, name, !plain, score);
        if (f32) check_against_plain(c, name, score);
      };
      for (int m = 0; m < static_cast<int>(Mask::kCount); ++m) {
        const Mask mask = static_cast<Mask>(m);
        if (sm90 &&
            (mask == Mask::kMasksAdd || mask == Mask::kRotary || mask == Mask::kRotaryPairs))
          continue;
        const bool long_too = mask == Mask::kNone || mask == Mask::kKeep;
        for (int64_t length : {1, 3, 17, 64, 127, 128, 300, 512, 2048}) {
          if (length == 2048 && !long_too) continue;
          const int64_t batch = mask == Mask::kSequences ? 1 : 3;
          Case c({batch, length, length, 4, m % 2 == 0 ? 2 : 4, dim, value_dim}, type, mask,
                 static_cast<uint64_t>(m + length));
          check_one(c);
        }
        // Fewer queries than keys, and more.
        Case fewer({2, 5, 333, 2, 1, dim, value_dim}, type, mask, 3);
        if (mask != Mask::kSequences) check_one(fewer);
        Case more({2, 270, 140, 2, 2, dim, value_dim}, type, mask, 4);
        if (mask != Mask::kSequences) check_one(more);
      }
      Case wide({1, 3, 65536, 2, 2, dim, value_dim}, type, Mask::kNone, 6);
      check_one(wide);
      // Enough blocks for the larger tiles.
      Case many({12, 300, 200, 8, 8, dim, value_dim}, type, Mask::kKeep, 7);
      check_one(many);
      for (Mask mask : {Mask::kNone, Mask::kKeep, Mask::kBiasByKey, Mask::kCausal}) {
        for (int kv_heads : {12, 6}) {
          Case few_keys({24, 100, 90, 12, kv_heads, dim, value_dim}, type, mask, 8);
          check_one(few_keys);
        }
      }
      if (dim == value_dim) {
        for (int64_t length : {1, 17, 128, 300, 640}) {
          for (Mask mask : {Mask::kNone, Mask::kKeep, Mask::kCausal, Mask::kBiasByKey})
            check_bits(kernel, type, dim, length, mask, name, score);
        }
      }
      std::printf("%-12s D %3d Dv %3d: %d cases, %d wrong, worst error %.3f of its bound\n",
                  name.c_str(), dim, value_dim, score.cases, score.failures, score.worst);
      failures += score.failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

// ---- time

double median_us(const std::function<void(cudaStream_t)>& work) {
  constexpr int kRepeats = 25;
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  float ms = 0;
  for (int i = 0; i < 2; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    work(stream);
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "event");
    check(cudaEventElapsedTime(&ms, begin, end), "event");
  }
  const int in_graph = std::max(1, std::min(20, static_cast<int>(4 / ms)));
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < in_graph; ++i) work(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  std::vector<double> times;
  for (int i = 0; i < kRepeats + 3; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(exec, stream), "graph");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "event");
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 3) times.push_back(ms * 1e3 / in_graph);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[times.size() / 2];
}

// only, only_shape: parts of a kernel's and a shape's name that restrict the run.
int time_kernels(const char* path, const char* only, const char* only_shape) {
  const Shape shapes[] = {{32, 512, 512, 16, 16, 64, 64},   {128, 512, 512, 16, 16, 64, 64},
                          {16, 2048, 2048, 16, 16, 64, 64}, {32, 128, 128, 16, 16, 64, 64},
                          {1, 128, 128, 16, 16, 64, 64},    {1, 128, 128, 12, 12, 64, 64},
                          {16, 512, 512, 16, 16, 128, 128}, {8, 2048, 2048, 16, 16, 128, 128},
                          {32, 512, 512, 16, 16, 32, 32},   {128, 128, 128, 12, 12, 64, 64},
                          {128, 128, 128, 12, 12, 32, 32},  {1, 128, 128, 12, 12, 32, 32}};
  struct Row {
    const char* name;
    Kernel kernel;
    AttentionType type;
  };
  const Row rows[] = {{"flash f16", &cuda::launch_attention_flash, AttentionType::kF16},
                      {"sm90 f16", &cuda::launch_attention_sm90, AttentionType::kF16},
                      {"sm90 bf16", &cuda::launch_attention_sm90, AttentionType::kBF16},
                      {"plain f32", &cuda::launch_attention_plain, AttentionType::kF32},
                      {"tiles f32", &cuda::launch_attention_f32, AttentionType::kF32},
                      {"flash tf32", &cuda::launch_attention_tf32, AttentionType::kF32}};
  std::FILE* json = std::strlen(path) > 0 ? std::fopen(path, "w") : nullptr;
  if (json != nullptr) std::fprintf(json, "[");
  bool first = true;
  for (const Shape& s : shapes) {
    char shape[64];
    std::snprintf(shape, sizeof(shape), "%lldx%dx%lldx%d", static_cast<long long>(s.batch), s.heads,
                  static_cast<long long>(s.keys), s.dim);
    if (std::strstr(shape, only_shape) == nullptr) continue;
    for (const Row& row : rows) {
      const bool sm90 = row.kernel == &cuda::launch_attention_sm90;
      if (std::strstr(row.name, only) == nullptr) continue;
      for (Mask mask :
           {Mask::kNone, Mask::kPadding, Mask::kKeep, Mask::kBiasByKey, Mask::kCausal}) {
        const bool flash = row.kernel == &cuda::launch_attention_flash;
        const bool plain = row.kernel == &cuda::launch_attention_plain;
        const bool all = (sm90 && row.type == AttentionType::kF16) ||
                         (row.type == AttentionType::kF32 && !plain);
        if (mask != Mask::kNone && !all && !(flash && mask == Mask::kPadding)) continue;
        if (plain && s.batch * s.queries > 20000) continue;
        Case c(s, row.type, mask, 1);
        c.args.finite = c.args.causal ? c.finite : nullptr;
        const double us = median_us([&](cudaStream_t stream) {
          if (c.args.causal) check(cuda::launch_attention_finite(c.args, stream), "finite");
          check(row.kernel(c.args, stream), row.name);
        });
        const double flops =
            4.0 * static_cast<double>(s.batch * s.queries * s.keys) * s.heads * s.dim;
        std::printf("%-16s %-10s %-12s %9.2f us %7.1f TFLOP/s\n", shape, row.name,
                    kMaskNames[static_cast<int>(mask)], us, flops / us * 1e-6);
        if (json != nullptr) {
          std::fprintf(
              json, "%s\n{\"shape\": \"%s\", \"kernel\": \"%s\", \"mask\": \"%s\", \"us\": %.3f}",
              first ? "" : ",", shape, row.name, kMaskNames[static_cast<int>(mask)], us);
        }
        first = false;
      }
    }
  }
  if (json != nullptr) {
    std::fprintf(json, "\n]\n");
    std::fclose(json);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "check" && argc > 2) return check_kernel(argv[2], argc > 3 ? std::atoi(argv[3]) : -1);
  const auto argument = [&](int i) { return argc > i ? argv[i] : ""; };
  if (what == "time") return time_kernels(argument(2), argument(3), argument(4));
  std::printf(
      "attention_bench check flash|sm90|plain|f32|tf32 [0|1]\n"
      "attention_bench time [OUT.json [KERNEL [SHAPE]]], as in time '' sm90 32x16x512x64\n");
  return 2;
}
