// Field case 3: the fused attention that does not match. Fused, unfused and FP64 agree within twice
// the noise of the mode's types, over head sizes, lengths, masks and large logits, in FP32, FP16
// and BF16. Contract: docs/verification_fitting.md "Field cases".
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "scenarios/build.h"

namespace vernier::verify::field {
namespace {

using onnx::attr_int;
using onnx::attr_ints;
using onnx::ModelBuilder;

enum class Mask : uint8_t {
  kNone,
  kPadding,      // Where(keep, scores, -3.4e38); the last row of the batch keeps nothing
  kAdditive,     // scores + mask, which is an input
  kCausal,       // scores + a constant triangle of -3.4e38
  kRelativeBias  // scores + a constant per head and distance
};
constexpr const char* kMaskNames[] = {"none", "padding", "additive", "causal", "relative bias"};

struct Size {
  int64_t heads = 2, head_dim = 64, queries = 7, keys = 7;
};

constexpr float kLowest = std::numeric_limits<float>::lowest();

std::vector<float> causal_triangle(const Size& size) {
  std::vector<float> values;
  for (int64_t q = 0; q < size.queries; ++q) {
    for (int64_t k = 0; k < size.keys; ++k)
      values.push_back(k <= q + size.keys - size.queries ? 0 : kLowest);
  }
  return values;
}
std::vector<float> bias_by_distance(const Size& size) {
  std::vector<float> values;
  for (int64_t h = 0; h < size.heads; ++h) {
    for (int64_t q = 0; q < size.queries; ++q) {
      for (int64_t k = 0; k < size.keys; ++k)
        values.push_back(-0.1F * static_cast<float>((h + 1) * std::abs(q - k)));
    }
  }
  return values;
}

std::string add_mask(ModelBuilder& model, const Size& size, Mask mask, const std::string& scores) {
  switch (mask) {
    case Mask::kNone:
      return scores;
    case Mask::kPadding:
      model.input("keep", onnx::kBool, {"b", int64_t{1}, int64_t{1}, size.keys});
      model.initializer(onnx::f32_tensor("lowest", {}, {kLowest}));
      model.node("Where", {"keep", scores, "lowest"}, {"masked"});
      return "masked";
    case Mask::kAdditive:
      model.input("mask", onnx::kFloat, {"b", int64_t{1}, size.queries, size.keys});
      break;
    case Mask::kCausal:
      model.initializer(
          onnx::f32_tensor("mask", {1, 1, size.queries, size.keys}, causal_triangle(size)));
      break;
    case Mask::kRelativeBias:
      model.initializer(onnx::f32_tensor("mask", {1, size.heads, size.queries, size.keys},
                                         bias_by_distance(size)));
      break;
  }
  model.node("Add", {scores, "mask"}, {"masked"});
  return "masked";
}

// What exporters write: [b, s, h·d] in, split into heads, scaled scores, masked softmax, context.
std::shared_ptr<ir::Graph> attention_model(const Size& size, Mask mask) {
  const int64_t width = size.heads * size.head_dim;
  ModelBuilder model(17);
  model.initializer(
      onnx::f32_tensor("scale", {}, {static_cast<float>(1 / std::sqrt(size.head_dim))}));
  const auto heads = [&](const std::string& x, int64_t length, std::vector<int64_t> perm) {
    model.input(x, onnx::kFloat, {"b", length, width});
    model.initializer(onnx::i64_tensor(x + "_sizes", {4}, {-1, length, size.heads, size.head_dim}));
    model.node("Reshape", {x, x + "_sizes"}, {x + "_split"});
    model.node("Transpose", {x + "_split"}, {x + "_heads"}, {attr_ints("perm", perm)});
  };
  heads("q", size.queries, {0, 2, 1, 3});
  heads("k", size.keys, {0, 2, 3, 1});
  heads("v", size.keys, {0, 2, 1, 3});
  model.node("MatMul", {"q_heads", "k_heads"}, {"raw"}).set_name("/qk");
  model.node("Mul", {"raw", "scale"}, {"scores"}).set_name("/scale");
  const std::string masked = add_mask(model, size, mask, "scores");
  model.node("Softmax", {masked}, {"probs"}, {attr_int("axis", -1)}).set_name("/softmax");
  model.node("MatMul", {"probs", "v_heads"}, {"context"}).set_name("/pv");
  model.node("Transpose", {"context"}, {"context_split"}, {attr_ints("perm", {0, 2, 1, 3})});
  model.initializer(onnx::i64_tensor("merged", {3}, {-1, size.queries, width}));
  model.node("Reshape", {"context_split", "merged"}, {"y"});
  model.output("y");
  return model.import();
}

std::map<std::string, Tensor> inputs_of(const Size& size, Mask mask, double largest_logit) {
  constexpr int64_t kBatch = 2;
  const int64_t width = size.heads * size.head_dim;
  // q·k/√d of normal q and k is normal; its largest value is about three.
  const double scale = largest_logit > 0 ? std::sqrt(largest_logit / 3) : 1;
  std::map<std::string, Tensor> inputs;
  inputs["q"] = normal_values({kBatch, size.queries, width}, 1, scale);
  inputs["k"] = normal_values({kBatch, size.keys, width}, 2, scale);
  inputs["v"] = normal_values({kBatch, size.keys, width}, 3);
  if (mask == Mask::kPadding) {
    std::vector<int64_t> keep(static_cast<size_t>(kBatch * size.keys), 0);  // row 1: nothing
    for (int64_t k = 0; k < (size.keys + 1) / 2; ++k) keep[static_cast<size_t>(k)] = 1;
    inputs["keep"] =
        Tensor::from(DType::kBool, {kBatch, 1, 1, size.keys}, std::span<const int64_t>(keep));
  }
  if (mask == Mask::kAdditive)
    inputs["mask"] = normal_values({kBatch, 1, size.queries, size.keys}, 4, 2);
  return inputs;
}

bool has_kernel(const plan::Plan& plan, const std::string& part) {
  return std::ranges::any_of(plan.steps, [&](const plan::Step& step) {
    return step.kernel.find(part) != std::string::npos;
  });
}

// Both plans of one model are within twice what their types are expected to do.
void check(const std::string& mode, const Size& size, Mask mask, double largest_logit = 0) {
  SCOPED_TRACE(mode + ", mask " + kMaskNames[static_cast<size_t>(mask)] + ", heads " +
               std::to_string(size.heads) + " x " + std::to_string(size.head_dim) + ", " +
               std::to_string(size.queries) + " queries, " + std::to_string(size.keys) + " keys");
  const std::shared_ptr<ir::Graph> model = attention_model(size, mask);
  const std::map<std::string, Tensor> inputs = inputs_of(size, mask, largest_logit);
  for (const bool fused : {true, false}) {
    SCOPED_TRACE(fused ? "fused" : "--fuse attention=off");
    Policy policy{.mode = mode};
    if (!fused) policy.passes_off = {"attention"};
    const plan::Plan plan = plan_of(*model, policy);
    EXPECT_EQ(has_kernel(plan, test::device_under_test() + ".attention."), fused);
    const Errors errors = errors_of(*model, plan, inputs);
    EXPECT_TRUE(errors.finite_where_r_is);
    EXPECT_TRUE(errors.nan_where_r_is);
    EXPECT_LE(errors.engine, 2 * errors.ideal + 1e-7 * errors.reference);
    EXPECT_GT(errors.reference, 0);
    std::map<std::string, const plan::LedgerRow*> rows;
    for (const plan::LedgerRow& row : plan.ledger) rows[row.node] = &row;
    for (const char* node : {"/qk", "/softmax", "/pv"}) {
      ASSERT_TRUE(rows.contains(node)) << node;
      EXPECT_TRUE(represents(rows[node]->got_accumulate, DType::kF32)) << node;
    }
  }
}

class Attention : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Modes, Attention, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

constexpr Mask kMasks[] = {Mask::kNone, Mask::kPadding, Mask::kAdditive, Mask::kCausal,
                           Mask::kRelativeBias};

TEST_P(Attention, HeadSizesAndMasksAgreeFusedAndUnfused) {
  for (int64_t head_dim : {32, 64, 80, 128}) {
    for (Mask mask : kMasks)
      check(GetParam(), {.heads = 2, .head_dim = head_dim, .queries = 33, .keys = 33}, mask);
  }
}

TEST_P(Attention, LengthsAgreeFusedAndUnfused) {
  for (int64_t length : {1, 2, 7, 64, 129, 512}) {
    for (Mask mask : {Mask::kNone, Mask::kPadding, Mask::kCausal})
      check(GetParam(), {.heads = 1, .head_dim = 64, .queries = length, .keys = length}, mask);
  }
}

TEST_P(Attention, LongSequencesAgreeFusedAndUnfused) {
  check(GetParam(), {.heads = 2, .head_dim = 64, .queries = 8, .keys = 2048}, Mask::kPadding);
  check(GetParam(), {.heads = 1, .head_dim = 64, .queries = 4, .keys = 8192}, Mask::kNone);
  check(GetParam(), {.heads = 1, .head_dim = 32, .queries = 2, .keys = 65536}, Mask::kPadding);
}

TEST_P(Attention, LogitsOfTenThousandAgreeFusedAndUnfused) {
  for (Mask mask : kMasks)
    check(GetParam(), {.heads = 2, .head_dim = 64, .queries = 33, .keys = 33}, mask, 1e4);
}

// scores + (-3.4e38) is -3.4e38: the softmax of a row without keys is 1/n, the answer the mean of
// v.
TEST_P(Attention, ARowWithoutKeysIsTheMeanOfTheValues) {
  const Size size{.heads = 2, .head_dim = 32, .queries = 5, .keys = 12};
  const auto model = attention_model(size, Mask::kPadding);
  const auto inputs = inputs_of(size, Mask::kPadding, 0);
  const Errors errors = errors_of(*model, plan_of(*model, {.mode = GetParam()}), inputs);
  const EvalTensor& y = errors.answers.at("y");
  const int64_t width = size.heads * size.head_dim;
  for (int64_t c = 0; c < width; ++c) {
    double mean = 0;
    for (int64_t k = 0; k < size.keys; ++k)
      mean += inputs.at("v").float_at((size.keys + k) * width + c) / static_cast<double>(size.keys);
    EXPECT_NEAR(y.f[static_cast<size_t>(size.queries * width + c)], mean, 0.01) << c;
  }
}

TEST(DeformableAttention, VerifiesInSixteenBits) {
  const auto model = model_named("deformable_attention_ts17");
  for (const char* mode : {"fp16", "bf16"}) {
    const Report report = verify_policy(*model, {.mode = mode}, {});
    EXPECT_EQ(report.verdict, "pass") << mode << "\n" << to_text(report);
  }
}

}  // namespace
}  // namespace vernier::verify::field
