// What quantization to int8 and f8e4m3 shares with calibration (src/calibrate): the rounding of
// weights, and the names under which a product is known. Contract: docs/quantization.md.
#pragma once
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "passes/pass.h"

namespace vernier::passes {

/// Products of 8-bit numbers in one sum: the rule of QuantizedLinear.
inline constexpr int64_t kMostProducts = int64_t{1} << 15;

/// A weight in units of its columns' scales.
struct QuantizedWeight {
  Tensor values;  ///< q8 or f8e4m3, or f32 where it stays exact; the weight's shape
  Tensor scales;  ///< f32 [N]
};

/// How a weight is taken.
struct WeightRounding {
  DType type = DType::kQ8;  ///< or f8e4m3
  bool trans_w = false;     ///< it is [N, K], else [K, N]
  bool exact = false;       ///< its values are not rounded
  /// Row k is divided by factors[k]; K positive numbers, or empty: 1.
  std::span<const float> factors = {};
  /// N scales in whose units the columns are whole numbers; a column that is not gets a new scale.
  /// Empty: all get one. Not of f8e4m3.
  std::span<const float> scales = {};
};

/// w / factor, each column in units of the scale that rounds it with the least square error (of
/// five shares of its largest number / 127; of f8e4m3 the power of two with which it becomes
/// at most 448). `w`: a finite float matrix that is not empty. One copy
/// of it in f32 exists meanwhile, if it is none itself or has factors.
QuantizedWeight quantized_weight(const Tensor& w, const WeightRounding& how);

/// The scale in whose units numbers are rounded to -most … most with the least square error: of the
/// widest one, which reaches the largest number, these shares. 1 where all are 0 or nearly.
float best_scale(std::span<const float> numbers, float most, std::span<const float> shares);
/// A weight that only quantized products read is not held any longer.
void release_weight(ir::Graph& graph, ir::ValueId weight);

/// Nodes between a constant weight of 4 bits and a product that takes it as it is
/// (weight_only.cpp): its DequantizeLinear, and a Transpose behind it. None where the device's
/// kernels are not known.
std::set<ir::NodeId> held_weights(const ir::Graph& graph, const PassOptions& options);

/// An ONNX node by which a product is known.
struct ProductName {
  std::string key;   ///< of the origin: "#17", unique in the model
  std::string name;  ///< may be empty, or that of other nodes too
};
/// The ONNX nodes by which a product is known: the MatMuls, Gemms, … that it computes.
std::vector<ProductName> product_names(const ir::Node& product);
/// Of one ONNX node, by its key or by its name; null if neither is there.
SharedFactors factors_of(const ProductName& product, const ColumnFactors& factors);
/// The factors of x's columns, where all nodes of this product have the same ones; else null.
SharedFactors factors_of(const ir::Node& product, const ColumnFactors& factors);
/// The scales of all columns, those of its nodes side by side; empty where one of them has none.
std::vector<float> weight_scales_of(const ir::Node& product, const ColumnFactors& scales);
/// The range of x, where all nodes of this product have the same one.
std::optional<StaticRange> range_of(const ir::Node& product, const StaticRanges& ranges);
/// q = x / scale + zero.
struct StaticScale {
  float scale;
  float zero;  ///< a whole number, so that 0 is one of the numbers that q stands for; f8e4m3: 0
};
/// [low, high] becomes [-127, 127], up to half a unit: what zero is rounded by. Of f8e4m3 the scale
/// that has no number of the range saturate. Not of an empty range.
StaticScale static_scale(const StaticRange& range, DType type = DType::kQ8);
/// The range with this scale and zero point, exactly.
StaticRange range_of(const StaticScale& scale, DType type = DType::kQ8);

}  // namespace vernier::passes
