// Cases of the norms, EmbedNorm, L2Norm and MaskedMean: known answers (numpy), a large mean,
// optional outputs, NaN, errors, symbolic shapes.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN;
constexpr DType kF32 = DType::kF32, kF64 = DType::kF64;

Arg f64(Shape shape, std::vector<double> values) {
  return typed(kF64, std::move(shape), std::move(values));
}
OpCase bad(std::string name, OpKind op, std::string attrs, std::vector<Arg> in, std::string error) {
  return {std::move(name), op, std::move(attrs), std::move(in), {}, 0, std::move(error)};
}

// The second row has a mean of 1e6 and a variance of 2/3: E[x²] − E[x]² would lose it.
const Arg kRows = f64({2, 3}, {1, 2, 4, 1e6, 1e6 + 1, 1e6 + 2});
const Arg kScale = f64({3}, {1, 2, 0.5}), kBias = f64({3}, {0, 1, -1});
const Arg kNormalised = f64({2, 3}, {-1.0690415314502977, 0.46547923427485094, -0.3318490428435641,
                                     -1.2247356859083902, 1, -0.3876321570458049});

const OpCases kLayerNorm(
    "LayerNorm",
    {
        {"one_output", OpKind::kLayerNorm, "", {kRows, kScale, kBias}, {kNormalised}, 1e-14},
        {"statistics",
         OpKind::kLayerNorm,
         "",
         {kRows, kScale, kBias},
         {kNormalised, f64({2, 1}, {7.0 / 3, 1000001}),
          f64({2, 1}, {0.8017811485877232, 1.2247356859083902})},
         1e-14},
        {"only_the_inverse_deviation",
         OpKind::kLayerNorm,
         "",
         {kRows, kScale, kBias},
         {kNormalised, none(), f64({2, 1}, {0.8017811485877232, 1.2247356859083902})},
         1e-14},
        {"statistics_of_f32_are_f32",
         OpKind::kLayerNorm,
         "{epsilon=0}",
         {f32({1, 2}, {1, 3}), f32({2}, {1, 1})},
         {f32({1, 2}, {-1, 1}), f32({1, 1}, {2}), f32({1, 1}, {1})}},
        {"two_axes_without_bias",
         OpKind::kLayerNorm,
         "{axis=1, epsilon=0.001}",
         {f64({2, 2, 2}, {1, 2, 4, 8, 0, 0, 3, 5}), f64({2, 2}, {1, 2, 3, 4})},
         {f64({2, 2, 2},
              {-1.0256839396197441, -1.3054159231524016, 0.2797319835326575, 6.3405916267402365,
               -0.9427043024780816, -1.8854086049561631, 1.4140564537171223, 5.65622581486849})},
         1e-14},
        {"nan_stays_in_its_row",
         OpKind::kLayerNorm,
         "{epsilon=0}",
         {f32({2, 2}, {kNaN, 1, 1, 3}), f32({1}, {1})},
         {f32({2, 2}, {kNaN, kNaN, -1, 1})}},
        {"no_rows", OpKind::kLayerNorm, "", {f64({0, 3}, {}), kScale}, {f64({0, 3}, {})}},
        bad("axis", OpKind::kLayerNorm, "{axis=2}", {kRows, kScale}, "axis 2 is outside [-2, 2)"),
        bad("scale", OpKind::kLayerNorm, "", {kRows, f64({2}, {1, 1})},
            "input 1 of shape [2] does not broadcast to [2, 3]"),
        bad("integers", OpKind::kLayerNorm, "", {i64({2}, {1, 2}), kScale},
            "input 0 has type i64, expected a float type"),
    });

const OpCases kOtherNorms(
    "Norms",
    {
        {"rms",
         OpKind::kRMSNorm,
         "{epsilon=1e-06}",
         {f64({1, 3}, {1, 2, 4}), kScale},
         {f64({1, 3}, {0.3779644460117677, 1.5118577840470708, 0.7559288920235354})},
         1e-14},
        {"add_layer_norm",
         OpKind::kAddLayerNorm,
         "",
         {f64({1, 3}, {1, 2, 4}), f64({1, 3}, {0.5, -1, 2}), f64({3}, {1, 1, 2}),
          f64({3}, {0, 0, 1})},
         {f64({1, 3}, {-0.5929988668467753, -0.8153734419143159, 3.8167446175221817}),
          f64({1, 3}, {1.5, 1, 6})},
         1e-14},
        {"add_layer_norm_broadcasts_the_residual",
         OpKind::kAddLayerNorm,
         "{epsilon=0}",
         {f32({2, 2}, {1, 2, 3, 4}), f32({1, 2}, {0, 1}), f32({2}, {1, 1})},
         {f32({2, 2}, {-1, 1, -1, 1}), f32({2, 2}, {1, 3, 3, 5})}},
        {"batch",
         OpKind::kBatchNormalization,
         "",
         {ramp(kF64, {2, 2, 2}), f64({2}, {1, 3}), f64({2}, {0.5, -0.5}), f64({2}, {1, 2}),
          f64({2}, {4, 9})},
         {f64({2, 2, 2}, {6.249988281359364e-07, 0.5, -0.5, 0.4999994444449074, 1.9999981250035155,
                          2.4999975000046875, 3.4999977777796296, 4.499997222224537})},
         1e-14},
        {"group",
         OpKind::kGroupNormalization,
         "{num_groups=2}",
         {f64({1, 4, 2}, {1, 2, 4, 8, 0, 3, 5, 5}), f64({4}, {1, 2, 3, 4}), f64({4}, {0, 0, 1, 1})},
         {f64({1, 4, 2},
              {-1.025754575496193, -0.6527529116793956, 0.18650083190839875, 3.1705141424427787,
               -3.7646026408215194, 0.6334921045521907, 4.420740357512885, 4.420740357512885})},
         1e-14},
        {"instance",
         OpKind::kGroupNormalization,
         "{num_groups=0}",
         {f64({1, 4, 2}, {1, 2, 4, 8, 0, 3, 5, 5}), f64({4}, {1, 2, 3, 4}), f64({4}, {0, 0, 0, 0})},
         {f64({1, 4, 2}, {-0.9999800005999799, 0.9999800005999799, -1.9999975000046875,
                          1.9999975000046875, -2.9999933333555555, 2.9999933333555555, 0, 0})},
         1e-14},
        bad("group_count", OpKind::kGroupNormalization, "{num_groups=3}",
            {ramp(kF32, {1, 4, 2}), ramp(kF32, {4}), ramp(kF32, {4})},
            "4 channels are not divisible into 3 groups"),
        bad("batch_statistics", OpKind::kBatchNormalization, "",
            {ramp(kF32, {1, 2, 2}), ramp(kF32, {2}), ramp(kF32, {2}), ramp(kF32, {3}),
             ramp(kF32, {2})},
            "sizes 3 and 2 differ"),
        bad("residual", OpKind::kAddLayerNorm, "",
            {ramp(kF32, {2, 2}), ramp(kF32, {3, 2}), ramp(kF32, {2})},
            "shapes [2, 2] and [3, 2] do not broadcast"),
    });

const Arg kWords = f64({3, 3}, {1, 2, 4, 0, 1, 5, 2, 2, 0});
const Arg kTypes = f64({2, 3}, {0.5, 0, 0, 0, 0.25, 1});
const Arg kOnes = f64({3}, {1, 1, 2});

const OpCases kEmbedNorm(
    "EmbedNorm",
    {
        {"two_tables_and_ids_that_broadcast",
         OpKind::kEmbedNorm,
         "{tables=2}",
         {i64({1, 2}, {2, 0}), kWords, i64({1, 1}, {1}), kTypes, kOnes, f64({3}, {0, 0, 1})},
         {f64({1, 2, 3}, {0.46290211448947294, 0.9258042289789459, -1.7774126869368376,
                          -1.0473829270049744, -0.2992522648585641, 3.6932703837270773})},
         1e-13},
        {"negative_ids_count_from_the_end",
         OpKind::kEmbedNorm,
         "{tables=1, epsilon=0}",
         {i32({1}, {-1}), f32({2, 2}, {0, 0, 1, 3}), f32({2}, {1, 1})},
         {f32({1, 2}, {-1, 1})}},
        {"empty_ids",
         OpKind::kEmbedNorm,
         "{tables=1}",
         {i64({0}, {}), f32({2, 2}, {0, 0, 1, 3}), f32({2}, {1, 1})},
         {f32({0, 2}, {})}},
        bad("id_outside_the_table", OpKind::kEmbedNorm, "{tables=1}",
            {i64({2}, {0, 3}), kWords, kOnes},
            "index 3 at element 1 of the indices is outside [-3, 3)"),
        bad("missing_scale", OpKind::kEmbedNorm, "{tables=2}", {i64({1}, {0}), kWords, kOnes},
            "expected ids and table for each of 2 tables"),
        bad("float_ids", OpKind::kEmbedNorm, "{tables=1}", {f32({1}, {0}), kWords, kOnes},
            "ids in input 0 must be integers"),
    });

constexpr double kInf = HUGE_VAL;

const OpCases kL2Norm("L2Norm",
                      {
                          {"rows",
                           OpKind::kL2Norm,
                           "",
                           {f64({2, 1, 3}, {1, -2, 2, 0, 6, 8})},
                           {f64({2, 1, 3}, {1.0 / 3, -2.0 / 3, 2.0 / 3, 0, 0.6, 0.8})},
                           1e-15},
                          {"one_axis", OpKind::kL2Norm, "", {f32({1}, {-5})}, {f32({1}, {-1})}},
                          {"below_the_minimum",
                           OpKind::kL2Norm,
                           "{minimum=8}",
                           {f32({2, 2}, {3, -4, 6, 8})},
                           {f32({2, 2}, {0.375, -0.5, 0.6, 0.8})},
                           1e-7},
                          {"a_row_of_zeros",
                           OpKind::kL2Norm,
                           "",
                           {f32({3, 2}, {3, 4, 0, 0, -4, 3})},
                           {f32({3, 2}, {0.6, 0.8, 0, 0, -0.8, 0.6})},
                           1e-7},
                          {"nan_stays_in_its_row",
                           OpKind::kL2Norm,
                           "",
                           {f32({2, 2}, {kNaN, 1, 0, -2})},
                           {f32({2, 2}, {kNaN, kNaN, 0, -1})}},
                          {"infinity_leaves_nothing_else",
                           OpKind::kL2Norm,
                           "",
                           {f32({2, 3}, {1, -kInf, -2, 0, 2, 0})},
                           {f32({2, 3}, {0, kNaN, 0, 0, 1, 0})}},
                          {"squares_beyond_f32",
                           OpKind::kL2Norm,
                           "{minimum=1e-32}",
                           {f32({2, 2}, {3e30, 4e30, 3e-30, 4e-30})},
                           {f32({2, 2}, {0.6, 0.8, 0.6, 0.8})},
                           1e-7},
                          {"no_rows", OpKind::kL2Norm, "", {f32({0, 3}, {})}, {f32({0, 3}, {})}},
                          {"no_columns", OpKind::kL2Norm, "", {f32({2, 0}, {})}, {f32({2, 0}, {})}},
                          bad("scalar", OpKind::kL2Norm, "", {f32({}, {1})},
                              "input 0 has shape [], expected rank 1 or more"),
                          bad("integers", OpKind::kL2Norm, "", {i64({2}, {1, 2})},
                              "input 0 has type i64, expected a float type"),
                      });

const OpCases kMaskedMean("MaskedMean", {
                                            {"ragged",
                                             OpKind::kMaskedMean,
                                             "",
                                             {f32({2, 2, 3}, {1, 2, 3, 5, 6, 7, 1, 2, 3, 9, 9, 9}),
                                              i64({2, 2}, {1, 1, 1, 0})},
                                             {f32({2, 3}, {3, 4, 5, 1, 2, 3})}},
                                            {"nothing_kept_divides_by_the_minimum",
                                             OpKind::kMaskedMean,
                                             "{minimum=0.5}",
                                             {f32({1, 2, 1}, {4, 6}), f32({1, 2}, {0, 0})},
                                             {f32({1, 1}, {0})}},
                                            {"nan_under_a_zero_is_nan",
                                             OpKind::kMaskedMean,
                                             "",
                                             {f32({1, 2, 1}, {4, kNaN}), f32({1, 2}, {1, 0})},
                                             {f32({1, 1}, {kNaN})}},
                                            bad("mask_rank", OpKind::kMaskedMean, "",
                                                {ramp(kF32, {1, 2, 1}), f32({1, 2, 1}, {1, 1})},
                                                "input 1 has shape [1, 2, 1], expected rank 2"),
                                        });

const ShapeCases kShapes(
    "Norm",
    {
        {.name = "layer_norm_statistics",
         .op = OpKind::kLayerNorm,
         .in = {"f16 [batch, seq, 768]", "f16 [768]", "f16 [768]"},
         .out = {"f16 [batch, seq, 768]", "f32 [batch, seq, 1]", "f32 [batch, seq, 1]"}},
        {.name = "add_layer_norm",
         .op = OpKind::kAddLayerNorm,
         .in = {"f32 [batch, seq, 8]", "f32 [1, s2, 8]", "f32 [8]"},
         .out = {"f32 [batch, seq, 8]", "f32 [batch, seq, 8]"},
         .substitutions = {"s2 := seq"}},
        {.name = "embed_norm",
         .op = OpKind::kEmbedNorm,
         .attrs = "{tables=2}",
         .in = {"i64 [batch, seq]", "f32 [1000, 8]", "i64 [1, seq]", "f32 [512, 8]", "f32 [8]"},
         .out = {"f32 [batch, seq, 8]"}},
        {.name = "l2_norm",
         .op = OpKind::kL2Norm,
         .in = {"f16 [batch, seq, 768]"},
         .out = {"f16 [batch, seq, 768]"}},
        {.name = "masked_mean",
         .op = OpKind::kMaskedMean,
         .in = {"f32 [batch, seq, 8]", "i64 [batch, s2]"},
         .out = {"f32 [batch, 8]"},
         .substitutions = {"s2 := seq"}},
    });

}  // namespace
}  // namespace vernier::test
