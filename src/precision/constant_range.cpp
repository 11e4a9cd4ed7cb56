// Range of values that constants cause: see constant_range.h. Interval arithmetic over the graph.
#include "precision/constant_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <optional>

#include "core/attrs.h"
#include "core/numerics.h"
#include "core/threads.h"

namespace vernier::precision {
namespace {

using enum OpKind;
using ir::Graph;
using ir::kNoValue;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr Reach kFromData{};

Reach joined(const Reach& a, const Reach& b) {
  return {std::min(a.least, b.least), std::max(a.most, b.most)};
}

// Overflow of FP64 is clamped to a finite number, which no narrower type holds.
Reach finite(double least, double most) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const auto bounded = [=](double v) {
    return std::isnan(v) ? 0 : std::clamp(v, -kLargest, kLargest);
  };
  return {bounded(least), bounded(most)};
}

Reach product(const Reach& a, const Reach& b) {
  const auto [least, most] =
      std::minmax({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
  return finite(least, most);
}

struct Extremes {
  double least = HUGE_VAL, most = -HUGE_VAL;
};

// Over the finite elements, as many beside each other as make vectors.
template <class T, class Element>
Extremes extremes(int64_t begin, int64_t end, const Element& element) {
  constexpr int64_t kParts = 32;
  constexpr T kLargest = std::numeric_limits<T>::max();
  T least[kParts], most[kParts];
  std::fill_n(least, kParts, std::numeric_limits<T>::infinity());
  std::fill_n(most, kParts, -std::numeric_limits<T>::infinity());
  const auto add = [&](int64_t part, T v) {
    const bool counts = v >= -kLargest && v <= kLargest;
    least[part] = counts && v < least[part] ? v : least[part];
    most[part] = counts && v > most[part] ? v : most[part];
  };
  int64_t i = begin;
  for (; i + kParts <= end; i += kParts) {
    for (int64_t part = 0; part < kParts; ++part) add(part, element(i + part));
  }
  for (; i < end; ++i) add(0, element(i));
  return {*std::min_element(least, least + kParts), *std::max_element(most, most + kParts)};
}

// The finite elements of a constant; 0 for one that has none.
Reach reach_of(const Tensor& t) {
  constexpr int64_t kMinElems = int64_t{1} << 20;  // per thread
  Extremes all;
  std::mutex mutex;
  in_parallel(t.elems(), kMinElems, [&](int64_t begin, int64_t end) {
    const auto* floats = reinterpret_cast<const float*>(t.data());
    const Extremes here =
        t.dtype() == DType::kF32  // the common case
            ? extremes<float>(begin, end, [&](int64_t i) { return floats[i]; })
            : is_float(t.dtype())
                  ? extremes<double>(begin, end, [&](int64_t i) { return t.float_at(i); })
                  : extremes<double>(begin, end, [&](int64_t i) {
                      return static_cast<double>(t.integer_at(i));
                    });
    const std::lock_guard lock(mutex);
    all = {std::min(all.least, here.least), std::max(all.most, here.most)};
  });
  return all.least <= all.most ? Reach{all.least, all.most} : Reach{0, 0};
}

bool has(const Node& node, uint32_t flag) { return (flags(node.op) & flag) != 0; }

class Reader {
 public:
  Reader(const Graph& graph, const ConstantRanges* known)
      : graph_(graph), reach_(graph.num_values()) {
    for (size_t i = 0; i < graph.num_values(); ++i) {
      const ir::Value& v = graph.value(static_cast<ValueId>(i));
      if (!v.is_constant()) continue;
      const Reach* reach = known ? known->find(v.constant) : nullptr;
      reach_[i] = reach ? *reach : reach_of(v.constant);
    }
    for (NodeId id : graph.order()) {
      const Reach reach = of(graph.node(id));
      for (ValueId out : graph.node(id).outputs) {
        if (out != kNoValue) reach_[out] = reach;
      }
    }
  }
  std::vector<Reach> take() { return std::move(reach_); }

 private:
  const Reach& at(const Node& node, size_t input) const { return reach_[node.inputs[input]]; }
  // The inputs that elements are taken from: the first one for kMoves, several for other exact
  // operators. The remaining inputs are indices, sizes or conditions.
  static bool is_moved(const Node& node, size_t input) {
    switch (node.op) {
      case kConcat:
        return true;
      case kWhere:
        return input > 0;
      case kPad:
      case kScatterElements:
      case kScatterND:
        return input == 0 || input == 2;
      case kOneHot:
        return input == 2;
      default:
        return input == 0;
    }
  }
  Reach of_moved(const Node& node) const {
    std::optional<Reach> all;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_moved(node, i) || !node.has_input(i)) continue;
      all = all ? joined(*all, at(node, i)) : at(node, i);
    }
    return all.value_or(kFromData);
  }

  Reach of_clip(const Node& node) const {
    Reach reach = at(node, 0);
    if (node.has_input(1)) {
      reach.least = std::max(reach.least, at(node, 1).least);
      reach.most = std::max(reach.most, at(node, 1).least);
    }
    if (node.has_input(2)) {
      reach.least = std::min(reach.least, at(node, 2).most);
      reach.most = std::min(reach.most, at(node, 2).most);
    }
    return reach;
  }

  // The minimum (or maximum) of all inputs is bounded by the smallest bound.
  Reach of_extreme(const Node& node) const {
    Reach reach = at(node, 0);
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Reach& other = at(node, i);
      const bool max = node.op == kMax;
      reach.least = max ? std::max(reach.least, other.least) : std::min(reach.least, other.least);
      reach.most = max ? std::max(reach.most, other.most) : std::min(reach.most, other.most);
    }
    return reach;
  }

  Reach of_sum(const Node& node) const {
    Reach reach = at(node, 0);
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      const Reach& other = at(node, i);
      const bool minus = node.op == kSub;
      reach = finite(reach.least + (minus ? -other.most : other.least),
                     reach.most + (minus ? -other.least : other.most));
    }
    return reach;
  }

  // What is added to a product's result, which depends on data.
  Reach of_linear(const Node& node) const {
    Reach reach = kFromData;
    for (size_t i = 2; i < node.inputs.size(); ++i) {
      if (node.has_input(i))
        reach = finite(reach.least + at(node, i).least, reach.most + at(node, i).most);
    }
    return node.attrs_as<LinearAttrs>().activation == Activation::kNone ? reach
                                                                        : joined(reach, kFromData);
  }

  // A divisor that depends on data counts as 1.
  Reach of_quotient(const Node& node) const {
    const Reach &a = at(node, 0), &b = at(node, 1);
    if (!graph_.value(node.inputs[1]).is_constant() || (b.least <= 0 && b.most >= 0)) return a;
    return product(a, {std::min(1 / b.least, 1 / b.most), std::max(1 / b.least, 1 / b.most)});
  }

  Reach of(const Node& node) const {
    switch (node.op) {
      case kAdd:
      case kSub:
      case kSum:
        return of_sum(node);
      case kMul:
        return product(at(node, 0), at(node, 1));
      case kDiv:
        return of_quotient(node);
      case kNeg:
        return {-at(node, 0).most, -at(node, 0).least};
      case kAbs: {
        const double peak = at(node, 0).peak();
        return {0, peak};
      }
      case kRelu:
        return {std::max(0.0, at(node, 0).least), std::max(0.0, at(node, 0).most)};
      case kMin:
      case kMax:
        return of_extreme(node);
      case kClip:
        return of_clip(node);
      case kLinear:
        return of_linear(node);
      case kConstantOfShape: {
        const double value = node.attrs_as<ConstantOfShapeAttrs>().value;
        return std::isfinite(value) ? Reach{value, value} : Reach{0, 0};
      }
      case kCast:
      case kCeil:
      case kFloor:
      case kRound:
      case kReduceMax:
      case kReduceMin:
      case kReduceMean:
      case kReduceSum:
      case kCumSum:
      case kScatterElements:
      case kScatterND:
        return node.op == kCast ? of_cast(node) : of_moved(node);
      default:
        break;
    }
    // Discrete exact operators return positions, not elements.
    const bool moves = is_exact(node.op) && !has(node, kDiscrete);
    return moves && !node.inputs.empty() ? of_moved(node) : kFromData;
  }

  Reach of_cast(const Node& node) const {
    const bool to_bool = graph_.value(node.outputs[0]).dtype == DType::kBool;
    return to_bool ? kFromData : at(node, 0);
  }

  const Graph& graph_;
  std::vector<Reach> reach_;
};

bool holds(DType type, double peak) {
  return !is_float(type) || represents(type, DType::kF32) ||
         peak * kRangeMargin <= largest_finite(type);
}

constexpr std::string_view kBy = "range audit of constants";

// Raises `wish` where its type does not hold `peak`; `by` says so.
bool raise(TypeRequest& wish, double peak, std::string& by) {
  if (wish.type == DType::kUndefined || wish.exact || holds(wish.type, peak)) return false;
  wish.type = DType::kF32;
  if (!by.starts_with(kBy)) by = fmt::format("{} (over {})", kBy, by);
  return true;
}

class Keeper {
 public:
  Keeper(Graph& graph, const ConstantRanges* known)
      : graph_(graph), reach_(constant_reach(graph, known)) {}

  std::vector<std::string> run() {
    for (NodeId id : graph_.order()) {
      Node& node = graph_.node(id);
      const double result = largest(node.outputs, node.outputs.size());
      const double operand = has(node, kProduct) ? largest(node.inputs, operands(node)) : 0;
      if (result <= least_limit() && operand <= least_limit()) continue;
      if (node.origins.empty()) keep(node.request, node.name, result, operand);
      for (ir::Origin& origin : node.origins) keep(origin.asked, origin.name, result, operand);
    }
    return std::move(notes_);
  }

 private:
  // What fits in every type needs no look at the request.
  static double least_limit() {
    static const double limit = largest_finite(DType::kF8E4M3) / kRangeMargin;
    return limit;
  }
  static size_t operands(const Node& node) {
    return std::min<size_t>(node.op == kAttention ? 3 : 2, node.inputs.size());
  }
  double largest(const std::vector<ValueId>& values, size_t count) const {
    double peak = 0;
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != kNoValue && is_float(graph_.value(values[i]).dtype))
        peak = std::max(peak, reach_[values[i]].peak());
    }
    return peak;
  }

  void keep(Request& asked, const std::string& name, double result, double operand) {
    const DType store = asked.store.type, compute = asked.compute.type;
    if (asked.by.empty()) return;
    if (raise(asked.store, result, asked.by)) note(name, "store", result, store);
    // Operands that a product quantizes are scaled to its type.
    if (is_quantized(compute)) return;
    if (raise(asked.compute, operand, asked.by)) note(name, "compute", operand, compute);
  }
  void note(const std::string& name, const char* setting, double peak, DType type) {
    notes_.push_back(fmt::format(
        "range audit of constants: node '{}' {} {:.6g}, {} holds at most {:.6g}: {} in f32, as "
        "--rule 'name:{} {}=f32' would",
        name, setting[0] == 's' ? "gives up to" : "multiplies up to", peak, vernier::name(type),
        largest_finite(type), setting[0] == 's' ? "stored" : "computed", name, setting));
  }

  Graph& graph_;
  std::vector<Reach> reach_;
  std::vector<std::string> notes_;
};

// Does any request have a shorter range than f32?
bool asks_for_less(const Graph& graph) {
  const auto is_less = [](const Request& asked) {
    return !holds(asked.store.type, std::numeric_limits<float>::max()) ||
           (!is_quantized(asked.compute.type) &&
            !holds(asked.compute.type, std::numeric_limits<float>::max()));
  };
  return std::ranges::any_of(graph.order(), [&](NodeId id) {
    const Node& node = graph.node(id);
    return is_less(node.request) || std::ranges::any_of(node.origins, is_less, &ir::Origin::asked);
  });
}

}  // namespace

double Reach::peak() const { return std::max(std::abs(least), std::abs(most)); }

ConstantRanges::ConstantRanges(const Graph& model) {
  for (size_t i = 0; i < model.num_values(); ++i) {
    const ir::Value& v = model.value(static_cast<ValueId>(i));
    if (v.is_constant() && v.constant.elems() > 0)
      known_.add(v.constant, [&] { return reach_of(v.constant); });
  }
}

std::vector<Reach> constant_reach(const Graph& graph, const ConstantRanges* known) {
  return Reader(graph, known).take();
}

std::vector<std::string> keep_constants_finite(Graph& raised, const ConstantRanges* known) {
  return asks_for_less(raised) ? Keeper(raised, known).run() : std::vector<std::string>{};
}

}  // namespace vernier::precision
