// Unification, substitution, arity and emission: the parts of ops/infer.h that no single operator
// shows.
#include "ops/infer.h"

#include <gtest/gtest.h>

#include "core/attrs.h"

namespace vernier::ops {
namespace {

const Dim kBatch = Dim::symbol("batch");
const Dim kSeq = Dim::symbol("seq");

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

ir::NodeId add(ir::Graph& graph, OpKind op, std::vector<ir::ValueId> inputs, int outputs = 1) {
  const ir::NodeId id = graph.add_node(op, std::move(inputs), AttrBytes{}, outputs);
  graph.node(id).name = "the_node";
  return id;
}

TEST(Infer, TwoNamesOfOneSizeBecomeTheFirstOne) {
  ir::Graph graph;
  const auto a = graph.add_input("ids", DType::kF32, {Dim::symbol("s33"), Dim::symbol("s50")});
  const auto b = graph.add_input("mask", DType::kF32, {Dim::symbol("s6"), Dim::symbol("s50")});
  const auto node = add(graph, OpKind::kAdd, {b, a});
  infer_graph(graph);
  EXPECT_EQ(str(graph.value(b).shape), "[s33, s50]");
  EXPECT_EQ(str(graph.value(graph.node(node).outputs[0]).shape), "[s33, s50]");
  EXPECT_EQ(graph.symbol_substitutions.at("s6").str(), "s33");
  EXPECT_TRUE(graph.guards.empty());
}

TEST(Infer, SubstitutionsChainWithoutCycles) {
  ir::Graph graph;
  std::vector<ir::ValueId> in;
  for (const char* symbol : {"a", "b", "c"})
    in.push_back(graph.add_input(symbol, DType::kF32, {Dim::symbol(symbol)}));
  add(graph, OpKind::kAdd, {in[1], in[2]});  // c := b
  add(graph, OpKind::kAdd, {in[0], in[1]});  // b := a, and c with it
  add(graph, OpKind::kAdd, {in[2], in[0]});  // nothing new
  infer_graph(graph);
  EXPECT_EQ(graph.symbol_substitutions.size(), 2u);
  EXPECT_EQ(graph.symbol_substitutions.at("b").str(), "a");
  EXPECT_EQ(graph.symbol_substitutions.at("c").str(), "a");
}

TEST(Infer, AConstantWinsOverASymbol) {
  ir::Graph graph;
  const auto a = graph.add_input("a", DType::kF32, {kBatch});
  const auto b = graph.add_input("b", DType::kF32, {4});
  add(graph, OpKind::kAdd, {a, b});
  infer_graph(graph);
  EXPECT_EQ(str(graph.value(a).shape), "[4]");
}

TEST(Infer, ExpressionsThatMayDifferBecomeOneGuard) {
  ir::Graph graph;
  const auto a = graph.add_input("a", DType::kF32, {min(512, kSeq)});
  const auto b = graph.add_input("b", DType::kF32, {kSeq});
  const auto node = add(graph, OpKind::kAdd, {a, b});
  add(graph, OpKind::kMul, {b, a});
  infer_graph(graph);
  infer_graph(graph);
  ASSERT_EQ(graph.guards.size(), 1u);
  EXPECT_EQ(graph.guards[0].lhs.str() + " == " + graph.guards[0].rhs.str(), "min(512, seq) == seq");
  EXPECT_EQ(graph.guards[0].where, "the_node");
  EXPECT_EQ(str(graph.value(graph.node(node).outputs[0]).shape), "[seq]");
  EXPECT_TRUE(graph.symbol_substitutions.empty());
}

TEST(Infer, AGuardThatCameWithTheGraphIsNotAddedAgain) {
  ir::Graph graph;
  const auto a = graph.add_input("a", DType::kF32, {min(512, kSeq)});
  const auto b = graph.add_input("b", DType::kF32, {kSeq});
  graph.guards.push_back({kSeq, min(512, kSeq), "the_file"});
  infer_node(graph, add(graph, OpKind::kAdd, {a, b}));
  ASSERT_EQ(graph.guards.size(), 1u);
  graph.guards.push_back({mod(kSeq, 4), 0, "the_file"});
  infer_graph(graph);
  EXPECT_EQ(graph.guards.size(), 2u);
}

TEST(Infer, ShapesThatNoRunCanHaveAreRefused) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kSeq, 1, 1});
  const auto expanded = [&](SymShape shape) {
    return message([&] {
      emit(graph, OpKind::kExpand, {x}, ShapeAttrs{.shape = std::move(shape), .has_shape = true},
           {});
    });
  };
  EXPECT_EQ(expanded({kSeq, 1 << 20, 1 << 20}), "no error");
  EXPECT_NE(expanded({kSeq, int64_t{1} << 31, int64_t{1} << 31}).find("too many elements"),
            std::string::npos);
  EXPECT_NE(expanded(SymShape(65, 1)).find("output 0 would have more than 64 dimensions"),
            std::string::npos);
}

TEST(Infer, AGuardThatASubstitutionProvesGoesAway) {
  ir::Graph graph;
  graph.guards.push_back({Dim::symbol("b") * kSeq, kBatch * kSeq, "x"});
  graph.symbol_substitutions.emplace("b", kBatch);
  apply_substitutions(graph);
  EXPECT_TRUE(graph.guards.empty());
}

TEST(Infer, AGuardThatASubstitutionRefutesIsAnError) {
  ir::Graph graph;
  graph.guards.push_back({kSeq + Dim(1), kBatch, "the_node"});
  graph.symbol_substitutions.emplace("batch", kSeq);
  EXPECT_EQ(message([&] { apply_substitutions(graph); }),
            "node 'the_node': sizes seq + 1 and batch must be equal, but are seq + 1 and seq");
}

TEST(Infer, SubstitutionReachesValuesAndAttributes) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch, Dim::symbol("other")});
  ShapeAttrs attrs;
  attrs.shape = {kBatch * Dim::symbol("other")};
  attrs.has_shape = true;
  const auto flat = emit(graph, OpKind::kReshape, {x}, attrs, {});
  const auto shape = emit(graph, OpKind::kShape, {x}, ShapeOfAttrs{}, {});
  graph.symbol_substitutions.emplace("other", 3);
  apply_substitutions(graph);
  EXPECT_EQ(str(graph.value(flat).shape), "[3*batch]");
  EXPECT_EQ(str(*graph.value(shape).values), "[batch, 3]");
  EXPECT_EQ(str(graph.producer(flat)->attrs_as<ShapeAttrs>().shape), "[3*batch]");
}

TEST(Infer, SizesThatCannotBeEqualAreAnError) {
  ir::Graph graph;
  const auto a = graph.add_input("a", DType::kF32, {kSeq});
  const auto b = graph.add_input("b", DType::kF32, {kSeq + Dim(1)});
  const auto node = add(graph, OpKind::kAdd, {a, b});
  EXPECT_EQ(message([&] { infer_node(graph, node); }),
            "node 'the_node' (Add): shapes [seq] and [seq + 1] do not broadcast: sizes seq and "
            "seq + 1 differ");
}

TEST(Infer, AChainOfShapesResolves) {
  // Shape → Gather → Unsqueeze → Concat → Reshape, as exporters write it.
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch, kSeq, 768});
  const auto shape = emit(graph, OpKind::kShape, {x}, ShapeOfAttrs{}, {});
  const auto index = graph.add_constant(Tensor::from(DType::kI64, {}, std::vector<int64_t>{1}));
  const auto seq = emit(graph, OpKind::kGather, {shape, index}, AxisAttrs{0}, {});
  const auto list = emit(graph, OpKind::kUnsqueeze, {seq}, AxesAttrs{{0}, true}, {});
  const auto rest = graph.add_constant(Tensor::i64({-1, 12, 64}));
  const auto target = emit(graph, OpKind::kConcat, {list, rest}, AxisAttrs{0}, {});
  const auto y = emit(graph, OpKind::kReshape, {x, target}, ShapeAttrs{}, {});
  EXPECT_EQ(str(*graph.value(target).values), "[seq, -1, 12, 64]");
  EXPECT_EQ(str(graph.value(y).shape), "[seq, batch, 12, 64]");
}

TEST(Infer, EmitKeepsOriginsAndNamesTheNode) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {3});
  const auto y = emit(graph, OpKind::kIdentity, {x}, NoAttrs{}, {{"/#7", "relu_7", "Relu", ""}});
  EXPECT_EQ(graph.producer(y)->name, "relu_7");
  EXPECT_EQ(graph.producer(y)->origins.at(0).key, "/#7");
}

TEST(Flags, WhatMovesIsExactAndEveryViewMoves) {
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    const bool moves = (flags(op) & kMoves) != 0;
    EXPECT_TRUE(!moves || is_exact(op)) << name(op);
    EXPECT_TRUE(moves || (flags(op) & kView) == 0) << name(op);
  }
  EXPECT_TRUE(is_exact(OpKind::kConcat));
  EXPECT_EQ(flags(OpKind::kConcat) & kMoves, 0u);  // of several inputs
  EXPECT_FALSE(is_exact(OpKind::kEqual));
  EXPECT_FALSE(is_exact(OpKind::kAdd));
}

TEST(Infer, ArityIsCheckedAgainstTheTable) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {3});
  const auto one = add(graph, OpKind::kAdd, {x});
  EXPECT_EQ(message([&] { infer_node(graph, one); }),
            "node 'the_node' (Add): has 1 inputs, expected 2 to 2");
  const auto absent = add(graph, OpKind::kAdd, {x, ir::kNoValue});
  EXPECT_EQ(message([&] { infer_node(graph, absent); }),
            "node 'the_node' (Add): required input 1 is absent");
  const auto outputs = add(graph, OpKind::kRelu, {x}, 2);
  EXPECT_EQ(message([&] { infer_node(graph, outputs); }),
            "node 'the_node' (Relu): has 2 outputs, expected at most 1");
  const auto none = graph.add_node(OpKind::kConcat, {}, encode(AxisAttrs{}));
  EXPECT_EQ(message([&] { infer_node(graph, none); }),
            "node '#" + std::to_string(none) + "' (Concat): has 0 inputs, expected 1 or more");
}

TEST(Infer, InferringAgainChangesNothing) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch, kSeq});
  const auto found = graph.add_node(OpKind::kNonZero, {x}, AttrBytes{});
  infer_graph(graph);
  const std::string before = str(graph.value(graph.node(found).outputs[0]).shape);
  infer_graph(graph);
  EXPECT_EQ(str(graph.value(graph.node(found).outputs[0]).shape), before);
  ASSERT_EQ(graph.data_sizes.size(), 1u);
  EXPECT_EQ(graph.data_sizes.begin()->second->str(), "batch*seq + 1");
}

TEST(Infer, SizesOfDataAreNeverReplaced) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch});
  const auto y = graph.add_input("y", DType::kF32, {Dim::symbol("kept")});
  const auto found = emit(graph, OpKind::kNonZero, {x}, NoAttrs{}, {});
  const auto rows = emit(graph, OpKind::kSqueeze, {found}, AxesAttrs{{0}}, {});
  const auto numbers = emit(graph, OpKind::kCast, {rows}, CastAttrs{}, {});
  const auto sum = emit(graph, OpKind::kAdd, {numbers, y}, NoAttrs{}, {});
  infer_graph(graph);
  EXPECT_TRUE(graph.symbol_substitutions.empty());
  EXPECT_EQ(str(graph.value(sum).shape), "[kept]");  // the side that the inputs know
  ASSERT_EQ(graph.guards.size(), 1u);
  EXPECT_EQ(graph.guards[0].rhs.str(), "kept");
  EXPECT_TRUE(depends_on_data(graph, graph.guards[0].lhs));
  EXPECT_FALSE(depends_on_data(graph, graph.guards[0].rhs));
  EXPECT_EQ(graph.value(rows).shape[0].lower_bound(), 0);  // it may be empty
  const SymShape shape = graph.value(rows).shape;
  EXPECT_TRUE(brings_data_sizes(graph, shape, std::span(&x, 1)));
  EXPECT_FALSE(brings_data_sizes(graph, shape, std::span(&found, 1)));
  EXPECT_FALSE(brings_data_sizes(graph, {kBatch}, {}));
}

TEST(Infer, ACloneIsIndependent) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch});
  const auto y = emit(graph, OpKind::kIdentity, {x}, NoAttrs{}, {});
  const auto copy = graph.clone();
  copy->symbol_substitutions.emplace("batch", 7);
  apply_substitutions(*copy);
  EXPECT_EQ(str(copy->value(y).shape), "[7]");
  EXPECT_EQ(str(graph.value(y).shape), "[batch]");
}

}  // namespace
}  // namespace vernier::ops
