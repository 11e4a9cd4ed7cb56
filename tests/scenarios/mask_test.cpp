// Field case 4: masks that a 16-bit type cannot hold. DeBERTa's and a cached GPT-2's masks, and every
// spelling of a padding mask with every usual fill, in every mode: no NaN where FP64 has none, and
// the verdict is pass, with padded rows and a row that is all padding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "scenarios/build.h"
#include "scenarios/mask_models.h"

namespace vernier::verify::field {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

Report verify_bytes(const std::string& bytes, const Policy& policy, const NamedTensors& inputs) {
  const std::shared_ptr<ir::Graph> model = onnx::import_bytes(bytes);
  Request request;
  request.inputs = {{"masked rows", inputs}};
  return verify_policy(*model, policy, request);
}

bool is_finite(const Report& report) {
  return std::ranges::all_of(report.outputs,
                             [](const OutputResult& o) { return o.worst.wrong_non_finite == 0; });
}

class Masks : public ::testing::TestWithParam<const char*> {
 protected:
  Policy policy() const { return {.mode = GetParam()}; }
  void expect_pass(const std::string& bytes, const NamedTensors& inputs) {
    const Report report = verify_bytes(bytes, policy(), inputs);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
    EXPECT_TRUE(is_finite(report)) << to_text(report);
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Masks, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Masks, OfDebertaHidePairsOfPositions) {
  for (const DebertaMask mask : {DebertaMask::kMaskedFill, DebertaMask::kXSoftmax}) {
    SCOPED_TRACE(mask == DebertaMask::kMaskedFill ? "masked_fill" : "XSoftmax");
    expect_pass(deberta_bytes(mask), deberta_inputs({7, 3, 1, 0}));
  }
}

TEST_P(Masks, OfACachedGpt2HideSomeKeysTwice) {
  expect_pass(cached_gpt2_bytes(), cached_gpt2_inputs({0, 1, 4, 7}));
}

TEST_P(Masks, InEverySpelling) {
  constexpr Spelling kSpellings[] = {Spelling::kWhereFill,     Spelling::kMaskedFill,
                                     Spelling::kAdditive,      Spelling::kAdditiveWhere,
                                     Spelling::kExpanded,      Spelling::kTwice,
                                     Spelling::kMaximum,       Spelling::kWithBias};
  for (const Spelling spelling : kSpellings) {
    for (const double fill : {kLowest, -3.3895e38, -1e30, -1e9, -65504.0, -1e4}) {
      for (const auto probabilities : {Probabilities::kInside, Probabilities::kShown}) {
        SCOPED_TRACE(std::string(kSpellingNames[static_cast<size_t>(spelling)]) + ", fill " +
                     std::to_string(fill) +
                     (probabilities == Probabilities::kShown ? ", probabilities shown" : ""));
        expect_pass(masked_attention_bytes(spelling, fill, probabilities),
                    masked_attention_inputs());
      }
    }
  }
}

}  // namespace
}  // namespace vernier::verify::field
