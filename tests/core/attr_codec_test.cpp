// Attribute structs to bytes and text and back: core/attr_codec.h, and core/op_attrs.h for the
// attributes of every operator.
#include "core/attr_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/attrs.h"
#include "core/op_attrs.h"

namespace vernier {
namespace {

enum class Color : uint8_t { kRed = 0, kBlue = 2 };
constexpr Color last_value(Color) { return Color::kBlue; }

struct Everything {
  int64_t number = 7;
  double real = 0.1;
  bool flag = true;
  DType type = DType::kBF16;
  std::string text = "plain";
  std::vector<int64_t> numbers;
  std::vector<double> reals;
  SymShape sizes;
  Color color = Color::kBlue;
  template <class V>
  void visit(V& v) {
    v("number", number);
    v("real", real);
    v("flag", flag);
    v("type", type);
    v("text", text);
    v("numbers", numbers);
    v("reals", reals);
    v("sizes", sizes);
    v("color", color);
  }
};

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

Everything sample() {
  Everything e;
  e.number = INT64_MIN;
  e.real = -std::numeric_limits<double>::infinity();
  e.flag = false;
  e.type = DType::kUndefined;
  e.text = "a \"quoted\", {brace} = [x](y) \\ back";
  e.numbers = {INT64_MAX, 0, -1};
  e.reals = {1e-12, 0.1, -0.0, std::numeric_limits<double>::denorm_min(), 1.7976931348623157e308};
  e.sizes = {Dim::symbol("batch"), min(512, Dim::symbol("seq")), 3};
  return e;
}

TEST(AttrCodec, TextIsReadable) {
  EXPECT_EQ(print_attrs<Everything>(encode(Everything{})),
            "{number=7, real=0.1, flag=true, type=bf16, text=\"plain\", numbers=[], reals=[], "
            "sizes=(), color=2}");
  EXPECT_EQ(print_attrs<NoAttrs>(encode(NoAttrs{})), "");
}

TEST(AttrCodec, BytesAndTextReadBackExactly) {
  for (const Everything& e : {Everything{}, sample()}) {
    const AttrBytes bytes = encode(e);
    EXPECT_EQ(encode(decode<Everything>(bytes)), bytes);
    const std::string text = print_attrs<Everything>(bytes);
    EXPECT_EQ(parse_attrs<Everything>(text), bytes) << text;
    EXPECT_EQ(parse_attrs<Everything>(text.substr(1, text.size() - 2)), bytes) << "without braces";
  }
}

TEST(AttrCodec, NaNReadsBack) {
  Everything e;
  e.real = std::nan("");
  const std::string text = print_attrs<Everything>(encode(e));
  EXPECT_TRUE(std::isnan(decode<Everything>(parse_attrs<Everything>(text)).real)) << text;
}

TEST(AttrCodec, FieldsComeInAnyOrderAndMissingOnesKeepDefaults) {
  const auto e = decode<Everything>(parse_attrs<Everything>("{ flag=false , number = -3 }"));
  EXPECT_EQ(e.number, -3);
  EXPECT_FALSE(e.flag);
  EXPECT_EQ(e.text, "plain");
  EXPECT_EQ(e.color, Color::kBlue);
}

TEST(AttrCodec, EveryTruncationIsAnError) {
  const AttrBytes bytes = encode(sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(message([&] { decode<Everything>(AttrView(bytes).subspan(0, length)); }), "no error")
        << length;
  }
  AttrBytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(message([&] { decode<Everything>(longer); }),
            "attribute bytes are longer than their operator's attributes");
}

TEST(AttrCodec, AHugeCountIsAnErrorNotAnAllocation) {
  AttrBytes bytes = encode(TransposeAttrs{{0, 1}});
  for (size_t i = 0; i < 8; ++i) bytes[i] = std::byte{0xff};
  EXPECT_EQ(message([&] { decode<TransposeAttrs>(bytes); }), "attribute bytes are truncated");
}

TEST(AttrCodec, AnUnknownElementTypeIsAnError) {
  AttrBytes bytes = encode(CastAttrs{});
  bytes[0] = std::byte{200};
  EXPECT_EQ(message([&] { decode<CastAttrs>(bytes); }), "attribute to: unknown element type 200");
}

TEST(AttrCodec, BadTextNamesTheField) {
  const auto parse = [](const std::string& text) {
    return message([&] { parse_attrs<Everything>(text); });
  };
  EXPECT_EQ(parse("{numbr=3, x=1}"), "unknown attributes: numbr, x");
  EXPECT_EQ(parse("{number=3x}"), "attribute number=3x: expected an integer");
  EXPECT_EQ(parse("{real=one}"), "attribute real=one: expected a number");
  EXPECT_EQ(parse("{flag=1}"), "attribute flag=1: expected true or false");
  EXPECT_EQ(parse("{type=float}"), "attribute type=float: expected an element type");
  EXPECT_EQ(parse("{text=bare}"), "attribute text=bare: expected a quoted string");
  EXPECT_EQ(parse("{numbers=1}"), "attribute numbers=1: expected a list in []");
  EXPECT_EQ(parse("{numbers=[a]}"), "attribute numbers=a: expected an integer");
  EXPECT_EQ(parse("{sizes=[1]}"), "attribute sizes=[1]: expected a list in ()");
  EXPECT_EQ(parse("{number}"), "attribute =number: expected name=value");
  EXPECT_EQ(parse("{number=3"), "the closing '}' of the attributes is missing");
  EXPECT_NE(parse("{sizes=(1 +)}").find("bad size expression"), std::string::npos);
}

TEST(OpAttrs, DefaultsOfEveryOperatorReadBack) {
  for (size_t i = 0; i < num_op_kinds(); ++i) {
    const auto kind = static_cast<OpKind>(i);
    const AttrBytes bytes = default_attrs(kind);
    EXPECT_EQ(parse_attrs(kind, print_attrs(kind, bytes)), bytes) << name(kind);
    EXPECT_EQ(parse_op_kind(name(kind)), kind);
  }
  EXPECT_EQ(parse_op_kind("Nothing"), std::nullopt);
}

TEST(OpAttrs, BytesOfAnotherOperatorAreRefused) {
  EXPECT_NO_THROW(check_attrs(OpKind::kGather, encode(AxisAttrs{1})));
  EXPECT_THROW(check_attrs(OpKind::kRelu, encode(AxisAttrs{1})), Error);
  EXPECT_THROW(check_attrs(OpKind::kGather, AttrBytes{}), Error);
}

}  // namespace
}  // namespace vernier
