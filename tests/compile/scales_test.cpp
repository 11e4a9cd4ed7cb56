// Scales files: what is written is read back; every wrong file is an error that says where.
#include "compile/scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

namespace vernier::compiler {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Scales example() {
  Scales scales{.model_file = "m.onnx",
                .model_hash = "0123456789abcdef",
                .data_files = {"a.npz", "b.npz"},
                .batches = 3,
                .tokens = 4321,
                .method = "output-error",
                .sites = {}};
  scales.sites.push_back({.x = "hidden \"0\"",
                          .products = {"/q/MatMul", "/k/MatMul"},
                          .factors = {1, 0.5, 4},
                          .rows = 4321,
                          .low = -1.5,
                          .high = 2.25,
                          .range_method = "mse",
                          .factor_errors = {{"0", 0.02}, {"0.5", 0.01}},
                          .range_errors = {{"max", 0.5}, {"mse", 0.25}}});
  scales.sites.push_back({.x = "", .products = {"#17"}, .factors = {65536, 1.0F / 65536}});
  return scales;
}

const std::string kSite = R"({"products": ["p"], "factors": [1, 2]})";

std::string file_with(const std::string& sites, const std::string& more = "") {
  return R"({"format": "vernier-scales", "version": 1, "model": {"file": "m", "hash": "h"})" +
         more + R"(, "sites": [)" + sites + "]}";
}

std::string error_of(const std::string& text) {
  try {
    load_scales(text, "s.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    EXPECT_THAT(error.what(), HasSubstr("scales 's.json': "));
    return error.what();
  }
  return "";
}

TEST(Scales, AreReadAsTheyWereWritten) {
  const std::string text = save_scales(example());
  const Scales read = load_scales(text, "s.json");
  EXPECT_EQ(save_scales(read), text);
  EXPECT_EQ(read.model_hash, "0123456789abcdef");
  EXPECT_THAT(read.data_files, ElementsAre("a.npz", "b.npz"));
  EXPECT_EQ(read.tokens, 4321);
  ASSERT_EQ(read.sites.size(), 2u);
  EXPECT_EQ(read.sites[0].x, "hidden \"0\"");
  EXPECT_THAT(read.sites[0].products, ElementsAre("/q/MatMul", "/k/MatMul"));
  EXPECT_THAT(read.sites[0].factors, ElementsAre(1, 0.5F, 4));
  EXPECT_EQ(read.sites[0].low, -1.5);
  EXPECT_EQ(read.sites[0].factor_errors[1].second, 0.01);
  EXPECT_THAT(read.sites[1].factors, ElementsAre(65536, 1.0F / 65536));
  EXPECT_TRUE(read.sites[0].has_range());
  EXPECT_FALSE(read.sites[1].has_range()) << "0 to 0";
}

TEST(Scales, NeedOnlyProductsAndFactors) {
  EXPECT_EQ(load_scales(file_with(kSite), "s.json").sites[0].factors.size(), 2u);
  EXPECT_TRUE(load_scales(file_with(""), "s.json").sites.empty());
}

struct Wrong {
  const char* name;
  std::string text, message;
};
void PrintTo(const Wrong& row, std::ostream* out) { *out << row.name; }

class WrongScales : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongScales, AreErrorsThatSayWhere) {
  EXPECT_THAT(error_of(GetParam().text), HasSubstr(GetParam().message));
}

std::string site(const std::string& factors, const std::string& products = R"(["p"])") {
  return R"({"products": )" + products + R"(, "factors": )" + factors + "}";
}

const Wrong kWrong[] = {
    {"empty", "", "it is not JSON: parse error"},
    {"no_json", "factors: 1", "it is not JSON: parse error at line 1"},
    {"cut", save_scales(example()).substr(0, 200), "it is not JSON"},
    {"list", "[]", "the file is an array, expected an object"},
    {"other_format", R"({"vernier_policy": 1})",
     "\"format\" is missing, expected \"vernier-scales\""},
    {"other_version", R"({"format": "vernier-scales", "version": 2})",
     "\"version\" is 2, expected 1. Write it again"},
    {"no_model", R"({"format": "vernier-scales", "version": 1, "sites": []})",
     "the file has no \"model\""},
    {"hash_is_a_number",
     R"({"format": "vernier-scales", "version": 1, "model": {"hash": 3}, "sites": []})",
     "model.hash is 3, expected a text"},
    {"no_sites", R"({"format": "vernier-scales", "version": 1, "model": {"hash": "h"}})",
     "the file has no \"sites\""},
    {"unknown_key", file_with(kSite, R"(, "siets": [])"), "unknown key \"siets\""},
    {"unknown_key_of_a_site", file_with(R"({"products": ["p"], "factors": [1], "shift": [0]})"),
     "unknown key \"sites[0].shift\""},
    {"key_twice", file_with(R"({"products": ["p"], "products": ["q"], "factors": [1]})"),
     "the key \"products\" occurs twice"},
    {"no_products", file_with(R"({"factors": [1]})"), "sites[0] has no \"products\""},
    {"empty_products", file_with(site("[1]", "[]")), "sites[0].products is empty"},
    {"number_for_a_name", file_with(site("[1]", "[3]")),
     "sites[0].products[0] is 3, expected a text"},
    {"no_factors", file_with(R"({"products": ["p"]})"), "sites[0] has no \"factors\""},
    {"empty_factors", file_with(site("[]")), "sites[0].factors has 0 numbers"},
    {"text_for_a_factor", file_with(site(R"([1, "2"])")),
     "sites[0].factors[1] is \"2\", expected a number"},
    {"null", file_with(site("[null]")), "sites[0].factors[0] is null, expected a number"},
    {"nan", file_with(site("[NaN]")), "it is not JSON"},
    {"zero", file_with(kSite + ", " + site("[1, 0]", R"(["r"])")),
     "sites[1].factors[1] is 0, expected a power of two, 2^-16 to 2^16"},
    {"negative", file_with(site("[-2]")), "sites[0].factors[0] is -2, expected a power of two"},
    {"no_power", file_with(site("[3]")), "sites[0].factors[0] is 3, expected a power of two"},
    {"huge", file_with(site("[1e30]")), "sites[0].factors[0] is 1e+30, expected a power of two"},
    {"large_power", file_with(site("[131072]")), "is 131072, expected a power of two"},
    {"beyond_doubles", file_with(site("[1e999]")), "it is not JSON: number overflow"},
    {"product_twice", file_with(kSite + ", " + kSite),
     "product 'p' is at sites[0] and at sites[1]"},
    {"range_without_zero",
     file_with(R"({"products": ["p"], "factors": [1], "static": {"low": 1, "high": 2}})"),
     "sites[0].static is 1 to 2, expected a range that holds 0"},
    {"range_beyond_f32",
     file_with(R"({"products": ["p"], "factors": [1], "static": {"low": -1e39, "high": 2}})"),
     "sites[0].static is -1e+39 to 2, expected numbers of f32"},
    {"negative_rows", file_with(R"({"products": ["p"], "factors": [1], "rows": -1})"),
     "sites[0].rows is -1, expected a number of rows"},
    {"deep", std::string(100000, '['), "nested too deeply"},
};
INSTANTIATE_TEST_SUITE_P(Files, WrongScales, ::testing::ValuesIn(kWrong),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Scales, OfTooManyChannelsAreRefused) {
  std::string factors = "[1";
  for (int i = 0; i < 1 << 15; ++i) factors += ",1";
  EXPECT_THAT(error_of(file_with(site(factors + "]"))),
              HasSubstr("sites[0].factors has 32769 numbers"));
}

// Whatever becomes of a file, reading it ends with scales or with an error of the input.
TEST(Scales, ThatWereChangedAnywhereAreReadOrRefused) {
  const std::string text = save_scales(example());
  const std::string alphabet = "{}[]\",:0123456789.eE+-nult \\\n\x01\xff";
  SplitMix random(5);
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = text;
    for (uint64_t edits = 1 + random.next() % 3; edits > 0; --edits) {
      const size_t at = random.next() % changed.size();
      const char c = alphabet[random.next() % alphabet.size()];
      switch (random.next() % 4) {
        case 0:
          changed[at] = c;
          break;
        case 1:
          changed.insert(at, 1, c);
          break;
        case 2:
          changed.erase(at, 1 + random.next() % 8);
          break;
        default:
          changed.insert(at, changed.substr(random.next() % changed.size(), random.next() % 40));
      }
      if (changed.empty()) changed = " ";
    }
    try {
      const Scales scales = load_scales(changed, "s.json");
      for (const ScalesSite& each : scales.sites) {
        for (const float f : each.factors) ASSERT_TRUE(f >= 0x1p-16F && f <= 0x1p16F);
      }
      ++read;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInput) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace vernier::compiler
