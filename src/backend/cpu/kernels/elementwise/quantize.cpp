// cpu.quantize_linear.runs and cpu.dequantize_linear.runs: numbers to small integers and back. The
// three layouts of scales (QuantizeAttrs in core/attrs.h) become runs of elements whose scales are
// one number or lie beside each other. Quotients in f32, products in double, as the evaluator's, so
// the bits are its bits; plain loops that the compiler vectorizes.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "backend/cpu/body.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kChunk = 4096;  // elements: a few microseconds of work

// Elements [first, first + count) of x; element i has scale `scale`, or scale + i if it varies.
struct Run {
  int64_t first = 0, count = 0, scale = 0;
};

class Runs {
 public:
  Runs(const QuantizeAttrs& attrs, const TensorArg& x, const TensorArg& scale) {
    if (scale.elems() == 1 && attrs.block_size == 0) {
      kind_ = Kind::kOneNumber;
      inner_ = x.elems();
      count_ = (inner_ + kChunk - 1) / kChunk;
      length_ = std::min(inner_, kChunk);
      return;
    }
    const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
    const int64_t outer = elems_between(x, 0, axis);
    size_ = x.dim(axis);
    inner_ = elems_between(x, axis + 1, x.rank);
    block_ = attrs.block_size;
    if (block_ > 0) blocks_ = scale.dim(axis);
    if (inner_ > 1) {
      kind_ = block_ > 0 ? Kind::kLinesOfBlocks : Kind::kLines;
      count_ = outer * size_;
      length_ = inner_;
    } else {
      kind_ = block_ > 0 ? Kind::kBlocks : Kind::kRows;
      count_ = block_ > 0 ? outer * blocks_ : outer;
      length_ = block_ > 0 ? std::min(block_, size_) : size_;
    }
  }

  int64_t count() const { return count_; }
  /// Do the elements of a run have scales of their own?
  bool varies() const { return kind_ == Kind::kRows || kind_ == Kind::kLinesOfBlocks; }
  /// Runs that are worth a thread.
  int64_t grain() const { return std::max<int64_t>(1, kChunk / std::max<int64_t>(1, length_)); }
  Run operator[](int64_t r) const {
    switch (kind_) {
      case Kind::kOneNumber:
        return {r * kChunk, std::min(kChunk, inner_ - r * kChunk), 0};
      case Kind::kLines:
        return {r * inner_, inner_, r % size_};
      case Kind::kRows:
        return {r * size_, size_, 0};
      case Kind::kLinesOfBlocks:
        return {r * inner_, inner_, (r / size_ * blocks_ + r % size_ / block_) * inner_};
      case Kind::kBlocks:
        break;
    }
    const int64_t begin = r % blocks_ * block_;
    return {r / blocks_ * size_ + begin, std::min(block_, size_ - begin), r};
  }

 private:
  enum class Kind : uint8_t {
    kOneNumber,      ///< for all of x
    kLines,          ///< along an axis with others behind it
    kRows,           ///< along the last axis
    kLinesOfBlocks,  ///< blocks along an axis with others behind it
    kBlocks          ///< blocks along the last axis
  };
  Kind kind_ = Kind::kOneNumber;
  int64_t count_ = 0, length_ = 1, size_ = 1, inner_ = 1, block_ = 0, blocks_ = 1;
};

// What the elements of a run are scaled and shifted by.
template <class T>
struct Scales {
  const float* scale;
  const T* zero;
};

// No 8 or 16 bits reach 2^17; below that, adding and subtracting 1.5·2^23 rounds halves to even.
constexpr float kBeyond = 0x1p18F, kRound = 0x1.8p23F;

// Rounded once: the division of two floats, also by way of double.
inline float quotient_of(float x, float scale) { return x / scale; }
inline float quotient_of(int32_t x, float scale) {
  return static_cast<float>(static_cast<double>(x) / static_cast<double>(scale));
}

// `scales`, `zeros`: one for each element of the run, or one for all.
template <class In, class Out, bool kScales, bool kZeros>
void quantize_run(const In* x, Out* y, const Scales<Out>& by, int64_t count) {
  constexpr float kLow = std::numeric_limits<Out>::min(), kHigh = std::numeric_limits<Out>::max();
  for (int64_t i = 0; i < count; ++i) {
    float v = quotient_of(x[i], by.scale[kScales ? i : 0]);
    v = v == v ? v : 0.0F;
    v = std::min(std::max(v, -kBeyond), kBeyond);
    v = (v + kRound) - kRound + static_cast<float>(by.zero[kZeros ? i : 0]);
    y[i] = static_cast<Out>(static_cast<int32_t>(std::min(std::max(v, kLow), kHigh)));
  }
}

template <class In, bool kScales, bool kZeros>
void dequantize_run(const In* x, float* y, const Scales<In>& by, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const double shifted = static_cast<double>(x[i]) - static_cast<double>(by.zero[kZeros ? i : 0]);
    y[i] = static_cast<float>(shifted * static_cast<double>(by.scale[kScales ? i : 0]));
  }
}

// Calls body(run, scales, does the scale vary, does the zero point) for every run. T: the type of
// the zero points.
template <class T, class Body>
void for_each_run(const LaunchCall& call, const Body& body) {
  const TensorArg &x = call.in[0], &scale = call.in[1];
  if (x.elems() == 0) return;
  const Runs runs(decode<QuantizeAttrs>(call.attrs), x, scale);
  static constexpr T kNone = 0;
  const T* zeros = given(call.in, 2) ? call.in[2].as<const T>() : &kNone;
  const bool one_zero = !given(call.in, 2) || call.in[2].elems() == 1;
  call.execution.threads->parallel_for(runs.count(), runs.grain(),
                                       [&](int64_t begin, int64_t end, int) {
                                         for (int64_t r = begin; r < end; ++r) {
                                           const Run run = runs[r];
                                           const Scales<T> by{scale.as<const float>() + run.scale,
                                                              one_zero ? zeros : zeros + run.scale};
                                           if (!runs.varies())
                                             body(run, by, std::false_type{}, std::false_type{});
                                           else if (one_zero)
                                             body(run, by, std::true_type{}, std::false_type{});
                                           else
                                             body(run, by, std::true_type{}, std::true_type{});
                                         }
                                       });
}

template <class In, class Out>
void quantize(const LaunchCall& call) {
  for_each_run<Out>(call, [&](const Run& run, const Scales<Out>& by, auto scales, auto zeros) {
    quantize_run<In, Out, scales(), zeros()>(call.in[0].as<const In>() + run.first,
                                             call.out[0].as<Out>() + run.first, by, run.count);
  });
}

template <class In>
void dequantize(const LaunchCall& call) {
  for_each_run<In>(call, [&](const Run& run, const Scales<In>& by, auto scales, auto zeros) {
    dequantize_run<In, scales(), zeros()>(call.in[0].as<const In>() + run.first,
                                          call.out[0].as<float>() + run.first, by, run.count);
  });
}

template <class Out>
void quantize_from(const LaunchCall& call) {
  return call.in[0].dtype == DType::kI32 ? quantize<int32_t, Out>(call)
                                         : quantize<float, Out>(call);
}

/// y = saturate(round(x / scale) + zero), halves to even; NaN gives the zero point.
/// x        f32 or i32, dense. scale: f32. y: i8, u8, i16 or u16; the zero point has its type.
/// Error    exact: the quotient is the f32 nearest to it, as in ONNX.
/// Cost     one division per element; reads x once, writes y once. No workspace.
/// Source   ONNX QuantizeLinear-23.
void launch_quantize(const LaunchCall& call) {
  switch (call.out[0].dtype) {
    case DType::kI8:
      return quantize_from<int8_t>(call);
    case DType::kU8:
      return quantize_from<uint8_t>(call);
    case DType::kI16:
      return quantize_from<int16_t>(call);
    default:
      return quantize_from<uint16_t>(call);
  }
}

/// y = (x − zero)·scale
/// x        i8, u8, i16, u16 or i32, dense; the zero point has its type. scale, y: f32.
/// Error    0.5 ulp: the product in double, rounded once.
/// Cost     reads x once, writes y once. No workspace.
/// Source   ONNX DequantizeLinear-23.
void launch_dequantize(const LaunchCall& call) {
  switch (call.in[0].dtype) {
    case DType::kI8:
      return dequantize<int8_t>(call);
    case DType::kU8:
      return dequantize<uint8_t>(call);
    case DType::kI16:
      return dequantize<int16_t>(call);
    case DType::kU16:
      return dequantize<uint16_t>(call);
    default:
      return dequantize<int32_t>(call);
  }
}

Support supports_quantize(const Problem& problem) {
  for (size_t i = 0; i < 2; ++i) {
    const DType type = problem.inputs[i].dtype;
    if (is_float(type) && type != DType::kF32)
      return no("input " + std::to_string(i) + " is " + std::string(name(type)) +
                ", this kernel takes f32");
  }
  const DType type = problem.outputs[0].dtype;
  if (!is_integer(type))
    return no("output 0 is " + std::string(name(type)) + ", this kernel gives integers");
  return yes();
}

}  // namespace

extern const KernelBody quantize_runs;
constexpr KernelBody quantize_runs{
    .supports = &supports_quantize,
    .numerics = &exact_numerics,
    .launch = &launch_quantize,
};

extern const KernelBody dequantize_runs;
constexpr KernelBody dequantize_runs{
    .supports = &all_f32,
    .numerics = &f32_numerics,
    .launch = &launch_dequantize,
};

}  // namespace vernier::backend::cpu
