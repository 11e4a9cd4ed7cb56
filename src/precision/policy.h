// The user's precision policy as data: a mode and ordered rules, their syntax, and the requests
// they make in a raised graph. Contract: docs/precision.md. Knows no kernels.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/numerics.h"
#include "precision/requests.h"
#include "precision/selectors.h"

namespace vernier::precision {

/// The option, or key of a policy file, in which a rule was written.
enum class Spelling : uint8_t {
  kRule,             ///< --rule 'op:LayerNorm compute=f32'
  kLayerPrecisions,  ///< --layerPrecisions='LayerNormalization_*:fp32', one entry
  kLayerOutputTypes  ///< --layerOutputTypes='LayerNormalization_*:fp32', one entry
};

/// One line of the policy. A type of kUndefined asks for nothing.
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

/// Sets Origin::asked of the ONNX nodes that each rule matches, part by part; later rules replace
/// earlier ones and the mode's default. asked.by names the rules in force and what they replaced:
/// "rule 2 (over rule 1)".
/// Throws Error(kInput) for a rule that matches no ONNX node. Returns a note for each rule that
/// matches no floating-point computation (only folded, shape or integer nodes).
std::vector<std::string> apply_rules(ir::Graph& raised, const std::vector<Rule>& rules);
/// Copies the requests that rules made in `asked` to `raised`: `asked` is the same model raised
/// without nodes kept apart, in which roles and blocks are defined.
void keep_rules(const ir::Graph& asked, ir::Graph& raised);

}  // namespace vernier::precision
