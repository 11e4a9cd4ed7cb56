// FP64 evaluators of the operators that select by value: Compress, Unique, NonMaxSuppression. They
// give their outputs the shapes that the data says. Contract: core/evaluator.h; formulas: ONNX
// Compress-11, Unique-11 and NonMaxSuppression-11.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/attrs.h"
#include "reference/layout.h"

namespace vernier::reference {
namespace {

bool is_wanted(const EvalCall& call, size_t i) {
  return i < call.out.size() && call.out[i].dtype != DType::kUndefined;
}

// x seen around an axis, or as one list of all elements.
AxisView selected_view(const EvalTensor& x, bool flat, int64_t axis) {
  if (flat) return {1, x.elems(), 1};
  return view_axis(x.shape, normalize_axis(axis, x.rank()));
}

// The slices `from` of x, in this order, become output 0.
void take_slices(const EvalCall& call, bool flat, int64_t axis, const std::vector<int64_t>& from) {
  if (!is_wanted(call, 0)) return;
  const EvalTensor& x = *call.in[0];
  const AxisView in = selected_view(x, flat, axis);
  const auto count = static_cast<int64_t>(from.size());
  Shape shape = flat ? Shape{count} : x.shape;
  if (!flat) shape[normalize_axis(axis, x.rank())] = count;
  EvalTensor y(call.out[0].dtype, std::move(shape));
  const AxisView out{in.outer, count, in.inner};
  for (int64_t o = 0; o < in.outer; ++o) {
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t i = 0; i < in.inner; ++i)
        copy_element(x, in.at(o, from[k], i), y, out.at(o, k, i));
    }
  }
  call.out[0] = std::move(y);
}

void give_list(const EvalCall& call, size_t i, const std::vector<int64_t>& values) {
  if (!is_wanted(call, i)) return;
  EvalTensor list(DType::kI64, {static_cast<int64_t>(values.size())});
  list.i = values;
  call.out[i] = std::move(list);
}

// The order of the slices along an axis: by their elements in row-major order. NaN is above every
// number and equal to NaN.
class SliceOrder {
 public:
  SliceOrder(const EvalTensor& x, const AxisView& view) : x_(x), view_(view) {}
  int compare(int64_t a, int64_t b) const {
    for (int64_t o = 0; o < view_.outer; ++o) {
      for (int64_t i = 0; i < view_.inner; ++i) {
        const int order = compare_elements(view_.at(o, a, i), view_.at(o, b, i));
        if (order != 0) return order;
      }
    }
    return 0;
  }

 private:
  template <class T>
  static int of_numbers(T a, T b) {
    return a < b ? -1 : static_cast<int>(b < a);
  }
  int compare_elements(int64_t a, int64_t b) const {
    const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
    if (x_.dtype == DType::kU64)
      return of_numbers(static_cast<uint64_t>(x_.i[i]), static_cast<uint64_t>(x_.i[j]));
    if (!x_.is_float()) return of_numbers(x_.i[i], x_.i[j]);
    const int unordered = of_numbers(std::isnan(x_.f[i]), std::isnan(x_.f[j]));
    return unordered != 0 || std::isnan(x_.f[i]) ? unordered : of_numbers(x_.f[i], x_.f[j]);
  }

  const EvalTensor& x_;
  AxisView view_;
};

// ---- NonMaxSuppression

/// A box by its corners.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double area() const { return (right - left) * (bottom - top); }
};

Box box_of(const double* numbers, bool center_point) {
  if (center_point) {  // x and y of the center, width, height
    const double x = numbers[0], y = numbers[1], w = numbers[2] / 2, h = numbers[3] / 2;
    return {x - w, y - h, x + w, y + h};
  }
  // y and x of two opposite corners, in any order.
  const auto [top, bottom] = std::minmax(numbers[0], numbers[2]);
  const auto [left, right] = std::minmax(numbers[1], numbers[3]);
  return {left, top, right, bottom};
}

// Is intersection / union more than the threshold? Boxes without an area overlap nothing.
bool overlap(const Box& a, const Box& b, double threshold) {
  const Box shared{std::max(a.left, b.left), std::max(a.top, b.top), std::min(a.right, b.right),
                   std::min(a.bottom, b.bottom)};
  if (!(shared.left < shared.right && shared.top < shared.bottom)) return false;
  const double both = a.area() + b.area() - shared.area();
  if (!(a.area() > 0 && b.area() > 0 && both > 0)) return false;
  return shared.area() / both > threshold;
}

struct Suppression {
  int64_t most = 0;  ///< boxes of a class
  double overlap = 0;
  const EvalTensor* least_score = nullptr;  ///< scores must be larger; null: all boxes take part
};

// The boxes that are kept, best first; equal scores by position, NaN last.
std::vector<int64_t> kept_boxes(const std::vector<Box>& boxes, std::span<const double> scores,
                                const Suppression& by) {
  std::vector<int64_t> ranked, kept;
  for (size_t k = 0; k < scores.size(); ++k) {
    if (by.least_score == nullptr || scores[k] > by.least_score->f[0])
      ranked.push_back(static_cast<int64_t>(k));
  }
  std::sort(ranked.begin(), ranked.end(), [&](int64_t a, int64_t b) {
    const double x = scores[a], y = scores[b];
    if (std::isnan(x) || std::isnan(y)) {
      return std::isnan(x) == std::isnan(y) ? a < b : std::isnan(y);
    }
    return x > y || (x == y && a < b);
  });
  for (int64_t candidate : ranked) {
    if (std::ssize(kept) >= by.most) break;
    const bool suppressed = std::ranges::any_of(
        kept, [&](int64_t other) { return overlap(boxes[candidate], boxes[other], by.overlap); });
    if (!suppressed) kept.push_back(candidate);
  }
  return kept;
}

}  // namespace

void eval_compress(const EvalCall& call) {
  const auto attrs = decode<CompressAttrs>(call.attrs);
  const std::vector<int64_t>& condition = call.in[1]->i;
  const AxisView view = selected_view(*call.in[0], attrs.flat, attrs.axis);
  if (std::ssize(condition) > view.size) {
    throw Error(ErrorCode::kInput, "the condition has " + std::to_string(condition.size()) +
                                       " elements, but there are " + std::to_string(view.size) +
                                       " to select from");
  }
  std::vector<int64_t> selected;
  for (size_t k = 0; k < condition.size(); ++k) {
    if (condition[k] != 0) selected.push_back(static_cast<int64_t>(k));
  }
  take_slices(call, attrs.flat, attrs.axis, selected);
}

// Outputs: the different slices, where each is first, which one each slice is, how often each is.
void eval_unique(const EvalCall& call) {
  const auto attrs = decode<UniqueAttrs>(call.attrs);
  const EvalTensor& x = *call.in[0];
  const AxisView view = selected_view(x, attrs.flat, attrs.axis);
  const SliceOrder order(x, view);
  std::vector<int64_t> sorted(static_cast<size_t>(view.size));
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](int64_t a, int64_t b) { return order.compare(a, b) < 0; });
  std::vector<int64_t> first, counts, group(sorted.size());
  for (size_t k = 0; k < sorted.size(); ++k) {
    if (k == 0 || order.compare(sorted[k - 1], sorted[k]) != 0) {
      first.push_back(sorted[k]);
      counts.push_back(0);
    }
    ++counts.back();
    group[sorted[k]] = std::ssize(first) - 1;
  }
  if (!attrs.sorted) {  // by the first occurrence instead
    std::vector<int64_t> by_place(first.size()), rank(first.size());
    std::iota(by_place.begin(), by_place.end(), 0);
    std::ranges::sort(by_place, {}, [&](int64_t g) { return first[g]; });
    std::vector<int64_t> placed_first, placed_counts;
    for (size_t k = 0; k < by_place.size(); ++k) {
      rank[by_place[k]] = static_cast<int64_t>(k);
      placed_first.push_back(first[by_place[k]]);
      placed_counts.push_back(counts[by_place[k]]);
    }
    for (int64_t& g : group) g = rank[g];
    first = std::move(placed_first);
    counts = std::move(placed_counts);
  }
  take_slices(call, attrs.flat, attrs.axis, first);
  give_list(call, 1, first);
  give_list(call, 2, group);
  give_list(call, 3, counts);
}

// Per image and class, boxes in the order of their scores; one that overlaps a kept one too much is
// left out.
void eval_non_max_suppression(const EvalCall& call) {
  const bool center_point = decode<NonMaxSuppressionAttrs>(call.attrs).center_point_box;
  const EvalTensor &boxes = *call.in[0], &scores = *call.in[1];
  const int64_t images = boxes.shape[0], count = boxes.shape[1], classes = scores.shape[1];
  Suppression by;
  if (const EvalTensor* most = call.optional(2)) by.most = most->i.at(0);
  if (const EvalTensor* most = call.optional(3)) by.overlap = most->f.at(0);
  by.least_score = call.optional(4);
  std::vector<int64_t> found;
  for (int64_t n = 0; n < images && by.most > 0; ++n) {
    std::vector<Box> corners;
    for (int64_t k = 0; k < count; ++k)
      corners.push_back(box_of(boxes.f.data() + (n * count + k) * 4, center_point));
    for (int64_t c = 0; c < classes; ++c) {
      const std::span<const double> own(scores.f.data() + (n * classes + c) * count,
                                        static_cast<size_t>(count));
      for (int64_t box : kept_boxes(corners, own, by)) found.insert(found.end(), {n, c, box});
    }
  }
  EvalTensor y(DType::kI64, {std::ssize(found) / 3, 3});
  y.i = std::move(found);
  call.out[0] = std::move(y);
}

}  // namespace vernier::reference
