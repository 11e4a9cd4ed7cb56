// Roles and blocks of graphs that exporters wrote. Roles never read a name; here the exporters'
// names are the oracle, and a graph without names must give the same roles.
#include "precision/roles.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "onnx/import.h"
#include "passes/pass.h"
#include "precision/policy.h"

namespace vernier::precision {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<ir::Graph> raised(const fs::path& path) {
  onnx::ImportOptions options;
  options.missing_weights = onnx::MissingWeights::kSeeded;
  auto graph = onnx::import_model(path, options);
  passes::run_passes(*graph, passes::Phase::kRaise, {});
  return graph;
}
std::shared_ptr<ir::Graph> model(const std::string& name) {
  static std::map<std::string, std::shared_ptr<ir::Graph>> read;
  auto& graph = read[name];
  if (!graph) graph = raised(fs::path(VERNIER_TEST_MODELS) / name / "model.onnx");
  return graph;
}

// ONNX names of live nodes that any of the selectors matches; a selector that matches none is left
// out, so that one list fits several exports.
std::vector<std::string> names_of(const ir::Graph& graph,
                                  const std::vector<std::string>& selectors) {
  const Selection selection(graph);
  std::set<std::string> names;
  std::vector<std::string> notes;
  for (const std::string& selector : selectors) {
    try {
      const Rule rule = parse_rule(selector + " compute=f32");
      for (size_t i : selection.matches(rule.selector, "rule", notes)) {
        if (selection.nodes()[i].is_live()) names.insert(selection.nodes()[i].name);
      }
    } catch (const Error&) {
    }
  }
  return {names.begin(), names.end()};
}

// By position and by name, the same nodes.
struct Same {
  const char* by_role;
  std::vector<std::string> by_name;
};
struct Exporter {
  std::vector<const char*> models;
  std::vector<Same> same;
};

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> table{
      {{"bert_ts11", "bert_embedder_ts17", "bge_reranker_ts17"},
       {{"role:norm", {"op:LayerNorm name:*LayerNorm*"}},
        {"role:ffn.up", {"op:Linear name:*/intermediate/dense/*"}},
        {"role:ffn.down", {"op:Linear name:*/layer.?/output/dense/*"}},
        {"role:residual", {"op:Add name:*/output/Add"}},
        {"role:attention.scores op:MatMul", {"name:*/self/MatMul"}},
        {"role:attention.context op:MatMul", {"name:*/self/MatMul_1"}},
        {"role:attention.softmax", {"op:Softmax"}},
        {"role:embedding op:Gather", {"name:*_embeddings/Gather"}},
        {"layer:0 op:Linear", {"op:Linear name:*/layer.0/*"}},
        {"layer:1 op:Linear", {"op:Linear name:*/layer.1/*"}},
        {"layer:0 op:LayerNorm", {"op:LayerNorm name:*/layer.0/*"}},
        {"layer:1 op:LayerNorm", {"op:LayerNorm name:*/layer.1/*"}},
        {"layer:1 op:Attention", {"op:Attention name:*/layer.1/*"}},
        {"layer:1 op:Gelu", {"op:Gelu name:*/layer.1/*"}},
        {"layer:0..1 role:residual", {"op:Add name:*/output/Add"}}}},
      {{"bert_ts11"},
       {{"role:embedding op:Add", {"name:/m/embeddings/Add", "name:/m/embeddings/Add_1"}},
        {"role:head op:Linear", {"op:Linear name:/m/pooler/*"}},
        {"role:head op:Tanh", {"op:Tanh"}}}},
      {{"bge_reranker_ts17"},
       {{"role:embedding op:Add", {"name:*/embeddings/Add_1", "name:*/embeddings/Add_2"}},
        {"role:head op:Linear", {"op:Linear name:/m/classifier/*"}},
        {"role:head op:Tanh", {"op:Tanh"}}}},
      {{"bert_embedder_ts17"},
       {{"role:head op:Div", {"name:/Div", "name:/Div_1"}},
        {"role:head op:ReduceL2", {"op:ReduceL2"}}}},
      {{"gpt2_ts17"},
       {{"role:norm", {"op:LayerNormalization"}},
        {"role:ffn.up op:Gemm", {"op:Gemm name:*/mlp/c_fc/*"}},
        {"role:ffn.down op:Gemm", {"op:Gemm name:*/mlp/c_proj/*"}},
        {"role:residual", {"name:*/h.?/Add", "name:*/h.?/Add_1"}},
        {"role:embedding op:Gather", {"name:*/w?e/Gather"}},
        {"role:embedding op:Add", {"name:/m/transformer/Add"}},
        {"role:head op:MatMul", {"name:/m/lm_head/MatMul"}},
        {"role:attention.scores op:MatMul", {"name:*/attn/MatMul"}},
        {"role:attention.context op:MatMul", {"name:*/attn/MatMul_1"}},
        {"layer:0 op:Gemm", {"op:Gemm name:*/h.0/*"}},
        {"layer:1 op:Gemm", {"op:Gemm name:*/h.1/*"}},
        {"layer:2 op:Gemm", {"op:Gemm name:*/h.2/*"}},
        {"layer:0 role:norm", {"role:norm name:*/h.0/*"}},
        {"layer:1..2 role:norm", {"role:norm name:*/h.1/*", "role:norm name:*/h.2/*"}}}},
      {{"vit_ts17"},
       {{"role:ffn.up", {"op:Linear name:*/mlp/fc1/*"}},
        {"role:ffn.down", {"op:Linear name:*/mlp/fc2/*"}},
        {"role:residual", {"name:*/layers.?/Add", "name:*/layers.?/Add_1"}},
        {"role:embedding op:Conv", {"op:Conv"}},
        {"role:embedding op:Add", {"name:/m/vit/embeddings/Add"}},
        {"role:head op:Gemm", {"name:/m/classifier/Gemm"}},
        {"layer:0 op:Linear", {"op:Linear name:*/layers.0/*"}},
        {"layer:1 op:Linear", {"op:Linear name:*/layers.1/*"}},
        {"layer:0..1 role:norm", {"role:norm name:*/layers.?/*"}}}},
      // Encoder blocks come first, then decoder blocks of self and cross attention. The decoder's
      // first sum adds to a constant query: that is no branch of the stream.
      {{"tracker_filter_predictor_ts17"},
       {{"role:ffn.up", {"op:Linear name:*/linear1/*"}},
        {"role:ffn.down", {"op:Linear name:*/linear2/*"}},
        {"role:residual op:Add",
         {"name:/encoder/layers.?/Add", "name:/encoder/layers.?/Add_1",
          "name:/decoder/layers.0/Add_1", "name:/decoder/layers.0/Add_2",
          "name:/decoder/layers.1/Add", "name:/decoder/layers.1/Add_1",
          "name:/decoder/layers.1/Add_2"}},
        {"layer:0 role:norm", {"role:norm name:/encoder/layers.0/*"}},
        {"layer:2 role:norm", {"role:norm name:/decoder/layers.0/*"}},
        {"layer:3 role:norm", {"role:norm name:/decoder/layers.1/*"}},
        {"layer:2 op:Softmax", {"op:Softmax name:/decoder/layers.0/*"}},
        {"layer:2 role:ffn.up", {"op:Linear name:/decoder/layers.0/linear1/*"}},
        {"layer:1 role:ffn.down", {"op:Linear name:/encoder/layers.1/linear2/*"}},
        {"role:embedding op:Linear", {"op:Linear name:/box/*"}},
        {"role:head op:ReduceSum", {"op:ReduceSum"}}}},
  };
  return table;
}

TEST(Roles, AreWhereTheExportersNamesSay) {
  for (const Exporter& exporter : exporters()) {
    for (const char* name : exporter.models) {
      const auto graph = model(name);
      for (const Same& same : exporter.same) {
        const auto by_name = names_of(*graph, same.by_name);
        EXPECT_FALSE(by_name.empty()) << name << " " << same.by_role;
        EXPECT_EQ(names_of(*graph, {same.by_role}), by_name) << name << " " << same.by_role;
      }
    }
  }
}

// How many nodes of the raised graph have a role.
int count(const ir::Graph& graph, const Structure& structure, Role role, OpKind op) {
  return static_cast<int>(
      std::count_if(graph.order().begin(), graph.order().end(), [&](ir::NodeId id) {
        const bool has = (structure.roles[static_cast<size_t>(id)] & bit(role)) != 0;
        return has && graph.node(id).op == op;
      }));
}

struct Counts {
  const char* model;  // in tests/models, else in the shared models, which may be absent
  int blocks, up, down, residual, norms, head_linears;
};
constexpr Counts kCounts[] = {
    {"bert_ts11", 2, 2, 2, 4, 5, 1},
    {"bert_embedder_ts17", 2, 2, 2, 4, 5, 0},
    {"bert_sdpa_dynamo", 2, 2, 2, 4, 5, 0},
    {"bge_reranker_ts14", 2, 2, 2, 4, 5, 2},
    {"bge_reranker_ts17", 2, 2, 2, 4, 5, 2},
    {"bge_reranker_dynamo", 2, 2, 2, 4, 5, 2},
    {"demo_reranker", 4, 4, 4, 8, 9, 2},
    {"gpt2_ts17", 3, 3, 3, 6, 7, 1},
    {"vit_ts17", 2, 2, 2, 4, 5, 1},
    {"tracker_filter_predictor_ts17", 4, 4, 4, 9, 13, 0},
    // No raised Attention: no blocks, no head. Its one sum adds a branch to the query.
    {"deformable_attention_ts17", 0, 0, 0, 1, 1, 0},
    {"trained/nano_gpt_sort/nano_gpt_sort_op13.onnx", 3, 3, 3, 6, 7, 1},
    {"trained/aren_transliteration/aren_encoder_op14.onnx", 6, 6, 6, 12, 13, 0},
    {"trained/aren_transliteration/aren_decoder_op14.onnx", 6, 6, 6, 18, 19, 1},
    {"graphs/minilm_l6/model.onnx", 6, 6, 6, 12, 13, 1},
};

TEST(Roles, AreCountedOnEveryExport) {
  for (const Counts& want : kCounts) {
    fs::path path = fs::path(VERNIER_TEST_MODELS) / want.model / "model.onnx";
    if (!fs::exists(path)) path = fs::path(VERNIER_SHARED_MODELS) / want.model;
    if (!fs::exists(path)) continue;
    const auto graph = raised(path);
    const Structure got = structure_of(*graph);
    EXPECT_EQ(got.num_blocks, want.blocks) << want.model;
    EXPECT_EQ(count(*graph, got, Role::kFfnUp, OpKind::kLinear), want.up) << want.model;
    EXPECT_EQ(count(*graph, got, Role::kFfnDown, OpKind::kLinear), want.down) << want.model;
    EXPECT_EQ(count(*graph, got, Role::kResidual, OpKind::kAdd), want.residual) << want.model;
    EXPECT_EQ(count(*graph, got, Role::kNorm, OpKind::kLayerNorm), want.norms) << want.model;
    EXPECT_EQ(count(*graph, got, Role::kHead, OpKind::kLinear), want.head_linears) << want.model;
  }
}

// The same graph with every name taken away.
std::shared_ptr<ir::Graph> nameless(const ir::Graph& graph) {
  auto copy = graph.clone();
  for (size_t v = 0; v < copy->num_values(); ++v)
    copy->value(static_cast<ir::ValueId>(v)).name.clear();
  for (ir::NodeId id : copy->order()) {
    copy->node(id).name.clear();
    for (ir::Origin& origin : copy->node(id).origins) origin.name.clear();
  }
  return copy;
}

TEST(Roles, DoNotReadNames) {
  for (const auto& entry : fs::directory_iterator(VERNIER_TEST_MODELS)) {
    if (!fs::exists(entry.path() / "model.onnx")) continue;
    const auto graph = raised(entry.path() / "model.onnx");
    const Structure named = structure_of(*graph), unnamed = structure_of(*nameless(*graph));
    EXPECT_EQ(named.roles, unnamed.roles) << entry.path();
    EXPECT_EQ(named.block, unnamed.block) << entry.path();
  }
}

// LayerNormalization_* means every norm, whether the exporter wrote one node or nine.
TEST(Roles, TrtexecFindsNormsOfEveryExport) {
  for (const char* name : {"bert_ts11", "bge_reranker_ts17", "gpt2_ts17", "bge_reranker_dynamo"}) {
    const Selection selection(*model(name));
    std::vector<std::string> notes;
    const Rule all = parse_layer_precisions("LayerNormalization_*:fp32")[0];
    const Rule native = parse_rule("op:LayerNorm compute=f32");
    EXPECT_EQ(selection.matches(all.selector, "rule", notes),
              selection.matches(native.selector, "rule", notes))
        << name;
    EXPECT_TRUE(notes.empty()) << name;
    const Rule third = parse_layer_precisions("LayerNormalization_2:fp32")[0];
    const size_t nodes = selection.matches(third.selector, "rule", notes).size();
    EXPECT_TRUE(nodes == 1 || nodes >= 8) << name << " " << nodes;
  }
}

}  // namespace
}  // namespace vernier::precision
