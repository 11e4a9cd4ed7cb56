// The instructions of the elementwise loop, for every Highway target: see elementwise.h. f32 uses
// math-inl.h; integers wrap as the evaluators do; comparisons with NaN are false.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/elementwise/elementwise.h"
#include "backend/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/elementwise/elementwise_tiles.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/math-inl.h"
#include "backend/cpu/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
namespace tiles {

struct Row {
  TileKey key;
  TileFunction function;
};
using Rows = std::vector<Row>;

template <class T>
constexpr DType type_of() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, int8_t>) return DType::kI8;
  if constexpr (std::is_same_v<T, bool>) return DType::kBool;
  return DType::kU8;
}

// A stored bool: every nonzero byte is true, and only 0 and 1 may be read as `bool`.
struct StoredBool {
  uint8_t byte;
  operator bool() const { return byte != 0; }  // NOLINT(google-explicit-constructor)
};
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, StoredBool, T>;

template <class T>
const Stored<T>* operand(const TileCall& call, size_t i) {
  return static_cast<const Stored<T>*>(call.in[i]);
}

// Loops over single elements; the compiler vectorizes them for the target.
template <class T, class R, class F>
void map_one(const TileCall& call) {
  const auto* x = operand<T>(call, 0);
  auto* y = static_cast<R*>(call.out);
  const F f;
  for (int64_t i = 0; i < call.n; ++i) y[i] = f(static_cast<T>(x[i]));
}
template <class T, class R, class F>
void map_two(const TileCall& call) {
  const auto* a = operand<T>(call, 0);
  const auto* b = operand<T>(call, 1);
  auto* y = static_cast<R*>(call.out);
  const F f;
  for (int64_t i = 0; i < call.n; ++i) y[i] = f(static_cast<T>(a[i]), static_cast<T>(b[i]));
}
// Any number of operands, folded from the left.
template <class T, class F>
void fold(const TileCall& call) {
  auto* y = static_cast<T*>(call.out);
  std::copy_n(operand<T>(call, 0), call.n, y);
  const F f;
  for (size_t k = 1; k < call.num_in; ++k) {
    const T* x = operand<T>(call, k);
    for (int64_t i = 0; i < call.n; ++i) y[i] = f(y[i], x[i]);
  }
}
// f(d, vector) on f32 vectors.
template <class F>
void map_vectors(const TileCall& call) {
  const F32 d;
  const auto* x = operand<float>(call, 0);
  auto* y = static_cast<float*>(call.out);
  const F f;
  for_each_vector(d, call.n, [&](int64_t i, int64_t lanes) {
    store_lanes(d, f(d, load_lanes(d, x + i, lanes)), y + i, lanes);
  });
}
// f(x, alpha, beta) with the attributes' numbers.
template <class F>
void map_with_numbers(const TileCall& call) {
  const auto* x = operand<float>(call, 0);
  auto* y = static_cast<float*>(call.out);
  const auto alpha = static_cast<float>(call.alpha), beta = static_cast<float>(call.beta);
  const F f;
  for (int64_t i = 0; i < call.n; ++i) y[i] = f(x[i], alpha, beta);
}

// Two's complement: the wrapped result, without undefined behavior.
template <class T, class F>
T wrapping(T a, T b, const F& f) {
  if constexpr (std::is_floating_point_v<T>) {
    return f(a, b);
  } else {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(f(static_cast<U>(a), static_cast<U>(b)));
  }
}

// ---- numbers of any type
struct AddOp {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};
struct SubOp {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};
struct MulOp {
  template <class T>
  T operator()(T a, T b) const {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};
struct MinOp {  // NaN wins, as in the definition
  template <class T>
  T operator()(T a, T b) const {
    return a < b || a != a ? a : b;
  }
};
struct MaxOp {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};
struct AbsOp {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::abs(x);
    return x < 0 ? SubOp()(T{0}, x) : x;
  }
};
struct NegOp {
  template <class T>
  T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return SubOp()(T{0}, x);
  }
};
struct SignOp {
  template <class T>
  T operator()(T x) const {
    return x != x ? x : static_cast<T>((x > 0) - (x < 0));
  }
};
struct ReluOp {
  template <class T>
  T operator()(T x) const {
    return x < 0 ? T{0} : x;
  }
};
struct PReluOp {
  template <class T>
  T operator()(T x, T slope) const {
    return x < 0 ? MulOp()(slope, x) : x;
  }
};
struct SameOp {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};

// ---- comparisons and logic
template <class Compare>
struct CompareOp {
  template <class T>
  bool operator()(T a, T b) const {
    return Compare()(a, b);
  }
};
struct NotOp {
  bool operator()(bool x) const { return !x; }
};
struct BitNotOp {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(~x);
  }
};
struct AndOp {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct OrOp {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct XorOp {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct IsNaNOp {
  bool operator()(float x) const { return x != x; }
};

// ---- f32 vectors
template <hn::VFromD<F32> (*kFunction)(F32, hn::VFromD<F32>)>
struct VectorOp {
  VF32 operator()(F32 d, VF32 v) const { return kFunction(d, v); }
};
VF32 vector_exp(F32 d, VF32 v) { return exp_f32(d, v); }
VF32 vector_log(F32 d, VF32 v) { return log_f32(d, v); }
VF32 vector_tanh(F32 d, VF32 v) { return tanh_f32(d, v); }
VF32 vector_sigmoid(F32 d, VF32 v) { return sigmoid_f32(d, v); }
VF32 vector_erf(F32 d, VF32 v) { return erf_f32(d, v); }
VF32 vector_gelu_erf(F32 d, VF32 v) { return gelu_erf_f32(d, v); }
VF32 vector_gelu_tanh(F32 d, VF32 v) { return gelu_tanh_f32(d, v); }
VF32 vector_sqrt(F32, VF32 v) { return hn::Sqrt(v); }
VF32 vector_ceil(F32, VF32 v) { return hn::Ceil(v); }
VF32 vector_floor(F32, VF32 v) { return hn::Floor(v); }
VF32 vector_round(F32, VF32 v) { return hn::Round(v); }

// ---- f32 through the C library, one element at a time (rare in Transformers)
template <float (*kFunction)(float)>
struct LibraryOp {
  float operator()(float x) const { return kFunction(x); }
};
float reciprocal(float x) { return 1.0f / x; }
float softplus(float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x))); }
float softsign(float x) { return x / (1.0f + std::abs(x)); }
float clamp01(float x) { return x < 0.0f ? 0.0f : (x > 1.0f ? 1.0f : x); }
float hard_swish(float x) { return x * clamp01(x / 6.0f + 0.5f); }
// max() in softplus drops NaN; the product brings it back.
float mish(float x) { return x * std::tanh(softplus(x)); }
float softplus_nan(float x) { return x != x ? x : softplus(x); }
float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

struct LeakyReluOp {
  float operator()(float x, float a, float) const { return x < 0 ? a * x : x; }
};
struct EluOp {
  float operator()(float x, float a, float) const { return x < 0 ? a * std::expm1(x) : x; }
};
struct CeluOp {
  float operator()(float x, float a, float) const { return x < 0 ? a * std::expm1(x / a) : x; }
};
struct SeluOp {
  float operator()(float x, float a, float b) const { return b * (x <= 0 ? a * std::expm1(x) : x); }
};
struct HardSigmoidOp {
  float operator()(float x, float a, float b) const { return clamp01(a * x + b); }
};
struct ThresholdedReluOp {
  float operator()(float x, float a, float) const { return x <= a ? 0.0f : x; }
};
struct SwishOp {
  float operator()(float x, float a, float) const { return x * sigmoid(a * x); }
};
struct DivOp {
  float operator()(float a, float b) const { return a / b; }
};
struct PowOp {
  // Squares, cubes and roots as the product or root, which rounds no worse than pow.
  float operator()(float a, float b) const {
    if (b == 2.0f) return a * a;
    if (b == 3.0f) return a * a * a;
    return std::pow(a, b);
  }
};
struct ModOp {  // sign of the divisor
  float operator()(float a, float b) const {
    const float r = std::fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};
struct FModOp {
  float operator()(float a, float b) const { return std::fmod(a, b); }
};

template <class T>
void divide_integers(const TileCall& call) {
  const T *a = operand<T>(call, 0), *b = operand<T>(call, 1);
  auto* y = static_cast<T*>(call.out);
  for (int64_t i = 0; i < call.n; ++i) {
    if (b[i] == 0) call.error->store(1, std::memory_order_relaxed);
    y[i] = b[i] == 0 ? T{0} : b[i] == -1 ? NegOp()(a[i]) : static_cast<T>(a[i] / b[i]);
  }
}
// kFloor: the sign of the divisor (Mod), else of the dividend (fmod).
template <class T, bool kFloor>
void modulo_integers(const TileCall& call) {
  const T *a = operand<T>(call, 0), *b = operand<T>(call, 1);
  auto* y = static_cast<T*>(call.out);
  for (int64_t i = 0; i < call.n; ++i) {
    if (b[i] == 0) call.error->store(1, std::memory_order_relaxed);
    const T r = b[i] == 0 || b[i] == -1 ? T{0} : static_cast<T>(a[i] % b[i]);
    y[i] = kFloor && r != 0 && (r < 0) != (b[i] < 0) ? static_cast<T>(r + b[i]) : r;
  }
}
template <class T>
void mean(const TileCall& call) {
  fold<T, AddOp>(call);
  auto* y = static_cast<T*>(call.out);
  const auto count = static_cast<T>(call.num_in);
  for (int64_t i = 0; i < call.n; ++i) y[i] /= count;
}
void is_inf(const TileCall& call) {  // alpha: -inf counts, beta: +inf counts
  const auto* x = operand<float>(call, 0);
  auto* y = static_cast<bool*>(call.out);
  const bool negative = call.alpha != 0, positive = call.beta != 0;
  for (int64_t i = 0; i < call.n; ++i)
    y[i] = (negative && x[i] == -HUGE_VALF) || (positive && x[i] == HUGE_VALF);
}
template <class T>
void where(const TileCall& call) {
  const auto* condition = operand<uint8_t>(call, 0);
  const auto *a = operand<T>(call, 1), *b = operand<T>(call, 2);
  auto* y = static_cast<T*>(call.out);
  for (int64_t i = 0; i < call.n; ++i) y[i] = condition[i] != 0 ? a[i] : b[i];
}
template <class T>
void clip(const TileCall& call) {  // bounds: one number each, first element; may be absent
  const T* x = operand<T>(call, 0);
  auto* y = static_cast<T*>(call.out);
  const T* low = call.num_in > 1 ? operand<T>(call, 1) : nullptr;
  const T* high = call.num_in > 2 ? operand<T>(call, 2) : nullptr;
  for (int64_t i = 0; i < call.n; ++i) {
    T v = x[i];
    if (low != nullptr && v < *low) v = *low;
    if (high != nullptr && v > *high) v = *high;
    y[i] = v;
  }
}

// float → integer truncates and saturates, NaN gives 0; integer → integer wraps; → bool is x != 0.
template <class T, class R>
void cast(const TileCall& call) {
  const auto* x = operand<T>(call, 0);
  auto* y = static_cast<R*>(call.out);
  for (int64_t i = 0; i < call.n; ++i) {
    if constexpr (std::is_same_v<R, bool>) {
      y[i] = x[i] != 0;
    } else if constexpr (std::is_same_v<T, float> && std::is_integral_v<R>) {
      // One past the largest value; exact in f32 for every integer type.
      const float limit = -2.0f * static_cast<float>(std::numeric_limits<R>::min() / 2);
      const float above = limit == 0 ? 256.0f : limit;  // u8
      if (x[i] >= above)
        y[i] = std::numeric_limits<R>::max();
      else if (x[i] < static_cast<float>(std::numeric_limits<R>::min()))
        y[i] = std::numeric_limits<R>::min();
      else
        y[i] = x[i] != x[i] ? R{0} : static_cast<R>(x[i]);
    } else if constexpr (std::is_same_v<R, float>) {
      y[i] = static_cast<float>(static_cast<double>(static_cast<T>(x[i])));
    } else {
      y[i] = static_cast<R>(x[i]);
    }
  }
}

// ---- the loops of each operator, by InstructionNumbers::variant

template <OpKind kOp, class T>
struct Loops;  // an operator of elementwise_ops.def on elements that it takes

// T: the type of the operands (Where: of its branches).
#define LOOPS(kind, ...)                                                       \
  template <class T>                                                           \
  struct Loops<OpKind::k##kind, T> {                                           \
    static_assert(elementwise_takes(OpKind::k##kind) != 0, "not in the list"); \
    static constexpr TileFunction kByVariant[] = {__VA_ARGS__};                \
  };
#define FLOAT_LOOPS(kind, ...)                                                        \
  template <>                                                                         \
  struct Loops<OpKind::k##kind, float> {                                              \
    static_assert(elementwise_takes(OpKind::k##kind) & kOnFloats, "not in the list"); \
    static constexpr TileFunction kByVariant[] = {__VA_ARGS__};                       \
  };
LOOPS(Identity, &map_one<T, T, SameOp>)
LOOPS(Where, &where<T>)
LOOPS(Add, &map_two<T, T, AddOp>)
LOOPS(Sub, &map_two<T, T, SubOp>)
LOOPS(Mul, &map_two<T, T, MulOp>)
LOOPS(Div, &divide_integers<T>)
FLOAT_LOOPS(Div, &map_two<float, float, DivOp>)
LOOPS(Mod, &modulo_integers<T, true>, &modulo_integers<T, false>)
FLOAT_LOOPS(Mod, &map_two<float, float, ModOp>, &map_two<float, float, FModOp>)
FLOAT_LOOPS(Pow, &map_two<float, float, PowOp>)
LOOPS(Min, &fold<T, MinOp>)
LOOPS(Max, &fold<T, MaxOp>)
LOOPS(Sum, &fold<T, AddOp>)
FLOAT_LOOPS(Mean, &mean<float>)
LOOPS(Abs, &map_one<T, T, AbsOp>)
LOOPS(Neg, &map_one<T, T, NegOp>)
LOOPS(Sign, &map_one<T, T, SignOp>)
LOOPS(Relu, &map_one<T, T, ReluOp>)
LOOPS(PRelu, &map_two<T, T, PReluOp>)
LOOPS(Clip, &clip<T>)
LOOPS(Equal, &map_two<T, bool, CompareOp<std::equal_to<>>>)
LOOPS(Less, &map_two<T, bool, CompareOp<std::less<>>>)
LOOPS(LessOrEqual, &map_two<T, bool, CompareOp<std::less_equal<>>>)
LOOPS(Greater, &map_two<T, bool, CompareOp<std::greater<>>>)
LOOPS(GreaterOrEqual, &map_two<T, bool, CompareOp<std::greater_equal<>>>)
LOOPS(BitwiseAnd, &map_two<T, T, AndOp>)
LOOPS(BitwiseOr, &map_two<T, T, OrOp>)
LOOPS(BitwiseXor, &map_two<T, T, XorOp>)
LOOPS(BitwiseNot, &map_one<T, T, BitNotOp>)
LOOPS(Not, &map_one<T, T, NotOp>)
LOOPS(And, &map_two<T, T, AndOp>)
LOOPS(Or, &map_two<T, T, OrOp>)
LOOPS(Xor, &map_two<T, T, XorOp>)
FLOAT_LOOPS(IsNaN, &map_one<float, bool, IsNaNOp>)
FLOAT_LOOPS(IsInf, &is_inf)
FLOAT_LOOPS(Exp, &map_vectors<VectorOp<&vector_exp>>)
FLOAT_LOOPS(Log, &map_vectors<VectorOp<&vector_log>>)
FLOAT_LOOPS(Tanh, &map_vectors<VectorOp<&vector_tanh>>)
FLOAT_LOOPS(Sigmoid, &map_vectors<VectorOp<&vector_sigmoid>>)
FLOAT_LOOPS(Erf, &map_vectors<VectorOp<&vector_erf>>)
FLOAT_LOOPS(Sqrt, &map_vectors<VectorOp<&vector_sqrt>>)
FLOAT_LOOPS(Ceil, &map_vectors<VectorOp<&vector_ceil>>)
FLOAT_LOOPS(Floor, &map_vectors<VectorOp<&vector_floor>>)
FLOAT_LOOPS(Round, &map_vectors<VectorOp<&vector_round>>)
static_assert(static_cast<int>(GeluKind::kErf) == 0 && static_cast<int>(GeluKind::kTanh) == 1);
FLOAT_LOOPS(Gelu, &map_vectors<VectorOp<&vector_gelu_erf>>,
            &map_vectors<VectorOp<&vector_gelu_tanh>>)
FLOAT_LOOPS(Reciprocal, &map_one<float, float, LibraryOp<&reciprocal>>)
FLOAT_LOOPS(Sin, &map_one<float, float, LibraryOp<&sinf>>)
FLOAT_LOOPS(Cos, &map_one<float, float, LibraryOp<&cosf>>)
FLOAT_LOOPS(Tan, &map_one<float, float, LibraryOp<&tanf>>)
FLOAT_LOOPS(Asin, &map_one<float, float, LibraryOp<&asinf>>)
FLOAT_LOOPS(Acos, &map_one<float, float, LibraryOp<&acosf>>)
FLOAT_LOOPS(Atan, &map_one<float, float, LibraryOp<&atanf>>)
FLOAT_LOOPS(Sinh, &map_one<float, float, LibraryOp<&sinhf>>)
FLOAT_LOOPS(Cosh, &map_one<float, float, LibraryOp<&coshf>>)
FLOAT_LOOPS(Asinh, &map_one<float, float, LibraryOp<&asinhf>>)
FLOAT_LOOPS(Acosh, &map_one<float, float, LibraryOp<&acoshf>>)
FLOAT_LOOPS(Atanh, &map_one<float, float, LibraryOp<&atanhf>>)
FLOAT_LOOPS(Softplus, &map_one<float, float, LibraryOp<&softplus_nan>>)
FLOAT_LOOPS(Softsign, &map_one<float, float, LibraryOp<&softsign>>)
FLOAT_LOOPS(HardSwish, &map_one<float, float, LibraryOp<&hard_swish>>)
FLOAT_LOOPS(Mish, &map_one<float, float, LibraryOp<&mish>>)
FLOAT_LOOPS(LeakyRelu, &map_with_numbers<LeakyReluOp>)
FLOAT_LOOPS(Elu, &map_with_numbers<EluOp>)
FLOAT_LOOPS(Celu, &map_with_numbers<CeluOp>)
FLOAT_LOOPS(Selu, &map_with_numbers<SeluOp>)
FLOAT_LOOPS(HardSigmoid, &map_with_numbers<HardSigmoidOp>)
FLOAT_LOOPS(ThresholdedRelu, &map_with_numbers<ThresholdedReluOp>)
FLOAT_LOOPS(Swish, &map_with_numbers<SwishOp>)
#undef LOOPS
#undef FLOAT_LOOPS

// ---- the table

template <OpKind kOp, class T>
void add_loops(Rows& rows) {
  constexpr DType type = type_of<T>();
  const DType result = (flags(kOp) & kBoolResult) != 0 ? DType::kBool : type;
  int64_t variant = 0;
  for (TileFunction function : Loops<kOp, T>::kByVariant)
    rows.push_back({{kOp, type, result, variant++}, function});
}
template <class T>
void add_casts(Rows& rows) {
  const auto add = [&rows](auto result, TileFunction function) {
    rows.push_back({{OpKind::kCast, type_of<T>(), type_of<decltype(result)>()}, function});
  };
  add(float{}, &cast<T, float>);
  add(int32_t{}, &cast<T, int32_t>);
  add(int64_t{}, &cast<T, int64_t>);
  add(int8_t{}, &cast<T, int8_t>);
  add(uint8_t{}, &cast<T, uint8_t>);
  add(bool{}, &cast<T, bool>);
}
template <OpKind kOp, class T>
void add_type(Rows& rows) {
  if constexpr (kOp == OpKind::kCast)
    add_casts<T>(rows);
  else
    add_loops<kOp, T>(rows);
}
template <OpKind kOp>
void add_rows(Rows& rows) {
  constexpr uint32_t kTakes = elementwise_takes(kOp);
  if constexpr ((kTakes & kOnFloats) != 0) add_type<kOp, float>(rows);
  if constexpr ((kTakes & kOnIntegers) != 0) {
    add_type<kOp, int32_t>(rows);
    add_type<kOp, int64_t>(rows);
  }
  if constexpr ((kTakes & kOnBools) != 0) add_type<kOp, bool>(rows);
  if constexpr (is_elementwise_move(kOp)) {
    add_type<kOp, int8_t>(rows);
    add_type<kOp, uint8_t>(rows);
  }
}

Rows make_rows() {
  Rows rows;
#define ELEMENTWISE(kind, elements) add_rows<OpKind::k##kind>(rows);
#include "backend/elementwise_ops.def"
  return rows;
}

}  // namespace tiles

TileFunction FindTileFunction(const TileKey& key) {
  static const tiles::Rows rows = tiles::make_rows();
  for (const tiles::Row& row : rows) {
    if (row.key.op == key.op && row.key.operand == key.operand && row.key.result == key.result &&
        row.key.variant == key.variant) {
      return row.function;
    }
  }
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(FindTileFunction);
TileFunction find_tile_function(const TileKey& key) {
  return HWY_DYNAMIC_DISPATCH(FindTileFunction)(key);
}
}  // namespace vernier::backend::cpu
#endif
