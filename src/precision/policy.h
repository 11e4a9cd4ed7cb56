// The user's precision policy as data: a mode and rules in order, their spellings, and what they
// ask of a raised graph. Contract: docs/precision.md. Knows no kernels.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/numerics.h"
#include "precision/requests.h"
#include "precision/selectors.h"

namespace vernier::precision {

/// Where a rule was written: which option, which key of a policy file.
enum class Spelling : uint8_t {
  kRule,             ///< --rule 'op:LayerNorm compute=f32'
  kLayerPrecisions,  ///< --layerPrecisions='LayerNormalization_*:fp32', one entry
  kLayerOutputTypes  ///< --layerOutputTypes='LayerNormalization_*:fp32', one entry
};

/// One line of the policy. Types of kUndefined are not asked for.
struct Rule {
  Selector selector;
  TypeRequest compute, accumulate, store;
  std::string text;  ///< as the user wrote it
  Spelling spelling = Spelling::kRule;
};

struct Policy {
  Mode mode = Mode::kModel;
  std::vector<Rule> rules;  ///< in order: later ones win
};

/// "op:LayerNorm compute=f32": one or more selectors, all of which must hold, and one or more
/// settings. Throws Error(kInput) with the rule, the column and what was expected.
Rule parse_rule(std::string_view text);
/// trtexec's "LayerNormalization_*:fp32,Softmax_12:fp32", one rule per entry: at least that compute
/// type, and for fp32 sums in at least f32 too. Empty text: no rules. Throws Error(kInput) as
/// parse_rule does.
std::vector<Rule> parse_layer_precisions(std::string_view text);
/// The same grammar; "fp32+fp32" for several outputs, which must agree: at least that storage type.
std::vector<Rule> parse_layer_output_types(std::string_view text);
/// trtexec's --precisionConstraints. Rules always bind here: "obey" changes nothing, "none" is
/// accepted where there is no rule to ignore. Throws Error(kInput) for everything else.
void check_precision_constraints(std::string_view text, size_t num_rules);

/// Sets Origin::asked of the ONNX nodes that each rule matches, part by part, later rules over
/// earlier ones and over the mode's default that stands there. asked.by names the rules in force
/// and what they replaced: "rule 2 (over rule 1)".
/// Throws Error(kInput) for a rule that matches no ONNX node. Returns notes, one for each rule that
/// reaches no floating-point work (folded, shape, integer nodes only).
std::vector<std::string> apply_rules(ir::Graph& raised, const std::vector<Rule>& rules);
/// Asks of `raised` what rules asked of the ONNX nodes of `asked`: the same model, raised with no
/// node apart. Roles and blocks are positions in the graph where every composite was found.
void keep_rules(const ir::Graph& asked, ir::Graph& raised);

}  // namespace vernier::precision
