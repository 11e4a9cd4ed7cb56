// FP64 evaluator of Einsum: one loop over all labels, output labels outermost.
// Contract: core/evaluator.h, core/einsum.h.
#include "core/einsum.h"

#include <algorithm>
#include <map>

#include "core/attrs.h"
#include "reference/elementwise.h"

namespace vernier::reference {
namespace {

struct EinsumLoop {
  Shape sizes;                 // output labels, then summed labels
  size_t num_output = 0;       // how many of them are output labels
  std::vector<Shape> strides;  // per input: one per label

  // Products per output element.
  int64_t terms() const { return num_elems(std::span(sizes).subspan(num_output)); }
};

std::map<int, int64_t> label_sizes(const EvalCall& call, const EinsumEquation& equation) {
  std::map<int, int64_t> sizes;
  for (size_t n = 0; n < equation.inputs.size(); ++n) {
    for (size_t axis = 0; axis < equation.inputs[n].size(); ++axis) {
      const int64_t size = call.in[n]->shape[axis];
      const auto [it, fresh] = sizes.emplace(equation.inputs[n][axis], size);
      if (!fresh && it->second == 1) it->second = size;
    }
  }
  return sizes;
}

EinsumLoop plan_loop(const EvalCall& call, const EinsumEquation& equation) {
  const std::map<int, int64_t> sizes = label_sizes(call, equation);
  std::vector<int> labels = equation.output;
  for (const auto& [label, size] : sizes) {
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
  }
  EinsumLoop loop;
  loop.num_output = equation.output.size();
  for (int label : labels) loop.sizes.push_back(sizes.at(label));
  for (size_t n = 0; n < equation.inputs.size(); ++n) {
    const Shape dense = row_major_strides(call.in[n]->shape);
    Shape strides(labels.size(), 0);
    for (size_t axis = 0; axis < dense.size(); ++axis) {
      const auto at = std::find(labels.begin(), labels.end(), equation.inputs[n][axis]);
      // A label that occurs twice in one input selects its diagonal: the strides add up.
      if (call.in[n]->shape[axis] != 1) strides[at - labels.begin()] += dense[axis];
    }
    loop.strides.push_back(std::move(strides));
  }
  return loop;
}

// visit(index of the output element, product of the inputs) for every index of the loop; those of
// one output element come one after the other.
template <class T, class Multiply, class Visit>
void for_each_product(const EinsumLoop& loop, const std::vector<const T*>& in,
                      const Multiply& multiply, const Visit& visit) {
  const int64_t count = num_elems(loop.sizes), sums = loop.terms();
  Shape position(loop.sizes.size(), 0);
  std::vector<const T*> at = in;
  for (int64_t i = 0; i < count; ++i) {
    T product = *at[0];
    for (size_t n = 1; n < at.size(); ++n) product = multiply(product, *at[n]);
    visit(static_cast<size_t>(i / sums), product);
    for (size_t axis = loop.sizes.size(); axis-- > 0;) {
      for (size_t n = 0; n < at.size(); ++n) at[n] += loop.strides[n][axis];
      if (++position[axis] < loop.sizes[axis]) break;
      for (size_t n = 0; n < at.size(); ++n) at[n] -= loop.strides[n][axis] * loop.sizes[axis];
      position[axis] = 0;
    }
  }
}

}  // namespace

void eval_einsum(const EvalCall& call) {
  std::vector<size_t> ranks;
  for (const EvalTensor* x : call.in) ranks.push_back(x->rank());
  const std::string text = decode<EinsumAttrs>(call.attrs).equation;
  const EinsumLoop loop = plan_loop(call, parse_einsum(text, ranks));
  EvalTensor& y = call.out[0];
  if (y.is_float()) {
    std::vector<const double*> in;
    for (const EvalTensor* x : call.in) in.push_back(x->f.data());
    const Sum nothing(call.rounding.accumulator());
    Sum sum = nothing;
    size_t current = 0;
    for_each_product(loop, in, std::multiplies<>{}, [&](size_t at, double product) {
      if (at != current) sum = nothing;
      current = at;
      sum.add(product);
      y.f[at] = sum.value();
    });
    for (double& v : y.f) v = call.rounding(0, v);
    return;
  }
  std::vector<const int64_t*> in;
  for (const EvalTensor* x : call.in) in.push_back(x->i.data());
  for_each_product(loop, in, wrapping_mul,
                   [&](size_t at, int64_t product) { y.i[at] = wrapping_add(y.i[at], product); });
  for (int64_t& v : y.i) v = wrap_integer(y.dtype, v);
}

}  // namespace vernier::reference
