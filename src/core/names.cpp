// Nearest names and names of operators: see names.h.
#include "core/names.h"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace vernier {
namespace {

// Levenshtein distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

bool is_upper(char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::string nearest_names(std::string_view wanted, const std::vector<std::string>& known) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<size_t, std::string_view>> ranked;
  // A pattern is compared by the part before its first star.
  const size_t star = wanted.find('*');
  const bool pattern = star != wanted.npos && star > 0;
  const std::string_view meant = pattern ? wanted.substr(0, star) : wanted;
  for (const std::string& name : known) {
    const std::string_view part = pattern ? std::string_view(name).substr(0, star) : name;
    ranked.emplace_back(edit_distance(meant, part), name);
  }
  std::sort(ranked.begin(), ranked.end());
  ranked.erase(std::unique(ranked.begin(), ranked.end()), ranked.end());
  std::string text;
  for (size_t i = 0; i < std::min(kShown, ranked.size()); ++i) {
    text += (i ? ", '" : "; nearest: '") + std::string(ranked[i].second) + "'";
  }
  return text;
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
