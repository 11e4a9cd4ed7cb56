// FP64 evaluator of LinearAttention, step by step. Contract: LinearAttentionAttrs in core/attrs.h,
// core/evaluator.h. Both products with the state use the accumulator; the state and everything
// else are inner results; both outputs pass the point "out".
#include <algorithm>
#include <cmath>

#include "core/attrs.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

using Attrs = LinearAttentionAttrs;

// An input broadcast to `target`; `fill` where it is absent.
class Broadcasted {
 public:
  Broadcasted(const EvalTensor* x, const Shape& target) : x_(x) {
    if (x != nullptr) strides_ = broadcast_strides(x->shape, target);
  }
  bool is_given() const { return x_ != nullptr; }
  double at(std::initializer_list<int64_t> position) const {
    int64_t offset = 0;
    size_t axis = 0;
    for (const int64_t p : position) offset += p * strides_[axis++];
    return x_->f[static_cast<size_t>(offset)];
  }

 private:
  const EvalTensor* x_;
  Shape strides_;
};

struct Problem {
  explicit Problem(const EvalCall& call)
      : q(*call.in[Attrs::kQ]),
        k(*call.in[Attrs::kK]),
        v(*call.in[Attrs::kV]),
        steps(q.shape[1]),
        heads(q.shape[2]),
        kv_heads(k.shape[2]),
        head_dim(q.shape[3]),
        value_dim(v.shape[3]),
        decay(call.optional(Attrs::kDecay), k.shape),
        beta(call.optional(Attrs::kBeta), {k.shape[0], steps, kv_heads}) {}

  const EvalTensor &q, &k, &v;
  int64_t steps, heads, kv_heads, head_dim, value_dim;
  Broadcasted decay, beta;
};

// The state of one batch and key head over the steps.
class Head {
 public:
  Head(const EvalCall& call, const Problem& problem, int64_t index)
      : rounding_(call.rounding),
        p_(problem),
        batch_(index / problem.kv_heads),
        head_(index % problem.kv_heads),
        state_(static_cast<size_t>(p_.head_dim * p_.value_dim), 0.0) {
    const EvalTensor* first = call.optional(Attrs::kState);
    if (first == nullptr) return;
    std::copy_n(first->f.begin() + index * std::ssize(state_), state_.size(), state_.begin());
  }

  const std::vector<double>& state() const { return state_; }
  void step(int64_t t) {
    if (p_.decay.is_given()) decay(t);
    const double* k = row(p_.k, t, head_);
    const double* v = row(p_.v, t, head_);
    std::vector<double> added(v, v + p_.value_dim);
    if (p_.beta.is_given()) {
      const double beta = p_.beta.at({batch_, t, head_});
      for (int64_t m = 0; m < p_.value_dim; ++m) {
        double& value = added[static_cast<size_t>(m)];
        value = inner(beta * inner(value - read(k, m)));
      }
    }
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      for (int64_t m = 0; m < p_.value_dim; ++m) {
        double& s = state_[static_cast<size_t>(d * p_.value_dim + m)];
        s = inner(s + inner(k[d] * added[static_cast<size_t>(m)]));
      }
    }
  }
  // The outputs of step t for the query heads that share this state.
  void answer(int64_t t, double scale, EvalTensor& out) const {
    const int64_t group = p_.heads / p_.kv_heads;
    for (int64_t head = head_ * group; head < (head_ + 1) * group; ++head) {
      const double* q = row(p_.q, t, head);
      const int64_t to = ((batch_ * p_.steps + t) * p_.heads + head) * p_.value_dim;
      for (int64_t m = 0; m < p_.value_dim; ++m)
        out.f[static_cast<size_t>(to + m)] = rounding_(0, scale * inner(read(q, m)));
    }
  }

 private:
  double inner(double value) const { return rounding_.inner(value); }
  const double* row(const EvalTensor& x, int64_t t, int64_t head) const {
    return x.f.data() + ((batch_ * p_.steps + t) * x.shape[2] + head) * x.shape[3];
  }
  // Element m of Sᵀx.
  double read(const double* x, int64_t m) const {
    Sum sum(rounding_.accumulator());
    for (int64_t d = 0; d < p_.head_dim; ++d)
      sum.add(state_[static_cast<size_t>(d * p_.value_dim + m)] * x[d]);
    return sum.value();
  }
  void decay(int64_t t) {
    for (int64_t d = 0; d < p_.head_dim; ++d) {
      const double factor = inner(std::exp(p_.decay.at({batch_, t, head_, d})));
      for (int64_t m = 0; m < p_.value_dim; ++m) {
        double& s = state_[static_cast<size_t>(d * p_.value_dim + m)];
        s = inner(s * factor);
      }
    }
  }

  const Rounding& rounding_;
  const Problem& p_;
  int64_t batch_, head_;
  std::vector<double> state_;  // [head_dim, value_dim]
};

}  // namespace

void eval_linear_attention(const EvalCall& call) {
  require_float("LinearAttention", *call.in[Attrs::kQ]);
  const double scale = decode<Attrs>(call.attrs).scale;
  const Problem problem(call);
  const int64_t heads = problem.q.shape[0] * problem.kv_heads;
  in_rounded_parts(call, heads, 1, [&](const EvalCall& part, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Head head(part, problem, i);
      for (int64_t t = 0; t < problem.steps; ++t) {
        head.step(t);
        if (call.out[0].dtype != DType::kUndefined) head.answer(t, scale, call.out[0]);
      }
      if (call.out.size() < 2 || call.out[1].dtype == DType::kUndefined) continue;
      const std::vector<double>& state = head.state();
      for (size_t n = 0; n < state.size(); ++n)
        call.out[1].f[static_cast<size_t>(i) * state.size() + n] = part.rounding(0, state[n]);
    }
  });
}

}  // namespace vernier::reference
