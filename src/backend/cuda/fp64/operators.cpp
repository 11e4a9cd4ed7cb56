// Operators of the FP64 evaluation on the GPU: see operators.h. Each does what its evaluator in
// src/reference does, in the same order of roundings.
#include "backend/cuda/fp64/operators.h"

#include <algorithm>
#include <array>

#include "backend/cuda/fp64/chain.h"
#include "backend/cuda/fp64/evaluation.h"
#include "core/attrs.h"
#include "core/axis_ranges.h"
#include "core/broadcast.h"
#include "core/elementwise_program.h"

namespace vernier::backend::cuda::fp64 {
namespace {

constexpr int64_t kLargeElems = int64_t{1} << 18;  // worth the way to the GPU

std::optional<Unary> unary_of(OpKind op, AttrView attrs) {
  switch (op) {
    case OpKind::kNeg:
      return Unary::kNeg;
    case OpKind::kAbs:
      return Unary::kAbs;
    case OpKind::kSqrt:
      return Unary::kSqrt;
    case OpKind::kReciprocal:
      return Unary::kReciprocal;
    case OpKind::kExp:
      return Unary::kExp;
    case OpKind::kLog:
      return Unary::kLog;
    case OpKind::kErf:
      return Unary::kErf;
    case OpKind::kTanh:
      return Unary::kTanh;
    case OpKind::kSigmoid:
      return Unary::kSigmoid;
    case OpKind::kRelu:
      return Unary::kRelu;
    case OpKind::kSin:
      return Unary::kSin;
    case OpKind::kCos:
      return Unary::kCos;
    case OpKind::kGelu:
      return decode<GeluAttrs>(attrs).kind == GeluKind::kErf ? Unary::kGeluErf : Unary::kGeluTanh;
    case OpKind::kCast: {
      const DType to = decode<CastAttrs>(attrs).to;
      const bool keeps =
          to == DType::kF64 || to == DType::kF32 || to == DType::kF16 || to == DType::kBF16;
      return keeps ? std::optional(Unary::kCopy) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Binary> binary_of(OpKind op) {
  switch (op) {
    case OpKind::kAdd:
      return Binary::kAdd;
    case OpKind::kSub:
      return Binary::kSub;
    case OpKind::kMul:
      return Binary::kMul;
    case OpKind::kDiv:
      return Binary::kDiv;
    case OpKind::kPow:
      return Binary::kPow;
    case OpKind::kMin:
      return Binary::kMin;
    case OpKind::kMax:
      return Binary::kMax;
    default:
      return std::nullopt;
  }
}

size_t axis_of(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}
bool is_axis(int64_t axis, size_t rank) {
  const auto size = static_cast<int64_t>(rank);
  return axis >= -size && axis < size;
}

Lines lines_of(const Shape& shape, size_t axis) {
  Lines lines;
  for (size_t d = 0; d < shape.size(); ++d)
    (d < axis ? lines.outer : d == axis ? lines.size : lines.inner) *= shape[d];
  return lines;
}

// The first of the axes that a reduction takes, if they are the last ones.
std::optional<size_t> last_axes(const EvalCall& call) {
  const auto attrs = decode<ReduceAttrs>(call.attrs);
  const EvalTensor* given = call.optional(1);
  const std::vector<int64_t>& axes = given != nullptr ? given->i : attrs.axes;
  const size_t rank = call.in[0]->rank();
  if (axes.empty() || axes.size() > rank) return std::nullopt;
  std::vector<size_t> sorted;
  for (const int64_t axis : axes) {
    if (!is_axis(axis, rank)) return std::nullopt;
    sorted.push_back(axis_of(axis, rank));
  }
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != rank - sorted.size() + i) return std::nullopt;
  return sorted.front();
}

// What a Gather takes where all axes before its own have one element, or of one place: rows of
// `width` elements.
struct Gathered {
  int64_t outer = 1, size = 0, width = 0;
};
std::optional<Gathered> gathered(const EvalCall& call) {
  const Shape& shape = call.in[0]->shape;
  const int64_t axis = decode<AxisAttrs>(call.attrs).axis;
  if (!is_axis(axis, shape.size()) || call.in[1]->is_float()) return std::nullopt;
  const Lines lines = lines_of(shape, axis_of(axis, shape.size()));
  if (lines.outer != 1 && call.in[1]->i.size() != 1) return std::nullopt;
  const bool within = std::ranges::all_of(
      call.in[1]->i, [&](int64_t i) { return i >= -lines.size && i < lines.size; });
  return within ? std::optional(Gathered{lines.outer, lines.size, lines.inner}) : std::nullopt;
}

size_t norm_axis(const EvalCall& call) {
  return axis_of(decode<NormAttrs>(call.attrs).axis, call.in[0]->rank());
}

// EmbedNorm: ids and table of each pair; of rows that exist.
bool takes_embed_norm(const EvalCall& call) {
  const int64_t tables = decode<EmbedNormAttrs>(call.attrs).tables;
  for (int64_t t = 0; t < tables; ++t) {
    const EvalTensor &ids = *call.in[2 * t], &table = *call.in[2 * t + 1];
    if (ids.is_float() || table.rank() != 2) return false;
    const int64_t rows = table.shape[0];
    if (!std::ranges::all_of(ids.i, [&](int64_t id) { return id >= -rows && id < rows; }))
      return false;
  }
  return true;
}

bool takes_program(const EvalCall& call) {
  const auto program =
      parse_elementwise_program(decode<FusedElementwiseAttrs>(call.attrs).program, call.in.size());
  return std::ranges::all_of(program, [](const Instruction& one) {
    return unary_of(one.op, one.attrs) || (binary_of(one.op) && one.operands.size() == 2);
  });
}

bool takes_kind(OpKind op, const EvalCall& call) {
  if (unary_of(op, call.attrs) || only_reshapes(op)) return true;
  if (binary_of(op)) {
    const bool folds = op == OpKind::kMin || op == OpKind::kMax;
    return call.in.size() == 2 && (!folds || call.rounding.inner().type == DType::kUndefined);
  }
  switch (op) {
    case OpKind::kMatMul:
    case OpKind::kGemm:
    case OpKind::kLinear:
    case OpKind::kLinearAddLayerNorm:
    case OpKind::kQuantizedLinear:
      return takes_product(op, call);
    case OpKind::kAttention:
      return takes_attention(call);
    case OpKind::kFusedElementwise:
      return takes_program(call);
    case OpKind::kWhere:
    case OpKind::kTranspose:
    case OpKind::kRMSNorm:
    case OpKind::kLayerNorm:
    case OpKind::kAddLayerNorm:
    case OpKind::kQuantizeRows:
      return true;
    case OpKind::kSoftmax:
      return is_axis(decode<AxisAttrs>(call.attrs).axis, call.in[0]->rank());
    case OpKind::kReduceMean:
    case OpKind::kReduceSum:
      return last_axes(call).has_value();
    case OpKind::kGather:
      return gathered(call).has_value();
    case OpKind::kEmbedNorm:
      return takes_embed_norm(call);
    default:
      return false;
  }
}

// Which inputs of an operator are integers: its condition, masks, axes, positions.
bool may_be_integer(OpKind op, size_t input) {
  switch (op) {
    case OpKind::kWhere:
      return input == 0;
    case OpKind::kAttention:
      return input >= AttentionAttrs::kKeep && input <= AttentionAttrs::kKeepQueries;
    case OpKind::kGather:
    case OpKind::kReduceMean:
    case OpKind::kReduceSum:
      return input == 1;
    case OpKind::kEmbedNorm:
      return true;
    default:
      return only_reshapes(op) && input > 0;
  }
}

void run_unary(Unary function, Evaluation& e) {
  const Operand x = e.operand(0);
  if (e.point(0).is_empty()) {
    e.call().out[0].there = function == Unary::kCopy ? x : chained(function, x);
    return;
  }
  unary(function, x->data(), e.output(0)->data(), x->elems(), 1, e.point(0), kStream);
}

void run_binary(Binary function, Evaluation& e) {
  const Operand a = e.operand(0), b = e.operand(1);
  const Shape& shape = e.call().out[0].shape;
  const std::array strides{broadcast_strides(e.in(0).shape, shape),
                           broadcast_strides(e.in(1).shape, shape)};
  const Layout layout = layout_of(shape, strides);
  if (e.point(0).is_empty()) {
    if (auto result = chained(function, layout, a, b)) {
      e.call().out[0].there = std::move(result);
      return;
    }
  }
  binary(function, layout, a->data(), b->data(), e.output(0)->data(), e.point(0), kStream);
}

void run_where(Evaluation& e) {
  const Operand a = e.operand(1), b = e.operand(2);
  const Integers condition(e.in(0));
  const Shape& shape = e.call().out[0].shape;
  const std::array strides{broadcast_strides(e.in(0).shape, shape),
                           broadcast_strides(e.in(1).shape, shape),
                           broadcast_strides(e.in(2).shape, shape)};
  where(layout_of(shape, strides), condition.data(), a->data(), b->data(), e.output(0)->data(),
        kStream);
}

void run_transpose(Evaluation& e) {
  const Operand x = e.operand(0);
  const Shape own = row_major_strides(e.in(0).shape);
  Shape strides;
  for (const int64_t axis : decode<TransposeAttrs>(e.call().attrs).perm)
    strides.push_back(own[axis_of(axis, own.size())]);
  strided_copy(layout_of(e.call().out[0].shape, std::array{strides}), 0, x->data(),
               e.output(0)->data(), kStream);
}

void run_gather(Evaluation& e) {
  const Operand x = e.operand(0);
  const Gathered rows = *gathered(e.call());
  std::vector<int64_t> places = e.in(1).i;
  for (int64_t& place : places) place += place < 0 ? rows.size : 0;
  if (places.size() == 1) {
    const std::array strides{Shape{rows.size * rows.width, 1}};
    strided_copy(layout_of({rows.outer, rows.width}, strides), places[0] * rows.width, x->data(),
                 e.output(0)->data(), kStream);
    return;
  }
  const Integers there(places);
  take_rows(x->data(), there.data(), std::ssize(places), rows.width, e.output(0)->data(), kStream);
}

void run_softmax(Evaluation& e) {
  const Operand x = e.operand(0);
  const Shape& shape = e.in(0).shape;
  const size_t axis = axis_of(decode<AxisAttrs>(e.call().attrs).axis, shape.size());
  softmax(lines_of(shape, axis), x->data(), e.output(0)->data(), e.inner().rounder, e.point(0),
          kStream);
}

void run_sum(bool mean, Evaluation& e) {
  const Operand x = e.operand(0);
  const ArrayPtr y = e.output(0);
  const int64_t cols = x->elems() / y->elems();
  sum_rows(x->data(), y->data(), y->elems(), cols, mean ? static_cast<double>(cols) : 1,
           e.inner().rounder, e.point(0), kStream);
}

// The sum of a row of each table, normalized.
void run_embed_norm(Evaluation& e) {
  const auto attrs = decode<EmbedNormAttrs>(e.call().attrs);
  const Shape& shape = e.call().out[0].shape;
  const Shape ids_shape(shape.begin(), shape.end() - 1);
  const int64_t cols = shape.back(), count = num_elems(ids_shape);
  const ArrayPtr y = e.output(0);
  Array row(y->elems());
  const Shape dense = row_major_strides(shape);
  const Layout same = layout_of(shape, std::array{dense, dense});
  for (int64_t t = 0; t < attrs.tables; ++t) {
    const EvalTensor& ids = e.in(2 * t);
    const Operand table = e.operand(2 * t + 1);
    const int64_t size = e.in(2 * t + 1).shape[0];
    std::vector<int64_t> places(static_cast<size_t>(count));
    for_each_broadcast(ids_shape, std::array{broadcast_strides(ids.shape, ids_shape)},
                       [&](int64_t at, const auto& from) {
                         const int64_t id = ids.i[from[0]];
                         places[at] = id < 0 ? id + size : id;
                       });
    const Integers there(places);
    take_rows(table->data(), there.data(), count, cols, t == 0 ? y->data() : row.data(), kStream);
    if (t == 0)
      e.round(*y, e.inner());
    else
      binary(Binary::kAdd, same, y->data(), row.data(), y->data(), e.inner(), kStream);
  }
  e.normalize(e.norm_of(attrs.epsilon, 0), *y, cols, 2 * attrs.tables, 2 * attrs.tables + 1, 4);
}

// y = x at its point, then normalized from `axis` on.
void run_norm(bool rms, Evaluation& e) {
  const Operand x = e.operand(0);
  const ArrayPtr y = e.output(0);
  unary(Unary::kCopy, x->data(), y->data(), x->elems(), 1, {}, kStream);
  const int64_t rows = num_elems(std::span(e.in(0).shape).first(norm_axis(e.call())));
  Norm norm = e.norm_of(decode<NormAttrs>(e.call().attrs).epsilon, 0);
  norm.rms = rms;
  if (!rms && e.wants(1)) norm.mean = e.output(1)->data();
  if (!rms && e.wants(2)) norm.inv_std = e.output(2)->data();
  e.normalize(norm, *y, y->elems() / rows, 1, rms ? SIZE_MAX : 2, 4);
}

void run_add_norm(Evaluation& e) {
  const Operand x = e.operand_at(0, 0), residual = e.operand_at(1, 0);
  const Shape& shape = e.call().out[0].shape;
  const ArrayPtr y = e.output(0);
  const std::array strides{broadcast_strides(e.in(0).shape, shape),
                           broadcast_strides(e.in(1).shape, shape)};
  binary(Binary::kAdd, layout_of(shape, strides), x->data(), residual->data(), y->data(),
         e.point(1), kStream);
  if (e.wants(1)) unary(Unary::kCopy, y->data(), e.output(1)->data(), y->elems(), 1, {}, kStream);
  const int64_t rows = num_elems(std::span(shape).first(norm_axis(e.call())));
  const Norm norm = e.norm_of(decode<NormAttrs>(e.call().attrs).epsilon, 1);
  e.normalize(norm, *y, y->elems() / rows, 2, 3, 5);
}

void run_quantize_rows(Evaluation& e) {
  const Operand x = e.operand(0), factor = e.operand(1), scale = e.operand(2), zero = e.operand(3);
  QuantizeRows how;
  how.is_f8 = decode<QuantizeRowsAttrs>(e.call().attrs).to == DType::kF8E4M3;
  how.largest = FloatRounder(DType::kF8E4M3).grid().max_finite;
  if (factor) how.factor = factor->data();
  if (scale) how.scale = scale->data();
  if (zero) how.zero = zero->data();
  if (e.wants(1)) how.scales = e.output(1)->data();
  if (e.wants(2)) how.zeros = e.output(2)->data();
  how.out = e.point(0);
  const int64_t cols = e.in(0).shape.back();
  quantize_rows(how, x->data(), e.output(0)->data(), x->elems() / cols, cols, kStream);
}

// One instruction after the other; each result is an inner result.
void run_program(Evaluation& e) {
  const EvalCall& call = e.call();
  const auto program =
      parse_elementwise_program(decode<FusedElementwiseAttrs>(call.attrs).program, call.in.size());
  std::vector<const EvalTensor*> values(call.in.begin(), call.in.end());
  std::vector<EvalTensor> results;
  results.reserve(program.size());  // `values` points into it
  for (const Instruction& instruction : program) {
    std::vector<const EvalTensor*> operands;
    Shape shape;
    for (const int index : instruction.operands) {
      operands.push_back(values[index]);
      shape = broadcast_shape(shape, operands.back()->shape);
    }
    EvalTensor& result = results.emplace_back(EvalTensor::shaped(DType::kF64, shape));
    Rounding rounding;
    rounding.set(0, call.rounding.inner());
    const EvalCall one_call{instruction.attrs, operands, std::span(&result, 1), rounding};
    Evaluation one(e.shared(), one_call);
    if (const auto function = unary_of(instruction.op, instruction.attrs))
      run_unary(*function, one);
    else
      run_binary(*binary_of(instruction.op), one);
    values.push_back(&result);
  }
  const Operand last = on_gpu(e.shared(), results.back());
  if (e.point(0).is_empty()) {
    call.out[0].there = last;
    return;
  }
  unary(Unary::kCopy, last->data(), e.output(0)->data(), last->elems(), 1, e.point(0), kStream);
}

// Masks over queries and keys: on the host they take longer than the layers behind them.
bool takes_booleans(OpKind op, const EvalCall& call) {
  using enum OpKind;
  const bool combines = op == kAnd || op == kOr;
  const bool moves = only_reshapes(op) || op == kCast;
  if ((!combines && !moves && op != kNot && op != kExpand) || call.rounding.records()) return false;
  const EvalTensor& y = call.out[0];
  for (size_t i = 0; i < (combines ? 2 : 1); ++i) {
    const EvalTensor* x = call.optional(i);
    if (x == nullptr || x->dtype != DType::kBool || x->elems() == 0 || x->rank() > kMaxAxes)
      return false;
    if (x->there == nullptr && (moves || op == kNot)) return false;
  }
  return y.dtype == DType::kBool && y.elems() >= kLargeElems && y.elems() < INT32_MAX &&
         y.rank() <= kMaxAxes;
}

void run_booleans(OpKind op, Evaluation& e) {
  const Shape& shape = e.call().out[0].shape;
  const Operand a = e.operand(0);
  if (op == OpKind::kAnd || op == OpKind::kOr) {
    return run_binary(op == OpKind::kAnd ? Binary::kMin : Binary::kMax, e);
  }
  if (op == OpKind::kNot) {
    const Array one(std::array{1.0}.data(), 1);
    const std::array strides{Shape(shape.size(), 0), row_major_strides(shape)};
    binary(Binary::kSub, layout_of(shape, strides), one.data(), a->data(), e.output(0)->data(), {},
           kStream);
    return;
  }
  if (op != OpKind::kExpand) {
    e.call().out[0].there = a;
    return;
  }
  const std::array strides{broadcast_strides(e.in(0).shape, shape)};
  strided_copy(layout_of(shape, strides), 0, a->data(), e.output(0)->data(), kStream);
}

}  // namespace

bool takes(OpKind op, const EvalCall& call) {
  if (!call.in.empty() && call.in[0] != nullptr && !call.out.empty() &&
      call.out[0].dtype == DType::kBool)
    return takes_booleans(op, call);
  bool any_there = false;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const EvalTensor* x = call.in[i];
    if (x == nullptr) continue;
    const bool fits = x->is_float() != may_be_integer(op, i) || op == OpKind::kEmbedNorm;
    if (!fits || x->rank() > kMaxAxes || x->elems() == 0) return false;
    any_there = any_there || x->there != nullptr;
  }
  for (const EvalTensor& y : call.out) {
    if (y.dtype == DType::kUndefined) continue;
    if (!y.is_float() || y.elems() == 0 || y.elems() >= INT32_MAX || y.rank() > kMaxAxes)
      return false;
  }
  if (call.in.empty() || call.in[0] == nullptr || call.out.empty() ||
      call.out[0].dtype == DType::kUndefined || !Sum::is_exact(call.rounding.accumulator()))
    return false;
  // What an evaluation begins with.
  const bool embeds = (op == OpKind::kGather || op == OpKind::kEmbedNorm || op == OpKind::kWhere) &&
                      call.out[0].elems() >= kLargeElems;
  const bool is_product = (flags(op) & kProduct) != 0;
  return (any_there || is_product || embeds) && takes_kind(op, call);
}

void evaluate(Shared& shared, OpKind op, const EvalCall& call) {
  Evaluation e(shared, call);
  if (call.out[0].dtype == DType::kBool) {
    run_booleans(op, e);
  } else if (const auto function = unary_of(op, call.attrs)) {
    run_unary(*function, e);
  } else if (const auto combined = binary_of(op)) {
    run_binary(*combined, e);
  } else if (only_reshapes(op)) {
    call.out[0].there = on_gpu(shared, *call.in[0]);
  } else {
    switch (op) {
      case OpKind::kWhere:
        run_where(e);
        break;
      case OpKind::kTranspose:
        run_transpose(e);
        break;
      case OpKind::kGather:
        run_gather(e);
        break;
      case OpKind::kEmbedNorm:
        run_embed_norm(e);
        break;
      case OpKind::kSoftmax:
        run_softmax(e);
        break;
      case OpKind::kReduceMean:
        run_sum(true, e);
        break;
      case OpKind::kReduceSum:
        run_sum(false, e);
        break;
      case OpKind::kLayerNorm:
        run_norm(false, e);
        break;
      case OpKind::kRMSNorm:
        run_norm(true, e);
        break;
      case OpKind::kAddLayerNorm:
        run_add_norm(e);
        break;
      case OpKind::kQuantizeRows:
        run_quantize_rows(e);
        break;
      case OpKind::kFusedElementwise:
        run_program(e);
        break;
      case OpKind::kAttention:
        run_attention(e);
        break;
      default:
        run_product(op, e);
    }
  }
  e.finish();
}

}  // namespace vernier::backend::cuda::fp64
