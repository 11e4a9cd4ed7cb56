// Cases of the norms, EmbedNorm, L2Norm, MaskedMean, TokenIndex and ZeroPadding: known answers
// (numpy), a large mean, optional outputs, NaN, errors, symbolic shapes.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN;
constexpr DType kF32 = DType::kF32, kF64 = DType::kF64;

Arg f64(Shape shape, std::vector<double> values) {
  return typed(kF64, std::move(shape), std::move(values));
}
// The second row has a mean of 1e6 and a variance of 2/3: E[x²] − E[x]² would lose it.
const Arg kRows = f64({2, 3}, {1, 2, 4, 1e6, 1e6 + 1, 1e6 + 2});
const Arg kScale = f64({3}, {1, 2, 0.5}), kBias = f64({3}, {0, 1, -1});
const Arg kNormalised = f64({2, 3}, {-1.0690415314502977, 0.46547923427485094, -0.3318490428435641,
                                     -1.2247356859083902, 1, -0.3876321570458049});

// clang-format off
const OpCases kLayerNorm("LayerNorm", OpKind::kLayerNorm, {
    {.name = "one_output", .in = {kRows, kScale, kBias}, .out = {kNormalised}, .tolerance = 1e-14},
    {.name = "statistics", .in = {kRows, kScale, kBias},
     .out = {kNormalised, f64({2, 1}, {7.0 / 3, 1000001}),
             f64({2, 1}, {0.8017811485877232, 1.2247356859083902})}, .tolerance = 1e-14},
    {.name = "only_the_inverse_deviation", .in = {kRows, kScale, kBias},
     .out = {kNormalised, none(), f64({2, 1}, {0.8017811485877232, 1.2247356859083902})},
     .tolerance = 1e-14},
    {.name = "statistics_of_f32_are_f32", .attrs = "{epsilon=0}",
     .in = {f32({1, 2}, {1, 3}), f32({2}, {1, 1})},
     .out = {f32({1, 2}, {-1, 1}), f32({1, 1}, {2}), f32({1, 1}, {1})}},
    {.name = "two_axes_without_bias", .attrs = "{axis=1, epsilon=0.001}",
     .in = {f64({2, 2, 2}, {1, 2, 4, 8, 0, 0, 3, 5}), f64({2, 2}, {1, 2, 3, 4})},
     .out = {f64({2, 2, 2}, {-1.0256839396197441, -1.3054159231524016, 0.2797319835326575,
             6.3405916267402365, -0.9427043024780816, -1.8854086049561631, 1.4140564537171223,
             5.65622581486849})}, .tolerance = 1e-14},
    {.name = "nan_stays_in_its_row", .attrs = "{epsilon=0}",
     .in = {f32({2, 2}, {kNaN, 1, 1, 3}), f32({1}, {1})},
     .out = {f32({2, 2}, {kNaN, kNaN, -1, 1})}},
    {.name = "no_rows",    .in = {f64({0, 3}, {}), kScale}, .out = {f64({0, 3}, {})}},
    {.name = "axis", .attrs = "{axis=2}",
     .in = {kRows, kScale},           .error = "axis 2 is outside [-2, 2)"},
    {.name = "scale",
     .in = {kRows, f64({2}, {1, 1})}, .error = "input 1 of shape [2] does not broadcast to [2, 3]"},
    {.name = "integers",
     .in = {i64({2}, {1, 2}), kScale}, .error = "input 0 has type i64, expected a float type"},
});

const OpCases kOtherNorms("Norms", {
    {.name = "rms", .op = OpKind::kRMSNorm, .attrs = "{epsilon=1e-06}",
     .in = {f64({1, 3}, {1, 2, 4}), kScale},
     .out = {f64({1, 3}, {0.3779644460117677, 1.5118577840470708, 0.7559288920235354})},
     .tolerance = 1e-14},
    {.name = "add_layer_norm", .op = OpKind::kAddLayerNorm,
     .in = {f64({1, 3}, {1, 2, 4}), f64({1, 3}, {0.5, -1, 2}), f64({3}, {1, 1, 2}),
            f64({3}, {0, 0, 1})},
     .out = {f64({1, 3}, {-0.5929988668467753, -0.8153734419143159, 3.8167446175221817}),
             f64({1, 3}, {1.5, 1, 6})}, .tolerance = 1e-14},
    {.name = "add_layer_norm_broadcasts_the_residual", .op = OpKind::kAddLayerNorm,
     .attrs = "{epsilon=0}",
     .in = {f32({2, 2}, {1, 2, 3, 4}), f32({1, 2}, {0, 1}), f32({2}, {1, 1})},
     .out = {f32({2, 2}, {-1, 1, -1, 1}), f32({2, 2}, {1, 3, 3, 5})}},
    {.name = "batch", .op = OpKind::kBatchNormalization,
     .in = {ramp(kF64, {2, 2, 2}), f64({2}, {1, 3}), f64({2}, {0.5, -0.5}), f64({2}, {1, 2}),
            f64({2}, {4, 9})},
     .out = {f64({2, 2, 2}, {6.249988281359364e-07, 0.5, -0.5, 0.4999994444449074,
             1.9999981250035155, 2.4999975000046875, 3.4999977777796296, 4.499997222224537})},
     .tolerance = 1e-14},
    {.name = "group", .op = OpKind::kGroupNormalization, .attrs = "{num_groups=2}",
     .in = {f64({1, 4, 2}, {1, 2, 4, 8, 0, 3, 5, 5}), f64({4}, {1, 2, 3, 4}),
            f64({4}, {0, 0, 1, 1})},
     .out = {f64({1, 4, 2}, {-1.025754575496193, -0.6527529116793956, 0.18650083190839875,
             3.1705141424427787, -3.7646026408215194, 0.6334921045521907, 4.420740357512885,
             4.420740357512885})}, .tolerance = 1e-14},
    {.name = "instance", .op = OpKind::kGroupNormalization, .attrs = "{num_groups=0}",
     .in = {f64({1, 4, 2}, {1, 2, 4, 8, 0, 3, 5, 5}), f64({4}, {1, 2, 3, 4}),
            f64({4}, {0, 0, 0, 0})},
     .out = {f64({1, 4, 2}, {-0.9999800005999799, 0.9999800005999799, -1.9999975000046875,
             1.9999975000046875, -2.9999933333555555, 2.9999933333555555, 0, 0})},
     .tolerance = 1e-14},
    {.name = "group_count", .op = OpKind::kGroupNormalization, .attrs = "{num_groups=3}",
     .in = {ramp(kF32, {1, 4, 2}), ramp(kF32, {4}), ramp(kF32, {4})},
     .error = "4 channels are not divisible into 3 groups"},
    {.name = "batch_statistics", .op = OpKind::kBatchNormalization,
     .in = {ramp(kF32, {1, 2, 2}), ramp(kF32, {2}), ramp(kF32, {2}), ramp(kF32, {3}),
            ramp(kF32, {2})}, .error = "sizes 3 and 2 differ"},
    {.name = "residual", .op = OpKind::kAddLayerNorm,
     .in = {ramp(kF32, {2, 2}), ramp(kF32, {3, 2}), ramp(kF32, {2})},
     .error = "shapes [2, 2] and [3, 2] do not broadcast"},
});
// clang-format on

const Arg kWords = f64({3, 3}, {1, 2, 4, 0, 1, 5, 2, 2, 0});
const Arg kTypes = f64({2, 3}, {0.5, 0, 0, 0, 0.25, 1});
const Arg kOnes = f64({3}, {1, 1, 2});

// clang-format off
const OpCases kEmbedNorm("EmbedNorm", OpKind::kEmbedNorm, {
    {.name = "two_tables_and_ids_that_broadcast", .attrs = "{tables=2}",
     .in = {i64({1, 2}, {2, 0}), kWords, i64({1, 1}, {1}), kTypes, kOnes, f64({3}, {0, 0, 1})},
     .out = {f64({1, 2, 3}, {0.46290211448947294, 0.9258042289789459, -1.7774126869368376,
             -1.0473829270049744, -0.2992522648585641, 3.6932703837270773})}, .tolerance = 1e-13},
    {.name = "negative_ids_count_from_the_end", .attrs = "{tables=1, epsilon=0}",
     .in = {i32({1}, {-1}), f32({2, 2}, {0, 0, 1, 3}), f32({2}, {1, 1})},
     .out = {f32({1, 2}, {-1, 1})}},
    {.name = "empty_ids",     .attrs = "{tables=1}",
     .in = {i64({0}, {}), f32({2, 2}, {0, 0, 1, 3}), f32({2}, {1, 1})}, .out = {f32({0, 2}, {})}},
    {.name = "id_outside_the_table", .attrs = "{tables=1}", .in = {i64({2}, {0, 3}), kWords, kOnes},
     .error = "index 3 at element 1 of the indices is outside [-3, 3)"},
    {.name = "missing_scale", .attrs = "{tables=2}",
     .in = {i64({1}, {0}), kWords, kOnes}, .error = "expected ids and table for each of 2 tables"},
    {.name = "float_ids",     .attrs = "{tables=1}",
     .in = {f32({1}, {0}), kWords, kOnes}, .error = "ids in input 0 must be integers"},
});
// clang-format on

constexpr double kInf = HUGE_VAL;

// clang-format off
const OpCases kL2Norm("L2Norm", OpKind::kL2Norm, {
    {.name = "rows", .in = {f64({2, 1, 3}, {1, -2, 2, 0, 6, 8})},
     .out = {f64({2, 1, 3}, {1.0 / 3, -2.0 / 3, 2.0 / 3, 0, 0.6, 0.8})}, .tolerance = 1e-15},
    {.name = "one_axis",   .in = {f32({1}, {-5})},  .out = {f32({1}, {-1})}},
    {.name = "below_the_minimum", .attrs = "{minimum=8}", .in = {f32({2, 2}, {3, -4, 6, 8})},
     .out = {f32({2, 2}, {0.375, -0.5, 0.6, 0.8})}, .tolerance = 1e-7},
    {.name = "a_row_of_zeros", .in = {f32({3, 2}, {3, 4, 0, 0, -4, 3})},
     .out = {f32({3, 2}, {0.6, 0.8, 0, 0, -0.8, 0.6})}, .tolerance = 1e-7},
    {.name = "nan_stays_in_its_row",
     .in = {f32({2, 2}, {kNaN, 1, 0, -2})}, .out = {f32({2, 2}, {kNaN, kNaN, 0, -1})}},
    {.name = "infinity_leaves_nothing_else",
     .in = {f32({2, 3}, {1, -kInf, -2, 0, 2, 0})}, .out = {f32({2, 3}, {0, kNaN, 0, 0, 1, 0})}},
    {.name = "squares_beyond_f32", .attrs = "{minimum=1e-32}",
     .in = {f32({2, 2}, {3e30, 4e30, 3e-30, 4e-30})}, .out = {f32({2, 2}, {0.6, 0.8, 0.6, 0.8})},
     .tolerance = 1e-7},
    {.name = "no_rows",    .in = {f32({0, 3}, {})}, .out = {f32({0, 3}, {})}},
    {.name = "no_columns", .in = {f32({2, 0}, {})}, .out = {f32({2, 0}, {})}},
    {.name = "scalar",
     .in = {f32({}, {1})}, .error = "input 0 has shape [], expected rank 1 or more"},
    {.name = "integers",
     .in = {i64({2}, {1, 2})}, .error = "input 0 has type i64, expected a float type"},
});

const OpCases kMaskedMean("MaskedMean", OpKind::kMaskedMean, {
    {.name = "ragged",
     .in = {f32({2, 2, 3}, {1, 2, 3, 5, 6, 7, 1, 2, 3, 9, 9, 9}), i64({2, 2}, {1, 1, 1, 0})},
     .out = {f32({2, 3}, {3, 4, 5, 1, 2, 3})}},
    {.name = "nothing_kept_divides_by_the_minimum", .attrs = "{minimum=0.5}",
     .in = {f32({1, 2, 1}, {4, 6}), f32({1, 2}, {0, 0})},    .out = {f32({1, 1}, {0})}},
    {.name = "nan_under_a_zero_is_nan",
     .in = {f32({1, 2, 1}, {4, kNaN}), f32({1, 2}, {1, 0})}, .out = {f32({1, 1}, {kNaN})}},
    {.name = "mask_rank", .in = {ramp(kF32, {1, 2, 1}), f32({1, 2, 1}, {1, 1})},
     .error = "input 1 has shape [1, 2, 1], expected rank 2"},
});

const OpCases kZeroPadding("ZeroPadding", OpKind::kZeroPadding, {
    // Padding behind, none, in front, on both sides, a hole, nothing but padding: the last two keep
    // all places.
    {.name = "rows_of_every_kind",
     .in = {ramp(kF32, {6, 3}),
            i64({6, 3}, {1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0})},
     .out = {f32({6, 3}, {0, 1, 0, 3, 4, 5, 0, 7, 8, 0, 10, 0, 12, 13, 14, 15, 16, 17})}},
    {.name = "nan_and_inf_at_padding", .attrs = "{padding=1}",
     .in = {f32({1, 3, 2}, {1, kNaN, 3, 4, kNaN, 6}), i32({1, 3}, {0, 1, 1})},
     .out = {f32({1, 3, 2}, {1, kNaN, 0, 0, 0, 0})}},
    {.name = "packed", .in = {f32({1, 4, 1}, {5, 6, 7, 8}), boolean({2, 3}, {0, 1, 0, 1, 1, 1}),
                              i32({2, 3}, {0, 0, 0, 1, 2, 3})},
     .out = {f32({2, 3, 1}, {0, 5, 0, 6, 7, 8})}},
    // A row that has padding in front was packed whole.
    {.name = "packed_with_its_padding",
     .in = {f32({1, 3, 1}, {kNaN, 6, 7}), boolean({1, 3}, {0, 1, 1}), i32({1, 3}, {0, 1, 2})},
     .out = {f32({1, 3, 1}, {0, 6, 7})}},
    {.name = "places_beyond_the_array",
     .in = {f32({1, 2, 1}, {5, 6}), boolean({3, 2}, {1, 1, 1, 1, 1, 1}),
            i32({3, 2}, {-1, 0, 1, 2, 9, 3})},
     .out = {f32({3, 2, 1}, {0, 0, 6, 0, 0, 0})}},
    {.name = "a_mask_of_other_places", .in = {ramp(kF32, {2, 3, 1}), i64({2, 2}, {1, 1, 1, 1})},
     .error = "3"},
    {.name = "places_of_other_rows",
     .in = {f32({1, 2, 1}, {5, 6}), i64({2, 2}, {1, 1, 1, 1}), i32({1, 2}, {0, 1})}, .error = "2"},
    {.name = "places_of_another_rank",
     .in = {f32({1, 2, 1}, {5, 6}), i64({1, 2}, {1, 1}), i32({2}, {0, 1})},
     .error = "expected rank 2"},
    {.name = "integers", .in = {i64({1, 1}, {1}), i64({1, 1}, {1})}, .error = "input 0"},
    {.name = "rank", .in = {f32({1}, {1}), i64({1, 1}, {1})}, .error = "expected rank 2 or more"},
});

const OpCases kTokenIndex("TokenIndex", OpKind::kTokenIndex, {
    {.name = "tokens_beyond_the_places", .attrs = "{tokens=(4)}",
     .in = {i64({3, 3}, {1, 1, 0, 1, 1, 1, 1, 0, 0})},
     .out = {i32({4}, {0, 1, 3, 4}), i32({4}, {0, 1, 0, 1}), i32({4}, {0, 2, 4, 4}),
             i32({3, 3}, {0, 1, 0, 2, 3, 2, 4, 4, 4}), i32({4}, {0, 1, 2, 3}),
             boolean({4}, {1, 1, 1, 1})}},
    // Padding behind, none, a hole, in front, nothing but padding: the last three keep all places.
    {.name = "one_place_behind_the_last_token", .attrs = "{tokens=(15)}",
     .in = {i64({5, 3}, {1, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0})},
     .out = {i32({15}, {0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0}),
             i32({15}, {0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0}),
             i32({6}, {0, 2, 5, 8, 11, 14}),
             i32({5, 3}, {0, 1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}),
             i32({6}, {0, 1, 2, 3, 4, 5}),
             boolean({15}, {1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0})}},
    {.name = "padding_in_front_is_left_out", .attrs = "{front=true, tokens=(14)}",
     .in = {i64({5, 3}, {1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 0, 0})},
     .out = {i32({14}, {0, 1, 4, 6, 7, 8, 10, 11, 12, 13, 14, 0, 0, 0}),
             i32({14}, {0, 1, 1, 0, 1, 2, 1, 2, 0, 1, 2, 0, 0, 0}), i32({6}, {0, 2, 3, 6, 8, 11}),
             i32({5, 3}, {0, 1, 0, 2, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10}),
             i32({6}, {0, 1, 2, 3, 4, 5}),
             boolean({14}, {1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0})}},
    // A row that has padding behind keeps all places.
    {.name = "and_only_there", .attrs = "{front=true, behind=false, tokens=(8)}",
     .in = {i64({3, 3}, {1, 1, 0, 0, 0, 1, 0, 1, 0})},
     .out = {i32({8}, {0, 1, 2, 5, 6, 7, 8, 0}), i32({8}, {0, 1, 2, 2, 0, 1, 2, 0}),
             i32({4}, {0, 3, 4, 7}), i32({3, 3}, {0, 1, 2, 3, 3, 3, 4, 5, 6}),
             i32({4}, {0, 1, 2, 3}), boolean({8}, {1, 1, 0, 1, 0, 1, 0, 0})}},
    {.name = "ids_of_which_one_is_padding", .attrs = "{tokens=(3), padding=1}",
     .in = {i32({2, 3}, {0, 5, 1, 7, 1, 1})},
     .out = {i32({3}, {0, 1, 3}), i32({3}, {0, 1, 0}), i32({3}, {0, 2, 3}),
             i32({2, 3}, {0, 1, 0, 2, 2, 2}), i32({3}, {0, 1, 2})}},
    {.name = "nan_is_a_token", .attrs = "{tokens=(2)}", .in = {f32({1, 3}, {1, kNaN, 0})},
     .out = {i32({2}, {0, 1}), none(), i32({2}, {0, 2})}},
    {.name = "no_rows", .attrs = "{tokens=(0)}", .in = {i64({0, 3}, {})},
     .out = {i32({0}, {}), i32({0}, {}), i32({1}, {0}), i32({0, 3}, {}), i32({1}, {0})}},
    {.name = "a_mask_of_one_row_per_list", .attrs = "{tokens=(2)}", .in = {i64({3}, {1, 1, 0})},
     .error = "input 0 has shape [3], expected rank 2"},
    {.name = "a_mask_of_f16", .attrs = "{tokens=(2)}", .in = {typed(DType::kF16, {1, 2}, {1, 0})},
     .error = "a mask of f16 cannot be counted"},
    {.name = "two_sizes", .attrs = "{tokens=(2, 3)}", .in = {i64({1, 2}, {1, 0})},
     .error = "the list of tokens has shape [2, 3], expected one size"},
});

const ShapeCases kShapes("Norm", {
    {.name = "layer_norm_statistics", .op = OpKind::kLayerNorm,
     .in = {"f16 [batch, seq, 768]", "f16 [768]", "f16 [768]"},
     .out = {"f16 [batch, seq, 768]", "f32 [batch, seq, 1]", "f32 [batch, seq, 1]"}},
    {.name = "add_layer_norm", .op = OpKind::kAddLayerNorm,
     .in = {"f32 [batch, seq, 8]", "f32 [1, s2, 8]", "f32 [8]"},
     .out = {"f32 [batch, seq, 8]", "f32 [batch, seq, 8]"}, .substitutions = {"s2 := seq"}},
    {.name = "embed_norm", .op = OpKind::kEmbedNorm, .attrs = "{tables=2}",
     .in = {"i64 [batch, seq]", "f32 [1000, 8]", "i64 [1, seq]", "f32 [512, 8]", "f32 [8]"},
     .out = {"f32 [batch, seq, 8]"}},
    {.name = "l2_norm", .op = OpKind::kL2Norm,
     .in = {"f16 [batch, seq, 768]"}, .out = {"f16 [batch, seq, 768]"}},
    {.name = "token_index", .op = OpKind::kTokenIndex, .attrs = "{tokens=(tokens)}",
     .in = {"i64 [batch, seq]"},
     .out = {"i32 [tokens]", "i32 [tokens]", "i32 [batch + 1]", "i32 [batch, seq]",
             "i32 [batch + 1]", "bool [tokens]"}},
    {.name = "masked_mean", .op = OpKind::kMaskedMean,
     .in = {"f32 [batch, seq, 8]", "i64 [batch, s2]"}, .out = {"f32 [batch, 8]"},
     .substitutions = {"s2 := seq"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
