// Inference and cost of MatMul, Det, Gemm, Linear, LinearAddLayerNorm and Einsum. Contract:
// context.h, rules.h.
#include <algorithm>
#include <map>

#include "core/einsum.h"
#include "rules/checks.h"

namespace vernier::rules {
namespace {

double product_of(std::span<const int64_t> shape) { return static_cast<double>(num_elems(shape)); }

// 2 per multiply-add: every output element sums over k.
Cost product_cost(const CostCall& call, int64_t k) {
  return {2 * product_of(call.out[0]) * static_cast<double>(k), tensor_bytes(call)};
}

Dim unify_inner(InferContext& context, const Dim& a, const Dim& b) {
  if (equal(a, b) == false) {
    context.fail("inner sizes differ: input 0 has shape " + str(context.shape(0)) +
                 ", input 1 has shape " + str(context.shape(1)));
  }
  return context.unify(a, b);
}

}  // namespace

// As numpy.matmul: a 1-D operand is a row or a column that disappears; other axes broadcast.
void infer_matmul(InferContext& context) {
  require_same_type(context, 1);
  SymShape a = context.shape(0), b = context.shape(1);
  if (a.empty() || b.empty()) context.fail("inputs must have at least one axis, got a scalar");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), Dim(1));
  if (column) b.push_back(Dim(1));
  const Dim m = a[a.size() - 2], n = b.back();
  unify_inner(context, a.back(), b[b.size() - 2]);
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  SymShape out = broadcast(context, a, b);
  if (!row) out.push_back(m);
  if (!column) out.push_back(n);
  context.set_output(0, context.dtype(0), std::move(out));
}
Cost cost_matmul(const CostCall& call) { return product_cost(call, call.in[0].back()); }

void infer_det(InferContext& context) {
  require_float(context, 0);
  SymShape out = context.shape(0);
  if (out.size() < 2)
    context.fail("input 0 has shape " + str(out) + ", expected square matrices [..., n, n]");
  const Dim rows = out[out.size() - 2], cols = out.back();
  if (equal(rows, cols) == false)
    context.fail("the matrices of shape " + str(out) + " are not square");
  context.unify(rows, cols);
  out.resize(out.size() - 2);
  context.set_output(0, context.dtype(0), std::move(out));
}
Cost cost_det(const CostCall& call) {
  const auto size = static_cast<double>(call.in[0].back());
  return {2 * product_of(call.in[0]) * size / 3, tensor_bytes(call)};
}

void infer_gemm(InferContext& context) {
  const auto attrs = context.attrs<GemmAttrs>();
  require_rank(context, 0, 2);
  require_rank(context, 1, 2);
  require_float(context, 0);
  require_same_type(context, 1);
  const SymShape a = context.shape(0), b = context.shape(1);
  unify_inner(context, a[attrs.trans_a ? 0 : 1], b[attrs.trans_b ? 1 : 0]);
  const SymShape out{a[attrs.trans_a ? 1 : 0], b[attrs.trans_b ? 0 : 1]};
  if (context.has_input(2)) {
    require_same_type(context, 2);
    require_fits(context, 2, out);
  }
  context.set_output(0, context.dtype(0), out);
}
Cost cost_gemm(const CostCall& call) {
  const bool trans_a = decode<GemmAttrs>(call.attrs).trans_a;
  return product_cost(call, call.in[0][trans_a ? 0 : 1]);
}

namespace {

// One number per column in input `i`, if it is there.
void check_columns(InferContext& context, size_t i, const Dim& columns) {
  if (!context.has_input(i)) return;
  require_float(context, i);
  require_rank(context, i, 1);
  context.unify(context.shape(i)[0], columns);
}

// The shape of x·w + bias + residual, where inputs 0 to 3 are these.
SymShape linear_shape(InferContext& context, bool trans_w) {
  require_rank(context, 1, 2);
  require_float(context, 0);
  require_float(context, 1);
  SymShape out = context.shape(0);
  const SymShape w = context.shape(1);
  if (out.empty()) context.fail("input 0 must have at least one axis, got a scalar");
  unify_inner(context, out.back(), w[trans_w ? 1 : 0]);
  out.back() = w[trans_w ? 0 : 1];
  check_columns(context, 2, out.back());
  if (context.has_input(3)) {
    require_float(context, 3);
    require_rank(context, 3, context.rank(0));
    for (size_t i = 0; i < out.size(); ++i) context.unify(context.shape(3)[i], out[i]);
  }
  return out;
}

}  // namespace

void infer_linear(InferContext& context) {
  SymShape out = linear_shape(context, context.attrs<LinearAttrs>().trans_w);
  context.set_output(0, context.dtype(0), std::move(out));
}
Cost cost_linear(const CostCall& call) { return product_cost(call, call.in[0].back()); }

namespace {

// Of a typed graph q8 is a float like the others; the kernels look at the stored types.
void require_8_bits(InferContext& context, size_t i) {
  const DType type = context.dtype(i);
  if (is_8_bits(type) || is_float(type)) return;
  context.fail("input " + std::to_string(i) + " is " + std::string(name(type)) +
               ", expected q8, i8, u8 or f8e4m3");
}

bool is_one_number(const SymShape& shape) { return product(shape) == Dim(1); }

// Input `i` is one number, or has one for each column.
void check_one_or_columns(InferContext& context, size_t i, const Dim& columns) {
  const SymShape& shape = context.shape(i);
  if (is_one_number(shape)) return;
  require_rank(context, i, 1);
  context.unify(shape[0], columns);
}

// Input `i` is one number, or has one for each row of a result of shape `out`.
void check_one_or_rows(InferContext& context, size_t i, const SymShape& out) {
  const SymShape& shape = context.shape(i);
  if (is_one_number(shape)) return;
  require_rank(context, i, static_cast<int64_t>(out.size()));
  for (size_t axis = 0; axis < shape.size(); ++axis)
    context.unify(shape[axis], axis + 1 == shape.size() ? Dim(1) : out[axis]);
}

// A zero point of operand `of`, in its type.
void check_zero(InferContext& context, size_t i, size_t of) {
  require_same_type(context, i, of);
  if (!is_8_bits(context.dtype(i)) || context.dtype(i) == DType::kQ8)
    context.fail("input " + std::to_string(i) + " is a zero point of " +
                 std::string(name(context.dtype(i))) + " numbers, expected i8 or u8");
}

// Inputs 2 and 3 of QuantizeRows hold for all rows: there are none to find.
void check_static_scale(InferContext& context) {
  for (size_t i : {size_t{2}, size_t{3}}) {
    if (!context.has_input(i)) continue;
    require_float(context, i);
    if (!is_one_number(context.shape(i)))
      context.fail("input " + std::to_string(i) + " has shape " + str(context.shape(i)) +
                   ", expected one number");
  }
  if (context.num_outputs() > 1)
    context.fail("has " + std::to_string(context.num_outputs()) +
                 " outputs, expected one: its scale is given");
}

}  // namespace

// A row is the last axis.
void infer_quantize_rows(InferContext& context) {
  require_float(context, 0);
  SymShape shape = context.shape(0);
  if (shape.empty()) context.fail("input 0 must have at least one axis, got a scalar");
  check_columns(context, 1, shape.back());
  const DType to = context.attrs<QuantizeRowsAttrs>().to;
  if (!is_quantized_operand(to))
    context.fail("quantizes to " + std::string(name(to)) + ", expected q8 or f8e4m3");
  const bool has_zero = to == DType::kQ8;
  if (context.has_input(3) && !has_zero) context.fail("f8e4m3 has no zero point");
  if (has_zero && context.has_input(2) != context.has_input(3))
    context.fail("a scale and its zero point must both be given or both be absent");
  context.set_output(0, to, shape);
  if (context.has_input(2)) return check_static_scale(context);
  shape.back() = Dim(1);
  context.set_output(1, DType::kF32, shape);
  if (has_zero) {
    context.set_output(2, DType::kF32, std::move(shape));
  } else if (context.num_outputs() > 2) {
    context.fail("has 3 outputs, expected 2: f8e4m3 has no zero points");
  }
}

void infer_quantized_linear(InferContext& context) {
  const bool trans_w = context.attrs<QuantizedLinearAttrs>().trans_w;
  require_8_bits(context, 0);
  require_8_bits(context, 1);
  require_rank(context, 1, 2);
  SymShape out = context.shape(0);
  const SymShape w = context.shape(1);
  if (out.empty()) context.fail("input 0 must have at least one axis, got a scalar");
  unify_inner(context, out.back(), w[trans_w ? 1 : 0]);
  const Dim depth = out.back();
  // Sums of products of integers of 8 bits, at most 255 · 255 each, fit 32 bits.
  constexpr int64_t kMostProducts = 1 << 15;
  if (const auto k = depth.as_constant(); !k || *k > kMostProducts)
    context.fail("sums over " + depth.str() + " products, expected at most " +
                 std::to_string(kMostProducts));
  out.back() = w[trans_w ? 0 : 1];
  for (size_t i : {size_t{2}, size_t{3}}) require_float(context, i);
  check_one_or_rows(context, 2, out);
  check_one_or_columns(context, 3, out.back());
  if (context.has_input(4) && is_float(context.dtype(0))) {
    require_float(context, 4);
    check_one_or_rows(context, 4, out);
  } else if (context.has_input(4)) {
    check_zero(context, 4, 0);
    if (!is_one_number(context.shape(4)))
      context.fail("the zero point of input 0 has shape " + str(context.shape(4)) +
                   ", expected one number");
  }
  if (context.has_input(5)) {
    check_zero(context, 5, 1);
    check_one_or_columns(context, 5, out.back());
  }
  check_columns(context, 6, out.back());
  if (context.has_input(7)) {
    require_float(context, 7);
    require_rank(context, 7, context.rank(0));
    for (size_t i = 0; i < out.size(); ++i) context.unify(context.shape(7)[i], out[i]);
  }
  context.set_output(0, context.dtype(2), std::move(out));
}

void infer_weight_only_linear(InferContext& context) {
  const auto attrs = context.attrs<WeightOnlyLinearAttrs>();
  if (attrs.bits != 4 && attrs.bits != 8)
    context.fail("bits is " + std::to_string(attrs.bits) + ", expected 4 or 8");
  constexpr int64_t kLargestBlock = int64_t{1} << 28;
  if (attrs.block_size < 0 || attrs.block_size > kLargestBlock)
    context.fail("block_size is " + std::to_string(attrs.block_size) + ", expected 0 to 2^28");
  require_float(context, 0);
  const DType type = context.dtype(1);
  if (type != DType::kI8 && type != DType::kU8) require_float(context, 1);
  require_rank(context, 1, 2);
  SymShape out = context.shape(0);
  const SymShape w = context.shape(1);
  if (out.empty()) context.fail("input 0 must have at least one axis, got a scalar");
  unify_inner(context, out.back(), w[attrs.trans_w ? 1 : 0]);
  const Dim& depth = w[attrs.trans_w ? 1 : 0];
  out.back() = w[attrs.trans_w ? 0 : 1];
  require_float(context, 2);
  const auto check_scales = [&](size_t i) {
    if (attrs.block_size == 0 || is_one_number(context.shape(i)))
      return check_one_or_columns(context, i, out.back());
    require_rank(context, i, 2);
    const Dim blocks = floordiv(depth + Dim(attrs.block_size - 1), attrs.block_size);
    context.unify(context.shape(i)[0], blocks);
    context.unify(context.shape(i)[1], out.back());
  };
  check_scales(2);
  if (context.has_input(3)) {
    check_zero(context, 3, 1);
    check_scales(3);
  }
  check_columns(context, 4, out.back());
  if (context.has_input(5)) {
    require_float(context, 5);
    require_rank(context, 5, context.rank(0));
    for (size_t i = 0; i < out.size(); ++i) context.unify(context.shape(5)[i], out[i]);
  }
  context.set_output(0, context.dtype(0), std::move(out));
}

void infer_linear_add_layer_norm(InferContext& context) {
  SymShape out = linear_shape(context, context.attrs<LinearNormAttrs>().trans_w);
  for (size_t i : {size_t{4}, size_t{5}}) check_columns(context, i, out.back());
  context.set_output(0, context.dtype(0), std::move(out));
}

void infer_einsum(InferContext& context) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    require_same_type(context, i);
    ranks.push_back(context.shape(i).size());
  }
  const std::string text = context.attrs<EinsumAttrs>().equation;
  const EinsumEquation equation = with_node(context, [&] { return parse_einsum(text, ranks); });
  std::map<int, Dim> sizes;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    std::map<int, Dim> own;  // a label twice in one term walks a diagonal
    for (size_t axis = 0; axis < ranks[i]; ++axis) {
      const Dim& size = context.shape(i)[axis];
      const auto [it, fresh] = own.emplace(equation.inputs[i][axis], size);
      if (!fresh) it->second = context.unify(it->second, size);
    }
    for (const auto& [label, size] : own) {
      const auto [it, fresh] = sizes.emplace(label, size);
      if (!fresh) it->second = broadcast(context, {it->second}, {size})[0];
    }
  }
  SymShape out;
  for (int label : equation.output) out.push_back(sizes.at(label));
  context.set_output(0, context.dtype(0), std::move(out));
}
// A multiply-add per input for every position of all labels.
Cost cost_einsum(const CostCall& call) {
  std::vector<size_t> ranks;
  for (const Shape& shape : call.in) ranks.push_back(shape.size());
  const EinsumEquation equation = parse_einsum(decode<EinsumAttrs>(call.attrs).equation, ranks);
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t axis = 0; axis < ranks[i]; ++axis) {
      int64_t& size = sizes.try_emplace(equation.inputs[i][axis], 1).first->second;
      size = std::max(size, call.in[i][axis]);
    }
  }
  double positions = 1;
  for (const auto& [label, size] : sizes) positions *= static_cast<double>(size);
  return {2 * positions * static_cast<double>(ranks.size()), tensor_bytes(call)};
}

}  // namespace vernier::rules
