// Whole graphs in FP64 and the folding of nodes: ops/evaluate.h.
#include "ops/evaluate.h"

#include <gtest/gtest.h>

#include <functional>

#include "core/attrs.h"
#include "ops/infer.h"
#include "rules/rules.h"

namespace vernier::ops {
namespace {

const Dim kBatch = Dim::symbol("batch");
const Dim kSeq = Dim::symbol("seq");

Tensor f32(Shape shape, std::vector<double> values) {
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}
Tensor zeros(Shape shape) {
  return f32(shape, std::vector<double>(static_cast<size_t>(num_elems(shape)), 0));
}
std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// y = x + bias, flattened to [batch·seq] through a shape chain.
struct AddGraph {
  ir::Graph graph;
  ir::ValueId sum;
  AddGraph() {
    const auto x = graph.add_input("x", DType::kF32, {kBatch, kSeq});
    const auto bias = graph.add_input("bias", DType::kF32, {Dim::symbol("length")});
    sum = emit(graph, OpKind::kAdd, {x, bias}, NoAttrs{}, {});
    graph.value(sum).name = "sum";
    const auto count = emit(graph, OpKind::kSize, {sum}, NoAttrs{}, {});
    const auto target = emit(graph, OpKind::kUnsqueeze, {count}, AxesAttrs{{0}, true}, {});
    const auto y = emit(graph, OpKind::kReshape, {sum, target}, ShapeAttrs{}, {});
    graph.outputs = {y};
    graph.output_names = {"y"};
    infer_graph(graph);
  }
};

TEST(Evaluate, ShapeChainsResolveAtTheConcreteSizes) {
  const AddGraph g;
  for (const int64_t batch : {1, 3}) {
    const Shape shape{batch, 2};
    std::vector<double> numbers(static_cast<size_t>(2 * batch), 0.25);
    const Evaluation e =
        evaluate(g.graph, {{"x", f32(shape, numbers)}, {"bias", f32({2}, {1, 2})}});
    EXPECT_EQ(str(e.outputs.at("y").shape), "[" + std::to_string(2 * batch) + "]");
    EXPECT_EQ(e.outputs.at("y").f.front(), 1.25);
    EXPECT_EQ(e.outputs.at("y").f.back(), 2.25);
    EXPECT_EQ(e.symbols.at("batch"), batch);
    EXPECT_TRUE(e.values.empty());
  }
}

TEST(Evaluate, NamedValuesAreKeptOnRequest) {
  const AddGraph g;
  const Evaluation e =
      evaluate(g.graph, {{"x", zeros({1, 2})}, {"bias", f32({2}, {1, 2})}}, {.keep = Keep::kNamed});
  ASSERT_EQ(e.values.size(), 1u);
  EXPECT_EQ(e.values.at(g.sum).f, (std::vector<double>{1, 2}));
}

// Where nobody else reads an operand, a result may take its memory; a kept one stays.
TEST(Evaluate, AResultInItsOperandsMemoryIsTheSame) {
  const Shape shape{3, 5, 7};
  std::vector<double> numbers(static_cast<size_t>(num_elems(shape)));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i * 37 % 11) - 4;
  const std::map<std::string, Tensor> inputs{{"x", f32(shape, numbers)},
                                             {"scale", f32({7}, {1, 2, 3, 4, 5, 6, 7})}};
  using Make = std::function<ir::ValueId(ir::Graph&, ir::ValueId sum, ir::ValueId scale)>;
  const auto softmax = [](int64_t axis) -> Make {
    return [axis](ir::Graph& graph, ir::ValueId sum, ir::ValueId) {
      return emit(graph, OpKind::kSoftmax, {sum}, AxisAttrs{axis}, {});
    };
  };
  const Make erf = [](ir::Graph& graph, ir::ValueId sum, ir::ValueId) {
    return emit(graph, OpKind::kErf, {sum}, NoAttrs{}, {});
  };
  const Make div = [](ir::Graph& graph, ir::ValueId sum, ir::ValueId scale) {
    return emit(graph, OpKind::kDiv, {sum, scale}, NoAttrs{}, {});
  };
  for (const Make& make : {softmax(0), softmax(1), softmax(2), erf, div}) {
    ir::Graph graph;
    const auto x = graph.add_input("x", DType::kF32, {Dim(3), Dim(5), Dim(7)});
    const auto scale = graph.add_input("scale", DType::kF32, {Dim(7)});
    const auto sum = emit(graph, OpKind::kAdd, {x, scale}, NoAttrs{}, {});
    const auto result = make(graph, sum, scale);
    graph.value(sum).name = "sum";
    graph.value(result).name = "result";
    graph.outputs = {emit(graph, OpKind::kMul, {result, scale}, NoAttrs{}, {})};
    graph.output_names = {"y"};
    infer_graph(graph);
    const Evaluation kept = evaluate(graph, inputs, {.keep = Keep::kNamed});
    EXPECT_EQ(evaluate(graph, inputs).outputs.at("y").f, kept.outputs.at("y").f);
    EXPECT_NE(kept.values.at(sum).f, kept.values.at(result).f);
  }
}

TEST(Evaluate, OfNamedValuesThoseThatAreAskedForAreKept) {
  const AddGraph g;
  const std::set<std::string> none{"other"}, sum{g.graph.value(g.sum).name};
  for (const auto& [names, kept] : {std::pair{&none, 0U}, std::pair{&sum, 1U}}) {
    EvaluateOptions options;
    options.keep = Keep::kNamed;
    options.names = names;
    const Evaluation e =
        evaluate(g.graph, {{"x", zeros({1, 2})}, {"bias", f32({2}, {1, 2})}}, options);
    EXPECT_EQ(e.values.size(), kept);
  }
}

TEST(Evaluate, APartTakesGivenValuesAndLeavesOutWhatOnlyTheyNeed) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {2});
  const auto square = emit(graph, OpKind::kMul, {x, x}, NoAttrs{}, {});
  const auto root = emit(graph, OpKind::kSqrt, {square}, NoAttrs{}, {});
  const auto sum = emit(graph, OpKind::kAdd, {root, x}, NoAttrs{}, {});
  graph.outputs = {emit(graph, OpKind::kNeg, {sum}, NoAttrs{}, {})};
  graph.output_names = {"y"};
  EvaluateOptions part;
  part.given[root] = EvalTensor::from(f32({2}, {10, 20}));
  part.wanted = {sum};
  const Evaluation e = evaluate(graph, {{"x", f32({2}, {1, 2})}}, part);
  EXPECT_EQ(e.values.at(sum).f, (std::vector<double>{11, 22}));
  EXPECT_TRUE(e.outputs.empty());
  part.wanted = {};
  EXPECT_EQ(evaluate(graph, {{"x", f32({2}, {1, 2})}}, part).outputs.at("y").f,
            (std::vector<double>{-11, -22}));
  part.given[root] = EvalTensor(DType::kI64, {2});
  EXPECT_THROW(evaluate(graph, {{"x", f32({2}, {1, 2})}}, part), Error);
}

TEST(Evaluate, NothingRoundsBetweenNodes) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF16, {1});
  const auto square = emit(graph, OpKind::kMul, {x, x}, NoAttrs{}, {});
  graph.outputs = {emit(graph, OpKind::kSub, {square, x}, NoAttrs{}, {})};
  graph.output_names = {"y"};
  const double v = 1 + 1.0 / 1024;  // its square needs 21 bits
  const Evaluation e =
      evaluate(graph, {{"x", Tensor::from(DType::kF16, {1}, std::vector<double>{v})}});
  EXPECT_EQ(e.outputs.at("y").f[0], v * v - v);
}

TEST(Evaluate, AnOutputMayBeAnInputOrAConstantOrStandTwice) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {2});
  const auto c = graph.add_constant(f32({1}, {7}));
  graph.outputs = {x, c, x};
  graph.output_names = {"same", "constant", "again"};
  const Evaluation e = evaluate(graph, {{"x", f32({2}, {1, 2})}});
  EXPECT_EQ(e.outputs.at("same").f, (std::vector<double>{1, 2}));
  EXPECT_EQ(e.outputs.at("again").f, (std::vector<double>{1, 2}));
  EXPECT_EQ(e.outputs.at("constant").f, (std::vector<double>{7}));
}

// Attributes may hold sizes that only the data says; so may shapes that are given.
TEST(Evaluate, AttributesMayHoldSizesOfData) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kSeq});
  const auto found = emit(graph, OpKind::kNonZero, {x}, NoAttrs{}, {});
  const Dim count = graph.value(found).shape[1];
  const auto column = emit(graph, OpKind::kReshape, {found},
                           ShapeAttrs{.shape = {count, 1}, .has_shape = true}, {});
  graph.outputs = {emit(graph, OpKind::kExpand, {column},
                        ShapeAttrs{.shape = {count, 2}, .has_shape = true}, {})};
  graph.output_names = {"y"};
  std::vector<double> numbers(100, 0);
  numbers[3] = numbers[99] = 5;
  const Tensor given = f32({100}, numbers);
  const Evaluation e = evaluate(graph, {{"x", given}});
  EXPECT_EQ(str(e.outputs.at("y").shape), "[2, 2]");
  EXPECT_EQ(e.outputs.at("y").i, (std::vector<int64_t>{3, 3, 99, 99}));
  const Evaluation none = evaluate(graph, {{"x", f32({2}, {0, 0})}});
  EXPECT_EQ(str(none.outputs.at("y").shape), "[0, 2]");
  EvaluateOptions options;
  options.given[found] = EvalTensor::from(Tensor::i64({7}).reshaped({1, 1}));
  options.wanted = {graph.outputs.ids().front()};
  EXPECT_EQ(str(evaluate(graph, {{"x", given}}, options).values.at(options.wanted[0]).shape),
            "[1, 2]");
}

// Every operator whose sizes are values of another node's result.
TEST(Evaluate, SizesMayBeValues) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {2, 3});
  const auto n = graph.add_input("n", DType::kI64, {2});
  const auto k = graph.add_input("k", DType::kI64, {1});
  const auto number = emit(graph, OpKind::kReshape, {k}, ShapeAttrs{.has_shape = true}, {});
  const auto zero = graph.add_constant(Tensor::i64({0}).reshaped({}));
  const auto one = graph.add_constant(Tensor::i64({1}).reshaped({}));
  const auto off_on = graph.add_constant(f32({2}, {0, 1}));
  graph.outputs = {
      emit(graph, OpKind::kReshape, {x, n}, ShapeAttrs{}, {}),
      emit(graph, OpKind::kRange, {zero, number, one}, NoAttrs{}, {}),
      emit(graph, OpKind::kTile, {x, n}, NoAttrs{}, {}),
      emit(graph, OpKind::kConstantOfShape, {n}, ConstantOfShapeAttrs{}, {}),
      emit(graph, OpKind::kSlice, {x, graph.add_constant(Tensor::i64({0})), k}, SliceAttrs{}, {}),
      emit(graph, OpKind::kOneHot, {n, number, off_on}, OneHotAttrs{}, {}),
      emit(graph, OpKind::kTopK, {x, k}, TopKAttrs{}, {}),
      emit(graph, OpKind::kExpand, {number, n}, ShapeAttrs{}, {})};
  graph.output_names = {"reshape", "range", "tile", "fill", "slice", "one_hot", "top", "expand"};
  const Evaluation e = evaluate(graph, {{"x", f32({2, 3}, {0, 1, 2, 3, 4, 5})},
                                        {"n", Tensor::i64({3, 2})},
                                        {"k", Tensor::i64({1})}});
  const std::map<std::string, std::string> shapes{
      {"reshape", "[3, 2]"}, {"range", "[1]"},      {"tile", "[6, 6]"}, {"fill", "[3, 2]"},
      {"slice", "[1, 3]"},   {"one_hot", "[2, 1]"}, {"top", "[2, 1]"},  {"expand", "[3, 2]"}};
  for (const auto& [name, shape] : shapes) EXPECT_EQ(str(e.outputs.at(name).shape), shape) << name;
  EXPECT_EQ(e.outputs.at("top").f, (std::vector<double>{2, 5}));
  EXPECT_THROW(evaluate(graph, {{"x", f32({2, 3}, {0, 1, 2, 3, 4, 5})},
                                {"n", Tensor::i64({3, 3})},
                                {"k", Tensor::i64({1})}}),
               Error);  // 6 elements are not 9
}

TEST(Evaluate, ShapesMayDependOnData) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kSeq});
  const auto found = emit(graph, OpKind::kNonZero, {x}, NoAttrs{}, {});
  const auto flat = graph.add_constant(Tensor::i64({-1}));
  const auto rows = emit(graph, OpKind::kReshape, {found, flat}, ShapeAttrs{}, {});
  graph.outputs = {emit(graph, OpKind::kGather, {x, rows}, AxisAttrs{0}, {})};
  graph.output_names = {"y"};
  std::vector<double> numbers(100, 0);  // longer than inference looks at
  numbers[3] = 5;
  numbers[99] = 6;
  const Evaluation e = evaluate(graph, {{"x", f32({100}, numbers)}});
  EXPECT_EQ(e.outputs.at("y").f, (std::vector<double>{5, 6}));
}

TEST(Evaluate, SmallComputedTensorsAreKnownToInference) {
  // The shape comes from arithmetic on an input's numbers.
  ir::Graph graph;
  const auto n = graph.add_input("n", DType::kI64, {1});
  graph.outputs = {
      graph.node(graph.add_node(OpKind::kConstantOfShape, {n}, encode(ConstantOfShapeAttrs{})))
          .outputs[0]};
  graph.output_names = {"y"};
  EXPECT_EQ(str(evaluate(graph, {{"n", Tensor::i64({3})}}).outputs.at("y").shape), "[3]");
}

TEST(Evaluate, AConflictNamesBothInputs) {
  const AddGraph g;
  EXPECT_EQ(message([&] {
              evaluate(g.graph, {{"x", zeros({1, 2})}, {"bias", zeros({3})}});
            }),
            "size 'seq' is 2 in axis 1 of input 'x' but 3 in axis 0 of input 'bias'; they must be "
            "equal");
}

TEST(Evaluate, WrongInputsAreNamed) {
  const AddGraph g;
  EXPECT_EQ(message([&] {
              evaluate(g.graph, {{"x", zeros({1, 2})}});
            }),
            "input 'bias' is missing; the model's inputs are: bias, x");
  EXPECT_EQ(message([&] {
              evaluate(g.graph, {{"x", zeros({1, 2})}, {"bias", zeros({2})}, {"z", zeros({1})}});
            }),
            "the model has no input 'z'; its inputs are: bias, x");
  EXPECT_EQ(message([&] {
              evaluate(g.graph, {{"x", zeros({2})}, {"bias", zeros({2})}});
            }),
            "input 'x' has shape [2], expected [batch, seq]");
  EXPECT_EQ(message([&] {
              evaluate(g.graph, {{"x", zeros({1, 2})}, {"bias", Tensor::i64({1, 2})}});
            }),
            "input 'bias' has type i64, expected f32");
}

TEST(Evaluate, AFixedSizeIsChecked) {
  ir::Graph graph;
  graph.outputs = {graph.add_input("x", DType::kF32, {kBatch, 3})};
  graph.output_names = {"y"};
  EXPECT_EQ(message([&] {
              evaluate(graph, {{"x", zeros({1, 2})}});
            }),
            "axis 1 of input 'x' is 2, expected 3");
}

TEST(Evaluate, AnExpressionOfSizesIsChecked) {
  ir::Graph graph;
  graph.add_input("x", DType::kF32, {kBatch});
  graph.outputs = {graph.add_input("pairs", DType::kF32, {Dim(2) * kBatch})};
  graph.output_names = {"y"};
  EXPECT_EQ(message([&] {
              evaluate(graph, {{"x", zeros({3})}, {"pairs", zeros({5})}});
            }),
            "axis 0 of input 'pairs' is 5, expected 2*batch = 6");
}

TEST(Evaluate, AnUndeterminedSymbolIsAnError) {
  ir::Graph graph;
  graph.outputs = {graph.add_input("x", DType::kF32, {Dim(2) * kBatch})};
  graph.output_names = {"y"};
  EXPECT_EQ(message([&] {
              evaluate(graph, {{"x", zeros({4})}});
            }),
            "axis 0 of input 'x' is 2*batch, which the sizes of the inputs do not determine");
}

TEST(Evaluate, AViolatedGuardNamesTheNode) {
  ir::Graph graph;
  graph.outputs = {graph.add_input("x", DType::kF32, {kSeq})};
  graph.output_names = {"y"};
  graph.guards.push_back({min(4, kSeq), kSeq, "positions"});
  EXPECT_EQ(message([&] {
              evaluate(graph, {{"x", zeros({5})}});
            }),
            "the sizes of the inputs do not fit together: node 'positions' needs min(4, seq) == "
            "seq, but they are 4 and 5");
  EXPECT_EQ(str(evaluate(graph, {{"x", zeros({4})}}).outputs.at("y").shape), "[4]");
}

TEST(Evaluate, AnImpossibleValueNamesTheNode) {
  ir::Graph graph;
  const auto table = graph.add_constant(zeros({3, 2}));
  const auto ids = graph.add_input("ids", DType::kI64, {kSeq});
  graph.outputs = {
      emit(graph, OpKind::kGather, {table, ids}, AxisAttrs{0}, {{"#0", "emb", "", ""}})};
  graph.output_names = {"y"};
  EXPECT_EQ(message([&] {
              evaluate(graph, {{"ids", Tensor::i64({0, 3})}});
            }),
            "node 'emb' (Gather): index 3 at element 1 of the indices is outside [-3, 3)");
}

TEST(Fold, ConstantInputsGiveConstantsRoundedOnce) {
  ir::Graph graph;
  const auto a = graph.add_constant(f32({}, {1}));
  const auto b = graph.add_constant(f32({}, {3}));
  const auto y = emit(graph, OpKind::kDiv, {a, b}, NoAttrs{}, {});
  const auto folded = fold_node(graph, graph.value(y).producer, 10);
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->at(0).dtype(), DType::kF32);
  EXPECT_EQ(folded->at(0).float_at(0), static_cast<double>(1.0f / 3.0f));
}

TEST(Fold, KnownContentsFoldWithoutConstantInputs) {
  ir::Graph graph;
  const auto x = graph.add_input("x", DType::kF32, {kBatch, 768});
  const auto width = emit(graph, OpKind::kShape, {x}, ShapeOfAttrs{1, 2}, {});
  const auto folded = fold_node(graph, graph.value(width).producer, 10);
  ASSERT_TRUE(folded);
  EXPECT_EQ(folded->at(0).integers(), (std::vector<int64_t>{768}));
  const auto both = emit(graph, OpKind::kShape, {x}, ShapeOfAttrs{}, {});
  EXPECT_FALSE(fold_node(graph, graph.value(both).producer, 10)) << "batch is not a number";
}

TEST(Fold, LargeOrVariableResultsStay) {
  ir::Graph graph;
  const auto shape = graph.add_constant(Tensor::i64({4, 4}));
  const auto y = graph.add_node(OpKind::kConstantOfShape, {shape}, encode(ConstantOfShapeAttrs{}));
  infer_node(graph, y);
  EXPECT_TRUE(fold_node(graph, y, 16));
  EXPECT_FALSE(fold_node(graph, y, 15));
  const auto x = graph.add_input("x", DType::kF32, {2});
  const auto z = emit(graph, OpKind::kNeg, {x}, NoAttrs{}, {});
  EXPECT_FALSE(fold_node(graph, graph.value(z).producer, 16));
}

TEST(Fold, DataDependentShapesFold) {
  ir::Graph graph;
  const auto x = graph.add_constant(f32({3}, {0, 4, 5}));
  const auto y = emit(graph, OpKind::kNonZero, {x}, NoAttrs{}, {});
  const auto folded = fold_node(graph, graph.value(y).producer, 16);
  ASSERT_TRUE(folded);
  EXPECT_EQ(str(folded->at(0).shape()), "[1, 2]");
  EXPECT_EQ(folded->at(0).integers(), (std::vector<int64_t>{1, 2}));
}

Tensor ones(Shape shape) {
  const std::vector<double> values(static_cast<size_t>(num_elems(shape)), 1);
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}

TEST(Fold, WhatTakesTooMuchWorkStays) {
  // 64^8 products for one number; a few labels less are folded.
  for (const auto& [equation, terms, folds] : std::vector<std::tuple<std::string, int, bool>>{
           {"ab,cd,ef,gh->", 4, false}, {"ab,cd->", 2, true}}) {
    ir::Graph graph;
    const ir::ValueId c = graph.add_constant(ones({64, 64}));
    const ir::ValueId y =
        emit(graph, OpKind::kEinsum, std::vector<ir::ValueId>(static_cast<size_t>(terms), c),
             EinsumAttrs{equation}, {});
    EXPECT_EQ(fold_node(graph, graph.value(y).producer, 16).has_value(), folds) << equation;
    EXPECT_EQ(graph.folded_work > 0, folds);
  }
  // A window that is nearly all padding.
  ir::Graph graph;
  const ir::ValueId x = graph.add_constant(ones({1, 1, 4, 4}));
  PoolAttrs pool;
  pool.kernel_shape = {100'000, 100'000};
  pool.pads = {50'000, 50'000, 50'000, 50'000};
  const ir::ValueId y = emit(graph, OpKind::kMaxPool, {x}, pool, {});
  EXPECT_FALSE(fold_node(graph, graph.value(y).producer, 100));
}

// Nothing is there, but loops over the other sizes would not end.
TEST(Fold, EmptyArraysOfLargeSizesTakeNoTime) {
  constexpr int64_t kFar = int64_t{1} << 44;
  const auto empty = [](Shape shape) { return f32(std::move(shape), {}); };
  struct Row {
    OpKind op;
    AttrBytes attrs;
    std::vector<Tensor> in;
  };
  ConvAttrs wide;
  wide.pads = {1 << 19, 1 << 19, (1 << 19) - 1, (1 << 19) - 1};
  const std::vector<Row> rows{
      {OpKind::kMatMul, {}, {empty({kFar, 0, 1}), f32({1, 1}, {2})}},
      {OpKind::kReduceSum, encode(ReduceAttrs{.axes = {1}}), {empty({0, kFar})}},
      {OpKind::kAttention,
       encode(AttentionAttrs{}),
       {empty({kFar, 0, 1, 1}), empty({kFar, 0, 1, 1}), empty({kFar, 0, 1, 1})}},
      {OpKind::kGather, encode(AxisAttrs{.axis = 1}), {empty({kFar, 2, 0}), Tensor::i64({1})}},
      {OpKind::kCumSum, encode(CumSumAttrs{}), {empty({0, kFar}), Tensor::i64({0})}},
      {OpKind::kConv, encode(wide), {empty({1, 0, 1, 1}), empty({1, 0, 1 << 20, 1 << 20})}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(name(row.op)));
    ir::Graph graph;
    std::vector<ir::ValueId> in;
    for (const Tensor& t : row.in) in.push_back(graph.add_constant(t));
    const ir::NodeId node = graph.add_node(row.op, in, row.attrs);
    infer_node(graph, node);
    EXPECT_FALSE(fold_node(graph, node, 1 << 10)) << "sizes of 0 count as 1";
    if (row.op == OpKind::kConv) continue;  // its outputs are there
    graph.outputs = {graph.node(node).outputs[0]};
    graph.output_names = {"y"};
    EXPECT_EQ(evaluate(graph, {}).outputs.at("y").elems(), 0);
  }
}

TEST(Fold, AllFoldsTogetherAreBounded) {
  ir::Graph graph;
  const ir::ValueId c = graph.add_constant(ones({8, 8}));
  const auto folds = [&](ir::Graph& at) {
    const ir::ValueId y = emit(at, OpKind::kEinsum, {c, c}, EinsumAttrs{"ab,cd->"}, {});
    return fold_node(at, at.value(y).producer, 16).has_value();
  };
  ASSERT_TRUE(folds(graph));
  const double one = graph.folded_work;
  EXPECT_EQ(one, 2 * 2 * 8 * 8 * 8 * 8 + kFoldWorkPerElem * (64 + 64 + 1));
  EXPECT_EQ(graph.max_folded_work, kMaxFoldWorkInAll + kFoldWorkPerWeight * 64);
  graph.folded_work = graph.max_folded_work - 1.5 * one;
  EXPECT_TRUE(folds(graph));
  EXPECT_FALSE(folds(graph)) << "half of what it takes is left";
  EXPECT_FALSE(folds(*graph.clone())) << "a copy goes on from there";
}

TEST(Cost, CountsWhatIsReadInsideAWindowAndForALabel) {
  const auto cost = [](OpKind op, const AttrBytes& attrs, const std::vector<Shape>& in,
                       const std::vector<Shape>& out) {
    const std::vector<DType> in_types(in.size(), DType::kF32), out_types(out.size(), DType::kF32);
    return rules::cost(op, {attrs, in, out, in_types, out_types});
  };
  EXPECT_EQ(
      cost(OpKind::kEinsum, encode(EinsumAttrs{"ij,jk->ik"}), {{2, 3}, {3, 5}}, {{2, 5}}).flops,
      2 * 30 * 2);
  EXPECT_EQ(cost(OpKind::kEinsum, encode(EinsumAttrs{"i->"}), {{7}}, {{}}).flops, 2 * 7);
  PoolAttrs pool;
  pool.kernel_shape = {3, 2};
  EXPECT_EQ(cost(OpKind::kMaxPool, encode(pool), {{1, 2, 9, 8}}, {{1, 2, 7, 7}}).flops, 98 * 6);
  // One axis after the other: the array between is 1000 times as large as either.
  EXPECT_GE(cost(OpKind::kResize, encode(ResizeAttrs{}), {{1, 1000}}, {{1000, 1}}).flops, 1e6);
}

}  // namespace
}  // namespace vernier::ops
