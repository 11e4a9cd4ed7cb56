// Cases of Resize: nearest and linear, by size and by scale, on any axes.
#include "backend/cases/resize.h"

#include <algorithm>
#include <array>
#include <limits>

namespace vernier::backend::test {
namespace {

constexpr std::array kCoordinateModes{"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                      "align_corners", "asymmetric"};

}  // namespace

OpCase resize_case(Maker& make, const Resampling& r, DType type) {
  OpCase c{.op = OpKind::kResize, .attrs = encode(r.attrs)};
  c.name = r.attrs.mode == Interpolation::kNearest ? "nearest " : "linear ";
  c.name += r.attrs.coordinate_mode + " " + r.attrs.nearest_mode + " ";
  c.name += str(r.x) + " to " + str(r.y) + (r.scales.empty() ? " by size" : " by scale");
  const bool batched = r.x[0] == r.y[0];
  // All the bits that a type has: large integers are not doubles.
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = -(kMin + 1);
  const int64_t low = is_integer(type) ? kMin : 0, high = is_integer(type) ? kMax : 1;
  c.inputs = {
      {.value = type == DType::kF32 ? make.normal(r.x) : make.integers(type, r.x, low, high),
       .batch_axis = batched ? 0 : -1},
      {}};
  if (r.scales.empty()) {
    std::vector<int64_t> sizes;
    for (size_t i = 0; i < r.y.size(); ++i) {
      if (r.attrs.axes.empty() || std::count(r.attrs.axes.begin(), r.attrs.axes.end(), i) > 0)
        sizes.push_back(r.y[i]);
    }
    // The size of the batch is its own, whatever row is looked at.
    if (batched && r.attrs.axes.empty()) c.inputs[0].batch_axis = -1;
    c.inputs.push_back({});
    c.inputs.push_back({.value = Tensor::from(DType::kI64, {static_cast<int64_t>(sizes.size())},
                                              std::span<const int64_t>(sizes))});
  } else {
    c.inputs.push_back({.value = Tensor::from(DType::kF32, {static_cast<int64_t>(r.scales.size())},
                                              std::span<const double>(r.scales)),
                        .constant = true,
                        .special = false,
                        .stays_f32 = true});
  }
  c.outputs = {{.dtype = type, .shape = r.y, .batch_axis = c.inputs[0].batch_axis}};
  c.exact = r.attrs.mode == Interpolation::kNearest;
  c.ulps = 8;  // four products with f32 weights and their sum
  return c;
}

namespace {

const Cases kNearest("ResizeNearest", [] {
  Maker make(61);
  std::vector<OpCase> cases;
  for (const char* coordinates : kCoordinateModes) {
    for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      const ResizeAttrs attrs{.coordinate_mode = coordinates, .nearest_mode = nearest};
      for (const Resampling& r :
           std::vector<Resampling>{{attrs, {2, 3, 5, 7}, {2, 3, 10, 14}, {1, 1, 2, 2}},
                                   {attrs, {2, 3, 5, 7}, {2, 3, 2, 17}, {1, 1, 0.5, 2.5}},
                                   {attrs, {2, 3, 5, 7}, {2, 3, 8, 1}, {}},
                                   {attrs, {3, 33}, {3, 17}, {}},
                                   {attrs, {2, 3, 4, 5}, {4, 4, 6, 5}, {}},
                                   {attrs, {7}, {0}, {}}}) {
        cases.push_back(resize_case(make, r));
      }
    }
  }
  for (DType type : {DType::kF16, DType::kBool, DType::kU8, DType::kI32, DType::kI64}) {
    const Resampling r{{.axes = {2, -1}}, {2, 3, 5, 7}, {2, 3, 11, 6}, {2.2, 0.9}};
    cases.push_back(resize_case(make, r, type));
  }
  return cases;
});

const Cases kLinear("ResizeLinear", [] {
  Maker make(62);
  std::vector<OpCase> cases;
  for (const char* coordinates : kCoordinateModes) {
    const ResizeAttrs attrs{.mode = Interpolation::kLinear, .coordinate_mode = coordinates};
    ResizeAttrs middle = attrs;
    middle.axes = {1, 2};
    for (const Resampling& r :
         std::vector<Resampling>{{attrs, {2, 3, 5, 7}, {2, 3, 10, 14}, {1, 1, 2, 2}},
                                 {attrs, {2, 3, 5, 7}, {2, 3, 2, 17}, {1, 1, 0.5, 2.5}},
                                 {attrs, {2, 3, 5, 7}, {2, 3, 8, 1}, {}},
                                 {middle, {2, 5, 7, 3}, {2, 9, 33, 3}, {}},
                                 {middle, {2, 5, 7, 3}, {2, 5, 3, 3}, {1, 0.5}},
                                 {attrs, {2, 5, 3, 7}, {2, 9, 3, 12}, {}},
                                 {attrs, {3, 33}, {3, 17}, {}},
                                 {attrs, {5, 4}, {5, 4}, {}},
                                 {attrs, {3, 5}, {3, 0}, {}}}) {
      cases.push_back(resize_case(make, r));
    }
  }
  return cases;
});

}  // namespace
}  // namespace vernier::backend::test
