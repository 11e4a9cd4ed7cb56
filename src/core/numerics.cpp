// The precision lattice: see numerics.h.
#include "core/numerics.h"

#include <bit>
#include <cmath>
#include <limits>

namespace vernier {

double largest_finite(DType type) {
  // Positive doubles are in the order of their bits.
  uint64_t low = std::bit_cast<uint64_t>(1.0),
           high = std::bit_cast<uint64_t>(std::numeric_limits<double>::infinity());
  while (high - low > 1) {
    const uint64_t middle = low + (high - low) / 2;
    (std::isfinite(round_to(type, std::bit_cast<double>(middle))) ? low : high) = middle;
  }
  return round_to(type, std::bit_cast<double>(low));
}

bool represents(DType a, DType b) {
  if (a == b) return true;
  switch (a) {
    case DType::kF64:
      return is_float(b);
    case DType::kF32:
      return is_float(b) && b != DType::kF64;
    // tf32 has bf16's exponent and f16's mantissa.
    case DType::kTF32:
      return b == DType::kF16 || b == DType::kBF16 || represents(DType::kBF16, b);
    case DType::kF16:
      return (is_small_float(b) && b != DType::kF8E8M0) || (b >= DType::kQ8 && b <= DType::kW4);
    case DType::kBF16:
      return is_small_float(b) || (b >= DType::kQ8 && b <= DType::kW4);
    case DType::kW8:  // its other operand is no narrower than q8
      return b == DType::kQ8 || b == DType::kQ4 || b == DType::kW4;
    case DType::kQ8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return b == DType::kQ4 || (a != DType::kQ8 && b == DType::kF4E2M1);
    default:
      return false;
  }
}

bool is_narrow(DType type) {
  return is_float(type) && size_bytes(type) > 0 && size_bytes(type) < size_bytes(DType::kF32);
}

bool below_f32(DType type) { return is_float(type) && !represents(type, DType::kF32); }

bool is_simulated(const PointRounding& rounding) {
  if (rounding.type == DType::kUndefined || rounding.type == DType::kF64 ||
      rounding.type == DType::kI32)
    return false;
  return rounding.type != DType::kF32 || rounding.block > 0 ||
         rounding.mode == PointRounding::Mode::kTruncate;
}

namespace {
// The declared roundings for which `keeps` is true.
Rounding declared(OpKind op, const Numerics& numerics, bool (*keeps)(const PointRounding&)) {
  Rounding rounding;
  for (size_t i = 0; i < rounding_points(op).size(); ++i) {
    if (keeps(numerics.points[i])) rounding.set(i, numerics.points[i]);
  }
  // An error that is declared stands for what the type does.
  const DType sum_type = numerics.sum_error > 0 ? DType::kF32 : numerics.accumulate;
  const PointRounding sums{sum_type, numerics.accumulate_mode, numerics.accumulate_block};
  if (keeps(sums)) rounding.set_accumulator(sums);
  const PointRounding inner{(flags(op) & kProduct) != 0 ? numerics.inner : numerics.compute};
  if (keeps(inner)) rounding.set_inner(inner);
  return rounding;
}
}  // namespace

Rounding rounding_of(OpKind op, const Numerics& numerics) {
  return declared(op, numerics, [](const PointRounding&) { return true; });
}
Rounding ideal_rounding(OpKind op, const Numerics& numerics) {
  return declared(op, numerics, is_simulated);
}

PointRounding inner_of_chain(OpKind op, const Numerics& numerics) {
  const bool is_chain = op == OpKind::kFusedElementwise && numerics.compute == DType::kF32;
  return is_chain ? PointRounding{DType::kF32} : PointRounding{};
}

namespace {
std::string shortfall(const char* what, DType got, const TypeRequest& asked,
                      const std::string& by) {
  if (asked.type == DType::kUndefined) return "";
  if (asked.exact ? got == asked.type : represents(got, asked.type)) return "";
  if (got == DType::kI32 && !asked.exact) return "";  // sums of integers are exact
  return std::string(what) + " in " + std::string(name(got)) + ", asked for " +
         (asked.exact ? "exactly " : "at least ") + std::string(name(asked.type)) +
         (by.empty() ? "" : " (" + by + ")");
}
}  // namespace

namespace {

struct Choice {
  TypeRequest type;
  bool is_second = false;  ///< b's request, not a's
};

// The stronger of two requests for one part; empty if no type satisfies both.
std::optional<Choice> stronger(const TypeRequest& a, const TypeRequest& b) {
  if (b.type == DType::kUndefined) return Choice{a};
  if (a.type == DType::kUndefined) return Choice{b, true};
  const auto fits = [](const TypeRequest& chosen, const TypeRequest& other) {
    return other.exact ? chosen.type == other.type : represents(chosen.type, other.type);
  };
  // An exact request cannot be raised; a floor can.
  if (fits(a, b) && (a.exact || !b.exact)) return Choice{a};
  if (fits(b, a) && (b.exact || !a.exact)) return Choice{b, true};
  if (a.exact || b.exact) return std::nullopt;
  return Choice{{DType::kF32, false}};  // f16 and bf16: only f32 holds both
}

constexpr TypeRequest Request::*kWishes[] = {&Request::compute, &Request::accumulate,
                                             &Request::store, &Request::inner};

}  // namespace

std::optional<Request> common_request(const Request& a, const Request& b) {
  Request result;
  result.by = a.by;
  for (TypeRequest Request::*wish : kWishes) {
    const auto choice = stronger(a.*wish, b.*wish);
    if (!choice) return std::nullopt;
    result.*wish = choice->type;
    if (choice->is_second) result.by = b.by;
  }
  return result;
}

std::optional<Request> fused_request(const Request& producer, Part producer_part,
                                     const Request& consumer, Part consumer_part) {
  // The value between them is in an f32 register, which meets every floor, but not every exact
  // type.
  if (producer.store.exact && producer.store.type != DType::kF32) return std::nullopt;
  const auto as_inner = [](Request r) {
    r.inner = r.compute;
    r.compute = {};
    return r;
  };
  const bool any_product = producer_part == Part::kProduct || consumer_part == Part::kProduct;
  Request a = any_product && producer_part == Part::kOther ? as_inner(producer) : producer;
  const Request b = any_product && consumer_part == Part::kOther ? as_inner(consumer) : consumer;
  a.store = {};
  return common_request(a, b);
}

std::string request_text(const Request& r) {
  std::string text;
  const auto add = [&](const char* part, const TypeRequest& type) {
    if (type.type == DType::kUndefined) return;
    text += (text.empty() ? "" : ", ") + std::string(part) + (type.exact ? " == " : " >= ") +
            std::string(name(type.type));
  };
  add("compute", r.compute);
  add("inner", r.inner);
  add("accumulate", r.accumulate);
  add("store", r.store);
  return text.empty() ? "nothing in particular" : text + " (" + r.by + ")";
}

Support satisfies(const Numerics& got, const Request& asked) {
  std::string reason = shortfall("computes", got.compute, asked.compute, asked.by);
  if (reason.empty()) reason = shortfall("accumulates", got.accumulate, asked.accumulate, asked.by);
  if (reason.empty()) reason = shortfall("stores", got.store, asked.store, asked.by);
  if (reason.empty()) reason = shortfall("computes other parts", got.inner, asked.inner, asked.by);
  return reason.empty() ? yes() : no(reason);
}

}  // namespace vernier
