// Models with masks: see mask_models.h.
#include "scenarios/mask_models.h"

#include <cmath>
#include <limits>

#include "core/random.h"
#include "onnx/model_builder.h"
#include "scenarios/build.h"

namespace vernier::verify::field {
namespace {

using onnx::attr_float;
using onnx::attr_int;
using onnx::attr_ints;
using onnx::kBool;
using onnx::kFloat;
using onnx::kInt64;
using onnx::ModelBuilder;
using Name = std::string;

constexpr int64_t kHidden = 32, kHeads = 2, kHeadDim = 16, kWide = 64, kVocabulary = 40;
constexpr float kLowest = std::numeric_limits<float>::lowest();

// Nodes of one path, named and numbered as PyTorch's exporter does.
class Writer {
 public:
  explicit Writer(ModelBuilder& model, int64_t hidden = kHidden) : model_(model), hidden_(hidden) {}
  int64_t hidden() const { return hidden_; }
  int64_t head_dim() const { return hidden_ / kHeads; }
  void in(const Name& path) { path_ = path; }

  Name op(const std::string& kind, const std::vector<Name>& inputs,
          const std::vector<onnx::Attribute>& attributes = {}) {
    const Name base = path_ + "/" + kind;
    const int64_t number = used_[base]++;
    const Name node = number == 0 ? base : base + "_" + std::to_string(number);
    model_.node(kind, inputs, {node + "_output_0"}, attributes).set_name(node);
    return node + "_output_0";
  }
  void output(const Name& value, const Name& name) {
    model_.node("Identity", {value}, {name}).set_name("/" + name);
    model_.output(name);
  }
  Name floats(const std::vector<int64_t>& dims, const std::vector<float>& values) {
    const Name name = "c" + std::to_string(constants_++);
    model_.initializer(onnx::f32_tensor(name, dims, values));
    return name;
  }
  Name number(float value) { return floats({}, {value}); }
  Name integers(const std::vector<int64_t>& values) {
    const Name name = "c" + std::to_string(constants_++);
    model_.initializer(onnx::i64_tensor(name, {static_cast<int64_t>(values.size())}, values));
    return name;
  }
  Name integer(int64_t value) {
    const Name name = "c" + std::to_string(constants_++);
    model_.initializer(onnx::i64_tensor(name, {}, {value}));
    return name;
  }
  Name weight(const std::vector<int64_t>& dims, double deviation, double mean = 0) {
    int64_t count = 1;
    for (int64_t d : dims) count *= d;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = static_cast<float>(mean + deviation * random_.normal());
    return floats(dims, values);
  }
  Name cast(const Name& x, int64_t type) { return op("Cast", {x}, {attr_int("to", type)}); }
  Name unsqueeze(const Name& x, int64_t axis) { return op("Unsqueeze", {x, integers({axis})}); }
  // The size of x along `axis`, [1].
  Name size(const Name& x, int64_t axis) {
    return unsqueeze(op("Gather", {op("Shape", {x}), integer(axis)}), 0);
  }
  Name reshape(const Name& x, const std::vector<Name>& sizes) {
    return op("Reshape", {x, op("Concat", sizes, {attr_int("axis", 0)})});
  }
  Name transpose(const Name& x, const std::vector<int64_t>& perm) {
    return op("Transpose", {x}, {attr_ints("perm", perm)});
  }
  Name range(const Name& length) {
    return op("Range", {integer(0), op("Squeeze", {length, integers({0})}), integer(1)});
  }
  Name slice(const Name& x, const Name& begin, const Name& end, int64_t axis) {
    return op("Slice", {x, begin, end, integers({axis}), integers({1})});
  }

  Name linear(const Name& x, int64_t in, int64_t out) {
    const Name product =
        op("MatMul", {x, weight({in, out}, 1 / std::sqrt(static_cast<double>(in)))});
    return op("Add", {weight({out}, 0.05), product});
  }
  Name layer_norm(const Name& x) {
    return op("LayerNormalization", {x, weight({hidden_}, 0.1, 1), weight({hidden_}, 0.05)},
              {attr_int("axis", -1), attr_float("epsilon", 1e-7F)});
  }
  Name gelu(const Name& x) {
    const Name erf = op("Erf", {op("Div", {x, number(std::sqrt(2.0F))})});
    return op("Mul", {op("Mul", {x, op("Add", {erf, number(1)})}), number(0.5F)});
  }
  Name feed_forward(const Name& x) {
    return linear(gelu(linear(x, hidden_, kWide)), kWide, hidden_);
  }

 private:
  ModelBuilder& model_;
  const int64_t hidden_;
  Name path_;
  std::map<Name, int64_t> used_;
  int64_t constants_ = 0;
  SplitMix random_{7};
};

// ---- DeBERTa

// [batch, length, hidden] → [batch·heads, length, head_dim]
Name heads_of(Writer& w, const Name& x) {
  const Name split =
      w.reshape(x, {w.size(x, 0), w.size(x, 1), w.integers({kHeads}), w.integers({-1})});
  const Name by_head = w.transpose(split, {0, 2, 1, 3});
  return w.reshape(by_head, {w.integers({-1}), w.size(by_head, 2), w.integers({w.head_dim()})});
}

struct DebertaShared {
  Name mask, positions, relative;  // [b, 1, s, s]; q − k [1, s, s]; [2·span, hidden]
};
struct Attended {
  Name states, probabilities;
};
constexpr int64_t kSpan = 8;

Attended deberta_attention(Writer& w, const Name& x, const DebertaShared& shared,
                           DebertaMask spelling) {
  const Name q = heads_of(w, w.linear(x, w.hidden(), w.hidden()));
  const Name k = heads_of(w, w.linear(x, w.hidden(), w.hidden()));
  const Name v = heads_of(w, w.linear(x, w.hidden(), w.hidden()));
  const Name scale = w.number(std::sqrt(3.0F * static_cast<float>(w.head_dim())));
  Name scores = w.op("MatMul", {q, w.op("Div", {w.transpose(k, {0, 2, 1}), scale})});
  // Content to position and position to content.
  const Name batch = w.size(x, 0), length = w.size(x, 1);
  const auto positions = [&](const Name& from) {
    const Name heads =
        heads_of(w, w.unsqueeze(w.linear(shared.relative, w.hidden(), w.hidden()), 0));
    const Name repeats =
        w.op("Concat", {batch, w.integers({1}), w.integers({1})}, {attr_int("axis", 0)});
    return w.op("MatMul", {from, w.transpose(w.op("Tile", {heads, repeats}), {0, 2, 1})});
  };
  const auto gathered = [&](const Name& bias, const Name& at) {
    const Name limit = w.op("Clip", {at, w.integer(0), w.integer(2 * kSpan - 1)});
    const Name sizes = w.op("Concat", {w.op("Mul", {batch, w.integers({kHeads})}), length, length},
                            {attr_int("axis", 0)});
    return w.op("GatherElements", {bias, w.op("Expand", {limit, sizes})}, {attr_int("axis", -1)});
  };
  const Name span = w.integer(kSpan);
  const Name c2p = gathered(positions(q), w.op("Add", {shared.positions, span}));
  const Name p2c = gathered(positions(k), w.op("Add", {w.op("Neg", {shared.positions}), span}));
  const Name relative =
      w.op("Add", {w.op("Div", {c2p, scale}), w.op("Div", {w.transpose(p2c, {0, 2, 1}), scale})});
  scores = w.op("Add", {scores, relative});
  scores = w.reshape(scores, {w.integers({-1}), w.integers({kHeads}), length, length});
  Name probs;
  if (spelling == DebertaMask::kMaskedFill) {
    const Name hidden = w.op("Not", {w.cast(shared.mask, kBool)});
    probs = w.op("Softmax", {w.op("Where", {hidden, w.number(kLowest), scores})},
                 {attr_int("axis", -1)});
  } else {
    const Name hidden = w.cast(w.op("Sub", {w.integer(1), w.cast(shared.mask, kInt64)}), kBool);
    const Name filled = w.op("Where", {hidden, w.cast(w.number(kLowest), kFloat), scores});
    probs = w.op("Where", {hidden, w.number(0), w.op("Softmax", {filled}, {attr_int("axis", -1)})});
  }
  const Name rows = w.reshape(probs, {w.integers({-1}), length, length});
  const Name context = w.op("MatMul", {rows, v});
  const Name by_head = w.reshape(
      context, {w.integers({-1}), w.integers({kHeads}), length, w.integers({w.head_dim()})});
  const Name merged = w.transpose(by_head, {0, 2, 1, 3});
  return {w.reshape(merged, {batch, length, w.integers({w.hidden()})}), probs};
}

// ---- GPT-2

Name gpt2_heads(Writer& w, const Name& x) {
  const Name split =
      w.reshape(x, {w.size(x, 0), w.size(x, 1), w.integers({kHeads}), w.integers({kHeadDim})});
  return w.transpose(split, {0, 2, 1, 3});
}

// The buffer "bias": what each of 16 positions sees.
Name causal_buffer(Writer& w) {
  constexpr int64_t kPositions = 16;
  std::vector<float> seen;
  for (int64_t q = 0; q < kPositions; ++q) {
    for (int64_t k = 0; k < kPositions; ++k) seen.push_back(k <= q ? 1.0F : 0.0F);
  }
  return w.cast(w.floats({1, 1, kPositions, kPositions}, seen), kBool);
}

struct Gpt2Shared {
  Name mask, causal;  // (1 − mask)·min [b, 1, 1, total]; bool [1, 1, 16, 16]
};

Name gpt2_attention(Writer& w, const Name& x, const Gpt2Shared& shared, const Name& layer) {
  const Name q = gpt2_heads(w, w.linear(x, kHidden, kHidden));
  const Name k = w.op(
      "Concat", {"past_key_values." + layer + ".key", gpt2_heads(w, w.linear(x, kHidden, kHidden))},
      {attr_int("axis", -2)});
  const Name v =
      w.op("Concat",
           {"past_key_values." + layer + ".value", gpt2_heads(w, w.linear(x, kHidden, kHidden))},
           {attr_int("axis", -2)});
  const Name raw = w.op("MatMul", {q, w.transpose(k, {0, 1, 3, 2})});
  Name scores = w.op("Div", {raw, w.number(std::sqrt(static_cast<float>(kHeadDim)))});
  const Name queries = w.size(q, 2), keys = w.size(k, 2);
  const Name rows = w.slice(shared.causal, w.op("Sub", {keys, queries}), keys, 2);
  const Name seen = w.slice(rows, w.integers({0}), keys, 3);
  scores = w.op("Where", {seen, scores, w.number(kLowest)});
  scores = w.op("Add", {scores, shared.mask});
  const Name probs = w.op("Softmax", {scores}, {attr_int("axis", -1)});
  const Name context = w.transpose(w.op("MatMul", {probs, v}), {0, 2, 1, 3});
  w.output(k, "present." + layer + ".key");
  w.output(v, "present." + layer + ".value");
  return w.linear(w.reshape(context, {w.size(x, 0), w.size(x, 1), w.integers({kHidden})}), kHidden,
                  kHidden);
}

Tensor ids(const Shape& shape, uint64_t seed) {
  SplitMix random(seed);
  std::vector<int64_t> values(static_cast<size_t>(num_elems(shape)));
  for (int64_t& v : values) v = static_cast<int64_t>(random.next() % kVocabulary);
  return Tensor::from(DType::kI64, shape, std::span<const int64_t>(values));
}

// Row r has ones at [begin(r), end(r)).
template <class Begin, class End>
Tensor mask_of(size_t rows, int64_t length, const Begin& begin, const End& end) {
  std::vector<int64_t> values;
  for (size_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < length; ++i) values.push_back(i >= begin(r) && i < end(r) ? 1 : 0);
  }
  return Tensor::from(DType::kI64, {static_cast<int64_t>(rows), length},
                      std::span<const int64_t>(values));
}

// ---- encoders whose padding is left out

// One layer of an encoder. `masked(scores)`: [b, h, s, s] as the softmax takes them.
template <class Masked>
Name encoder_layer(Writer& w, const Name& x, const Masked& masked) {
  const Name q = gpt2_heads(w, w.linear(x, kHidden, kHidden)),
             k = gpt2_heads(w, w.linear(x, kHidden, kHidden)),
             v = gpt2_heads(w, w.linear(x, kHidden, kHidden));
  const Name raw = w.op("MatMul", {q, w.transpose(k, {0, 1, 3, 2})});
  const Name scores = w.op("Div", {raw, w.number(std::sqrt(static_cast<float>(kHeadDim)))});
  const Name probs = w.op("Softmax", {masked(scores)}, {attr_int("axis", -1)});
  const Name context = w.transpose(w.op("MatMul", {probs, v}), {0, 2, 1, 3});
  const Name merged = w.reshape(context, {w.size(x, 0), w.size(x, 1), w.integers({kHidden})});
  const Name attended = w.layer_norm(w.op("Add", {w.linear(merged, kHidden, kHidden), x}));
  return w.layer_norm(w.op("Add", {w.feed_forward(attended), attended}));
}

// (1 − mask)·min [b, 1, 1, s]
Name hidden_keys(Writer& w) {
  const Name mask = w.cast(w.unsqueeze(w.unsqueeze("attention_mask", 1), 2), kFloat);
  return w.op("Mul", {w.op("Sub", {w.number(1), mask}), w.number(kLowest)});
}

// A table of distances from -8 to 7, [1, heads, s, s].
Name relative_bias(Writer& w) {
  const Name at = w.range(w.size("input_ids", 1));
  const Name distance = w.op("Sub", {w.unsqueeze(at, 0), w.unsqueeze(at, 1)});
  const Name bucket = w.op(
      "Clip", {w.op("Add", {distance, w.integer(kSpan)}), w.integer(0), w.integer(2 * kSpan - 1)});
  const Name values = w.op("Gather", {w.weight({2 * kSpan, kHeads}, 1), bucket});
  return w.unsqueeze(w.transpose(values, {2, 0, 1}), 0);
}

constexpr int64_t kLength = 6;  // of masked_attention

Name masked(Writer& w, Spelling spelling, float fill, const Name& scores) {
  const Name mask = w.unsqueeze(w.unsqueeze("mask", 1), 2);  // [b, 1, 1, s] i64
  const Name f = w.number(fill);
  const auto inverted = [&](const Name& m) {
    return w.op("Sub", {w.number(1), w.cast(m, kFloat)});
  };
  const auto additive = [&] { return w.op("Mul", {inverted(mask), f}); };
  switch (spelling) {
    case Spelling::kWhereFill:
      return w.op("Where", {w.cast(mask, kBool), scores, f});
    case Spelling::kMaskedFill:
      return w.op("Where", {w.op("Not", {w.cast(mask, kBool)}), f, scores});
    case Spelling::kAdditive:
      return w.op("Add", {scores, additive()});
    case Spelling::kAdditiveWhere:
      return w.op("Add", {scores, w.op("Where", {w.cast(mask, kBool), w.number(0), f})});
    case Spelling::kExpanded: {
      const Name sizes = w.op("Concat", {w.size("mask", 0), w.integers({1, kLength, kLength})},
                              {attr_int("axis", 0)});
      const Name wide = inverted(w.op("Expand", {mask, sizes}));
      return w.op("Add", {scores, w.op("Where", {w.cast(wide, kBool), f, wide})});
    }
    case Spelling::kTwice:
      return w.op("Add", {w.op("Add", {scores, additive()}), additive()});
    case Spelling::kMaximum:
      return w.op("Max", {w.op("Add", {w.op("Add", {scores, additive()}), additive()}), f});
    case Spelling::kWithBias: {
      const Name bias = w.weight({1, kHeads, kLength, kLength}, 0.5);
      return w.op("Add", {scores, w.op("Add", {bias, additive()})});
    }
  }
  return scores;
}

}  // namespace

std::string deberta_bytes(DebertaMask mask, DebertaOutput output, int64_t head_dim) {
  ModelBuilder model(17);
  model.input("input_ids", kInt64, {"batch", "seq"});
  model.input("attention_mask", kInt64, {"batch", "seq"});
  Writer w(model, kHeads * head_dim);
  w.in("/embeddings");
  Name x = w.layer_norm(w.op("Gather", {w.weight({kVocabulary, w.hidden()}, 1), "input_ids"}));
  x = w.op("Mul", {x, w.cast(w.unsqueeze("attention_mask", 2), kFloat)});
  w.in("/encoder");
  const Name keys = w.unsqueeze(w.unsqueeze("attention_mask", 1), 2);
  const Name pairs =
      w.op("Mul", {keys, w.unsqueeze(w.op("Squeeze", {keys, w.integers({-2})}), -1)});
  const Name at = w.range(w.size(x, 1));
  DebertaShared shared{.mask = pairs, .positions = {}, .relative = {}};
  shared.positions = w.unsqueeze(w.op("Sub", {w.unsqueeze(at, 1), w.unsqueeze(at, 0)}), 0);
  shared.relative = w.layer_norm(w.weight({2 * kSpan, w.hidden()}, 1));
  std::vector<Name> probabilities;
  for (int layer = 0; layer < 2; ++layer) {
    w.in("/encoder/layer." + std::to_string(layer));
    const Attended own = deberta_attention(w, x, shared, mask);
    probabilities.push_back(own.probabilities);
    x = w.layer_norm(w.op("Add", {w.linear(own.states, w.hidden(), w.hidden()), x}));
    x = w.layer_norm(w.op("Add", {w.feed_forward(x), x}));
  }
  if (output == DebertaOutput::kFirstToken)
    x = w.op("Gather", {x, w.integer(0)}, {attr_int("axis", 1)});
  w.output(x, "last_hidden_state");
  for (size_t layer = 0; layer < probabilities.size(); ++layer) {
    if (output == DebertaOutput::kProbabilities)
      w.output(probabilities[layer], "attentions." + std::to_string(layer));
  }
  return model.bytes();
}

std::string relative_bias_bytes(RelativeBias spelling) {
  ModelBuilder model(17);
  model.input("input_ids", kInt64, {"batch", "seq"});
  model.input("attention_mask", kInt64, {"batch", "seq"});
  Writer w(model);
  w.in("/embeddings");
  Name x = w.layer_norm(w.op("Gather", {w.weight({kVocabulary, kHidden}, 1), "input_ids"}));
  w.in("/encoder");
  const Name mask = hidden_keys(w), bias = relative_bias(w);
  const Name both = spelling == RelativeBias::kT5 ? w.op("Add", {bias, mask}) : "";
  for (int layer = 0; layer < 2; ++layer) {
    w.in("/encoder/layer." + std::to_string(layer));
    x = encoder_layer(w, x, [&](const Name& scores) {
      if (spelling == RelativeBias::kT5) return w.op("Add", {scores, both});
      return w.op("Add", {w.op("Add", {scores, bias}), mask});
    });
  }
  w.in("/pooler");
  const Name first = w.op("Gather", {x, w.integer(0)}, {attr_int("axis", 1)});
  w.output(w.linear(first, kHidden, kHidden), "pooled");
  return model.bytes();
}

std::string last_token_bytes(LastToken spelling, int64_t vocabulary) {
  ModelBuilder model(17);
  model.input("input_ids", kInt64, {"batch", "seq"});
  model.input("attention_mask", kInt64, {"batch", "seq"});
  Writer w(model);
  w.in("/embeddings");
  Name x = w.layer_norm(w.op("Gather", {w.weight({vocabulary, kHidden}, 1), "input_ids"}));
  w.in("/model");
  const Name at = w.range(w.size("input_ids", 1));
  const Name later = w.op("Greater", {w.unsqueeze(at, 0), w.unsqueeze(at, 1)});  // [s, s]
  const Name causal = w.op("Where", {later, w.number(kLowest), w.number(0)}), mask = hidden_keys(w);
  for (int layer = 0; layer < 2; ++layer) {
    w.in("/model/layers." + std::to_string(layer));
    x = encoder_layer(w, x, [&](const Name& scores) {
      return w.op("Add", {w.op("Add", {scores, causal}), mask});
    });
  }
  w.in("/pooling");
  if (spelling == LastToken::kLastPlace) {
    w.output(w.op("Gather", {x, w.integer(-1)}, {attr_int("axis", 1)}), "embedding");
    return model.bytes();
  }
  const Name count =
      w.op("ReduceSum", {"attention_mask", w.integers({1})}, {attr_int("keepdims", 1)});
  const Name place = w.op("Sub", {count, w.integer(1)});  // [b, 1]
  if (spelling == LastToken::kPairs) {
    const Name rows = w.unsqueeze(w.range(w.size("input_ids", 0)), 1);
    w.output(w.op("GatherND", {x, w.op("Concat", {rows, place}, {attr_int("axis", 1)})}),
             "embedding");
  } else {
    const Name sizes =
        w.op("Concat", {w.size("input_ids", 0), w.integers({1, kHidden})}, {attr_int("axis", 0)});
    const Name index = w.op("Expand", {w.unsqueeze(place, 2), sizes});
    const Name last = w.op("GatherElements", {x, index}, {attr_int("axis", 1)});
    w.output(w.op("Squeeze", {last, w.integers({1})}), "embedding");
  }
  return model.bytes();
}

NamedTensors deberta_inputs(const std::vector<int64_t>& valid) {
  constexpr int64_t kLongest = 7;
  const auto rows = static_cast<int64_t>(valid.size());
  return {{"input_ids", ids({rows, kLongest}, 3)},
          {"attention_mask", mask_of(
                                 valid.size(), kLongest, [](size_t) { return 0; },
                                 [&](size_t r) { return valid[r]; })}};
}

std::string cached_gpt2_bytes() {
  ModelBuilder model(17);
  model.input("input_ids", kInt64, {"batch", "seq"});
  model.input("attention_mask", kInt64, {"batch", "past + seq"});
  model.input("position_ids", kInt64, {"batch", "seq"});
  for (const char* layer : {"0", "1"}) {
    for (const char* part : {"key", "value"})
      model.input(std::string("past_key_values.") + layer + "." + part, kFloat,
                  {"batch", kHeads, "past", kHeadDim});
  }
  Writer w(model);
  w.in("/transformer");
  Name x = w.op("Add", {w.op("Gather", {w.weight({kVocabulary, kHidden}, 1), "input_ids"}),
                        w.op("Gather", {w.weight({16, kHidden}, 0.3), "position_ids"})});
  const Name flat = w.reshape("attention_mask", {w.size("input_ids", 0), w.integers({-1})});
  const Name mask = w.cast(w.unsqueeze(w.unsqueeze(flat, 1), 2), kFloat);
  const Gpt2Shared shared{
      .mask = w.op("Mul", {w.op("Sub", {w.number(1), mask}), w.number(kLowest)}),
      .causal = causal_buffer(w)};
  for (const char* layer : {"0", "1"}) {
    w.in(std::string("/transformer/h.") + layer);
    x = w.op("Add", {gpt2_attention(w, w.layer_norm(x), shared, layer), x});
    x = w.op("Add", {x, w.feed_forward(w.layer_norm(x))});
  }
  w.in("/lm_head");
  w.output(w.op("MatMul", {w.layer_norm(x), w.weight({kHidden, kVocabulary}, 0.2)}), "logits");
  return model.bytes();
}

NamedTensors cached_gpt2_inputs(const std::vector<int64_t>& padding) {
  constexpr int64_t kPast = 2, kNew = 5;
  const auto rows = static_cast<int64_t>(padding.size());
  std::vector<int64_t> positions;
  for (int64_t pad : padding) {
    for (int64_t i = 0; i < kNew; ++i) positions.push_back(std::max<int64_t>(0, kPast + i - pad));
  }
  NamedTensors inputs{
      {"input_ids", ids({rows, kNew}, 3)},
      {"attention_mask", mask_of(
                             padding.size(), kPast + kNew, [&](size_t r) { return padding[r]; },
                             [](size_t) { return kPast + kNew; })},
      {"position_ids",
       Tensor::from(DType::kI64, {rows, kNew}, std::span<const int64_t>(positions))}};
  uint64_t seed = 10;
  for (const char* layer : {"0", "1"}) {
    for (const char* part : {"key", "value"})
      inputs.emplace_back(std::string("past_key_values.") + layer + "." + part,
                          normal_values({rows, kHeads, kPast, kHeadDim}, seed++));
  }
  return inputs;
}

std::string masked_attention_bytes(Spelling spelling, double fill, Probabilities probabilities) {
  ModelBuilder model(17);
  model.input("x", kFloat, {"batch", kLength, kHidden});
  model.input("mask", kInt64, {"batch", kLength});
  Writer w(model);
  w.in("/attention");
  const Name q = gpt2_heads(w, w.linear("x", kHidden, kHidden));
  const Name k = gpt2_heads(w, w.linear("x", kHidden, kHidden));
  const Name v = gpt2_heads(w, w.linear("x", kHidden, kHidden));
  const Name raw = w.op("MatMul", {q, w.transpose(k, {0, 1, 3, 2})});
  const Name scores = w.op("Div", {raw, w.number(std::sqrt(static_cast<float>(kHeadDim)))});
  const Name probs = w.op("Softmax", {masked(w, spelling, static_cast<float>(fill), scores)},
                          {attr_int("axis", -1)});
  const Name context = w.transpose(w.op("MatMul", {probs, v}), {0, 2, 1, 3});
  const Name merged = w.reshape(context, {w.size("x", 0), w.integers({kLength, kHidden})});
  w.output(w.linear(merged, kHidden, kHidden), "y");
  if (probabilities == Probabilities::kShown) w.output(probs, "probs");
  return model.bytes();
}

NamedTensors masked_attention_inputs(const std::vector<int64_t>& valid) {
  const auto rows = static_cast<int64_t>(valid.size());
  return {{"x", normal_values({rows, kLength, kHidden}, 5)},
          {"mask", mask_of(
                       valid.size(), kLength, [](size_t) { return 0; },
                       [&](size_t r) { return valid[r]; })}};
}

}  // namespace vernier::verify::field
