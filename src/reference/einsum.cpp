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
      // A label that occurs twice in one input walks its diagonal: the strides add up.
      if (call.in[n]->shape[axis] != 1)
        strides[static_cast<size_t>(at - labels.begin())] += dense[axis];
    }
    loop.strides.push_back(std::move(strides));
  }
  return loop;
}

// out[...] += product of the inputs over every index of the loop.
template <class T, class Multiply, class Add>
void accumulate(const EinsumLoop& loop, const std::vector<const T*>& in, std::vector<T>& out,
                const Multiply& multiply, const Add& add) {
  const int64_t count = num_elems(loop.sizes);
  const Shape summed(loop.sizes.begin() + static_cast<int64_t>(loop.num_output), loop.sizes.end());
  const int64_t sums = num_elems(summed);
  Shape position(loop.sizes.size(), 0);
  std::vector<const T*> at = in;
  for (int64_t i = 0; i < count; ++i) {
    T product = *at[0];
    for (size_t n = 1; n < at.size(); ++n) product = multiply(product, *at[n]);
    T& sum = out[static_cast<size_t>(i / sums)];
    sum = add(sum, product);
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
    accumulate(loop, in, y.f, std::multiplies<>{}, std::plus<>{});
    for (double& v : y.f) v = call.rounding(0, v);
    return;
  }
  std::vector<const int64_t*> in;
  for (const EvalTensor* x : call.in) in.push_back(x->i.data());
  accumulate(loop, in, y.i, wrapping_mul, wrapping_add);
  for (int64_t& v : y.i) v = wrap_integer(y.dtype, v);
}

}  // namespace vernier::reference
