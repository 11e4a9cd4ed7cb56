// canonicalise: brings equivalent graphs into one form by small rules, applied until none matches.
// The rules and their conditions are in the canonicalise_*.cpp files.
#include "passes/canonicalise.h"

#include "passes/passes.h"

namespace vernier::passes {

int canonicalise(Graph& graph) {
  std::vector<Rule> rules{&fold_constant};
  for (std::span<const Rule> group : {shape_rules(), arithmetic_rules(), expand_rules(),
                                      index_rules(), mask_rules(), view_rules()}) {
    rules.insert(rules.end(), group.begin(), group.end());
  }
  return apply_rules(graph, rules);
}

}  // namespace vernier::passes
