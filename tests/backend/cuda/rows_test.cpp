// The CUDA list and device: which operators have no row, indices outside their tables, too large
// allocations. Values and bits of the rows: tests/backend/cases. Skips, saying why, without a GPU.
#include <gtest/gtest.h>

#include <set>

#include "backend/cuda/cuda.h"
#include "backend/cuda/device_under_test.h"

namespace vernier::backend::test {
namespace {

// Needs no GPU: the list is the library's own.
TEST(CudaRows, EachHasAnOperatorItsNameAndAClassOfBits) {
  std::set<std::string_view> names;
  for (const KernelDef& kernel : cuda_backend().kernels) {
    EXPECT_TRUE(kernel.name.starts_with("cuda.")) << kernel.name;
    EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name << " is listed twice";
    EXPECT_FALSE(kernel.bit_class.empty()) << kernel.name;
    EXPECT_TRUE(kernel.supports != nullptr && kernel.numerics != nullptr &&
                kernel.launch != nullptr)
        << kernel.name;
    const bool packs = kernel.pack != nullptr;
    EXPECT_TRUE(packs == (kernel.unpack != nullptr) && packs == (kernel.packed_layouts != nullptr))
        << kernel.name << ": pack, unpack and packed_layouts come together or not at all";
  }
}

TEST(CudaRows, OperatorsWithoutOneAreListed) {
  std::string missing;
  int count = 0;
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto op = static_cast<OpKind>(i);
    const auto is_of = [op](const KernelDef& kernel) { return kernel.op == op; };
    if (std::ranges::any_of(cuda_backend().kernels, is_of)) continue;
    missing += " " + std::string(name(op));
    ++count;
  }
  std::printf("no CUDA row, %d of %zu operators:%s\n", count, num_op_kinds(), missing.c_str());
}

class CudaDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = cuda_available(); !here) GTEST_SKIP() << "SKIP: " << here.reason;
  }
};

Tensor indices(Shape shape, std::vector<int64_t> values, DType type = DType::kI64) {
  return Tensor::from(type, std::move(shape), std::span<const int64_t>(values));
}

// The output is unspecified; guards, inputs and the device are intact afterwards.
TEST_F(CudaDevice, IndicesOutsideTheirTableHarmNothing) {
  constexpr int64_t kFar = int64_t{1} << 40;
  Maker make(34);
  std::vector<OpCase> cases;
  const auto add = [&](OpKind op, AttrBytes attrs, std::vector<Arg> inputs, Shape y) {
    OpCase c{.name = std::string(name(op)), .op = op, .attrs = std::move(attrs)};
    c.inputs = std::move(inputs);
    c.outputs = {{.shape = std::move(y), .batch_axis = -1}};
    cases.push_back(std::move(c));
  };
  const AttrBytes axis = encode(AxisAttrs{});
  const Arg table{.value = make.normal({9, 8})}, updates{.value = make.normal({4, 8})};
  add(OpKind::kGather, axis, {table, {.value = indices({4}, {9, -10, kFar, -kFar})}}, {4, 8});
  add(OpKind::kGather, axis,
      {table, {.value = indices({4}, {9, -10, INT32_MAX, INT32_MIN}, DType::kI32)}}, {4, 8});
  add(OpKind::kGatherElements, axis, {table, {.value = indices({1, 4}, {9, -10, kFar, -kFar})}},
      {1, 4});
  add(OpKind::kGatherND, encode(GatherNDAttrs{}),
      {table, {.value = indices({4, 1}, {9, -10, kFar, -kFar})}}, {4, 8});
  add(OpKind::kScatterElements, encode(ScatterAttrs{}),
      {table, {.value = indices({1, 4}, {9, -10, kFar, -kFar})}, {.value = make.normal({1, 4})}},
      {9, 8});
  add(OpKind::kScatterND, encode(ScatterAttrs{}),
      {table, {.value = indices({4, 1}, {9, -10, kFar, -kFar})}, updates}, {9, 8});
  add(OpKind::kEmbedNorm, encode(EmbedNormAttrs{.tables = 1}),
      {{.value = indices({1, 4}, {9, -10, kFar, -kFar})}, table, {.value = make.normal({8})}},
      {1, 4, 8});
  for (const OpCase& c : cases) {
    for (const KernelDef* kernel : rows_of(c)) {
      SCOPED_TRACE(kernel->name);
      run_kernel(*kernel, c, {});
    }
  }
}

TEST_F(CudaDevice, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  const auto device = cuda_backend().make_device({});
  try {
    device->allocate(size_t{1} << 50);
    FAIL() << "2^50 bytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_NE(std::string(error.what()).find("needed 1125899906842624 bytes"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vernier::backend::test
