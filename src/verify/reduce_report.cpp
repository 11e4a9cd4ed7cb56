// What reduce found, as text and JSON: see reduce.h.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compile/lines.h"
#include "verify/reduce.h"
#include "vernier/printable.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

constexpr const char* kOutcomes[] = {"pass", "reduced", "not reproduced"};
constexpr size_t kMostListed = 12;

std::string part_text(const Reduction& found) {
  std::string text =
      format_line("{} of {} left\n", found.nodes.size(), counted(found.model_nodes, "node"));
  for (size_t i = 0; i < std::min(found.nodes.size(), kMostListed); ++i)
    text += format_line("  {}\n", found.nodes[i]);
  if (found.nodes.size() > kMostListed)
    text += format_line("  and {} more\n", found.nodes.size() - kMostListed);
  text += format_line("in {}: model.onnx, inputs.npz, command.txt\n  {}\n", found.folder.string(),
                      found.command);
  return text + format_line("tried from these files: {}, {}\n", name(found.part_verdict),
                            found.part_explanation);
}

}  // namespace

std::string to_text(const Reduction& found) {
  std::string text = format_line("verdict: {}\n  {}\n", name(found.verdict), found.explanation);
  if (!found.inputs.empty()) text += format_line("reduced on {}\n", found.inputs);
  if (found.outcome == ReduceOutcome::kPasses) text += "there is nothing to reduce\n";
  if (!found.nodes.empty()) text += part_text(found);
  if (found.outcome == ReduceOutcome::kNotReproduced) {
    text +=
        found.nodes.empty()
            ? "not reproduced: built again with the sizes of these inputs, the whole model does "
              "not fail in this way; nothing was written\n"
            : "not reproduced: the part fails when it is cut, but not from these files\n";
  }
  return text + format_line("{}, {:.1f} s\n", counted(found.builds, "build"), found.ms / 1000);
}

std::string to_json(const Reduction& found) {
  const json result{{"outcome", kOutcomes[static_cast<size_t>(found.outcome)]},
                    {"verdict", name(found.verdict)},
                    {"explanation", found.explanation},
                    {"cell", found.inputs},
                    {"nodes", found.nodes},
                    {"onnx_nodes", found.model_nodes},
                    {"part_verdict", name(found.part_verdict)},
                    {"part_explanation", found.part_explanation},
                    {"command", found.command},
                    {"folder", found.folder.string()},
                    {"builds", found.builds},
                    {"ms", found.ms}};
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace vernier::verify
