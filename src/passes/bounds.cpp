// Bounds of values from weights. Contract: bounds.h.
#include "passes/bounds.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/attrs.h"
#include "core/threads.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all(static_cast<size_t>(t.elems()));
  for (int64_t i = 0; i < t.elems(); ++i) all[static_cast<size_t>(i)] = t.float_at(i);
  return all;
}

// A norm's scale and bias; no bias: empty.
struct Affine {
  std::vector<double> scale, bias;
};

// The constants of a norm over `channels` channels, as inputs `scale` and behind it.
std::optional<Affine> affine(const Graph& graph, const Node& norm, size_t scale, int64_t channels) {
  const auto read = [&](size_t i) {
    const Tensor* t = constant_of(graph, norm.inputs[i]);
    return t != nullptr && t->elems() == channels ? numbers(*t) : std::vector<double>();
  };
  Affine found{.scale = read(scale), .bias = {}};
  if (found.scale.empty()) return std::nullopt;
  if (!norm.has_input(scale + 1)) return found;
  found.bias = read(scale + 1);
  return found.bias.empty() ? std::nullopt : std::optional(found);
}

bool is_over_last_axis(const Graph& graph, const Node& norm) {
  const int64_t axis = norm.attrs_as<NormAttrs>().axis;
  return axis == -1 || axis + 1 == rank_of(graph, norm.outputs[0]);
}

// Does the slice leave the last axis as it is?
bool keeps_channels(const Node& slice, int64_t rank) {
  const auto attrs = slice.attrs_as<SliceAttrs>();
  return attrs.inline_starts && std::ranges::none_of(attrs.axes, [rank](int64_t axis) {
           return axis == -1 || axis + 1 == rank;
         });
}

// The scale and bias of the norm whose rows, of `channels` elements, are those of `value`.
std::optional<Affine> normalized(const Graph& graph, ValueId value, int64_t channels) {
  constexpr int kMostViews = 16;
  for (int steps = 0; steps < kMostViews; ++steps) {
    const SymShape& shape = shape_of(graph, value);
    const Node* n = graph.producer(value);
    if (n == nullptr || shape.empty() || shape.back().as_constant() != channels)
      return std::nullopt;
    if (n->outputs[0] != value) return std::nullopt;
    switch (n->op) {
      case kReshape:  // whose rows are as long, as the next step finds
      case kCast:
      case kIdentity:
        break;
      case kSlice:
        if (!keeps_channels(*n, rank_of(graph, value))) return std::nullopt;
        break;
      case kLayerNorm:
      case kRMSNorm:
        if (!is_over_last_axis(graph, *n)) return std::nullopt;
        return affine(graph, *n, 1, channels);
      case kAddLayerNorm:
        if (!is_over_last_axis(graph, *n)) return std::nullopt;
        return affine(graph, *n, 2, channels);
      case kLinearAddLayerNorm:
        return affine(graph, *n, 4, channels);
      case kEmbedNorm:
        return affine(graph, *n, 2 * static_cast<size_t>(n->attrs_as<EmbedNormAttrs>().tables),
                      channels);
      default:
        return std::nullopt;
    }
    value = n->inputs[0];
  }
  return std::nullopt;
}

// max over j of √K·|γ∘w_j| + |β·w_j + b_j|; NaN where a number is none.
double product_bound(const Tensor& w, bool trans_w, const Affine& norm, const Tensor* bias) {
  const int64_t rows = w.shape()[0], cols = w.shape()[1];
  const int64_t length = trans_w ? cols : rows, count = trans_w ? rows : cols;
  std::vector<double> bounds(static_cast<size_t>(count));
  constexpr int64_t kLeastColumns = 64;
  in_parallel(count, kLeastColumns, [&](int64_t begin, int64_t end) {
    std::vector<double> squares(static_cast<size_t>(end - begin), 0.0), sums(squares);
    const auto add = [&](int64_t k, int64_t j) {
      const double v = w.float_at(trans_w ? j * cols + k : k * cols + j);
      const double scaled = v * norm.scale[static_cast<size_t>(k)];
      const auto at = static_cast<size_t>(j - begin);
      squares[at] += scaled * scaled;
      if (!norm.bias.empty()) sums[at] += v * norm.bias[static_cast<size_t>(k)];
    };
    if (trans_w) {
      for (int64_t j = begin; j < end; ++j)
        for (int64_t k = 0; k < length; ++k) add(k, j);
    } else {
      for (int64_t k = 0; k < length; ++k)
        for (int64_t j = begin; j < end; ++j) add(k, j);
    }
    for (int64_t j = begin; j < end; ++j) {
      const auto at = static_cast<size_t>(j - begin);
      const double shift = sums[at] + (bias == nullptr ? 0.0 : bias->float_at(j));
      bounds[static_cast<size_t>(j)] =
          std::sqrt(static_cast<double>(length) * squares[at]) + std::abs(shift);
    }
  });
  double most = 0;
  for (const double bound : bounds) most = std::isnan(bound) ? bound : std::max(most, bound);
  return most;
}

std::optional<double> linear_bound(const Graph& graph, const Node& linear) {
  if (linear.has_input(3)) return std::nullopt;  // a residual has no bound
  const Tensor* w = constant_of(graph, linear.inputs[1]);
  const Tensor* bias = linear.has_input(2) ? constant_of(graph, linear.inputs[2]) : nullptr;
  if (w == nullptr || w->rank() != 2 || (linear.has_input(2) && bias == nullptr))
    return std::nullopt;
  const bool trans_w = linear.attrs_as<LinearAttrs>().trans_w;
  const auto norm = normalized(graph, linear.inputs[0], w->shape()[trans_w ? 1 : 0]);
  if (!norm) return std::nullopt;
  const double bound = product_bound(*w, trans_w, *norm, bias);
  return std::isfinite(bound) && bound > 0 ? std::optional(bound) : std::nullopt;
}

}  // namespace

std::optional<double> magnitude_bound(const Graph& graph, ValueId value) {
  constexpr int kMostNodes = 32;
  for (int steps = 0; steps < kMostNodes; ++steps) {
    const Node* n = graph.producer(value);
    if (n == nullptr) return std::nullopt;
    switch (n->op) {
      case kLinear:
        return linear_bound(graph, *n);
      case kAttention:
        value = n->inputs[AttentionAttrs::kV];
        break;
      case kGelu:
      case kRelu:
      case kTanh:
      case kReshape:
      case kTranspose:
      case kSlice:
      case kSplit:
      case kGather:
      case kSqueeze:
      case kUnsqueeze:
      case kCast:
      case kIdentity:
        value = n->inputs[0];
        break;
      default:
        return std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<NormalizedChannels> normalized_channels(const Graph& graph, ValueId value) {
  const SymShape& shape = shape_of(graph, value);
  const auto channels = shape.empty() ? std::nullopt : shape.back().as_constant();
  if (!channels) return std::nullopt;
  const auto norm = normalized(graph, value, *channels);
  if (!norm) return std::nullopt;
  NormalizedChannels found;
  for (size_t k = 0; k < norm->scale.size(); ++k) {
    const double scale = std::abs(norm->scale[k]),
                 bias = norm->bias.empty() ? 0 : std::abs(norm->bias[k]);
    if (!std::isfinite(scale) || !std::isfinite(bias)) return std::nullopt;
    found.most.push_back(std::sqrt(static_cast<double>(*channels)) * scale + bias);
    found.typical.push_back(std::hypot(scale, bias));
  }
  return found;
}

}  // namespace vernier::passes
