// Attention of the FP64 evaluation on the GPU: each sequence's scores at once. The meaning:
// reference/attention.cpp.
#include <algorithm>

#include "backend/cuda/check.h"
#include "backend/cuda/fp64/evaluation.h"
#include "core/attrs.h"
#include "core/broadcast.h"

namespace vernier::backend::cuda::fp64 {
namespace {

using Input = AttentionAttrs::Input;
enum PointIndex : size_t { kQ, kK, kV, kScores, kProbs, kContext, kOut };

// Consecutive rows of one batch item: queries [q_begin, q_end) see keys [k_begin, k_end).
struct Sequence {
  int64_t batch, q_begin, q_end, k_begin, k_end;
  int64_t queries() const { return q_end - q_begin; }
  int64_t keys() const { return k_end - k_begin; }
};

std::vector<Sequence> sequences_of(const EvalCall& call) {
  const Shape &q = call.in[0]->shape, &k = call.in[1]->shape;
  const EvalTensor *starts_q = call.optional(Input::kStartsQ),
                   *starts_k = call.optional(Input::kStartsK);
  std::vector<Sequence> sequences;
  if (starts_q == nullptr || starts_k == nullptr) {
    for (int64_t b = 0; b < q[0]; ++b) sequences.push_back({b, 0, q[1], 0, k[1]});
    return sequences;
  }
  for (size_t n = 0; n + 1 < starts_q->i.size(); ++n) {
    const Sequence s{0, starts_q->i[n], starts_q->i[n + 1], starts_k->i[n], starts_k->i[n + 1]};
    if (s.queries() > 0 && s.keys() > 0) sequences.push_back(s);
  }
  return sequences;
}

// Are these starts as the evaluator accepts them?
bool ascend(const EvalTensor* starts, int64_t rows) {
  if (starts == nullptr) return true;
  const std::vector<int64_t>& s = starts->i;
  return !s.empty() && s.front() == 0 && std::is_sorted(s.begin(), s.end()) && s.back() <= rows;
}

// Strides of a tensor broadcast to [batch, heads, queries, keys].
struct Broadcast4 {
  Shape strides{0, 0, 0, 0};
  int64_t at(int64_t b, int64_t i, int64_t j) const {
    return b * strides[0] + i * strides[2] + j * strides[3];
  }
};
Broadcast4 broadcast4(const EvalTensor* tensor, const Shape& shape) {
  return tensor == nullptr ? Broadcast4{} : Broadcast4{broadcast_strides(tensor->shape, shape)};
}

class Attention {
 public:
  explicit Attention(Evaluation& e)
      : e_(e),
        attrs_(decode<AttentionAttrs>(e.call().attrs)),
        q_shape_(e.in(0).shape),
        k_shape_(e.in(1).shape),
        heads_(q_shape_[2]),
        kv_heads_(k_shape_[2]),
        width_(q_shape_[3]),
        value_width_(e.in(2).shape[3]),
        q_(rows_at(Input::kQ, Input::kStartsQ, kQ)),
        k_(rows_at(Input::kK, Input::kStartsK, kK)),
        v_(rows_at(Input::kV, Input::kStartsK, kV)),
        bias_(e.operand(Input::kBias)),
        y_(e.output(0)) {
    const Shape scores{q_shape_[0], heads_, q_shape_[1], k_shape_[1]};
    const EvalTensor* bias = e.call().optional(Input::kBias);
    if (attrs_.bias_in_sequence) {
      const int64_t longest = e.in(Input::kPlaces).shape[1];
      bias_at_ = broadcast4(bias, {1, heads_, longest, longest});
    } else {
      bias_at_ = broadcast4(bias, scores);
    }
    if (e.has(Input::kKeep)) {
      keep_at_ = broadcast4(&e.in(Input::kKeep), scores);
      keep_.emplace(e.in(Input::kKeep));
    }
    if (e.has(Input::kKeepQueries)) {
      queries_at_ = broadcast4(&e.in(Input::kKeepQueries), {q_shape_[0], heads_, q_shape_[1], 1});
      keep_queries_.emplace(e.in(Input::kKeepQueries));
    }
  }

  void run() {
    check_cuda(
        cudaMemsetAsync(y_->data(), 0, static_cast<size_t>(y_->elems()) * sizeof(double), kStream),
        "clearing the result of Attention");
    for (const Sequence& s : sequences_of(e_.call())) attend(s);
  }

 private:
  // q, k or v after its point. Rows behind all sequences do not count.
  Operand rows_at(Input input, Input starts, size_t point) {
    const EvalTensor* sequences = e_.call().optional(starts);
    const Shape& shape = e_.in(input).shape;
    return sequences == nullptr
               ? e_.operand_at(input, point)
               : e_.operand_at(input, point, sequences->i.back() * shape[2] * shape[3]);
  }

  void attend(const Sequence& s) {
    const int64_t queries = s.queries(), keys = s.keys();
    Array scores(heads_ * queries * keys), divisors(heads_ * queries);
    const int64_t group = heads_ / kv_heads_;
    const double* q = q_->data() + (s.batch * q_shape_[1] + s.q_begin) * heads_ * width_;
    const double* k = k_->data() + (s.batch * k_shape_[1] + s.k_begin) * kv_heads_ * width_;
    const double* v = v_->data() + (s.batch * k_shape_[1] + s.k_begin) * kv_heads_ * value_width_;
    double* y = y_->data() + (s.batch * q_shape_[1] + s.q_begin) * heads_ * value_width_;
    // Heads that share keys are a batch with one b; else each has its own.
    const int64_t batches = group == 1 ? 1 : kv_heads_, batch = group == 1 ? heads_ : group;
    Gemm of_scores{.m = queries,
                   .n = keys,
                   .k = width_,
                   .trans_b = true,
                   .lda = heads_ * width_,
                   .ldb = kv_heads_ * width_,
                   .ldc = keys,
                   .batch = batch,
                   .stride_a = width_,
                   .stride_b = group == 1 ? width_ : 0,
                   .stride_c = queries * keys};
    Gemm of_context{.m = queries,
                    .n = value_width_,
                    .k = keys,
                    .lda = keys,
                    .ldb = kv_heads_ * value_width_,
                    .ldc = heads_ * value_width_,
                    .batch = batch,
                    .stride_a = queries * keys,
                    .stride_b = group == 1 ? value_width_ : 0,
                    .stride_c = value_width_};
    for (int64_t b = 0; b < batches; ++b)
      e_.shared().gemms.run(of_scores, q + b * group * width_, k + b * width_,
                            scores.data() + b * group * queries * keys);
    attention_rows(rows_of(s), scores.data(), divisors.data(), kStream);
    for (int64_t b = 0; b < batches; ++b)
      e_.shared().gemms.run(of_context, scores.data() + b * group * queries * keys,
                            v + b * value_width_, y + b * group * value_width_);
    finish_context(y, divisors.data(), queries, heads_, value_width_, e_.point(kContext),
                   e_.point(kOut), kStream);
  }

  AttentionRows rows_of(const Sequence& s) const {
    AttentionRows rows;
    rows.heads = heads_;
    rows.queries = s.queries();
    rows.keys = s.keys();
    rows.scale = attrs_.scale;
    rows.fill = attrs_.fill;
    if (bias_) {
      rows.bias = bias_->data() +
                  (attrs_.bias_in_sequence ? 0 : bias_at_.at(s.batch, s.q_begin, s.k_begin));
      for (int64_t d = 0; d < 3; ++d) rows.bias_strides[d] = bias_at_.strides[d + 1];
    }
    if (keep_) {
      rows.keep = keep_->data() + keep_at_.at(s.batch, s.q_begin, s.k_begin);
      for (int64_t d = 0; d < 3; ++d) rows.keep_strides[d] = keep_at_.strides[d + 1];
    }
    if (keep_queries_) {
      rows.keep_queries = keep_queries_->data() + queries_at_.at(s.batch, s.q_begin, 0);
      for (int64_t d = 0; d < 2; ++d) rows.keep_query_strides[d] = queries_at_.strides[d + 1];
    }
    rows.causal = attrs_.causal;
    rows.masks_add = attrs_.masks_add;
    rows.zero_nan_rows = attrs_.zero_nan_rows;
    rows.zero_hidden_rows = attrs_.zero_hidden_rows;
    const PointRounding& probs = e_.call().rounding.at(kProbs);
    rows.form = static_cast<int32_t>(probs.scale);
    rows.block = probs.block;
    rows.scores = e_.point(kScores);
    rows.probs = e_.point(kProbs);
    return rows;
  }

  Evaluation& e_;
  const AttentionAttrs attrs_;
  const Shape &q_shape_, &k_shape_;
  const int64_t heads_, kv_heads_, width_, value_width_;
  const Operand q_, k_, v_, bias_;
  const ArrayPtr y_;
  std::optional<Integers> keep_, keep_queries_;
  Broadcast4 bias_at_, keep_at_, queries_at_;
};

}  // namespace

bool takes_attention(const EvalCall& call) {
  if (call.in[0]->there == nullptr && call.in[1]->there == nullptr && call.in[2]->there == nullptr)
    return false;
  for (const Input absent :
       {Input::kCosines, Input::kSines, Input::kQueryPositions, Input::kKeyPositions})
    if (call.optional(absent) != nullptr) return false;
  if (call.rounding.inner().type != DType::kUndefined) return false;
  const Shape &q = call.in[0]->shape, &k = call.in[1]->shape;
  const EvalTensor *starts_q = call.optional(Input::kStartsQ),
                   *starts_k = call.optional(Input::kStartsK);
  if (!ascend(starts_q, q[1]) || !ascend(starts_k, k[1])) return false;
  if (starts_q && starts_k && starts_q->i.size() != starts_k->i.size()) return false;
  if (decode<AttentionAttrs>(call.attrs).bias_in_sequence) {
    const EvalTensor* places = call.optional(Input::kPlaces);
    for (const Sequence& s : sequences_of(call))
      if (places == nullptr || std::max(s.queries(), s.keys()) > places->shape[1]) return false;
  }
  const PointRounding& probs = call.rounding.at(kProbs);
  constexpr int64_t kMostKeys = int64_t{1} << 20;
  if (k[1] > kMostKeys || q[1] * q[2] >= INT32_MAX) return false;
  return probs.block <= 0 || (k[1] + probs.block - 1) / probs.block <= kMostBlocks;
}

void run_attention(Evaluation& e) { Attention(e).run(); }

}  // namespace vernier::backend::cuda::fp64
