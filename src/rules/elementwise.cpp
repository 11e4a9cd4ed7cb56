// Inference of elementwise operators: broadcasting, element types, and the contents of small
// integer tensors that hold size expressions. Contract: context.h.
#include <algorithm>

#include "core/broadcast.h"
#include "core/elementwise_program.h"
#include "rules/checks.h"

namespace vernier::rules {
namespace {

using Operands = std::span<const Dim>;
using Known = std::optional<Dim>;  // empty: not known when the engine is built

// Contents are tracked for the types that shapes and conditions have.
bool tracks_contents(DType type) {
  return type == DType::kI64 || type == DType::kI32 || type == DType::kBool;
}

Shape concrete(const SymShape& shape) {
  Shape result;
  for (const Dim& d : shape) result.push_back(d.constant());
  return result;
}

// The contents of input `i`, repeated to `out`; empty if unknown.
std::optional<std::vector<Dim>> broadcast_contents(const InferContext& context, size_t i,
                                                   const Shape& out) {
  if (!tracks_contents(context.dtype(i)) || !is_constant(context.shape(i))) return std::nullopt;
  const auto values = context.values(i);
  if (!values) return std::nullopt;
  std::vector<Dim> result(static_cast<size_t>(num_elems(out)));
  const std::array strides{broadcast_strides(concrete(context.shape(i)), out)};
  for_each_broadcast(out, strides, [&](int64_t at, const std::array<int64_t, 1>& from) {
    result[at] = (*values)[from[0]];
  });
  return result;
}

// Constant output sizes small enough to track contents, or empty.
std::optional<Shape> tracked_output(const InferContext& context) {
  const SymShape* sizes = context.output_shape(0);
  if (sizes == nullptr || !is_constant(*sizes)) return std::nullopt;
  Shape out = concrete(*sizes);
  if (num_elems(out) > kMaxSymbolicElems) return std::nullopt;
  return out;
}

// Sets output 0's contents to op(operands) per element, if all are known.
template <class Op>
void set_contents(InferContext& context, const Op& op) {
  const auto out = tracked_output(context);
  if (!out) return;
  std::vector<std::vector<Dim>> inputs;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    auto contents = broadcast_contents(context, i, *out);
    if (!contents) return;
    inputs.push_back(std::move(*contents));
  }
  std::vector<Dim> result;
  for (size_t at = 0; at < static_cast<size_t>(num_elems(*out)); ++at) {
    std::vector<Dim> operands;
    for (const std::vector<Dim>& contents : inputs) operands.push_back(contents[at]);
    Known value = op(Operands(operands));
    if (!value) return;
    result.push_back(std::move(*value));
  }
  context.set_values(0, std::move(result));
}

// Numbers beyond this are sentinels (INT64_MAX as "to the end"), not sizes: sums and products of
// smaller ones cannot overflow.
bool is_size_like(const Dim& d) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  const auto number = d.as_constant();
  return !number || (*number > -kLimit && *number < kLimit);
}

// Broadcasts, then tracks op over numbers of size-like magnitude.
template <class Op>
void infer_arithmetic(InferContext& context, const Op& op) {
  infer_broadcast(context);
  const bool narrow = context.dtype(0) == DType::kI32;
  set_contents(context, [&](Operands operands) -> Known {
    for (const Dim& d : operands) {
      if (!is_size_like(d)) return std::nullopt;
    }
    Known result = op(operands);
    if (result && narrow && !is_size_like(*result)) return std::nullopt;  // would wrap
    return result;
  });
}

bool provably_at_least(const Dim& d, int64_t bound) {
  const auto low = d.lower_bound();
  return low && *low >= bound;
}

Known to_dim(std::optional<bool> known) {
  if (!known) return std::nullopt;
  return Dim(*known ? 1 : 0);
}

// A comparison or boolean operator: broadcast, bool output, contents where decidable.
template <class Op>
void infer_predicate(InferContext& context, const Op& op) {
  infer_broadcast(context);
  context.set_output(0, DType::kBool, *context.output_shape(0));
  set_contents(context, [&](Operands operands) -> Known {
    for (const Dim& d : operands) {
      if (!is_size_like(d)) return std::nullopt;
    }
    return op(operands[0], operands[1]);
  });
}

// And, Or, Xor on contents that are numbers.
template <class Op>
void infer_boolean(InferContext& context, const Op& op) {
  if (context.dtype(0) != DType::kBool)
    context.fail("inputs have type " + std::string(name(context.dtype(0))) + ", expected bool");
  infer_predicate(context, [&](const Dim& a, const Dim& b) -> Known {
    if (!a.is_constant() || !b.is_constant()) return std::nullopt;
    return Dim(op(a.constant(), b.constant()));
  });
}

Known negated(const Known& value) {
  if (!value) return value;
  return Dim(1) - *value;
}

}  // namespace

void infer_add(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known { return x[0] + x[1]; });
}
void infer_sub(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known { return x[0] - x[1]; });
}
void infer_mul(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known { return x[0] * x[1]; });
}
// Division truncates; size expressions floor: they agree where nothing is negative.
void infer_div(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known {
    if (x[0].is_constant() && x[1].is_constant()) {
      if (x[1] == Dim(0)) return std::nullopt;
      return Dim(x[0].constant() / x[1].constant());
    }
    if (!provably_at_least(x[0], 0) || !provably_at_least(x[1], 1)) return std::nullopt;
    return floordiv(x[0], x[1]);
  });
}
// With fmod the sign follows the dividend: the same where nothing is negative.
void infer_mod(InferContext& context) {
  const bool truncated = context.attrs<ModAttrs>().fmod;
  infer_arithmetic(context, [=](Operands x) -> Known {
    if (!provably_at_least(x[1], 1)) return std::nullopt;
    if (truncated && !provably_at_least(x[0], 0)) return std::nullopt;
    return mod(x[0], x[1]);
  });
}
void infer_min(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known {
    Dim result = x[0];
    for (const Dim& d : x.subspan(1)) result = min(result, d);
    return result;
  });
}
void infer_max(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known {
    Dim result = x[0];
    for (const Dim& d : x.subspan(1)) result = max(result, d);
    return result;
  });
}

// The base gives the type; the exponent may have another.
void infer_pow(InferContext& context) {
  context.set_output(0, context.dtype(0), broadcast(context, context.shape(0), context.shape(1)));
}

void infer_neg(InferContext& context) {
  infer_arithmetic(context, [](Operands x) -> Known { return Dim(0) - x[0]; });
}

// Of the floats a typed graph reports all but f64 as f32.
void infer_bit_cast(InferContext& context) {
  const auto [from, to] = context.attrs<BitCastAttrs>();
  const auto has_bits = [](DType type) {
    return size_bytes(type) > 0 && type != DType::kQ8 && type != DType::kQ4;
  };
  if (!has_bits(from) || !has_bits(to) || element_bits(from) != element_bits(to))
    context.fail("the bits of " + std::string(name(from)) + " are not those of " +
                 std::string(name(to)) + "; expected types of the same size");
  const bool converts = is_float(from) && from != DType::kF64 && context.dtype(0) == DType::kF32;
  if (context.dtype(0) != from && !converts)
    context.fail("input 0 has type " + std::string(name(context.dtype(0))) + ", expected " +
                 std::string(name(from)));
  context.set_output(0, to, context.shape(0));
}

// y = min(max(x, low), high); a bound is one number of the type of x.
void infer_clip(InferContext& context) {
  infer_same(context);
  for (size_t i = 1; i < context.num_inputs(); ++i) {
    if (!context.has_input(i)) continue;
    require_same_type(context, i);
    require_one_element(context, i);
  }
}

void infer_not(InferContext& context) {
  if (context.dtype(0) != DType::kBool)
    context.fail("input has type " + std::string(name(context.dtype(0))) + ", expected bool");
  infer_same(context);
  set_contents(context, [](Operands x) -> Known { return negated(x[0]); });
}

void infer_to_bool(InferContext& context) {
  require_float(context, 0);
  context.set_output(0, DType::kBool, context.shape(0));
}

// Contents survive between integer types and to bool; never through a float type.
void infer_cast(InferContext& context) {
  const DType to = context.attrs<CastAttrs>().to;
  if (to == DType::kUndefined || size_bytes(to) == 0)
    context.fail("casts to " + std::string(name(to)) + ", which is not a storage type");
  context.set_output(0, to, context.shape(0));
  if (!tracks_contents(to)) return;
  set_contents(context, [&](Operands x) -> Known {
    if (to == DType::kBool) return negated(to_dim(equal(x[0], Dim(0))));
    if (to == DType::kI32 && !is_size_like(x[0])) return std::nullopt;
    return x[0];
  });
}

void infer_equal(InferContext& context) {
  infer_predicate(context, [](const Dim& a, const Dim& b) { return to_dim(equal(a, b)); });
}
void infer_less(InferContext& context) {
  infer_predicate(context,
                  [](const Dim& a, const Dim& b) { return negated(to_dim(less_equal(b, a))); });
}
void infer_less_or_equal(InferContext& context) {
  infer_predicate(context, [](const Dim& a, const Dim& b) { return to_dim(less_equal(a, b)); });
}
void infer_greater(InferContext& context) {
  infer_predicate(context,
                  [](const Dim& a, const Dim& b) { return negated(to_dim(less_equal(a, b))); });
}
void infer_greater_or_equal(InferContext& context) {
  infer_predicate(context, [](const Dim& a, const Dim& b) { return to_dim(less_equal(b, a)); });
}
void infer_and(InferContext& context) {
  infer_boolean(context, [](int64_t a, int64_t b) { return a & b; });
}
void infer_or(InferContext& context) {
  infer_boolean(context, [](int64_t a, int64_t b) { return a | b; });
}
void infer_xor(InferContext& context) {
  infer_boolean(context, [](int64_t a, int64_t b) { return a ^ b; });
}

// An element is known where its condition is, or where both branches agree.
void infer_where(InferContext& context) {
  if (context.dtype(0) != DType::kBool) {
    context.fail("the condition has type " + std::string(name(context.dtype(0))) +
                 ", expected bool");
  }
  require_same_type(context, 2, 1);
  const SymShape branches = broadcast(context, context.shape(1), context.shape(2));
  context.set_output(0, context.dtype(1), broadcast(context, context.shape(0), branches));
  const auto out = tracked_output(context);
  if (!out) return;
  const auto x = broadcast_contents(context, 1, *out), y = broadcast_contents(context, 2, *out);
  if (!x || !y) return;
  const auto condition = broadcast_contents(context, 0, *out);
  std::vector<Dim> result;
  for (size_t i = 0; i < x->size(); ++i) {
    const bool decided = condition && (*condition)[i].is_constant();
    if (!decided && (*x)[i] != (*y)[i]) return;
    result.push_back(!decided || (*condition)[i] != Dim(0) ? (*x)[i] : (*y)[i]);
  }
  context.set_values(0, std::move(result));
}

namespace {

// Operands of an instruction must have the types that its operator's rule requires; floats of
// several types are converted to registers of one type.
void check_operands(InferContext& context, const Instruction& instruction,
                    const std::vector<DType>& types, const std::vector<SymShape>& shapes) {
  const auto bad = [&](size_t i, const std::string& expected) {
    const DType got = types[instruction.operands[i]];
    context.fail("instruction " + std::string(name(instruction.op)) + ": operand " +
                 std::to_string(i) + " has type " + std::string(name(got)) + ", expected " +
                 expected);
  };
  const auto type = [&](size_t i) { return types[instruction.operands[i]]; };
  const OpKind op = instruction.op;
  const Rule rule = rule_of(op);  // the same requirements for types
  const bool boolean = rule == &infer_not || rule == &infer_and || rule == &infer_or ||
                       rule == &infer_xor || rule == &infer_where;
  const bool real =
      rule == &infer_same_float || rule == &infer_broadcast_float || rule == &infer_to_bool;
  const bool bits = rule == &infer_same_integer || rule == &infer_broadcast_integer;
  if (boolean && type(0) != DType::kBool) bad(0, "bool");
  if (real && !is_float(type(0))) bad(0, "a float type");
  if (bits && is_float(type(0))) bad(0, "an integer type or bool");
  if (op == OpKind::kPow) return;  // the exponent may have another type
  const size_t first = op == OpKind::kWhere ? 1 : 0;
  for (size_t i = first + 1; i < instruction.operands.size(); ++i) {
    const bool floats = is_float(type(i)) && is_float(type(first));
    if (type(i) != type(first) && !floats) bad(i, std::string(name(type(first))));
    if (op != OpKind::kClip) continue;
    const Dim count = product(shapes[instruction.operands[i]]);
    if (equal(count, 1) == false) bad(i, "one number");
    context.require_equal(count, 1);
  }
}

// Every input is an operand, and so is every result but the last. Then every operand broadcasts to
// the last result, step by step: kernels run the whole program over that shape.
void require_used(InferContext& context, std::span<const Instruction> program) {
  std::vector<bool> used(context.num_inputs() + program.size(), false);
  for (const Instruction& instruction : program) {
    for (int index : instruction.operands) used[index] = true;
  }
  used.back() = true;
  const auto unused = std::find(used.begin(), used.end(), false);
  if (unused == used.end()) return;
  context.fail("elementwise program: no instruction reads %" +
               std::to_string(unused - used.begin()) +
               "; expected each input and each result but the last to be read");
}

}  // namespace

// Each instruction broadcasts its operands; its type follows the operator's row.
void infer_fused_elementwise(InferContext& context) {
  const std::string text = context.attrs<FusedElementwiseAttrs>().program;
  const std::vector<Instruction> program =
      with_node(context, [&] { return parse_elementwise_program(text, context.num_inputs()); });
  require_used(context, program);
  std::vector<DType> types;
  std::vector<SymShape> shapes;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    types.push_back(context.dtype(i));
    shapes.push_back(context.shape(i));
  }
  for (const Instruction& instruction : program) {
    check_operands(context, instruction, types, shapes);
    std::vector<DType> operand_types;
    SymShape shape;
    for (int index : instruction.operands) {
      operand_types.push_back(types[index]);
      shape = broadcast(context, shape, shapes[index]);
    }
    types.push_back(result_type(instruction, operand_types));
    shapes.push_back(std::move(shape));
  }
  context.set_output(0, types.back(), shapes.back());
}

}  // namespace vernier::rules
