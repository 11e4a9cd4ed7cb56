// Size ranges: see profile.h.
#include "plan/profile.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>

#include "core/names.h"

namespace vernier::plan {
namespace {

struct Range {
  int64_t min = 1, opt = 1, max = 1;
};

[[noreturn]] void bad(const std::string& part, const std::string& what) {
  throw Error(ErrorCode::kInput, "--shapes: '" + part + "': " + what);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  for (;;) {
    const size_t end = text.find(separator, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    if (end == std::string::npos) return parts;
    at = end + separator.size();
  }
}

int64_t parse_size(const std::string& part, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > kMaxSize) {
    bad(part, "got '" + text + "', expected sizes from 1 to " + std::to_string(kMaxSize) +
                  ", as in batch=1..32");
  }
  return value;
}

Range parse_range(const std::string& part, const std::string& text) {
  const std::vector<std::string> ends = split(text, "..");
  if (ends.size() > 3) bad(part, "expected N, MIN..MAX or MIN..OPT..MAX");
  std::vector<int64_t> sizes;
  for (const std::string& end : ends) sizes.push_back(parse_size(part, end));
  const Range range{sizes.front(), sizes.size() == 3 ? sizes[1] : sizes.back(), sizes.back()};
  if (range.min > range.opt || range.opt > range.max)
    bad(part, "sizes must rise: MIN <= OPT <= MAX");
  return range;
}

class ProfileMaker {
 public:
  ProfileMaker(const ir::Graph& graph, std::span<const TableBound> bounds) : graph_(graph) {
    for (ir::ValueId input : graph.inputs) {
      const SymShape& shape = graph.value(input).shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        for (const std::string& symbol : shape[d].symbols()) {
          if (!is_batch_.emplace(symbol, d == 0).second) continue;
          order_.push_back(symbol);
        }
      }
    }
    // Not those of sizes that depend on data.
    std::ranges::copy_if(bounds, std::back_inserter(bounds_), [&](const TableBound& bound) {
      return std::ranges::all_of(bound.last.symbols(),
                                 [&](const std::string& s) { return is_batch_.contains(s); });
    });
  }

  void read(const std::string& shapes) {
    if (shapes.empty()) return;
    for (const std::string& part : split(shapes, ",")) {
      const size_t equals = part.find('=');
      if (equals == std::string::npos)
        bad(part, "expected NAME=RANGE, as in batch=1..32,seq=4..512");
      read_part(part, part.substr(0, equals), part.substr(equals + 1));
    }
  }

  std::vector<Symbol> finish(std::vector<std::string>& notes) const {
    std::vector<Symbol> profile;
    for (const std::string& symbol : order_) {
      const auto given = given_.find(symbol);
      if (given != given_.end()) {
        profile.push_back({symbol, given->second.min, given->second.opt, given->second.max});
        continue;
      }
      const bool batch = is_batch_.at(symbol);
      const int64_t preferred = batch ? kDefaultMaxBatch : kDefaultMaxLength;
      const int64_t max = largest_allowed(symbol, preferred, Sharing::kEqual);
      profile.push_back(
          {symbol, 1, std::min(max, batch ? kDefaultOptBatch : kDefaultOptLength), max});
      notes.push_back("size '" + symbol + "' defaults to 1.." + std::to_string(max) +
                      (max < preferred ? " (the most that the model's own tables allow)" : "") +
                      "; give --shapes " + symbol + "=MIN..MAX to change it");
    }
    warn_of_tables(profile, notes);
    return profile;
  }

 private:
  /// The value of sizes that were not given, where a bound depends on several sizes: as large as
  /// the one in question, or 1.
  enum class Sharing : uint8_t { kEqual, kLeast };

  void read_part(const std::string& part, const std::string& name, const std::string& ranges) {
    if (const size_t colon = name.rfind(':'); colon != std::string::npos)
      return read_dimension(part, name.substr(0, colon), name.substr(colon + 1), ranges);
    const auto is_named = [&](ir::ValueId id) { return graph_.value(id).name == name; };
    const auto input = std::find_if(graph_.inputs.begin(), graph_.inputs.end(), is_named);
    if (input == graph_.inputs.end()) {
      if (!is_batch_.contains(name) && !graph_.symbol_substitutions.contains(name)) {
        std::vector<std::string> known = order_;
        for (ir::ValueId id : graph_.inputs) known.push_back(graph_.value(id).name);
        bad(part, "'" + name + "' is neither an input nor a named size; there are " +
                      known_names() + did_you_mean(name, known));
      }
      set(part, name, parse_range(part, ranges));
      return;
    }
    const SymShape& shape = graph_.value(*input).shape;
    const std::vector<std::string> items = split(ranges, "x");
    if (items.size() != shape.size()) {
      bad(part, "got " + std::to_string(items.size()) + " sizes, but input '" + name + "' has " +
                    std::to_string(shape.size()) + ": " + str(shape));
    }
    for (size_t d = 0; d < items.size(); ++d)
      set_dimension(part, shape[d], d, parse_range(part, items[d]));
  }

  // INPUT:DIMENSION=RANGE
  void read_dimension(const std::string& part, const std::string& name, const std::string& number,
                      const std::string& range) {
    for (ir::ValueId id : graph_.inputs) {
      const SymShape& shape = graph_.value(id).shape;
      if (graph_.value(id).name != name) continue;
      for (size_t d = 0; d < shape.size(); ++d) {
        if (std::to_string(d) == number)
          return set_dimension(part, shape[d], d, parse_range(part, range));
      }
      bad(part, "input '" + name + "' has dimensions 0.." + std::to_string(shape.size() - 1) +
                    ": " + str(shape) + ", got ':" + number + "'");
    }
    bad(part, "'" + name + "' is not an input; there are " + known_names());
  }

  void set_dimension(const std::string& part, const Dim& dim, size_t number, const Range& range) {
    const std::string where = "dimension " + std::to_string(number) + " is ";
    if (const auto size = dim.as_constant()) {
      if (range.min == *size && range.max == *size) return;
      bad(part, where + "fixed at " + std::to_string(*size) + " in the model");
    }
    const auto symbol = dim.as_symbol();
    if (!symbol) bad(part, where + dim.str() + ": give the ranges of its named sizes");
    set(part, *symbol, range);
  }

  void set(const std::string& part, std::string symbol, const Range& range) {
    if (const auto it = graph_.symbol_substitutions.find(symbol);
        it != graph_.symbol_substitutions.end()) {
      const auto other = it->second.as_symbol();
      if (!other)
        bad(part, "size '" + symbol + "' is always " + it->second.str() + " in this model");
      symbol = *other;
    }
    const auto [it, fresh] = given_.emplace(symbol, range);
    const Range& old = it->second;
    if (!fresh && (old.min != range.min || old.max != range.max)) {
      bad(part, "size '" + symbol + "' was given as " + std::to_string(old.min) + ".." +
                    std::to_string(old.max) + " before; they must agree");
    }
    if (const int64_t allowed = largest_allowed(symbol, range.max, Sharing::kLeast);
        allowed < range.max) {
      bad(part, "size '" + symbol + "' can be at most " + std::to_string(allowed) +
                    " in this model (its own tables end there)");
    }
  }

  // Every guard on this symbol alone.
  bool guards_hold(const std::string& symbol, int64_t size) const {
    const std::map<std::string, int64_t> binding{{symbol, size}};
    return std::ranges::all_of(graph_.guards, [&](const ir::Guard& guard) {
      std::vector<std::string> symbols = guard.lhs.symbols();
      for (std::string& s : guard.rhs.symbols()) symbols.push_back(std::move(s));
      const bool alone = std::ranges::all_of(symbols, [&](const auto& s) { return s == symbol; });
      return !alone || guard.lhs.evaluate(binding) == guard.rhs.evaluate(binding);
    });
  }

  // Every table that this symbol reads into. Padding may keep a size that was asked for inside it.
  bool tables_reach(const std::string& symbol, int64_t size, Sharing sharing) const {
    return std::ranges::all_of(bounds_, [&](const TableBound& bound) {
      if (sharing == Sharing::kLeast && !bound.always) return true;
      std::map<std::string, int64_t> binding;
      for (const std::string& other : bound.last.symbols()) {
        const auto given = given_.find(other);
        const bool decided = other != symbol && given != given_.end();
        const bool least = other != symbol && sharing == Sharing::kLeast;
        binding[other] = decided ? given->second.max : least ? 1 : size;
      }
      return !binding.contains(symbol) || bound.last.evaluate(binding) < bound.rows;
    });
  }

  // The largest size <= `limit` that the model's guards and tables allow.
  int64_t largest_allowed(const std::string& symbol, int64_t limit, Sharing sharing) const {
    constexpr int64_t kTries = 1024;  // past them a bound is taken to hold below, to fail above
    const auto holds = [&](int64_t size) {
      return guards_hold(symbol, size) && tables_reach(symbol, size, sharing);
    };
    int64_t above = limit;
    for (; above > std::max<int64_t>(1, limit - kTries); --above) {
      if (holds(above)) return above;
    }
    int64_t below = 1;
    while (below + 1 < above) {
      const int64_t middle = below + (above - below) / 2;
      (holds(middle) ? below : above) = middle;
    }
    return below;
  }

  // A size that was given may pass a table whose positions are counted over a mask: padding may
  // keep its runs inside.
  void warn_of_tables(const std::vector<Symbol>& profile, std::vector<std::string>& notes) const {
    std::map<std::string, int64_t> largest;
    for (const Symbol& symbol : profile) largest[symbol.name] = symbol.max;
    for (const TableBound& bound : bounds_) {
      const int64_t last = bound.last.evaluate(largest);
      if (last < bound.rows) continue;
      std::string sizes;
      for (const std::string& symbol : bound.last.symbols())
        sizes += (sizes.empty() ? "" : ", ") + symbol + " " + std::to_string(largest[symbol]);
      notes.push_back("warning: at " + sizes + " node '" + bound.where + "' reads row " +
                      std::to_string(last) + " of a table of " + std::to_string(bound.rows) +
                      " rows (0.." + std::to_string(bound.rows - 1) +
                      ") unless enough of it is padding; such a run is refused");
    }
  }

  std::string known_names() const {
    std::string text;
    for (ir::ValueId input : graph_.inputs) {
      text += (text.empty() ? "inputs " : ", ") + graph_.value(input).name +
              str(graph_.value(input).shape);
    }
    return text;
  }

  const ir::Graph& graph_;
  std::vector<TableBound> bounds_;
  std::map<std::string, bool> is_batch_;  // first use is a first dimension
  std::vector<std::string> order_;
  std::map<std::string, Range> given_;
};

}  // namespace

std::vector<Symbol> make_profile(const ir::Graph& graph, const std::string& shapes,
                                 std::vector<std::string>& notes,
                                 std::span<const TableBound> bounds) {
  ProfileMaker maker(graph, bounds);
  maker.read(shapes);
  return maker.finish(notes);
}

}  // namespace vernier::plan
