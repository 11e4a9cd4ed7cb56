// cpu.reduce_*.groups, cpu.arg_max/arg_min.columns: reductions over any axes. Contract:
// ReduceAttrs, ArgReduceAttrs in core/attrs.h. f32 is carried in double in a fixed order (16
// interleaved partial sums along a contiguous group, one after the other otherwise), so an output's
// bits depend on its own elements only; integers are carried in int64 and wrap. NaN wins in Max and
// Min.
#include "backend/cpu/kernels/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/index.h"
#include "core/error.h"

namespace vernier::backend::cpu {

Groups split_axes(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto& attrs = attrs_of<ReduceAttrs>(call.state);
  const bool has_input = given(call.in, 1);
  const int64_t named = has_input ? call.in[1].elems() : static_cast<int64_t>(attrs.axes.size());
  std::array<bool, kMaxRank> is_reduced{};
  if (named == 0) is_reduced.fill(!attrs.noop_with_empty_axes);
  for (int64_t i = 0; i < named; ++i) {
    const int64_t axis = has_input ? read_axis(call.in[1], i, x, "a reduction")
                                   : positive_axis(attrs.axes[i], x.rank);
    is_reduced[axis] = true;
  }
  Groups groups;
  for (int i = 0; i < x.rank; ++i)
    (is_reduced[i] ? groups.reduced : groups.kept).add({x.dim(i), x.stride(i)});
  if (groups.kept.elems() != call.out[0].elems()) {
    throw Error(ErrorCode::kInput,
                "a reduction: its axes leave " + std::to_string(groups.kept.elems()) +
                    " elements, its output has " + std::to_string(call.out[0].elems()) +
                    "; give it the axes that the output's shape was inferred from");
  }
  return groups;
}

namespace {

// ---- functions: initial value, one step, combination of partial results, final step

template <class T>
struct Carried {
  using type = int64_t;
};
template <>
struct Carried<float> {
  using type = double;
};

struct SumOp {
  template <class A>
  static A start() {
    return 0;
  }
  template <class A>
  static A step(A a, A x) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(x));
    else
      return a + x;
  }
  template <class A>
  static A join(A a, A b) {
    return step(a, b);
  }
  template <class A>
  static A end(A a, int64_t) {
    return a;
  }
};
struct MeanOp : SumOp {
  template <class A>
  static A end(A a, int64_t count) {
    return a / static_cast<A>(count);
  }
};
struct AbsSumOp : SumOp {
  template <class A>
  static A step(A a, A x) {
    if constexpr (std::is_integral_v<A>)  // the smallest number has no opposite: it wraps
      return SumOp::step(a, x < 0 ? static_cast<A>(0 - static_cast<uint64_t>(x)) : x);
    else
      return SumOp::step(a, x < 0 ? -x : x);
  }
};
struct SquareSumOp : SumOp {
  template <class A>
  static A step(A a, A x) {
    if constexpr (std::is_integral_v<A>)
      return SumOp::step(a, static_cast<A>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x)));
    else
      return SumOp::step(a, x * x);
  }
};
struct NormOp : SquareSumOp {
  template <class A>
  static A end(A a, int64_t) {
    return static_cast<A>(std::sqrt(a));
  }
};
struct LogSumOp : SumOp {
  template <class A>
  static A end(A a, int64_t) {
    return static_cast<A>(std::log(a));
  }
};
struct ProductOp {
  template <class A>
  static A start() {
    return 1;
  }
  template <class A>
  static A step(A a, A x) {
    if constexpr (std::is_integral_v<A>)
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(x));
    else
      return a * x;
  }
  template <class A>
  static A join(A a, A b) {
    return step(a, b);
  }
  template <class A>
  static A end(A a, int64_t) {
    return a;
  }
};
template <bool kMax>
struct ExtremeOp {
  template <class A>
  static A start() {
    if constexpr (std::is_integral_v<A>)
      return kMax ? std::numeric_limits<A>::min() : std::numeric_limits<A>::max();
    else
      return kMax ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::infinity();
  }
  template <class A>
  static A step(A a, A x) {
    const bool better = kMax ? x > a : x < a;
    return better || x != x ? x : a;  // no number is better than NaN
  }
  template <class A>
  static A join(A a, A b) {
    return step(a, b);
  }
  template <class A>
  static A end(A a, int64_t) {
    return a;
  }
};

// ---- loops

constexpr int64_t kLanes = 16;

// One contiguous group.
template <class Op, class T, class A = typename Carried<T>::type>
A reduce_row(const T* x, int64_t n) {
  std::array<A, kLanes> part;
  part.fill(Op::template start<A>());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const auto k = static_cast<size_t>(l);
      part[k] = Op::template step<A>(part[k], static_cast<A>(x[i + l]));
    }
  }
  for (; i < n; ++i) part[0] = Op::template step<A>(part[0], static_cast<A>(x[i]));
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) part[l] = Op::template join<A>(part[l], part[l + width]);
  }
  return part[0];
}

// `columns` neighboring outputs at once, one step of `axes` of the group at a time.
template <class Op, class T, class A = typename Carried<T>::type>
void reduce_columns(const T* x, const Axes& reduced, int64_t columns, A* sums) {
  std::fill_n(sums, columns, Op::template start<A>());
  const int64_t count = reduced.elems();
  for (int64_t k = 0; k < count; ++k) {
    const T* row = x + reduced.offset(k);
    for (int64_t c = 0; c < columns; ++c)
      sums[c] = Op::template step<A>(sums[c], static_cast<A>(row[c]));
  }
}

template <class Op, class T>
void reduce_typed(const LaunchCall& call) {
  using A = typename Carried<T>::type;
  const Groups groups = split_axes(call);
  const T* x = call.in[0].as<const T>();
  T* y = call.out[0].as<T>();
  const int64_t count = groups.reduced.elems(), outputs = call.out[0].elems();
  const Axes& reduced = groups.reduced;
  const bool rows = reduced.count == 1 && reduced.list[0].stride == 1;
  const Axes& kept = groups.kept;
  const Axis last = kept.last();
  // Neighboring outputs share rows of the source where the last kept axis is contiguous.
  constexpr int64_t kColumns = 64;
  const int64_t block = rows || last.stride != 1 ? 1 : std::min(kColumns, last.size);
  const int64_t per_line = (last.size + block - 1) / block;
  const int64_t lines = last.size == 0 ? 0 : outputs / last.size;
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, count * block));
  call.execution.threads->parallel_for(
      lines * per_line, grain, [&](int64_t begin, int64_t end, int) {
        std::array<A, kColumns> sums;
        for (int64_t k = begin; k < end; ++k) {
          const int64_t first = k / per_line * last.size + k % per_line * block;
          const int64_t columns = std::min(block, last.size - k % per_line * block);
          const T* src = x + kept.offset(first);
          if (rows)
            sums[0] = reduce_row<Op, T>(src, count);
          else
            reduce_columns<Op, T>(src, reduced, columns, sums.data());
          for (int64_t c = 0; c < columns; ++c) {
            y[first + c] = static_cast<T>(Op::template end<A>(sums[c], count));
          }
        }
      });
}

template <class Op>
void reduce(const LaunchCall& call) {
  if (call.out[0].elems() == 0) return;
  if (call.in[0].dtype == DType::kF32) return reduce_typed<Op, float>(call);
  if (call.in[0].dtype == DType::kI32) return reduce_typed<Op, int32_t>(call);
  reduce_typed<Op, int64_t>(call);
}

Support supports_reduce(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (type == DType::kF32) return all_f32(problem);
  const bool floats_only = problem.op == OpKind::kReduceMean || problem.op == OpKind::kReduceL2 ||
                           problem.op == OpKind::kReduceLogSum;
  const bool extreme = problem.op == OpKind::kReduceMax || problem.op == OpKind::kReduceMin;
  // An empty group of integers gives its type's extreme value, which the evaluator computes.
  if (!floats_only && !extreme && (type == DType::kI32 || type == DType::kI64)) return yes();
  if (extreme && type == DType::kI64) return yes();
  return no("no loop for " + std::string(name(type)));
}

Numerics numerics_reduce(const Problem& problem) {
  Numerics result = f32_numerics(problem);
  result.accumulate = DType::kF64;
  return result;
}

// ---- ArgMax, ArgMin: the first (or last) position of the best element; NaN is best

template <class T, bool kMax>
void arg_reduce_typed(const LaunchCall& call) {
  const TensorArg& x = call.in[0];
  const auto attrs = decode<ArgReduceAttrs>(call.attrs);
  const auto axis = static_cast<int>(positive_axis(attrs.axis, x.rank));
  const int64_t size = x.dim(axis), inner = elems_between(x, axis + 1, x.rank);
  const int64_t columns = elems_between(x, 0, axis) * inner;
  const T* src = x.as<const T>();
  call.execution.threads->parallel_for(columns, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      const T* column = src + c / inner * size * inner + c % inner;
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) {
        const T candidate = column[i * inner], so_far = column[best * inner];
        const bool candidate_nan = candidate != candidate, nan = so_far != so_far;
        const bool better =
            (kMax ? candidate > so_far : candidate < so_far) || (candidate_nan && !nan);
        const bool tie = candidate == so_far || (candidate_nan && nan);
        if (better || (attrs.select_last_index && tie)) best = i;
      }
      call.out[0].as<int64_t>()[c] = best;
    }
  });
}
template <bool kMax>
void arg_reduce(const LaunchCall& call) {
  if (call.in[0].dtype == DType::kF32) return arg_reduce_typed<float, kMax>(call);
  if (call.in[0].dtype == DType::kI32) return arg_reduce_typed<int32_t, kMax>(call);
  arg_reduce_typed<int64_t, kMax>(call);
}
Support supports_arg_reduce(const Problem& problem) {
  const DType type = problem.inputs[0].dtype;
  if (type == DType::kF32 || type == DType::kI32 || type == DType::kI64) return yes();
  return no("no loop for " + std::string(name(type)));
}

constexpr KernelBody body(void (*launch)(const LaunchCall&)) {
  return {.supports = &supports_reduce,
          .numerics = &numerics_reduce,
          .strided_inputs = 1,
          .create = &decode_once<ReduceAttrs>,
          .launch = launch};
}

}  // namespace

extern const KernelBody reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, reduce_l1,
    reduce_l2, reduce_log_sum, reduce_sum_square, arg_max_columns, arg_min_columns;
constexpr KernelBody reduce_sum = body(&reduce<SumOp>);
constexpr KernelBody reduce_mean = body(&reduce<MeanOp>);
constexpr KernelBody reduce_max = body(&reduce<ExtremeOp<true>>);
constexpr KernelBody reduce_min = body(&reduce<ExtremeOp<false>>);
constexpr KernelBody reduce_prod = body(&reduce<ProductOp>);
constexpr KernelBody reduce_l1 = body(&reduce<AbsSumOp>);
constexpr KernelBody reduce_l2 = body(&reduce<NormOp>);
constexpr KernelBody reduce_log_sum = body(&reduce<LogSumOp>);
constexpr KernelBody reduce_sum_square = body(&reduce<SquareSumOp>);
constexpr KernelBody arg_max_columns{
    .supports = &supports_arg_reduce,
    .numerics = &exact_numerics,
    .launch = &arg_reduce<true>,
};
constexpr KernelBody arg_min_columns{
    .supports = &supports_arg_reduce,
    .numerics = &exact_numerics,
    .launch = &arg_reduce<false>,
};

}  // namespace vernier::backend::cpu
