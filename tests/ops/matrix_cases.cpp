// Cases of MatMul, Gemm, Linear and Einsum: numpy's semantics, transposes, epilogues, empty inner
// sizes, NaN, errors, symbolic shapes. Expected numbers are numpy's.
#include <cmath>

#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr double kNaN = NAN, kInf = HUGE_VAL;
constexpr DType kF32 = DType::kF32, kF64 = DType::kF64;

std::string equation(const std::string& text) { return "{equation=\"" + text + "\"}"; }

// clang-format off
const OpCases kMatMul("MatMul", OpKind::kMatMul, {
    {.name = "matrices", .in = {ramp(kF32, {2, 3}), ramp(kF32, {3, 5}, -4)},
     .out = {f32({2, 5}, {13, 16, 19, 22, 25, 22, 34, 46, 58, 70})}},
    {.name = "batches_broadcast", .in = {ramp(kF32, {2, 1, 2, 3}, -5), ramp(kF32, {3, 3, 2}, -7)},
     .out = {f32({2, 3, 2, 2}, {64, 52, 19, 16, -8, -20, 1, -2, -80, -92, -17, -20, -26, -20, -71,
             -56, 10, 16, 19, 34, 46, 52, 109, 124})}},
    {.name = "vector_by_matrices",
     .in = {ramp(kF32, {3}), ramp(kF32, {2, 3, 2}, -3)}, .out = {f32({2, 2}, {1, 4, 19, 22})}},
    {.name = "matrix_by_vector",
     .in = {ramp(kF32, {2, 3}, -3), ramp(kF32, {3})}, .out = {f32({2}, {-4, 5})}},
    {.name = "vector_by_vector", .in = {ramp(kF32, {3}), ramp(kF32, {3})}, .out = {f32({}, {5})}},
    {.name = "empty_inner_size_gives_zeros",
     .in = {f32({2, 0}, {}), f32({0, 2}, {})}, .out = {f32({2, 2}, {0, 0, 0, 0})}},
    {.name = "empty_rows", .in = {f32({0, 3}, {}), ramp(kF32, {3, 2})}, .out = {f32({0, 2}, {})}},
    {.name = "nan_and_inf_times_zero",
     .in = {f32({2, 2}, {0, 1, 1, 0}), f32({2, 2}, {kInf, 1, 2, kNaN})},
     .out = {f32({2, 2}, {kNaN, kNaN, kInf, kNaN})}},
    {.name = "i32_wraps",
     .in = {i32({1, 2}, {65536, 3}), i32({2, 1}, {65536, 5})}, .out = {i32({1, 1}, {15})}},
    {.name = "inner_sizes_differ", .in = {ramp(kF32, {2, 3}), ramp(kF32, {2, 3})},
     .error = "inner sizes differ: input 0 has shape [2, 3], input 1 has shape [2, 3]"},
    {.name = "scalar",
     .in = {f32({}, {1}), ramp(kF32, {2, 3})}, .error = "inputs must have at least one axis"},
    {.name = "two_types",
     .in = {ramp(kF32, {2, 2}), ramp(kF64, {2, 2})}, .error = "input 1 has type f64, expected f32"},
});

const OpCases kDet("Det", OpKind::kDet, {
    {.name = "two_by_two", .in = {f32({2, 2}, {1, 2, 3, 4})}, .out = {f32({}, {-2})},
     .tolerance = 1e-14},
    {.name = "batch_whose_first_pivot_is_zero",
     .in = {f32({2, 1, 3, 3}, {0, 2, 1, 1, 0, 3, 2, 1, 0, 2, 0, 0, 0, -1, 5, 0, 0, 4})},
     .out = {f32({2, 1}, {13, -8})}, .tolerance = 1e-14},
    {.name = "singular", .in = {f32({2, 2}, {1, 2, 2, 4})}, .out = {f32({}, {0})},
     .tolerance = 1e-14},
    {.name = "column_of_zeros", .in = {f32({2, 2}, {0, 1, 0, 2})}, .out = {f32({}, {0})}},
    {.name = "one_by_one", .in = {f32({2, 1, 1}, {-3, 7})}, .out = {f32({2}, {-3, 7})}},
    {.name = "of_no_rows_is_one", .in = {f32({2, 0, 0}, {})}, .out = {f32({2}, {1, 1})}},
    {.name = "no_matrices", .in = {f32({0, 2, 2}, {})}, .out = {f32({0}, {})}},
    {.name = "nan", .in = {f32({2, 2}, {kNaN, 1, 0, 1})}, .out = {f32({}, {kNaN})}},
    {.name = "not_square", .in = {ramp(kF32, {2, 3})},
     .error = "the matrices of shape [2, 3] are not square"},
    {.name = "vector", .in = {ramp(kF32, {3})}, .error = "expected square matrices [..., n, n]"},
    {.name = "integers", .in = {i32({1, 1}, {3})}, .error = "input 0 has type i32"},
});

const OpCases kGemm("Gemm", OpKind::kGemm, {
    {.name = "both_transposed_with_c", .attrs = "{alpha=0.5, beta=2, trans_a=true, trans_b=true}",
     .in = {ramp(kF32, {3, 2}, -2), ramp(kF32, {4, 3}, -5), ramp(kF32, {1, 4})},
     .out = {f32({2, 4}, {2, 4, 6, 8, -4, 2.5, 9, 15.5})}},
    {.name = "without_c", .in = {ramp(kF32, {2, 3}), ramp(kF32, {3, 5}, -4)},
     .out = {f32({2, 5}, {13, 16, 19, 22, 25, 22, 34, 46, 58, 70})}},
    {.name = "c_is_one_number",
     .in = {f32({1, 1}, {2}), f32({1, 2}, {3, 4}), f32({}, {1})}, .out = {f32({1, 2}, {7, 9})}},
    {.name = "rank_three", .in = {ramp(kF32, {1, 2, 3}), ramp(kF32, {3, 5})},
     .error = "input 0 has shape [1, 2, 3], expected rank 2"},
    {.name = "c_that_does_not_fit", .in = {ramp(kF32, {2, 3}), ramp(kF32, {3, 5}), ramp(kF32, {3})},
     .error = "input 2 of shape [3] does not broadcast to [2, 5]"},
    {.name = "integers", .in = {i32({1, 1}, {1}), i32({1, 1}, {1})},
     .error = "input 0 has type i32, expected a float type"},
});

const OpCases kLinear("Linear", OpKind::kLinear, {
    {.name = "relu_bias_residual", .attrs = "{activation=3}",
     .in = {ramp(kF32, {2, 2, 3}, -4), ramp(kF32, {3, 2}, -2), f32({2}, {0.5, -1}),
            ramp(kF32, {2, 2, 2})}, .out = {f32({2, 2, 2}, {4.5, 1, 6.5, 6, 8.5, 17, 10.5, 28})}},
    {.name = "tanh_of_transposed_weights", .attrs = "{activation=4, trans_w=true}",
     .in = {typed(kF64, {2, 3}, {-0.2, -0.1, 0, 0.1, 0.2, 0.3}),
            typed(kF64, {2, 3}, {-0.1, 0, 0.1, 0.2, 0.3, 0.4})},
     .out = {typed(kF64, {2, 2}, {0.019997333759930933, -0.06988589031642901, 0.019997333759930933,
             0.19737532022490403})}, .tolerance = 1e-14},
    {.name = "gelu_without_bias", .attrs = "{activation=1}",
     .in = {typed(kF64, {2, 3}, {-0.2, -0.1, 0, 0.1, 0.2, 0.3}), ramp(kF64, {3, 2}, -2)},
     .out = {typed(kF64, {2, 2}, {0.2621686966441297, 0.053982783727702904, 0.26216869664412973,
             0.8413447460685433})}, .tolerance = 1e-14},
    {.name = "residual_without_bias",
     .in = {f32({1, 2}, {1, 2}), f32({2, 1}, {3, 4}), none(), f32({1, 1}, {100})},
     .out = {f32({1, 1}, {111})}},
    {.name = "no_rows",
     .in = {f32({0, 2}, {}), f32({2, 3}, {1, 2, 3, 4, 5, 6})}, .out = {f32({0, 3}, {})}},
    {.name = "weights_of_rank_one", .in = {f32({1, 2}, {1, 2}), f32({2}, {1, 2})},
     .error = "input 1 has shape [2], expected rank 2"},
    {.name = "inner_sizes_differ", .attrs = "{trans_w=true}",
     .in = {ramp(kF32, {1, 2}), ramp(kF32, {2, 3})},           .error = "inner sizes differ"},
});
// clang-format on

// The sums of AddLayerNorm's row in normalisation_cases.cpp: {1.5, 1, 6}.
const Arg kPair = typed(kF64, {1, 2}, {1, 2});
const Arg kWeights = typed(kF64, {2, 3}, {1, 0, 2, 0, -1, 1});
const Arg kSumBias = typed(kF64, {3}, {0.5, 0, 0}), kRest = typed(kF64, {1, 3}, {0, 3, 2});
const Arg kScale = typed(kF64, {3}, {1, 1, 2}), kNormBias = typed(kF64, {3}, {0, 0, 1});
const Arg kNormed =
    typed(kF64, {1, 3}, {-0.5929988668467753, -0.8153734419143159, 3.8167446175221817});
constexpr OpKind kFused = OpKind::kLinearAddLayerNorm;

// clang-format off
const OpCases kLinearNorm("LinearAddLayerNorm", kFused, {
    {.name = "all_inputs", .in = {kPair, kWeights, kSumBias, kRest, kScale, kNormBias},
     .out = {kNormed}, .tolerance = 1e-14},
    {.name = "transposed_weights_without_bias", .attrs = "{trans_w=true}",
     .in = {kPair, typed(kF64, {3, 2}, {1, 0, 0, -1, 2, 1}), none(),
            typed(kF64, {1, 3}, {0.5, 3, 2}), kScale, kNormBias}, .out = {kNormed},
     .tolerance = 1e-14},
    {.name = "without_norm_bias", .in = {kPair, kWeights, kSumBias, kRest, kScale},
     .out = {typed(kF64, {1, 3}, {-0.5929988668467753, -0.8153734419143159, 2.8167446175221817})},
     .tolerance = 1e-14},
    {.name = "rank_three",
     .in = {typed(kF64, {2, 1, 2}, {1, 2, 2, 1}), kWeights, kSumBias,
            typed(kF64, {2, 1, 3}, {0, 3, 2, -1, 2, 1}), kScale, kNormBias},
     .out = {typed(kF64, {2, 1, 3}, {-0.5929988668467753, -0.8153734419143159, 3.8167446175221817,
             -0.5929988668467753, -0.8153734419143159, 3.8167446175221817})}, .tolerance = 1e-14},
    {.name = "a_constant_row_gives_the_bias",
     .in = {typed(kF64, {1, 2}, {0, 0}), kWeights, none(), typed(kF64, {1, 3}, {5, 5, 5}), kScale,
            kNormBias}, .out = {typed(kF64, {1, 3}, {0, 0, 1})}},
    {.name = "no_rows",
     .in = {typed(kF64, {0, 2}, {}), kWeights, none(), typed(kF64, {0, 3}, {}), kScale},
     .out = {typed(kF64, {0, 3}, {})}},
    {.name = "residual_is_required",
     .in = {kPair, kWeights, kSumBias, none(), kScale}, .error = "required input 3 is absent"},
    {.name = "residual_does_not_broadcast", .in = {kPair, kWeights, kSumBias, kSumBias, kScale},
     .error = "input 3 has shape [3], expected rank 2"},
    {.name = "one_scale_per_column",
     .in = {kPair, kWeights, none(), kRest, typed(kF64, {2}, {1, 1})},
     .error = "sizes 2 and 3 differ"},
    {.name = "integers", .in = {i32({1, 2}, {1, 2}), kWeights, none(), kRest, kScale},
     .error = "input 0 has type i32, expected a float type"},
});

const OpCases kEinsum("Einsum", OpKind::kEinsum, {
    {.name = "attention_scores", .attrs = equation("bihd,bjhd->bhij"),
     .in = {ramp(kF32, {1, 2, 2, 3}, -3), ramp(kF32, {1, 3, 2, 3}, -8)},
     .out = {f32({1, 2, 2, 3}, {44, 8, -28, -82, -10, 62, -10, 8, 26, -82, 44, 170})}},
    {.name = "diagonal",                        .attrs = equation("ii->i"),
     .in = {ramp(kF32, {3, 3})}, .out = {f32({3}, {0, 4, 8})}},
    {.name = "trace_without_arrow",             .attrs = equation("ii"),
     .in = {ramp(kF32, {3, 3})}, .out = {f32({}, {12})}},
    {.name = "implicit_output_is_alphabetical", .attrs = equation("ba"),
     .in = {ramp(kF32, {2, 3})}, .out = {f32({3, 2}, {0, 3, 1, 4, 2, 5})}},
    {.name = "ellipsis", .attrs = equation("...ij, jk -> ...ik"),
     .in = {ramp(kF32, {2, 1, 2, 2}, -2), ramp(kF32, {2, 2})},
     .out = {f32({2, 1, 2, 2}, {-2, -5, 2, 3, 6, 11, 10, 19})}},
    {.name = "ellipsis_broadcasts", .attrs = equation("a...,b...->ab..."),
     .in = {ramp(kF32, {2, 1, 2}), ramp(kF32, {2, 3, 1}, -1)},
     .out = {f32({2, 2, 3, 2}, {0, -1, 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, -2, -3, 0, 0, 2, 3, 4, 6, 6, 9,
             8, 12})}},
    {.name = "three_inputs", .attrs = equation("ij,jk,kl->il"),
     .in = {ramp(kF32, {2, 2}), ramp(kF32, {2, 3}, -2), ramp(kF32, {3, 1})},
     .out = {f32({2, 1}, {8, 22})}},
    {.name = "sum_of_two_axes",                 .attrs = equation("ijk->j"),
     .in = {ramp(kF32, {2, 2, 3})}, .out = {f32({2}, {24, 42})}},
    {.name = "integers",                        .attrs = equation("i,i->"),
     .in = {i64({3}, {1, 2, 3}), i64({3}, {4, 5, 6})}, .out = {i64({}, {32})}},
    {.name = "empty_sum_is_zero",               .attrs = equation("ij->i"),
     .in = {f32({2, 0}, {})},    .out = {f32({2}, {0, 0})}},
    {.name = "too_few_inputs",                  .attrs = equation("ij,jk->ik"),
     .in = {ramp(kF32, {2, 2})}, .error = "Einsum equation 'ij,jk->ik': has 2 terms for 1 inputs"},
    {.name = "wrong_rank",                      .attrs = equation("ijk->i"),
     .in = {ramp(kF32, {2, 2})}, .error = "term 'ijk' does not fit input 0 of rank 2"},
    {.name = "bad_letter",                      .attrs = equation("i1->i"),
     .in = {ramp(kF32, {2, 2})}, .error = "unexpected '1' in 'i1'"},
    {.name = "unknown_output",                  .attrs = equation("ij->k"),
     .in = {ramp(kF32, {2, 2})}, .error = "output label 'k' is in no input"},
    {.name = "output_twice",                    .attrs = equation("ij->ii"),
     .in = {ramp(kF32, {2, 2})}, .error = "output label 'i' occurs twice"},
    {.name = "a_size_of_one_broadcasts",        .attrs = equation("ij,jk->ik"),
     .in = {ramp(kF32, {2, 1}), ramp(kF32, {3, 2})}, .out = {f32({2, 2}, {0, 0, 6, 9})}},
    {.name = "sizes_differ",                    .attrs = equation("i,i->"),
     .in = {ramp(kF32, {2}), ramp(kF32, {3})}, .error = "sizes 2 and 3 differ"},
    {.name = "a_diagonal_does_not_broadcast",   .attrs = equation("ii->i"),
     .in = {ramp(kF32, {1, 3})}, .error = "sizes 1 and 3 differ"},
});

const ShapeCases kShapes("Matrix", {
    {.name = "matmul_unifies_the_inner_size", .op = OpKind::kMatMul,
     .in = {"f32 [batch, heads, seq, 64]", "f32 [batch, heads, d, s2]"},
     .out = {"f32 [batch, heads, seq, s2]"}, .substitutions = {"d := 64"}},
    {.name = "matmul_broadcasts_the_batch", .op = OpKind::kMatMul,
     .in = {"f32 [1, seq, 8]", "f32 [batch, 8, 4]"},    .out = {"f32 [batch, seq, 4]"}},
    {.name = "det", .op = OpKind::kDet, .in = {"f32 [batch, n, m]"}, .out = {"f32 [batch]"},
     .substitutions = {"m := n"}},
    {.name = "gemm",                        .op = OpKind::kGemm, .attrs = "{trans_b=true}",
     .in = {"f32 [batch, 8]", "f32 [4, 8]", "f32 [4]"}, .out = {"f32 [batch, 4]"}},
    {.name = "linear", .op = OpKind::kLinear,
     .in = {"f32 [batch, seq, 8]", "f32 [8, 4]", "f32 [4]", "f32 [batch, s2, 4]"},
     .out = {"f32 [batch, seq, 4]"}, .substitutions = {"s2 := seq"}},
    {.name = "linear_add_layer_norm", .op = OpKind::kLinearAddLayerNorm,
     .in = {"f32 [batch, seq, 8]", "f32 [8, 4]", "", "f32 [batch, s2, 4]", "f32 [4]"},
     .out = {"f32 [batch, seq, 4]"}, .substitutions = {"s2 := seq"}},
    {.name = "einsum", .op = OpKind::kEinsum, .attrs = equation("...id,...jd->...ij"),
     .in = {"f32 [batch, 12, seq, 64]", "f32 [batch, 12, s2, 64]"},
     .out = {"f32 [batch, 12, seq, s2]"}},
});
// clang-format on

}  // namespace
}  // namespace vernier::test
