// cuda.einsum.loops: contractions of up to four operands. Contract: core/einsum.h. What is a batch
// of matrix products runs on their tiles (matmul.h), the rest one thread per element (einsum.h);
// both add the same products in the same order, so they give the same bits.
#include "backend/cuda/kernels/linear/einsum.h"

#include <algorithm>
#include <optional>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/cuda/kernels/linear/matmul.h"
#include "backend/cuda/product_numerics.h"
#include "core/einsum.h"

namespace vernier::backend::cuda {
namespace {

// The labels of an equation in the order of the loop: y's, then the summed ones from small to
// large.
std::vector<int> loop_labels(const EinsumEquation& equation) {
  std::vector<int> labels = equation.output, summed;
  for (const std::vector<int>& term : equation.inputs) {
    for (int label : term) {
      if (std::ranges::find(labels, label) == labels.end() &&
          std::ranges::find(summed, label) == summed.end())
        summed.push_back(label);
    }
  }
  std::ranges::sort(summed);
  labels.insert(labels.end(), summed.begin(), summed.end());
  return labels;
}

EinsumEquation equation_of(AttrView attrs, const std::vector<size_t>& ranks) {
  return parse_einsum(decode<EinsumAttrs>(attrs).equation, ranks);
}

Support supports_einsum(const Problem& problem) {
  std::vector<size_t> ranks;
  for (const Operand& in : problem.inputs) ranks.push_back(rank_of(in));
  if (ranks.size() > static_cast<size_t>(kMaxTerms))
    return no("it has " + std::to_string(ranks.size()) + " operands");
  const size_t labels = loop_labels(equation_of(problem.attrs, ranks)).size();
  if (labels > static_cast<size_t>(kMaxLabels))
    return no("it has " + std::to_string(labels) + " labels");
  const DType type = problem.outputs[0].dtype;
  return is_float(type) ? all_up_to_f32(problem) : yes();
}

Numerics einsum_numerics(const Problem& problem) {
  return is_float(problem.outputs[0].dtype) ? float_product_numerics(problem)
                                            : exact_numerics(problem);
}

EinsumLaunch plan_loop(const PrepareCall& call) {
  std::vector<size_t> ranks;
  for (const TensorArg& x : call.in) ranks.push_back(static_cast<size_t>(x.rank));
  const EinsumEquation equation = equation_of(call.attrs, ranks);
  const std::vector<int> labels = loop_labels(equation);
  EinsumLaunch e{};
  e.labels = static_cast<int>(labels.size());
  e.outputs = static_cast<int>(equation.output.size());
  e.terms = static_cast<int>(call.in.size());
  std::fill_n(e.size, kMaxLabels, 1);
  for (size_t n = 0; n < call.in.size(); ++n) {
    const TensorArg& x = call.in[n];
    for (int axis = 0; axis < x.rank; ++axis) {
      const int label = equation.inputs[n][axis];
      const auto at = std::ranges::find(labels, label) - labels.begin();
      if (x.dim(axis) == 1) continue;
      e.size[at] = x.dim(axis);
      // A label that occurs twice in one input walks its diagonal: the strides add up.
      e.term[n].step[at] += x.stride(axis);
    }
  }
  return e;
}

// ---- as a batch of matrix products

struct Loop {
  int64_t size, a, b, c;  // steps of the two operands and of y
};

// Neighbouring loops that step together become one.
void merge(std::vector<Loop>& loops) {
  std::vector<Loop> merged;
  for (const Loop& loop : loops) {
    if (!merged.empty()) {
      Loop& last = merged.back();
      if (last.a == loop.a * loop.size && last.b == loop.b * loop.size &&
          last.c == loop.c * loop.size) {
        last = {last.size * loop.size, loop.a, loop.b, loop.c};
        continue;
      }
    }
    merged.push_back(loop);
  }
  loops = std::move(merged);
}

// The longest loop of `loops`, which the others leave to the batch.
Loop take_longest(std::vector<Loop>& loops, std::vector<Loop>& batch) {
  if (loops.empty()) return {1, 0, 0, 0};
  const auto longest = std::ranges::max_element(loops, {}, &Loop::size);
  const Loop taken = *longest;
  loops.erase(longest);
  batch.insert(batch.end(), loops.begin(), loops.end());
  return taken;
}

// Empty where a label is summed in one operand only, where the summed ones do not merge, or where
// there are more loops than axes.
std::optional<ProductLaunch> as_product(const EinsumLaunch& e, std::span<const TensorArg> in,
                                        const TensorArg& y) {
  if (e.terms != 2 || !is_float(y.dtype)) return std::nullopt;
  std::vector<Loop> batch, rows, cols, summed;
  int64_t step = y.elems();
  if (step == 0) return std::nullopt;
  for (int i = 0; i < e.labels; ++i) {
    if (i < e.outputs) step /= e.size[i];
    if (e.size[i] == 1) continue;
    const Loop loop{e.size[i], e.term[0].step[i], e.term[1].step[i], i < e.outputs ? step : 0};
    const bool in_a = loop.a != 0, in_b = loop.b != 0;
    if (i >= e.outputs && !(in_a && in_b)) return std::nullopt;
    (i >= e.outputs ? summed : in_a && in_b ? batch : in_a ? rows : cols).push_back(loop);
  }
  for (std::vector<Loop>* loops : {&batch, &rows, &cols, &summed}) merge(*loops);
  if (summed.size() > 1) return std::nullopt;
  const Loop row = take_longest(rows, batch), col = take_longest(cols, batch);
  const Loop k = summed.empty() ? Loop{1, 0, 0, 0} : summed[0];
  if (batch.size() > static_cast<size_t>(kMaxAxes) || k.size > INT32_MAX) return std::nullopt;
  ProductLaunch p{};
  p.a = {
      .data = nullptr, .type = in[0].dtype, .row_step = row.a, .col_step = k.a, .batch_step = {}};
  p.b = {
      .data = nullptr, .type = in[1].dtype, .row_step = k.b, .col_step = col.b, .batch_step = {}};
  p.c = {.data = nullptr, .type = y.dtype, .row_step = row.c, .col_step = col.c, .batch_step = {}};
  p.rows = row.size;
  p.cols = col.size;
  p.k = static_cast<int>(k.size);
  p.alpha = 1;
  p.batches = 1;
  for (const Loop& loop : batch) {
    const int axis = p.batch_axes++;
    p.batch[axis] = loop.size;
    p.a.batch_step[axis] = loop.a;
    p.b.batch_step[axis] = loop.b;
    p.c.batch_step[axis] = loop.c;
    p.batches *= loop.size;
  }
  return p;
}

struct EinsumShape final : ShapeState {
  EinsumLaunch loop{};
  std::optional<ProductLaunch> product;
};

std::unique_ptr<ShapeState> prepare_einsum(const PrepareCall& call) {
  auto shape = std::make_unique<EinsumShape>();
  shape->loop = plan_loop(call);
  shape->product = as_product(shape->loop, call.in, call.out[0]);
  return shape;
}

void launch_einsum(const LaunchCall& call) {
  const auto& shape = static_cast<const EinsumShape&>(*call.shape_state);
  const cudaStream_t stream = stream_of(call.execution);
  if (shape.product) {
    ProductLaunch p = *shape.product;
    p.a.data = call.in[0].data;
    p.b.data = call.in[1].data;
    p.c.data = call.out[0].data;
    check_cuda(multiply(p, false, stream), "Einsum");
    return;
  }
  EinsumLaunch e = shape.loop;
  for (size_t n = 0; n < call.in.size(); ++n) {
    e.term[n].data = call.in[n].data;
    e.term[n].type = call.in[n].dtype;
  }
  e.y = call.out[0].data;
  e.y_type = call.out[0].dtype;
  check_cuda(sum_products(e, stream), "Einsum");
}

}  // namespace

extern const KernelBody einsum_loops;
constexpr KernelBody einsum_loops{
    .supports = &supports_einsum,
    .numerics = &einsum_numerics,
    .strided_inputs = kAllStrided,
    .prepare = &prepare_einsum,
    .launch = &launch_einsum,
};

}  // namespace vernier::backend::cuda
