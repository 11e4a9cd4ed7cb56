// Requests and numerics: what is asked of a node, and what a kernel declares. Words:
// docs/architecture.md and docs/design.md (request, rule, numerics, floor, exact).
#pragma once
#include <optional>
#include <string>

#include "core/dtype.h"
#include "core/error.h"
#include "core/op_kind.h"
#include "core/rounding.h"

namespace vernier {

/// The requested type of one part: floor (`=`: at least this) or exact (`==`). kUndefined: none.
struct TypeRequest {
  DType type = DType::kUndefined;
  bool exact = false;
};

/// What is asked of a node, and who asked: "model", "mode fp32", "rule 2", "search".
/// compute     the type operands are taken in; of a product (kProduct: Linear, MatMul, Conv,
///             Attention …) the operands of the products only
/// inner       of a product: the compute type of all its other parts (softmax, activation, bias,
///             residual). kUndefined for other operators
/// accumulate  the type sums are carried in; i32, which is exact, meets every floor
/// store       the type its results are held in
struct Request {
  TypeRequest compute, accumulate, store;
  std::string by;
  TypeRequest inner = {};
};

/// What a kernel does to a node that it covers.
struct Numerics {
  DType store = DType::kF32;                       ///< of its floating outputs
  DType compute = DType::kF32;                     ///< operands are taken in this type
  DType accumulate = DType::kF32;                  ///< sums are carried in this type
  DType inner = DType::kF32;                       ///< of a product: the rest of it, as in Request
  std::array<PointRounding, kMaxPoints> points{};  ///< by rounding_points(op)
  double approximation_abs = 0;  ///< declared error of its approximations, absolute …
  double approximation_rel = 0;  ///< … plus relative to the result
  /// How sums are carried in `accumulate`: PointRounding::mode and block.
  PointRounding::Mode accumulate_mode = PointRounding::Mode::kNearest;
  int64_t accumulate_block = 0;
  /// What adding up in a way that is less exact than f32 adds to a sum's error: its rms, as a part
  /// of the root of the sum of the terms' squares, and of the sum. I takes f32 for `accumulate`
  /// then. 0: nothing.
  double sum_error = 0;

  friend bool operator==(const Numerics&, const Numerics&) = default;
};

/// The roundings that evaluate what a kernel with these numerics does to a node of kind `op`.
Rounding rounding_of(OpKind op, const Numerics& numerics);
/// True if I simulates `rounding` element by element: a type narrower than f32, a promoted
/// accumulator, or truncation. Plain f32 and f64 are a statistical term (docs/numerics.md).
bool is_simulated(const PointRounding& rounding);
/// The part of rounding_of() that I simulates.
Rounding ideal_rounding(OpKind op, const Numerics& numerics);
/// The inner results of a chain of elementwise operators in f32. They may be far larger than its
/// operands and its result (log(1 + x), x + 5000 - 5000), so that noise on the operands does not
/// stand for their roundings: what draws noise rounds them too. Nothing for other operators.
PointRounding inner_of_chain(OpKind op, const Numerics& numerics);

/// True iff every value of `b` is a value of `a` (f64 ≥ f32 ≥ tf32 ≥ {f16, bf16} ≥ f8 and
/// q8).
bool represents(DType a, DType b);
/// A float type that is stored in fewer bytes than f32. tf32 is a compute type and never stored.
bool is_narrow(DType type);
/// A float type that does not represent every value of f32: the narrow ones and tf32.
bool below_f32(DType type);
/// The largest finite number of a float type.
double largest_finite(DType type);
/// Values this many times as large as those seen or known must fit a type: other inputs may be
/// larger.
inline constexpr double kRangeMargin = 2;
/// The request that satisfies both: part by part the type that represents the other's (an exact one
/// wins over a floor). `by` is that of the request that prevails, `a`'s where both ask the same.
/// Empty where no type satisfies both.
std::optional<Request> common_request(const Request& a, const Request& b);
/// The request of a step that computes `producer` and hands its result to `consumer` in f32
/// registers; empty where that breaks either. What each fusion asks before it is made. A part that
/// is no product (`Part::kOther`) computes in the `inner` type of one that is.
enum class Part : uint8_t { kProduct, kOther };
std::optional<Request> fused_request(const Request& producer, Part producer_part,
                                     const Request& consumer, Part consumer_part);
/// "compute >= f16, store == f32 (rule 2)", for messages.
std::string request_text(const Request& request);
/// Yes, or which part falls short: "computes in f16, asked for at least f32 (rule 2)".
Support satisfies(const Numerics& got, const Request& asked);

}  // namespace vernier
