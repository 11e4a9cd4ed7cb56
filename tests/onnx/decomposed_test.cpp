// Operators for signals and images that import writes in other operators (src/onnx/signal.cpp,
// spatial.cpp, image.cpp, normalization.cpp, matrix.cpp): known answers, and what is refused.
// Numbers are those of NumPy and of ONNX's reference evaluator; LRN's and the indices of MaxPool,
// where that one is wrong, are worked out from the definition.
#include <gtest/gtest.h>

#include <cmath>

#include "onnx/meaning.h"
#include "onnx/version_case.h"

namespace vernier::onnx {
namespace {

class DecomposedTest : public ::testing::TestWithParam<VersionCase> {};
TEST_P(DecomposedTest, ComputesWhatOnnxSays) { expect_values(GetParam()); }
class DecomposedRefused : public ::testing::TestWithParam<RefusedCase> {};
TEST_P(DecomposedRefused, WithTheReason) { expect_refused(GetParam()); }

// y = op(constants): x is not used.
std::function<void(ModelBuilder&)> of_constants(const std::string& op,
                                                const std::vector<Attribute>& attrs,
                                                const std::vector<proto::TensorProto>& constants) {
  return [=](ModelBuilder& model) {
    Names inputs;
    for (const auto& tensor : constants) {
      model.initializer(tensor);
      inputs.push_back(tensor.name());
    }
    model.node(op, inputs, {"y"}, attrs);
  };
}
proto::TensorProto number(const std::string& name, int64_t value) {
  return i64_tensor(name, {}, {value});
}

std::vector<VersionCase> signal_cases() {
  const std::vector<double> three{1, 5, 2};
  const double root = std::sqrt(3.0);
  return {
      {"HannWindow_17_of_a_size",
       17,
       {5},
       [](ModelBuilder& m) {
         m.node("Shape", {"x"}, {"size"});
         m.node("HannWindow", {"size"}, {"y"});
       },
       {0, 0.345491503, 0.904508497, 0.904508497, 0.345491503},
       {5}},
      {"HammingWindow_17_symmetric_f64",
       17,
       {1},
       of_constants("HammingWindow",
                    {attr_int("periodic", 0), attr_int("output_datatype", kDouble)},
                    {number("n", 5)}),
       {0.0869565217, 0.543478261, 1, 0.543478261, 0.0869565217},
       {5}},
      {"BlackmanWindow_17",
       17,
       {1},
       of_constants("BlackmanWindow", {}, {number("n", 6)}),
       {0, 0.13, 0.63, 1, 0.63, 0.13},
       {6}},
      {"HannWindow_17_of_nothing",
       17,
       {1},
       of_constants("HannWindow", {}, {number("n", 0)}),
       {},
       {0}},
      {"MelWeightMatrix_17",
       17,
       {1},
       of_constants("MelWeightMatrix", {},
                    {number("bins", 3), number("length", 16), number("rate", 16000),
                     scalar("low", 0), scalar("high", 8000)}),
       {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
       {9, 3}},
      {"DFT_17_axis_is_an_attribute",
       17,
       {1, 3, 1},
       one("DFT", {}),
       {8, 0, -2.5, -1.5 * root, -2.5, 1.5 * root},
       {1, 3, 2},
       three},
      {"DFT_19_last_axis",
       19,
       {2, 1, 3, 1},
       one("DFT", {attr_int("axis", -2)}),
       {8, 0, -2.5, -1.5 * root, -2.5, 1.5 * root, -3, 0, 1.5, -2.5 * root, 1.5, 2.5 * root},
       {2, 1, 3, 2},
       {1, 5, 2, 0, 1, -4}},
      {"DFT_20_first_axis_of_complex_numbers",
       20,
       {3, 2, 2},
       one("DFT", {}, {absent(), number("axis", -3)}),
       {14, 8, 11, 14, -0.303847577, 1.59807621, 5.92820323, -6.19615242, -10.6961524, -3.59807621,
        -7.92820323, 4.19615242},
       {3, 2, 2},
       {1, 2, 3, 4, 5, 6, 7, 9, 8, 0, 1, 1}},
      {"DFT_20_onesided_with_zeros_added",
       20,
       {1, 3, 1},
       one("DFT", {attr_int("onesided", 1)}, {number("length", 5)}),
       {8, 0, 0.927050983, -5.93085309, -2.42705098, -1.03681323},
       {1, 3, 2},
       three},
      {"DFT_20_cut",
       20,
       {1, 3, 1},
       one("DFT", {}, {number("length", 2)}),
       {6, 0, -4, 0},
       {1, 2, 2},
       three},
      {"DFT_20_inverse",
       20,
       {1, 3, 2},
       one("DFT", {attr_int("inverse", 1)}),
       {1, 2, 2.02072594, 2.07735027, -2.02072594, 0.922649731},
       {1, 3, 2},
       {1, 5, 2, -3, 0, 4}},
      {"DFT_20_inverse_of_half_a_spectrum",
       20,
       {1, 3, 2},
       one("DFT", {attr_int("inverse", 1), attr_int("onesided", 1)}),
       {2.5, 0.5, 0.5, -2.5},
       {1, 4, 1},
       {1, 0, 2, -3, 5, 0}},
      {"DFT_20_inverse_to_an_odd_length",
       20,
       {1, 3, 2},
       one("DFT", {attr_int("inverse", 1), attr_int("onesided", 1)}, {number("length", 5)}),
       {3, -0.970008972, 2.39785342, -2.05621246, -1.37163199},
       {1, 5, 1},
       {1, 0, 2, -3, 5, 4}},
      {"STFT_17",
       17,
       {1, 7, 1},
       one("STFT", {}, {number("step", 2), absent(), number("length", 3)}),
       {8, 0, -2.5, -1.5 * root, 5, 0, 0.5, 1.5 * root, 6, 0, 1.5, 2.5 * root},
       {1, 3, 2, 2},
       {1, 5, 2, 0, 3, -1, 4}},
      {"STFT_17_window",
       17,
       {1, 5, 1},
       one("STFT", {}, {number("step", 1), f32("window", {0.5F, 1, 0.5F, 0})}),
       {6.5, 0, -0.5, -5, -3.5, 0, 4.5, 0, 2.5, -2, 0.5, 0},
       {1, 2, 3, 2},
       {1, 5, 2, 0, 3}},
      {"STFT_17_complex",
       17,
       {1, 3, 2},
       one("STFT", {attr_int("onesided", 0)}, {number("step", 1), absent(), number("length", 2)}),
       {3, 5, -1, 5, 5, -1, -1, 1},
       {1, 2, 2, 2},
       {1, 5, 2, 0, 3, -1}},
  };
}

std::vector<VersionCase> image_cases() {
  const std::vector<Attribute> pairs{attr_ints("kernel_shape", {2}), attr_ints("strides", {2})};
  const auto indices = [](int64_t storage_order) {
    return [=](ModelBuilder& m) {
      m.node("MaxPool", {"x"}, {"values", "i"},
             {attr_ints("kernel_shape", {2, 2}), attr_int("storage_order", storage_order)});
      m.node("Cast", {"i"}, {"y"}, {attr_int("to", kFloat)});
    };
  };
  // Offsets (y, x) of each of 2 x 2 taps at 2 x 2 places, and the mask of each.
  std::vector<float> offsets, mask{1, 0.5F, 2, 0, 1, 1, 1, 0.5F, 0.25F, 1, 1, 1, 2, 1, 1, 1};
  for (const float own : {0.0F, 0.5F, -0.25F, 0.0F, 1.0F, -1.0F, 0.75F, 2.0F})
    offsets.insert(offsets.end(), {own, 0.25F, -0.5F, own});
  const std::vector<Attribute> crop{
      attr_text("mode", "linear"),
      attr_text("coordinate_transformation_mode", "tf_crop_and_resize"),
      attr_float("extrapolation_value", 7)};
  std::vector<Attribute> crop_axes = crop;
  crop_axes.push_back(attr_ints("axes", {2, -1}));
  return {
      {"LRN_13",
       13,
       {1, 4, 2},
       one("LRN", {attr_int("size", 3), attr_float("alpha", 0.5F), attr_float("bias", 2)}),
       {0.377395248, 0.569876764, 0.6407097, 0.647577491, 0.629927746, 0.604445587, 0.950249477,
        0.890819895},
       {1, 4, 2}},
      {"LRN_13_of_an_even_size",
       13,
       {1, 4},
       one("LRN", {attr_int("size", 4), attr_float("alpha", 1), attr_float("beta", 1)}),
       {0.222222222, 0.235294118, 0.363636364, 0.551724138},
       {1, 4}},
      {"MaxPool_12_indices", 12, {1, 2, 2, 3}, indices(0), {4, 5, 10, 11}, {1, 2, 1, 2}},
      {"MaxPool_12_indices_column_by_column",
       12,
       {1, 2, 2, 3},
       indices(1),
       {3, 5, 9, 11},
       {1, 2, 1, 2}},
      {"MaxUnpool_11",
       11,
       {1, 1, 2},
       one("MaxUnpool", pairs, {i64_tensor("i", {1, 1, 2}, {1, 2})}),
       {0, 1, 2, 0},
       {1, 1, 4}},
      {"MaxUnpool_11_output_shape",
       11,
       {1, 1, 2},
       one("MaxUnpool", pairs, {i64_tensor("i", {1, 1, 2}, {1, 2}), i64("shape", {1, 1, 5})}),
       {0, 1, 2, 0, 0},
       {1, 1, 5}},
      {"Col2Im_18",
       18,
       {1, 8, 2},
       one("Col2Im", {}, {i64("image", {2, 3}), i64("block", {2, 2})}),
       {1, 5, 4, 5, 13, 8, 9, 21, 12, 13, 29, 16},
       {1, 2, 2, 3}},
      {"Col2Im_18_pads_strides_dilations",
       18,
       {1, 4, 4},
       one("Col2Im",
           {attr_ints("dilations", {2, 1}), attr_ints("pads", {1, 0, 0, 1}),
            attr_ints("strides", {1, 2})},
           {i64("image", {3, 4}), i64("block", {2, 2})}),
       {3, 7, 4, 8, 9, 13, 10, 14, 11, 15, 12, 16},
       {1, 1, 3, 4}},
      {"AffineGrid_20",
       20,
       {1, 2, 3},
       one("AffineGrid", {}, {i64("size", {1, 1, 2, 3})}),
       {4.0 / 3, 5.0 / 6, 2, 3.5, 8.0 / 3, 37.0 / 6, 10.0 / 3, 35.0 / 6, 4, 8.5, 14.0 / 3,
        67.0 / 6},
       {1, 2, 3, 2}},
      {"AffineGrid_20_align_corners",
       20,
       {1, 2, 3},
       one("AffineGrid", {attr_int("align_corners", 1)}, {i64("size", {1, 1, 2, 3})}),
       {0, -3, 1, 1, 2, 5, 4, 7, 5, 11, 6, 15},
       {1, 2, 3, 2}},
      {"AffineGrid_20_three_axes",
       20,
       {1, 3, 4},
       one("AffineGrid", {}, {i64("size", {1, 1, 1, 2, 1})}),
       {3, 5, 7, 5, 11, 17},
       {1, 1, 2, 1, 3}},
      {"DeformConv_19",
       19,
       {1, 2, 3, 3},
       one("DeformConv", {attr_int("group", 2)},
           {f32_tensor("w", {2, 1, 2, 2}, {1, 2, 3, 4, -1, 0, 2, 1}),
            f32_tensor("offset", {1, 8, 2, 2}, offsets), f32("bias", {1, -1}),
            f32_tensor("mask", {1, 4, 2, 2}, mask)}),
       {5.5, 46.375, 41.75, 6.25, -11.5, 34.8125, 17, -1},
       {1, 2, 2, 2}},
      {"Resize_18_crop",
       18,
       {1, 1, 3, 3},
       one("Resize", crop,
           {f32("region", {0, 0, 0.5F, -0.25F, 1, 1, 1, 0.75F}), absent(),
            i64("sizes", {1, 1, 2, 3})}),
       {7, 4.5, 5.5, 7, 7.5, 8.5},
       {1, 1, 2, 3}},
      {"Resize_18_crop_to_one_row",
       18,
       {1, 1, 3, 3},
       one("Resize", crop_axes,
           {f32("region", {0.25F, 0, 0.5F, 1}), absent(), i64("sizes", {1, 3})}),
       {3.25, 4.25, 5.25},
       {1, 1, 1, 3}},
  };
}

std::vector<VersionCase> bit_cases() {
  return {
      {"CumProd_26",
       26,
       {2, 3},
       one("CumProd", {attr_int("reverse", 1), attr_int("exclusive", 1)}, {number("axis", -1)}),
       {6, 3, 1, 30, 6, 1},
       {2, 3}},
      {"BitCast_26",
       26,
       {2},
       [](ModelBuilder& m) {  // the sign bit of 1 and -2
         m.node("BitCast", {"x"}, {"bits"}, {attr_int("to", kInt32)});
         m.initializer(f32("zero", {0}));
         m.node("Cast", {"zero"}, {"none"}, {attr_int("to", kInt32)});
         m.node("Less", {"bits", "none"}, {"negative"});
         m.node("Cast", {"negative"}, {"y"}, {attr_int("to", kFloat)});
       },
       {0, 1},
       {2},
       {1, -2}},
      {"Det_11", 11, {1, 2, 2}, one("Det", {}), {-2}, {1}},
  };
}

Build at(int64_t opset, const std::string& op, const std::vector<TestDim>& dims,
         const std::vector<Attribute>& attrs,
         const std::vector<proto::TensorProto>& constants = {}) {
  return [=](ModelBuilder& m) {
    m.model().mutable_opset_import(0)->set_version(opset);
    m.input("x", kFloat, dims);
    one(op, attrs, constants)(m);
  };
}
Build open_size(const std::string& op) {
  return [=](ModelBuilder& m) { m.input("n", kInt64, {}).node(op, {"n"}, {"y"}); };
}

std::vector<RefusedCase> refused_cases() {
  const Attribute onesided = attr_int("onesided", 1), inverse = attr_int("inverse", 1);
  const Attribute crop = attr_text("coordinate_transformation_mode", "tf_crop_and_resize");
  const Attribute linear = attr_text("mode", "linear");
  const proto::TensorProto region = f32("region", {0, 0, 0, 0, 1, 1, 1, 1});
  const proto::TensorProto weights = f32_tensor("w", {1, 1, 2, 2}, {1, 2, 3, 4});
  return {
      {"window_of_an_open_size", open_size("HannWindow"),
       "input 0 is not known when the engine is built; make it a constant"},
      {"window_of_two_sizes", at(17, "BlackmanWindow", {2}, {}), "input 0 is not known"},
      {"mel_of_an_open_size", open_size("MelWeightMatrix"), "input 0 is not known"},
      {"mel_edges",
       of_constants("MelWeightMatrix", {},
                    {number("bins", 3), number("length", 16), number("rate", 16000),
                     scalar("low", 9000), scalar("high", 8000)}),
       "the edges are 9000.000000 and 8000.000000 hertz"},
      {"mel_beyond_the_spectrum",
       of_constants("MelWeightMatrix", {},
                    {number("bins", 30), number("length", 16), number("rate", 16000),
                     scalar("low", 0), scalar("high", 16000)}),
       "is beyond the 9 bins of the spectrum"},
      {"mel_without_bins",
       of_constants("MelWeightMatrix", {},
                    {number("bins", 0), number("length", 16), number("rate", 16000),
                     scalar("low", 0), scalar("high", 8000)}),
       "input 0 is 0; expected 1.."},
      {"dft_of_an_open_size", at(20, "DFT", {1, "n", 1}, {}), "the size of axis 1 is not fixed"},
      {"dft_of_triples", at(20, "DFT", {1, 4, 3}, {}), "expected a last axis of 1 or 2"},
      {"dft_along_the_parts", at(17, "DFT", {1, 4, 2}, {attr_int("axis", 2)}),
       "the axis 2 is not one of the signal's axes of [1, 4, 2]"},
      {"dft_onesided_of_complex_numbers", at(20, "DFT", {1, 4, 2}, {onesided}),
       "attribute 'onesided' is 1; expected real numbers"},
      {"dft_inverse_onesided_of_real_numbers", at(20, "DFT", {1, 4, 1}, {onesided, inverse}),
       "attribute 'onesided' is 1; expected complex numbers"},
      {"dft_of_nothing", at(20, "DFT", {1, 1, 2}, {onesided, inverse}),
       "axis 1 of [1, 1, 2] has too few points"},
      {"dft_that_is_too_long", at(20, "DFT", {1, 8192, 1}, {}),
       "its 8192 points make a matrix of more than 2^26 numbers"},
      {"stft_rank", at(17, "STFT", {7, 1}, {}, {number("step", 2)}),
       "expected floats of [batch, length, 1 or 2]"},
      {"stft_longer_than_the_signal",
       at(17, "STFT", {1, 7, 1}, {}, {number("step", 2), absent(), number("length", 8)}),
       "frames of 8 do not fit the signal's length 7"},
      {"stft_window_of_another_length",
       at(17, "STFT", {1, 7, 1}, {}, {number("step", 2), f32("w", {1, 1}), number("length", 3)}),
       "the window has 2 numbers; expected those of a frame, 3"},
      {"stft_step", at(17, "STFT", {1, 7, 1}, {}, {number("step", 0)}),
       "input 1 is 0; expected 1.."},
      {"lrn_of_no_channels", at(13, "LRN", {1, 4, 2}, {attr_int("size", 0)}),
       "size is 0; expected 1 or more"},
      {"lrn_rank", at(13, "LRN", {4}, {attr_int("size", 3)}), "expected [N, C, ...]"},
      {"col2im_blocks",
       at(18, "Col2Im", {1, 8, 3}, {}, {i64("image", {2, 3}), i64("block", {2, 2})}),
       "input 0 has shape [1, 8, 3]; expected [N, C * 4, 2]"},
      {"col2im_axes", at(18, "Col2Im", {1, 8, 3}, {}, {i64("image", {2, 3}), i64("block", {2})}),
       "the image [2, 3] and the block [2] have different axes"},
      {"col2im_block_larger_than_the_image",
       at(18, "Col2Im", {1, 8, 3}, {}, {i64("image", {2, 3}), i64("block", {4, 2})}),
       "a block spans 4 positions of axis 0 of the image [2, 3]"},
      {"col2im_strides",
       at(18, "Col2Im", {1, 8, 2}, {attr_ints("strides", {0, 1})},
          {i64("image", {2, 3}), i64("block", {2, 2})}),
       "attribute 'strides' holds 0; expected 1 or more"},
      {"max_unpool_smaller_than_its_windows",
       at(11, "MaxUnpool", {1, 1, 2}, {attr_ints("kernel_shape", {2}), attr_ints("strides", {2})},
          {i64_tensor("i", {1, 1, 2}, {1, 2}), i64("shape", {1, 1, 3})}),
       "the output_shape [1, 1, 3] is smaller than [1, 1, 4]"},
      {"max_unpool_kernel",
       at(11, "MaxUnpool", {1, 1, 2}, {attr_ints("kernel_shape", {2, 2})},
          {i64_tensor("i", {1, 1, 2}, {1, 2})}),
       "attribute 'kernel_shape' has 2 items; expected 1"},
      {"affine_grid_sizes", at(20, "AffineGrid", {1, 2, 3}, {}, {i64("size", {1, 2, 3})}),
       "input 1 has 3 sizes; expected [N, C, H, W]"},
      {"affine_grid_matrices", at(20, "AffineGrid", {1, 3, 3}, {}, {i64("size", {1, 1, 2, 3})}),
       "input 0 has shape [1, 3, 3]; expected [1, 2, 3]"},
      {"deform_conv_offsets",
       at(19, "DeformConv", {1, 1, 3, 3}, {},
          {weights, f32_tensor("offset", {1, 8, 1, 1}, std::vector<float>(8))}),
       "the offsets have shape [1, 8, 1, 1]; expected [1, 8, 2, 2]"},
      {"deform_conv_of_an_open_size",
       at(19, "DeformConv", {1, 1, "h", 3}, {},
          {weights, f32_tensor("offset", {1, 8, 2, 2}, std::vector<float>(32))}),
       "is not fixed"},
      {"crop_by_scales",
       at(18, "Resize", {1, 1, 3, 3}, {crop, linear}, {region, f32("scales", {1, 1, 2, 2})}),
       "it crops by scales, which runtimes read differently; give it sizes"},
      {"crop_to_the_nearest",
       at(18, "Resize", {1, 1, 3, 3}, {crop}, {region, absent(), i64("sizes", {1, 1, 2, 2})}),
       "it crops in another mode than linear"},
      {"crop_of_channels",
       at(18, "Resize", {1, 2, 3, 3}, {crop, linear},
          {region, absent(), i64("sizes", {1, 1, 2, 2})}),
       "it crops other axes than the last two of [N, C, H, W]"},
      {"crop_of_another_rank",
       at(18, "Resize", {1, 1, 3, 3}, {crop, linear}, {region, absent(), i64("sizes", {2, 2})}),
       "has 8 ends of its region and 2 sizes for 4 axes"},
      {"crop_to_nothing",
       at(18, "Resize", {1, 1, 3, 3}, {crop, linear},
          {region, absent(), i64("sizes", {1, 1, 2, 0})}),
       "axis 3 becomes 0 places of a region"},
      {"bit_cast_to_another_width", at(26, "BitCast", {2}, {attr_int("to", kInt64)}),
       "the bits of f32 are not those of i64"},
  };
}

std::string case_name(const ::testing::TestParamInfo<VersionCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Signals, DecomposedTest, ::testing::ValuesIn(signal_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Images, DecomposedTest, ::testing::ValuesIn(image_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Others, DecomposedTest, ::testing::ValuesIn(bit_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Reasons, DecomposedRefused, ::testing::ValuesIn(refused_cases()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace vernier::onnx
