// Makers of Attention cases, for tables and for tests that look at more than values.
#pragma once
#include "backend/harness.h"

namespace vernier::backend::test {

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, value_dim;
};

struct AttentionVariant {
  const char* name = "plain";
  AttentionAttrs attrs = {};
  enum Table { kNone, kKeyRow, kQueryRow } bias = kNone, keep = kNone;
  bool rotary = false;
  /// Scores by relative position: of queries, of keys, with so many buckets each; 0: none.
  int64_t query_buckets = 0, key_buckets = 0;
  bool keep_queries = false;
  /// Neighboring distances have the same bucket or neighbors, upwards; else any.
  bool near_buckets = false;
};

/// All kinds of masks and biases.
const std::vector<AttentionVariant>& attention_variants();
OpCase attention_case(Maker& make, const AttentionShape& s, const AttentionVariant& variant);
/// Of a GPU only, which are held to values and nothing else.
std::vector<OpCase> values_only(std::vector<OpCase> cases);
/// Rows 0 and 3 of the queries see no key: by keep, or by a bias of -inf.
OpCase attention_case_with_hidden_rows(Maker& make, const AttentionVariant& variant);
/// Sequences that begin at `starts`, packed into one item of `rows` tokens, with heads of `dim`.
OpCase packed_attention_case(Maker& make, std::vector<int64_t> starts, int64_t dim = 16,
                             int64_t rows = 48, int64_t heads = 2);

}  // namespace vernier::backend::test
