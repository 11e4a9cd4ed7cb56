// Which of an engine's inputs hold values that steps refuse: see id_rules.h.
#include "runtime/id_rules.h"

#include <algorithm>
#include <optional>

namespace vernier::runtime {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;

class Finder {
 public:
  explicit Finder(const plan::Plan& plan) : plan_(plan), producers_(plan.values.size(), kNone) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      for (int32_t out : plan.steps[s].outputs) {
        if (out != kNone) producers_[out] = static_cast<int32_t>(s);
      }
    }
  }

  std::vector<IdRule> find() const {
    std::vector<IdRule> rules;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const plan::Step& step = plan_.steps[s];
      for (const ValueRule& rule : value_rules(step.op, step.attrs, step.inputs.size())) {
        if (const auto found = rule_of(s, rule)) rules.push_back(*found);
      }
    }
    return rules;
  }

 private:
  // The input that `operand` of `step` is a view of.
  std::optional<IdRule> at_input(size_t step, size_t operand) const {
    const auto v = static_cast<size_t>(plan_.steps[step].inputs[operand]);
    const int32_t alias_of = plan_.values[v].alias_of;
    const auto base = alias_of == kNone ? static_cast<int32_t>(v) : alias_of;
    const auto found = std::find(plan_.inputs.begin(), plan_.inputs.end(), base);
    if (found == plan_.inputs.end()) return std::nullopt;
    const auto input = static_cast<size_t>(found - plan_.inputs.begin());
    return IdRule{.step = step, .operand = operand, .input = input};
  }

  std::optional<IdRule> rule_of(size_t reader, ValueRule rule) const {
    const plan::Step& step = plan_.steps[reader];
    const auto checked = static_cast<size_t>(rule.input), table = static_cast<size_t>(rule.table);
    if (!step.has_input(checked)) return std::nullopt;
    std::optional<IdRule> found = at_input(reader, checked);
    if (!found) found = moved_input(step.inputs[checked]);
    if (!found || is_float(plan_.value(plan_.inputs[found->input]).dtype)) return std::nullopt;
    found->reader = reader;
    if (rule.kind != ValueRule::Kind::kNonZero) {
      if (!step.has_input(table)) return std::nullopt;
      const auto rank = static_cast<int64_t>(plan_.value(step.inputs[table]).shape.size());
      if (rule.axis < 0) rule.axis += rank;
      if (rule.kind != ValueRule::Kind::kAxis && (rule.axis < 0 || rule.axis >= rank))
        return std::nullopt;
      found->table = step.inputs[table];
    }
    found->rule = rule;
    return found;
  }

  // Where `value` is an integer input cast to another integer type, or its tokens: those of padding
  // are checked with them.
  std::optional<IdRule> moved_input(int32_t value) const {
    const int32_t producer = producers_[plan_.base_index(value)];
    if (producer == kNone) return std::nullopt;
    const auto s = static_cast<size_t>(producer);
    const plan::Step& step = plan_.steps[s];
    const bool casts = step.op == OpKind::kCast && step.has_input(0) &&
                       is_integer(plan_.value(step.inputs[0]).dtype);
    return casts || packs(step) ? at_input(s, 0) : std::nullopt;
  }
  // Does the step gather the places that a TokenIndex found?
  bool packs(const plan::Step& step) const {
    if (step.op != OpKind::kGather || !step.has_input(0) || !step.has_input(1)) return false;
    const int32_t index = producers_[plan_.base_index(step.inputs[1])];
    return index != kNone && plan_.step(index).op == OpKind::kTokenIndex;
  }

  const plan::Plan& plan_;
  std::vector<int32_t> producers_;  // by value: the step that writes it
};

}  // namespace

std::vector<IdRule> find_id_rules(const plan::Plan& plan) { return Finder(plan).find(); }

}  // namespace vernier::runtime
