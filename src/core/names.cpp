// Names: see names.h and vernier/nearest.h.
#include "core/names.h"

#include <algorithm>
#include <cctype>

namespace vernier {
namespace {

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

// Twice the length of the longest common subsequence: what `a` and `b` share. A letter in another
// case counts 1 of 2. One row of the table at a time.
size_t shared(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(b.size() + 1, 0);
  for (const char c : a) {
    size_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const size_t match = c == b[j - 1] ? 2 : lower(c) == lower(b[j - 1]) ? 1 : 0;
      row[j] = std::max({above, row[j - 1], diagonal + match});
      diagonal = above;
    }
  }
  return row.back();
}

// 1: equal; 0: not one character in common.
double resemblance(std::string_view a, std::string_view b) {
  return a.empty() && b.empty()
             ? 1
             : static_cast<double>(shared(a, b)) / static_cast<double>(a.size() + b.size());
}

constexpr size_t kMostShown = 3;

// How far a name is from what was meant, from 0 to 1, and the name.
using Ranked = std::pair<double, std::string_view>;

// The closest names, each once, closest first.
std::vector<Ranked> closest(std::string_view wanted, const std::vector<std::string>& known) {
  // Of a pattern, what stands before its first star says what was meant.
  const size_t star = wanted.find('*');
  const bool pattern = star != wanted.npos && star > 0;
  const std::string_view meant = pattern ? wanted.substr(0, star) : wanted;
  std::vector<Ranked> ranked;
  for (const std::string& name : known) {
    const std::string_view part = pattern ? std::string_view(name).substr(0, star) : name;
    if (!name.empty()) ranked.emplace_back(1 - resemblance(meant, part), name);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  ranked.resize(std::min(ranked.size(), kMostShown));
  return ranked;
}

// "'a', 'b' or 'c'"
std::string listed(const std::vector<Ranked>& names, std::string_view before_last) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? before_last : ", ";
    text.append("'").append(names[i].second).append("'");
  }
  return text;
}

}  // namespace

std::string did_you_mean(std::string_view wanted, const std::vector<std::string>& known) {
  constexpr double kFarthest = 0.4;  // LayerNorm_0 is 0.29 from LayerNormalization_0
  constexpr double kBehind = 0.15;   // the others that are shown, behind the closest
  std::vector<Ranked> names = closest(wanted, known);
  if (names.empty() || names.front().first > kFarthest) return "";
  const double farthest = std::min(kFarthest, names.front().first + kBehind);
  while (names.back().first > farthest) names.pop_back();
  return "; did you mean " + listed(names, " or ").append("?");
}

std::string nearest_names(std::string_view wanted, const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(wanted, known);
  const std::string nearest = meant.empty() ? listed(closest(wanted, known), ", ") : "";
  return nearest.empty() ? meant : "; nearest: " + nearest;
}

std::string snake_case(std::string_view name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool last = i + 1 == name.size();
    if (i > 0 && is_upper(name[i])) {
      const bool starts_word =
          is_upper(name[i - 1]) ? !last && !is_upper(name[i + 1]) : !last || !name.ends_with("NaN");
      if (starts_word) text += '_';
    }
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  return text;
}

}  // namespace vernier
