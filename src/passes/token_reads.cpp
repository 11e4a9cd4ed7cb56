// What is computed from a mask: see token_reads.h.
#include "passes/token_reads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/error.h"
#include "core/token_rows.h"
#include "ops/evaluate.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// The only input that `value` is computed from, beside constants and sizes; kNoValue: there is
// none, or more than one.
ValueId only_source(const Graph& graph, ValueId value) {
  constexpr size_t kMostNodes = 64;
  ValueId source = kNoValue;
  std::vector<ValueId> open{value};
  std::set<ValueId> seen{value};
  while (!open.empty() && seen.size() <= kMostNodes) {
    const ValueId next = open.back();
    open.pop_back();
    if (graph.value(next).is_constant()) continue;
    const Node* n = graph.producer(next);
    if (n == nullptr) {
      if (source != kNoValue) return kNoValue;
      source = next;
      continue;
    }
    if (!n->subgraphs.empty()) return kNoValue;
    if (n->op == kShape || n->op == kSize) continue;
    for (const ValueId in : n->inputs)
      if (in != kNoValue && seen.insert(in).second) open.push_back(in);
  }
  return open.empty() ? source : kNoValue;
}

// Zeros for every input but the mask; nothing if they have other symbols than the mask.
std::optional<std::map<std::string, Tensor>> inputs_at(const Graph& graph, const TokenMask& mask,
                                                       int64_t rows, int64_t length) {
  const SymShape& places = shape_of(graph, mask.input);
  std::map<std::string, int64_t> sizes;
  for (const auto& [dim, size] : {std::pair{places[0], rows}, {places[1], length}}) {
    const auto symbol = dim.as_symbol();
    if (symbol)
      sizes[*symbol] = size;
    else if (dim.as_constant() != size)
      return std::nullopt;
  }
  for (const ir::Guard& guard : graph.guards) {
    const auto left = guard.lhs.as_symbol(), right = guard.rhs.as_symbol();
    if (!left || !right) continue;
    if (sizes.contains(*left)) sizes.emplace(*right, sizes[*left]);
    if (sizes.contains(*right)) sizes.emplace(*left, sizes[*right]);
  }
  std::map<std::string, Tensor> inputs;
  for (const ValueId input : graph.inputs) {
    Shape shape;
    for (const Dim& dim : shape_of(graph, input)) {
      const auto symbols = dim.symbols();
      if (!std::ranges::all_of(symbols, [&](const auto& s) { return sizes.contains(s); }))
        return std::nullopt;
      shape.push_back(dim.evaluate(sizes));
    }
    inputs[graph.value(input).name] = EvalTensor(dtype_of(graph, input), shape).to_tensor();
  }
  return inputs;
}

// Where the tokens of rows lie: in front of their padding, behind it, in the middle.
enum class Lie : uint8_t { kFirst, kLast, kMiddle };

// Row r has r + 1 tokens of `length`.
TokenSpan tokens_at(Lie lie, int64_t length, int64_t row) {
  const int64_t padding = length - row - 1;
  return {lie == Lie::kFirst ? 0 : lie == Lie::kLast ? padding : padding / 2, row + 1};
}
bool is_token(Lie lie, int64_t length, int64_t row, int64_t place) {
  const TokenSpan tokens = tokens_at(lie, length, row);
  return place >= tokens.first && place < tokens.end();
}

Tensor steps_of_tokens(DType dtype, Lie lie, int64_t length, int64_t token, int64_t padding) {
  EvalTensor values(dtype, {length, length});
  for (int64_t i = 0; i < length * length; ++i) {
    const int64_t value = is_token(lie, length, i / length, i % length) ? token : padding;
    if (values.is_float())
      values.f[static_cast<size_t>(i)] = static_cast<double>(value);
    else
      values.i[static_cast<size_t>(i)] = value;
  }
  return values.to_tensor();
}

// `value` on a mask with `length` rows and places, of which row r has r + 1 tokens.
std::optional<EvalTensor> at_steps(const Graph& graph, ValueId value, const TokenMask& mask,
                                   Lie lie, int64_t length) {
  auto inputs = inputs_at(graph, mask, length, length);
  if (!inputs) return std::nullopt;
  constexpr int64_t kOtherId = 5;
  const int64_t token = is_ids(graph, mask.input) ? mask.padding + kOtherId
                        : mask.padding == 0       ? 1
                                                  : 0;
  (*inputs)[graph.value(mask.input).name] =
      steps_of_tokens(dtype_of(graph, mask.input), lie, length, token, mask.padding);
  ops::EvaluateOptions options;
  options.wanted = {value};
  try {
    return ops::evaluate(graph, *inputs, options).values.at(value);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return std::nullopt;
  }
}

constexpr std::array<int64_t, 5> kLengths{1, 2, 3, 5, 9};

bool names_tokens_at(const Graph& graph, ValueId index, const TokenMask& mask, Lie lie,
                     int64_t length) {
  const auto found = at_steps(graph, index, mask, lie, length);
  if (!found || found->is_float() || found->rank() < 2 || found->shape[0] != length) return false;
  const bool pairs = found->shape == Shape{length, 2};
  if (!pairs && found->elems() != length) return false;
  for (int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t row = pairs ? found->i[2 * at] : i,
                  place = pairs ? found->i[2 * at + 1] : found->i[at];
    if (row < 0 || row >= length || !is_token(lie, length, row, place)) return false;
  }
  return true;
}

// The largest value at padding; nullopt: it does not hide padding, or not padding alone.
std::optional<double> hides_at(const Graph& graph, ValueId bias, const TokenMask& mask, Lie lie,
                               int64_t length) {
  const auto found = at_steps(graph, bias, mask, lie, length);
  if (!found || !found->is_float() || found->shape != Shape{length, 1, 1, length})
    return std::nullopt;
  double fill = -HUGE_VAL;
  for (int64_t i = 0; i < length * length; ++i) {
    const double value = found->f[static_cast<size_t>(i)];
    const bool token = is_token(lie, length, i / length, i % length);
    if (token ? value != 0 : !(value <= kHidingFill)) return std::nullopt;
    if (!token) fill = std::max(fill, value);
  }
  return fill;
}

}  // namespace

bool is_ids(const Graph& graph, ValueId input) {
  return std::ranges::any_of(users_of(graph, input), [&](NodeId user) {
    const OpKind op = graph.node(user).op;
    return op == kGather || op == kEmbedNorm;
  });
}

Sides names_tokens(const Graph& graph, ValueId index, const TokenMask& mask) {
  if (only_source(graph, index) != mask.input) return {.front = false, .behind = false};
  const auto names = [&](Lie lie) {
    return std::ranges::all_of(
        kLengths, [&](int64_t length) { return names_tokens_at(graph, index, mask, lie, length); });
  };
  return {.front = names(Lie::kLast) && names(Lie::kMiddle), .behind = names(Lie::kFirst)};
}

std::optional<MaskBias> mask_bias(const Graph& graph, ValueId bias) {
  const SymShape& shape = shape_of(graph, bias);
  if (shape.size() != 4 || !(shape[1] == Dim(1)) || !(shape[2] == Dim(1))) return std::nullopt;
  const ValueId source = only_source(graph, bias);
  if (source == kNoValue || rank_of(graph, source) != 2 || !is_token_mask(dtype_of(graph, source)))
    return std::nullopt;
  for (const int64_t padding : {0, 1}) {
    MaskBias found{.mask = {source, padding}, .fill = -HUGE_VAL};
    const auto hides = [&](Lie lie) {
      return std::ranges::all_of(kLengths, [&](int64_t length) {
        const auto fill = hides_at(graph, bias, found.mask, lie, length);
        if (fill) found.fill = std::max(found.fill, *fill);
        return fill.has_value();
      });
    };
    if (hides(Lie::kFirst) && hides(Lie::kLast) && hides(Lie::kMiddle)) return found;
  }
  return std::nullopt;
}

std::optional<HidingBias> hiding_bias(const Graph& graph, ValueId bias) {
  if (const auto alone = mask_bias(graph, bias)) return HidingBias{*alone, kNoValue};
  const Node* sum = producer_of(graph, bias, kAdd);
  if (sum == nullptr) return std::nullopt;
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (const auto part = mask_bias(graph, sum->inputs[i]))
      return HidingBias{*part, sum->inputs[1 - i]};
  }
  return std::nullopt;
}

}  // namespace vernier::passes
