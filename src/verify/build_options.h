// Options of `vernier build` in words, for the commands that propose a build. Contract:
// docs/precision.md ("Rules").
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace vernier::verify {

/// As a word of a shell's command line: in quotes where the shell would read more into it.
std::string shell_word(std::string_view text);
/// "vernier build MODEL -o ENGINE …": what builds the plan again, with `rules` behind its own.
/// Scales are a file of the user's, whose name the plan does not have.
std::string build_command(const plan::Plan& plan, const std::string& model,
                          const std::string& engine, const std::vector<std::string>& rules);
/// The rules that raise one ONNX node to f32 wherever less is asked of it, put behind all others.
std::vector<std::string> raising_rules(const plan::LedgerRow& row);
/// The rules that ask of a node called `name` what the ledger says was asked of this one.
std::vector<std::string> asking_rules(const plan::LedgerRow& row, const std::string& name);

}  // namespace vernier::verify
