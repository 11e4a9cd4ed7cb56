// FP64 evaluators of RNN, GRU and LSTM: one loop over directions and steps, and a function for each
// cell. Contract: RecurrentAttrs in core/attrs.h, core/evaluator.h. Both products use the
// accumulator; gates, functions and new states are inner results. h passes the point "out" before
// the next step reads it, c only as an output.
#include <algorithm>
#include <cmath>

#include "reference/activations.h"
#include "reference/elementwise.h"
#include "reference/matmul.h"

namespace vernier::reference {
namespace {

using Attrs = RecurrentAttrs;
using Matrix = std::vector<double>;  // dense rows, one per row of the batch

double apply(RecurrentFunction function, double alpha, double beta, double x) {
  switch (function) {
    case RecurrentFunction::kSigmoid:
      return sigmoid(x);
    case RecurrentFunction::kTanh:
      return std::tanh(x);
    case RecurrentFunction::kRelu:
      return relu(x);
    case RecurrentFunction::kAffine:
      return alpha * x + beta;
    case RecurrentFunction::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case RecurrentFunction::kThresholdedRelu:
      return x < alpha ? 0.0 : x;
    case RecurrentFunction::kScaledTanh:
      return alpha * std::tanh(beta * x);
    case RecurrentFunction::kHardSigmoid:
      return clamp(alpha * x + beta, 0.0, 1.0);
    case RecurrentFunction::kElu:
      return x < 0 ? alpha * std::expm1(x) : x;
    case RecurrentFunction::kSoftsign:
      return x / (1.0 + std::abs(x));
    case RecurrentFunction::kSoftplus:
      return softplus(x);
  }
  VERNIER_ASSERT(false, "unknown function");
  return x;
}

// h and, of an LSTM, c: [batch, hidden].
struct State {
  Matrix h, c;
};

// One direction of a node.
class Layer {
 public:
  Layer(const EvalCall& call, const Attrs& attrs, int64_t direction)
      : rounding_(call.rounding),
        attrs_(attrs),
        batch_(call.in[Attrs::kX]->shape[1]),
        depth_(call.in[Attrs::kX]->shape[2]),
        hidden_(call.in[Attrs::kR]->shape[2]),
        width_(call.in[Attrs::kR]->shape[1]),
        functions_(attrs.functions.size() / static_cast<size_t>(call.in[Attrs::kR]->shape[0])),
        first_function_(functions_ * static_cast<size_t>(direction)),
        w_(transposed(*call.in[Attrs::kW], direction)),
        r_(transposed(*call.in[Attrs::kR], direction)),
        bias_(part(call.optional(Attrs::kBias), direction, 2 * width_)),
        peepholes_(part(call.optional(Attrs::kPeepholes), direction, 3 * hidden_)) {}

  bool linear_before_reset() const { return attrs_.linear_before_reset; }
  double inner(double value) const { return rounding_.inner(value); }
  /// x·wᵀ and h·rᵀ with their biases: [batch, gates · hidden].
  Matrix from_input(const Matrix& x) const { return product(x, w_, depth_, 0); }
  Matrix from_state(const Matrix& h) const { return product(h, r_, hidden_, width_); }
  /// Where a gate of element i of a state is in these.
  size_t at(size_t i, size_t gate) const {
    const auto hidden = static_cast<size_t>(hidden_);
    return i / hidden * static_cast<size_t>(width_) + gate * hidden + i % hidden;
  }
  /// The n-th function of x.
  double activate(size_t n, double x) const {
    const size_t k = first_function_ + n;
    const double operand = clamp(inner(x), -attrs_.clip, attrs_.clip);
    return inner(apply(static_cast<RecurrentFunction>(attrs_.functions[k]), attrs_.alpha[k],
                       attrs_.beta[k], operand));
  }
  /// What c adds to a gate of element i through its peephole.
  double peephole(size_t i, size_t gate, double c) const {
    if (peepholes_.empty()) return 0;
    const auto hidden = static_cast<size_t>(hidden_);
    return inner(peepholes_[gate * hidden + i % hidden] * c);
  }

 private:
  static std::span<const double> part(const EvalTensor* x, int64_t direction, int64_t size) {
    if (x == nullptr) return {};
    return std::span(x->f).subspan(static_cast<size_t>(direction * size),
                                   static_cast<size_t>(size));
  }
  static Matrix transposed(const EvalTensor& x, int64_t direction) {
    const std::span<const double> own = part(&x, direction, x.shape[1] * x.shape[2]);
    Matrix result(own.size());
    transpose(x.shape[1], x.shape[2], own.data(), result.data());
    return result;
  }
  Matrix product(const Matrix& a, const Matrix& b, int64_t depth, int64_t first_bias) const {
    Matrix y(static_cast<size_t>(batch_ * width_), 0.0);
    multiply_add({batch_, width_, depth}, a.data(), b.data(), y.data(), rounding_.accumulator());
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t column = static_cast<size_t>(first_bias) + i % static_cast<size_t>(width_);
      y[i] = inner(y[i] + (bias_.empty() ? 0.0 : bias_[column]));
    }
    return y;
  }

  const Rounding& rounding_;
  const Attrs& attrs_;
  int64_t batch_, depth_, hidden_, width_;  // width: gates · hidden
  size_t functions_, first_function_;
  Matrix w_, r_;                              // [depth, width], [hidden, width]
  std::span<const double> bias_, peepholes_;  // [2 · width], [3 · hidden]
};

// The state after a step. `x` is from_input() of the step's rows.
using Cell = State (*)(const Layer& layer, const Matrix& x, const State& before);

// h = f(x + h)
State rnn_cell(const Layer& layer, const Matrix& x, const State& before) {
  State next{layer.from_state(before.h), {}};
  for (size_t i = 0; i < next.h.size(); ++i) next.h[i] = layer.activate(0, x[i] + next.h[i]);
  return next;
}

// h = (1 − z)·candidate + z·h, where r scales h before its product for the candidate, or after it.
State gru_cell(const Layer& layer, const Matrix& x, const State& before) {
  enum Gate : size_t { kUpdate, kReset, kHidden };
  enum Function : size_t { kF, kG };
  const size_t count = before.h.size();
  const Matrix from_h = layer.from_state(before.h);
  const auto gate = [&](size_t i, Gate g) {
    return layer.activate(kF, x[layer.at(i, g)] + from_h[layer.at(i, g)]);
  };
  Matrix reset(count), kept(count);
  for (size_t i = 0; i < count; ++i) {
    reset[i] = gate(i, kReset);
    kept[i] = layer.inner(reset[i] * before.h[i]);
  }
  const bool linear = layer.linear_before_reset();
  const Matrix from_kept = linear ? Matrix() : layer.from_state(kept);
  State next{Matrix(count), {}};
  for (size_t i = 0; i < count; ++i) {
    const size_t at = layer.at(i, kHidden);
    const double own = linear ? layer.inner(reset[i] * from_h[at]) : from_kept[at];
    const double candidate = layer.activate(kG, x[at] + own), update = gate(i, kUpdate);
    next.h[i] =
        layer.inner(layer.inner((1 - update) * candidate) + layer.inner(update * before.h[i]));
  }
  return next;
}

// c = forget·c + input·candidate,  h = output·h(c)
State lstm_cell(const Layer& layer, const Matrix& x, const State& before) {
  enum Gate : size_t { kInput, kOutput, kForget, kCandidate };
  enum Function : size_t { kF, kG, kH };
  const size_t count = before.h.size();
  const Matrix from_h = layer.from_state(before.h);
  State next{Matrix(count), Matrix(count)};
  for (size_t i = 0; i < count; ++i) {
    const auto sum = [&](Gate g) {
      return layer.inner(x[layer.at(i, g)] + from_h[layer.at(i, g)]);
    };
    const auto gate = [&](Gate g, double c) {
      return layer.activate(kF, sum(g) + layer.peephole(i, g, c));
    };
    const double candidate = layer.activate(kG, sum(kCandidate));
    const double before_c = before.c[i];
    const double c = layer.inner(layer.inner(gate(kForget, before_c) * before_c) +
                                 layer.inner(gate(kInput, before_c) * candidate));
    next.c[i] = c;
    next.h[i] = layer.inner(gate(kOutput, c) * layer.activate(kH, c));
  }
  return next;
}

// The steps of each row of the batch.
std::vector<int64_t> lengths_of(const EvalCall& call) {
  const Shape& x = call.in[Attrs::kX]->shape;
  const EvalTensor* given = call.optional(Attrs::kLengths);
  if (given == nullptr) return std::vector<int64_t>(static_cast<size_t>(x[1]), x[0]);
  for (size_t b = 0; b < given->i.size(); ++b) {
    if (given->i[b] >= 0 && given->i[b] <= x[0]) continue;
    throw Error(ErrorCode::kInput, "sequence_lens is " + std::to_string(given->i[b]) +
                                       " at element " + std::to_string(b) + ", outside [0, " +
                                       std::to_string(x[0]) + "]");
  }
  return given->i;
}

EvalTensor* wanted_output(const EvalCall& call, size_t n) {
  return n < call.out.size() && call.out[n].dtype != DType::kUndefined ? &call.out[n] : nullptr;
}

// One direction: the steps in its order, and its part of the outputs.
class Pass {
 public:
  Pass(const EvalCall& call, const Attrs& attrs, Cell cell, int64_t direction)
      : call_(call),
        cell_(cell),
        layer_(call, attrs, direction),
        lengths_(lengths_of(call)),
        direction_(direction),
        directions_(call.in[Attrs::kR]->shape[0]),
        hidden_(call.in[Attrs::kR]->shape[2]),
        reversed_(attrs.direction == RecurrentDirection::kReverse || direction == 1),
        state_{initial(Attrs::kInitialH), initial(Attrs::kInitialC)} {}

  void run() {
    const int64_t steps = lengths_.empty() ? 0 : *std::ranges::max_element(lengths_);
    for (int64_t step = 0; step < steps; ++step) {
      const State next = cell_(layer_, layer_.from_input(gather(step)), state_);
      for (int64_t row = 0; row < std::ssize(lengths_); ++row) {
        if (step < lengths_[static_cast<size_t>(row)]) take(next, row, place(step, row));
      }
    }
    store(state_.h, wanted_output(call_, 1));
    store(state_.c, wanted_output(call_, 2));
  }

 private:
  Matrix initial(size_t input) const {
    const size_t size = lengths_.size() * static_cast<size_t>(hidden_);
    const EvalTensor* given = call_.optional(input);
    if (given == nullptr) return Matrix(size, 0.0);
    const double* first = given->f.data() + static_cast<size_t>(direction_) * size;
    return {first, first + size};
  }
  // The place in the sequence of a step of a row.
  int64_t place(int64_t step, int64_t row) const {
    return reversed_ ? lengths_[static_cast<size_t>(row)] - 1 - step : step;
  }
  // x of a step, [batch, depth]; 0 in rows that have ended.
  Matrix gather(int64_t step) const {
    const EvalTensor& x = *call_.in[Attrs::kX];
    const int64_t batch = x.shape[1], depth = x.shape[2];
    Matrix rows(static_cast<size_t>(batch * depth), 0.0);
    for (int64_t row = 0; row < batch; ++row) {
      if (step >= lengths_[static_cast<size_t>(row)]) continue;
      const double* from = x.f.data() + (place(step, row) * batch + row) * depth;
      std::copy_n(from, depth, rows.begin() + row * depth);
    }
    return rows;
  }
  // A row's state becomes that of `next`, and its y at `place` h.
  void take(const State& next, int64_t row, int64_t place) {
    EvalTensor* y = wanted_output(call_, 0);
    const int64_t batch = std::ssize(lengths_);
    const int64_t to = ((place * directions_ + direction_) * batch + row) * hidden_;
    for (int64_t j = 0; j < hidden_; ++j) {
      const auto at = static_cast<size_t>(row * hidden_ + j);
      state_.h[at] = call_.rounding(0, next.h[at]);
      if (!next.c.empty()) state_.c[at] = next.c[at];
      if (y != nullptr) y->f[static_cast<size_t>(to + j)] = state_.h[at];
    }
  }
  void store(const Matrix& state, EvalTensor* y) const {
    if (y == nullptr) return;
    const size_t first = static_cast<size_t>(direction_) * state.size();
    for (size_t i = 0; i < state.size(); ++i) y->f[first + i] = call_.rounding(0, state[i]);
  }

  const EvalCall& call_;
  Cell cell_;
  Layer layer_;
  std::vector<int64_t> lengths_;
  int64_t direction_, directions_, hidden_;
  bool reversed_;
  State state_;
};

void run(const char* op, const EvalCall& call, Cell cell) {
  require_float(op, *call.in[Attrs::kX]);
  const auto attrs = decode<Attrs>(call.attrs);
  for (int64_t direction = 0; direction < call.in[Attrs::kR]->shape[0]; ++direction)
    Pass(call, attrs, cell, direction).run();
}

}  // namespace

void eval_rnn(const EvalCall& call) { run("RNN", call, rnn_cell); }
void eval_gru(const EvalCall& call) { run("GRU", call, gru_cell); }
void eval_lstm(const EvalCall& call) { run("LSTM", call, lstm_cell); }

}  // namespace vernier::reference
