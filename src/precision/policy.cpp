// Applies rules to a raised graph: see policy.h.
#include "precision/policy.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/error.h"

namespace vernier::precision {
namespace {

std::string described(const Rule& rule, size_t number) {
  const char* option = rule.spelling == Spelling::kRule              ? ""
                       : rule.spelling == Spelling::kLayerPrecisions ? "--layerPrecisions "
                                                                     : "--layerOutputTypes ";
  return "rule " + std::to_string(number) + " (" + option + "'" + rule.text + "')";
}

// The rule that asks for each part of one ONNX node's request; 0: asked before the rules.
struct Askers {
  std::array<size_t, 4> part{};  // compute, inner, accumulate, store
  std::set<size_t> replaced;     // numbers of rules; 0: the model
};

class Application {
 public:
  explicit Application(ir::Graph& graph) : graph_(graph), selection_(graph) {}

  void apply(const Rule& rule, size_t number) {
    const std::string who = described(rule, number);
    size_t live = 0;
    std::map<std::string, size_t> elsewhere;  // state -> how many
    for (size_t i : selection_.matches(rule.selector, who, notes)) {
      const OnnxNode& node = selection_.nodes()[i];
      const bool works = touches_floats(node);
      if (node.is_live() && !works) {
        ++elsewhere["without floating-point values"];
        continue;
      }
      live += works && (rule.store.type != DType::kUndefined || computes(node));
      if (!works) ++elsewhere[std::string(name(graph_.retired[node.retired.front()].state))];
      ask(node, rule, number);
    }
    if (live > 0) return;
    std::string counts;
    for (const auto& [state, count] : elsewhere)
      counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + state;
    notes.push_back(who +
                    " changes nothing: it matches only nodes that compute no floating-point "
                    "values at run time (" +
                    counts + ")");
  }

  std::vector<std::string> notes;

 private:
  bool makes_floats(const ir::Node& n) const {
    return std::any_of(n.outputs.begin(), n.outputs.end(), [&](ir::ValueId v) {
      return v != ir::kNoValue && is_float(graph_.value(v).dtype);
    });
  }
  bool touches_floats(const OnnxNode& node) const {
    return std::any_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
      const ir::Node& n = graph_.node(place.node);
      return makes_floats(n) || std::any_of(n.inputs.begin(), n.inputs.end(), [&](ir::ValueId v) {
               return v != ir::kNoValue && is_float(graph_.value(v).dtype);
             });
    });
  }
  // Views, lookups and selections only move values: they have no compute or accumulate type.
  bool computes(const OnnxNode& node) const {
    return !node.is_live() ||
           std::any_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
             return !rounding_points(graph_.node(place.node).op).empty();
           });
  }
  bool makes_floats(const OnnxNode& node) const {
    return std::any_of(node.places.begin(), node.places.end(), [&](const OnnxNode::Place& place) {
      return makes_floats(graph_.node(place.node));
    });
  }

  /// The copy of the origin that has the request so far.
  const Request& asked_of(const OnnxNode& node) const {
    if (!node.is_live()) return graph_.retired[node.retired.front()].origin.asked;
    const OnnxNode::Place& place = node.places.front();
    return graph_.node(place.node).origins[place.origin].asked;
  }

  void ask(const OnnxNode& node, const Rule& rule, size_t number) {
    const Request before = asked_of(node);
    Request asked = before;
    Askers& askers = askers_[node.key];
    const auto set = [&](size_t part, TypeRequest& into, const TypeRequest& wish) {
      if (wish.type == DType::kUndefined) return;
      const bool by_rule = askers.part[part] > 0;
      const bool changes =
          into.type != DType::kUndefined && (into.type != wish.type || into.exact != wish.exact);
      if (by_rule ? askers.part[part] != number : changes)
        askers.replaced.insert(askers.part[part]);
      into = wish;
      askers.part[part] = number;
    };
    const Aim aim = aim_of(node, rule);
    if (computes(node)) {
      set(aim.softmax ? 1 : 0, aim.softmax ? asked.inner : asked.compute, rule.compute);
      set(2, asked.accumulate, rule.accumulate);
    }
    if (aim.result && (makes_floats(node) || !node.is_live())) set(3, asked.store, rule.store);
    if (!prior_.contains(node.key)) prior_[node.key] = before.by;
    asked.by = asker_text(askers, prior_[node.key]);
    for (const OnnxNode::Place& place : node.places)
      graph_.node(place.node).origins[place.origin].asked = asked;
    for (size_t i : node.retired) graph_.retired[i].origin.asked = asked;
  }

  /// Which parts of an ONNX node a rule applies to. If one ONNX node is a whole Attention, a role
  /// selects a part of it: the softmax is Request::inner, and only `context` has the result.
  struct Aim {
    bool softmax = false, result = true;
  };
  Aim aim_of(const OnnxNode& node, const Rule& rule) const {
    Aim aim;
    if (!selection_.is_whole_attention(node)) return aim;
    for (const Term& term : rule.selector.terms) {
      const bool softmax = term.role == Role::kAttentionSoftmax;
      const bool context = term.role == Role::kAttentionContext;
      if (!softmax && !context && term.role != Role::kAttentionScores) continue;
      if (term.kind != Term::Kind::kRole) continue;
      aim = {.softmax = softmax, .result = context};
    }
    return aim;
  }

  /// "rule 1, rule 3 (over rule 2)"; a replaced mode is not mentioned.
  static std::string asker_text(const Askers& askers, const std::string& prior) {
    const std::set<size_t> in_force(askers.part.begin(), askers.part.end());
    const auto list = [&](const std::set<size_t>& numbers, const std::string& first) {
      std::string text = first;
      for (size_t number : numbers) {
        if (number > 0) text += (text.empty() ? "rule " : ", rule ") + std::to_string(number);
      }
      return text;
    };
    const bool over_prior =
        askers.replaced.contains(0) && !prior.empty() && !prior.starts_with("mode ");
    const std::string rules = list(in_force, "");
    const std::string over = list(askers.replaced, over_prior ? prior : "");
    if (rules.empty()) return prior;
    return over.empty() ? rules : rules + " (over " + over + ")";
  }

  ir::Graph& graph_;
  Selection selection_;
  std::map<std::string, Askers> askers_;      // by Origin::key
  std::map<std::string, std::string> prior_;  // asked.by before the rules, by Origin::key
};

}  // namespace

std::vector<std::string> apply_rules(ir::Graph& raised, const std::vector<Rule>& rules) {
  if (rules.empty()) return {};
  Application application(raised);
  for (size_t i = 0; i < rules.size(); ++i) application.apply(rules[i], i + 1);
  return std::move(application.notes);
}

void keep_rules(const ir::Graph& asked, ir::Graph& raised) {
  std::map<std::string, const Request*> by_key;
  const auto read = [&](const ir::Origin& origin) {
    if (origin.asked.by.starts_with("rule ")) by_key[origin.key] = &origin.asked;
  };
  const auto write = [&](ir::Origin& origin) {
    const auto found = by_key.find(origin.key);
    if (found != by_key.end()) origin.asked = *found->second;
  };
  for (ir::NodeId id : asked.order()) std::ranges::for_each(asked.node(id).origins, read);
  for (const ir::Retired& row : asked.retired) read(row.origin);
  for (ir::NodeId id : raised.order()) std::ranges::for_each(raised.node(id).origins, write);
  for (ir::Retired& row : raised.retired) write(row.origin);
}

}  // namespace vernier::precision
