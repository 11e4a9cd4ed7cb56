// Size expressions: canonical equality, simplification, text and evaluation (core/dim.h).
#include "core/dim.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "core/error.h"

namespace vernier {
namespace {

const Dim a = Dim::symbol("a"), b = Dim::symbol("b"), c = Dim::symbol("c");
using Binding = std::map<std::string, int64_t>;

TEST(Dim, EqualPolynomialsAreEqual) {
  EXPECT_EQ(a + b, b + a);
  EXPECT_EQ((a + b) * c, c * a + b * c);
  EXPECT_EQ((a + b) * (a - b), a * a - b * b);
  EXPECT_EQ(a - a, Dim(0));
  EXPECT_EQ(Dim(2) * a + a, Dim(3) * a);
  EXPECT_FALSE(a + b == a + c);
  EXPECT_FALSE(a * a == a);
}

TEST(Dim, TextIsCanonical) {
  EXPECT_EQ((b + a).str(), "a + b");
  EXPECT_EQ((Dim(3) - a).str(), "-a + 3");
  EXPECT_EQ((b * a * Dim(2) - Dim(1)).str(), "2*a*b - 1");
  EXPECT_EQ(Dim(-7).str(), "-7");
  EXPECT_EQ(min(b, a).str(), "min(a, b)");
  EXPECT_EQ(str(SymShape{a, 2, a + b}), "[a, 2, a + b]");
  EXPECT_EQ(str(SymShape{}), "[]");
}

TEST(Dim, DivisionCancelsAndSplits) {
  EXPECT_EQ(floordiv(a * b * Dim(768), a * Dim(64)), Dim(12) * b);
  EXPECT_EQ(floordiv(Dim(8) * a, 8), a);
  EXPECT_EQ(floordiv(Dim(8) * a + Dim(17), 8), a + Dim(2));
  EXPECT_EQ(floordiv(a + b, a + b), Dim(1));
  EXPECT_EQ(floordiv(Dim(6) * a + Dim(6) * b, a + b), Dim(6));
  EXPECT_EQ(floordiv(Dim(5) * a, 4), a + floordiv(a, 4));
  EXPECT_EQ(floordiv(Dim(2) * a, 4), floordiv(a, 2)) << "common factors cancel";
  EXPECT_EQ(floordiv(Dim(4) * a + Dim(6), 8), floordiv(Dim(2) * a + Dim(3), 4));
  EXPECT_EQ(floordiv(floordiv(a, 2), 3), floordiv(a, 6)) << "nested floors join";
  EXPECT_EQ(floordiv(a, 3).str(), "floordiv(a, 3)");
  EXPECT_EQ(floordiv(Dim(0), a), Dim(0));
}

TEST(Dim, ModulusOfMultiplesIsKnown) {
  EXPECT_EQ(mod(Dim(8) * a, 4), Dim(0));
  EXPECT_EQ(mod(Dim(8) * a + Dim(3), 4), Dim(3));
  EXPECT_EQ(mod(a * b, a), Dim(0));
  EXPECT_EQ(mod(Dim(5) * a, 4), mod(a, 4));
  EXPECT_EQ(mod(Dim(2) * a, 4), Dim(2) * mod(a, 2));
  EXPECT_EQ(mod(Dim(-1), 4), Dim(3)) << "rounds toward minus infinity";
  EXPECT_EQ(floordiv(Dim(-1), 4), Dim(-1));
}

TEST(Dim, MinAndMaxGoWhereProvable) {
  EXPECT_EQ(min(a, a + Dim(1)), a);
  EXPECT_EQ(max(a, a + b), a + b);
  EXPECT_EQ(max(a, 1), a) << "symbols are at least 1";
  EXPECT_EQ(max(a - Dim(1), 0), a - Dim(1));
  EXPECT_EQ(max(min(512, a), 0), min(512, a));
  EXPECT_EQ(min(a, b), min(b, a));
  EXPECT_EQ(min(512, a).str(), "min(512, a)");
  EXPECT_EQ(max(a - Dim(2), 0).str(), "max(0, a - 2)");
}

TEST(Dim, OrderIsProvedOrLeftOpen) {
  EXPECT_EQ(less_equal(a, a + b), true);
  EXPECT_EQ(less_equal(a + b, a), false);
  EXPECT_EQ(less_equal(1, a), true);
  EXPECT_EQ(less_equal(a, 1), std::nullopt);
  EXPECT_EQ(less_equal(a, b), std::nullopt);
  EXPECT_EQ(equal(a, a), true);
  EXPECT_EQ(equal(a, a + Dim(1)), false);
  EXPECT_EQ(equal(a, a + b), false);
  EXPECT_EQ(equal(a, b), std::nullopt);
}

TEST(Dim, KnowsConstantsSymbolsAndParts) {
  EXPECT_EQ(Dim(7).as_constant(), 7);
  EXPECT_FALSE(a.as_constant());
  EXPECT_EQ(a.as_symbol(), "a");
  EXPECT_FALSE((a + Dim(1)).as_symbol());
  EXPECT_FALSE((Dim(2) * a).as_symbol());
  EXPECT_EQ((min(b, c) * a + floordiv(c, 2)).symbols(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(product({a, 3, b}), Dim(3) * a * b);
  EXPECT_EQ(product({}), Dim(1));
  EXPECT_TRUE(is_constant(SymShape{1, 2}));
  EXPECT_FALSE(is_constant(SymShape{1, a}));
}

TEST(Dim, SubstitutionSimplifies) {
  const Dim d = floordiv(a * b, c);
  EXPECT_EQ(d.substitute({{"c", a}}), b);
  EXPECT_EQ(min(512, a).substitute({{"a", 100}}), Dim(100));
  EXPECT_EQ((a + b).substitute({{"a", b}, {"b", a}}), a + b) << "all at once";
}

std::string parse_error(const std::string& text) {
  try {
    Dim::parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Dim, BadTextSaysWhere) {
  EXPECT_EQ(parse_error("a +"),
            "bad size expression 'a +' at character 4: expected a number, a name or '('");
  EXPECT_EQ(parse_error("(a"), "bad size expression '(a' at character 3: expected ')'");
  EXPECT_EQ(parse_error("a b"), "bad size expression 'a b' at character 3: unexpected text");
  EXPECT_EQ(parse_error("foo(a, b)"),
            "bad size expression 'foo(a, b)' at character 10: unknown function 'foo'");
  EXPECT_EQ(parse_error("min(a)"), "bad size expression 'min(a)' at character 6: expected ','");
  EXPECT_EQ(parse_error("12x"), "bad size expression '12x' at character 4: bad number '12x'");
  EXPECT_NE(parse_error(std::string(1000, '(')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(parse_error("99999999999999999999").find("number too large"), std::string::npos);
  EXPECT_NE(parse_error("").find("expected a number"), std::string::npos);
  EXPECT_NE(parse_error("mod(a, 0)").find("modulus by zero"), std::string::npos);
  EXPECT_NE(parse_error("floordiv(a, 0)").find("division by zero"), std::string::npos);
}

TEST(Dim, ExpressionsThatCostTooMuchAreErrors) {
  std::string product = "(a0 + b0)";  // 2^60 terms
  for (int i = 1; i < 60; ++i)
    product += "*(a" + std::to_string(i) + " + b" + std::to_string(i) + ")";
  EXPECT_NE(parse_error(product).find("at most 1024 are supported"), std::string::npos);
  EXPECT_EQ(parse_error(std::string(20000, 'a')).substr(0, 32), "size expression is too long: aaa");
  EXPECT_EQ(Dim::parse(std::string(10001, '-') + "a"), Dim(-1) * a);
}

TEST(Dim, ArithmeticOutside64BitsIsAnError) {
  const char* expected = "size expression exceeds the range of 64-bit integers";
  EXPECT_EQ(parse_error("9223372036854775807 + 1"), expected);
  EXPECT_EQ(parse_error("4611686018427387904*a*2"), expected);
  EXPECT_EQ(parse_error("floordiv(-9223372036854775807 - 1, -1)"), expected);
  EXPECT_EQ(Dim::parse("9223372036854775807*a").str(), "9223372036854775807*a");
  const Dim least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(max(least, a).str(), "max(-9223372036854775808, a)");  // unproved, no overflow
  EXPECT_EQ(mod(least, 3), Dim(1));
  EXPECT_EQ(mod(least, -1), Dim(0));
}

TEST(Dim, EvaluationNeedsEverySymbol) {
  try {
    (a + b).evaluate({{"a", 1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "size expression a + b has an unbound symbol: b + 1");
  }
}

TEST(Dim, EvaluationThatDividesByZeroIsAnError) {
  EXPECT_THROW(floordiv(a, b - c).evaluate({{"a", 1}, {"b", 2}, {"c", 2}}), Error);
}

// ---- random expressions, with what they must evaluate to

struct Sample {
  Dim dim;
  std::function<int64_t(const Binding&)> value;
};

Sample random_sample(std::mt19937& random, int depth) {
  const auto pick = [&](int count) {
    return static_cast<int>(random() % static_cast<unsigned>(count));
  };
  if (depth == 0 || pick(5) == 0) {
    if (pick(3) == 0) {
      const int64_t number = pick(9) - 3;
      return {number, [number](const Binding&) { return number; }};
    }
    const std::string symbol(1, static_cast<char>('a' + pick(3)));
    return {Dim::symbol(symbol), [symbol](const Binding& at) { return at.at(symbol); }};
  }
  const Sample x = random_sample(random, depth - 1), y = random_sample(random, depth - 1);
  // A divisor that is never zero.
  const int64_t number = pick(7) + 1;
  const bool by_symbol = pick(2) == 0;
  const Dim divisor = by_symbol ? b : Dim(number);
  const auto divide_by = [=](const Binding& at) { return by_symbol ? at.at("b") : number; };
  switch (pick(7)) {
    case 0:
      return {x.dim + y.dim, [=](const Binding& at) { return x.value(at) + y.value(at); }};
    case 1:
      return {x.dim - y.dim, [=](const Binding& at) { return x.value(at) - y.value(at); }};
    case 2:
      return {x.dim * y.dim, [=](const Binding& at) { return x.value(at) * y.value(at); }};
    case 3:
      return {min(x.dim, y.dim),
              [=](const Binding& at) { return std::min(x.value(at), y.value(at)); }};
    case 4:
      return {max(x.dim, y.dim),
              [=](const Binding& at) { return std::max(x.value(at), y.value(at)); }};
    case 5:
      return {floordiv(x.dim, divisor),
              [=](const Binding& at) { return floordiv(x.value(at), divide_by(at)); }};
    default:
      return {mod(x.dim, divisor),
              [=](const Binding& at) { return floormod(x.value(at), divide_by(at)); }};
  }
}

int64_t run_postfix(const Dim& d, const Binding& at) {
  using Kind = DimOp::Kind;
  std::vector<int64_t> stack;
  for (const DimOp& op : d.postfix()) {
    if (op.kind == Kind::kConstant || op.kind == Kind::kSymbol) {
      stack.push_back(op.kind == Kind::kConstant ? op.constant : at.at(op.symbol));
      continue;
    }
    const int64_t y = stack.back();
    stack.pop_back();
    int64_t& x = stack.back();
    if (op.kind == Kind::kAdd) x = x + y;
    if (op.kind == Kind::kMul) x = x * y;
    if (op.kind == Kind::kFloorDiv) x = floordiv(x, y);
    if (op.kind == Kind::kMod) x = floormod(x, y);
    if (op.kind == Kind::kMin) x = std::min(x, y);
    if (op.kind == Kind::kMax) x = std::max(x, y);
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.back();
}

TEST(Dim, RandomExpressionsMeanWhatTheyWereBuiltFrom) {
  std::mt19937 random(20240811);
  const std::vector<Binding> bindings{{{"a", 1}, {"b", 1}, {"c", 1}},
                                      {{"a", 2}, {"b", 3}, {"c", 5}},
                                      {{"a", 7}, {"b", 4}, {"c", 1}},
                                      {{"a", 1}, {"b", 6}, {"c", 32}}};
  for (int i = 0; i < 3000; ++i) {
    const Sample sample = random_sample(random, 4);
    const std::string text = sample.dim.str();
    SCOPED_TRACE(text);
    EXPECT_EQ(Dim::parse(text), sample.dim);
    EXPECT_EQ(Dim::parse(text).str(), text);
    for (const Binding& binding : bindings) {
      const int64_t expected = sample.value(binding);
      ASSERT_EQ(sample.dim.evaluate(binding), expected);
      ASSERT_EQ(run_postfix(sample.dim, binding), expected);
      if (const auto bound = sample.dim.lower_bound()) {
        ASSERT_LE(*bound, expected);
      }
      if (const auto le = less_equal(sample.dim, a)) {
        ASSERT_EQ(*le, expected <= binding.at("a"));
      }
      if (const auto le = at_most(sample.dim, a)) {
        ASSERT_EQ(*le, expected <= binding.at("a"));
      }
      if (const auto ge = at_most(a, sample.dim)) {
        ASSERT_EQ(*ge, binding.at("a") <= expected);
      }
      if (const auto eq = equal(sample.dim, a)) {
        ASSERT_EQ(*eq, expected == binding.at("a"));
      }
    }
  }
}

TEST(Dim, AtMostLooksIntoMinimaAndMaxima) {
  const auto at_most_text = [](const char* small, const char* large) {
    return at_most(Dim::parse(small), Dim::parse(large));
  };
  EXPECT_EQ(at_most_text("seq", "seq + 1"), true);
  EXPECT_EQ(at_most_text("seq + 1", "seq"), false);
  EXPECT_EQ(at_most_text("min(5, seq)", "seq"), true);
  EXPECT_EQ(at_most_text("min(5, seq) + 2", "seq + 2"), true);
  EXPECT_EQ(at_most_text("min(5, seq) + 3", "seq + 2"), std::nullopt);
  EXPECT_EQ(at_most_text("seq", "max(5, seq)"), true);
  EXPECT_EQ(at_most_text("max(5, seq)", "seq + 5"), true);
  EXPECT_EQ(at_most_text("max(5, seq)", "seq"), std::nullopt);
  EXPECT_EQ(at_most_text("5", "seq"), std::nullopt);
}

TEST(Dim, NumbersFarApartHaveAnOrder) {
  EXPECT_EQ(less_equal(1, INT64_MIN), false);
  EXPECT_EQ(less_equal(INT64_MIN, 1), true);
  EXPECT_EQ(at_most(1, INT64_MIN), false);
  EXPECT_EQ(equal(INT64_MAX, INT64_MIN), false);
  EXPECT_EQ(min(1, INT64_MIN), Dim(INT64_MIN));
}

TEST(Dim, AGuardSaysWhatItNeeds) {
  const Dim seq = Dim::symbol("seq"), five(5);
  EXPECT_EQ(guard_text(min(five, seq), five, 3, 5), "5 must be at most seq = 3");
  EXPECT_EQ(guard_text(five, min(five, seq), 5, 3), "5 must be at most seq = 3");
  EXPECT_EQ(guard_text(min(five, seq), seq, 5, 9), "seq = 9 must be at most 5");
  EXPECT_EQ(guard_text(seq, seq * seq, 3, 9), "seq = 3 must equal seq*seq = 9");
}

template <class Make>
std::string size_error(const Make& make) {
  try {
    make();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Dim, GrowthIsBounded) {
  // Squared again and again: 2^64 factors.
  EXPECT_NE(size_error([] {
              Dim d = a;
              for (int i = 0; i < 64; ++i) d = d * d;
            }).find("a term of 512 factors, at most 256 are supported"),
            std::string::npos);
  // Sums multiplied: 2^64 terms.
  EXPECT_NE(size_error([] {
              Dim d = 1;
              for (int i = 0; i < 64; ++i) d = d * (Dim::symbol("s" + std::to_string(i)) + Dim(1));
            }).find("terms, at most 1024 are supported"),
            std::string::npos);
  // Functions of functions: as deep as a text of them is read back.
  Dim nested = a;
  for (int i = 0; i < 63; ++i) nested = mod(nested, 1000 - i) + b;
  EXPECT_EQ(Dim::parse(nested.str()), nested);
  EXPECT_NE(size_error([&] {
              mod(nested, 7);
            }).find("nested too deeply or too long, at most 63 functions"),
            std::string::npos);
  // Both operands the same: 2^64 characters.
  EXPECT_NE(size_error([] {
              Dim d = a;
              for (int i = 0; i < 64; ++i) d = floordiv(d + b, d + c);
            }).find("is nested too deeply or too long"),
            std::string::npos);
}

TEST(Dim, NumbersThatLeave64BitsAreErrors) {
  const Dim huge = int64_t{1} << 62;
  for (const auto& make : std::vector<std::function<Dim()>>{
           [&] { return huge * Dim(2); }, [&] { return huge + huge; },
           [&] { return huge * a + huge * a; }, [&] { return Dim(INT64_MIN) - Dim(1); },
           [&] { return (huge * a) * (Dim(4) * b); },
           [&] { return floordiv(Dim(INT64_MIN), Dim(-1)); },
           [&] {
             return (huge * a).substitute({{"a", Dim(2)}});
           }}) {
    EXPECT_NE(size_error(make).find("exceeds the range of 64-bit integers"), std::string::npos);
  }
}

TEST(Dim, SubstitutionOfOtherSymbolsChangesNothing) {
  const Dim d = min(a, floordiv(b, 3)) * c + Dim(2);
  EXPECT_EQ(d.substitute({{"z", 5}}), d);
  EXPECT_EQ(d.substitute({{"b", Dim(3) * a}}), a * c + Dim(2));
}

}  // namespace
}  // namespace vernier
