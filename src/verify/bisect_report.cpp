// What bisect found, as text and JSON: see bisect.h.

#include <nlohmann/json.hpp>

#include "compile/json.h"
#include "compile/lines.h"
#include "verify/bisect.h"
#include "verify/build_options.h"
#include "vernier/printable.h"

namespace vernier::verify {
namespace {

using nlohmann::json;

constexpr const char* kOutcomes[] = {"pass", "found", "not precision"};

std::string type_name(DType type) {
  return type == DType::kUndefined ? "-" : std::string(name(type));
}

std::string option_of(const std::string& rule) { return "--rule " + shell_word(rule); }

std::string row_text(const BisectedNode& node) {
  return format_line("  {:<48} {:<22} {:<22} step {} ({}), {}{}\n", node.node,
                     node.op + (node.composite.empty() ? "" : " (of " + node.composite + ")"),
                     format_line("{} / {} / {}", type_name(node.store), type_name(node.compute),
                                 type_name(node.accumulate)),
                     node.step, node.kernel, node.by,
                     node.rule.empty() ? "" : ": '" + node.rule + "'");
}

std::string found_text(const Bisection& found) {
  std::string text = format_line(
      "{} of the {} that have less than f32 or ask for it ({}) must be raised for the engine "
      "to pass; none of them can be left out\n  {:<48} {:<22} {:<22} {}\n",
      found.nodes.size(), counted(found.candidates, "node"), counted(found.candidate_steps, "step"),
      "node", "op", "has (store/compute/acc)", "where, asked by");
  for (const BisectedNode& node : found.nodes) text += row_text(node);
  text += "add to the build\n";
  for (const BisectedNode& node : found.nodes) {
    for (const std::string& rule : node.raising) text += format_line("  {}\n", option_of(rule));
  }
  text += found.rules_pass ? "tried: built with these, the engine passes in the worst cell; "
                             "verify it to check the others\n"
                           : "tried: built with these, the engine still fails: the rules "
                             "select other nodes; please report it with the model\n";
  return text;
}

std::string not_precision_text(const Bisection& found) {
  if (found.builds == 0 && found.candidates > 0)
    return "precision is not the cause: nothing was built\n";
  if (found.candidates == 0)
    return "precision is not the cause: every node has at least f32 and asks "
           "for no less\n";
  return format_line(
      "precision is not the cause: raising all nodes that have less than f32 or ask for it ({}) "
      "does not fix it; look for a bug, or for limits that f32 cannot meet\n",
      found.candidates);
}

json to_json(const BisectedNode& node) {
  return {{"node", node.node},
          {"key", node.key},
          {"op", node.op},
          {"origin_of", node.composite},
          {"got",
           {{"compute", type_json(node.compute)},
            {"accumulate", type_json(node.accumulate)},
            {"store", type_json(node.store)}}},
          {"by", node.by},
          {"rule", node.rule},
          {"step", node.step},
          {"kernel", node.kernel},
          {"raising", node.raising}};
}

}  // namespace

std::string to_text(const Bisection& found) {
  std::string text = format_line("verdict: {}\n  {}\n", name(found.verdict), found.explanation);
  if (!found.inputs.empty()) text += format_line("tried on {}\n", found.inputs);
  if (found.outcome == BisectOutcome::kPasses) text += "there is nothing to find\n";
  if (found.outcome == BisectOutcome::kFound) text += found_text(found);
  if (found.outcome == BisectOutcome::kNotPrecision) text += not_precision_text(found);
  for (const std::string& note : found.notes) text += format_line("note: {}\n", note);
  return text + format_line("{}, {:.1f} s, of which verify {:.1f} s\n",
                            counted(found.builds, "build"), found.ms / 1000,
                            found.verify_ms / 1000);
}

std::string to_json(const Bisection& found) {
  json result{{"outcome", kOutcomes[static_cast<size_t>(found.outcome)]},
              {"verdict", name(found.verdict)},
              {"explanation", found.explanation},
              {"cell", found.inputs},
              {"candidates", found.candidates},
              {"candidate_steps", found.candidate_steps},
              {"nodes", json::array()},
              {"options", json::array()},
              {"rules_pass", found.rules_pass},
              {"notes", found.notes},
              {"builds", found.builds},
              {"ms", found.ms},
              {"verify_ms", found.verify_ms}};
  for (const BisectedNode& node : found.nodes) {
    result["nodes"].push_back(to_json(node));
    for (const std::string& rule : node.raising) result["options"].push_back(option_of(rule));
  }
  return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace vernier::verify
