// Dim: an integer expression over named symbols (+ − × floordiv mod min max), kept canonical, so
// that equality of expressions is equality of values. Symbols stand for input sizes and are >= 1; a
// size that depends on data, which may be 0, is a symbol less 1.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vernier {

/// One instruction of a Dim in postfix order (what a shape program is made of).
struct DimOp {
  enum class Kind : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  Kind kind;
  int64_t constant = 0;  ///< kConstant
  std::string symbol;    ///< kSymbol
};

class Dim {
 public:
  Dim() : Dim(0) {}
  Dim(int64_t value);  // NOLINT(google-explicit-constructor): sizes are Dims
  /// `name` must be an identifier ([A-Za-z_][A-Za-z0-9_.]*).
  static Dim symbol(std::string_view name);
  /// Inverse of str(); throws Error(kInput) with the position on bad text.
  static Dim parse(std::string_view text);

  bool is_constant() const;
  /// The value of a constant Dim; asserts otherwise.
  int64_t constant() const;
  std::optional<int64_t> as_constant() const;
  /// The name if this is exactly one symbol, else empty.
  std::optional<std::string> as_symbol() const;
  /// The largest known lower bound, given that symbols are >= 1; empty if none is known.
  std::optional<int64_t> lower_bound() const;
  /// Names of all symbols in this expression, sorted, each once.
  std::vector<std::string> symbols() const;

  Dim substitute(const std::map<std::string, Dim>& replacements) const;
  /// Value under a binding of all symbols. Throws Error(kInput) on an unbound symbol or zero
  /// division.
  int64_t evaluate(const std::map<std::string, int64_t>& binding) const;
  /// The expression in postfix order.
  std::vector<DimOp> postfix() const;
  std::string str() const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend bool operator==(const Dim& a, const Dim& b);

  struct Polynomial;  // in dim.cpp

 private:
  explicit Dim(std::shared_ptr<const Polynomial> polynomial) : polynomial_(std::move(polynomial)) {}
  std::shared_ptr<const Polynomial> polynomial_;
  friend struct DimBuilder;
};

/// Floor division and modulus round toward minus infinity, as Python's // and %.
Dim floordiv(const Dim& a, const Dim& b);
Dim mod(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
/// a <= b for every value of the symbols? True and false when provable, else empty.
std::optional<bool> less_equal(const Dim& a, const Dim& b);
std::optional<bool> equal(const Dim& a, const Dim& b);
/// As less_equal, but also analyzes sums with one min or max: min(n, 5) + 2 <= n + 2.
std::optional<bool> at_most(const Dim& a, const Dim& b);
/// The message for a failed guard lhs == rhs with these values: "a = 1 must equal b = 2", or "3
/// must be at most n = 2" if the guard is min(a, b) == a.
std::string guard_text(const Dim& lhs, const Dim& rhs, int64_t left, int64_t right);

int64_t floordiv(int64_t a, int64_t b);
int64_t floormod(int64_t a, int64_t b);

/// A shape with symbolic sizes.
using SymShape = std::vector<Dim>;
/// "[batch, seq, 768]"
std::string str(const SymShape& shape);
bool is_constant(const SymShape& shape);
Dim product(const SymShape& shape);

}  // namespace vernier
