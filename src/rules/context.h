// InferContext: what an operator's inference rule reads and sets. Sizes and attributes only: rules
// run on a graph while a model is built (ops/infer.h), and again on the steps of an engine when it
// is opened (runtime/proof.h). Contract of the infer column of ops.def: read inputs, set every
// output's type and shape, and for small integer tensors whose contents are size expressions the
// symbolic values. A rule checks everything that kernels and evaluators rely on: it fails through
// fail(), or adds a guard that is checked in every run. Throws Error(kInput).
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/attrs.h"
#include "core/dim.h"
#include "core/error.h"
#include "core/op_kind.h"
#include "core/tensor.h"

namespace vernier::rules {

/// Longest integer tensor whose contents are tracked symbolically.
inline constexpr int64_t kMaxSymbolicElems = 64;

/// The error of a rule, which already names its node.
struct Refusal : Error {
  explicit Refusal(const Error& error) : Error(error) {}
};

class InferContext {
 public:
  virtual ~InferContext() = default;

  virtual OpKind op() const = 0;
  virtual AttrView attr_bytes() const = 0;
  virtual size_t num_inputs() const = 0;
  virtual size_t num_outputs() const = 0;
  virtual bool has_input(size_t i) const = 0;
  /// In a typed graph every float input up to f32 is reported as f32: a node converts as it reads.
  virtual DType dtype(size_t i) const = 0;
  virtual const SymShape& shape(size_t i) const = 0;
  /// The input as a constant, or null.
  virtual const Tensor* constant(size_t i) const = 0;
  /// Contents of an integer or bool input: from its constant or its symbolic values; empty if
  /// unknown.
  virtual std::optional<std::vector<Dim>> values(size_t i) const = 0;

  virtual void set_output(size_t i, DType dtype, SymShape shape) = 0;
  /// The shape set so far; null for an unwanted output.
  virtual const SymShape* output_shape(size_t i) const = 0;
  /// Remembers symbolic contents if the output is an integer or bool tensor of at most
  /// kMaxSymbolicElems elements with constant shape and matching count; otherwise does nothing.
  virtual void set_values(size_t i, std::vector<Dim> values) = 0;

  /// Both sizes must be equal: the returned Dim stands for both. A plain symbol may be substituted
  /// by the other side, anything else becomes a guard. A size that only the data says is always a
  /// guard, and the other one is returned. Throws if the two are provably different.
  virtual Dim unify(const Dim& a, const Dim& b) = 0;
  /// Requires lhs == rhs at run time: a guard unless provable. Throws if provably false.
  virtual void require_equal(const Dim& lhs, const Dim& rhs) = 0;
  /// Requires small <= large at run time: a guard unless provable. Throws if provably false.
  virtual void require_at_most(const Dim& small, const Dim& large) = 0;
  /// A size that only the data says, at least 0 and at most `upper` where that is known. The same
  /// node gets the same size for the same hint each time. It is a symbol less 1, since symbols are
  /// at least 1.
  virtual Dim fresh_size(const std::string& hint, const std::optional<Dim>& upper) = 0;
  /// Do the inputs hold the values of one run? Then the rule says every size exactly, whatever work
  /// that takes; while a model is built it counts only where that is little work.
  virtual bool at_run() const { return false; }
  /// The error that names the node: "node 'x' (Op): <what>".
  virtual Error refusal(const std::string& what) const = 0;
  [[noreturn]] void fail(const std::string& what) const { throw Refusal(refusal(what)); }

  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// As values(), but only if every one is a number.
  std::optional<std::vector<int64_t>> integers(size_t i) const;
  template <class A>
  A attrs() const {
    return decode<A>(attr_bytes());
  }
  /// axis in [-rank, rank) to [0, rank); fails otherwise.
  size_t normalize_axis(int64_t axis, int64_t rank) const;

 protected:
  InferContext() = default;
  InferContext(const InferContext&) = default;
  InferContext& operator=(const InferContext&) = default;
};

/// ONNX multidirectional broadcasting of input shapes, unifying symbols.
SymShape broadcast(InferContext& context, const SymShape& a, const SymShape& b);

/// For operators that only move elements: after the output shapes are set, propagates the symbolic
/// values of `data_inputs` to the outputs by running the operator's evaluator on positions. The
/// other inputs must be numbers. Does nothing if anything is unknown.
void propagate_moved_values(InferContext& context, std::span<const size_t> data_inputs);

}  // namespace vernier::rules
