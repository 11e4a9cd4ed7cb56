// Random chains of views, run through an engine: the same elements as the FP64 evaluation of the
// graph, whatever became a view and whatever a copy. Contract: ops/views.h.
#include <gtest/gtest.h>

#include <random>

#include "core/attrs.h"
#include "engine/writer.h"
#include "ir/text.h"
#include "ops/evaluate.h"
#include "ops/infer.h"
#include "plan/graphs.h"
#include "runtime/engines.h"

namespace vernier::test {
namespace {

using ir::ValueId;

// Builds a graph of random views over x [b, s, 4, 6], each result read by a step now and then.
class ViewGraph {
 public:
  explicit ViewGraph(uint64_t seed) : random_(seed) {
    live_.push_back(
        graph.add_input("x", DType::kF32, {Dim::symbol("b"), Dim::symbol("s"), Dim(4), Dim(6)}));
    constexpr int kNodes = 12;
    for (int i = 0; i < kNodes; ++i) add_one();
    for (size_t i = live_.size(); i > 0 && graph.outputs.size() < 3; --i) {
      graph.output_names.push_back("y" + std::to_string(graph.outputs.size()));
      graph.outputs.push_back(live_[i - 1]);
    }
    ops::infer_graph(graph);
    graph.remove_dead();
  }

  ir::Graph graph;

 private:
  size_t below(size_t n) { return static_cast<size_t>(random_() % n); }
  const SymShape& shape(ValueId v) const { return graph.value(v).shape; }
  template <class A>
  ValueId emit(OpKind op, std::vector<ValueId> in, const A& attrs, int outputs = 1) {
    return ops::emit(graph, op, std::move(in), attrs, {}, outputs);
  }

  void add_one() {
    using Make = void (ViewGraph::*)(ValueId);
    constexpr Make kMakers[] = {&ViewGraph::transpose, &ViewGraph::merge, &ViewGraph::split_axis,
                                &ViewGraph::unit_axes, &ViewGraph::slice, &ViewGraph::split,
                                &ViewGraph::expand,    &ViewGraph::read,  &ViewGraph::read};
    (this->*kMakers[below(std::size(kMakers))])(
        live_[live_.size() - 1 - below(std::min<size_t>(live_.size(), 3))]);
  }
  void transpose(ValueId v) {
    TransposeAttrs attrs;
    for (size_t i = 0; i < shape(v).size(); ++i) attrs.perm.push_back(static_cast<int64_t>(i));
    std::shuffle(attrs.perm.begin(), attrs.perm.end(), random_);
    live_.push_back(emit(OpKind::kTranspose, {v}, attrs));
  }
  void reshape(ValueId v, SymShape to) {
    live_.push_back(
        emit(OpKind::kReshape, {v}, ShapeAttrs{.shape = std::move(to), .has_shape = true}));
  }
  void merge(ValueId v) {
    SymShape s = shape(v);
    if (s.size() < 2) return;
    const size_t i = below(s.size() - 1);
    s[i] = s[i] * s[i + 1];
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    reshape(v, std::move(s));
  }
  void split_axis(ValueId v) {
    SymShape s = shape(v);
    if (s.empty() || s.size() >= 6) return;
    const size_t i = below(s.size());
    const auto size = s[i].as_constant();
    if (!size || *size % 2 != 0) return;
    s[i] = 2;
    s.insert(s.begin() + static_cast<std::ptrdiff_t>(i) + 1, Dim(*size / 2));
    reshape(v, std::move(s));
  }
  void unit_axes(ValueId v) {
    if (shape(v).size() >= 6) return;
    const auto axis = static_cast<int64_t>(below(shape(v).size() + 1));
    live_.push_back(emit(OpKind::kUnsqueeze, {v}, AxesAttrs{{axis}, true}));
  }
  std::optional<size_t> even_axis(ValueId v) {
    const size_t axis = below(shape(v).size());
    const auto size = shape(v)[axis].as_constant();
    return size && *size >= 2 && *size % 2 == 0 ? std::optional(axis) : std::nullopt;
  }
  void slice(ValueId v) {
    const auto axis = even_axis(v);
    if (!axis) return;
    const int64_t size = shape(v)[*axis].constant();
    const int64_t step = below(2) ? 2 : 1, start = static_cast<int64_t>(below(2));
    const int64_t count = (size - start + step - 1) / step;
    live_.push_back(emit(OpKind::kSlice, {v},
                         SliceAttrs{.inline_starts = true,
                                    .starts = {start},
                                    .axes = {static_cast<int64_t>(*axis)},
                                    .steps = {step},
                                    .sizes = {Dim(count)}}));
  }
  void split(ValueId v) {
    const auto axis = even_axis(v);
    if (!axis) return;
    const ValueId first = emit(
        OpKind::kSplit, {v}, SplitAttrs{.axis = static_cast<int64_t>(*axis), .num_outputs = 2}, 2);
    const auto outputs = graph.producer(first)->outputs;
    live_.insert(live_.end(), outputs.begin(), outputs.end());
  }
  void expand(ValueId v) {
    SymShape s = shape(v);
    if (s.size() >= 6) return;
    s.insert(s.begin(), Dim(2));
    live_.push_back(emit(OpKind::kExpand, {v}, ShapeAttrs{.shape = s, .has_shape = true}));
  }
  void read(ValueId v) { live_.push_back(emit(OpKind::kNeg, {v}, NoAttrs{})); }

  std::mt19937_64 random_;
  std::vector<ValueId> live_;
};

class RandomViews : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomViews, MoveTheElementsThatTheGraphMoves) {
  constexpr uint64_t kGraphsPerSeed = 40;
  size_t aliases = 0;
  for (uint64_t n = 0; n < kGraphsPerSeed; ++n) {
    const uint64_t seed = GetParam() * kGraphsPerSeed + n;
    const ViewGraph views(seed);
    const plan::Plan plan = cpu_plan(views.graph);
    for (const plan::PlanValue& v : plan.values) aliases += v.kind == plan::PlanValue::Kind::kAlias;
    Session session(Engine::from_bytes(engine::engine_bytes(plan)), {.threads = 1});
    for (const Shape& shape : {Shape{1, 1, 4, 6}, Shape{2, 3, 4, 6}, Shape{3, 1, 4, 6}}) {
      const Arrays inputs{{"x", random_f32(shape, seed)}};
      Arrays want;
      for (const auto& [name, t] : ops::evaluate(views.graph, inputs).outputs)
        want.emplace(name, t.to_tensor());
      EXPECT_EQ(difference(run(session, inputs), want), "")
          << "seed " << seed << ", x " << str(shape) << "\n"
          << ir::print(views.graph);
    }
  }
  EXPECT_GT(aliases, kGraphsPerSeed) << "nothing became a view";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomViews, ::testing::Range<uint64_t>(0, 5));

}  // namespace
}  // namespace vernier::test
