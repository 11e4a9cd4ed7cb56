// Cases of the norms over rows, softmax, EmbedNorm, L2Norm and MaskedMean.
#include <cmath>

#include "backend/harness.h"

namespace vernier::backend::test {
namespace {

// x - mean is exact to 2^-24·|mean|, which is a share |mean|/σ of the result. A mean near 0, about
// σ/√cols, is as far off as the sum it comes from.
double norm_ulps(int64_t cols, double mean) {
  return 16 + 2 * std::sqrt(static_cast<double>(cols)) + 4 * mean;
}

struct NormSizes {
  int64_t rows, cols;
  double mean = 0;
  bool f32_constants = false;  // scale and bias, as encoders in 16 bits have them
};

// LayerNorm with all outputs and with one, RMSNorm, AddLayerNorm with both outputs and with one.
void add_norms(std::vector<OpCase>& cases, Maker& make, const NormSizes& s) {
  const int64_t rows = s.rows, cols = s.cols;
  const Arg x{.value = make.normal({rows, cols}, s.mean), .batch_axis = 0};
  const Arg y{.value = make.normal({rows, cols}), .batch_axis = 0};
  const auto parameter = [&s](Tensor value) {
    return Arg{
        .value = std::move(value), .constant = s.f32_constants, .stays_f32 = s.f32_constants};
  };
  const Arg scale = parameter(make.normal({cols}, 1, 0.1)), bias = parameter(make.normal({cols}));
  OpCase c{.op = OpKind::kLayerNorm, .attrs = encode(NormAttrs{.axis = -1, .epsilon = 1e-5})};
  const std::string name =
      str(x.value.shape()) + " mean " + std::to_string(static_cast<int>(s.mean));
  c.ulps = norm_ulps(cols, s.mean);
  c.name = "layer norm with statistics " + name;
  c.inputs = {x, scale, bias};
  c.outputs = {{.shape = {rows, cols}}, {.shape = {rows, 1}}, {.shape = {rows, 1}}};
  cases.push_back(c);
  // A mean near 0 is a small part of its longest partial sum.
  if (cols > 1024) cases.back().ulps += static_cast<double>(cols) / 32;
  c.name = "layer norm " + name;
  c.outputs.resize(1);
  cases.push_back(c);
  c.name = "add norm " + name;
  c.op = OpKind::kAddLayerNorm;
  c.inputs = {x, y, scale, bias};
  cases.push_back(c);
  c.name = "add norm with sum " + name;
  c.outputs = {{.shape = {rows, cols}}, {.shape = {rows, cols}}};
  cases.push_back(c);
  c.name = "rms norm " + name;
  c.op = OpKind::kRMSNorm;
  c.inputs = {x, scale};
  c.outputs.resize(1);
  // Squares have one sign: roundings of a long running sum lean to one side.
  c.ulps = 16 + (cols > 1024 ? static_cast<double>(cols) / 32 : 0);
  cases.push_back(c);
}

const Cases kNorms("Norms", [] {
  Maker make(1);
  std::vector<OpCase> cases;
  for (int64_t cols : {1, 3, 17, 33, 64, 127, 256, 768}) {
    for (double mean : {0.0, 1000.0}) add_norms(cases, make, {5, cols, mean});
  }
  return cases;
});

const Cases kLongNorms("NormsLongRows", [] {
  Maker make(101);
  std::vector<OpCase> cases;
  for (int64_t cols : {31, 384, 1024, 4096, 8193, 20000}) {
    for (double mean : {0.0, 300.0}) add_norms(cases, make, {3, cols, mean});
  }
  for (OpCase& c : cases) c.device_only = true;
  return cases;
});

const Cases kManyNorms("NormsManyRows", [] {
  Maker make(102);
  std::vector<OpCase> cases;
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{1000, 1}, {1000, 3}, {4097, 384}, {513, 768}})
    add_norms(cases, make, {rows, cols});
  for (OpCase& c : cases) {
    c.device_only = true;
    c.checks = Checks::kSampled;
  }
  return cases;
});

// Widths that have a kernel of their own, and others.
const Cases kEncoderNorms("NormsOfEncoders", [] {
  Maker make(106);
  std::vector<OpCase> cases;
  for (int64_t cols : {8, 256, 264, 384, 512, 768, 1000, 1024})
    add_norms(cases, make, {7, cols, cols == 768 ? 30.0 : 0.0, true});
  // More than a device works on at a time; of all widths, rows of which a few take another kernel.
  add_norms(cases, make, {4501, 384, 0, true});
  for (int64_t cols : {256, 512, 768, 1024}) add_norms(cases, make, {1101, cols, 0, true});
  for (OpCase& c : cases) {
    c.device_only = true;
    if (c.outputs[0].shape[0] > 1000) c.checks = Checks::kSampled;
  }
  return cases;
});

OpCase softmax_case(OpKind op, int64_t axis, Tensor x) {
  OpCase c{.op = op, .attrs = encode(AxisAttrs{.axis = axis})};
  c.name = str(x.shape()) + " axis " + std::to_string(axis);
  const int batch = axis == 0 ? 1 : 0;  // alone, a line along axis 0 lies like one along the last
  c.outputs = {{.shape = x.shape(), .batch_axis = batch}};
  c.inputs = {{.value = std::move(x), .batch_axis = batch}};
  return c;
}

const Cases kSoftmax("Softmax", [] {
  Maker make(2);
  std::vector<OpCase> cases;
  for (int64_t cols : {1, 3, 17, 33, 127, 512}) {
    for (OpKind op : {OpKind::kSoftmax, OpKind::kLogSoftmax}) {
      for (int64_t axis : {-1, 1})
        cases.push_back(softmax_case(op, axis, make.normal({4, 3, cols}, 0, 5)));
    }
  }
  return cases;
});

const Cases kLongSoftmax("SoftmaxLongRows", [] {
  Maker make(104);
  std::vector<OpCase> cases;
  for (OpKind op : {OpKind::kSoftmax, OpKind::kLogSoftmax}) {
    for (int64_t cols : {31, 384, 768, 1024, 4096, 8193, 20000}) {
      cases.push_back(softmax_case(op, -1, make.normal({3, cols}, 0, 5)));
      // Sums of some thousand terms, one after the other on a machine without vectors.
      if (cols > 1024) cases.back().ulps = 16 + std::sqrt(static_cast<double>(cols));
    }
    cases.push_back(softmax_case(op, 0, make.normal({1025, 7}, 0, 5)));
    cases.back().ulps = 64;
    cases.push_back(softmax_case(op, 1, make.normal({2, 300, 33}, 100, 5)));
    cases.back().ulps = 64;
  }
  for (OpCase& c : cases) c.device_only = true;
  return cases;
});

// Sizes on both sides of those at which a device divides rows in another way.
const Cases kSoftmaxRows("SoftmaxRowSizes", [] {
  Maker make(105);
  std::vector<OpCase> cases;
  for (int64_t cols : {8,    16,   24,   32,   60,   64,    96,    100,   128,   200,   256,  390,
                       512,  520,  768,  1000, 1023, 1500,  1536,  2000,  2048,  3072,  4095, 4096,
                       6000, 8191, 8192, 9000, 9001, 12288, 16384, 16385, 30522, 32768, 32769}) {
    cases.push_back(softmax_case(OpKind::kSoftmax, -1, make.normal({7, cols}, 0, 5)));
    if (cols > 1024) cases.back().ulps = 16 + std::sqrt(static_cast<double>(cols));
    if (cols > 4096) cases.back().checks = Checks::kValues;
  }
  cases.push_back(softmax_case(OpKind::kSoftmax, -1, make.normal({1001, 64}, 0, 5)));
  cases.back().checks = Checks::kValues;
  for (OpCase& c : cases) c.device_only = true;
  return cases;
});

OpCase embed_case(Maker& make, int64_t width, int64_t tables, bool f32_constants) {
  OpCase c{.op = OpKind::kEmbedNorm,
           .attrs = encode(EmbedNormAttrs{.tables = tables, .epsilon = 1e-5})};
  c.name = "embed " + std::to_string(width) + " of " + std::to_string(tables);
  c.inputs = {{.value = make.integers(DType::kI64, {3, 9}, -50, 49), .batch_axis = 0},
              {.value = make.normal({50, width})},
              {.value = make.integers(DType::kI64, {1, 9}, 0, 19)},
              {.value = make.normal({20, width})},
              {.value = make.integers(DType::kI32, {3, 9}, 0, 1), .batch_axis = 0},
              {.value = make.normal({2, width})}};
  c.inputs.resize(static_cast<size_t>(2 * tables));
  for (int i = 0; i < 2; ++i)
    c.inputs.push_back(
        {.value = make.normal({width}), .constant = f32_constants, .stays_f32 = f32_constants});
  c.outputs = {{.shape = {3, 9, width}}};
  // Sums of three numbers whose deviation may be small beside them.
  c.ulps = 64;
  c.device_only = width > 256 || f32_constants;
  return c;
}

const Cases kEmbeddings("EmbedNorm", [] {
  Maker make(45);
  std::vector<OpCase> cases;
  for (int64_t width : {1, 17, 64, 127, 256, 768, 1024})
    cases.push_back(embed_case(make, width, 3, false));
  for (int64_t width : {64, 256, 384, 768, 1024})
    cases.push_back(embed_case(make, width, width == 384 ? 2 : 3, true));
  return cases;
});

OpCase l2_norm_case(Tensor x, double minimum = 1e-12) {
  OpCase c{.op = OpKind::kL2Norm, .attrs = encode(L2NormAttrs{.minimum = minimum})};
  c.name = std::string(name(x.dtype())) + str(x.shape());
  c.outputs = {{.dtype = x.dtype(), .shape = x.shape()}};
  c.inputs = {{.value = std::move(x), .batch_axis = 0}};
  c.ulps = 4;  // the roundings of the norm and of the quotient
  return c;
}

const Cases kL2Norms("L2Norm", [] {
  Maker make(108);
  std::vector<OpCase> cases;
  for (int64_t cols : {1, 3, 33, 384, 768, 1000, 1025, 9001}) {
    cases.push_back(l2_norm_case(make.normal({5, cols})));
    cases.push_back(l2_norm_case(make.normal({3, 2, cols}, 3)));
    cases.push_back(l2_norm_case(make.normal({5, cols}), 1000));
    cases.back().name += " below the minimum";
    cases.push_back(l2_norm_case(make.normal({2, cols}, 0, 1e30)));
    cases.back().name += " with squares beyond f32";
    cases.back().inputs[0].stays_f32 = true;
  }
  cases.push_back(l2_norm_case(make.normal({1001, 384})));
  cases.back().checks = Checks::kSampled;
  for (OpCase& c : cases)
    c.device_only = c.outputs[0].shape.back() > 768 || c.checks == Checks::kSampled;
  cases.push_back(l2_norm_case(make.normal({7})));
  cases.back().inputs[0].batch_axis = cases.back().outputs[0].batch_axis = -1;
  const std::vector<double> zeros{3, 4, 0, 0, -4, 3};
  cases.push_back(l2_norm_case(Tensor::from(DType::kF32, {3, 2}, std::span(zeros))));
  cases.push_back(l2_norm_case(make.normal({0, 5})));
  cases.push_back(l2_norm_case(make.normal({5, 0})));
  for (int64_t cols : {3, 1025}) {
    std::vector<double> values;
    const Tensor x = make.normal({5, cols});
    for (int64_t i = 0; i < x.elems(); ++i) values.push_back(x.float_at(i));
    cases.push_back(l2_norm_case(Tensor::from(DType::kF64, {5, cols}, std::span(values))));
    cases.back().device_only = true;
    cases.push_back(cases.back());
    cases.back().name += " to f32";
    cases.back().outputs[0].dtype = DType::kF32;
  }
  return cases;
});

const Cases kMaskedMeans("MaskedMean", [] {
  Maker make(105);
  std::vector<OpCase> cases;
  for (int64_t width : {1, 17, 64, 127, 256, 1024}) {
    for (int64_t seq : {9, 300}) {
      for (DType type : {DType::kF32, DType::kI64, DType::kBool}) {
        OpCase c{.op = OpKind::kMaskedMean, .attrs = encode(MaskedMeanAttrs{.minimum = 1e-9})};
        c.name = "masked mean " + std::to_string(seq) + " of " + std::to_string(width);
        c.inputs = {{.value = make.normal({3, seq, width}), .batch_axis = 0},
                    {.value = make.integers(type, {3, seq}, 0, 1), .batch_axis = 0}};
        c.outputs = {{.shape = {3, width}}};
        // A sum that cancels: its error is that of its terms.
        if (seq > 9) c.ulps = 128;
        c.device_only = seq > 9 || width > 256;
        cases.push_back(c);
      }
    }
  }
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
