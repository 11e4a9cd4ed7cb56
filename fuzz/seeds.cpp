// Seeds of the fuzz targets: see seeds.h.
#include "seeds.h"

#include <array>
#include <cstdio>
#include <map>

#include "compile/pipeline.h"
#include "core/op_attrs.h"
#include "ir/text.h"
#include "ops/case.h"
#include "ops/infer.h"
#include "target.h"

namespace vernier::fuzz {
namespace {

struct TextGraph {
  std::string_view name, text;
};
constexpr std::array kTextGraphs{
    TextGraph{"encoder", R"(graph g(%ids: i64[batch, seq], %mask: i64[batch, seq]) {
  %table = const f32[12, 8] normal(seed=1, mean=0, std=1)
  %wq = const f32[8, 8] normal(seed=2, mean=0, std=0.3)
  %wk = const f32[8, 8] normal(seed=3, mean=0, std=0.3)
  %wo = const f32[8, 16] normal(seed=4, mean=0, std=0.3)
  %wd = const f32[16, 8] normal(seed=5, mean=0, std=0.3)
  %bias = const f32[16] normal(seed=6, mean=0, std=0.1)
  %scale = const f32[8] fill(1)
  %shift = const f32[8] normal(seed=7, mean=0, std=0.1)
  %x = Gather(%table, %ids)
  %n = LayerNorm(%x, %scale, %shift)
  %q0 = Linear(%n, %wq)
  %k0 = Linear(%n, %wk)
  %q = Reshape(%q0) {shape=(batch, seq, 2, 4), has_shape=true}
  %k = Reshape(%k0) {shape=(batch, seq, 2, 4), has_shape=true}
  %keep0 = Cast(%mask) {to=bool}
  %keep = Unsqueeze(%keep0) {axes=[1, 2]}
  %a0 = Attention(%q, %k, %k, _, %keep) {scale=0.5}
  %a = Reshape(%a0) {shape=(batch, seq, 8), has_shape=true}
  %h0 = Linear(%a, %wo, %bias)
  %h = Gelu(%h0)
  %d = Linear(%h, %wd)
  %r = Add(%d, %x)
  %out = LayerNorm(%r, %scale, %shift)
  %f = Cast(%mask) {to=f32}
  %pooled = MaskedMean(%out, %f)
  %unit = L2Norm(%pooled)
  return %out as "hidden", %unit as "embedding"
})"},
    TextGraph{"decoder", R"(graph g(%x: f32[batch, seq, 8], %bias: f32[1, 1, seq, seq]) {
  %w = const f32[8, 24] normal(seed=1, mean=0, std=0.3)
  %b = const f32[24] normal(seed=2, mean=0, std=0.3)
  %scale = const f32[8] fill(1)
  %n = RMSNorm(%x, %scale)
  %m = MatMul(%n, %w)
  %s = Add(%m, %b)
  %q0, %k0, %v0 = Split(%s) {axis=2, num_outputs=3}
  %q = Reshape(%q0) {shape=(batch, seq, 2, 4), has_shape=true}
  %k = Reshape(%k0) {shape=(batch, seq, 2, 4), has_shape=true}
  %v = Reshape(%v0) {shape=(batch, seq, 2, 4), has_shape=true}
  %a = Attention(%q, %k, %v, %bias) {scale=0.5, causal=true}
  %t = Transpose(%a) {perm=[0, 2, 1, 3]}
  %p = Softmax(%t)
  %last = Slice(%a, i64[1]{-1}, i64[1]{9}, i64[1]{1})
  return %p as "p", %last as "last"
})"},
    TextGraph{"indices",
              R"(graph g(%x: f32[n, 6], %at: i64[n, 6], %rows: i64[k], %pairs: i64[k, 2]) {
  %ge = GatherElements(%x, %at) {axis=1}
  %se = ScatterElements(%x, %at, %ge) {axis=1, reduction=1}
  %g = Gather(%se, %rows) {axis=1}
  %nd = GatherND(%x, %pairs)
  %sn = ScatterND(%x, %pairs, %nd) {reduction=4}
  %oh = OneHot(%rows, i64{6}, f32[2]{0, 1})
  %c = CumSum(%sn, i64{1})
  return %g as "g", %c as "c", %oh as "oh", %ge as "ge"
})"},
    TextGraph{
        "run_time_numbers",
        R"(graph g(%x: f32[n, 5], %axis: i64[], %depth: i64[], %values: f32[2], %ids: i64[n], %lengths: i64[5]) {
  %c = CumSum(%x, %axis)
  %t = Trilu(%c, %axis)
  %r = ReverseSequence(%t, %lengths) {batch_axis=1, time_axis=0}
  %v, %i = TopK(%r, i64[1]{2})
  %o = OneHot(%ids, i64{7}, %values)
  %e = Gather(%x, %ids)
  %d = Add(%depth, %axis)
  return %v as "v", %i as "i", %o as "o", %e as "e", %d as "d"
})"},
    TextGraph{"packed", R"(graph g(%ids: i64[total], %types: i64[total], %ends: i32[2]) {
  %words = const f32[12, 8] normal(seed=1, mean=0, std=1)
  %kinds = const f32[2, 8] normal(seed=2, mean=0, std=1)
  %scale = const f32[8] fill(1)
  %w = const f32[8, 8] normal(seed=3, mean=0, std=0.3)
  %x = EmbedNorm(%ids, %words, %types, %kinds, %scale) {tables=2}
  %q0 = Linear(%x, %w)
  %q = Reshape(%q0) {shape=(1, total, 2, 4), has_shape=true}
  %s = Shape(%ids)
  %s32 = Cast(%s) {to=i32}
  %all = Concat(i32[1]{0}, %s32) {axis=0}
  %cu = Mul(%all, %ends)
  %a0 = Attention(%q, %q, %q, _, _, %cu, %cu)
  %a = Reshape(%a0) {shape=(total, 8), has_shape=true}
  %y = AddLayerNorm(%a, %x, %scale)
  return %y as "y"
})"},
    TextGraph{"image", R"(graph g(%x: f32[batch, 3, 8, 8], %grid: f32[batch, 4, 4, 2]) {
  %w = const f32[4, 3, 3, 3] normal(seed=1, mean=0, std=0.3)
  %b = const f32[4] normal(seed=2, mean=0, std=0.3)
  %c = Conv(%x, %w, %b) {kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]}
  %r = Relu(%c)
  %p = MaxPool(%r) {kernel_shape=[2, 2], strides=[2, 2]}
  %g = GridSample(%x, %grid)
  %u = Resize(%p, _, f32[4]{1, 1, 2, 2})
  %d = SpaceToDepth(%x) {block_size=2}
  %pad = Pad(%u, i64[8]{0, 0, 1, 1, 0, 0, 1, 1}, f32{0})
  %flat = Flatten(%pad) {axis=1}
  return %flat as "flat", %g as "g", %d as "d"
})"},
    TextGraph{"sizes", R"(graph g(%x: f32[batch, seq, 4]) {
  %s = Shape(%x)
  %b = Gather(%s, i64{0})
  %t = Gather(%s, i64{1})
  %r = Range(i64{0}, %t, i64{1})
  %f = Cast(%r) {to=f32}
  %col = Unsqueeze(%f) {axes=[1]}
  %y = Add(%x, %col)
  %n = Mul(%b, %t)
  %n1 = Unsqueeze(%n) {axes=[0]}
  %shape = Concat(%n1, i64[1]{4}) {axis=0}
  %flat = Reshape(%y, %shape)
  %e = Einsum(%x, %x) {equation="bic,bjc->bij"}
  %k = Expand(%col, i64[2]{1, 4})
  %tile = Tile(%flat, i64[2]{1, 2})
  return %tile as "tile", %e as "e", %k as "k", %s as "s"
})"},
    TextGraph{"numbers", R"(graph g(%x: f32[n, 8], %y: f32[n, 8], %i: i32[n, 8], %q: i8[n, 8]) {
  %a = Mul(%x, %y)
  %b = Sigmoid(%a)
  %c = Div(%b, %y)
  %lt = Less(%c, %x)
  %w = Where(%lt, %x, %y)
  %m = Mod(%i, i32{3})
  %dq = DequantizeLinear(%q, f32{0.1})
  %qq = QuantizeLinear(%w, f32{0.05})
  %am = ArgMax(%w) {axis=1, keepdims=false}
  %sm = ReduceSum(%dq) {axes=[0]}
  %cl = Clip(%w, f32{-1}, f32{1})
  %pw = Pow(%cl, f32{2})
  return %pw as "pw", %m as "m", %qq as "qq", %am as "am", %sm as "sm"
})"},
};

// Ordered by a hash of their names, so that a new seed replaces few others.
template <class T>
const T& nearest(const std::map<uint32_t, T>& ring, uint64_t key) {
  const auto it = ring.lower_bound(static_cast<uint32_t>(key));
  return it == ring.end() ? ring.begin()->second : it->second;
}
uint32_t hash(std::string_view text) {
  uint32_t h = 2166136261u;  // FNV-1a
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return static_cast<uint32_t>(SplitMix(h).next());
}

struct CaseRow {
  std::string name;
  test::OpCase row;
};
std::map<uint32_t, CaseRow>& case_rows() {
  static std::map<uint32_t, CaseRow> rows;
  return rows;
}

constexpr std::array<const char*, 4> kModes{"fp32", "fp16", "bf16", "model"};

Tensor tensor_of(const test::Arg& arg) {
  if (is_float(arg.dtype))
    return Tensor::from(arg.dtype, arg.shape, std::span<const double>(arg.values));
  std::vector<int64_t> values;
  for (const double v : arg.values) values.push_back(static_cast<int64_t>(v));
  return Tensor::from(arg.dtype, arg.shape, std::span<const int64_t>(values));
}

// A graph of one operator. Bit i of `inputs`: input i is one of the engine's, else a constant;
// `named`: the first size of the first input is a name, wherever an input has it.
std::shared_ptr<ir::Graph> graph_of(const test::OpCase& row, uint64_t inputs, bool named) {
  auto graph = std::make_shared<ir::Graph>();
  std::optional<int64_t> size;
  if (named && !row.in.empty() && !row.in[0].shape.empty()) size = row.in[0].shape[0];
  std::vector<ir::ValueId> ids;
  for (size_t i = 0; i < row.in.size(); ++i) {
    const test::Arg& arg = row.in[i];
    if (arg.dtype == DType::kUndefined) {
      ids.push_back(ir::kNoValue);
    } else if (inputs >> i & 1) {
      SymShape shape(arg.shape.begin(), arg.shape.end());
      if (!shape.empty() && size && arg.shape[0] == *size && *size > 0) shape[0] = Dim::symbol("n");
      ids.push_back(graph->add_input("in" + std::to_string(i), arg.dtype, shape));
    } else {
      ids.push_back(graph->add_constant(tensor_of(arg)));
    }
  }
  const auto outputs = static_cast<int>(row.out.size());
  const ir::NodeId id = graph->add_node(row.op, ids, parse_attrs(row.op, row.attrs), outputs);
  ir::Node& node = graph->node(id);
  node.name = "node";
  node.origins.push_back({.key = "#0", .name = "node", .op_type = std::string(name(row.op))});
  for (size_t i = 0; i < row.out.size(); ++i) {
    if (row.out[i].dtype == DType::kUndefined) continue;
    graph->outputs.push_back(node.outputs[i]);
    graph->output_names.push_back("out" + std::to_string(i));
  }
  ops::infer_graph(*graph);
  return graph;
}

std::shared_ptr<ir::Graph> parse(const TextGraph& text) {
  auto graph = ir::parse(text.text, &ops::infer_node);
  ops::infer_graph(*graph);
  for (const ir::NodeId id : graph->order()) {
    ir::Node& node = graph->node(id);
    const std::string number = std::to_string(id);
    if (node.origins.empty())
      node.origins.push_back(
          {.key = "#" + number, .name = "node" + number, .op_type = std::string(name(node.op))});
  }
  return graph;
}

plan::Plan plan_of(const ir::Graph& graph, const char* mode) {
  CompileOptions options;
  options.mode = mode;
  return compiler::plan_of(graph, options);
}

// A row in the first variant and mode that compiles. Not every row has one, for example an operator
// whose inputs must all be constant.
std::optional<Seed> compiled(const CaseRow& row, uint64_t asked, size_t first_mode) {
  const bool named = asked & 128;
  // Makes more and more inputs constant, until inference knows enough.
  for (const uint64_t inputs : {asked | 1, uint64_t{1}, uint64_t{2}, uint64_t{0}}) {
    for (const char* mode : {kModes[first_mode], "model"}) {
      Seed seed{row.name, nullptr, {}};
      const bool had = holds("seed " + row.name, [&] {
        seed.graph = graph_of(row.row, inputs, named);
        seed.plan = plan_of(*seed.graph, mode);
      });
      if (had) return seed;
    }
  }
  return std::nullopt;
}

// The text graphs are compiled once. All of them compile in every mode.
const Seed& compiled_text(uint64_t key, size_t mode) {
  static std::map<std::pair<size_t, size_t>, Seed> seeds;
  const size_t index = key % kTextGraphs.size();
  const auto [it, is_new] = seeds.try_emplace({index, mode});
  if (!is_new) return it->second;
  const TextGraph& text = kTextGraphs[index];
  try {
    it->second = {std::string(text.name), parse(text), {}};
    it->second.plan = plan_of(*it->second.graph, kModes[mode]);
  } catch (const Error& error) {
    broken("seed " + std::string(text.name), error.what());
  }
  return it->second;
}

}  // namespace

Seed any_seed(Choices& choices) {
  const uint64_t key = choices.bits(4);
  const size_t mode = choices.below(kModes.size());
  const bool is_text = choices.one_in(3);
  const uint64_t variant = choices.bits(1);
  if (!is_text)
    if (auto seed = compiled(nearest(case_rows(), key), variant, mode)) return std::move(*seed);
  return compiled_text(key, mode);
}

Seed text_seed(Choices& choices) {
  const uint64_t key = choices.bits(4);
  return compiled_text(key, choices.below(kModes.size()));
}

}  // namespace vernier::fuzz

namespace vernier::test {

// The tables register their rows here, except those that expect an error.
OpCases::OpCases(const std::string& table, std::vector<OpCase> rows) {
  for (OpCase& row : rows) {
    if (!row.error.empty() || row.out.empty() || row.in.empty()) continue;
    const std::string name = table + "." + row.name;
    fuzz::case_rows()[fuzz::hash(name)] = {name, std::move(row)};
  }
}
ShapeCases::ShapeCases(const std::string&, std::vector<ShapeCase>) {}

}  // namespace vernier::test
