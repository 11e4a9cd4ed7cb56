// Outputs that are 0 at padding: see zero_fill.h.
#include "compile/zero_fill.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/facts.h"
#include "core/attrs.h"
#include "core/error.h"
#include "ops/infer.h"
#include "passes/pass.h"
#include "passes/token_masks.h"

namespace vernier::compiler {
namespace {

// Does the output have the places of the mask?
bool has_places(const ir::Graph& graph, ir::ValueId output, ir::ValueId mask) {
  const SymShape &y = graph.value(output).shape, &m = graph.value(mask).shape;
  return y.size() >= 2 && m.size() == 2 && is_float(graph.value(output).dtype) &&
         analysis::same_size(graph, y[0], m[0]) && analysis::same_size(graph, y[1], m[1]);
}

}  // namespace

std::vector<plan::ZeroFilled> zero_fillable(const ir::Graph& imported,
                                            std::vector<std::string>& notes) {
  const std::shared_ptr<ir::Graph> raised = imported.clone();
  passes::run_passes(*raised, passes::Phase::kRaise, {});
  const std::vector<passes::TokenMask> masks = passes::token_masks(*raised);
  std::vector<plan::ZeroFilled> found;
  std::string names;
  for (size_t i = 0; i < raised->outputs.size(); ++i) {
    const std::string& name = raised->output_names[i];
    const auto fits = [&](const passes::TokenMask& mask) {
      return has_places(*raised, raised->outputs[i], mask.input);
    };
    const auto count = std::ranges::count_if(masks, fits);
    if (count > 1) {
      notes.push_back(fmt::format(
          "zero-fill: output '{}' keeps its padding, since several masks have its places", name));
    }
    if (count != 1) continue;
    const passes::TokenMask mask = *std::ranges::find_if(masks, fits);
    found.push_back(
        {.output = name, .mask = raised->value(mask.input).name, .padding = mask.padding});
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
  }
  if (found.empty()) {
    notes.push_back(
        masks.empty()
            ? "zero-fill changes nothing: no attention has a mask that says what is padding"
            : "zero-fill changes nothing: no output of floats has a place for each token of a "
              "mask");
  } else {
    notes.push_back(
        fmt::format("zero-fill: {} {} 0 at padding ('{}' is {} there), except in rows with padding "
                    "between tokens or with no tokens",
                    names, found.size() == 1 ? "is" : "are", found[0].mask, found[0].padding));
  }
  return found;
}

void zero_fill(ir::Graph& imported, const std::vector<plan::ZeroFilled>& outputs) {
  for (const plan::ZeroFilled& filled : outputs) {
    const std::string &name = filled.output, &mask_name = filled.mask;
    const auto output = std::ranges::find(imported.output_names, name);
    const auto mask = std::ranges::find_if(imported.inputs, [&](ir::ValueId input) {
      return imported.value(input).name == mask_name;
    });
    if (output == imported.output_names.end() || mask == imported.inputs.end()) {
      throw Error(ErrorCode::kInput,
                  fmt::format("the engine fills output '{}' with 0 where input '{}' is padding, "
                              "and the model has no such output and input: it is another model",
                              name, mask_name));
    }
    const auto at = static_cast<size_t>(output - imported.output_names.begin());
    const ir::ValueId x = imported.outputs[at];
    const ir::NodeId id = imported.add_node(OpKind::kZeroPadding, {x, *mask},
                                            encode(ZeroPaddingAttrs{.padding = filled.padding}));
    imported.node(id).name = "zero padding of " + name;
    const ir::ValueId y = imported.node(id).outputs[0];
    if (imported.value(x).name == name) imported.value(x).name.clear();
    imported.value(y).name = name;
    imported.outputs.set(at, y);
    ops::infer_node(imported, id);
  }
}

}  // namespace vernier::compiler
