// FP64 evaluators of EmbedNorm, MaskedMean, TokenIndex and ZeroPadding. Contract: core/evaluator.h;
// formulas at their attributes in core/attrs.h.
#include <algorithm>

#include "core/attrs.h"
#include "core/token_rows.h"
#include "reference/elementwise.h"
#include "reference/normalize_rows.h"

namespace vernier::reference {
namespace {

// The row of `table` that element `at` of `ids` names; negative ids count from the end.
size_t table_row(const EvalTensor& ids, const EvalTensor& table, size_t at, int64_t number) {
  const int64_t rows = table.shape[0];
  const int64_t id = ids.i[at];
  if (id < -rows || id >= rows) {
    throw Error(ErrorCode::kInput, "EmbedNorm: id " + std::to_string(id) + " at element " +
                                       std::to_string(at) + " of ids " + std::to_string(number) +
                                       " is outside its table of " + std::to_string(rows) +
                                       " rows; allowed are " + std::to_string(-rows) + " to " +
                                       std::to_string(rows - 1));
  }
  return static_cast<size_t>(id < 0 ? id + rows : id);
}

}  // namespace

void eval_embed_norm(const EvalCall& call) {
  const auto attrs = decode<EmbedNormAttrs>(call.attrs);
  const auto scale_at = static_cast<size_t>(2 * attrs.tables);
  EvalTensor& y = call.out[0];
  const auto width = static_cast<size_t>(y.shape.back());
  const Shape ids_shape(y.shape.begin(), y.shape.end() - 1);
  for (int64_t t = 0; t < attrs.tables; ++t) {
    const auto input = static_cast<size_t>(2 * t);
    const EvalTensor &ids = *call.in[input], &table = *call.in[input + 1];
    // Empty rows still have ids to check, but no elements to compute.
    const bool repeats = width > 0 || num_elems(ids_shape) == 0;
    const Shape& walked = repeats ? ids_shape : ids.shape;
    // Of each row the place of its table's row.
    std::vector<std::pair<size_t, size_t>> rows;
    for_each_pair(ids, ids, walked, [&](size_t at, size_t i, size_t) {
      rows.emplace_back(at, table_row(ids, table, i, t));
    });
    if (width == 0) continue;
    const auto least = std::max<int64_t>(1, kCopyGrain / static_cast<int64_t>(width));
    in_parallel(std::ssize(rows), least, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const auto& [at, place] = rows[r];
        double* sums = y.f.data() + at * width;
        const double* row = table.f.data() + place * width;
        for (size_t h = 0; h < width; ++h) sums[h] += row[h];
        round_inner_each(call.rounding, {sums, width});
      }
    });
  }
  normalize_rows(call, width, attrs.epsilon, kNormIndex);
  const EvalTensor* bias = call.in.size() > scale_at + 1 ? call.in[scale_at + 1] : nullptr;
  scale_and_shift(call, *call.in[scale_at], bias, kNormIndex.out);
}

void eval_token_index(const EvalCall& call) {
  const TokenRule rule = TokenIndexAttrs::rule_of(call.attrs);
  const EvalTensor& mask = *call.in[0];
  const int64_t batch = mask.shape[0], length = mask.shape[1];
  const auto wanted = [&](size_t out) {
    return out < call.out.size() && call.out[out].dtype != DType::kUndefined;
  };
  const auto write = [&](size_t out, int64_t at, int64_t value) {
    if (wanted(out)) call.out[out].i[static_cast<size_t>(at)] = value;
  };
  int64_t places = INT64_MAX;
  for (size_t out : {size_t{0}, size_t{1}, size_t{5}}) {
    if (wanted(out)) places = call.out[out].elems();
  }
  int64_t start = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const auto is_padding = [&](int64_t s) {
      return mask.value(b * length + s) == static_cast<double>(rule.padding);
    };
    TokenSpan kept = kept_of_row(length, rule, is_padding);
    kept.count = std::min(kept.count, places - start);
    write(2, b, start);
    write(4, b, b);
    for (int64_t s = 0; s < length; ++s) {
      const bool is_kept = s >= kept.first && s < kept.end();
      const int64_t token = is_kept ? start + s - kept.first : start;
      write(3, b * length + s, token);
      if (!is_kept) continue;
      write(0, token, b * length + s);
      write(1, token, s);
      write(5, token, is_padding(s) ? 0 : 1);
    }
    start += kept.count;
  }
  write(2, batch, start);
  write(4, batch, batch);
}

// The other places stay 0, as outputs arrive.
void eval_zero_padding(const EvalCall& call) {
  const int64_t padding = decode<ZeroPaddingAttrs>(call.attrs).padding;
  const EvalTensor &x = *call.in[0], &mask = *call.in[1];
  require_float("ZeroPadding", x);
  const EvalTensor* places = call.optional(2);
  EvalTensor& y = call.out[0];
  const int64_t batch = mask.shape[0], length = mask.shape[1];
  int64_t width = 1;
  for (size_t axis = 2; axis < x.rank(); ++axis) width *= x.shape[axis];
  for (int64_t b = 0; b < batch; ++b) {
    const TokenSpan tokens = tokens_of_row(length, [&](int64_t s) {
      return mask.value(b * length + s) == static_cast<double>(padding);
    });
    if (tokens.count == 0) continue;
    const int64_t to = b * length + tokens.first;
    const int64_t from = places == nullptr ? to : places->i[static_cast<size_t>(to)];
    const int64_t count = places == nullptr ? tokens.count
                          : from < 0        ? 0
                                     : std::clamp<int64_t>(x.shape[1] - from, 0, tokens.count);
    if (count > 0) std::copy_n(x.f.begin() + from * width, count * width, y.f.begin() + to * width);
  }
}

// The sum of the mask has no upper bound; below `minimum` it is replaced, NaN stays.
void eval_masked_mean(const EvalCall& call) {
  const double minimum = decode<MaskedMeanAttrs>(call.attrs).minimum;
  const EvalTensor &x = *call.in[0], &mask = *call.in[1];
  require_float("MaskedMean", x);
  EvalTensor& y = call.out[0];
  const int64_t batch = x.shape[0], seq = x.shape[1], width = x.shape[2];
  const Sum nothing(call.rounding.accumulator());
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<Sum> sums(static_cast<size_t>(width), nothing);
    Sum total = nothing;
    for (int64_t s = 0; s < seq; ++s) {
      const double m = mask.value(b * seq + s);
      const double* row = x.f.data() + (b * seq + s) * width;
      total.add(m);
      for (size_t h = 0; h < sums.size(); ++h) sums[h].add(row[h] * m);
    }
    const double divisor = std::max(total.value(), minimum);
    for (size_t h = 0; h < sums.size(); ++h)
      y.f[static_cast<size_t>(b * width) + h] = call.rounding(0, sums[h].value() / divisor);
  }
}

}  // namespace vernier::reference
