// Cases of operators over [batch, channels, space…]: norms per channel and group, pools,
// GridSample.
#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

const Cases kChannelNorms("ChannelNorms", [] {
  Maker make(47);
  const Arg x{.value = make.normal({3, 6, 5, 7}, 2), .batch_axis = 0};
  const Arg scale{.value = make.normal({6})}, bias{.value = make.normal({6})};
  std::vector<OpCase> cases;
  for (int64_t groups : {0, 1, 2, 3}) {
    OpCase c{.op = OpKind::kGroupNormalization,
             .attrs = encode(GroupNormAttrs{.num_groups = groups})};
    c.name = "groups " + std::to_string(groups);
    c.inputs = {x, scale, bias};
    c.outputs = {{.shape = {3, 6, 5, 7}}};
    cases.push_back(c);
  }
  OpCase batch{.op = OpKind::kBatchNormalization, .attrs = encode(BatchNormAttrs{})};
  batch.name = "batch normalization";
  // A variance of 0 or below has no meaning, so specials stay out of it.
  const std::vector<double> variances(6, 0.7);
  batch.inputs = {x,
                  scale,
                  bias,
                  {.value = make.normal({6})},
                  {.value = Tensor::from(DType::kF32, {6}, std::span<const double>(variances)),
                   .special = false}};
  batch.outputs = {{.shape = {3, 6, 5, 7}}};
  cases.push_back(batch);
  return cases;
});

struct PoolCase {
  PoolAttrs attrs;
  Shape y;
};

const Cases kPools("Pools", [] {
  Maker make(147);
  const Arg x{.value = make.normal({3, 6, 5, 7}, 2), .batch_axis = 0};
  std::vector<OpCase> cases;
  for (OpKind op : {OpKind::kGlobalAveragePool, OpKind::kGlobalMaxPool}) {
    OpCase c{.op = op};
    c.name = std::string(name(op));
    c.inputs = {x};
    c.outputs = {{.shape = {3, 6, 1, 1}}};
    cases.push_back(c);
  }
  const PoolAttrs padded{.kernel_shape = {3, 3}, .strides = {2, 2}, .pads = {1, 1, 1, 1}};
  PoolAttrs counted = padded;
  counted.count_include_pad = true;
  for (OpKind op : {OpKind::kMaxPool, OpKind::kAveragePool}) {
    // clang-format off
    for (const PoolCase& pool : std::vector<PoolCase>{
             {.attrs = {.kernel_shape = {2, 3}},                          .y = {3, 6, 4, 5}},
             {.attrs = padded,                                            .y = {3, 6, 3, 4}},
             {.attrs = counted,                                           .y = {3, 6, 3, 4}},
             {.attrs = {.kernel_shape = {2, 2}, .strides = {2, 2}, .ceil_mode = true},
              .y = {3, 6, 3, 4}},
             {.attrs = {.kernel_shape = {2, 2}, .dilations = {2, 3}},     .y = {3, 6, 3, 4}}}) {
      // clang-format on
      OpCase c{.op = op, .attrs = encode(pool.attrs)};
      c.name = std::string(name(op));
      c.name += str(pool.y);
      c.inputs = {x};
      c.outputs = {{.shape = pool.y}};
      cases.push_back(c);
    }
  }
  return cases;
});

const Cases kGridSample("GridSample", [] {
  Maker make(48);
  std::vector<OpCase> cases;
  for (Interpolation mode : {Interpolation::kLinear, Interpolation::kNearest}) {
    for (Padding padding : {Padding::kZeros, Padding::kBorder, Padding::kReflection}) {
      for (bool corners : {false, true}) {
        OpCase c{.op = OpKind::kGridSample,
                 .attrs = encode(GridSampleAttrs{mode, padding, corners})};
        c.name = "grid sample " + std::to_string(static_cast<int>(padding));
        // Coordinates inside [-1, 1], outside, and by the special values NaN and infinite.
        c.inputs = {{.value = make.normal({2, 3, 5, 7}), .batch_axis = 0},
                    {.value = make.normal({2, 3, 17, 2}), .batch_axis = 0}};
        c.outputs = {{.shape = {2, 3, 3, 17}}};
        cases.push_back(c);
      }
    }
  }
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
