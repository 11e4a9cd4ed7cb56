// Graphs of 100,000 nodes, of every kind that is long, wide or deep: they build, open and run. What
// costs more per node the more nodes there are does not end within the limit of a test.
// Contract: docs/architecture.md "Bounds".
#include <gtest/gtest.h>

#include "cli/program.h"
#include "onnx/model_builder.h"
#include "vernier/compile.h"
#include "vernier/session.h"

namespace vernier::test {
namespace {

using onnx::attr_int;
using onnx::attr_ints;
using onnx::f32_tensor;
using onnx::i64_tensor;
using onnx::kFloat;
using onnx::ModelBuilder;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kNodes = 10'000;  // sanitizers are ten times slower
#else
constexpr int kNodes = 100'000;
#endif

struct Kind {
  const char* name;
  void (*fill)(ModelBuilder& model);
};
std::string print(const Kind& kind) { return kind.name; }
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::string numbered(const char* name, int i) { return name + std::to_string(i); }

// nodes(i, input, output) for a chain from x to y.
template <class Add>
void chain(ModelBuilder& model, int count, const Add& add) {
  for (int i = 0; i < count; ++i)
    add(i, i == 0 ? "x" : numbered("v", i - 1), i + 1 == count ? "y" : numbered("v", i));
  model.output("y");
}

void elementwise(ModelBuilder& model) {
  chain(model, kNodes, [&](int i, const std::string& in, const std::string& out) {
    model.node(i % 3 == 0 ? "Sin" : i % 3 == 1 ? "Neg" : "Relu", {in}, {out});
  });
}
void sums_with_the_input(ModelBuilder& model) {
  chain(model, kNodes, [&](int, const std::string& in, const std::string& out) {
    model.node("Add", {in, "x"}, {out});
  });
}
void sums_with_constants(ModelBuilder& model) {
  chain(model, kNodes, [&](int i, const std::string& in, const std::string& out) {
    model.initializer(f32_tensor(numbered("c", i), {1}, {static_cast<float>(i % 7)}));
    model.node("Add", {in, numbered("c", i)}, {out});
  });
}
void products_with_shared_weights(ModelBuilder& model) {
  model.initializer(f32_tensor("w", {4, 4}, std::vector<float>(16, 0.1F)));
  chain(model, kNodes, [&](int, const std::string& in, const std::string& out) {
    model.node("MatMul", {in, "w"}, {out});
  });
}
void products_with_own_weights(ModelBuilder& model) {
  chain(model, kNodes / 2, [&](int i, const std::string& in, const std::string& out) {
    model.initializer(f32_tensor(numbered("w", i), {4, 4},
                                 std::vector<float>(16, 1e-6F * static_cast<float>(i))));
    model.node("MatMul", {in, numbered("w", i)}, {out});
  });
}
void views(ModelBuilder& model) {
  model.initializer(i64_tensor("flat", {2}, {-1, 4}));
  chain(model, kNodes, [&](int i, const std::string& in, const std::string& out) {
    if (i % 2 == 0)
      model.node("Transpose", {in}, {out}, {attr_ints("perm", {1, 0})});
    else
      model.node("Reshape", {in, "flat"}, {out});
  });
}
void transposes(ModelBuilder& model) {
  chain(model, kNodes, [&](int, const std::string& in, const std::string& out) {
    model.node("Transpose", {in}, {out}, {attr_ints("perm", {1, 0})});
  });
}
void norms(ModelBuilder& model) {
  model.initializer(f32_tensor("scale", {4}, {1, 2, 3, 4}));
  chain(model, kNodes / 4, [&](int i, const std::string& in, const std::string& out) {
    model.node("LayerNormalization", {in, "scale"}, {numbered("n", i)});
    model.node("Add", {numbered("n", i), in}, {out});
  });
}
void sizes(ModelBuilder& model) {
  model.initializer(i64_tensor("zero", {1}, {0}));
  model.initializer(i64_tensor("four", {1}, {4}));
  chain(model, kNodes / 5, [&](int i, const std::string& in, const std::string& out) {
    const std::string k = std::to_string(i);
    model.node("Shape", {in}, {"shape" + k});
    model.node("Gather", {"shape" + k, "zero"}, {"size" + k});
    model.node("Concat", {"size" + k, "four"}, {"both" + k}, {attr_int("axis", 0)});
    model.node("Reshape", {in, "both" + k}, {"same" + k});
    model.node("Sin", {"same" + k}, {out});
  });
}
void diamonds(ModelBuilder& model) {
  chain(model, kNodes / 3, [&](int i, const std::string& in, const std::string& out) {
    model.node("Sin", {in}, {numbered("a", i)});
    model.node("Cos", {in}, {numbered("b", i)});
    model.node("Mul", {numbered("a", i), numbered("b", i)}, {out});
  });
}
void many_users(ModelBuilder& model) {
  for (int i = 0; i < kNodes; ++i) {
    model.initializer(f32_tensor(numbered("c", i), {1}, {static_cast<float>(i)}));
    model.node("Add", {"x", numbered("c", i)}, {numbered("y", i)});
    model.output(numbered("y", i));
  }
}
void wide(ModelBuilder& model, const char* op, const std::vector<onnx::Attribute>& attributes) {
  onnx::Names inputs;
  for (int i = 0; i < kNodes / 2; ++i) {
    model.initializer(f32_tensor(numbered("c", i), {1}, {static_cast<float>(i)}));
    model.node("Mul", {"x", numbered("c", i)}, {numbered("m", i)});
    inputs.push_back(numbered("m", i));
  }
  model.node(op, inputs, {"y"}, attributes);
  model.output("y");
}
void wide_concat(ModelBuilder& model) { wide(model, "Concat", {attr_int("axis", 1)}); }
void wide_sum(ModelBuilder& model) { wide(model, "Sum", {}); }
void one_value_many_times(ModelBuilder& model) {
  model.node("Concat", onnx::Names(kNodes, "x"), {"y"}, {attr_int("axis", 1)});
  model.output("y");
}
void all_are_outputs(ModelBuilder& model) {
  chain(model, kNodes / 2, [&](int i, const std::string& in, const std::string& out) {
    model.node("Sin", {in}, {out});
    if (out != "y") model.output(numbered("v", i));
  });
}
void unused_constants(ModelBuilder& model) {
  for (int i = 0; i < kNodes; ++i)
    model.initializer(f32_tensor(numbered("c", i), {2}, {static_cast<float>(i), 1}));
  model.node("Relu", {"x"}, {"y"});
  model.output("y");
}
void constants_to_fold(ModelBuilder& model) {
  model.initializer(f32_tensor("c", {4}, {1, 2, 3, 4}));
  for (int i = 0; i < kNodes; ++i)
    model.node("Add", {i == 0 ? "c" : numbered("f", i - 1), "c"}, {numbered("f", i)});
  model.node("Add", {"x", numbered("f", kNodes - 1)}, {"y"});
  model.output("y");
}
void one_slice_at_the_end(ModelBuilder& model) {
  model.initializer(i64_tensor("zero", {1}, {0}));
  model.initializer(i64_tensor("one", {1}, {1}));
  for (int i = 0; i < kNodes / 2; ++i)
    model.node("Sin", {i == 0 ? "x" : numbered("s", i - 1)}, {numbered("s", i)});
  model.node("Slice", {numbered("s", kNodes / 2 - 1), "zero", "one", "zero"}, {"y"});
  model.output("y");
}
void calls(ModelBuilder& model) {
  *model.function("f", {"a"}, {"b"}).add_node() = onnx::make_node("Sin", {"a"}, {"b"});
  chain(model, kNodes / 2, [&](int, const std::string& in, const std::string& out) {
    model.node("f", {in}, {out}).set_domain("local");
  });
}
void backwards(ModelBuilder& model) {
  chain(model, kNodes, [&](int, const std::string& in, const std::string& out) {
    model.node("Sin", {in}, {out});
  });
  auto& nodes = *model.graph().mutable_node();
  std::reverse(nodes.pointer_begin(), nodes.pointer_end());
}

constexpr Kind kKinds[] = {{"elementwise", &elementwise},
                           {"sums_with_the_input", &sums_with_the_input},
                           {"sums_with_constants", &sums_with_constants},
                           {"products_with_shared_weights", &products_with_shared_weights},
                           {"products_with_own_weights", &products_with_own_weights},
                           {"views", &views},
                           {"transposes", &transposes},
                           {"norms", &norms},
                           {"sizes", &sizes},
                           {"diamonds", &diamonds},
                           {"many_users", &many_users},
                           {"wide_concat", &wide_concat},
                           {"wide_sum", &wide_sum},
                           {"one_value_many_times", &one_value_many_times},
                           {"all_are_outputs", &all_are_outputs},
                           {"unused_constants", &unused_constants},
                           {"constants_to_fold", &constants_to_fold},
                           {"one_slice_at_the_end", &one_slice_at_the_end},
                           {"calls", &calls},
                           {"backwards", &backwards}};

class LargeGraphs : public ::testing::TestWithParam<Kind> {
 protected:
  TemporaryFolder folder_;
};

TEST_P(LargeGraphs, BuildOpenAndRun) {
  ModelBuilder model(17);
  model.input("x", kFloat, {std::string("n"), int64_t{4}});
  GetParam().fill(model);
  write_file(folder_ / "m.onnx", model.bytes());
  compile(folder_ / "m.onnx", folder_ / "m.vn", {});
  const auto engine = Engine::open(folder_ / "m.vn");
  Session session(engine, {.threads = 1});
  const std::vector<float> x{0.5F, -1, 2, 0.25F, 1, 1, -3, 0};
  const int64_t shape[] = {2, 4};
  const Input input{"x", DType::kF32, shape, x.data()};
  const auto outputs = session.run({&input, 1});
  ASSERT_EQ(outputs.size(), static_cast<size_t>(model.graph().output_size()));
  for (const Output& output : outputs) ASSERT_GT(output.bytes, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, LargeGraphs, ::testing::ValuesIn(kKinds),
                         [](const auto& kind) { return print(kind.param); });

}  // namespace
}  // namespace vernier::test
