// Times the CUDA rows that move or compute element by element, and softmax, against a copy of the
// same run. Target bench_elementwise of the preset cuda:
//   bench_elementwise [PART-OF-A-NAME ...]
// Prints per row: microseconds, bytes read and written per second, and that as a share of the copy
// (cudaMemcpyAsync on the device, 512 MiB to 512 MiB). Each time is the median of 9 samples of 3
// launches. What the rows compute is the business of tests/backend.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "core/attrs.h"
#include "core/error.h"

namespace vernier::backend {
namespace {

constexpr DType kF32 = DType::kF32, kF16 = DType::kF16, kBF16 = DType::kBF16, kI64 = DType::kI64,
                kBool = DType::kBool;

struct Array {
  DType type;
  Shape shape;
};
size_t bytes_of(const Array& a) {
  size_t bytes = size_bytes(a.type);
  for (int64_t size : a.shape) bytes *= static_cast<size_t>(size);
  return bytes;
}

// Device memory of an array: random numbers, the first 2^20 repeated.
class Memory {
 public:
  explicit Memory(const Array& array) {
    const size_t bytes = bytes_of(array), width = size_bytes(array.type);
    check_cuda(cudaMalloc(&data_, std::max<size_t>(bytes, 16)), "memory of an array");
    const std::vector<char>& first = numbers(array.type);
    size_t done = std::min(bytes, (size_t{1} << 20) * width);
    check_cuda(cudaMemcpy(data_, first.data(), done, cudaMemcpyHostToDevice), "filling an array");
    for (char* to = static_cast<char*>(data_); done < bytes;) {
      const size_t next = std::min(done, bytes - done);
      check_cuda(cudaMemcpy(to + done, data_, next, cudaMemcpyDeviceToDevice), "filling an array");
      done += next;
    }
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  static const std::vector<char>& numbers(DType type) {
    static std::vector<std::vector<char>> lists(256);
    std::vector<char>& list = lists[static_cast<size_t>(type)];
    if (!list.empty()) return list;
    const size_t count = size_t{1} << 20, width = size_bytes(type);
    list.resize(count * width);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < count; ++i) write(type, list.data() + i * width, normal(random));
    return list;
  }
  static void write(DType type, char* to, float x) {
    const auto put = [to](auto value) {
      std::copy_n(reinterpret_cast<char*>(&value), sizeof(value), to);
    };
    if (type == kF32) return put(x);
    if (type == kF16) return put(f32_to_f16(x));
    if (type == kBF16) return put(f32_to_bf16(x));
    if (type == kI64) return put(static_cast<int64_t>(std::lround(x * 100)));
    put(static_cast<char>(x > 0));
  }
  void* data_ = nullptr;
};

class Bench {
 public:
  explicit Bench(std::vector<std::string> only)
      : only_(std::move(only)),
        device_(cuda_backend().make_device({})),
        stream_(static_cast<cudaStream_t>(device_->execution().stream)) {
    constexpr size_t kBytes = size_t{512} << 20;
    const Array half{kF32, {kBytes / 4}};
    const Memory from(half), to(half);
    const double us = median_us([&] {
      check_cuda(cudaMemcpyAsync(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream_),
                 "a copy");
    });
    copy_ = 2.0 * kBytes / us * 1e-6;
    std::printf("copy %.2f TB/s\n", copy_);
  }

  // `moved`: bytes, where not all of the inputs are read.
  void row(const std::string& label, OpKind op, const AttrBytes& attrs,
           const std::vector<Array>& in, const std::vector<Array>& out, double moved = 0) {
    const auto is_part = [&](const std::string& part) {
      return label.find(part) != std::string::npos;
    };
    if (!only_.empty() && std::ranges::none_of(only_, is_part)) return;
    Problem problem;
    problem.op = op;
    problem.attrs = attrs;
    for (const Array& a : in) problem.inputs.push_back(operand(a));
    for (const Array& a : out) problem.outputs.push_back(operand(a));
    const auto kernel = std::ranges::find_if(cuda_backend().kernels, [&](const KernelDef& row) {
      return row.op == op && row.supports(problem);
    });
    if (kernel == cuda_backend().kernels.end())
      return static_cast<void>(std::printf("%-40s no row\n", label.c_str()));
    std::vector<std::unique_ptr<Memory>> memory;
    double bytes = 0;
    const auto args = [&](const std::vector<Array>& arrays) {
      std::vector<TensorArg> list;
      for (const Array& a : arrays) {
        memory.push_back(std::make_unique<Memory>(a));
        list.push_back(tensor(a, memory.back()->data()));
        bytes += static_cast<double>(bytes_of(a));
      }
      return list;
    };
    const std::vector<TensorArg> inputs = args(in), outputs = args(out), none(in.size());
    if (moved > 0) bytes = moved;
    const Numerics numerics = kernel->numerics(problem);
    const Execution execution = device_->execution();
    std::unique_ptr<KernelState> state;
    if (kernel->create)
      state = kernel->create({.attrs = attrs,
                              .numerics = &numerics,
                              .constants = {},
                              .constant_inputs = none,
                              .execution = execution});
    std::unique_ptr<ShapeState> shape;
    if (kernel->prepare) shape = kernel->prepare({attrs, state.get(), inputs, outputs, execution});
    const LaunchCall call{attrs, state.get(), shape.get(), inputs, outputs, nullptr, execution};
    const double us = median_us([&] { kernel->launch(call); });
    const double speed = bytes / us * 1e-6;
    std::printf("%-40s %8.1f us %5.2f TB/s %5.2f  %s\n", label.c_str(), us, speed, speed / copy_,
                std::string(kernel->name).c_str());
    std::fflush(stdout);
  }

 private:
  static Operand operand(const Array& a) {
    Operand o;
    o.present = true;
    o.dtype = a.type;
    for (int64_t size : a.shape) o.shape.push_back(Dim(size));
    return o;
  }
  static TensorArg tensor(const Array& a, std::byte* data) {
    TensorArg t;
    t.data = data;
    t.dtype = a.type;
    t.rank = static_cast<int>(a.shape.size());
    const auto strides = row_major_strides(a.shape);
    for (size_t i = 0; i < a.shape.size(); ++i) {
      t.shape[i] = a.shape[i];
      t.strides[i] = strides[i];
    }
    return t;
  }
  double median_us(const std::function<void()>& launch) const {
    constexpr int kSamples = 9, kLaunches = 3;
    cudaEvent_t begin{}, end{};
    check_cuda(cudaEventCreate(&begin), "an event");
    check_cuda(cudaEventCreate(&end), "an event");
    launch();
    std::vector<float> samples(kSamples);
    for (float& ms : samples) {
      check_cuda(cudaEventRecord(begin, stream_), "an event");
      for (int i = 0; i < kLaunches; ++i) launch();
      check_cuda(cudaEventRecord(end, stream_), "an event");
      check_cuda(cudaEventSynchronize(end), "a row");
      check_cuda(cudaEventElapsedTime(&ms, begin, end), "an event");
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::ranges::nth_element(samples, samples.begin() + kSamples / 2);
    return static_cast<double>(samples[kSamples / 2]) * 1000 / kLaunches;
  }

  std::vector<std::string> only_;
  std::unique_ptr<Device> device_;
  cudaStream_t stream_;
  double copy_ = 0;
};

std::string suffix(DType t) {
  std::string text(1, ' ');
  text += name(t);
  return text;
}
AttrBytes chain(const char* program) { return encode(FusedElementwiseAttrs{program}); }

void elementwise_rows(Bench& bench, DType t) {
  const std::string type = suffix(t);
  const int64_t n = int64_t{1} << 27, rows = n / 3072;
  const Array all{t, {n}}, one{t, {}};
  const auto unary = [&](const char* what, OpKind op, const AttrBytes& attrs = {}) {
    bench.row(what + type, op, attrs, {all}, {all});
  };
  bench.row("Add" + type, OpKind::kAdd, {}, {all, all}, {all});
  bench.row("Div" + type, OpKind::kDiv, {}, {all, all}, {all});
  bench.row("Mul by a number" + type, OpKind::kMul, {}, {all, one}, {all});
  bench.row("Add row of 3072" + type, OpKind::kAdd, {}, {{t, {rows, 3072}}, {t, {3072}}},
            {{t, {rows, 3072}}});
  bench.row("Add row of 1023" + type, OpKind::kAdd, {}, {{t, {65536, 1023}}, {t, {1023}}},
            {{t, {65536, 1023}}});
  bench.row("Mul column [32768,1]" + type, OpKind::kMul, {}, {{t, {32768, 4096}}, {t, {32768, 1}}},
            {{t, {32768, 4096}}});
  bench.row("Add [64,1,128,128] [64,12,128,128]" + type, OpKind::kAdd, {},
            {{t, {64, 1, 128, 128}}, {t, {64, 12, 128, 128}}}, {{t, {64, 12, 128, 128}}});
  unary("Relu", OpKind::kRelu);
  unary("Gelu erf", OpKind::kGelu, encode(GeluAttrs{}));
  unary("Gelu tanh", OpKind::kGelu, encode(GeluAttrs{GeluKind::kTanh}));
  unary("Sigmoid", OpKind::kSigmoid);
  unary("Tanh", OpKind::kTanh);
  unary("Exp", OpKind::kExp);
  unary("Erf", OpKind::kErf);
  unary("Sqrt", OpKind::kSqrt);
  bench.row("Where [n] by a number" + type, OpKind::kWhere, {}, {{kBool, {n}}, all, one}, {all});
  bench.row("Where [64,1,1,128]" + type, OpKind::kWhere, {},
            {{kBool, {64, 1, 1, 128}}, {t, {64, 12, 128, 128}}, one}, {{t, {64, 12, 128, 128}}});
  bench.row("chain of 3" + type, OpKind::kFusedElementwise, chain("Mul(%0,%1);Add(%3,%2);Relu(%4)"),
            {all, all, one}, {all});
  bench.row("chain of 3, scale and bias" + type, OpKind::kFusedElementwise,
            chain("Mul(%0,%1);Add(%3,%2);Relu(%4)"), {{t, {rows, 3072}}, {t, {3072}}, {t, {3072}}},
            {{t, {rows, 3072}}});
  bench.row("chain of 8" + type, OpKind::kFusedElementwise,
            chain("Mul(%0,%1);Add(%3,%2);Relu(%4);Mul(%5,%5);Sub(%6,%1);Sigmoid(%7);"
                  "Mul(%8,%7);Neg(%9)"),
            {all, one, one}, {all});
}

void type_rows(Bench& bench) {
  const int64_t n = int64_t{1} << 27;
  bench.row("Cast f32 to f16", OpKind::kCast, encode(CastAttrs{kF16}), {{kF32, {n}}},
            {{kF16, {n}}});
  bench.row("Cast f16 to f32", OpKind::kCast, encode(CastAttrs{kF32}), {{kF16, {n}}},
            {{kF32, {n}}});
  bench.row("Cast bool to f32", OpKind::kCast, encode(CastAttrs{kF32}), {{kBool, {n}}},
            {{kF32, {n}}});
  bench.row("Less f32", OpKind::kLess, {}, {{kF32, {n}}, {kF32, {n}}}, {{kBool, {n}}});
  bench.row("Add i64", OpKind::kAdd, {}, {{kI64, {n / 2}}, {kI64, {n / 2}}}, {{kI64, {n / 2}}});
  bench.row("Cast i64 to f32", OpKind::kCast, encode(CastAttrs{kF32}), {{kI64, {n / 2}}},
            {{kF32, {n / 2}}});
}

void movement_rows(Bench& bench, DType t) {
  const std::string type = suffix(t);
  const auto transpose = [&](const char* what, std::vector<int64_t> perm, const Shape& x) {
    Shape y;
    for (int64_t from : perm) y.push_back(x[static_cast<size_t>(from)]);
    bench.row(std::string("Transpose ") + what + type, OpKind::kTranspose,
              encode(TransposeAttrs{.perm = std::move(perm)}), {{t, x}}, {{t, y}});
  };
  transpose("0213 [64,512,32,64]", {0, 2, 1, 3}, {64, 512, 32, 64});
  transpose("0231 [64,512,32,64]", {0, 2, 3, 1}, {64, 512, 32, 64});
  transpose("10 [8192,8192]", {1, 0}, {8192, 8192});
  transpose("10 [8191,8191]", {1, 0}, {8191, 8191});
  transpose("0231 [64,3,512,512]", {0, 2, 3, 1}, {64, 3, 512, 512});
  bench.row("Concat axis 1 [65536,768] twice" + type, OpKind::kConcat, encode(AxisAttrs{1}),
            {{t, {65536, 768}}, {t, {65536, 768}}}, {{t, {65536, 1536}}});
  bench.row("Concat axis 1 [65536,767] twice" + type, OpKind::kConcat, encode(AxisAttrs{1}),
            {{t, {65536, 767}}, {t, {65536, 767}}}, {{t, {65536, 1534}}});
  bench.row("Split axis 1 [65536,2304]" + type, OpKind::kSplit,
            encode(SplitAttrs{.axis = 1, .sizes = {768, 768, 768}}), {{t, {65536, 2304}}},
            {{t, {65536, 768}}, {t, {65536, 768}}, {t, {65536, 768}}});
  const double bytes = 65536.0 * 1024 * 2 * static_cast<double>(size_bytes(t));
  bench.row(
      "Slice [65536,2048] to 1024" + type, OpKind::kSlice,
      encode(SliceAttrs{
          .inline_starts = true, .starts = {512}, .axes = {1}, .steps = {1}, .sizes = {1024}}),
      {{t, {65536, 2048}}}, {{t, {65536, 1024}}}, bytes);
  bench.row("Expand [65536,1,64] to 16" + type, OpKind::kExpand,
            encode(ShapeAttrs{.shape = {65536, 16, 64}, .has_shape = true}), {{t, {65536, 1, 64}}},
            {{t, {65536, 16, 64}}});
}

void softmax_rows(Bench& bench) {
  for (DType t : {kF32, kF16, kBF16}) {
    for (int64_t size : {32, 128, 384, 512, 768, 1024, 2048, 3072, 8192, 30522, 1023}) {
      if (t == kBF16 && size != 768) continue;
      const Array array{t, {(int64_t{1} << 27) / size, size}};
      bench.row(std::string("Softmax ") + std::to_string(size) + suffix(t), OpKind::kSoftmax,
                encode(AxisAttrs{-1}), {array}, {array});
    }
    const Array array{t, {64, 512, 2048}};
    bench.row("Softmax axis 1 [64,512,2048]" + suffix(t), OpKind::kSoftmax, encode(AxisAttrs{1}),
              {array}, {array});
  }
}

}  // namespace
}  // namespace vernier::backend

int main(int argc, char** argv) {
  using namespace vernier::backend;
  try {
    Bench bench({argv + 1, argv + argc});
    for (auto type : {kF32, kF16, kBF16}) elementwise_rows(bench, type);
    type_rows(bench);
    for (auto type : {kF32, kF16}) movement_rows(bench, type);
    softmax_rows(bench);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
  return 0;
}
