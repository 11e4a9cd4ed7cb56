// Names that are close to one that does not exist. Contract: include/vernier/nearest.h.
#include "core/names.h"

#include <gtest/gtest.h>

namespace vernier {
namespace {

const std::vector<std::string> kCommands{"build",  "run",     "verify", "localise", "bisect",
                                         "reduce", "inspect", "bench",  "demo",     "make-model"};

TEST(DidYouMean, TypingErrors) {
  EXPECT_EQ(did_you_mean("biuld", kCommands), "; did you mean 'build'?");
  EXPECT_EQ(did_you_mean("make_model", kCommands), "; did you mean 'make-model'?");
  EXPECT_EQ(did_you_mean("--toleranse", {"--tolerance", "--threads", "--length"}),
            "; did you mean '--tolerance'?");
  EXPECT_EQ(did_you_mean("softmax", {"Softmax", "Add"}), "; did you mean 'Softmax'?");
}

TEST(DidYouMean, Abbreviations) {
  EXPECT_EQ(did_you_mean("LayerNorm_0", {"Gather_0", "LayerNormalization_0", "Linear_0"}),
            "; did you mean 'LayerNormalization_0'?");
  EXPECT_EQ(did_you_mean("ids", {"input_ids", "attention_mask"}), "");
  EXPECT_EQ(did_you_mean("inputids", {"input_ids", "attention_mask"}),
            "; did you mean 'input_ids'?");
}

TEST(DidYouMean, AtMostThreeTheClosestFirst) {
  EXPECT_EQ(did_you_mean("MatMul_12", {"MatMul_1", "MatMul_2", "MatMul_13", "MatMul_112"}),
            "; did you mean 'MatMul_112', 'MatMul_1' or 'MatMul_2'?");
  EXPECT_EQ(did_you_mean("Softmx_*", {"Softmax_0", "Softmax_0", "Add_0"}),
            "; did you mean 'Softmax_0'?");
}

TEST(DidYouMean, NothingIsClose) {
  EXPECT_EQ(did_you_mean("frobnicate", kCommands), "");
  EXPECT_EQ(did_you_mean("", {"a"}), "");
  EXPECT_EQ(did_you_mean("a", {}), "");
}

TEST(NearestNames, AreShownWhereNoneIsClose) {
  EXPECT_EQ(nearest_names("biuld", kCommands), "; did you mean 'build'?");
  EXPECT_EQ(nearest_names("zzz", {"Add_0", "Mul_0"}), "; nearest: 'Add_0', 'Mul_0'");
  EXPECT_EQ(nearest_names("a", {}), "");
}

}  // namespace
}  // namespace vernier
