// What both exporters really write: every composite of the architecture is found, nothing is left
// of shape chains, meaning and origins are kept, and names do not matter.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "io/npz.h"
#include "onnx/import.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "passes/pass.h"
#include "passes/pass_testing.h"
#include "passes/report.h"

namespace vernier::passes::testing {
namespace {

namespace fs = std::filesystem;

struct Model {
  const char* file;  // below tests/models, or of the shared trained models
  int layers, attention, norm, gelu, linear, softmax;
};
void PrintTo(const Model& m, std::ostream* out) { *out << m.file; }

// attention, norms, GELUs and linear layers of the architecture. A BERT layer has 6 linear layers,
// 2 norms, 1 GELU; GPT-2 and the packed models project q, k and v at once: 4.
constexpr Model kModels[] = {
    {"bert_ts11", 2, 2, 5, 2, 13, 0},
    {"bert_embedder_ts17", 2, 2, 5, 2, 12, 0},
    {"bert_sdpa_dynamo", 2, 2, 5, 2, 12, 0},
    {"bge_reranker_ts17", 2, 2, 5, 2, 14, 0},
    {"bge_reranker_dynamo", 2, 2, 5, 2, 14, 0},
    {"gpt2_ts17", 3, 3, 7, 3, 13, 0},
    {"vit_ts17", 2, 2, 5, 2, 13, 0},
    {"tracker_filter_predictor_ts17", 4, 6, 13, 0, 24, 0},
    // Its softmax weighs sampled points: there is no product of q and k.
    {"deformable_attention_ts17", 0, 0, 1, 0, 4, 1},
    {"trained/iclrec_beauty/iclrec_beauty_scores_op11.onnx", 1, 1, 3, 1, 7, 0},
    {"trained/iclrec_beauty/iclrec_beauty_embed_op13.onnx", 1, 1, 3, 1, 6, 0},
    {"trained/nano_gpt_sort/nano_gpt_sort_op13.onnx", 3, 3, 7, 3, 13, 0},
    {"trained/aren_transliteration/aren_encoder_op14.onnx", 6, 6, 13, 0, 24, 0},
    {"trained/aren_transliteration/aren_decoder_op14.onnx", 6, 12, 19, 0, 43, 0},
    {"graphs/minilm_l6/model.onnx", 6, 6, 13, 6, 37, 0},
};

fs::path path_of(const Model& model) {
  const fs::path source(VERNIER_SOURCE_DIR);
  const fs::path local = source / "tests" / "models" / model.file / "model.onnx";
  if (fs::exists(local)) return local;
  for (const char* shared : {"../shared/models", "../../shared/models"}) {
    if (fs::exists(source / shared / model.file)) return source / shared / model.file;
  }
  return {};
}

std::shared_ptr<ir::Graph> import(const fs::path& path) {
  onnx::ImportOptions options;
  options.missing_weights = onnx::MissingWeights::kSeeded;
  return onnx::import_model(path, options);
}

std::set<std::string> keys_of(const ir::Graph& graph) {
  std::set<std::string> keys;
  for (ir::NodeId id : graph.order()) {
    for (const ir::Origin& origin : graph.node(id).origins) keys.insert(origin.key);
  }
  for (const ir::Retired& row : graph.retired) keys.insert(row.origin.key);
  return keys;
}

class Exports : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    path_ = path_of(GetParam());
    if (path_.empty()) GTEST_SKIP() << GetParam().file << " is not on this machine";
    raw_ = import(path_);
  }
  fs::path path_;
  std::shared_ptr<ir::Graph> raw_;
};

TEST_P(Exports, EveryCompositeIsFound) {
  const Model& want = GetParam();
  const auto graph = raw_->clone();
  run_passes(*graph, Phase::kRaise, {});
  const RaiseReport report = raise_report(*graph);
  const std::string text = to_text(report);
  EXPECT_EQ(count(*graph, "Attention"), want.attention) << text;
  EXPECT_EQ(count(*graph, "LayerNorm"), want.norm) << text;
  EXPECT_EQ(count(*graph, "Gelu"), want.gelu) << text;
  EXPECT_EQ(count(*graph, "Linear"), want.linear) << text;
  EXPECT_EQ(count(*graph, "Softmax"), want.softmax) << text;
  EXPECT_EQ(static_cast<int>(report.layers.size()), want.layers) << text;
  EXPECT_EQ(static_cast<int>(report.leftovers.size()), want.softmax) << text;
  EXPECT_EQ(count(*graph, "Erf") + count(*graph, "MatMul") + count(*graph, "Gemm"), 0) << text;
}

TEST_P(Exports, NoNodeOnlyComputesASize) {
  const auto graph = raw_->clone();
  run_passes(*graph, Phase::kRaise, {});
  for (const char* op : {"Shape", "Size", "Unsqueeze", "Squeeze", "Flatten", "ConstantOfShape",
                         "Identity", "GatherND", "GatherElements"}) {
    EXPECT_EQ(count(*graph, op), 0) << structure(*graph);
  }
  EXPECT_EQ(raise_report(*graph).shape_nodes, 0) << structure(*graph);
}

TEST_P(Exports, EveryNodeIsAccountedFor) {
  const std::set<std::string> before = keys_of(*raw_);
  const auto graph = raw_->clone();
  run_passes(*graph, Phase::kRaise, {});
  run_passes(*graph, Phase::kFuse, {});
  EXPECT_EQ(keys_of(*graph), before);
}

TEST_P(Exports, KeyPaddingMasksStaySmall) {
  const auto graph = raw_->clone();
  run_passes(*graph, Phase::kRaise, {});
  for (ir::NodeId id : graph->order()) {
    const ir::Node& n = graph->node(id);
    if (n.op != OpKind::kAttention || n.inputs.size() < 5) continue;
    const SymShape& keep = graph->value(n.inputs[4]).shape;
    EXPECT_EQ(keep.size(), 4u);
    EXPECT_EQ(keep[2], Dim(1)) << str(keep);
  }
}

TEST_P(Exports, NamesDoNotMatter) {
  const auto named = raw_->clone(), renamed = raw_->clone();
  for (size_t i = 0; i < renamed->num_values(); ++i) {
    std::string& name = renamed->value(static_cast<ir::ValueId>(i)).name;
    if (!name.empty()) name = "v" + std::to_string(i * 7919 % 10007);
  }
  for (ir::NodeId id : renamed->order()) renamed->node(id).name = "n" + std::to_string(id % 5);
  for (const auto& graph : {named, renamed}) {
    run_passes(*graph, Phase::kRaise, {});
    run_passes(*graph, Phase::kFuse, {});
    graph->guards.clear();  // their messages quote names
  }
  EXPECT_EQ(structure(*named), structure(*renamed));
}

// The graph with its batch (first axes of inputs) and length (other axes) fixed, where given.
std::shared_ptr<ir::Graph> at_sizes(const ir::Graph& raw, std::optional<int64_t> batch,
                                    std::optional<int64_t> length) {
  const auto graph = raw.clone();
  std::set<std::string> batches;
  for (ir::ValueId id : graph->inputs) {
    const SymShape& shape = graph->value(id).shape;
    if (const auto symbol = shape.empty() ? std::nullopt : shape[0].as_symbol())
      batches.insert(*symbol);
  }
  for (ir::ValueId id : graph->inputs) {
    for (const Dim& d : graph->value(id).shape) {
      for (const std::string& symbol : d.symbols()) {
        const auto size = batches.contains(symbol) ? batch : length;
        if (size) graph->symbol_substitutions[symbol] = *size;
      }
    }
  }
  ops::infer_graph(*graph);
  graph->symbol_substitutions.clear();
  return graph;
}

TEST_P(Exports, FixedSizesAreNoHarder) {
  struct Sizes {
    std::optional<int64_t> batch, length;
  };
  for (const Sizes& sizes : {Sizes{4, 4}, Sizes{1, {}}, Sizes{{}, 8}, Sizes{1, 1}}) {
    const auto graph = at_sizes(*raw_, sizes.batch, sizes.length);
    run_passes(*graph, Phase::kRaise, {});
    const RaiseReport report = raise_report(*graph);
    // The tracker's decoder asks itself with a constant query: at a fixed batch that is a constant.
    const bool folds = sizes.batch && std::string(GetParam().file).starts_with("tracker");
    EXPECT_EQ(count(*graph, "Attention"), GetParam().attention - folds) << to_text(report);
    EXPECT_EQ(static_cast<int>(report.leftovers.size()), GetParam().softmax) << to_text(report);
    EXPECT_EQ(report.shape_nodes, 0);
    for (const char* op : {"MatMul", "Erf", "GatherND", "GatherElements", "Shape"})
      EXPECT_EQ(count(*graph, op), 0) << structure(*graph);
  }
}

TEST_P(Exports, MeaningIsKept) {
  const fs::path file = path_.parent_path() / "case_0.npz";
  std::map<std::string, Tensor> inputs;
  if (fs::exists(file)) {
    for (const auto& [name, tensor] : io::read_arrays(file)) {
      if (name.starts_with("in.")) inputs[name.substr(3)] = tensor;
    }
  } else {
    inputs = random_inputs(*raw_);
  }
  const auto fused = raw_->clone();
  run_passes(*fused, Phase::kRaise, {});
  run_passes(*fused, Phase::kFuse, {});
  const auto a = ops::evaluate(*raw_, inputs), b = ops::evaluate(*fused, inputs);
  for (const auto& [name, x] : a.outputs) {
    const EvalTensor& y = b.outputs.at(name);
    ASSERT_EQ(x.shape, y.shape);
    // Only the GELU's constants differ: the exporter's sqrt(2) and sqrt(2/pi) are rounded to f32
    // (3e-8 relative).
    double largest = 1;
    for (int64_t i = 0; i < x.elems(); ++i) largest = std::max(largest, std::abs(x.value(i)));
    for (int64_t i = 0; i < x.elems(); ++i)
      ASSERT_LE(std::abs(x.value(i) - y.value(i)), 1e-7 * largest) << name << " element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Exports, ::testing::ValuesIn(kModels), [](const auto& test) {
  std::string name;
  for (char c : fs::path(test.param.file).replace_extension().string())
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace vernier::passes::testing
