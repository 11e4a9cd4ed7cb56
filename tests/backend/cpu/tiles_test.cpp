// Products on tile registers (simd/tiles.h) against sums in a plain loop: exact integers, bf16 with
// NaN and infinity, all numbers of tiles, results to add to, and the memory around the results.
#include "backend/cpu/simd/tiles.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "core/dtype.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kGuard = 64;  // bytes around rows, where every product must leave them

// Operands and results of a product, rows apart by more than their length.
struct Operands {
  int64_t row_tiles, col_tiles, steps;
  int64_t rows() const { return row_tiles * kRowsOfTile; }
  int64_t cols() const { return col_tiles * 16; }
  int64_t a_step() const { return steps * kTileStepBytes + kGuard; }
  int64_t b_step() const { return col_tiles * 64 + kGuard; }
  std::vector<std::byte> a, b, c;

  explicit Operands(const std::array<int64_t, 3>& sizes)
      : row_tiles(sizes[0]), col_tiles(sizes[1]), steps(sizes[2]) {
    a.resize(static_cast<size_t>(rows() * a_step()));
    b.resize(static_cast<size_t>(steps * 16 * b_step()));
    c.assign(static_cast<size_t>(rows() * b_step()), std::byte{0x5a});
  }
  void multiply(TileOperands operands, bool add) {
    const TileScope tiles;
    multiply_tiles(operands,
                   {.a = a.data(),
                    .a_step = a_step(),
                    .b = b.data(),
                    .b_step = b_step(),
                    .c = c.data(),
                    .c_step = b_step(),
                    .steps = steps,
                    .add = add},
                   row_tiles, col_tiles);
  }
  template <class T>
  T at(const std::vector<std::byte>& from, int64_t byte) const {
    T value;
    std::memcpy(&value, from.data() + byte, sizeof(value));
    return value;
  }
  template <class T>
  T result(int64_t r, int64_t j) const {
    return at<T>(c, r * b_step() + j * 4);
  }
  template <class T>
  void set_result(int64_t r, int64_t j, T value) {
    std::memcpy(c.data() + r * b_step() + j * 4, &value, sizeof(value));
  }
  bool guards_are_whole() const {
    for (int64_t r = 0; r < rows(); ++r) {
      for (int64_t i = cols() * 4; i < b_step(); ++i) {
        if (c[static_cast<size_t>(r * b_step() + i)] != std::byte{0x5a}) return false;
      }
    }
    return true;
  }
};

// Tiles of rows and of columns, and steps.
constexpr std::array<std::array<int64_t, 3>, 6> kSizes{
    {{1, 1, 1}, {1, 4, 3}, {2, 2, 6}, {2, 1, 2}, {3, 3, 5}, {6, 2, 1}}};

#define SKIP_WITHOUT_TILES() \
  if (!has_tiles()) GTEST_SKIP() << "this CPU or its system has no tile registers (AMX)"

TEST(Tiles, SumsOfBytesAreExact) {
  SKIP_WITHOUT_TILES();
  std::mt19937 random(41);
  for (const auto& sizes : kSizes) {
    for (const auto& [operands, add] : {std::pair{TileOperands::kUnsignedBytes, false},
                                        {TileOperands::kUnsignedBytes, true},
                                        {TileOperands::kSignedBytes, false},
                                        {TileOperands::kSignedBytes, true}}) {
      const bool is_signed = operands == TileOperands::kSignedBytes;
      Operands x(sizes);
      for (auto* bytes : {&x.a, &x.b}) {
        for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random());
      }
      // The largest sums: 255 · -128 or -128 · -128 everywhere in the first row and column.
      for (int64_t k = 0; k < x.steps * 64; ++k)
        x.a[static_cast<size_t>(k)] = is_signed ? std::byte{0x80} : std::byte{0xff};
      for (int64_t k = 0; k < x.steps * 64; ++k)
        x.b[static_cast<size_t>(k / 4 * x.b_step() + k % 4)] = std::byte{0x80};
      for (int64_t r = 0; r < x.rows(); ++r) {
        for (int64_t j = 0; j < x.cols(); ++j) x.set_result<int32_t>(r, j, 1000);
      }
      x.multiply(operands, add);
      for (int64_t r = 0; r < x.rows(); ++r) {
        for (int64_t j = 0; j < x.cols(); ++j) {
          int32_t sum = add ? 1000 : 0;
          for (int64_t k = 0; k < x.steps * 64; ++k) {
            const int64_t at = r * x.a_step() + k;
            const int a = is_signed ? x.at<int8_t>(x.a, at) : x.at<uint8_t>(x.a, at);
            sum += a * x.at<int8_t>(x.b, k / 4 * x.b_step() + j * 4 + k % 4);
          }
          ASSERT_EQ(x.result<int32_t>(r, j), sum) << r << " " << j << " add " << add;
        }
      }
      EXPECT_TRUE(x.guards_are_whole());
    }
  }
}

// |got - want| <= 8·√K·2^-24·Σ|a||b| where the sum is finite.
void compare_bf16(const Operands& x, float start) {
  const int64_t count = x.steps * 32;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t j = 0; j < x.cols(); ++j) {
      double sum = start, size = std::abs(start);
      for (int64_t k = 0; k < count; ++k) {
        const double product =
            static_cast<double>(bf16_to_f32(x.at<uint16_t>(x.a, r * x.a_step() + k * 2))) *
            bf16_to_f32(x.at<uint16_t>(x.b, k / 2 * x.b_step() + j * 4 + k % 2 * 2));
        sum += product;
        size += std::abs(product);
      }
      const double got = x.result<float>(r, j);
      if (std::isnan(sum)) {
        EXPECT_TRUE(std::isnan(got)) << r << " " << j;
      } else if (std::isinf(sum)) {
        EXPECT_EQ(got, sum) << r << " " << j;
      } else {
        EXPECT_NEAR(got, sum, 8 * std::sqrt(static_cast<double>(count)) * 0x1p-24 * size)
            << r << " " << j;
      }
    }
  }
  EXPECT_TRUE(x.guards_are_whole());
}

void set_bf16(std::vector<std::byte>& bytes, int64_t at, float value) {
  uint16_t bits;
  store_float(DType::kBF16, value, &bits);
  std::memcpy(bytes.data() + at, &bits, sizeof(bits));
}

TEST(Tiles, SumsOfBF16AreThoseOfF32) {
  SKIP_WITHOUT_TILES();
  std::mt19937 random(42);
  std::normal_distribution<float> normal;
  for (const auto& sizes : kSizes) {
    for (const bool add : {false, true}) {
      Operands x(sizes);
      for (auto* bytes : {&x.a, &x.b}) {
        for (size_t i = 0; i < bytes->size(); i += 2)
          set_bf16(*bytes, static_cast<int64_t>(i), normal(random));
      }
      for (int64_t r = 0; r < x.rows(); ++r) {
        for (int64_t j = 0; j < x.cols(); ++j) x.set_result<float>(r, j, 3.25F);
      }
      x.multiply(TileOperands::kBF16, add);
      compare_bf16(x, add ? 3.25F : 0);
    }
  }
}

TEST(Tiles, NaNAndInfinityReachTheirRowAndColumnOnly) {
  SKIP_WITHOUT_TILES();
  std::mt19937 random(43);
  std::normal_distribution<float> normal;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float value : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
    Operands x({2, 2, 2});
    for (auto* bytes : {&x.a, &x.b}) {
      for (size_t i = 0; i < bytes->size(); i += 2)
        set_bf16(*bytes, static_cast<int64_t>(i), normal(random));
    }
    set_bf16(x.a, 5 * x.a_step() + 40 * 2, value);
    set_bf16(x.b, 3 * x.b_step() + 20 * 4, value);
    x.multiply(TileOperands::kBF16, false);
    compare_bf16(x, 0);
  }
}

TEST(Tiles, ARowHasTheSameBitsInEveryTile) {
  SKIP_WITHOUT_TILES();
  std::mt19937 random(44);
  std::normal_distribution<float> normal;
  Operands x({3, 3, 4});
  std::vector<float> row(4 * 32);
  for (float& value : row) value = normal(random);
  for (size_t i = 0; i < x.b.size(); i += 2) {
    const int64_t line = static_cast<int64_t>(i) / x.b_step();
    const int64_t part = static_cast<int64_t>(i) % x.b_step() / 2 % 2;
    set_bf16(x.b, static_cast<int64_t>(i), row[static_cast<size_t>((line * 7 + part * 3) % 128)]);
  }
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t k = 0; k < 128; ++k)
      set_bf16(x.a, r * x.a_step() + k * 2, row[static_cast<size_t>(k)]);
  }
  x.multiply(TileOperands::kBF16, false);
  const auto first = x.result<uint32_t>(0, 0);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t j = 0; j < x.cols(); ++j) EXPECT_EQ(x.result<uint32_t>(r, j), first);
  }
}

}  // namespace
}  // namespace vernier::backend::cpu
