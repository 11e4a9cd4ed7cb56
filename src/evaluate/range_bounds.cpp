// Bounds of a plan's values: see range_bounds.h. All are in exact arithmetic; kSlack covers the
// rounding of their own sums and of FP64's.
#include "evaluate/range_bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/attrs.h"
#include "core/elementwise_program.h"
#include "core/threads.h"

namespace vernier::evaluate {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::max(), kSlack = 1.01;
using Numbers = std::vector<double>;

// |x| of every element, and the length (2-norm) of every row along the last axis.
struct Bound {
  double peak = kUnknown, row = kUnknown;
  bool is_flag = false;  // 0 or 1
  // Rows are z·gain + offset with z of at most this length, where gain is not empty.
  double z = kUnknown;
  Numbers gain, offset;
};

Bound of_peak(double peak, double row = kUnknown) {
  return {.peak = peak, .row = row, .gain = {}, .offset = {}};
}

double sum_of(double a, double b) { return std::min(a + b, kUnknown); }
double product_of(double a, double b) { return std::min(a * b, kUnknown); }

double length_of(const Numbers& numbers) {
  double squares = 0;
  for (const double v : numbers) squares += v * v;
  return std::sqrt(squares);
}
bool is_finite(const Numbers& numbers) {
  return std::ranges::all_of(numbers, [](double v) { return std::isfinite(v); });
}
double largest(const Numbers& numbers) {
  double most = 0;
  for (const double v : numbers) most = std::max(most, std::abs(v));
  return most;
}

// Of a matrix [K, N] times a factor of each row: the length of every column, and the product with
// `offset`, which may be empty.
struct Columns {
  Numbers lengths, products;
};
struct Rows {
  const Numbers& gain;  // of K, or empty: 1
  const Numbers& offset;
  double gain_of(int64_t k) const { return gain.empty() ? 1 : gain[k]; }
  double offset_of(int64_t k) const { return offset.empty() ? 0 : offset[k]; }
};

template <class T>
Columns columns_of(const T* w, const Shape& shape, bool transposed, const Rows& rows) {
  constexpr int64_t kLeastElems = int64_t{1} << 18;  // of a thread
  const int64_t n = shape[transposed ? 0 : 1], k = shape[transposed ? 1 : 0];
  Columns all{Numbers(n, 0.0), Numbers(n, 0.0)};
  std::mutex mutex;
  const auto take_rows = [&](int64_t begin, int64_t end) {
    Numbers squares(n, 0.0), products(n, 0.0);
    for (int64_t i = begin; i < end; ++i) {
      const double square = rows.gain_of(i) * rows.gain_of(i), offset = rows.offset_of(i);
      const T* row = w + i * n;
      for (int64_t j = 0; j < n; ++j) {
        const double v = row[j];
        squares[j] += square * (v * v);
        products[j] += offset * v;
      }
    }
    const std::lock_guard lock(mutex);
    for (int64_t j = 0; j < n; ++j) {
      all.lengths[j] += squares[j];
      all.products[j] += products[j];
    }
  };
  const auto take_columns = [&](int64_t begin, int64_t end) {
    for (int64_t j = begin; j < end; ++j) {
      const T* column = w + j * k;
      for (int64_t i = 0; i < k; ++i) {
        const double v = column[i], scaled = rows.gain_of(i) * v;
        all.lengths[j] += scaled * scaled;
        all.products[j] += rows.offset_of(i) * v;
      }
    }
  };
  const int64_t other = std::max<int64_t>(1, transposed ? k : n);
  in_parallel(transposed ? n : k, std::max<int64_t>(1, kLeastElems / other),
              [&](int64_t begin, int64_t end) {
                transposed ? take_columns(begin, end) : take_rows(begin, end);
              });
  for (double& length : all.lengths) length = std::sqrt(length);
  return all;
}

// The largest |element| of a float array; kUnknown where one is not finite.
double peak_of(const Tensor& t) {
  constexpr int64_t kLeastElems = int64_t{1} << 20;  // of a thread
  if (t.dtype() != DType::kF32) {
    const Numbers numbers = EvalTensor::from(t).f;
    return is_finite(numbers) ? largest(numbers) : kUnknown;
  }
  int32_t most = 0;  // without the sign, the bits of floats are ordered by magnitude
  std::mutex mutex;
  in_parallel(t.elems(), kLeastElems, [&](int64_t begin, int64_t end) {
    const auto* bits = reinterpret_cast<const int32_t*>(t.data());
    int32_t here = 0;
    for (int64_t i = begin; i < end; ++i) here = std::max(here, bits[i] & 0x7fff'ffff);
    const std::lock_guard lock(mutex);
    most = std::max(most, here);
  });
  const double peak = std::bit_cast<float>(most);
  return std::isfinite(peak) ? peak : kUnknown;
}

// act(x) is at most as large as x.
bool shrinks(Activation activation) {
  using enum Activation;
  return activation == kNone || activation == kGeluErf || activation == kGeluTanh ||
         activation == kRelu || activation == kTanh;
}

// Of one elementwise operator on floats.
double peak_of_elementwise(OpKind op, const Numbers& x) {
  switch (op) {
    case OpKind::kAdd:
    case OpKind::kSub:
      return sum_of(x[0], x[1]);
    case OpKind::kMul:
      return product_of(x[0], x[1]);
    case OpKind::kTanh:
    case OpKind::kErf:
    case OpKind::kSigmoid:
      return 1;
    case OpKind::kAbs:
    case OpKind::kNeg:
    case OpKind::kRelu:
    case OpKind::kGelu:
      return x[0];
    default:
      return kUnknown;
  }
}

class Bounds {
 public:
  explicit Bounds(const plan::Plan& plan) : plan_(plan), bounds_(plan.values.size()) {}

  void set_inputs(const Domains& domains) {
    using Kind = InputDomain::Kind;
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const auto domain =
          std::ranges::find(domains.inputs, plan_.input_names[i], &InputDomain::name);
      if (domain == domains.inputs.end()) continue;
      const bool is_flag = domain->kind == Kind::kMask || domain->kind == Kind::kFlags;
      const bool is_real = domain->kind == Kind::kUniform || domain->kind == Kind::kNormal;
      Bound bound = of_peak(1);
      bound.is_flag = is_flag;
      if (is_real) bound.peak = std::max(std::abs(domain->min), std::abs(domain->max));
      if (!is_real && !is_flag)
        bound.peak = static_cast<double>(std::max(std::abs(domain->low), std::abs(domain->high)));
      set(plan_.inputs[i], std::move(bound));
    }
  }

  /// Bounds at the rounding points of a step, all of which have one; its results' are kept.
  PointPeaks of_step(size_t index) {
    const plan::Step& step = plan_.steps[index];
    PointPeaks peaks;
    peaks.fill(kUnknown);
    switch (step.op) {
      case OpKind::kLinear:
        take_linear(step, peaks);
        break;
      case OpKind::kQuantizeRows:
        peaks[0] = 0;  // its scales are chosen for what is there
        return peaks;
      case OpKind::kQuantizedLinear:
        take_quantized_linear(step, peaks);
        break;
      case OpKind::kLayerNorm:
        take_norm(step, {.x = 0, .scale = 1}, of(step, 0).peak, peaks);
        break;
      case OpKind::kAddLayerNorm:
        take_add_norm(step, peaks);
        break;
      case OpKind::kEmbedNorm:
        take_norm(step, {.x = 0, .scale = 2 * tables_of(step)}, kUnknown, peaks);
        break;
      case OpKind::kAttention:
        take_attention(step, peaks);
        break;
      case OpKind::kConv:
        take_conv(step, peaks);
        break;
      case OpKind::kMaskedMean:
        if (!of(step, 1).is_flag) break;
        peaks[0] = of(step, 0).peak;
        set(step.outputs[0], of_peak(peaks[0], of(step, 0).row));
        break;
      case OpKind::kL2Norm:
      case OpKind::kSoftmax:
        peaks[0] = 1;
        break;
      case OpKind::kFusedElementwise:
        take_program(step, peaks);
        break;
      case OpKind::kCast:
        take_cast(step, peaks);
        break;
      case OpKind::kGather:
      case OpKind::kReshape:
      case OpKind::kTranspose:
      case OpKind::kSlice:
      case OpKind::kSplit:
      case OpKind::kConcat:
        take_moved(step, peaks);
        break;
      default:
        if ((flags(step.op) & kElementwise) != 0 && has_float_inputs(step))
          peaks[0] = peak_of_elementwise(step.op, peaks_of_inputs(step));
        break;
    }
    const bool is_set = step.has_output(0) && bounds_[step.outputs[0]].peak < kUnknown;
    const size_t points = std::max<size_t>(1, rounding_points(step.op).size());
    if (!is_set && step.has_output(0) && peaks[points - 1] < kUnknown)
      set(step.outputs[0], of_peak(peaks[points - 1]));
    for (double& peak : peaks) peak = product_of(peak, kSlack);
    return peaks;
  }

  /// Do the plain constants that a product takes fit the type that it takes them in? As
  /// Ranges::note_constants() has them.
  bool constants_fit(const plan::Step& step) const {
    const DType type = step.numerics.compute;
    const bool is_scaled = step.op == OpKind::kQuantizedLinear && is_small_float(type);
    if ((flags(step.op) & kProduct) == 0 || !is_narrow(type) || is_scaled) return true;
    const size_t operands =
        std::min<size_t>(step.op == OpKind::kAttention ? 3 : 2, step.inputs.size());
    for (size_t i = 0; i < operands; ++i) {
      if (!step.has_input(i)) continue;
      const plan::PlanValue& v = plan_.value(step.inputs[i]);
      if (v.kind == plan::PlanValue::Kind::kConstant && is_float(v.dtype) &&
          !range_fits(peak_of_blob(v.constant), type))
        return false;
    }
    return true;
  }

 private:
  // Integers may wrap.
  bool has_float_inputs(const plan::Step& step) const {
    return std::ranges::all_of(step.inputs, [&](int32_t in) {
      return in != plan::kNone && is_float(plan_.value(in).dtype);
    });
  }
  Numbers peaks_of_inputs(const plan::Step& step) const {
    Numbers peaks;
    for (size_t i = 0; i < step.inputs.size(); ++i) peaks.push_back(of(step, i).peak);
    return peaks;
  }
  void take_program(const plan::Step& step, PointPeaks& peaks) const {
    if (!has_float_inputs(step)) return;
    const std::string text = decode<FusedElementwiseAttrs>(step.attrs).program;
    Numbers known = peaks_of_inputs(step);
    for (const Instruction& one : parse_elementwise_program(text, step.inputs.size())) {
      Numbers operands;
      for (const int index : one.operands) operands.push_back(known[index]);
      known.push_back(peak_of_elementwise(one.op, operands));
    }
    peaks[0] = known.back();
  }

  // What a LayerNorm's inputs and points begin with.
  struct Norm {
    size_t x, scale;
  };

  static size_t tables_of(const plan::Step& step) {
    return static_cast<size_t>(decode<EmbedNormAttrs>(step.attrs).tables);
  }

  std::optional<int64_t> width_of(int32_t index) const {
    const SymShape& shape = plan_.value(index).shape;
    return shape.empty() ? std::optional<int64_t>(1) : shape.back().as_constant();
  }

  void set(int32_t index, Bound bound) {
    if (const auto width = width_of(index))
      bound.row =
          std::min(bound.row, product_of(bound.peak, std::sqrt(static_cast<double>(*width))));
    bound.peak = std::min(bound.peak, bound.row);
    bounds_[index] = std::move(bound);
  }

  Bound of(const plan::Step& step, size_t input) const {
    return step.has_input(input) ? of(step.inputs[input]) : Bound();
  }
  Bound of(int32_t index) const {
    const plan::PlanValue& v = plan_.value(index);
    if (v.kind == plan::PlanValue::Kind::kConstant) return of_constant(v);
    if (v.kind != plan::PlanValue::Kind::kAlias) return bounds_[index];
    const Bound base = of(v.alias_of);
    const auto width = width_of(index), whole = width_of(v.alias_of);
    if (width && width == whole && plan_.shows_all_of(index, v.alias_of)) return base;
    Bound view = of_peak(base.peak);
    view.is_flag = base.is_flag;
    if (!width) return view;
    view.row = product_of(view.peak, std::sqrt(static_cast<double>(*width)));
    // So many of the base's rows can elements beside each other lie in.
    const bool is_dense = v.strides.empty() || v.strides.back() == Dim(1);
    if (is_dense && whole && *whole > 0) {
      const int64_t rows = (*width + *whole - 2) / *whole + 1;
      view.row = std::min(view.row, product_of(base.row, std::sqrt(static_cast<double>(rows))));
    }
    return view;
  }
  double peak_of_blob(int32_t blob) const {
    const auto [known, fresh] = peaks_.try_emplace(blob, 0.0);
    if (fresh) known->second = peak_of(plan_.blob(blob).bytes);
    return known->second;
  }
  Bound of_constant(const plan::PlanValue& v) const {
    const Tensor& t = plan_.blob(v.constant).bytes;
    Bound bound = is_float(t.dtype()) ? of_peak(peak_of_blob(v.constant)) : Bound();
    if (!t.shape().empty())
      bound.row = product_of(bound.peak, std::sqrt(static_cast<double>(t.shape().back())));
    return bound;
  }
  // The numbers of a constant of one axis; empty: none, or not finite.
  Numbers numbers_of(const plan::Step& step, size_t input) const {
    const Tensor* t = constant_of(step, input);
    if (t == nullptr || !is_float(t->dtype())) return {};
    Numbers numbers = EvalTensor::from(*t).f;
    return is_finite(numbers) ? numbers : Numbers();
  }
  const Tensor* constant_of(const plan::Step& step, size_t input) const {
    if (!step.has_input(input)) return nullptr;
    const plan::PlanValue& v = plan_.value(step.inputs[input]);
    return v.kind == plan::PlanValue::Kind::kConstant ? &plan_.blob(v.constant).bytes : nullptr;
  }

  // Adds a bias, which may be absent. False: it has no bound.
  bool add_bias(const plan::Step& step, size_t input, Numbers& sums) const {
    if (!step.has_input(input)) return true;
    const Numbers bias = numbers_of(step, input);
    if (bias.size() != sums.size()) return false;
    for (size_t j = 0; j < sums.size(); ++j) sums[j] += bias[j];
    return true;
  }

  struct Product {
    const Tensor* weight;
    bool transposed;
    Activation activation;
    size_t bias, residual;         // inputs
    Numbers factors, scales = {};  // of K and N, by which x and the result are multiplied
  };

  // A bound of act(x·w + bias) + residual.
  Bound of_product(const plan::Step& step, const Bound& x, const Product& product) const {
    const Tensor& weight = *product.weight;
    const bool is_known = x.row < kUnknown && weight.rank() == 2 && is_float(weight.dtype());
    if (!is_known || !shrinks(product.activation)) return {};
    const auto k = static_cast<size_t>(weight.shape()[product.transposed ? 1 : 0]);
    const bool is_split = x.gain.size() == k && product.factors.empty();
    if (!product.factors.empty() && product.factors.size() != k) return {};
    const Numbers nothing;
    const Rows taken{is_split ? x.gain : product.factors, is_split ? x.offset : nothing};
    Columns columns;
    if (weight.dtype() == DType::kF32) {
      columns = columns_of(reinterpret_cast<const float*>(weight.data()), weight.shape(),
                           product.transposed, taken);
    } else {
      const EvalTensor wide = EvalTensor::from(weight);
      columns = columns_of(wide.f.data(), weight.shape(), product.transposed, taken);
    }
    const double length = is_split ? x.z : x.row;
    const size_t n = columns.lengths.size();
    Numbers sums = std::move(columns.products);
    for (size_t j = 0; j < n; ++j) {
      const double scale = product.scales.empty() ? 1 : std::abs(product.scales[j]);
      if (!product.scales.empty()) sums[j] *= product.scales[j];
      columns.lengths[j] *= length * scale;
    }
    if (!add_bias(step, product.bias, sums)) return {};
    for (size_t j = 0; j < n; ++j) sums[j] = std::abs(sums[j]) + columns.lengths[j];
    Bound y = of_peak(largest(sums), length_of(sums));
    if (!std::isfinite(y.peak) || !std::isfinite(y.row)) return {};
    if (step.has_input(product.residual)) {
      const Bound residual = of(step, product.residual);
      y.peak = sum_of(y.peak, residual.peak);
      y.row = sum_of(y.row, residual.row);
    }
    return y;
  }

  void take_linear(const plan::Step& step, PointPeaks& peaks) {
    const auto attrs = decode<LinearAttrs>(step.attrs);
    const Bound x = of(step, 0);
    peaks[0] = x.peak;
    const Tensor* weight = constant_of(step, 1);
    if (weight == nullptr || !is_float(weight->dtype())) return;
    peaks[1] = of(step, 1).peak;
    Bound y = of_product(step, x,
                         {.weight = weight,
                          .transposed = attrs.trans_w,
                          .activation = attrs.activation,
                          .bias = 2,
                          .residual = 3,
                          .factors = {}});
    peaks[2] = y.peak;
    set(step.outputs[0], std::move(y));
  }

  // Without rounding, what QuantizeRows does to the rows is undone.
  void take_quantized_linear(const plan::Step& step, PointPeaks& peaks) {
    const auto attrs = decode<QuantizedLinearAttrs>(step.attrs);
    const auto producer = std::ranges::find_if(plan_.steps, [&](const plan::Step& other) {
      return step.has_input(0) && other.has_output(0) && other.outputs[0] == step.inputs[0];
    });
    const Tensor* weight = constant_of(step, 1);
    if (producer == plan_.steps.end() || producer->op != OpKind::kQuantizeRows ||
        weight == nullptr || !is_float(weight->dtype()) || step.has_input(5))
      return;
    const bool is_static = producer->has_input(2);
    const auto same = [&](size_t input, size_t made) {
      const int32_t mine = step.has_input(input) ? step.inputs[input] : plan::kNone;
      if (is_static)
        return mine == (producer->has_input(made + 1) ? producer->inputs[made + 1] : -1);
      return mine == (producer->has_output(made) ? producer->outputs[made] : plan::kNone);
    };
    if (!same(2, 1) || !same(4, 2)) return;
    Numbers factors = numbers_of(*producer, 1), scales = numbers_of(step, 3);
    if (producer->has_input(1) && factors.empty()) return;
    const auto n = static_cast<size_t>(weight->shape()[attrs.trans_w ? 0 : 1]);
    if (scales.size() == 1) scales.assign(n, scales[0]);
    if (scales.size() != n) return;
    Bound y = of_product(step, of(*producer, 0),
                         {.weight = weight,
                          .transposed = attrs.trans_w,
                          .activation = attrs.activation,
                          .bias = 6,
                          .residual = 7,
                          .factors = std::move(factors),
                          .scales = std::move(scales)});
    peaks[0] = peaks[1] = 0;  // in units of scales that are chosen for what is there
    peaks[2] = y.peak;
    set(step.outputs[0], std::move(y));
  }

  // Points x, mean, var, normalized and out from `norm.x` on; `x`: a bound of what is normalized.
  void take_norm(const plan::Step& step, const Norm& norm, double x, PointPeaks& peaks) {
    peaks[norm.x] = x;
    peaks[norm.x + 1] = x;
    peaks[norm.x + 2] = product_of(x, x);
    Numbers scale = numbers_of(step, norm.scale), bias = numbers_of(step, norm.scale + 1);
    const auto width = width_of(step.outputs[0]);
    if (!width || scale.size() != static_cast<size_t>(*width) || !is_last_axis(step)) return;
    if (step.has_input(norm.scale + 1) && bias.size() != scale.size()) return;
    const double length = std::sqrt(static_cast<double>(*width));
    peaks[norm.x + 3] = length;
    Bound y = of_peak(0, largest(scale) * length + length_of(bias));
    for (size_t j = 0; j < scale.size(); ++j) {
      const double offset = bias.empty() ? 0 : std::abs(bias[j]);
      y.peak = std::max(y.peak, std::abs(scale[j]) * length + offset);
    }
    peaks[norm.x + 4] = y.peak;
    y.z = length;
    y.gain = std::move(scale);
    y.offset = std::move(bias);
    set(step.outputs[0], std::move(y));
  }
  bool is_last_axis(const plan::Step& step) const {
    if (step.op == OpKind::kEmbedNorm) return true;
    const int64_t axis = decode<NormAttrs>(step.attrs).axis;
    return axis == -1 ||
           axis + 1 == static_cast<int64_t>(plan_.value(step.outputs[0]).shape.size());
  }

  void take_add_norm(const plan::Step& step, PointPeaks& peaks) {
    const Bound x = of(step, 0), residual = of(step, 1);
    Bound sum = of_peak(sum_of(x.peak, residual.peak), sum_of(x.row, residual.row));
    take_norm(step, {.x = 1, .scale = 2}, sum.peak, peaks);
    peaks[0] = std::max(x.peak, residual.peak);
    if (step.has_output(1)) set(step.outputs[1], std::move(sum));
  }

  // A context is a mean of values.
  void take_attention(const plan::Step& step, PointPeaks& peaks) {
    using enum AttentionAttrs::Input;
    const Bound q = of(step, kQ), k = of(step, kK), v = of(step, kV);
    const bool is_plain = !step.has_input(kCosines) && !step.has_input(kQueryPositions) &&
                          !step.has_input(kKeyPositions) && !step.has_input(kBias);
    if (!step.has_input(kCosines)) {
      peaks[0] = q.peak;
      peaks[1] = k.peak;
    }
    peaks[2] = v.peak;
    if (is_plain) {
      const double scale = std::abs(decode<AttentionAttrs>(step.attrs).scale);
      peaks[3] = product_of(product_of(q.row, k.row), scale);
    }
    peaks[4] = 1;
    peaks[5] = peaks[6] = v.peak;
    set(step.outputs[0], of_peak(v.peak, v.row));
  }

  // |sum of x·w| <= the largest |x| times the sum of |w|.
  void take_conv(const plan::Step& step, PointPeaks& peaks) {
    const Bound x = of(step, 0);
    peaks[0] = x.peak;
    const Tensor* weight = constant_of(step, 1);
    if (weight == nullptr || !is_float(weight->dtype()) || weight->rank() < 1) return;
    const Numbers w = EvalTensor::from(*weight).f;
    const int64_t channels = weight->shape()[0];
    Numbers sums(channels, 0.0);
    for (size_t i = 0; i < w.size(); ++i) sums[i / (w.size() / channels)] += std::abs(w[i]);
    const double bias = step.has_input(2) ? of(step, 2).peak : 0, most = largest(sums);
    if (!std::isfinite(most)) return;
    peaks[1] = largest(w);
    peaks[2] = sum_of(product_of(x.peak, most), bias);
  }

  void take_cast(const plan::Step& step, PointPeaks& peaks) {
    const DType to = decode<CastAttrs>(step.attrs).to;
    Bound x = of(step, 0);
    if (!x.is_flag && (!is_float(to) || to == DType::kF8E8M0)) return;  // may wrap or grow
    peaks[0] = x.peak;
    set(step.outputs[0], std::move(x));
  }

  void take_moved(const plan::Step& step, PointPeaks& peaks) {
    if (step.op == OpKind::kGather && keeps_rows(step)) {
      peaks[0] = of(step, 0).peak;
      return set(step.outputs[0], of(step, 0));
    }
    const size_t count = step.op == OpKind::kConcat ? step.inputs.size() : 1;
    Bound moved = of_peak(0);
    moved.is_flag = true;
    for (size_t i = 0; i < count; ++i) {
      const Bound x = of(step, i);
      moved.peak = std::max(moved.peak, x.peak);
      moved.is_flag = moved.is_flag && x.is_flag;
    }
    peaks[0] = moved.peak;
    for (const int32_t out : step.outputs)
      if (out != plan::kNone) set(out, moved);
  }

  // Are its results rows of what it reads?
  bool keeps_rows(const plan::Step& step) const {
    const int64_t axis = decode<AxisAttrs>(step.attrs).axis;
    const auto rank = static_cast<int64_t>(plan_.value(step.inputs[0]).shape.size());
    return (axis < 0 ? axis + rank : axis) + 1 < rank;
  }

  const plan::Plan& plan_;
  std::vector<Bound> bounds_;                // by value
  mutable std::map<int32_t, double> peaks_;  // of constants, by blob
};

// Empty: a constant does not fit.
std::optional<std::vector<RangeRow>> narrow_rows(const plan::Plan& plan, const Domains& domains) {
  Ranges ranges(plan);
  Bounds bounds(plan);
  bounds.set_inputs(domains);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (!bounds.constants_fit(plan.steps[s])) return std::nullopt;
    ranges.note(s, bounds.of_step(s));
  }
  std::vector<RangeRow> rows = ranges.rows();
  std::erase_if(rows, [](const RangeRow& row) { return !is_narrow(row.type); });
  return rows;
}

}  // namespace

std::vector<RangeRow> range_bounds(const plan::Plan& plan, const Domains& domains) {
  return narrow_rows(plan, domains).value_or(std::vector<RangeRow>());
}

bool fits_by_bounds(const plan::Plan& plan, const Domains& domains) {
  const std::optional<std::vector<RangeRow>> rows = narrow_rows(plan, domains);
  return rows && std::ranges::all_of(*rows, &RangeRow::fits);
}

}  // namespace vernier::evaluate
