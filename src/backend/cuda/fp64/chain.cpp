// Chains of elementwise operators: see chain.h.
#include "backend/cuda/fp64/chain.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/check.h"

namespace vernier::backend::cuda::fp64 {
namespace {

using ArrayPtr = std::shared_ptr<const Array>;
using StepPtr = std::shared_ptr<const ChainStep>;

// A chain whose result is x's and which one more operator may follow; none: it begins with x.
StepPtr end_of(const ArrayPtr& x) {
  const StepPtr& pending = x->pending();
  if (pending && pending->length >= kMostChainSteps) x->compute();
  return x->pending();
}

ChainStep behind(const ArrayPtr& x) {
  ChainStep step;
  step.before = end_of(x);
  if (step.before)
    step.length = step.before->length + 1;
  else
    step.first = x;
  return step;
}

// After how many steps the chain behind `step` is what `x` holds; -1: never.
int32_t place_in(const ChainStep& step, const ArrayPtr& x) {
  const ChainStep* at = &step;
  for (; at->before; at = at->before.get())
    if (at->before == x->pending()) return at->before->length;
  return at->first == x ? 0 : -1;
}

// Do these strides read a dense array of the layout's sizes in order?
bool is_dense(const Layout& layout, int operand) {
  int64_t stride = 1;
  for (int32_t d = layout.rank - 1; d >= 0; --d) {
    if (layout.strides[operand][d] != stride) return false;
    stride *= layout.sizes[d];
  }
  return true;
}

// Which earlier results a chain keeps for later operators, without repeats, in order of use.
struct Kept {
  std::array<int32_t, kChainSlots> places{};
  int32_t count = 0;

  int32_t slot_of(int32_t place) const {
    for (int32_t n = 0; n < count; ++n)
      if (places[n] == place) return n;
    return -1;
  }
  bool add(int32_t place) {
    if (slot_of(place) >= 0) return true;
    if (count == kChainSlots) return false;
    places[count++] = place;
    return true;
  }
};
Kept kept_by(const ChainStep* last) {
  Kept kept;
  for (; last != nullptr; last = last->before.get())
    if (last->earlier > 0 && last->earlier < last->length - 1) kept.add(last->earlier);
  return kept;
}

Layout of_operand(const Layout& layout, int operand) {
  Layout one = layout;
  std::copy_n(layout.strides[operand], kMaxAxes, one.strides[0]);
  return one;
}

}  // namespace

ArrayPtr chained(Unary function, const ArrayPtr& x) {
  ChainStep step = behind(x);
  step.function = function;
  return Array::result_of(std::make_shared<const ChainStep>(std::move(step)), x->elems());
}

ArrayPtr chained(Binary function, const Layout& layout, const ArrayPtr& a, const ArrayPtr& b) {
  std::array operands{a, b};
  const auto continues = [&](int i) {
    return operands[i]->elems() == layout.elems && is_dense(layout, i);
  };
  const auto length = [&](int i) {
    return operands[i]->pending() ? operands[i]->pending()->length : 0;
  };
  if (!continues(0) && !continues(1)) return nullptr;
  // The longer chain goes on, since it may hold the other operand.
  const int main = continues(0) && (!continues(1) || length(0) >= length(1)) ? 0 : 1;
  ChainStep step = behind(operands[main]);
  step.function = function;
  step.other_is_left = main == 1;
  const int32_t place = continues(1 - main) ? place_in(step, operands[1 - main]) : -1;
  const bool is_itself = place == step.length - 1;
  if (is_itself || (place > 0 && kept_by(step.before.get()).add(place))) {
    step.earlier = place;
  } else {
    step.other = operands[1 - main];
    step.layout = of_operand(layout, 1 - main);
  }
  return Array::result_of(std::make_shared<const ChainStep>(std::move(step)), layout.elems);
}

void run_chain(const ChainStep& last, int64_t elems, double* y) {
  std::array<const ChainStep*, kMostChainSteps> steps{};
  const ChainStep* at = &last;
  for (int32_t i = last.length - 1; i >= 0; --i, at = at->before.get()) steps[i] = at;
  const Kept kept = kept_by(&last);
  Chain chain;
  chain.steps = last.length;
  chain.first = steps[0]->first->data();
  for (int32_t i = 0; i < last.length; ++i) {
    const ChainStep& step = *steps[i];
    ChainOperator& to = chain.at[i];
    to.save_in = kept.slot_of(i + 1);
    if (const auto* function = std::get_if<Unary>(&step.function)) {
      to.unary = *function;
      continue;
    }
    to.is_binary = true;
    to.binary = std::get<Binary>(step.function);
    to.other_is_left = step.other_is_left;
    if (!step.other) {
      to.other = step.earlier == i ? ChainOperator::kItself
                                   : ChainOperator::kSlot + kept.slot_of(step.earlier);
      continue;
    }
    to.array = step.other->data();
    to.layout = step.layout;
  }
  fp64::chain(chain, elems, y, kStream);
  check_cuda(cudaGetLastError(), "launching an FP64 kernel");
}

}  // namespace vernier::backend::cuda::fp64
