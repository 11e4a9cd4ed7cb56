// Einsum equations: see einsum.h.
#include "core/einsum.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "core/error.h"

namespace vernier {
namespace {

constexpr std::string_view kEllipsis = "...";

[[noreturn]] void bad_equation(std::string_view equation, const std::string& what) {
  throw Error(ErrorCode::kInput, "Einsum equation '" + std::string(equation) + "': " + what);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

// The labels of one term whose ellipsis, if any, covers `ellipsis_axes` axes.
std::vector<int> labels_of(std::string_view equation, const std::string& term, int ellipsis_axes) {
  std::vector<int> labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else if (!seen && term.compare(i, kEllipsis.size(), kEllipsis) == 0) {
      for (int axis = ellipsis_axes; axis > 0; --axis) labels.push_back(-axis);
      i += kEllipsis.size() - 1;
      seen = true;
    } else {
      bad_equation(equation, "unexpected '" + std::string(1, term[i]) + "' in '" + term + "'");
    }
  }
  return labels;
}

bool has_ellipsis(const std::string& term) { return term.find(kEllipsis) != std::string::npos; }

std::vector<int> implicit_output(const EinsumEquation& result, int ellipsis_axes) {
  std::map<int, int> uses;
  for (const std::vector<int>& labels : result.inputs) {
    for (int label : labels) ++uses[label];
  }
  std::vector<int> output;
  for (int axis = ellipsis_axes; axis > 0; --axis) output.push_back(-axis);
  for (const auto& [label, count] : uses) {
    if (label > 0 && count == 1) output.push_back(label);
  }
  return output;
}

}  // namespace

EinsumEquation parse_einsum(std::string_view equation, std::span<const size_t> ranks) {
  std::string text(equation);
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  const std::vector<std::string> terms = split(text.substr(0, arrow), ',');
  if (terms.size() != ranks.size()) {
    bad_equation(equation, "has " + std::to_string(terms.size()) + " terms for " +
                               std::to_string(ranks.size()) + " inputs");
  }
  EinsumEquation result;
  int ellipsis_axes = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const size_t letters = labels_of(equation, terms[i], 0).size();
    if (letters > ranks[i] || (letters < ranks[i] && !has_ellipsis(terms[i]))) {
      bad_equation(equation, "term '" + terms[i] + "' does not fit input " + std::to_string(i) +
                                 " of rank " + std::to_string(ranks[i]));
    }
    const int covered = has_ellipsis(terms[i]) ? static_cast<int>(ranks[i] - letters) : 0;
    ellipsis_axes = std::max(ellipsis_axes, covered);
    result.inputs.push_back(labels_of(equation, terms[i], covered));
  }
  if (arrow == std::string::npos) {
    result.output = implicit_output(result, ellipsis_axes);
    return result;
  }
  result.output = labels_of(equation, text.substr(arrow + 2), ellipsis_axes);
  for (size_t i = 0; i < result.output.size(); ++i) {
    const int label = result.output[i];
    const auto same = [&](int other) { return other == label; };
    const bool known = std::any_of(result.inputs.begin(), result.inputs.end(), [&](const auto& in) {
      return std::any_of(in.begin(), in.end(), same);
    });
    const std::string letter(1, static_cast<char>(label));
    if (!known) bad_equation(equation, "output label '" + letter + "' is in no input");
    if (std::count_if(result.output.begin(), result.output.end(), same) > 1)
      bad_equation(equation, "output label '" + letter + "' occurs twice");
  }
  return result;
}

}  // namespace vernier
