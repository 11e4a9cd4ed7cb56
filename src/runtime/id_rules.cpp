// Which of an engine's inputs are ids: see id_rules.h.
#include "runtime/id_rules.h"

#include <algorithm>
#include <optional>

namespace vernier::runtime {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;

class Finder {
 public:
  Finder(const plan::Plan& plan, const std::vector<const backend::KernelDef*>& kernels)
      : plan_(plan), kernels_(kernels), producers_(plan.values.size(), kNone) {
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      for (int32_t out : plan.steps[s].outputs) {
        if (out != kNone) producers_[static_cast<size_t>(out)] = static_cast<int32_t>(s);
      }
    }
  }

  std::vector<IdRule> find() const {
    std::vector<IdRule> rules;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!kernels_[s]->index_inputs) continue;
      for (const backend::IndexInput& index : kernels_[s]->index_inputs(plan_.steps[s].attrs)) {
        if (const auto rule = rule_of(s, index)) rules.push_back(*rule);
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

  std::optional<IdRule> rule_of(size_t reader, const backend::IndexInput& index) const {
    const plan::Step& step = plan_.steps[reader];
    const auto indices = static_cast<size_t>(index.indices),
               table = static_cast<size_t>(index.table);
    const size_t last = std::max(indices, table);
    if (last >= step.inputs.size() || step.inputs[indices] == kNone || step.inputs[table] == kNone)
      return std::nullopt;
    std::optional<IdRule> rule = at_input(reader, indices);
    if (!rule) rule = before_cast(step.inputs[indices]);
    if (!rule) return std::nullopt;
    const auto rank =
        static_cast<int64_t>(plan_.values[static_cast<size_t>(step.inputs[table])].shape.size());
    const int64_t axis = index.axis < 0 ? index.axis + rank : index.axis;
    if (axis < 0 || axis >= rank) return std::nullopt;
    rule->reader = reader;
    rule->table = step.inputs[table];
    rule->axis = static_cast<size_t>(axis);
    rule->tuples = index.tuples;
    return rule;
  }

  // Where `value` is an integer input cast to another integer type.
  std::optional<IdRule> before_cast(int32_t value) const {
    const int32_t producer = producers_[static_cast<size_t>(value)];
    if (producer == kNone) return std::nullopt;
    const auto s = static_cast<size_t>(producer);
    const int32_t source = plan_.steps[s].inputs.empty() ? kNone : plan_.steps[s].inputs[0];
    if (plan_.steps[s].op != OpKind::kCast || source == kNone ||
        !is_integer(plan_.values[static_cast<size_t>(source)].dtype))
      return std::nullopt;
    return at_input(s, 0);
  }

  const plan::Plan& plan_;
  const std::vector<const backend::KernelDef*>& kernels_;
  std::vector<int32_t> producers_;  // by value: the step that writes it
};

}  // namespace

std::vector<IdRule> find_id_rules(const plan::Plan& plan,
                                  const std::vector<const backend::KernelDef*>& kernels) {
  return Finder(plan, kernels).find();
}

}  // namespace vernier::runtime
