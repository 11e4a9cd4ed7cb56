// Cases of the operators in src/ops/shapes.cpp. Row fields: case.h.
#include "ops/case.h"

namespace vernier::test {
namespace {

constexpr DType kF32 = DType::kF32;

const OpCases kShape(
    "Shape",
    {
        {"whole", OpKind::kShape, "", {ramp(kF32, {2, 3, 5})}, {i64({3}, {2, 3, 5})}},
        {"start", OpKind::kShape, "{start=-2}", {ramp(kF32, {2, 3, 5})}, {i64({2}, {3, 5})}},
        {"end_before_start",
         OpKind::kShape,
         "{start=2, end=1}",
         {ramp(kF32, {2, 3, 5})},
         {i64({0}, {})}},
        {"of_a_scalar", OpKind::kShape, "", {f32({}, {1})}, {i64({0}, {})}},
        {"of_an_empty_tensor", OpKind::kShape, "", {f32({0, 3}, {})}, {i64({2}, {0, 3})}},
    });

const ShapeCases kReshape("Reshape",
                          {
                              {"minus_one_cancels_symbols",
                               OpKind::kReshape,
                               "",
                               {"f32 [batch, seq, 768]", "i64 [4] = (batch, -1, 12, 64)"},
                               {"f32 [batch, seq, 12, 64]"}},
                              {"zero_copies_the_axis",
                               OpKind::kReshape,
                               "",
                               {"f32 [batch, seq, 768]", "i64 [3] = (0, 0, -1)"},
                               {"f32 [batch, seq, 768]"}},
                              {"two_names_of_one_size",
                               OpKind::kReshape,
                               "",
                               {"f32 [batch, seq, 768]", "i64 [4] = (batch, s2, 12, 64)"},
                               {"f32 [batch, seq, 12, 64]"},
                               "",
                               {},
                               {"s2 := seq"}},
                              {"unknown_shape",
                               OpKind::kReshape,
                               "",
                               {"f32 [batch, 4]", "i64 [2]"},
                               {},
                               "shapes that depend on data"},
                          });

}  // namespace
}  // namespace vernier::test
