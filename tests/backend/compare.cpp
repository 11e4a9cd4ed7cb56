// What a row may answer to a case, and the comparison with what it did: see harness.h.
#include <array>
#include <cmath>
#include <cstring>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

// Is `got` a rounding of something within `limit` of `want`? Rounding is monotonic.
bool matches(double got, double want, DType type, double limit) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return round_to(type, want - limit) <= got && got <= round_to(type, want + limit);
}

double largest_finite(const EvalTensor& t) {
  double largest = 0;
  for (double v : t.f) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  return largest;
}

double largest_difference(const EvalTensor& a, const EvalTensor& b) {
  double largest = 0;
  for (size_t i = 0; i < a.f.size(); ++i) {
    const double difference = std::abs(a.f[i] - b.f[i]);
    if (std::isfinite(difference)) largest = std::max(largest, difference);
  }
  return largest;
}

// Roundings inside the operator, of its operands alone or of everything before the output.
enum class Inside : uint8_t { kOperands, kAll };
Rounding inner_roundings(OpKind op, const Numerics& numerics, Inside inside) {
  const auto points = rounding_points(op);
  const Rounding declared = ideal_rounding(op, numerics);
  Rounding rounding;
  if (inside == Inside::kAll) {
    rounding.set_accumulator(declared.accumulator());
    rounding.set_inner(declared.inner());
  }
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const bool operand = points[i].size() == 1;  // a b, q k v, x
    if (operand || inside == Inside::kAll) rounding.set(i, declared.at(i));
  }
  return rounding;
}

bool acts(OpKind op, const Rounding& rounding) {
  bool any = rounding.accumulator().type != DType::kUndefined ||
             rounding.inner().type != DType::kUndefined;
  for (size_t i = 0; i < rounding_points(op).size(); ++i) any = any || rounding.changes(i);
  return any;
}

}  // namespace

Tensor pick(const Tensor& t, int axis, std::span<const int64_t> rows) {
  const auto k = static_cast<size_t>(axis);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < t.rank(); ++i) {
    if (i < k) outer *= t.shape()[i];
    if (i > k) inner *= t.shape()[i];
  }
  const size_t run = static_cast<size_t>(inner) * size_bytes(t.dtype());
  std::vector<std::byte> bytes;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t row : rows) {
      const std::byte* src = t.data() + static_cast<size_t>(o * t.shape()[k] + row) * run;
      bytes.insert(bytes.end(), src, src + run);
    }
  }
  Shape shape = t.shape();
  shape[k] = static_cast<int64_t>(rows.size());
  return Tensor::from_bytes(t.dtype(), shape, bytes);
}

Tensor slice(const Tensor& t, int axis, int64_t index) { return pick(t, axis, std::array{index}); }

OpCase with_rows(const OpCase& c, std::span<const int64_t> rows) {
  OpCase part = c;
  for (Arg& arg : part.inputs) {
    if (arg.value.defined() && arg.batch_axis >= 0)
      arg.value = pick(arg.value, arg.batch_axis, rows);
  }
  for (Out& out : part.outputs) {
    if (out.dtype != DType::kUndefined && out.batch_axis >= 0)
      out.shape[static_cast<size_t>(out.batch_axis)] = static_cast<int64_t>(rows.size());
  }
  return part;
}

int64_t batch_of(const OpCase& c) {
  for (const Arg& arg : c.inputs) {
    if (arg.value.defined() && arg.batch_axis >= 0)
      return arg.value.shape()[static_cast<size_t>(arg.batch_axis)];
  }
  return 0;
}

Expected expected_of(const KernelDef& kernel, const OpCase& c) {
  const Numerics numerics = kernel.numerics(make_problem(c));
  Expected want{
      .values = {}, .absolute = numerics.approximation_abs, .relative = numerics.approximation_rel};
  // Tensor cores cut products off instead of rounding them: up to four times the error (Fasi,
  // Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021).
  if ((flags(c.op) & kProduct) != 0 && !represents(numerics.compute, DType::kF32))
    want.ulps_factor = 4;
  want.sum_error = numerics.sum_error;
  const Rounding all = inner_roundings(c.op, numerics, Inside::kAll);
  want.values = run_reference(c, all);
  if (!acts(c.op, all)) return want;
  const std::vector<EvalTensor> operands =
      run_reference(c, inner_roundings(c.op, numerics, Inside::kOperands));
  for (size_t o = 0; o < operands.size(); ++o)
    want.roundings.push_back(4 * largest_difference(want.values[o], operands[o]));
  return want;
}

std::string compare(const OpCase& c, const Results& got, const Expected& want) {
  for (size_t o = 0; o < got.size(); ++o) {
    if (!got[o].defined()) continue;
    const EvalTensor& values = want.values[o];
    const auto where = [&](int64_t i) {
      return "output " + std::to_string(o) + " element " + std::to_string(i) + " of " +
             str(got[o].shape());
    };
    const double largest = largest_finite(values);
    // A sum is seldom larger than a few roots of the sum of its terms' squares.
    constexpr double kDeviations = 4;
    const double arithmetic = (want.ulps_factor * c.ulps * 0x1p-24 + kDeviations * want.sum_error) *
                                  std::max(largest, 1e-30) +
                              (o < want.roundings.size() ? want.roundings[o] : 0);
    for (int64_t i = 0; i < got[o].elems(); ++i) {
      if (!values.is_float()) {
        const int64_t a = got[o].integer_at(i), b = values.i[static_cast<size_t>(i)];
        if (a != b) return where(i) + ": " + std::to_string(a) + ", expected " + std::to_string(b);
        continue;
      }
      const double a = got[o].float_at(i);
      const double b = values.f[static_cast<size_t>(i)];
      const double limit = c.exact ? 0 : arithmetic + want.absolute + want.relative * std::abs(b);
      if (!matches(a, b, got[o].dtype(), limit)) {
        return where(i) + ": " + std::to_string(a) + ", expected " + std::to_string(b) +
               ", difference " + std::to_string(std::abs(a - b) / (0x1p-24 * largest)) +
               " ulp of the largest, limit " + std::to_string(limit / (0x1p-24 * largest));
      }
    }
  }
  return "";
}

std::string compare_bits(const Tensor& a, const Tensor& b) {
  if (a.bytes() != b.bytes()) return "sizes differ: " + str(a.shape()) + " " + str(b.shape());
  const size_t width = size_bytes(a.dtype());
  for (size_t i = 0; i < a.bytes(); i += width) {
    if (std::memcmp(a.data() + i, b.data() + i, width) != 0)
      return "element " + std::to_string(i / width) + " of " + str(a.shape());
  }
  return "";
}

}  // namespace vernier::backend::test
