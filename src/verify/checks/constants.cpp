// Is every constant of the engine the model's, rounded? Constants are judged element by element,
// whether an input looks at them or not: a row of a table that no input reads is a row of the
// model.
#include <fmt/format.h>

#include "verify/checks/table.h"

namespace vernier::verify::checks {
namespace {

constexpr size_t kMostNames = 5;

std::string text(const HeldConstant& constant) {
  return constant.name.empty() ? fmt::format("the constant that is {}", constant.where)
                               : fmt::format("constant '{}' ({})", constant.name, constant.where);
}

// "148 of 148 constants, 22.6 million numbers", and which are not held.
std::string coverage(const std::vector<HeldConstant>& constants) {
  int64_t held = 0, elems = 0;
  std::string missing;
  size_t named = 0;
  for (const HeldConstant& constant : constants) {
    held += constant.held;
    if (constant.held) elems += constant.elems;
    if (constant.held || named++ >= kMostNames) continue;
    missing += (missing.empty() ? "" : ", ") + text(constant) + ": " + constant.why;
  }
  std::string note = fmt::format("{} of {} constants, {} numbers, held against the model", held,
                                 constants.size(), elems);
  if (named == 0) return note;
  return note + "; not held: " + missing +
         (named > kMostNames ? fmt::format(" and {} more", named - kMostNames) : "");
}

Findings ask_constants(Context&, const EngineConstants& engine) {
  Findings findings;
  for (const HeldConstant& constant : engine.constants) {
    if (!constant.held) continue;
    findings.push_back(constant.why.empty()
                           ? Finding{}
                           : failure(Verdict::kConstant,
                                     fmt::format("{} {}; it is made of the model's by {}",
                                                 text(constant), constant.why, constant.made_of)));
  }
  if (!findings.empty()) findings.front().note = coverage(engine.constants);
  return findings;
}

std::string why_not(const Context& context) {
  for (const HeldConstant& constant : context.constants)
    if (constant.held) return "";
  return context.constants.empty() ? "the engine has no constants" : coverage(context.constants);
}

}  // namespace

constexpr Check constants{.ask = &ask_constants, .why_not = &why_not};

}  // namespace vernier::verify::checks
