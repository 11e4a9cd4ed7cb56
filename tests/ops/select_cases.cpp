// Cases of the operators in src/rules/select.cpp. Row fields: case.h.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32, kU64 = DType::kU64, kBF16 = DType::kBF16;

// clang-format off
const OpCases kCompress("Compress", OpKind::kCompress, {
    {.name = "rows",          .attrs = "{axis=0, flat=false}",
     .in = {ramp(kF32, {3, 2}), boolean({3}, {0, 1, 1})},  .out = {f32({2, 2}, {2, 3, 4, 5})}},
    {.name = "negative_axis_and_a_short_condition", .attrs = "{axis=-1, flat=false}",
     .in = {ramp(kF32, {3, 3}), boolean({2}, {0, 1})},     .out = {f32({3, 1}, {1, 4, 7})}},
    {.name = "middle_axis",   .attrs = "{axis=1, flat=false}",
     .in = {ramp(kF32, {2, 3, 1}), boolean({3}, {1, 0, 1})}, .out = {f32({2, 2, 1}, {0, 2, 3, 5})}},
    {.name = "flat",
     .in = {ramp(kF32, {3, 2}), boolean({5}, {0, 1, 0, 0, 1})}, .out = {f32({2}, {1, 4})}},
    {.name = "integers_keep_their_values", .attrs = "{axis=0, flat=false}",
     .in = {i64({3}, {7, 8, 9}), boolean({3}, {1, 0, 1})}, .out = {i64({2}, {7, 9})}},
    {.name = "bf16",
     .in = {typed(kBF16, {2}, {1, 2}), boolean({2}, {0, 1})}, .out = {typed(kBF16, {1}, {2})}},
    {.name = "a_scalar",
     .in = {f32({}, {3}), boolean({1}, {1})},              .out = {f32({1}, {3})}},
    {.name = "nothing",       .attrs = "{axis=0, flat=false}",
     .in = {ramp(kF32, {2, 2}), boolean({2}, {0, 0})},     .out = {f32({0, 2}, {})}},
    {.name = "of_nothing",
     .in = {f32({0, 2}, {}), boolean({0}, {})},            .out = {f32({0}, {})}},
    {.name = "condition_too_long", .attrs = "{axis=0, flat=false}",
     .in = {ramp(kF32, {2}), boolean({3}, {1, 1, 0})},
     .error = "the condition has 3 elements, but there are 2 to select from"},
    {.name = "condition_of_numbers", .in = {ramp(kF32, {2}), i64({2}, {1, 1})},
     .error = "the condition is i64[2], expected a list of bool"},
    {.name = "condition_is_a_matrix", .in = {ramp(kF32, {2}), boolean({1, 2}, {1, 1})},
     .error = "the condition is bool[1, 2], expected a list of bool"},
    {.name = "axis_outside", .attrs = "{axis=1, flat=false}",
     .in = {ramp(kF32, {2}), boolean({2}, {1, 1})},        .error = "axis 1 is outside [-1, 1)"},
});

const ShapeCases kCompressShapes("Compress", OpKind::kCompress, {
    {.name = "rows_of_data", .attrs = "{axis=0, flat=false}",
     .in = {"f32 [seq, 4]", "bool [seq]"},                 .out = {"f32 [Compress.0 - 1, 4]"}},
    {.name = "all_elements", .in = {"f32 [2, 4]", "bool [3]"}, .out = {"f32 [Compress.0 - 1]"}},
    {.name = "known_condition",
     .in = {"i64 [2] = (batch, seq)", "bool [2] = (0, 1)"}, .out = {"i64 [1] = (seq)"}},
    {.name = "a_condition_that_may_be_long_is_guarded", .attrs = "{axis=0, flat=false}",
     .in = {"f32 [seq, 4]", "bool [length]"},              .out = {"f32 [Compress.0 - 1, 4]"},
     .guards = {"min(length, seq) == length"}},
});

const OpCases kUnique("Unique", OpKind::kUnique, {
    {.name = "sorted",
     .in = {f32({6}, {2, 1, 1, 3, 4, 3})},
     .out = {f32({4}, {1, 2, 3, 4}), i64({4}, {1, 0, 3, 4}), i64({6}, {1, 0, 0, 2, 3, 2}),
             i64({4}, {2, 1, 2, 1})}},
    {.name = "by_the_first_occurrence", .attrs = "{sorted=false}",
     .in = {f32({6}, {2, 1, 1, 3, 4, 3})},
     .out = {f32({4}, {2, 1, 3, 4}), i64({4}, {0, 1, 3, 4}), i64({6}, {0, 1, 1, 2, 3, 2}),
             i64({4}, {1, 2, 2, 1})}},
    {.name = "a_matrix_is_flattened",
     .in = {f32({2, 2}, {1, 3, 2, 3})},
     .out = {f32({3}, {1, 2, 3}), i64({3}, {0, 2, 1}), i64({4}, {0, 2, 1, 2}),
             i64({3}, {1, 1, 2})}},
    {.name = "rows",          .attrs = "{axis=0, flat=false}",
     .in = {f32({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 4})},
     .out = {f32({2, 3}, {1, 0, 0, 2, 3, 4}), i64({2}, {0, 2}), i64({3}, {0, 0, 1}),
             i64({2}, {2, 1})}},
    {.name = "columns",       .attrs = "{axis=-1, flat=false}",
     .in = {f32({3, 3}, {1, 0, 0, 1, 0, 0, 2, 3, 3})},
     .out = {f32({3, 2}, {0, 1, 0, 1, 3, 2}), i64({2}, {1, 0}), i64({3}, {1, 0, 0}),
             i64({2}, {2, 1})}},
    {.name = "middle_axis",   .attrs = "{axis=1, flat=false}",
     .in = {f32({2, 4, 2}, {1, 1, 0, 1, 2, 1, 0, 1, 1, 1, 0, 1, 2, 1, 0, 1})},
     .out = {f32({2, 3, 2}, {0, 1, 1, 1, 2, 1, 0, 1, 1, 1, 2, 1}), i64({3}, {1, 0, 2}),
             i64({4}, {1, 0, 2, 0}), i64({3}, {2, 1, 1})}},
    {.name = "counts_alone",  .in = {i64({3}, {5, -5, 5})},
     .out = {none(), none(), none(), i64({2}, {1, 2})}},
    {.name = "u64_is_unsigned",
     .in = {typed(kU64, {2}, {-1, 1})}, .out = {typed(kU64, {2}, {1, -1})}},
    {.name = "nan_is_one_value_above_all",
     .in = {f32({4}, {NAN, 1, NAN, INFINITY})},
     .out = {f32({3}, {1, INFINITY, NAN}), i64({3}, {1, 3, 0}), i64({4}, {2, 0, 2, 1})}},
    {.name = "bools", .in = {boolean({3}, {1, 0, 1})},     .out = {boolean({2}, {0, 1})}},
    {.name = "bf16", .in = {typed(kBF16, {3}, {2, 1, 2})}, .out = {typed(kBF16, {2}, {1, 2})}},
    {.name = "a_scalar", .in = {f32({}, {3})},             .out = {f32({1}, {3}), i64({1}, {0})}},
    {.name = "of_nothing", .in = {f32({0, 2}, {})},
     .out = {f32({0}, {}), i64({0}, {}), i64({0}, {}), i64({0}, {})}},
    {.name = "axis_outside", .attrs = "{axis=2, flat=false}", .in = {ramp(kF32, {2, 2})},
     .error = "axis 2 is outside [-2, 2)"},
});

const ShapeCases kUniqueShapes("Unique", OpKind::kUnique, {
    {.name = "of_all", .in = {"f32 [batch, 4]"},
     .out = {"f32 [Unique.0 - 1]", "i64 [Unique.0 - 1]", "i64 [4*batch]", "i64 [Unique.0 - 1]"}},
    {.name = "along_an_axis", .attrs = "{axis=0, flat=false}", .in = {"f32 [batch, 4]"},
     .out = {"f32 [Unique.0 - 1, 4]", "i64 [Unique.0 - 1]", "i64 [batch]", "i64 [Unique.0 - 1]"}},
});

// Three boxes that overlap by more than half, two that do, and one of its own.
const Arg kBoxes = f32({1, 6, 4}, {0, 0,    1, 1,    0, 0.1,  1, 1.1,  0, -0.1, 1, 0.9,
                                   0, 10,   1, 11,   0, 10.1, 1, 11.1, 0, 100,  1, 101});
const Arg kScores = f32({1, 1, 6}, {0.9, 0.75, 0.6, 0.95, 0.5, 0.3});
const OpCases kNonMaxSuppression("NonMaxSuppression", OpKind::kNonMaxSuppression, {
    {.name = "by_overlap",
     .in = {kBoxes, kScores, i64({1}, {3}), f32({1}, {0.5}), f32({1}, {0})},
     .out = {i64({3, 3}, {0, 0, 3, 0, 0, 0, 0, 0, 5})}},
    {.name = "by_overlap_and_score",
     .in = {kBoxes, kScores, i64({}, {3}), f32({}, {0.5}), f32({}, {0.4})},
     .out = {i64({2, 3}, {0, 0, 3, 0, 0, 0})}},
    {.name = "at_most_two",
     .in = {kBoxes, kScores, i64({1}, {2}), f32({1}, {0.5}), f32({1}, {0})},
     .out = {i64({2, 3}, {0, 0, 3, 0, 0, 0})}},
    {.name = "corners_in_any_order",
     .in = {f32({1, 2, 4}, {1, 1, 0, 0, 0, 0.1, 1, 1.1}), f32({1, 1, 2}, {0.9, 0.8}),
            i64({1}, {3}), f32({1}, {0.5})}, .out = {i64({1, 3}, {0, 0, 0})}},
    {.name = "centers",       .attrs = "{center_point_box=true}",
     .in = {f32({1, 3, 4}, {0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1, 0.5, 10.5, 1, 1}),
            f32({1, 1, 3}, {0.7, 0.9, 0.8}), i64({1}, {3}), f32({1}, {0.5}), f32({1}, {0})},
     .out = {i64({2, 3}, {0, 0, 1, 0, 0, 2})}},
    {.name = "an_overlap_of_the_threshold_stays",
     .in = {f32({1, 2, 4}, {0, 0, 1, 2, 0, 1, 1, 2}), f32({1, 1, 2}, {0.9, 0.8}), i64({1}, {3}),
            f32({1}, {0.5})}, .out = {i64({2, 3}, {0, 0, 0, 0, 0, 1})}},
    {.name = "without_a_threshold_any_overlap_suppresses",
     .in = {f32({1, 2, 4}, {0, 0, 1, 2, 0, 1, 1, 2}), f32({1, 1, 2}, {0.9, 0.8}), i64({1}, {3})},
     .out = {i64({1, 3}, {0, 0, 0})}},
    {.name = "equal_scores_by_position",
     .in = {f32({1, 2, 4}, {0, 0, 1, 1, 0, 0, 1, 1}), f32({1, 1, 2}, {0.9, 0.9}), i64({1}, {3}),
            f32({1}, {0.5})}, .out = {i64({1, 3}, {0, 0, 0})}},
    {.name = "images_and_classes",
     .in = {f32({2, 2, 4}, {0, 0, 1, 1, 0, 5, 1, 6, 0, 0, 1, 1, 0, 0, 1, 1}),
            f32({2, 2, 2}, {0.1, 0.2, 0.4, 0.3, 0.5, 0.6, 0.8, 0.7}), i64({1}, {2}),
            f32({1}, {0.5}), f32({1}, {0.15})},
     .out = {i64({5, 3}, {0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0})}},
    {.name = "boxes_without_area_overlap_nothing",
     .in = {f32({1, 2, 4}, {0, 0, 0, 1, 0, 0, 0, 1}), f32({1, 1, 2}, {0.9, 0.8}), i64({1}, {3})},
     .out = {i64({2, 3}, {0, 0, 0, 0, 0, 1})}},
    {.name = "nan_is_no_score_above_a_threshold_and_last_without_one",
     .in = {f32({1, 2, 4}, {0, 0, 1, 1, 0, 5, 1, 6}), f32({1, 1, 2}, {NAN, -1}), i64({1}, {3})},
     .out = {i64({2, 3}, {0, 0, 1, 0, 0, 0})}},
    {.name = "none_is_asked_for", .in = {kBoxes, kScores}, .out = {i64({0, 3}, {})}},
    {.name = "a_negative_number",
     .in = {kBoxes, kScores, i64({1}, {-1})}, .out = {i64({0, 3}, {})}},
    {.name = "no_boxes",
     .in = {f32({1, 0, 4}, {}), f32({1, 2, 0}, {}), i64({1}, {3})}, .out = {i64({0, 3}, {})}},
    {.name = "five_numbers_of_a_box", .in = {ramp(kF32, {1, 1, 5}), f32({1, 1, 1}, {1})},
     .error = "sizes 5 and 4 differ"},
    {.name = "scores_of_other_boxes", .in = {kBoxes, f32({1, 1, 2}, {1, 2})},
     .error = "sizes 6 and 2 differ"},
    {.name = "two_thresholds",
     .in = {kBoxes, kScores, i64({1}, {3}), f32({2}, {0.5, 0.5})},
     .error = "input 3 of shape [2] must be one number"},
    {.name = "a_number_that_is_no_integer", .in = {kBoxes, kScores, f32({1}, {3})},
     .error = "input 2 has type f32, expected i32 or i64"},
    {.name = "boxes_without_images", .in = {ramp(kF32, {6, 4}), kScores},
     .error = "input 0 has shape [6, 4], expected rank 3"},
});

const ShapeCases kNonMaxSuppressionShapes("NonMaxSuppression", OpKind::kNonMaxSuppression, {
    {.name = "of_data", .in = {"f32 [batch, 8400, 4]", "f32 [batch, 80, 8400]", "i64 [1]"},
     .out = {"i64 [NonMaxSuppression.0 - 1, 3]"}},
    {.name = "none", .in = {"f32 [batch, 8400, 4]", "f32 [b2, 80, 8400]"},
     .out = {"i64 [0, 3]"}, .substitutions = {"b2 := batch"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
