// Are rows independent? A row alone, among copies of itself, in another order, beside poison and at
// its own length. See sweep.h.
#include <fmt/format.h>

#include <algorithm>

#include "evaluate/samples.h"
#include "runtime/engine_impl.h"
#include "verify/sweep.h"

namespace vernier::verify {

using namespace evaluate;
namespace {

// R of equal rows agrees up to the order of its sums.
constexpr double kSameInFp64 = 1e-9;

bool same_in_fp64(const EvalTensor& a, const EvalTensor& b) {
  if (a.shape != b.shape || a.is_float() != b.is_float()) return false;
  const Distance d = distance(a, b, kNoAxis);
  return d.worst <= kSameInFp64 && d.wrong_non_finite == 0 && d.different_integers == 0;
}

}  // namespace

// The rows of `moves` must have the same bits in both runs.
bool Sweep::rows_agree(const char* check_name, const RowRun& base, const RowRun& other,
                       const std::vector<RowMove>& moves, CellResult& cell) {
  for (const auto& [name, tensor] : base.answers) {
    const int axis = axes_.of(name);
    if (axis == kNoAxis || output(name).mixed_by_model) continue;
    const Tensor* there = find(other.answers, name);
    for (const RowMove& move : moves) {
      if (there && same_bits(take_row(tensor, axis, move.from), take_row(*there, axis, move.to)))
        continue;
      Recorder before, after;
      runner_.run(base.inputs, before);
      runner_.run(other.inputs, after);
      const RowPair pair{
          .row_a = move.from, .rows_a = base.rows, .row_b = move.to, .rows_b = other.rows};
      const std::string where = first_difference(plan_, before, after, pair);
      failed(check_name, Verdict::kNeighbours,
             fmt::format("row {} of output '{}' has other bits; the first step that differs is {}",
                         move.from, name, where.empty() ? "not one with rows of its own" : where),
             &cell);
      return false;
    }
  }
  passed(check_name);
  return true;
}

// Does the engine's range let one row run alone?
bool Sweep::runs_alone() const {
  const auto symbol = std::ranges::find(plan_.symbols, axes_.symbol, &plan::Symbol::name);
  return symbol != plan_.symbols.end() && symbol->min <= 1;
}

void Sweep::rows_alone(Group& group, const RowRun& batch, CellResult& cell) {
  if (!runs_alone() || batch.rows < 2) return;
  while (static_cast<int64_t>(group.alone.size()) < batch.rows)
    group.alone.push_back(runner_.run(group.rows[group.alone.size()]));
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto at = static_cast<size_t>(row);
    const RowRun alone{.inputs = group.rows[at], .answers = group.alone[at], .rows = 1};
    if (!rows_agree(check_names::kAlone, batch, alone, {{row, 0}}, cell)) return;
  }
}

// Does the model itself mix the rows of a fixed batch? R of them placed otherwise.
void Sweep::mark_mixed(const RowRun& base, const RowRun& other, const std::vector<RowMove>& moves) {
  const NamedValues before = reference_of(base.inputs), after = reference_of(other.inputs);
  for (const auto& named : before) {
    const std::string& name = named.first;
    const int axis = axes_.of(name);
    const bool same = axis != kNoAxis && std::ranges::all_of(moves, [&](const RowMove& move) {
                        return same_in_fp64(take_row(after.at(name), axis, move.to),
                                            take_row(named.second, axis, move.from));
                      });
    if (same || output(name).mixed_by_model) continue;
    output(name).mixed_by_model = true;
    report_.notes.push_back("output '" + name + "' mixes rows by the model itself: R of a row " +
                            "differs in another order or beside other rows");
  }
}

void Sweep::row_placements(Group& group, const RowRun& base, CellResult& cell) {
  const int64_t batch = base.rows;
  if (batch < 2 || !axes_.known()) return;
  std::vector<int64_t> reversed = first_rows(batch);
  std::reverse(reversed.begin(), reversed.end());
  const std::vector<int64_t> copies(static_cast<size_t>(batch), 0);
  std::vector<NamedTensors> poisoned;
  std::vector<RowMove> to_copies, to_reversed;
  for (int64_t r = 0; r < batch; ++r) {
    const NamedTensors& row = group.rows[static_cast<size_t>(r)];
    poisoned.push_back(r == 0 ? row : poisoned_row(row, domains_, axes_));
    to_copies.push_back({0, r});
    to_reversed.push_back({r, batch - 1 - r});
  }
  const auto run = [&](NamedTensors inputs) {
    NamedTensors answers = runner_.run(inputs);
    return RowRun{.inputs = std::move(inputs), .answers = std::move(answers), .rows = batch};
  };
  const RowRun turned = run(batch_of(group, reversed)), copied = run(batch_of(group, copies));
  if (axes_.fixed_rows > 1) {
    mark_mixed(base, turned, to_reversed);
    mark_mixed(base, copied, to_copies);
  }
  rows_agree(check_names::kPermuted, base, turned, to_reversed, cell);
  rows_agree(check_names::kDuplicated, base, copied, to_copies, cell);
  rows_agree(check_names::kPoisoned, base, run(join_rows(poisoned, axes_)), {{0, 0}}, cell);
}

// The input that marks padding along the length, or null.
const InputDomain* Sweep::padding_input() const {
  const InputDomain* found = nullptr;
  for (const InputDomain& domain : domains_.inputs) {
    const bool padded = domain.kind == InputDomain::Kind::kMask || domain.pad;
    const bool along = !domain.shape.empty() && domain.shape.back().as_symbol() == length_symbol_;
    if (padded && along && (!found || domain.kind == InputDomain::Kind::kMask)) found = &domain;
  }
  return found;
}

namespace {

// Valid positions of a right-padded row; 0 where it has a hole.
int64_t valid_length(const InputDomain& padding, const Tensor& marks) {
  const EvalTensor values = EvalTensor::from(marks);
  int64_t length = 0;
  for (int64_t i = 0; i < values.elems(); ++i) {
    const double v = values.value(i);
    const bool valid = padding.kind == InputDomain::Kind::kMask
                           ? v != 0
                           : v != static_cast<double>(padding.pad.value_or(-1));
    if (valid && i != length) return 0;
    length += valid;
  }
  return length;
}

// The axis that is as long as the rows are, or kNoAxis.
int axis_along(const SymShape& shape, const std::string& symbol) {
  const auto found =
      std::ranges::find_if(shape, [&](const Dim& d) { return d.as_symbol() == symbol; });
  return found == shape.end() ? kNoAxis : static_cast<int>(found - shape.begin());
}

// The first `length` elements along `axis`.
Tensor cut(const Tensor& t, int axis, int64_t length) {
  if (axis == kNoAxis) return t;
  BatchAxes along;
  along.axis["x"] = axis;
  std::vector<NamedTensors> positions;
  for (int64_t i = 0; i < length; ++i) positions.push_back({{"x", take_row(t, axis, i)}});
  return join_rows(positions, along)[0].second;
}

}  // namespace

// A right-padded row against itself without padding, where R says that padding does not matter.
void Sweep::own_length(Group& group, int64_t row) {
  const auto symbol = std::ranges::find(plan_.symbols, length_symbol_, &plan::Symbol::name);
  const InputDomain* padding = padding_input();
  if (!group.seeded || !padding || !runs_alone() || symbol == plan_.symbols.end() ||
      domains_.padding != PaddingSide::kRight)
    return;
  const NamedTensors& whole = group.rows[static_cast<size_t>(row)];
  const int64_t length = valid_length(*padding, *find(whole, padding->name));
  if (length == group.length || length < std::max<int64_t>(symbol->min, 1)) return;
  NamedTensors shorter;
  for (const InputDomain& domain : domains_.inputs) {
    const int axis = axis_along(domain.shape, length_symbol_);
    shorter.emplace_back(domain.name, cut(*find(whole, domain.name), axis, length));
  }
  const NamedValues reference = reference_of(shorter);
  const NamedTensors answers = runner_.run(shorter), padded = runner_.run(whole);
  while (static_cast<int64_t>(group.reference.size()) <= row)
    group.reference.push_back(reference_of(group.rows[group.reference.size()]));
  for (const auto& [name, want] : reference) {
    // Token-level outputs have other positions; where R differs, padding matters by the model.
    if (!want.is_float()) continue;
    if (!same_in_fp64(group.reference[static_cast<size_t>(row)].at(name), want)) continue;
    const Tensor *a = find(answers, name), *b = find(padded, name);
    if (!a || !b) continue;
    const std::string why = complaint(distance(EvalTensor::from(*a), EvalTensor::from(*b)),
                                      request_.tolerance, noise_limit(name));
    if (!why.empty()) {
      failed(check_names::kOwnLength, Verdict::kNeighbours,
             fmt::format("row {} of {}, output '{}': padding from length {} changes it: {}", row,
                         group.label, name, length, why),
             nullptr);
      continue;
    }
    passed(check_names::kOwnLength);
    Check& c = check(check_names::kOwnLength);
    if (c.failed > 0) continue;
    if (c.note.empty()) c.note = "same bits";
    if (!same_bits(*a, *b)) c.note = "within tolerance: another length adds in another order";
  }
}

}  // namespace vernier::verify
