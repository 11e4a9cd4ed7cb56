// One operator, several opset versions: each spelling of a version must compute the same values.
// Fields of a row: version_case.h.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/version_case.h"

namespace vernier::onnx {
namespace {

// softmax over `count` values 1, 2, ..., count.
std::vector<double> softmax_of_counted(int64_t count) {
  std::vector<double> values = counted(count);
  double sum = 0;
  for (double& value : values) sum += value = std::exp(value);
  for (double& value : values) value /= sum;
  return values;
}

std::vector<VersionCase> axes_cases() {
  const std::vector<double> six = counted(6);
  return {
      {"Squeeze_11_attribute",
       11,
       {1, 6, 1},
       one("Squeeze", {attr_ints("axes", {0})}),
       six,
       {6, 1}},
      {"Squeeze_11_all", 11, {1, 6, 1}, one("Squeeze", {}), six, {6}},
      {"Squeeze_13_input", 13, {1, 6, 1}, one("Squeeze", {}, {i64("axes", {-1})}), six, {1, 6}},
      {"Squeeze_13_all", 13, {1, 6, 1}, one("Squeeze", {}), six, {6}},
      {"Unsqueeze_11_attribute",
       11,
       {6},
       one("Unsqueeze", {attr_ints("axes", {0, 2})}),
       six,
       {1, 6, 1}},
      {"Unsqueeze_13_input", 13, {6}, one("Unsqueeze", {}, {i64("axes", {0, -1})}), six, {1, 6, 1}},
      {"ReduceSum_11_attribute",
       11,
       {2, 3},
       one("ReduceSum", {attr_ints("axes", {1})}),
       {6, 15},
       {2, 1}},
      {"ReduceSum_13_input",
       13,
       {2, 3},
       one("ReduceSum", {attr_int("keepdims", 0)}, {i64("axes", {1})}),
       {6, 15},
       {2}},
      {"ReduceSum_13_all", 13, {2, 3}, one("ReduceSum", {attr_int("keepdims", 0)}), {21}, {}},
      {"ReduceSum_13_empty_axes_as_is",
       13,
       {2, 3},
       one("ReduceSum", {attr_int("noop_with_empty_axes", 1)}, {i64("axes", {})}),
       six,
       {2, 3}},
      {"ReduceMean_17_attribute",
       17,
       {2, 3},
       one("ReduceMean", {attr_ints("axes", {-1})}),
       {2, 5},
       {2, 1}},
      {"ReduceMean_18_input",
       18,
       {2, 3},
       one("ReduceMean", {}, {i64("axes", {-1})}),
       {2, 5},
       {2, 1}},
      {"ReduceMax_18_input",
       18,
       {2, 3},
       one("ReduceMax", {}, {i64("axes", {0})}),
       {4, 5, 6},
       {1, 3}},
      {"ReduceL1_13_attribute",
       13,
       {2, 3},
       one("ReduceL1", {attr_ints("axes", {0})}),
       {5, 7, 9},
       {1, 3}},
  };
}

std::vector<VersionCase> movement_cases() {
  return {
      {"Slice_9_attributes",
       9,
       {2, 3},
       one("Slice", {attr_ints("starts", {1}), attr_ints("ends", {3}), attr_ints("axes", {1})}),
       {2, 3, 5, 6},
       {2, 2}},
      {"Slice_9_without_axes",
       9,
       {2, 3},
       one("Slice", {attr_ints("starts", {1, 0}), attr_ints("ends", {2, 2})}),
       {4, 5},
       {1, 2}},
      {"Slice_13_inputs",
       13,
       {2, 3},
       one("Slice", {},
           {i64("starts", {-1}), i64("ends", {-9}), i64("axes", {1}), i64("steps", {-1})}),
       {3, 2, 1, 6, 5, 4},
       {2, 3}},
      {"Split_11_attribute",
       11,
       {6},
       [](ModelBuilder& m) {
         m.node("Split", {"x"}, {"a", "y"}, {attr_ints("split", {4, 2})});
       },
       {5, 6},
       {2}},
      {"Split_13_input",
       13,
       {6},
       [](ModelBuilder& m) {
         m.initializer(i64("sizes", {1, 5})).node("Split", {"x", "sizes"}, {"y", ""});
       },
       {1},
       {1}},
      {"Split_13_equal",
       13,
       {6},
       [](ModelBuilder& m) {
         m.node("Split", {"x"}, {"a", "b", "y"});
       },
       {5, 6},
       {2}},
      {"Split_18_uneven",
       18,
       {5},
       [](ModelBuilder& m) {
         m.node("Split", {"x"}, {"a", "y"}, {attr_int("num_outputs", 2)});
       },
       {4, 5},
       {2}},
      {"Pad_10_attributes",
       10,
       {2},
       one("Pad", {attr_ints("pads", {1, 2}), attr_float("value", 9)}),
       {9, 1, 2, 9, 9},
       {5}},
      {"Pad_11_inputs",
       11,
       {2},
       one("Pad", {}, {i64("pads", {0, 1}), scalar("fill", 7)}),
       {1, 2, 7},
       {3}},
      {"Pad_18_axes",
       18,
       {1, 2},
       one("Pad", {}, {i64("pads", {1, 0}), absent(), i64("axes", {1})}),
       {0, 1, 2},
       {1, 3}},
      {"Pad_19_wrap",
       19,
       {3},
       one("Pad", {attr_text("mode", "wrap")}, {i64("pads", {1, 1})}),
       {3, 1, 2, 3, 1},
       {5}},
      {"Compress_9_flat",
       9,
       {3, 2},
       [](ModelBuilder& m) {
         m.initializer(i64("c", {0, 1, 0, 0, 1}));
         m.node("Cast", {"c"}, {"b"}, {attr_int("to", kBool)});
         m.node("Compress", {"x", "b"}, {"y"});
       },
       {2, 5},
       {2}},
      {"Compress_11_negative_axis",
       11,
       {3, 2},
       [](ModelBuilder& m) {
         m.initializer(i64("c", {0, 1}));
         m.node("Cast", {"c"}, {"b"}, {attr_int("to", kBool)});
         m.node("Compress", {"x", "b"}, {"y"}, {attr_int("axis", -1)});
       },
       {2, 4, 6},
       {3, 1}},
      {"Unique_11_of_all", 11, {2, 2}, one("Unique", {}), {1, 2, 3}, {3}, {2, 1, 2, 3}},
      {"Unique_11_by_place",
       11,
       {2, 2},
       one("Unique", {attr_int("sorted", 0)}),
       {2, 1, 3},
       {3},
       {2, 1, 2, 3}},
      {"Unique_11_rows",
       11,
       {2, 2},
       one("Unique", {attr_int("axis", 0)}),
       {1, 2},
       {1, 2},
       {1, 2, 1, 2}},
      {"Unique_11_counts",
       11,
       {4},
       [](ModelBuilder& m) {
         m.node("Unique", {"x"}, {"", "", "", "counts"});
         m.node("Cast", {"counts"}, {"y"}, {attr_int("to", kFloat)});
       },
       {1, 2, 1},
       {3},
       {2, 1, 2, 3}},
      {"NonMaxSuppression_10_corners",
       10,
       {1, 3, 4},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("scores", {1, 1, 3}, {0.9F, 0.8F, 0.7F}));
         m.initializer(i64("most", {3})).initializer(f32("overlap", {0.5F}));
         m.node("NonMaxSuppression", {"x", "scores", "most", "overlap"}, {"kept"});
         m.node("Cast", {"kept"}, {"y"}, {attr_int("to", kFloat)});
       },
       {0, 0, 0, 0, 0, 2},
       {2, 3},
       {0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, 5, 1, 6}},
      {"NonMaxSuppression_11_centers_and_a_score",
       11,
       {1, 2, 4},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("scores", {1, 1, 2}, {0.1F, 0.8F}));
         m.initializer(i64("most", {3})).initializer(f32("least", {0.5F}));
         m.node("NonMaxSuppression", {"x", "scores", "most", "", "least"}, {"kept"},
                {attr_int("center_point_box", 1)});
         m.node("Cast", {"kept"}, {"y"}, {attr_int("to", kFloat)});
       },
       {0, 0, 1},
       {1, 3},
       {0, 0, 1, 1, 0, 5, 1, 1}},
      {"TopK_9_attribute", 9, {4}, one("TopK", {attr_int("k", 2)}), {4, 3}, {2}},
      {"TopK_10_input", 10, {4}, one("TopK", {}, {i64("k", {1})}), {4}, {1}},
      {"TopK_11_smallest",
       11,
       {4},
       one("TopK", {attr_int("largest", 0)}, {i64("k", {2})}),
       {1, 2},
       {2}},
      {"GatherND_12_batch_dims",
       12,
       {2, 2},
       [](ModelBuilder& m) {
         m.initializer(i64_tensor("i", {2, 1}, {1, 0}));
         m.node("GatherND", {"x", "i"}, {"y"}, {attr_int("batch_dims", 1)});
       },
       {2, 3},
       {2}},
      {"Scatter_9_name",
       9,
       {3},
       [](ModelBuilder& m) {
         m.initializer(i64("i", {1})).initializer(f32("u", {8}));
         m.node("Scatter", {"x", "i", "u"}, {"y"});
       },
       {1, 8, 3},
       {3}},
      {"ScatterElements_18_max",
       18,
       {3},
       [](ModelBuilder& m) {
         m.initializer(i64("i", {1, 2})).initializer(f32("u", {8, 1}));
         m.node("ScatterElements", {"x", "i", "u"}, {"y"}, {attr_text("reduction", "max")});
       },
       {1, 8, 3},
       {3}},
      {"DepthToSpace_10_dcr",
       10,
       {1, 4, 1, 1},
       one("DepthToSpace", {attr_int("blocksize", 2)}),
       counted(4),
       {1, 1, 2, 2}},
      {"SpaceToDepth_28_crd",
       28,
       {1, 2, 2, 2},
       one("SpaceToDepth", {attr_int("blocksize", 2), attr_text("mode", "CRD")}),
       counted(8),
       {1, 8, 1, 1}},
      {"SpaceToDepth_13_dcr",
       13,
       {1, 2, 2, 2},
       one("SpaceToDepth", {attr_int("blocksize", 2)}),
       {1, 5, 2, 6, 3, 7, 4, 8},
       {1, 8, 1, 1}},
      {"Transpose_default_reverses", 13, {2, 3}, one("Transpose", {}), {1, 4, 2, 5, 3, 6}, {3, 2}},
      {"Concat_11_scalar_beside_vector",
       11,
       {2},
       [](ModelBuilder& m) {
         m.initializer(scalar("s", 9)).node("Concat", {"x", "s"}, {"y"}, {attr_int("axis", 0)});
       },
       {1, 2, 9},
       {3}},
  };
}

std::vector<VersionCase> elementwise_cases() {
  return {
      {"Clip_6_attributes",
       6,
       {4},
       one("Clip", {attr_float("min", 2), attr_float("max", 3)}),
       {2, 2, 3, 3},
       {4}},
      {"Clip_10_one_attribute", 10, {4}, one("Clip", {attr_float("max", 3)}), {1, 2, 3, 3}, {4}},
      {"Clip_11_inputs", 11, {4}, one("Clip", {}, {absent(), scalar("max", 2)}), {1, 2, 2, 2}, {4}},
      {"Add_6_broadcast_at_axis",
       6,
       {2, 3},
       one("Add", {attr_int("broadcast", 1), attr_int("axis", 0)}, {f32("b", {10, 20})}),
       {11, 12, 13, 24, 25, 26},
       {2, 3}},
      {"Add_6_broadcast_at_end",
       6,
       {2, 2},
       one("Add", {attr_int("broadcast", 1)}, {f32("b", {10, 20})}),
       {11, 22, 13, 24},
       {2, 2}},
      {"Add_7_broadcasts",
       7,
       {2, 2},
       one("Add", {}, {f32("b", {10, 20})}),
       {11, 22, 13, 24},
       {2, 2}},
      {"PRelu_6_per_channel",
       6,
       {1, 2, 2},
       one("PRelu", {}, {f32("slope", {2, 3})}),
       {-2, -2, -3, -3},
       {1, 2, 2},
       {-1, -1, -1, -1}},
      {"PRelu_9_broadcasts",
       9,
       {1, 2, 2},
       one("PRelu", {}, {f32("slope", {2, 3})}),
       {-2, -3, -2, -3},
       {1, 2, 2},
       {-1, -1, -1, -1}},
      {"Dropout_6_is_identity",
       6,
       {2},
       one("Dropout", {attr_float("ratio", 0.9F), attr_int("is_test", 1)}),
       {1, 2},
       {2}},
      {"Dropout_12_is_identity",
       12,
       {2},
       one("Dropout", {attr_int("seed", 3)}, {scalar("ratio", 0.9F)}),
       {1, 2},
       {2}},
      {"Dropout_13_trains_without_dropping",
       13,
       {2},
       [](ModelBuilder& m) {
         m.initializer(scalar("ratio", 0.0F));
         m.initializer(i64("one", {1}));
         m.node("Cast", {"one"}, {"training"}, {attr_int("to", kBool)});
         m.node("Dropout", {"x", "ratio", "training"}, {"y"});
       },
       {1, 2},
       {2}},
      {"Dropout_13_mask_is_true",
       13,
       {2},
       [](ModelBuilder& m) {
         m.node("Dropout", {"x"}, {"d", "mask"});
         m.node("Where", {"mask", "x", "x"}, {"y"});
       },
       {1, 2},
       {2}},
      {"CastLike_15",
       15,
       {2},
       [](ModelBuilder& m) {
         m.initializer(i64("like", {0}));
         m.node("CastLike", {"x", "like"}, {"i"});
         m.node("Cast", {"i"}, {"y"}, {attr_int("to", kFloat)});
       },
       {1, -2},
       {2},
       {1.5, -2.5}},
      {"HardSwish_14", 14, {2}, one("HardSwish", {}), {3, -0.375}, {2}, {3, -1.5}},
      {"Swish_24", 24, {1}, one("Swish", {attr_float("alpha", 2)}), {0.8807970779778823}, {1}},
      {"Gelu_20_tanh",
       20,
       {1},
       one("Gelu", {attr_text("approximate", "tanh")}),
       {0.8411919906082768},
       {1}},
      {"Gelu_20_erf", 20, {1}, one("Gelu", {}), {0.8413447460685429}, {1}},
      {"LeakyRelu_default", 16, {1}, one("LeakyRelu", {}), {-0.1}, {1}, {-10}},
      {"Celu_default", 12, {1}, one("Celu", {}), {std::exp(-1) - 1}, {1}, {-1}},
      {"ThresholdedRelu",
       10,
       {3},
       one("ThresholdedRelu", {attr_float("alpha", 2)}),
       {0, 0, 3},
       {3}},
      {"HardSigmoid_default", 6, {2}, one("HardSigmoid", {}), {0.7, 1}, {2}, {1, 5}},
      {"Selu_default", 6, {1}, one("Selu", {}), {1.0507009873554805}, {1}},
      {"Selu_1_default", 1, {1}, one("Selu", {}), {1.0507}, {1}},
      {"Add_1_broadcast",
       1,
       {2, 2},
       one("Add",
           {attr_int("broadcast", 1), attr_int("axis", 0), attr_ints("consumed_inputs", {0, 0})},
           {f32("b", {10, 20})}),
       {11, 12, 23, 24},
       {2, 2}},
      {"Shrink_9",
       9,
       {4},
       one("Shrink", {attr_float("lambd", 1.5F), attr_float("bias", 1)}),
       {-1, 0, 0, 2},
       {4},
       {-2, -1, 1, 3}},
      {"Mean_of_three",
       13,
       {2},
       one("Mean", {}, {f32("a", {4, 5}), f32("b", {7, 8})}),
       {4, 5},
       {2}},
      {"Sum_of_one", 13, {2}, one("Sum", {}), {1, 2}, {2}},
      {"Mod_fmod",
       13,
       {2},
       one("Mod", {attr_int("fmod", 1)}, {f32("b", {3, 3})}),
       {-1, 1},
       {2},
       {-4, 4}},
      {"IsInf_10_positive_only",
       10,
       {3},
       [](ModelBuilder& m) {
         m.node("IsInf", {"x"}, {"i"}, {attr_int("detect_negative", 0)});
         m.node("Cast", {"i"}, {"y"}, {attr_int("to", kFloat)});
       },
       {0, 1, 0},
       {3},
       {-INFINITY, INFINITY, 1}},
  };
}

// BatchNormalization that trains with momentum 1/2, from means of 1 and 2 and variances of 4 and 6.
std::function<void(ModelBuilder&)> trained(const Names& outputs) {
  return [=](ModelBuilder& m) {
    for (const auto& tensor :
         {f32("scale", {1, 1}), f32("bias", {0, 0}), f32("mean", {1, 2}), f32("variance", {4, 6})})
      m.initializer(tensor);
    m.node("BatchNormalization", {"x", "scale", "bias", "mean", "variance"}, outputs,
           {attr_float("momentum", 0.5F), attr_int("training_mode", 1)});
  };
}

std::vector<VersionCase> norm_and_softmax_cases() {
  const std::vector<double> four = softmax_of_counted(4);
  const std::vector<double> pair = softmax_of_counted(2);
  const std::vector<double> rows{pair[0], pair[1], pair[0], pair[1]};
  // Two values 1, 2: mean 1.5, variance 0.25.
  const double unit = 0.5 / std::sqrt(0.25 + 1e-5);
  return {
      {"Softmax_11_flattens_from_axis_1", 11, {1, 2, 2}, one("Softmax", {}), four, {1, 2, 2}},
      {"Softmax_11_last_axis",
       11,
       {1, 2, 2},
       one("Softmax", {attr_int("axis", 2)}),
       rows,
       {1, 2, 2}},
      {"Softmax_11_axis_0_of_all", 11, {2, 2}, one("Softmax", {attr_int("axis", 0)}), four, {2, 2}},
      {"Softmax_13_last_axis", 13, {1, 2, 2}, one("Softmax", {}), rows, {1, 2, 2}},
      {"LogSoftmax_11_flattens",
       11,
       {1, 2, 2},
       one("LogSoftmax", {}),
       {std::log(four[0]), std::log(four[1]), std::log(four[2]), std::log(four[3])},
       {1, 2, 2}},
      {"Hardmax_11_flattens", 11, {1, 2, 2}, one("Hardmax", {}), {0, 0, 0, 1}, {1, 2, 2}},
      {"Hardmax_13_last_axis", 13, {1, 2, 2}, one("Hardmax", {}), {0, 1, 0, 1}, {1, 2, 2}},
      {"LayerNormalization_17",
       17,
       {1, 2},
       one("LayerNormalization", {}, {f32("scale", {1, 2})}),
       {-unit, 2 * unit},
       {1, 2}},
      {"RMSNormalization_23",
       23,
       {1, 2},
       one("RMSNormalization", {}, {f32("scale", {1, 1})}),
       {1 / std::sqrt(2.5 + 1e-5), 2 / std::sqrt(2.5 + 1e-5)},
       {1, 2}},
      {"InstanceNormalization",
       6,
       {1, 1, 2},
       one("InstanceNormalization", {}, {f32("scale", {2}), f32("bias", {1})}),
       {1 - 2 * unit, 1 + 2 * unit},
       {1, 1, 2}},
      {"GroupNormalization_18_scale_per_group",
       18,
       {1, 4, 1},
       one("GroupNormalization", {attr_int("num_groups", 2)},
           {f32("scale", {1, 2}), f32("bias", {0, 1})}),
       {-unit, unit, 1 - 2 * unit, 1 + 2 * unit},
       {1, 4, 1}},
      {"GroupNormalization_21_scale_per_channel",
       21,
       {1, 4, 1},
       one("GroupNormalization", {attr_int("num_groups", 2)},
           {f32("scale", {1, 2, 3, 4}), f32("bias", {0, 0, 0, 0})}),
       {-unit, 2 * unit, -3 * unit, 4 * unit},
       {1, 4, 1}},
      {"BatchNormalization_9",
       9,
       {1, 1, 2},
       one("BatchNormalization", {attr_float("epsilon", 0), attr_float("momentum", 0.5F)},
           {f32("scale", {2}), f32("bias", {1}), f32("mean", {1}), f32("variance", {4})}),
       {1, 2},
       {1, 1, 2}},
      {"BatchNormalization_15",
       15,
       {1, 1, 2},
       one("BatchNormalization", {attr_float("epsilon", 0), attr_int("training_mode", 0)},
           {f32("scale", {2}), f32("bias", {1}), f32("mean", {1}), f32("variance", {4})}),
       {1, 2},
       {1, 1, 2}},
      {"BatchNormalization_15_training",
       15,
       {2, 2, 1},
       one("BatchNormalization", {attr_float("epsilon", 0), attr_int("training_mode", 1)},
           {f32("scale", {2, 3}), f32("bias", {1, 0}), f32("mean", {9, 9}),
            f32("variance", {9, 9})}),
       {-1, -3, 3, 3},
       {2, 2, 1}},
      {"BatchNormalization_15_running_mean",
       15,
       {2, 2, 1},
       trained({"unread", "y", ""}),
       {1.5, 2.5},
       {2}},
      {"BatchNormalization_15_running_variance",
       15,
       {2, 2, 1},
       trained({"unread", "", "y"}),
       {2.5, 3.5},
       {2}},
  };
}

std::vector<VersionCase> shape_and_image_cases() {
  return {
      {"Upsample_7_attribute",
       7,
       {1, 1, 1, 2},
       one("Upsample", {attr_floats("scales", {1, 1, 1, 2})}),
       {1, 1, 2, 2},
       {1, 1, 1, 4}},
      {"Upsample_9_input",
       9,
       {1, 1, 1, 2},
       one("Upsample", {}, {f32("scales", {1, 1, 2, 1})}),
       {1, 2, 1, 2},
       {1, 1, 2, 2}},
      {"Resize_10_nearest_shrinks",
       10,
       {1, 1, 1, 4},
       one("Resize", {}, {f32("scales", {1, 1, 1, 0.5F})}),
       {1, 3},
       {1, 1, 1, 2}},
      {"Resize_11_asymmetric_floor",
       11,
       {1, 1, 1, 2},
       one("Resize",
           {attr_text("coordinate_transformation_mode", "asymmetric"),
            attr_text("nearest_mode", "floor")},
           {f32("roi", {}), f32("scales", {1, 1, 1, 2})}),
       {1, 1, 2, 2},
       {1, 1, 1, 4}},
      {"Resize_13_sizes",
       13,
       {1, 1, 1, 2},
       one("Resize", {}, {absent(), absent(), i64("sizes", {1, 1, 1, 4})}),
       {1, 1, 2, 2},
       {1, 1, 1, 4}},
      {"Resize_18_axes",
       18,
       {1, 1, 1, 2},
       one("Resize", {attr_ints("axes", {3})}, {absent(), f32("scales", {2})}),
       {1, 1, 2, 2},
       {1, 1, 1, 4}},
      {"GridSample_16_bilinear",
       16,
       {1, 1, 1, 2},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("grid", {1, 1, 1, 2}, {0, 0}));
         m.node("GridSample", {"x", "grid"}, {"y"},
                {attr_text("mode", "bilinear"), attr_int("align_corners", 1)});
       },
       {1.5},
       {1, 1, 1, 1}},
      {"GridSample_20_linear",
       20,
       {1, 1, 1, 2},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("grid", {1, 1, 1, 2}, {0, 0}));
         m.node("GridSample", {"x", "grid"}, {"y"},
                {attr_text("mode", "linear"), attr_int("align_corners", 1)});
       },
       {1.5},
       {1, 1, 1, 1}},
      {"RoiAlign_10_without_the_shift",
       10,
       {1, 1, 1, 2},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("regions", {1, 4}, {0, 0, 1, 1}));
         m.initializer(i64("images", {0}));
         m.node("RoiAlign", {"x", "regions", "images"}, {"y"});
       },
       {1.5},
       {1, 1, 1, 1}},
      {"RoiAlign_16_shifted_by_half_a_pixel",
       16,
       {1, 1, 1, 2},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("regions", {1, 4}, {0, 0, 1, 1}));
         m.initializer(i64("images", {0}));
         m.node("RoiAlign", {"x", "regions", "images"}, {"y"});
       },
       {1},
       {1, 1, 1, 1}},
      {"RoiAlign_16_max",
       16,
       {1, 1, 1, 2},
       [](ModelBuilder& m) {
         m.initializer(f32_tensor("regions", {1, 4}, {0, 0, 1, 1}));
         m.initializer(i64("images", {0}));
         m.node("RoiAlign", {"x", "regions", "images"}, {"y"},
                {attr_text("mode", "max"),
                 attr_text("coordinate_transformation_mode", "output_half_pixel")});
       },
       {1},
       {1, 1, 1, 1}},
      {"Reshape_14_allowzero_off_copies",
       14,
       {2, 3},
       one("Reshape", {}, {i64("shape", {0, -1})}),
       counted(6),
       {2, 3}},
      {"Shape_15_start_end",
       15,
       {2, 3, 4},
       [](ModelBuilder& m) {
         m.node("Shape", {"x"}, {"s"}, {attr_int("start", 1), attr_int("end", -1)});
         m.node("Cast", {"s"}, {"y"}, {attr_int("to", kFloat)});
       },
       {3},
       {1}},
      {"Size",
       13,
       {2, 3},
       [](ModelBuilder& m) {
         m.node("Size", {"x"}, {"s"});
         m.node("Cast", {"s"}, {"y"}, {attr_int("to", kFloat)});
       },
       {6},
       {}},
      {"ConstantOfShape_value",
       9,
       {2, 1},
       [](ModelBuilder& m) {
         m.node("Shape", {"x"}, {"s"});
         m.node("ConstantOfShape", {"s"}, {"y"}, {attr_tensor("value", f32("", {2.5F}))});
       },
       {2.5, 2.5},
       {2, 1}},
      {"EyeLike_9", 9, {2, 2}, one("EyeLike", {attr_int("k", 1)}), {0, 1, 0, 0}, {2, 2}},
      {"OneHot_11",
       11,
       {2},
       [](ModelBuilder& m) {
         m.initializer(i64("depth", {3})).initializer(f32("values", {-1, 4}));
         m.node("OneHot", {"x", "depth", "values"}, {"y"}, {attr_int("axis", 0)});
       },
       {-1, -1, 4, -1, -1, 4},
       {3, 2}},
      {"Trilu_14_k",
       14,
       {2, 2},
       one("Trilu", {attr_int("upper", 0)}, {i64_tensor("k", {}, {-1})}),
       {0, 0, 3, 0},
       {2, 2}},
      {"CumSum_14_reverse",
       14,
       {3},
       one("CumSum", {attr_int("reverse", 1)}, {i64_tensor("axis", {}, {0})}),
       {6, 5, 3},
       {3}},
      {"ArgMax_12_last_index",
       12,
       {3},
       [](ModelBuilder& m) {
         m.node("ArgMax", {"x"}, {"i"},
                {attr_int("select_last_index", 1), attr_int("keepdims", 0)});
         m.node("Cast", {"i"}, {"y"}, {attr_int("to", kFloat)});
       },
       {1},
       {},
       {5, 5, 1}},
      {"Gemm_6_broadcast",
       6,
       {1, 2},
       one("Gemm", {attr_int("broadcast", 1), attr_int("transB", 1), attr_float("alpha", 2)},
           {f32_tensor("b", {1, 2}, {3, 4}), f32("c", {1})}),
       {23},
       {1, 1}},
      {"Einsum_12",
       12,
       {2, 2},
       one("Einsum", {attr_text("equation", "ij->ji")}),
       {1, 3, 2, 4},
       {2, 2}},
      {"MaxPool_ceil",
       12,
       {1, 1, 3},
       one("MaxPool",
           {attr_ints("kernel_shape", {2}), attr_ints("strides", {2}), attr_int("ceil_mode", 1)}),
       {2, 3},
       {1, 1, 2}},
      {"AveragePool_counts_padding",
       11,
       {1, 1, 2},
       one("AveragePool", {attr_ints("kernel_shape", {2}), attr_ints("pads", {1, 0}),
                           attr_int("count_include_pad", 1)}),
       {0.5, 1.5},
       {1, 1, 2}},
      {"Conv_same_upper",
       11,
       {1, 1, 3},
       one("Conv", {attr_text("auto_pad", "SAME_UPPER")}, {f32_tensor("w", {1, 1, 2}, {1, 1})}),
       {3, 5, 3},
       {1, 1, 3}},
  };
}

class VersionTest : public ::testing::TestWithParam<VersionCase> {};
TEST_P(VersionTest, ComputesWhatTheVersionSays) { expect_values(GetParam()); }

std::string case_name(const ::testing::TestParamInfo<VersionCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Axes, VersionTest, ::testing::ValuesIn(axes_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Movement, VersionTest, ::testing::ValuesIn(movement_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Elementwise, VersionTest, ::testing::ValuesIn(elementwise_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Norms, VersionTest, ::testing::ValuesIn(norm_and_softmax_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Shapes, VersionTest, ::testing::ValuesIn(shape_and_image_cases()),
                         case_name);

}  // namespace
}  // namespace vernier::onnx
