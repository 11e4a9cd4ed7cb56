// Translations of the operators that carry a state from step to step: RNN, GRU, LSTM,
// LinearAttention and CausalConvWithState (Scan and Loop: loops.cpp). Contract: node_context.h,
// translations.h; meaning of the graph's operators: RecurrentAttrs and LinearAttentionAttrs in
// core/attrs.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/attrs.h"
#include "onnx/attention.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// ---- RNN, GRU, LSTM ---------------------------------------------------------------------------

// A parameter of a function: its default, NaN where the model must give it, or none.
struct Parameter {
  bool taken = false;
  double value = 0;
};
constexpr Parameter kNone{};
constexpr Parameter with_default(float value) { return {true, static_cast<double>(value)}; }
constexpr Parameter kRequired{true, std::numeric_limits<double>::quiet_NaN()};

struct Function {
  std::string_view name;
  RecurrentFunction function;
  Parameter alpha = kNone, beta = kNone;
};
constexpr std::array kFunctions{
    Function{"Sigmoid", RecurrentFunction::kSigmoid},
    Function{"Tanh", RecurrentFunction::kTanh},
    Function{"Relu", RecurrentFunction::kRelu},
    Function{"Affine", RecurrentFunction::kAffine, kRequired, kRequired},
    Function{"LeakyRelu", RecurrentFunction::kLeakyRelu, with_default(0.01F)},
    Function{"ThresholdedRelu", RecurrentFunction::kThresholdedRelu, with_default(1)},
    Function{"ScaledTanh", RecurrentFunction::kScaledTanh, kRequired, kRequired},
    Function{"HardSigmoid", RecurrentFunction::kHardSigmoid, with_default(0.2F),
             with_default(0.5F)},
    Function{"Elu", RecurrentFunction::kElu, with_default(1)},
    Function{"Softsign", RecurrentFunction::kSoftsign},
    Function{"Softplus", RecurrentFunction::kSoftplus},
};

const Function& function_called(NodeContext& node, const std::string& name) {
  const auto found = std::ranges::find(kFunctions, name, &Function::name);
  if (found != kFunctions.end()) return *found;
  std::string known;
  for (const Function& function : kFunctions)
    known += (known.empty() ? "" : ", ") + std::string(function.name);
  node.fail("activation '" + name + "' is unknown; expected one of " + known);
}

// activation_alpha or activation_beta: one number for each function that has the parameter, in
// their order; those at the end may be left out.
class Parameters {
 public:
  Parameters(NodeContext& node, const char* attribute)
      : node_(node), attribute_(attribute), values_(node.attrs().numbers(attribute)) {}

  double next(const Function& function, const Parameter& parameter) {
    if (!parameter.taken) return 0;
    const double value = used_ < values_.size() ? values_[used_] : parameter.value;
    ++used_;
    if (std::isnan(value))
      node_.fail("activation '" + std::string(function.name) + "' needs a number in attribute '" +
                 attribute_ + "'");
    return value;
  }
  void check_all_used() const {
    if (used_ >= values_.size()) return;
    node_.fail("attribute '" + attribute_ + "' has " + std::to_string(values_.size()) +
               " numbers; its functions take " + std::to_string(used_));
  }

 private:
  NodeContext& node_;
  std::string attribute_;
  std::vector<double> values_;
  size_t used_ = 0;
};

RecurrentDirection direction_of(NodeContext& node) {
  constexpr std::array kDirections{"forward", "reverse", "bidirectional"};
  const std::string text = node.attrs().text("direction", "forward");
  const auto found = std::ranges::find(kDirections, text);
  if (found == kDirections.end())
    node.fail("attribute 'direction' is '" + text +
              "'; expected forward, reverse or bidirectional");
  return static_cast<RecurrentDirection>(found - kDirections.begin());
}

// `defaults`: the functions of one direction.
void read_functions(NodeContext& node, std::span<const std::string_view> defaults,
                    RecurrentAttrs& attrs) {
  const size_t directions = attrs.direction == RecurrentDirection::kBidirectional ? 2 : 1;
  std::vector<std::string> names = node.attrs().texts("activations");
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d)
      names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != directions * defaults.size())
    node.fail("attribute 'activations' has " + std::to_string(names.size()) + " names; expected " +
              std::to_string(directions * defaults.size()));
  Parameters alpha(node, "activation_alpha"), beta(node, "activation_beta");
  for (const std::string& name : names) {
    const Function& function = function_called(node, name);
    attrs.functions.push_back(static_cast<int64_t>(function.function));
    attrs.alpha.push_back(alpha.next(function, function.alpha));
    attrs.beta.push_back(beta.next(function, function.beta));
  }
  alpha.check_all_used();
  beta.check_all_used();
}

// The graph's operator has layout 0; in layout 1 the batch comes first.
void translate_recurrent(NodeContext& node, OpKind op, std::span<const std::string_view> functions,
                         RecurrentAttrs attrs) {
  attrs.direction = direction_of(node);
  read_functions(node, functions, attrs);
  if (node.attrs().has("clip")) attrs.clip = node.attrs().number("clip", 0);
  const bool batch_first = node.opset() >= 14 && node.attrs().flag("layout", 0);
  std::vector<ir::ValueId> inputs = node.all_inputs();
  for (const size_t i :
       {RecurrentAttrs::kX, RecurrentAttrs::kInitialH, RecurrentAttrs::kInitialC}) {
    if (batch_first && node.has_input(i)) inputs[i] = node.transpose(inputs[i], {1, 0, 2});
  }
  size_t count = 1;
  for (size_t i = 1; i < node.num_outputs(); ++i) {
    if (node.wants_output(i)) count = i + 1;
  }
  const auto outputs = node.emit_all(op, inputs, encode(attrs), count);
  const Dim hidden = node.shape(node.input(RecurrentAttrs::kR))[2];
  if (node.attrs().has("hidden_size")) {
    const int64_t given = node.attrs().required_integer("hidden_size");
    if (equal(hidden, given) == false)
      node.fail("hidden_size is " + std::to_string(given) + ", but input 2 has shape " +
                str(node.shape(node.input(RecurrentAttrs::kR))));
  }
  for (size_t i = 0; i < count; ++i) {
    const std::vector<int64_t> perm =
        i == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2};
    node.set_output(i, batch_first ? node.transpose(outputs[i], perm) : outputs[i]);
  }
}

void translate_rnn(NodeContext& node) {
  constexpr std::array<std::string_view, 1> kDefaults{"Tanh"};
  translate_recurrent(node, OpKind::kRNN, kDefaults, {});
}

void translate_gru(NodeContext& node) {
  constexpr std::array<std::string_view, 2> kDefaults{"Sigmoid", "Tanh"};
  RecurrentAttrs attrs;
  attrs.linear_before_reset = node.attrs().integer("linear_before_reset", 0) != 0;
  translate_recurrent(node, OpKind::kGRU, kDefaults, std::move(attrs));
}

void translate_lstm(NodeContext& node) {
  constexpr std::array<std::string_view, 3> kDefaults{"Sigmoid", "Tanh", "Tanh"};
  if (node.attrs().flag("input_forget", 0))
    node.unsupported("its input and forget gates are coupled (input_forget)");
  translate_recurrent(node, OpKind::kLSTM, kDefaults, {});
}

// ---- LinearAttention --------------------------------------------------------------------------

// [batch, seq, heads · width] as [batch, seq, heads, width].
ir::ValueId split_packed(NodeContext& node, ir::ValueId value, int64_t heads, const char* what) {
  const SymShape shape = node.shape(value);
  if (shape.size() != 3)
    node.fail(std::string(what) + " has shape " + str(shape) + "; expected rank 3");
  if (heads < 1)
    node.fail("q_num_heads and kv_num_heads must be at least 1, one is " + std::to_string(heads));
  return node.reshape(value, {shape[0], shape[1], heads, floordiv(shape[2], Dim(heads))});
}

// Input i, which the update rule takes or not.
ir::ValueId input_of_rule(NodeContext& node, size_t i, const char* what, bool taken) {
  if (node.has_input(i) != taken)
    node.fail("its update_rule " + std::string(taken ? "needs " : "does not take ") + what +
              " (input " + std::to_string(i) + ")");
  return node.optional_input(i);
}

void translate_linear_attention(NodeContext& node) {
  using Attrs = LinearAttentionAttrs;
  const std::string rule = node.attrs().text("update_rule", "gated_delta");
  const bool is_gated = rule == "gated" || rule == "gated_delta";
  const bool is_delta = rule == "delta" || rule == "gated_delta";
  if (rule != "linear" && !is_gated && !is_delta)
    node.fail("update_rule is '" + rule + "'; expected linear, gated, delta or gated_delta");
  node.attrs().ignore("chunk_size");  // no result depends on it
  const int64_t heads = node.attrs().required_integer("q_num_heads");
  const int64_t kv_heads = node.attrs().required_integer("kv_num_heads");
  const ir::ValueId q = split_packed(node, node.input(0), heads, "query (input 0)");
  const ir::ValueId k = split_packed(node, node.input(1), kv_heads, "key (input 1)");
  const ir::ValueId v = split_packed(node, node.input(2), kv_heads, "value (input 2)");
  ir::ValueId decay = input_of_rule(node, 4, "decay", is_gated);
  if (is_gated) decay = split_packed(node, decay, kv_heads, "decay (input 4)");
  const ir::ValueId beta = input_of_rule(node, 5, "beta", is_delta);
  const double scale = node.attrs().number("scale", 0.0F);
  const Attrs attrs{.scale = scale == 0 ? default_scale(node, q) : scale};
  const auto outputs =
      node.emit_all(OpKind::kLinearAttention, {q, k, v, node.optional_input(3), decay, beta},
                    encode(attrs), node.wants_output(1) ? 2 : 1);
  const SymShape shape = node.shape(outputs[0]);
  node.set_output(0, node.reshape(outputs[0], {shape[0], shape[1], shape[2] * shape[3]}));
  if (node.wants_output(1)) node.set_output(1, outputs[1]);
}

// ---- CausalConvWithState ----------------------------------------------------------------------

// x behind the k − 1 columns before it: past_state, or zeros.
ir::ValueId behind_past(NodeContext& node, ir::ValueId x, const Dim& columns) {
  const SymShape shape = node.shape(x);
  const ir::ValueId past = node.optional_input(3);
  if (past == ir::kNoValue) {
    const ir::ValueId pads =
        node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {0, 0, columns, 0, 0, 0}});
    return node.emit(OpKind::kPad, {x, pads}, PadAttrs{});
  }
  const SymShape wanted{shape[0], shape[1], columns}, got = node.shape(past);
  bool fits = got.size() == wanted.size();
  for (size_t axis = 0; fits && axis < wanted.size(); ++axis)
    fits = equal(got[axis], wanted[axis]) != false;
  if (!fits) node.fail("past_state has shape " + str(got) + "; expected " + str(wanted));
  return node.emit(OpKind::kConcat, {node.reshape(past, wanted), x}, AxisAttrs{2});
}

// y = activation(Conv(padded, w, bias)) of each channel by itself, present = padded[…, length:],
// where `padded` are past and x.
void translate_causal_conv(NodeContext& node) {
  const ir::ValueId x = node.input(0), w = node.input(1);
  if (node.rank(x) != 3 || node.rank(w) != 3)
    node.fail("inputs 0 and 1 have shapes " + str(node.shape(x)) + " and " + str(node.shape(w)) +
              "; expected rank 3");
  const std::string activation = node.attrs().text("activation", "none");
  const bool is_swish = activation == "silu" || activation == "swish";
  if (!is_swish && activation != "none")
    node.fail("attribute 'activation' is '" + activation + "'; expected none, silu or swish");
  const auto channels = node.shape(x)[1].as_constant();
  if (!channels) node.unsupported("its number of channels is not constant");
  if (equal(node.shape(w)[0], *channels) == false)
    node.fail("weight has shape " + str(node.shape(w)) + "; expected one kernel for each of " +
              std::to_string(*channels) + " channels");
  const Dim length = node.shape(x)[2], columns = node.shape(w)[2] - Dim(1);
  const ir::ValueId padded = behind_past(node, x, columns);
  ConvAttrs attrs;
  attrs.group = *channels;
  const ir::ValueId y = node.emit(OpKind::kConv, {padded, w, node.optional_input(2)}, attrs);
  node.set_output(0, is_swish ? node.emit(OpKind::kSwish, {y}, ActivationAttrs{.alpha = 1}) : y);
  if (!node.wants_output(1)) return;
  const auto list = [&](const Dim& size) {
    return node.emit(OpKind::kShapeValues, {}, ShapeValuesAttrs{.values = {size}});
  };
  node.set_output(1,
                  node.emit(OpKind::kSlice,
                            {padded, list(length), list(length + columns), node.constant_i64({2})},
                            SliceAttrs{}));
}

constexpr std::array kRows{
    Translation{"", "RNN", 7, translate_rnn},
    Translation{"", "GRU", 7, translate_gru},
    Translation{"", "LSTM", 7, translate_lstm},
    Translation{"", "LinearAttention", 27, translate_linear_attention},
    Translation{"", "CausalConvWithState", 27, translate_causal_conv},
};

}  // namespace

std::span<const Translation> recurrent_translations() { return kRows; }

}  // namespace vernier::onnx
