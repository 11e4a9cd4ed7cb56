// Translations of the operators for signals: windows, MelWeightMatrix, DFT and STFT, which are
// written in other operators. Contract: node_context.h, translations.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/attrs.h"
#include "onnx/attention.h"
#include "onnx/element_types.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

constexpr const char* kUnknown = " is not known when the engine is built";

// Input i: one integer, which may be an expression of sizes.
Dim size_input(NodeContext& node, size_t i) {
  const ir::ValueId id = node.input(i);
  if (const auto& known = node.value(id).values; known && known->size() == 1) return known->front();
  const auto numbers = node.integers(id);
  if (!numbers) node.fail("input " + std::to_string(i) + kUnknown + "; make it a constant");
  if (numbers->size() != 1)
    node.fail("input " + std::to_string(i) + " has " + std::to_string(numbers->size()) +
              " numbers; expected one");
  return numbers->front();
}

int64_t integer_input(NodeContext& node, size_t i, int64_t least, int64_t most = INT32_MAX) {
  const Dim size = size_input(node, i);
  const auto number = size.as_constant();
  if (!number)
    node.fail("input " + std::to_string(i) + " is the size " + size.str() +
              "; expected a constant");
  if (*number < least || *number > most)
    node.fail("input " + std::to_string(i) + " is " + std::to_string(*number) + "; expected " +
              std::to_string(least) + ".." + std::to_string(most));
  return *number;
}

double float_input(NodeContext& node, size_t i) {
  const ir::Value& value = node.value(node.input(i));
  if (!value.is_constant() || !is_float(value.dtype))
    node.fail("input " + std::to_string(i) + kUnknown + "; make it a float constant");
  if (value.constant.elems() != 1)
    node.fail("input " + std::to_string(i) + " has shape " + str(value.shape) +
              "; expected one number");
  return value.constant.float_at(0);
}

DType output_type(NodeContext& node) {
  return element_type(node.attrs().integer("output_datatype", 1), "attribute 'output_datatype'");
}

// ---- windows

/// a0 − a1·cos(2πn/N) + a2·cos(4πn/N)
struct Cosines {
  double a0, a1, a2;
};

// N is the size, or without `periodic` the size − 1. Computed in f32, or f64 where that is asked.
void window(NodeContext& node, const Cosines& a) {
  const Dim size = size_input(node, 0);
  const DType type = output_type(node), inner = type == DType::kF64 ? type : DType::kF32;
  const Dim period = max(node.attrs().flag("periodic", 1) ? size : size - Dim(1), Dim(1));
  const auto number = [&](double value) { return node.constant(Tensor::scalar(inner, value)); };
  const auto times = [&](ir::ValueId x, double y) {
    return node.emit(OpKind::kMul, {x, number(y)});
  };
  const ir::ValueId n = node.cast(positions(node, 0, size, {size}), inner);
  const ir::ValueId part =
      node.emit(OpKind::kDiv, {n, node.cast(size_number(node, period), inner)});
  const ir::ValueId angle = times(part, 2 * std::numbers::pi);
  const ir::ValueId first = times(node.emit(OpKind::kCos, {angle}), a.a1);
  ir::ValueId y = node.emit(OpKind::kSub, {number(a.a0), first});
  if (a.a2 != 0) {
    const ir::ValueId second = times(node.emit(OpKind::kCos, {times(angle, 2)}), a.a2);
    y = node.emit(OpKind::kAdd, {y, second});
  }
  node.set_output(0, node.cast(y, type));
}

void translate_hann_window(NodeContext& node) { window(node, {0.5, 0.5, 0}); }
void translate_hamming_window(NodeContext& node) { window(node, {25.0 / 46, 21.0 / 46, 0}); }
void translate_blackman_window(NodeContext& node) { window(node, {0.42, 0.5, 0.08}); }

// ---- MelWeightMatrix

double mel_of(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz_of(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// Triangles with peak 1 over the spectrum's bins, [dft_length / 2 + 1, num_mel_bins]. Their corners
// are equally far apart in mel: as ONNX defines them, num_mel_bins + 2 steps from edge to edge.
void translate_mel_weight_matrix(NodeContext& node) {
  constexpr int64_t kMostBins = 1 << 20;
  const int64_t bands = integer_input(node, 0, 1, kMostBins);
  const int64_t length = integer_input(node, 1, 1, kMostBins), rate = integer_input(node, 2, 1);
  const double low = float_input(node, 3), high = float_input(node, 4);
  if (!(low >= 0 && low <= high && high <= static_cast<double>(rate)))
    node.fail("the edges are " + std::to_string(low) + " and " + std::to_string(high) +
              " hertz; expected 0 <= lower <= upper <= sample_rate");
  const int64_t rows = length / 2 + 1;
  if (rows * bands > kMostBins * 64) node.unsupported("its matrix is larger than 2^26 numbers");
  const double first = mel_of(low), step = (mel_of(high) - first) / static_cast<double>(bands + 2);
  std::vector<int64_t> corners;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double hertz = hertz_of(first + static_cast<double>(i) * step);
    corners.push_back(
        static_cast<int64_t>(static_cast<double>(length + 1) * hertz / static_cast<double>(rate)));
  }
  if (corners.back() > rows)
    node.fail("the upper edge " + std::to_string(high) + " is beyond the " + std::to_string(rows) +
              " bins of the spectrum, which end at half the sample_rate");
  std::vector<double> weights(static_cast<size_t>(rows * bands));
  for (int64_t band = 0; band < bands; ++band) {
    const int64_t left = corners[band], top = corners[band + 1], right = corners[band + 2];
    for (int64_t bin = left; bin < std::min(std::max(right, top + 1), rows); ++bin) {
      const auto up = static_cast<double>(bin - left), down = static_cast<double>(right - bin);
      weights[bin * bands + band] = bin == top  ? 1
                                    : bin < top ? up / static_cast<double>(top - left)
                                                : down / static_cast<double>(right - top);
    }
  }
  const DType type = output_type(node);
  const ir::ValueId matrix = node.constant(Tensor::from(
      is_float(type) ? type : DType::kF32, {rows, bands}, std::span<const double>(weights)));
  node.set_output(0, node.cast(matrix, type));
}

// ---- Fourier transforms

/// DFT of `length` points. `onesided`: of real numbers, whose spectrum is stored up to the middle.
struct Transform {
  int64_t length = 1;
  bool inverse = false, onesided = false;

  int64_t half() const { return length / 2 + 1; }
  int64_t points_in() const { return onesided && inverse ? half() : length; }
  int64_t points_out() const { return onesided && !inverse ? half() : length; }
  int64_t parts_out() const { return onesided && inverse ? 1 : 2; }
};

/// A complex number's parts; i to the power of 0 … 3 is exact.
struct Complex {
  double real, imaginary;
};
Complex root_of_one(int64_t numerator, int64_t denominator) {
  const int64_t turn = numerator % denominator;
  if (4 * turn % denominator == 0) {
    constexpr std::array<Complex, 4> kQuarters{{{1, 0}, {0, 1}, {-1, 0}, {0, -1}}};
    return kQuarters[4 * turn / denominator];
  }
  const double angle =
      2 * std::numbers::pi * static_cast<double>(turn) / static_cast<double>(denominator);
  return {std::cos(angle), std::sin(angle)};
}

// The transform as real numbers, [points, parts, points_out, parts_out]: of a point, whose parts
// are real and imaginary, what it adds to each of the result's. The inverse is divided by the
// length afterwards: whole numbers stay exact.
std::vector<double> transform_matrix(const Transform& t, int64_t points, int64_t parts) {
  std::vector<double> matrix;
  for (int64_t row = 0; row < points * parts; ++row) {
    const int64_t n = row / parts;
    // The inverse of half a spectrum: the other half holds the conjugates of all but the ends.
    const double scale = t.onesided && t.inverse && n > 0 && 2 * n != t.length ? 2 : 1;
    for (int64_t k = 0; k < t.points_out(); ++k) {
      Complex w = root_of_one(n * k, t.length);
      if (!t.inverse) w.imaginary = -w.imaginary;
      if (row % parts == 1) w = {-w.imaginary, w.real};  // times i
      matrix.push_back(scale * w.real);
      if (t.parts_out() == 2) matrix.push_back(scale * w.imaginary);
    }
  }
  return matrix;
}

int64_t fixed_size(NodeContext& node, ir::ValueId x, int64_t axis) {
  const auto size = node.shape(x)[static_cast<size_t>(axis)].as_constant();
  if (!size) node.unsupported("the size of axis " + std::to_string(axis) + " is not fixed");
  return *size;
}

// 1 of real numbers, 2 of complex ones.
int64_t number_parts(NodeContext& node, ir::ValueId x, const Transform& t) {
  const int64_t parts = node.shape(x).back().as_constant().value_or(0);
  if (parts != 1 && parts != 2)
    node.fail("input 0 has shape " + str(node.shape(x)) + "; expected a last axis of 1 or 2");
  if (t.onesided && parts != (t.inverse ? 2 : 1))
    node.fail(std::string("attribute 'onesided' is 1; expected ") +
              (t.inverse ? "complex" : "real") + " numbers, got a last axis of " +
              std::to_string(parts));
  return parts;
}

// The axis before the last one, as a matrix product:
//   [..., points, parts] -> [..., points·parts] · matrix -> [..., points_out, parts_out]
ir::ValueId transform_rows(NodeContext& node, ir::ValueId x, const Transform& t) {
  const int64_t parts = number_parts(node, x, t), axis = node.rank(x) - 2;
  const int64_t size = fixed_size(node, x, axis), points = std::min(size, t.points_in());
  constexpr double kMost = 1 << 26;
  const auto rows = static_cast<double>(points * parts);
  if (rows * static_cast<double>(t.points_out() * t.parts_out()) > kMost)
    node.unsupported("its " + std::to_string(t.length) +
                     " points make a matrix of more than 2^26 numbers");
  if (points < size)
    x = node.emit(
        OpKind::kSlice,
        {x, node.constant_i64({0}), node.constant_i64({points}), node.constant_i64({axis})},
        SliceAttrs{});
  const DType type = node.dtype(x);
  const std::vector<double> numbers = transform_matrix(t, points, parts);
  const ir::ValueId matrix = node.constant(Tensor::from(
      type, {points * parts, t.points_out() * t.parts_out()}, std::span<const double>(numbers)));
  SymShape shape(node.shape(x).begin(), node.shape(x).end() - 2);
  shape.emplace_back(points * parts);
  ir::ValueId y = node.emit(OpKind::kMatMul, {node.reshape(x, shape), matrix});
  if (t.inverse) {
    const ir::ValueId length = node.constant(Tensor::scalar(type, static_cast<double>(t.length)));
    y = node.emit(OpKind::kDiv, {y, length});
  }
  shape.back() = t.points_out();
  shape.emplace_back(t.parts_out());
  return node.reshape(y, shape);
}

ir::ValueId transform(NodeContext& node, ir::ValueId x, int64_t axis, const Transform& t) {
  const int64_t rank = node.rank(x);
  if (axis == rank - 2) return transform_rows(node, x, t);
  std::vector<int64_t> perm, back;
  for (int64_t i = 0; i < rank - 1; ++i)
    if (i != axis) perm.push_back(i);
  perm.insert(perm.end(), {axis, rank - 1});
  for (int64_t i = 0; i < rank; ++i)
    back.push_back(std::find(perm.begin(), perm.end(), i) - perm.begin());
  return node.transpose(transform_rows(node, node.transpose(x, perm), t), back);
}

// The axis is an attribute before opset 20, then input 2.
void translate_dft(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  const int64_t rank = node.rank(x);
  int64_t axis = node.opset() < 20 ? node.attrs().integer("axis", 1) : -2;
  if (node.opset() >= 20 && node.has_input(2)) axis = integer_input(node, 2, -rank, rank - 1);
  if (axis < -rank || axis >= rank || axis == -1 || axis == rank - 1)
    node.fail("the axis " + std::to_string(axis) + " is not one of the signal's axes of " +
              str(node.shape(x)));
  if (axis < 0) axis += rank;
  if (!is_float(node.dtype(x)))
    node.fail("input 0 has type " + std::string(name(node.dtype(x))) + "; expected a float type");
  Transform t;
  t.inverse = node.attrs().flag("inverse", 0);
  t.onesided = node.attrs().flag("onesided", 0);
  if (node.has_input(1)) {
    t.length = integer_input(node, 1, 1);
  } else {
    const int64_t size = fixed_size(node, x, axis);
    t.length = t.inverse && t.onesided ? 2 * (size - 1) : size;
    if (t.length < 1)
      node.fail("axis " + std::to_string(axis) + " of " + str(node.shape(x)) +
                " has too few points");
  }
  node.set_output(0, transform(node, x, axis, t));
}

// [batch, time, parts] -> frames [batch, frames, length, parts], times the window -> their DFT.
void translate_stft(NodeContext& node) {
  const ir::ValueId signal = node.input(0);
  const SymShape shape = node.shape(signal);
  if (shape.size() != 3 || !is_float(node.dtype(signal)))
    node.fail("input 0 is " + std::string(name(node.dtype(signal))) + " of shape " + str(shape) +
              "; expected floats of [batch, length, 1 or 2]");
  const int64_t step = integer_input(node, 1, 1);
  const ir::ValueId window = node.optional_input(2);
  if (window != ir::kNoValue && node.rank(window) != 1)
    node.fail("the window has shape " + str(node.shape(window)) + "; expected a list");
  const Dim own = window == ir::kNoValue ? shape[1] : node.shape(window)[0];
  const auto length =
      node.has_input(3) ? std::optional(integer_input(node, 3, 1)) : own.as_constant();
  if (!length) node.unsupported("the length of its frames is not fixed");
  if (window != ir::kNoValue && equal(own, Dim(*length)) == false)
    node.fail("the window has " + own.str() + " numbers; expected those of a frame, " +
              std::to_string(*length));
  if (*length < 1 || less_equal(Dim(*length), shape[1]) == false)
    node.fail("frames of " + std::to_string(*length) + " do not fit the signal's length " +
              shape[1].str());
  const Dim frames = floordiv(shape[1] - Dim(*length), Dim(step)) + Dim(1);
  const ir::ValueId starts =
      node.emit(OpKind::kMul, {positions(node, 0, frames, {frames, 1}), size_number(node, step)});
  const ir::ValueId places =
      node.emit(OpKind::kAdd, {starts, positions(node, 0, *length, {1, *length})});
  ir::ValueId x = node.emit(OpKind::kGather, {signal, places}, AxisAttrs{1});
  if (window != ir::kNoValue) x = node.emit(OpKind::kMul, {x, node.reshape(window, {*length, 1})});
  const bool onesided = node.attrs().flag("onesided", 1);
  node.set_output(0, transform(node, x, 2, {.length = *length, .onesided = onesided}));
}

constexpr std::array kRows{
    Translation{"", "HannWindow", 17, translate_hann_window},
    Translation{"", "HammingWindow", 17, translate_hamming_window},
    Translation{"", "BlackmanWindow", 17, translate_blackman_window},
    Translation{"", "MelWeightMatrix", 17, translate_mel_weight_matrix},
    Translation{"", "DFT", 17, translate_dft},
    Translation{"", "STFT", 17, translate_stft},
};

}  // namespace

std::span<const Translation> signal_translations() { return kRows; }

}  // namespace vernier::onnx
