// Inference and cost of RNN, GRU, LSTM and LinearAttention. Contract: RecurrentAttrs and
// LinearAttentionAttrs in core/attrs.h, context.h, rules.h.
#include "rules/checks.h"

namespace vernier::rules {
namespace {

// What the three recurrent operators differ in.
struct Cell {
  int64_t gates;
  size_t functions;  // of one direction
  bool has_cell_state;
};

// Input `i` has the type of input 0 and these sizes.
void require_shape(InferContext& context, size_t i, const SymShape& wanted) {
  if (!context.has_input(i)) return;
  require_float(context, i);
  require_same_type(context, i);
  require_rank(context, i, static_cast<int64_t>(wanted.size()));
  const SymShape shape = context.shape(i);
  for (size_t axis = 0; axis < wanted.size(); ++axis) context.unify(shape[axis], wanted[axis]);
}

void check_functions(InferContext& context, const RecurrentAttrs& attrs, size_t count) {
  if (attrs.functions.size() != count || attrs.alpha.size() != count || attrs.beta.size() != count)
    context.fail("has " + std::to_string(attrs.functions.size()) + " functions, " +
                 std::to_string(attrs.alpha.size()) + " alpha and " +
                 std::to_string(attrs.beta.size()) + " beta, expected " + std::to_string(count) +
                 " of each");
  for (const int64_t function : attrs.functions)
    require_between(context, "a function", function, 0,
                    static_cast<int64_t>(last_value(RecurrentFunction{})));
  if (!(attrs.clip >= 0))
    context.fail("clip is " + std::to_string(attrs.clip) + ", expected 0 or more");
}

void infer_recurrent(InferContext& context, const Cell& cell) {
  using Attrs = RecurrentAttrs;
  const auto attrs = context.attrs<Attrs>();
  const int64_t directions = attrs.direction == RecurrentDirection::kBidirectional ? 2 : 1;
  check_functions(context, attrs, cell.functions * static_cast<size_t>(directions));
  for (size_t i = 0; i < 3; ++i) require_rank(context, i, 3);
  require_float(context, Attrs::kX);
  const SymShape x = context.shape(Attrs::kX);
  const Dim hidden = context.shape(Attrs::kR)[2];
  const Dim width = hidden * Dim(cell.gates);
  require_shape(context, Attrs::kW, {directions, width, x[2]});
  require_shape(context, Attrs::kR, {directions, width, hidden});
  require_shape(context, Attrs::kBias, {directions, width * Dim(2)});
  if (context.has_input(Attrs::kLengths)) {
    require_signed_index(context, Attrs::kLengths);
    require_rank(context, Attrs::kLengths, 1);
    context.unify(context.shape(Attrs::kLengths)[0], x[1]);
  }
  const SymShape state{directions, x[1], hidden};
  require_shape(context, Attrs::kInitialH, state);
  require_shape(context, Attrs::kInitialC, state);
  require_shape(context, Attrs::kPeepholes, {directions, hidden * Dim(3)});
  const DType type = context.dtype(Attrs::kX);
  context.set_output(0, type, {x[0], directions, x[1], hidden});
  context.set_output(1, type, state);
  if (cell.has_cell_state) context.set_output(2, type, state);
}

}  // namespace

void infer_rnn(InferContext& context) {
  infer_recurrent(context, {.gates = 1, .functions = 1, .has_cell_state = false});
}
void infer_gru(InferContext& context) {
  infer_recurrent(context, {.gates = 3, .functions = 2, .has_cell_state = false});
}
void infer_lstm(InferContext& context) {
  infer_recurrent(context, {.gates = 4, .functions = 3, .has_cell_state = true});
}

// Both products of each step and row, and about 8 operations per gate.
Cost cost_recurrent(const CostCall& call) {
  const Shape &x = call.in[0], &w = call.in[1], &r = call.in[2];
  double gates = 1;  // each factor may be large where another size is 0
  for (int64_t size : {x[0], x[1], w[0], w[1]}) gates *= static_cast<double>(size);
  const double depth = static_cast<double>(x[2]) + static_cast<double>(r[2]);
  return {gates * (2 * depth + 8), tensor_bytes(call)};
}

void infer_linear_attention(InferContext& context) {
  using Attrs = LinearAttentionAttrs;
  for (size_t i = 0; i < 3; ++i) {
    require_rank(context, i, 4);
    require_float(context, i);
    require_same_type(context, i);
  }
  const SymShape q = context.shape(Attrs::kQ), k = context.shape(Attrs::kK),
                 v = context.shape(Attrs::kV);
  for (size_t axis : {size_t{0}, size_t{1}, size_t{3}}) context.unify(q[axis], k[axis]);
  for (size_t axis = 0; axis < 3; ++axis) context.unify(k[axis], v[axis]);
  context.require_at_most(1, k[2]);
  if (equal(mod(q[2], k[2]), 0) == false)
    context.fail(q[2].str() + " query heads are not a multiple of " + k[2].str() +
                 " key and value heads");
  context.require_equal(mod(q[2], k[2]), 0);
  DType state_type = context.dtype(Attrs::kQ);
  const SymShape state{q[0], k[2], q[3], v[3]};
  if (context.has_input(Attrs::kState)) {
    require_float(context, Attrs::kState);
    require_rank(context, Attrs::kState, 4);
    const SymShape given = context.shape(Attrs::kState);
    for (size_t axis = 0; axis < state.size(); ++axis) context.unify(given[axis], state[axis]);
    state_type = context.dtype(Attrs::kState);
  }
  if (context.has_input(Attrs::kDecay)) {
    require_same_type(context, Attrs::kDecay);
    require_fits(context, Attrs::kDecay, {q[0], q[1], k[2], q[3]});
  }
  if (context.has_input(Attrs::kBeta)) {
    require_same_type(context, Attrs::kBeta);
    require_fits(context, Attrs::kBeta, {q[0], q[1], k[2]});
  }
  context.set_output(0, context.dtype(Attrs::kQ), {q[0], q[1], q[2], v[3]});
  context.set_output(1, state_type, state);
}

// Of each step, a read of the state per query head, and per key head a read, a decay and an update.
Cost cost_linear_attention(const CostCall& call) {
  const Shape &q = call.in[0], &k = call.in[1], &v = call.in[2];
  double states = 1;  // each factor may be large where another size is 0
  for (int64_t size : {q[0], q[1], q[3], v[3]}) states *= static_cast<double>(size);
  const double heads = 2 * static_cast<double>(q[2]) + 5 * static_cast<double>(k[2]);
  return {states * heads, tensor_bytes(call)};
}

}  // namespace vernier::rules
