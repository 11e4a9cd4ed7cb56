// ONNX Runtime's Attention, MultiHeadAttention and RotaryEmbedding (domain com.microsoft) against
// the plain operators that they stand for, on random inputs, and the variants that are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/meaning.h"

namespace vernier::onnx {
namespace {

class AttentionMeaning : public ::testing::TestWithParam<MeaningCase> {};
TEST_P(AttentionMeaning, IsThatOfThePlainOperators) { expect_same_meaning(GetParam()); }
class AttentionRefused : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(AttentionRefused, WithTheReason) { expect_refused(GetParam()); }

// ---- attention ---------------------------------------------------------------------------------

constexpr int64_t kBatch = 2, kSeq = 3, kHeads = 2, kSize = 4;  // kSize: of one head
constexpr int64_t kHidden = kHeads * kSize;

// y = softmax(scale·q kᵀ + added) v on q, k, v [batch, seq, hidden], in plain operators; `keys` is
// the number of keys, past included, `past` the names of earlier keys and values or "".
struct PlainAttention {
  std::string added = "", past_k = "", past_v = "";
  float scale = 1 / std::sqrt(static_cast<float>(kSize));
  int64_t v_hidden = kHidden;
};
void plain_attention(ModelBuilder& m, const PlainAttention& a) {
  const auto heads = [&](const std::string& name, int64_t hidden) {
    m.initializer(i64_tensor(name + "_shape", {4}, {kBatch, -1, kHeads, hidden / kHeads}));
    m.node("Reshape", {name, name + "_shape"}, {name + "_split"});
    m.node("Transpose", {name + "_split"}, {name + "_heads"}, {attr_ints("perm", {0, 2, 1, 3})});
  };
  heads("q", kHidden);
  heads("k", kHidden);
  heads("v", a.v_hidden);
  const auto joined = [&](const std::string& past, const std::string& now) {
    if (past.empty()) return now;
    m.node("Concat", {past, now}, {now + "_all"}, {attr_int("axis", 2)});
    return now + "_all";
  };
  const std::string k = joined(a.past_k, "k_heads"), v = joined(a.past_v, "v_heads");
  m.node("Transpose", {k}, {"kt"}, {attr_ints("perm", {0, 1, 3, 2})});
  m.node("MatMul", {"q_heads", "kt"}, {"products"});
  m.initializer(f32_tensor("scale", {}, {a.scale}));
  m.node("Mul", {"products", "scale"}, {"scaled"});
  if (!a.added.empty()) m.node("Add", {"scaled", a.added}, {"scores"});
  m.node("Softmax", {a.added.empty() ? "scaled" : "scores"}, {"probs"}, {attr_int("axis", -1)});
  m.node("MatMul", {"probs", v}, {"context"});
  m.node("Transpose", {"context"}, {"rows"}, {attr_ints("perm", {0, 2, 1, 3})});
  m.initializer(i64_tensor("y_shape", {3}, {kBatch, -1, a.v_hidden}));
  m.node("Reshape", {"rows", "y_shape"}, {"y"});
}
// The added scores as a constant [batch, 1, queries, keys]: `low` where seen(b, i, j) is false.
using Seen = std::function<bool(int64_t, int64_t, int64_t)>;
void add_scores(ModelBuilder& m, int64_t queries, int64_t keys, float low, const Seen& seen) {
  std::vector<float> values;
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t i = 0; i < queries; ++i) {
      for (int64_t j = 0; j < keys; ++j) values.push_back(seen(b, i, j) ? 0 : low);
    }
  }
  m.initializer(f32_tensor("added", {kBatch, 1, queries, keys}, values));
}
// q, k and v from x by the packed projection.
void project(ModelBuilder& m, std::vector<int64_t> sizes = {kHidden, kHidden, kHidden}) {
  m.node("MatMul", {"x", "w"}, {"product"});
  m.node("Add", {"product", "b"}, {"all"});
  m.initializer(i64_tensor("sizes", {3}, sizes));
  m.node("Split", {"all", "sizes"}, {"q", "k", "v"}, {attr_int("axis", 2)});
}

const TestInput kX{"x", {kBatch, kSeq, 5}}, kW{"w", {5, 3 * kHidden}}, kB{"b", {3 * kHidden}};
const Attribute kNumHeads = attr_int("num_heads", kHeads);
const TestInput kRagged{"mask", {kBatch, kSeq}, {1, 0, 1, 1, 1, 0}};
bool ragged(int64_t b, int64_t, int64_t j) {
  return kRagged.integers[static_cast<size_t>(b * kSeq + j)] != 0;
}

// Attention on x, w, b and a mask whose meaning is `seen`, masked with `low`.
MeaningCase masked_attention(std::string name, TestInput mask, const Seen& seen, float low = -10000,
                             std::vector<Attribute> attributes = {}) {
  attributes.push_back(kNumHeads);
  return {std::move(name),
          {kX, kW, kB, std::move(mask)},
          [=](ModelBuilder& m) {
            fused(m, "Attention", {"x", "w", "b", "mask"}, {"y"}, attributes);
          },
          [=](ModelBuilder& m) {
            project(m);
            add_scores(m, kSeq, kSeq, low, seen);
            plain_attention(m, {.added = "added"});
          }};
}

std::vector<MeaningCase> attention_cases() {
  const TestInput past{"past", {2, kBatch, kHeads, 2, kSize}};
  const TestInput bias{"bias", {1, kHeads, kSeq, kSeq}};
  return {
      {"Attention",
       {kX, kW, kB},
       [](ModelBuilder& m) {
         fused(m, "Attention", {"x", "w", "b"}, {"y"}, {kNumHeads});
       },
       [](ModelBuilder& m) {
         project(m);
         plain_attention(m, {});
       }},
      {"Attention_of_narrow_values_with_scale",
       {kX, {"w", {5, 2 * kHidden + 6}}, {"b", {2 * kHidden + 6}}},
       [](ModelBuilder& m) {
         fused(m, "Attention", {"x", "w", "b"}, {"y"},
               {kNumHeads, attr_float("scale", 0.2F),
                attr_ints("qkv_hidden_sizes", {kHidden, kHidden, 6})});
       },
       [](ModelBuilder& m) {
         project(m, {kHidden, kHidden, 6});
         plain_attention(m, {.scale = 0.2F, .v_hidden = 6});
       }},
      masked_attention("Attention_key_mask", kRagged, ragged),
      masked_attention("Attention_key_mask_with_its_own_filter", kRagged, ragged, -3,
                       {attr_float("mask_filter_value", -3)}),
      masked_attention("Attention_key_mask_that_absorbs", kRagged, ragged, -3e38F,
                       {attr_float("mask_filter_value", -3e38F)}),
      masked_attention(
          "Attention_mask_of_all_pairs",
          {"mask", {kBatch, kSeq, kSeq}, {1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1}},
          [](int64_t b, int64_t i, int64_t j) {
            return b == 0 ? j <= i : j + i >= 2 && !(i == 1 && j == 1);
          }),
      masked_attention("Attention_lengths", {"mask", {kBatch}, {2, 3}},
                       [](int64_t b, int64_t, int64_t j) { return j < b + 2; }),
      masked_attention("Attention_ends_and_starts", {"mask", {2 * kBatch}, {3, 2, 1, 0}},
                       [](int64_t b, int64_t, int64_t j) { return b == 0 ? j >= 1 : j < 2; }),
      masked_attention("Attention_unidirectional_with_mask", kRagged,
                       [](int64_t b, int64_t i, int64_t j) { return j <= i && ragged(b, i, j); },
                       -10000, {attr_int("unidirectional", 1)}),
      {"Attention_bias_and_mask",
       {kX, kW, kB, kRagged, bias},
       [](ModelBuilder& m) {
         fused(m, "Attention", {"x", "w", "b", "mask", "", "bias"}, {"y"}, {kNumHeads});
       },
       [](ModelBuilder& m) {
         project(m);
         add_scores(m, kSeq, kSeq, -10000, ragged);
         m.node("Add", {"added", "bias"}, {"both"});
         plain_attention(m, {.added = "both"});
       }},
      {"Attention_behind_a_past",
       {kX, kW, kB, past},
       [](ModelBuilder& m) {
         fused(m, "Attention", {"x", "w", "b", "", "past"}, {"y"},
               {kNumHeads, attr_int("unidirectional", 1)});
       },
       [](ModelBuilder& m) {
         project(m);
         add_scores(m, kSeq, kSeq + 2, -INFINITY,
                    [](int64_t, int64_t i, int64_t j) { return j <= i + 2; });
         m.initializer(i64_tensor("first", {}, {0})).initializer(i64_tensor("second", {}, {1}));
         m.node("Gather", {"past", "first"}, {"past_k"});
         m.node("Gather", {"past", "second"}, {"past_v"});
         plain_attention(m, {.added = "added", .past_k = "past_k", .past_v = "past_v"});
       }},
      {"Attention_gives_its_present",
       {kX, kW, kB, past},
       [](ModelBuilder& m) {
         fused(m, "Attention", {"x", "w", "b", "", "past"}, {"unused", "y"}, {kNumHeads});
       },
       [](ModelBuilder& m) {
         project(m);
         m.initializer(i64_tensor("shape", {5}, {1, kBatch, kSeq, kHeads, kSize}));
         for (const char* part : {"k", "v"}) {
           const std::string name = part;
           m.node("Reshape", {name, "shape"}, {name + "_split"});
           m.node("Transpose", {name + "_split"}, {name + "_heads"},
                  {attr_ints("perm", {0, 1, 3, 2, 4})});
         }
         m.node("Concat", {"k_heads", "v_heads"}, {"now"}, {attr_int("axis", 0)});
         m.node("Concat", {"past", "now"}, {"y"}, {attr_int("axis", 3)});
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Packed, AttentionMeaning, ::testing::ValuesIn(attention_cases()),
                         [](const auto& row) { return row.param.name; });

std::vector<MeaningCase> multi_head_cases() {
  const TestInput q{"q", {kBatch, kSeq, kHidden}}, k{"k", {kBatch, 5, kHidden}},
      v{"v", {kBatch, 5, kHidden}};
  const TestInput heads_k{"hk", {kBatch, kHeads, 5, kSize}},
      heads_v{"hv", {kBatch, kHeads, 5, kSize}};
  const TestInput own_k{"k", {kBatch, kSeq, kHidden}}, own_v{"v", {kBatch, kSeq, kHidden}};
  const TestInput past_k{"past_k", {kBatch, kHeads, 2, kSize}},
      past_v{"past_v", {kBatch, kHeads, 2, kSize}};
  const auto multi_head = [](const Names& in, std::vector<Attribute> attributes = {}) {
    attributes.push_back(kNumHeads);
    return [=](ModelBuilder& m) { fused(m, "MultiHeadAttention", in, {"y"}, attributes); };
  };
  const auto plain = [](const PlainAttention& a) {
    return [=](ModelBuilder& m) { plain_attention(m, a); };
  };
  // [batch, seq, heads, parts, size] into q, k, v of the plain operators.
  const auto unpack = [](const std::string& packed, const Names& parts, int64_t seq) {
    return [=](ModelBuilder& m) {
      m.initializer(i64_tensor("flat", {3}, {kBatch, seq, kHidden}));
      for (size_t i = 0; i < parts.size(); ++i) {
        const std::string index = "index_" + parts[i];
        m.initializer(i64_tensor(index, {}, {static_cast<int64_t>(i)}));
        m.node("Gather", {packed, index}, {parts[i] + "_part"}, {attr_int("axis", 3)});
        m.node("Reshape", {parts[i] + "_part", "flat"}, {parts[i]});
      }
      plain_attention(m, {});
    };
  };
  return {
      {"MultiHeadAttention", {q, k, v}, multi_head({"q", "k", "v"}), plain({})},
      {"MultiHeadAttention_with_bias_mask_and_scores",
       {{"q0", q.shape},
        {"k0", k.shape},
        {"v0", v.shape},
        kB,
        {"mask", {kBatch, 5}, {1, 1, 0, 1, 0, 0, 1, 1, 1, 1}},
        {"bias", {kBatch, kHeads, kSeq, 5}}},
       multi_head({"q0", "k0", "v0", "b", "mask", "bias"}, {attr_float("scale", 0.1F)}),
       [](ModelBuilder& m) {
         m.initializer(i64_tensor("sizes", {3}, {kHidden, kHidden, kHidden}));
         m.node("Split", {"b", "sizes"}, {"bq", "bk", "bv"});
         for (const char* part : {"q", "k", "v"})
           m.node("Add", {std::string(part) + "0", "b" + std::string(part)}, {part});
         add_scores(m, kSeq, 5, -10000, [](int64_t b, int64_t, int64_t j) {
           return b == 0 ? j == 0 || j == 1 || j == 3 : j > 0;
         });
         m.node("Add", {"added", "bias"}, {"both"});
         plain_attention(m, {.added = "both", .scale = 0.1F});
       }},
      {"MultiHeadAttention_lengths",
       {q, k, v, {"mask", {kBatch}, {4, 1}}},
       multi_head({"q", "k", "v", "", "mask"}),
       [](ModelBuilder& m) {
         add_scores(m, kSeq, 5, -10000,
                    [](int64_t b, int64_t, int64_t j) { return j < (b == 0 ? 4 : 1); });
         plain_attention(m, {.added = "added"});
       }},
      {"MultiHeadAttention_of_packed_qkv",
       {{"p", {kBatch, kSeq, kHeads, 3, kSize}}},
       multi_head({"p"}),
       unpack("p", {"q", "k", "v"}, kSeq)},
      {"MultiHeadAttention_of_packed_kv",
       {q, {"p", {kBatch, 5, kHeads, 2, kSize}}},
       multi_head({"q", "p"}),
       unpack("p", {"k", "v"}, 5)},
      {"MultiHeadAttention_across_to_split_heads",
       {{"q0", q.shape}, heads_k, heads_v, kB},
       multi_head({"q0", "hk", "hv", "b"}),
       [](ModelBuilder& m) {  // the bias is that of the queries
         m.initializer(i64_tensor("sizes", {3}, {kHidden, kHidden, kHidden}));
         m.node("Split", {"b", "sizes"}, {"bq", "bk", "bv"});
         m.node("Add", {"q0", "bq"}, {"q"});
         m.initializer(i64_tensor("flat", {3}, {kBatch, 5, kHidden}));
         for (const char* part : {"k", "v"}) {
           const std::string name = part;
           m.node("Transpose", {"h" + name}, {name + "_rows"}, {attr_ints("perm", {0, 2, 1, 3})});
           m.node("Reshape", {name + "_rows", "flat"}, {name});
         }
         plain_attention(m, {});
       }},
      {"MultiHeadAttention_unidirectional_behind_a_past",
       {q, own_k, own_v, past_k, past_v},
       multi_head({"q", "k", "v", "", "", "", "past_k", "past_v"}, {attr_int("unidirectional", 1)}),
       [](ModelBuilder& m) {
         add_scores(m, kSeq, kSeq + 2, -INFINITY,
                    [](int64_t, int64_t i, int64_t j) { return j <= i + 2; });
         plain_attention(m, {.added = "added", .past_k = "past_k", .past_v = "past_v"});
       }},
      {"MultiHeadAttention_unidirectional_counts_from_the_first_query",
       {q, k, v},
       multi_head({"q", "k", "v"}, {attr_int("unidirectional", 1)}),
       [](ModelBuilder& m) {
         add_scores(m, kSeq, 5, -INFINITY, [](int64_t, int64_t i, int64_t j) { return j <= i; });
         plain_attention(m, {.added = "added"});
       }},
      {"MultiHeadAttention_gives_its_present",
       {q, own_k, own_v, past_k, past_v},
       [](ModelBuilder& m) {
         fused(m, "MultiHeadAttention", {"q", "k", "v", "", "", "", "past_k", "past_v"},
               {"unused", "pk", "pv"}, {kNumHeads});
         m.node("Sub", {"pk", "pv"}, {"y"});
       },
       [](ModelBuilder& m) {
         m.initializer(i64_tensor("shape", {4}, {kBatch, kSeq, kHeads, kSize}));
         for (const char* part : {"k", "v"}) {
           const std::string name = part;
           m.node("Reshape", {name, "shape"}, {name + "_split"});
           m.node("Transpose", {name + "_split"}, {name + "_heads"},
                  {attr_ints("perm", {0, 2, 1, 3})});
           m.node("Concat", {"past_" + name, name + "_heads"}, {"p" + name}, {attr_int("axis", 2)});
         }
         m.node("Sub", {"pk", "pv"}, {"y"});
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Projected, AttentionMeaning, ::testing::ValuesIn(multi_head_cases()),
                         [](const auto& row) { return row.param.name; });

// ---- rotary embedding --------------------------------------------------------------------------

// y = x·cos + turned·sin per pair, tables [max, 2] for heads of 4 (or a leading part of 4 of more).
std::vector<MeaningCase> rotary_cases() {
  const TestInput x{"x", {kBatch, kSeq, kHidden}}, cos{"cos", {7, 2}}, sin{"sin", {7, 2}};
  const TestInput places{"places", {kBatch, kSeq}, {4, 0, 6, 1, 2, 3}}, offset{"places", {1}, {2}};
  // x as [batch, seq, heads, 4], pairs (0, 2) and (1, 3), or (0, 1) and (2, 3).
  const auto plain = [](bool interleaved, bool from_offset) {
    return [=](ModelBuilder& m) {
      m.initializer(i64_tensor("split", {4}, {kBatch, kSeq, kHeads, kSize}));
      m.initializer(i64_tensor("steps", {1, 3}, {0, 1, 2}));
      m.node("Cast", {"places"}, {"wide"}, {attr_int("to", kInt64)});
      if (from_offset) m.node("Add", {"wide", "steps"}, {"at"});
      m.initializer(i64_tensor("axis", {1}, {2}))
          .initializer(i64_tensor("back", {3}, {kBatch, kSeq, kHidden}));
      for (const char* name : {"cos", "sin"}) {
        const std::string table = name;
        m.node("Gather", {table, from_offset ? "at" : "wide"}, {table + "_rows"});
        m.node("Unsqueeze", {table + "_rows", "axis"}, {table + "_all"});
      }
      m.initializer(i64_tensor(
          "even", {2}, interleaved ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{0, 1}));
      m.initializer(i64_tensor(
          "odd", {2}, interleaved ? std::vector<int64_t>{1, 3} : std::vector<int64_t>{2, 3}));
      m.initializer(i64_tensor(
          "order", {4},
          interleaved ? std::vector<int64_t>{0, 2, 1, 3} : std::vector<int64_t>{0, 1, 2, 3}));
      m.node("Reshape", {"x", "split"}, {"heads"});
      m.node("Gather", {"heads", "even"}, {"a"}, {attr_int("axis", 3)});
      m.node("Gather", {"heads", "odd"}, {"b"}, {attr_int("axis", 3)});
      m.node("Mul", {"a", "cos_all"}, {"ac"});
      m.node("Mul", {"b", "sin_all"}, {"bs"});
      m.node("Mul", {"a", "sin_all"}, {"as"});
      m.node("Mul", {"b", "cos_all"}, {"bc"});
      m.node("Sub", {"ac", "bs"}, {"real"});
      m.node("Add", {"as", "bc"}, {"imaginary"});
      m.node("Concat", {"real", "imaginary"}, {"both"}, {attr_int("axis", 3)});
      m.node("Gather", {"both", "order"}, {"ordered"}, {attr_int("axis", 3)});
      m.node("Reshape", {"ordered", "back"}, {"y"});
    };
  };
  const auto rotary = [](std::vector<Attribute> attributes) {
    return [=](ModelBuilder& m) {
      fused(m, "RotaryEmbedding", {"x", "places", "cos", "sin"}, {"y"}, attributes);
    };
  };
  return {
      {"RotaryEmbedding", {x, places, cos, sin}, rotary({}), plain(false, false)},
      {"RotaryEmbedding_interleaved",
       {x, places, cos, sin},
       rotary({attr_int("interleaved", 1), kNumHeads}),
       plain(true, false)},
      {"RotaryEmbedding_from_an_offset", {x, offset, cos, sin}, rotary({}), plain(false, true)},
      {"RotaryEmbedding_as_in_onnx",
       {x, places, cos, sin},
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(23);
         m.node("RotaryEmbedding", {"x", "cos", "sin", "places"}, {"y"}, {kNumHeads});
       },
       plain(false, false)},
      {"RotaryEmbedding_of_a_leading_part",
       {{"x", {kBatch, kHeads, kSeq, 6}}, places, cos, sin},
       rotary({attr_int("rotary_embedding_dim", 4), kNumHeads}),
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(23);
         m.initializer(i64_tensor("sizes", {2}, {4, 2}));
         m.node("Split", {"x", "sizes"}, {"turns", "stays"}, {attr_int("axis", 3)});
         m.node("RotaryEmbedding", {"turns", "cos", "sin", "places"}, {"turned"});
         m.node("Concat", {"turned", "stays"}, {"y"}, {attr_int("axis", 3)});
       }},
  };
}
INSTANTIATE_TEST_SUITE_P(Rotary, AttentionMeaning, ::testing::ValuesIn(rotary_cases()),
                         [](const auto& row) { return row.param.name; });

// ---- what is refused ---------------------------------------------------------------------------

// Attention on x, w and b of the given further inputs, attributes and outputs.
Build attention_with(const std::vector<TestInput>& more, const Names& in,
                     std::vector<Attribute> attributes, const Names& out = {"y"}) {
  return [=](ModelBuilder& m) {
    declare(m, {kX, kW, kB});
    declare(m, more);
    fused(m, "Attention", in, out, attributes);
  };
}
Build multi_head_with(const std::vector<TestInput>& inputs, const Names& in,
                      std::vector<Attribute> attributes = {kNumHeads}, const Names& out = {"y"}) {
  return [=](ModelBuilder& m) {
    declare(m, inputs);
    fused(m, "MultiHeadAttention", in, out, attributes);
  };
}

std::vector<RefusedCase> refused_cases() {
  const Names xwb{"x", "w", "b"}, with_mask{"x", "w", "b", "mask"};
  const TestInput q{"q", {kBatch, kSeq, kHidden}}, k{"k", {kBatch, 5, kHidden}},
      v{"v", {kBatch, 5, kHidden}};
  const std::vector<int64_t> ones(kBatch * kSeq * kSeq, 1);
  return {
      {"attention_do_rotary", attention_with({}, xwb, {kNumHeads, attr_int("do_rotary", 1)}),
       "Attention x1, it has do_rotary"},
      {"attention_shared_buffer",
       attention_with({}, xwb, {kNumHeads, attr_int("past_present_share_buffer", 1)}),
       "its past and present share a buffer"},
      {"attention_mask_of_four_axes",
       attention_with({{"mask", {kBatch, 1, kSeq, kSeq}, ones}}, with_mask, {kNumHeads}),
       "its mask has 4 dimensions"},
      {"attention_mask_of_packed_sequences",
       attention_with({{"mask", {3 * kBatch + 2}, ones}}, with_mask, {kNumHeads}),
       "its mask holds cumulative lengths of packed sequences"},
      {"attention_mask_of_floats",
       attention_with({{"mask", {kBatch, kSeq}}}, with_mask, {kNumHeads}),
       "the mask has type f32; expected integers"},
      {"attention_mask_of_another_length",
       attention_with({{"mask", {kBatch, 7}, ones}}, with_mask, {kNumHeads}), "7"},
      {"attention_without_heads", attention_with({}, xwb, {}), "'num_heads'"},
      {"attention_of_no_heads", attention_with({}, xwb, {attr_int("num_heads", 0)}),
       "attribute 'num_heads' is 0"},
      {"attention_heads_do_not_divide", attention_with({}, xwb, {attr_int("num_heads", 3)}),
       "8 columns are not divisible into 3 heads"},
      {"attention_two_sizes",
       attention_with({}, xwb, {kNumHeads, attr_ints("qkv_hidden_sizes", {8, 8})}),
       "attribute 'qkv_hidden_sizes' has 2 items; expected 3"},
      {"attention_sizes_of_other_weights",
       attention_with({}, xwb, {kNumHeads, attr_ints("qkv_hidden_sizes", {8, 8, 6})}),
       "parts [8, 8, 6] do not add up to 24"},
      {"attention_ranks", attention_with({}, {"x", "b"}, {kNumHeads}),
       "the input and the weights have shapes [2, 3, 5] and [24]; expected ranks 3 and 2"},
      {"attention_past_rank",
       attention_with({{"past", {kBatch, kHeads, 2, kSize}}}, {"x", "w", "b", "", "past"},
                      {kNumHeads}),
       "past has shape [2, 2, 2, 4]; expected rank 5"},
      {"multi_head_forms", multi_head_with({q, k}, {"q", "k"}),
       "query [2, 3, 8], key [2, 5, 8] and value absent are not a supported combination"},
      {"multi_head_shared_buffer",
       multi_head_with({q, k, v, {"n", {1}, {1}}}, {"q", "k", "v", "", "", "", "", "", "n"}),
       "its past and present share a buffer"},
      {"multi_head_half_a_past",
       multi_head_with({q, k, v, {"p", {kBatch, kHeads, 2, kSize}}},
                       {"q", "k", "v", "", "", "", "p"}),
       "past_key and past_value must both be given or both be absent"},
      {"multi_head_past_rank",
       multi_head_with({q, k, v, {"p", {kBatch, 2, kHidden}}},
                       {"q", "k", "v", "", "", "", "p", "p"}),
       "past_key and past_value must have rank 4"},
      {"multi_head_scores_as_output",
       [=](ModelBuilder& m) {
         multi_head_with({q, k, v}, {"q", "k", "v"}, {kNumHeads}, {"o", "", "", "y"})(m);
       },
       "output 'y' is not computed by Vernier"},
      {"rotary_scale",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2, 3, 8}).input("i", kInt32, {2, 3}).input("t", kFloat, {9, 2});
         fused(m, "RotaryEmbedding", {"x", "i", "t", "t"}, {"y"}, {attr_float("scale", 2)});
       },
       "RotaryEmbedding x1, it has a scale"},
      {"rotary_packed",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2, 3, 8}).input("i", kInt32, {2, 3}).input("t", kFloat, {9, 2});
         fused(m, "RotaryEmbedding", {"x", "i", "t", "t"}, {"y"},
               {attr_int("is_packed_batching", 1)});
       },
       "its batch is packed"},
      {"rotary_table_width",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2, 2, 3, 8}).input("i", kInt32, {2, 3}).input("t", kFloat, {9, 2});
         fused(m, "RotaryEmbedding", {"x", "i", "t", "t"}, {"y"});
       },
       "a table of cosines and sines has shape [2, 3, 2]; expected [batch, seq, 4]"},
      {"rotary_odd_part",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {2, 2, 3, 8}).input("i", kInt32, {2, 3}).input("t", kFloat, {9, 2});
         fused(m, "RotaryEmbedding", {"x", "i", "t", "t"}, {"y"},
               {attr_int("rotary_embedding_dim", 3)});
       },
       "rotary_embedding_dim is 3; expected an even number up to the head size 8"},
      {"rotary_rank",
       [](ModelBuilder& m) {
         m.input("x", kFloat, {3, 8}).input("i", kInt32, {2, 3}).input("t", kFloat, {9, 2});
         fused(m, "RotaryEmbedding", {"x", "i", "t", "t"}, {"y"});
       },
       "input 0 has shape [3, 8]; expected rank 3 or 4"},
      {"rotary_heads_of_rank_three",
       [](ModelBuilder& m) {
         m.model().mutable_opset_import(0)->set_version(23);
         m.input("x", kFloat, {2, 3, 8}).input("t", kFloat, {2, 3, 2});
         m.node("RotaryEmbedding", {"x", "t", "t"}, {"y"});
       },
       "an input of rank 3 needs the attribute num_heads"},
  };
}
INSTANTIATE_TEST_SUITE_P(Microsoft, AttentionRefused, ::testing::ValuesIn(refused_cases()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace vernier::onnx
