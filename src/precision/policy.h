#pragma once
#include <string>
#include <string_view>
#include <vector>
#include "precision/requests.h"
namespace vernier::precision {
struct Rule { std::string text; };
struct Policy { Mode mode; std::vector<Rule> rules; };
inline Rule parse_rule(std::string_view t) { return {std::string(t)}; }
inline std::vector<std::string> apply_rules(ir::Graph&, const std::vector<Rule>&) { return {}; }
inline std::string save_policy(const Policy& p) { return std::string(name(p.mode)); }
}
