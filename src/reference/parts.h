// Evaluators on all threads.
#pragma once
#include <functional>

#include "core/evaluator.h"

namespace vernier::reference {

/// Elements per thread at least, where one takes a function such as exp, or a few additions.
inline constexpr int64_t kFunctionGrain = 1 << 12, kCopyGrain = 1 << 15;

/// body(part, begin, end) over [0, count) in parts of at least `least`, on all threads. `part` is
/// the call with a Rounding of the part's own, whose peaks are added to the call's: bodies round
/// through it, and write elements of their own.
void in_rounded_parts(
    const EvalCall& call, int64_t count, int64_t least,
    const std::function<void(const EvalCall& part, int64_t begin, int64_t end)>& body);

/// Every element of output 0 through rounding point `point`, on all threads.
void round_out_each(const EvalCall& call, size_t point);
/// Every element of `values` as an inner result, on all threads.
void round_inner_parts(const EvalCall& call, std::span<double> values);

/// body(rounding, i) for every i of [0, count), in such parts.
template <class Body>
void for_each_rounded(const EvalCall& call, int64_t count, int64_t least, const Body& body) {
  in_rounded_parts(call, count, least, [&](const EvalCall& part, int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      body(part.rounding, i);
  });
}

}  // namespace vernier::reference
