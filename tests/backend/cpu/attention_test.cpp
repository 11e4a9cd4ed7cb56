// What the CPU's attention refuses and how little memory it needs. Its cases:
// tests/backend/cases/attention.cpp.
#include "backend/cases/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu.h"

namespace vernier::backend::test {
namespace {

TEST(CpuAttention, BadSequenceTablesAreErrors) {
  Maker make(5);
  for (const std::vector<int64_t>& starts :
       std::vector<std::vector<int64_t>>{{1, 5}, {0, 5, 3}, {0, 49}}) {
    const OpCase c = packed_attention_case(make, starts);
    try {
      run_kernel(*find_kernel(cpu_backend(), "cpu.attention.blocked"), c, {});
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("cu_seqlens_q must ascend from 0 to at most 48"));
    }
  }
}

TEST(CpuAttention, AttentionOf8192TokensNeedsLittleWorkspace) {
  Maker make(7);
  const KernelDef* kernel = find_kernel(cpu_backend(), "cpu.attention.blocked");
  const auto device = cpu_backend().make_device({.threads = 2});
  const Execution execution = device->execution();
  TensorArg x{.dtype = DType::kF32,
              .rank = 4,
              .shape = {1, 8192, 12, 64},
              .strides = {8192 * 768, 768, 64, 1}};
  const std::vector<TensorArg> in{x, x, x}, out{x};
  const AttrBytes attrs = encode(AttentionAttrs{});
  const auto shape = kernel->prepare({attrs, nullptr, in, out, execution});
  EXPECT_LT(shape->workspace_bytes, size_t{2} << 20);
}

}  // namespace
}  // namespace vernier::backend::test
