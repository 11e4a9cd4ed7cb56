// Input domains off the raised graph: see domain.h.
#include "evaluate/domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/attrs.h"

namespace vernier::evaluate {
namespace {

constexpr double kCutOff = 3;             // deviations of a normal input
constexpr double kPixelScale = 1.0 / 64;  // a smaller factor on an input means pixels in 0..255

// How a value depends on the input that the walk began at.
enum class Link : uint8_t {
  kSame,      // the same numbers: views and casts only
  kAffine,    // times and plus constants
  kCompared,  // compared with a constant
  kSummed,    // added to other values
};

// What the readers of one input tell about it.
struct Evidence {
  std::optional<int64_t> table;  // rows of the smallest table it indexes
  std::optional<int64_t> compared_with;
  std::string table_why, compared_why, mask_why, mean_why, range_why;
  bool divides = false, positive = false, pixels = false, grid = false, scaled_grid = false;
};

const std::set<OpKind>& carriers() {
  static const std::set<OpKind> kinds{OpKind::kIdentity, OpKind::kCast,      OpKind::kReshape,
                                      OpKind::kSqueeze,  OpKind::kExpand,    OpKind::kUnsqueeze,
                                      OpKind::kFlatten,  OpKind::kTranspose, OpKind::kSlice,
                                      OpKind::kConcat,   OpKind::kSplit};
  return kinds;
}

class Walk {
 public:
  explicit Walk(const ir::Graph& graph) : graph_(graph) {}

  Evidence from(ir::ValueId input) {
    evidence_ = {};
    seen_.clear();
    open_.push_back({.value = input, .link = Link::kSame, .reader = ir::kNoNode});
    while (!open_.empty()) {
      const Stop stop = open_.back();
      open_.pop_back();
      if (stop.reader == ir::kNoNode)
        visit(stop.value, stop.link);
      else
        read(graph_.node(stop.reader), stop.value, stop.link);
    }
    return evidence_;
  }

 private:
  // A value to go on from, or one of its readers. Depth first, with a stack of its own.
  struct Stop {
    ir::ValueId value;
    Link link;
    ir::NodeId reader;  // kNoNode: the value
  };

  static std::string label(const ir::Node& node) {
    return std::string(name(node.op)) + " '" + node.name + "'";
  }

  // The one number that a constant operand holds everywhere.
  std::optional<double> uniform(ir::ValueId id) const {
    if (id == ir::kNoValue || !graph_.value(id).is_constant()) return std::nullopt;
    const EvalTensor t = EvalTensor::from(graph_.value(id).constant);
    if (t.elems() == 0) return std::nullopt;
    for (int64_t i = 1; i < t.elems(); ++i) {
      if (t.value(i) != t.value(0)) return std::nullopt;
    }
    return t.value(0);
  }

  void visit(ir::ValueId id, Link link) {
    if (!seen_.emplace(id, link).second) return;
    const std::set<ir::NodeId> users(graph_.value(id).users.begin(), graph_.value(id).users.end());
    for (auto user = users.rbegin(); user != users.rend(); ++user)
      open_.push_back({.value = id, .link = link, .reader = *user});
  }
  // The last thing that a reader asks for.
  void visit_outputs(const ir::Node& node, Link link) {
    for (auto out = node.outputs.rbegin(); out != node.outputs.rend(); ++out) {
      if (*out != ir::kNoValue)
        open_.push_back({.value = *out, .link = link, .reader = ir::kNoNode});
    }
  }

  void read(const ir::Node& node, ir::ValueId id, Link link) {
    const auto at = std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin();
    if (carriers().contains(node.op) && (at == 0 || node.op == OpKind::kConcat)) {
      visit_outputs(node, link);
      return;
    }
    switch_on_role(node, at, link);
  }

  // One reader: an index, a mask operand, a comparison, arithmetic or the first float operator.
  void switch_on_role(const ir::Node& node, int64_t at, Link link) {
    const bool indexes = (node.op == OpKind::kGather || node.op == OpKind::kGatherElements) &&
                         at == 1 && link == Link::kSame;
    if (indexes) return index_of(node);
    if (is_mask_operand(node, at)) {
      if (evidence_.mask_why.empty()) evidence_.mask_why = label(node);
      return;
    }
    if (node.op == OpKind::kSoftmax && link == Link::kSummed) evidence_.mask_why = label(node);
    if (node.op == OpKind::kNot || node.op == OpKind::kAnd) return visit_outputs(node, link);
    if (node.op == OpKind::kWhere && at == 0) return visit_outputs(node, Link::kCompared);
    if (is_comparison(node.op)) return comparison(node, at, link);
    if (is_arithmetic(node.op)) return arithmetic(node, at, link);
    if (node.op == OpKind::kCumSum || node.op == OpKind::kReduceSum) {
      if (evidence_.mean_why.empty()) evidence_.mean_why = label(node);
      return;
    }
    float_reader(node, at, link);
  }

  static bool is_mask_operand(const ir::Node& node, int64_t at) {
    using enum AttentionAttrs::Input;
    const auto input = static_cast<size_t>(at);
    return (node.op == OpKind::kAttention &&
            (input == kBias || input == kKeep || input == kKeepQueries)) ||
           (node.op == OpKind::kMaskedMean && at == 1);
  }
  static bool is_comparison(OpKind op) {
    return op == OpKind::kEqual || op == OpKind::kLess || op == OpKind::kLessOrEqual ||
           op == OpKind::kGreater || op == OpKind::kGreaterOrEqual;
  }
  static bool is_arithmetic(OpKind op) {
    return op == OpKind::kAdd || op == OpKind::kSub || op == OpKind::kMul || op == OpKind::kDiv;
  }

  void index_of(const ir::Node& node) {
    const SymShape& data = graph_.value(node.inputs[0]).shape;
    int64_t axis = node.attrs_as<AxisAttrs>().axis;
    if (axis < 0) axis += static_cast<int64_t>(data.size());
    const auto rows = data[axis].as_constant();
    if (!rows || (evidence_.table && *evidence_.table <= *rows)) return;
    evidence_.table = rows;
    evidence_.table_why = fmt::format("it indexes the {} rows of {}", *rows, label(node));
  }

  void comparison(const ir::Node& node, int64_t at, Link link) {
    const auto constant = uniform(node.inputs[1 - at]);
    if (link == Link::kSame && constant && !evidence_.compared_with) {
      evidence_.compared_with = static_cast<int64_t>(*constant);
      evidence_.compared_why = label(node);
    }
    visit_outputs(node, Link::kCompared);
  }

  void arithmetic(const ir::Node& node, int64_t at, Link link) {
    const ir::ValueId other = node.inputs[1 - at];
    const bool constant = other != ir::kNoValue && graph_.value(other).is_constant();
    const auto number = uniform(other);
    if (link == Link::kSame && number && *number != 0) {
      const double factor = node.op == OpKind::kDiv ? 1 / *number : *number;
      const bool scales = (node.op == OpKind::kDiv && at == 0) || node.op == OpKind::kMul;
      if (scales && std::abs(factor) <= kPixelScale) {
        evidence_.pixels = true;
        evidence_.range_why = label(node);
      }
    }
    if (node.op == OpKind::kDiv && at == 1 && link == Link::kSame) {
      evidence_.divides = true;
      evidence_.range_why = label(node);
    }
    if (constant) return visit_outputs(node, link == Link::kSame ? Link::kAffine : link);
    // An integer that scales activations is a mask; a float that does is a feature.
    const bool was_integer =
        link != Link::kSummed && node.op == OpKind::kMul && is_cast_integer(node, at);
    if (was_integer && evidence_.mean_why.empty()) evidence_.mean_why = label(node);
    if (node.op == OpKind::kAdd) visit_outputs(node, Link::kSummed);
  }

  bool is_cast_integer(const ir::Node& node, int64_t at) const {
    ir::ValueId id = node.inputs[at];
    for (const ir::Node* p = graph_.producer(id); p; p = graph_.producer(id)) {
      if (!carriers().contains(p->op)) return false;
      id = p->inputs[0];
      if (!is_float(graph_.value(id).dtype)) return true;
    }
    return !is_float(graph_.value(id).dtype);
  }

  void float_reader(const ir::Node& node, int64_t at, Link link) {
    if (node.op == OpKind::kGridSample && at == 1) {
      evidence_.grid = link == Link::kSame;
      evidence_.scaled_grid = evidence_.scaled_grid || link != Link::kSame;
      evidence_.range_why = label(node);
    }
    const bool needs_positive = node.op == OpKind::kLog || node.op == OpKind::kSqrt;
    if (needs_positive && link == Link::kSame) {
      evidence_.positive = true;
      evidence_.range_why = label(node);
    }
  }

  const ir::Graph& graph_;
  Evidence evidence_;
  std::set<std::pair<ir::ValueId, Link>> seen_;
  std::vector<Stop> open_;
};

InputDomain integer_domain(InputDomain domain, const Evidence& evidence) {
  using Kind = InputDomain::Kind;
  if (evidence.table) {
    domain.kind = Kind::kIds;
    domain.low = 0;
    domain.high = *evidence.table - 1;
    domain.why = evidence.table_why;
    const auto& id = evidence.compared_with;
    // A table of two rows (token types) has no padding id.
    if (id && *id >= 0 && *id <= domain.high && domain.high > 1) domain.pad = id;
    return domain;
  }
  const std::string& mask = evidence.mask_why.empty() ? evidence.mean_why : evidence.mask_why;
  if (!mask.empty() || domain.dtype == DType::kBool) {
    domain.kind = mask.empty() ? Kind::kFlags : Kind::kMask;
    domain.why = mask.empty() ? "its type is bool" : "it masks " + mask;
    return domain;
  }
  domain.kind = Kind::kIntegers;
  domain.low = evidence.divides ? 1 : 0;
  domain.high = evidence.divides ? 2 : 1;
  domain.why = evidence.divides ? "it divides in " + evidence.range_why
                                : "nothing in the graph says what it holds";
  return domain;
}

InputDomain float_domain(InputDomain domain, const Evidence& evidence, bool masks) {
  using Kind = InputDomain::Kind;
  domain.why = "by " + evidence.range_why;
  domain.kind = Kind::kUniform;
  domain.min = 0;
  domain.max = 1;
  if (masks) {
    domain.kind = Kind::kMask;
    domain.why = "it masks " + evidence.mask_why;
  } else if (evidence.pixels) {
    domain.max = 255;
  } else if (evidence.grid) {
    domain.min = -1;
  } else if (evidence.positive) {
    domain.min = 0.05;
  } else if (domain.dtype == DType::kF8E8M0) {
    domain.min = 0.05;
    domain.why = "its type has positive numbers only";
  } else if (!evidence.scaled_grid) {
    domain.kind = Kind::kNormal;
    domain.min = -kCutOff;
    domain.max = kCutOff;
    domain.why = "a feature, taken as normalized";
  }
  return domain;
}

// (1 − x) · large: a float mask is written so; an additive bias comes as it is.
bool is_float_mask(const ir::Graph& graph, ir::ValueId input) {
  std::vector<ir::ValueId> open{input};
  std::set<ir::ValueId> seen{input};
  while (!open.empty()) {
    const ir::ValueId value = open.back();
    open.pop_back();
    for (ir::NodeId user : graph.value(value).users) {
      const ir::Node& node = graph.node(user);
      const bool carries = carriers().contains(node.op) && node.outputs[0] != ir::kNoValue;
      if (carries && seen.insert(node.outputs[0]).second) open.push_back(node.outputs[0]);
      if (node.op == OpKind::kSub && node.inputs[1] == value &&
          graph.value(node.inputs[0]).is_constant())
        return true;
    }
  }
  return false;
}

// Does the graph read the last position of an axis as long as `length`? Then rows end there.
std::optional<std::string> reads_last_position(const ir::Graph& graph, const Dim& length) {
  for (ir::NodeId id : graph.order()) {
    const ir::Node& node = graph.node(id);
    if (node.op != OpKind::kSlice) continue;
    const auto attrs = node.attrs_as<SliceAttrs>();
    if (!attrs.inline_starts) continue;
    const SymShape& shape = graph.value(node.inputs[0]).shape;
    for (size_t i = 0; i < attrs.axes.size(); ++i) {
      const int64_t axis =
          attrs.axes[i] < 0 ? attrs.axes[i] + static_cast<int64_t>(shape.size()) : attrs.axes[i];
      const Dim& size = shape[axis];
      const bool one = graph.value(node.outputs[0]).shape[axis] == Dim(1);
      const bool last = attrs.starts[i] == -1 || Dim(attrs.starts[i] + 1) == size;
      if (one && last && size == length) return node.name;
    }
  }
  return std::nullopt;
}

void decide_padding(const ir::Graph& graph, Domains& domains) {
  domains.padding_why = "nothing reads the last position";
  for (const InputDomain& domain : domains.inputs) {
    const bool padded = domain.pad || domain.kind == InputDomain::Kind::kMask;
    if (!padded || domain.shape.size() < 2) continue;
    const auto node = reads_last_position(graph, domain.shape[1]);
    if (!node) continue;
    domains.padding = PaddingSide::kLeft;
    domains.padding_why = "Slice '" + *node + "' reads the last position";
  }
}

}  // namespace

Domains infer_domains(const ir::Graph& raised) {
  Domains domains;
  Walk walk(raised);
  for (ir::ValueId id : raised.inputs) {
    const ir::Value& value = raised.value(id);
    InputDomain domain;
    domain.name = value.name;
    domain.dtype = value.dtype;
    domain.shape = value.shape;
    const Evidence evidence = walk.from(id);
    const bool masks = !evidence.mask_why.empty() && is_float_mask(raised, id);
    domains.inputs.push_back(is_float(value.dtype) ? float_domain(domain, evidence, masks)
                                                   : integer_domain(domain, evidence));
  }
  decide_padding(raised, domains);
  return domains;
}

std::string describe(const InputDomain& domain) {
  using Kind = InputDomain::Kind;
  std::string what;
  switch (domain.kind) {
    case Kind::kIds:
      what = fmt::format("ids in [{}, {}]", domain.low, domain.high);
      if (domain.pad) what += fmt::format(", padding id {}", *domain.pad);
      break;
    case Kind::kMask:
      what = "mask of 0 and 1";
      break;
    case Kind::kIntegers:
      what = fmt::format("integers in [{}, {}]", domain.low, domain.high);
      break;
    case Kind::kFlags:
      what = "false and true";
      break;
    case Kind::kUniform:
      what = fmt::format("uniform in [{}, {}]", domain.min, domain.max);
      break;
    case Kind::kNormal:
      what = fmt::format("normal, cut off at {}", domain.max);
      break;
  }
  return domain.name + ": " + what + " (" + domain.why + ")";
}

}  // namespace vernier::evaluate
