// The functions of ops.def's CHECKED rows: see value_rules.h.
#include "core/value_rules.h"

#include <algorithm>
#include <array>

#include "core/attrs.h"
#include "core/elementwise_program.h"

namespace vernier {
namespace {

using Kind = ValueRule::Kind;
using Rules = std::vector<ValueRule>;

// Gather, GatherElements, ScatterElements: input 1 indexes one axis of input 0.
template <class Attrs>
Rules index_values(AttrView attrs, size_t) {
  return {{.kind = Kind::kIndex, .input = 1, .table = 0, .axis = decode<Attrs>(attrs).axis}};
}

Rules gather_nd_values(AttrView attrs, size_t) {
  return {{.kind = Kind::kIndex,
           .input = 1,
           .table = 0,
           .axis = decode<GatherNDAttrs>(attrs).batch_dims,
           .tuples = true}};
}

Rules scatter_nd_values(AttrView, size_t) {
  return {{.kind = Kind::kIndex, .input = 1, .table = 0, .axis = 0, .tuples = true}};
}

Rules embed_norm_values(AttrView attrs, size_t num_inputs) {
  Rules rules;
  const auto most = static_cast<int64_t>(num_inputs / 2);
  const int64_t tables = std::min(decode<EmbedNormAttrs>(attrs).tables, most);
  for (int t = 0; t < static_cast<int>(tables); ++t)
    rules.push_back({.kind = Kind::kIndex, .input = 2 * t, .table = 2 * t + 1, .axis = 0});
  return rules;
}

Rules axis_values(AttrView, size_t) { return {{.kind = Kind::kAxis, .input = 1, .table = 0}}; }

Rules length_values(AttrView attrs, size_t) {
  return {{.kind = Kind::kLength,
           .input = 1,
           .table = 0,
           .axis = decode<ReverseSequenceAttrs>(attrs).time_axis}};
}

// RNN, GRU, LSTM: how many steps each row of the batch has.
Rules sequence_values(AttrView, size_t) {
  return {{.kind = Kind::kLength, .input = RecurrentAttrs::kLengths, .table = 0, .axis = 0}};
}

Rules target_values(AttrView bytes, size_t) {
  const auto attrs = decode<LossAttrs>(bytes);
  ValueRule rule{.kind = Kind::kClass, .input = 1, .table = 0, .axis = 1};
  if (attrs.ignores) rule.ignored = attrs.ignore_index;
  return {rule};
}

// RoiAlign: the image of each region.
Rules image_values(AttrView, size_t) {
  return {{.kind = Kind::kClass, .input = 2, .table = 0, .axis = 0}};
}

// cu_seqlens of q and k, buckets of relative positions.
Rules attention_values(AttrView, size_t) {
  using enum AttentionAttrs::Input;
  return {{.kind = Kind::kStarts, .input = kStartsQ, .table = kQ, .axis = 1},
          {.kind = Kind::kStarts, .input = kStartsK, .table = kK, .axis = 1},
          {.kind = Kind::kClass, .input = kQueryBuckets, .table = kQueryPositions, .axis = 3},
          {.kind = Kind::kClass, .input = kKeyBuckets, .table = kKeyPositions, .axis = 3}};
}

Rules divisor_values(AttrView, size_t) { return {{.kind = Kind::kNonZero, .input = 1}}; }

// The rules of its instructions, where their operands are inputs of the chain.
Rules program_values(AttrView attrs, size_t num_inputs) {
  const std::string text = decode<FusedElementwiseAttrs>(attrs).program;
  // Most chains have no division, and parsing them is the largest cost of opening their step.
  if (text.find("Div") == std::string::npos && text.find("Mod") == std::string::npos) return {};
  Rules rules;
  for (const Instruction& instruction : parse_elementwise_program(text, num_inputs)) {
    for (ValueRule rule :
         value_rules(instruction.op, instruction.attrs, instruction.operands.size())) {
      rule.input = instruction.operands[rule.input];
      if (rule.input < static_cast<int>(num_inputs)) rules.push_back(rule);
    }
  }
  return rules;
}

using RulesFn = Rules (*)(AttrView attrs, size_t num_inputs);
constexpr std::array<RulesFn, 256> kRows{
#define OP(...) nullptr,
#define CHECKED(values, ...) &values,
#include "ops/ops.def"
#undef OP
};

}  // namespace

std::vector<ValueRule> value_rules(OpKind op, AttrView attrs, size_t num_inputs) {
  const RulesFn rules = kRows[static_cast<size_t>(op)];
  return rules == nullptr ? std::vector<ValueRule>() : rules(attrs, num_inputs);
}
bool has_value_rules(OpKind op) { return kRows[static_cast<size_t>(op)] != nullptr; }

ValueRange allowed_values(ValueRule::Kind kind, int64_t size) {
  switch (kind) {
    case Kind::kIndex:
    case Kind::kAxis:
      return {-size, size - 1};
    case Kind::kClass:
      return {0, size - 1};
    case Kind::kLength:
    case Kind::kStarts:
      return {0, size};
    case Kind::kNonZero:
      break;
  }
  return {INT64_MIN, INT64_MAX};
}

}  // namespace vernier
