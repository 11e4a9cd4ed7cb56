// Does padding on the right matter? A right-padded row against itself without padding, where R says
// that it does not. Another length may add in another order, so that the limits of the answers
// hold; the report says whether the bits are equal, too.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "verify/checks/table.h"
#include "verify/sweep/again.h"
#include "verify/sweep/noise.h"
#include "verify/sweep/reference.h"
#include "verify/sweep/same_in_fp64.h"
#include "verify/tolerance.h"

namespace vernier::verify::checks {
namespace {

// The input that marks padding along the length, or null.
const InputDomain* padding_input(const Context& context) {
  const InputDomain* found = nullptr;
  for (const InputDomain& domain : context.inputs.domains.inputs) {
    const bool padded = domain.kind == InputDomain::Kind::kMask || domain.pad;
    const bool along =
        !domain.shape.empty() && domain.shape.back().as_symbol() == context.inputs.length_symbol;
    if (padded && along && (!found || domain.kind == InputDomain::Kind::kMask)) found = &domain;
  }
  return found;
}

const plan::Symbol* length_of(const Context& context) {
  const std::vector<plan::Symbol>& symbols = context.subject.plan.symbols;
  const auto symbol = std::ranges::find(symbols, context.inputs.length_symbol, &plan::Symbol::name);
  return symbol == symbols.end() ? nullptr : &*symbol;
}

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

std::string why_not(const Context& context) {
  if (!length_of(context)) return "no length varies";
  if (!runs_alone(context)) return "no row can run alone";
  if (!padding_input(context)) return "no input marks padding";
  if (context.inputs.domains.padding != PaddingSide::kRight) return "padding is on the left";
  return "";
}

// The row without its padding; empty where it has none, or a hole.
NamedTensors without_padding(const Context& context, const Group& group, const NamedTensors& row,
                             int64_t length) {
  NamedTensors shorter;
  if (length == group.length || length < std::max<int64_t>(length_of(context)->min, 1))
    return shorter;
  for (const InputDomain& domain : context.inputs.domains.inputs) {
    const int axis = axis_along(domain.shape, context.inputs.length_symbol);
    shorter.emplace_back(domain.name, cut(*find(row, domain.name), axis, length));
  }
  return shorter;
}

// R of a row with its padding.
const NamedValues& reference_of_row(const Context& context, Group& group, size_t row) {
  while (group.reference.size() <= row)
    group.reference.push_back(reference_of(context, group.rows[group.reference.size()]));
  return group.reference[row];
}

// R without padding is evaluated only where E's answers part: where they agree there is nothing to
// say, whether padding matters to the model or not.
void ask_row(Context& context, Group& group, size_t row, Findings& findings) {
  const NamedTensors& whole = group.rows[row];
  const InputDomain& padding = *padding_input(context);
  const int64_t length = valid_length(padding, *find(whole, padding.name));
  const NamedTensors shorter = without_padding(context, group, whole, length);
  if (shorter.empty()) return;
  const NamedTensors answers = context.runs.several.run(shorter);
  run_rows_alone(context, group, static_cast<int64_t>(row) + 1);
  std::optional<NamedValues> reference;
  for (const std::string& name : context.subject.model.output_names) {
    // Token-level outputs have other positions; where R differs, padding matters by the model.
    const Tensor *a = find(answers, name), *b = find(group.alone[row], name);
    if (!a || !b || !is_float(a->dtype()) || a->shape() != b->shape()) continue;
    const std::string why =
        complaint(distance(EvalTensor::from(*a), EvalTensor::from(*b)),
                  context.subject.request.tolerance, noise_limit(context, name));
    Finding finding;
    if (!why.empty()) {
      if (!reference) reference = reference_of(context, shorter);
      if (!same_in_fp64(reference_of_row(context, group, row).at(name), reference->at(name)))
        continue;
      finding = failure(Verdict::kNeighbours,
                        fmt::format("row {} of {}, output '{}': padding from length {} changes it: "
                                    "{}",
                                    row, group.label, name, length, why));
    } else if (!same_bits(*a, *b)) {
      finding.note = "within tolerance: another length adds in another order";
    }
    findings.push_back(std::move(finding));
  }
}

// Rows 1 to 3 of seeded inputs, which are padded.
Findings ask_own_length(Context& context, const FinishedGroup& finished) {
  Group& group = finished.group;
  Findings findings;
  if (!group.seeded) return findings;
  for (size_t row = 1; row < std::min<size_t>(4, group.rows.size()); ++row)
    ask_row(context, group, row, findings);
  return findings;
}

}  // namespace

constexpr Check own_length{.ask = &ask_own_length, .why_not = &why_not, .passed_note = "same bits"};

}  // namespace vernier::verify::checks
