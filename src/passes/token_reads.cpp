// Indices computed from a mask: see token_reads.h.
#include "passes/token_reads.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/error.h"
#include "ops/evaluate.h"
#include "passes/rewrite.h"

namespace vernier::passes {
namespace {

using enum OpKind;

// Is what `index` is computed from only the mask, constants and sizes?
bool depends_on_mask_only(const Graph& graph, ValueId index, ValueId mask) {
  constexpr size_t kMostNodes = 64;
  std::vector<ValueId> open{index};
  std::set<ValueId> seen{index};
  while (!open.empty() && seen.size() <= kMostNodes) {
    const ValueId value = open.back();
    open.pop_back();
    if (value == mask || graph.value(value).is_constant()) continue;
    const Node* n = graph.producer(value);
    if (n == nullptr || !n->subgraphs.empty()) return false;  // another input
    if (n->op == kShape || n->op == kSize) continue;
    for (const ValueId in : n->inputs)
      if (in != kNoValue && seen.insert(in).second) open.push_back(in);
  }
  return open.empty();
}

// Is the input also one of ids?
bool is_ids(const Graph& graph, ValueId input) {
  return std::ranges::any_of(users_of(graph, input), [&](NodeId user) {
    const OpKind op = graph.node(user).op;
    return op == kGather || op == kEmbedNorm;
  });
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

// Row r has r + 1 tokens of `length`.
Tensor steps_of_tokens(DType dtype, int64_t length, int64_t token, int64_t padding) {
  EvalTensor values(dtype, {length, length});
  for (int64_t i = 0; i < length * length; ++i) {
    const int64_t value = i % length <= i / length ? token : padding;
    if (values.is_float())
      values.f[static_cast<size_t>(i)] = static_cast<double>(value);
    else
      values.i[static_cast<size_t>(i)] = value;
  }
  return values.to_tensor();
}

// Of masks with `length` rows and places.
bool names_tokens_at(const Graph& graph, ValueId index, const TokenMask& mask, int64_t length) {
  auto inputs = inputs_at(graph, mask, length, length);
  if (!inputs) return false;
  constexpr int64_t kOtherId = 5;
  const int64_t token = is_ids(graph, mask.input) ? mask.padding + kOtherId
                        : mask.padding == 0       ? 1
                                                  : 0;
  (*inputs)[graph.value(mask.input).name] =
      steps_of_tokens(dtype_of(graph, mask.input), length, token, mask.padding);
  ops::EvaluateOptions options;
  options.wanted = {index};
  EvalTensor found;
  try {
    found = ops::evaluate(graph, *inputs, options).values.at(index);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInput) throw;
    return false;
  }
  if (found.is_float() || found.rank() < 2 || found.shape[0] != length) return false;
  const bool pairs = found.shape == Shape{length, 2};
  if (!pairs && found.elems() != length) return false;
  for (int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t row = pairs ? found.i[2 * at] : i,
                  place = pairs ? found.i[2 * at + 1] : found.i[at];
    if (row < 0 || row >= length || place < 0 || place > row) return false;
  }
  return true;
}

}  // namespace

bool names_tokens(const Graph& graph, ValueId index, const TokenMask& mask) {
  if (!depends_on_mask_only(graph, index, mask.input)) return false;
  return std::ranges::all_of(std::initializer_list<int64_t>{1, 2, 3, 5, 9}, [&](int64_t length) {
    return names_tokens_at(graph, index, mask, length);
  });
}

}  // namespace vernier::passes
