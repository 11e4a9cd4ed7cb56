// Which plugins a plan needs and which are loaded. How they are loaded: vernier/plugins.h.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace vernier::runtime {

/// "plugin.my_norm.layer_norm.two_pass" → "my_norm"; empty: a kernel of Vernier's.
std::string plugin_of(std::string_view kernel);
/// The loaded plugin of that name; absent: none is loaded.
std::optional<plan::Plugin> loaded_plugin(const std::string& name);
/// The loaded plugins that steps of `plan` come from, by name.
std::vector<plan::Plugin> plugins_of(const plan::Plan& plan);
/// "'my_norm' (libmine.so, XXH3-128 0123…)"; of one that the plan does not record: "'my_norm'".
std::string plugin_text(const plan::Plan& plan, const std::string& name);
/// Warns where a plugin is another library than the one that `plan` was built with.
void warn_of_other_plugins(const plan::Plan& plan);

}  // namespace vernier::runtime
