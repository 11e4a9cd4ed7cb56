// Canonical integer expressions: a polynomial over atoms, where an atom is a symbol or one of
// floordiv, mod, min, max of two Dims. Terms and factors are sorted by their text. See dim.h.
#include "core/dim.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <set>

#include "core/error.h"

namespace vernier {
namespace {

struct Atom {
  DimOp::Kind kind;
  std::string text;  // canonical text; identity
  Dim a, b;          // operands of a function atom
  int depth = 0;     // of functions of functions
};
using AtomRef = std::shared_ptr<const Atom>;
struct AtomLess {
  bool operator()(const AtomRef& x, const AtomRef& y) const { return x->text < y->text; }
};
using Monomial = std::vector<AtomRef>;  // sorted product of atoms
struct MonomialLess {
  bool operator()(const Monomial& x, const Monomial& y) const {
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), AtomLess{});
  }
};

}  // namespace

namespace {

// Bounds for expressions from files: products of sums grow exponentially.
constexpr size_t kMaxTerms = 1024, kMaxText = 16384;
constexpr size_t kMaxFactors = 256;  // of one term
constexpr int kMaxDepth = 64;        // of nested functions; Dim::parse has the same limit

[[noreturn]] void fail_overflow() {
  throw Error(ErrorCode::kInput, "size expression exceeds the range of 64-bit integers");
}
int64_t checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail_overflow();
  return sum;
}
int64_t checked_multiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail_overflow();
  return product;
}
void check_factors(size_t factors) {
  if (factors <= kMaxFactors) return;
  throw Error(ErrorCode::kInput, "size expression has a term of " + std::to_string(factors) +
                                     " factors, at most " + std::to_string(kMaxFactors) +
                                     " are supported");
}
void check_terms(size_t terms) {
  if (terms <= kMaxTerms) return;
  throw Error(ErrorCode::kInput, "size expression has up to " + std::to_string(terms) +
                                     " terms, at most " + std::to_string(kMaxTerms) +
                                     " are supported");
}

}  // namespace

struct Dim::Polynomial {
  std::map<Monomial, int64_t, MonomialLess> terms;  // no zero coefficients; {} is the constant
};

// Private access for the free functions below.
struct DimBuilder {
  using Polynomial = Dim::Polynomial;
  static const Polynomial& get(const Dim& d) { return *d.polynomial_; }
  static Dim make(Polynomial p) {
    std::erase_if(p.terms, [](const auto& term) { return term.second == 0; });
    return Dim(std::make_shared<const Polynomial>(std::move(p)));
  }
  static Dim atom(DimOp::Kind kind, std::string text, Dim a = {}, Dim b = {}, int depth = 0) {
    Polynomial p;
    p.terms[{std::make_shared<const Atom>(
        Atom{kind, std::move(text), std::move(a), std::move(b), depth})}] = 1;
    return make(std::move(p));
  }
  static int depth(const Dim& d) {
    int deepest = 0;
    for (const auto& [monomial, coefficient] : get(d).terms) {
      for (const AtomRef& atom : monomial) deepest = std::max(deepest, atom->depth);
    }
    return deepest;
  }
  static Dim function(DimOp::Kind kind, std::string_view name, const Dim& a, const Dim& b) {
    const int inner = std::max(depth(a), depth(b)) + 1;
    std::string text = std::string(name) + "(" + a.str() + ", " + b.str() + ")";
    if (inner >= kMaxDepth || text.size() > kMaxText) {
      throw Error(ErrorCode::kInput, "size expression is nested too deeply or too long, at most " +
                                         std::to_string(kMaxDepth - 1) + " functions and " +
                                         std::to_string(kMaxText) +
                                         " characters are supported: " + text.substr(0, 60) + "…");
    }
    return atom(kind, std::move(text), a, b, inner);
  }
};

int64_t floordiv(int64_t a, int64_t b) {
  if (b == -1) return checked_multiply(a, b);
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
int64_t floormod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Dim::Dim(int64_t value) {
  auto p = std::make_shared<Polynomial>();
  if (value != 0) p->terms[{}] = value;
  polynomial_ = std::move(p);
}

Dim Dim::symbol(std::string_view name) {
  return DimBuilder::atom(DimOp::Kind::kSymbol, std::string(name));
}

std::optional<int64_t> Dim::as_constant() const {
  const auto& terms = polynomial_->terms;
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms.begin()->first.empty()) return terms.begin()->second;
  return std::nullopt;
}
bool Dim::is_constant() const { return as_constant().has_value(); }
int64_t Dim::constant() const {
  VERNIER_ASSERT(is_constant(), str());
  return *as_constant();
}

std::optional<std::string> Dim::as_symbol() const {
  const auto& terms = polynomial_->terms;
  if (terms.size() != 1) return std::nullopt;
  const auto& [monomial, coefficient] = *terms.begin();
  if (coefficient != 1 || monomial.size() != 1 || monomial[0]->kind != DimOp::Kind::kSymbol)
    return std::nullopt;
  return monomial[0]->text;
}

namespace {

std::optional<int64_t> atom_lower_bound(const Atom& atom) {
  const auto a = atom.a.lower_bound(), b = atom.b.lower_bound();
  switch (atom.kind) {
    case DimOp::Kind::kSymbol:
      return 1;
    case DimOp::Kind::kFloorDiv:
      if (a && b && *a >= 0 && *b >= 1)
        return atom.b.is_constant() ? floordiv(*a, atom.b.constant()) : 0;
      return std::nullopt;
    case DimOp::Kind::kMod:
      return b && *b >= 1 ? std::optional<int64_t>(0) : std::nullopt;
    case DimOp::Kind::kMin:
      return a && b ? std::optional(std::min(*a, *b)) : std::nullopt;
    case DimOp::Kind::kMax:
      return a && b ? std::optional(std::max(*a, *b)) : (a ? a : b);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> Dim::lower_bound() const {
  int64_t sum = 0;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    int64_t product = coefficient;
    if (!monomial.empty() && coefficient < 0) return std::nullopt;
    for (const AtomRef& atom : monomial) {
      const auto bound = atom_lower_bound(*atom);
      if (!bound || *bound < 0 || __builtin_mul_overflow(product, *bound, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

std::vector<std::string> Dim::symbols() const {
  std::set<std::string> names;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    for (const AtomRef& atom : monomial) {
      if (atom->kind == DimOp::Kind::kSymbol) {
        names.insert(atom->text);
        continue;
      }
      for (const Dim* part : {&atom->a, &atom->b}) {
        for (std::string& s : part->symbols()) names.insert(std::move(s));
      }
    }
  }
  return {names.begin(), names.end()};
}

Dim operator+(const Dim& a, const Dim& b) {
  Dim::Polynomial sum = DimBuilder::get(a);
  for (const auto& [monomial, coefficient] : DimBuilder::get(b).terms)
    sum.terms[monomial] = checked_add(sum.terms[monomial], coefficient);
  check_terms(sum.terms.size());
  return DimBuilder::make(std::move(sum));
}
Dim operator*(const Dim& a, const Dim& b) {
  check_terms(DimBuilder::get(a).terms.size() * DimBuilder::get(b).terms.size());
  Dim::Polynomial product;
  for (const auto& [ma, ca] : DimBuilder::get(a).terms) {
    for (const auto& [mb, cb] : DimBuilder::get(b).terms) {
      check_factors(ma.size() + mb.size());
      Monomial monomial = ma;
      monomial.insert(monomial.end(), mb.begin(), mb.end());
      std::sort(monomial.begin(), monomial.end(), AtomLess{});
      int64_t& coefficient = product.terms[monomial];
      coefficient = checked_add(coefficient, checked_multiply(ca, cb));
    }
  }
  return DimBuilder::make(std::move(product));
}
Dim operator-(const Dim& a, const Dim& b) { return a + Dim(-1) * b; }

bool operator==(const Dim& a, const Dim& b) {
  if (a.polynomial_ == b.polynomial_) return true;
  const auto& x = a.polynomial_->terms;
  const auto& y = b.polynomial_->terms;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& s, const auto& t) {
    return s.second == t.second &&
           std::equal(s.first.begin(), s.first.end(), t.first.begin(), t.first.end(),
                      [](const AtomRef& p, const AtomRef& q) { return p->text == q->text; });
  });
}

namespace {

// a / b if b is one term that divides every term of a.
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  const auto& divisor = DimBuilder::get(b).terms;
  if (divisor.size() != 1) {
    if (divisor.empty()) return std::nullopt;
    // a == q·b for an integer q? Compare the first terms.
    const auto& dividend = DimBuilder::get(a).terms;
    if (dividend.empty()) return Dim(0);
    const int64_t lead = divisor.begin()->second;
    if (floormod(dividend.begin()->second, lead) != 0) return std::nullopt;
    const int64_t q = floordiv(dividend.begin()->second, lead);
    if (Dim(q) * b == a) return Dim(q);
    return std::nullopt;
  }
  const auto& [factors, coefficient] = *divisor.begin();
  Dim::Polynomial quotient;
  for (const auto& [monomial, c] : DimBuilder::get(a).terms) {
    if (floormod(c, coefficient) != 0) return std::nullopt;
    Monomial rest;
    std::set_difference(monomial.begin(), monomial.end(), factors.begin(), factors.end(),
                        std::back_inserter(rest), AtomLess{});
    if (rest.size() + factors.size() != monomial.size()) return std::nullopt;
    quotient.terms[rest] = checked_add(quotient.terms[rest], floordiv(c, coefficient));
  }
  return DimBuilder::make(std::move(quotient));
}

// a = divisible·b + rest, by coefficients, for a constant b > 0.
std::pair<Dim, Dim> split_by(const Dim& a, int64_t b) {
  Dim::Polynomial quotient, rest;
  for (const auto& [monomial, c] : DimBuilder::get(a).terms) {
    quotient.terms[monomial] = floordiv(c, b);
    rest.terms[monomial] = floormod(c, b);
  }
  return {DimBuilder::make(std::move(quotient)), DimBuilder::make(std::move(rest))};
}

// The greatest common divisor of all coefficients of `a` and b.
int64_t common_factor(const Dim& a, int64_t b) {
  for (const auto& [monomial, c] : DimBuilder::get(a).terms) b = std::gcd(b, c);
  return b;
}

// floordiv(a, b) for a constant b > 0 that shares no factor with all of a's coefficients.
Dim floor_by(const Dim& a, int64_t b) {
  const auto& terms = DimBuilder::get(a).terms;
  if (terms.size() == 1 && terms.begin()->second == 1 && terms.begin()->first.size() == 1) {
    // floordiv(floordiv(x, c), b) = floordiv(x, b·c)   requires: constants b, c > 0
    const Atom& atom = *terms.begin()->first[0];
    const auto inner = atom.kind == DimOp::Kind::kFloorDiv ? atom.b.as_constant() : std::nullopt;
    int64_t joined = 0;
    if (inner && *inner > 0 && !__builtin_mul_overflow(*inner, b, &joined))
      return floordiv(atom.a, Dim(joined));
  }
  return DimBuilder::function(DimOp::Kind::kFloorDiv, "floordiv", a, b);
}

}  // namespace

Dim floordiv(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant() == 0) {
    throw Error(ErrorCode::kInput, "division by zero in the size expression " + a.str() + " // 0");
  }
  if (a.is_constant() && b.is_constant()) return floordiv(a.constant(), b.constant());
  if (auto q = divide_exactly(a, b)) return *q;
  if (b.is_constant() && b.constant() > 0) {
    auto [q, rest] = split_by(a, b.constant());
    if (rest.is_constant()) return q + Dim(floordiv(rest.constant(), b.constant()));
    const int64_t common = common_factor(rest, b.constant());
    return q + floor_by(*divide_exactly(rest, common), b.constant() / common);
  }
  return DimBuilder::function(DimOp::Kind::kFloorDiv, "floordiv", a, b);
}

Dim mod(const Dim& a, const Dim& b) {
  if (b.is_constant() && b.constant() == 0) {
    throw Error(ErrorCode::kInput, "modulus by zero in the size expression " + a.str() + " % 0");
  }
  if (a.is_constant() && b.is_constant()) return floormod(a.constant(), b.constant());
  if (divide_exactly(a, b)) return 0;
  if (b.is_constant() && b.constant() > 0) {
    auto [q, rest] = split_by(a, b.constant());
    if (rest.is_constant()) return floormod(rest.constant(), b.constant());
    const int64_t common = common_factor(rest, b.constant());
    return Dim(common) * DimBuilder::function(DimOp::Kind::kMod, "mod",
                                              *divide_exactly(rest, common), b.constant() / common);
  }
  return DimBuilder::function(DimOp::Kind::kMod, "mod", a, b);
}

// The largest known lower bound of a − b; none if the difference exceeds 64 bits.
static std::optional<int64_t> difference_bound(const Dim& a, const Dim& b) {
  try {
    return (a - b).lower_bound();
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<bool> less_equal(const Dim& a, const Dim& b) {
  // Numbers whose difference exceeds 64 bits are still ordered.
  const auto x = a.as_constant(), y = b.as_constant();
  if (x && y) return *x <= *y;
  const auto gap = difference_bound(b, a);
  if (gap && *gap >= 0) return true;
  const auto reverse = difference_bound(a, b);
  if (reverse && *reverse > 0) return false;
  return std::nullopt;
}
std::optional<bool> equal(const Dim& a, const Dim& b) {
  if (a == b) return true;
  if (a.is_constant() && b.is_constant()) return false;
  for (const auto& bound : {difference_bound(b, a), difference_bound(a, b)}) {
    if (bound && *bound > 0) return false;
  }
  return std::nullopt;
}

namespace {

// a = rest + min(x, y), or with max: the first such term of a.
struct Choice {
  bool least;
  Dim x, y;  // with the rest added
};
std::optional<Choice> choice_in(const Dim& a) {
  for (const auto& [monomial, coefficient] : DimBuilder::get(a).terms) {
    if (monomial.size() != 1 || coefficient != 1) continue;
    const Atom& atom = *monomial[0];
    const bool least = atom.kind == DimOp::Kind::kMin;
    if (!least && atom.kind != DimOp::Kind::kMax) continue;
    Dim::Polynomial rest = DimBuilder::get(a);
    rest.terms.erase(monomial);
    const Dim others = DimBuilder::make(std::move(rest));
    return Choice{least, others + atom.a, others + atom.b};
  }
  return std::nullopt;
}

// True if a <= b is proven, looking into up to `depth` choices of min and max.
bool is_at_most(const Dim& a, const Dim& b, int depth) {
  if (less_equal(a, b) == true) return true;
  if (depth == 0) return false;
  if (const auto c = choice_in(a)) {
    const bool x = is_at_most(c->x, b, depth - 1);
    if (x == c->least) return x;  // one proof is enough for a min, one failure for a max
    return is_at_most(c->y, b, depth - 1);
  }
  if (const auto c = choice_in(b)) {
    const bool x = is_at_most(a, c->x, depth - 1);
    if (x != c->least) return x;
    return is_at_most(a, c->y, depth - 1);
  }
  return false;
}

// b, if a is min(b, x) for some x: that x.
std::optional<Dim> other_of_min(const Dim& a, const Dim& b) {
  const auto& terms = DimBuilder::get(a).terms;
  if (terms.size() != 1 || terms.begin()->second != 1 || terms.begin()->first.size() != 1)
    return std::nullopt;
  const Atom& atom = *terms.begin()->first[0];
  if (atom.kind != DimOp::Kind::kMin) return std::nullopt;
  if (atom.a == b) return atom.b;
  if (atom.b == b) return atom.a;
  return std::nullopt;
}

std::string with_value(const Dim& d, int64_t value) {
  const std::string number = std::to_string(value);
  return d.is_constant() ? number : d.str() + " = " + number;
}

}  // namespace

std::optional<bool> at_most(const Dim& a, const Dim& b) {
  constexpr int kDepth = 4;
  const auto known = less_equal(a, b);
  if (known || !is_at_most(a, b, kDepth)) return known;
  return true;
}

std::string guard_text(const Dim& lhs, const Dim& rhs, int64_t left, int64_t right) {
  // If the guard fails, the minimum is the other side.
  if (const auto limit = other_of_min(lhs, rhs))
    return with_value(rhs, right) + " must be at most " + with_value(*limit, left);
  if (const auto limit = other_of_min(rhs, lhs))
    return with_value(lhs, left) + " must be at most " + with_value(*limit, right);
  return lhs.str() + " = " + std::to_string(left) + " must equal " + rhs.str() + " = " +
         std::to_string(right);
}

Dim min(const Dim& a, const Dim& b) {
  if (auto le = less_equal(a, b)) return *le ? a : b;
  if (auto le = less_equal(b, a)) return *le ? b : a;
  const bool ordered = a.str() < b.str();
  return DimBuilder::function(DimOp::Kind::kMin, "min", ordered ? a : b, ordered ? b : a);
}
Dim max(const Dim& a, const Dim& b) {
  if (auto le = less_equal(a, b)) return *le ? b : a;
  if (auto le = less_equal(b, a)) return *le ? a : b;
  const bool ordered = a.str() < b.str();
  return DimBuilder::function(DimOp::Kind::kMax, "max", ordered ? a : b, ordered ? b : a);
}

namespace {
// Does the expression contain one of these symbols?
bool mentions_any(const Dim& d, const std::map<std::string, Dim>& symbols) {
  for (const auto& [monomial, coefficient] : DimBuilder::get(d).terms) {
    for (const AtomRef& atom : monomial) {
      const bool found = atom->kind == DimOp::Kind::kSymbol
                             ? symbols.contains(atom->text)
                             : mentions_any(atom->a, symbols) || mentions_any(atom->b, symbols);
      if (found) return true;
    }
  }
  return false;
}

// The Dim of one function, by kind.
Dim apply(DimOp::Kind kind, const Dim& a, const Dim& b) {
  switch (kind) {
    case DimOp::Kind::kFloorDiv:
      return floordiv(a, b);
    case DimOp::Kind::kMod:
      return mod(a, b);
    case DimOp::Kind::kMin:
      return min(a, b);
    default:
      return max(a, b);
  }
}
}  // namespace

Dim Dim::substitute(const std::map<std::string, Dim>& replacements) const {
  if (replacements.empty() || is_constant() || !mentions_any(*this, replacements)) return *this;
  Dim sum = 0;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    Dim product = coefficient;
    for (const AtomRef& atom : monomial) {
      if (atom->kind == DimOp::Kind::kSymbol) {
        const auto it = replacements.find(atom->text);
        product = product * (it == replacements.end() ? Dim::symbol(atom->text) : it->second);
        continue;
      }
      product = product * apply(atom->kind, atom->a.substitute(replacements),
                                atom->b.substitute(replacements));
    }
    sum = sum + product;
  }
  return sum;
}

int64_t Dim::evaluate(const std::map<std::string, int64_t>& binding) const {
  std::map<std::string, Dim> values;
  for (const auto& [symbol, value] : binding) values.emplace(symbol, Dim(value));
  const Dim result = substitute(values);
  if (!result.is_constant()) {
    throw Error(ErrorCode::kInput,
                "size expression " + str() + " has an unbound symbol: " + result.str());
  }
  return result.constant();
}

std::vector<DimOp> Dim::postfix() const {
  using Kind = DimOp::Kind;
  std::vector<DimOp> ops;
  bool first_term = true;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    bool first_factor = true;
    if (coefficient != 1 || monomial.empty()) {
      ops.push_back({Kind::kConstant, coefficient, {}});
      first_factor = false;
    }
    for (const AtomRef& atom : monomial) {
      if (atom->kind == Kind::kSymbol) {
        ops.push_back({Kind::kSymbol, 0, atom->text});
      } else {
        for (const Dim* part : {&atom->a, &atom->b}) {
          for (DimOp& op : part->postfix()) ops.push_back(std::move(op));
        }
        ops.push_back({atom->kind, 0, {}});
      }
      if (!first_factor) ops.push_back({Kind::kMul, 0, {}});
      first_factor = false;
    }
    if (!first_term) ops.push_back({Kind::kAdd, 0, {}});
    first_term = false;
  }
  if (ops.empty()) ops.push_back({Kind::kConstant, 0, {}});
  return ops;
}

std::string Dim::str() const {
  std::string text;
  for (const auto& [monomial, coefficient] : polynomial_->terms) {
    if (monomial.empty()) continue;  // the constant goes last
    if (!text.empty())
      text += coefficient < 0 ? " - " : " + ";
    else if (coefficient < 0)
      text += "-";
    const uint64_t magnitude = coefficient < 0 ? 0 - static_cast<uint64_t>(coefficient)
                                               : static_cast<uint64_t>(coefficient);
    std::string product = magnitude == 1 ? "" : std::to_string(magnitude);
    for (const AtomRef& atom : monomial) product += (product.empty() ? "" : "*") + atom->text;
    text += product;
    if (text.size() > kMaxText) {
      throw Error(ErrorCode::kInput, "size expression is too long: " + text.substr(0, 60) + "…");
    }
  }
  const auto it = polynomial_->terms.find({});
  const int64_t constant = it == polynomial_->terms.end() ? 0 : it->second;
  if (text.empty()) return std::to_string(constant);
  if (constant > 0) text += " + " + std::to_string(constant);
  if (constant < 0) text += " - " + std::to_string(0 - static_cast<uint64_t>(constant));
  return text;
}

namespace {

// expression = term {(+|-) term}; term = factor {* factor}; factor = number | -factor | name |
// name(expression, expression) | (expression)
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Dim parse_all() {
    Dim d = expression();
    skip_space();
    if (at_ != text_.size()) fail("unexpected text");
    return d;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::kInput, "bad size expression '" + std::string(text_) +
                                       "' at character " + std::to_string(at_ + 1) + ": " + what);
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Dim expression() {
    if (++depth_ > kMaxDepth) fail("nested too deeply");
    Dim sum = term();
    for (;;) {
      if (take('+'))
        sum = sum + term();
      else if (take('-'))
        sum = sum - term();
      else
        break;
    }
    --depth_;
    return sum;
  }
  Dim term() {
    Dim product = factor();
    while (take('*')) product = product * factor();
    return product;
  }
  Dim factor() {
    bool negative = false;
    while (take('-')) negative = !negative;
    return negative ? Dim(-1) * positive_factor() : positive_factor();
  }
  Dim positive_factor() {
    if (take('(')) {
      Dim d = expression();
      if (!take(')')) fail("expected ')'");
      return d;
    }
    skip_space();
    const size_t start = at_;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const std::string word(text_.substr(start, at_ - start));
    if (word.empty()) fail("expected a number, a name or '('");
    if (std::isdigit(static_cast<unsigned char>(word[0]))) return number(word);
    if (!take('(')) return Dim::symbol(word);
    Dim a = expression();
    if (!take(',')) fail("expected ','");
    Dim b = expression();
    if (!take(')')) fail("expected ')'");
    if (word == "floordiv") return floordiv(a, b);
    if (word == "mod") return mod(a, b);
    if (word == "min") return min(a, b);
    if (word == "max") return max(a, b);
    fail("unknown function '" + word + "'");
  }
  Dim number(const std::string& word) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error == std::errc::result_out_of_range) fail("number too large");
    if (end != word.data() + word.size()) fail("bad number '" + word + "'");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) {
  if (text.size() > kMaxText) {
    throw Error(ErrorCode::kInput,
                "size expression is too long: " + std::string(text.substr(0, 60)) + "…");
  }
  return Parser(text).parse_all();
}

std::string str(const SymShape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + shape[i].str();
  return text + "]";
}
bool is_constant(const SymShape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d.is_constant(); });
}
Dim product(const SymShape& shape) {
  Dim result = 1;
  for (const Dim& d : shape) result = result * d;
  return result;
}

}  // namespace vernier
