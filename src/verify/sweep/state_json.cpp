// SweepState as CBOR: see state_json.h. The fields of each type are listed once, for both
// directions.
#include "verify/sweep/state_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace vernier {
// By name: a number that nobody knows is no type.
static void to_json(nlohmann::json& json, DType type) { json = name(type); }
static void from_json(const nlohmann::json& json, DType& type) {
  const auto text = json.get<std::string>();
  const std::optional<DType> found = parse_dtype(text);
  type = found.value_or(DType::kUndefined);
  if (!found && text != name(DType::kUndefined))
    throw Error(ErrorCode::kInput, "'" + text + "' is no type");
}
}  // namespace vernier

namespace vernier::verify {

using nlohmann::json;

static void to_json(json& j, Verdict verdict) { j = name(verdict); }
static void from_json(const json& j, Verdict& verdict) {
  verdict = verdict_named(j.get<std::string>());
}

// NOLINTBEGIN(misc-use-internal-linkage): the library finds them by their arguments
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Distance, max_abs, mean_abs, p99_abs, max_rel, rms,
                                   rms_reference, max_ulp, cosine, snr_db, worst, worst_index,
                                   worst_row, elems, wrong_non_finite, different_integers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RowMetrics, row, distance, rankings, top1_changes, top5_changes,
                                   least_correlation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StepResult, step, kernel, name, passed, why, error, limit, ratio,
                                   rms_ratio, inside_factor, elems, overflowed, overflow_value,
                                   overflow_type, non_finite, declared, declared_limit)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckResult, name, done, failed, note)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CellResult, label, batch, length, sizes, verdict, why, worst,
                                   share_of_limit, far, given, named_sizes)
// Its other fields are filled when all cells are done.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OutputResult, name, why, verdict, worst, worst_cell, largest_abs,
                                   least_cosine, mixed_by_model, rows, rankings, top1_changes,
                                   top5_changes, least_correlation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ValueResult, name, step, kernel, step_name, distance, passed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cause, cell, step, kernel, node, value, reason, rules, command)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Cost, what, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Report, verdict, explanation, cause, cells, outputs, checks,
                                   rewrites, steps, compared_values, costs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pool, error, reference, elems, noise, exact, noise_max,
                                   noise_elems)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProjectionReach, products, sampled, left_out, element, factor,
                                   share, sampled_element)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgainstOlder::OutputChange, name, equal_cells, first_cell, rms,
                                   worst, wrong_non_finite, different_integers, rankings,
                                   top1_changes, top5_changes, least_correlation)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AgainstOlder, file, engine_hash, cells, outputs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OlderEngine::Sums, error, older, elems)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OlderEngine::State, all, sums)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlsoJudged::Error, rms, worst, wrong_non_finite,
                                   different_integers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlsoJudged::Output, name, rms_reference, engine, other)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AlsoJudged, name, version, cells, answered, refused, outputs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SecondJudge::Sums, engine, other)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SecondJudge::State, all, sums)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Scores, rows, n, width, values)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TaskScores::State, engine, reference)
// NOLINTEND(misc-use-internal-linkage)

namespace {

// A part that is there only where the request asks for it.
template <class Part>
void add(json& state, const char* name, const std::optional<Part>& part) {
  if (part) state[name] = *part;
}
template <class Part>
void take(const json& state, const char* name, std::optional<Part>& part) {
  if (state.contains(name)) part = state.at(name).get<Part>();
}

}  // namespace

std::vector<uint8_t> to_cbor(const SweepState& state) {
  json all{{"units", state.units},
           {"of", state.of},
           {"far_work", state.far_work},
           {"cells", state.cells},
           {"report", state.report},
           {"pools", state.pools},
           {"reach", state.reach},
           {"ties", state.ties},
           {"ties_of_rewrites", state.ties_of_rewrites},
           {"mixed", state.mixed},
           {"notes", state.notes},
           {"seen_alone", state.seen_alone}};
  add(all, "older", state.older);
  add(all, "second", state.second);
  add(all, "task", state.task);
  return json::to_cbor(all);
}

SweepState state_of_cbor(std::span<const uint8_t> bytes) {
  SweepState state;
  try {
    const json all = json::from_cbor(bytes.begin(), bytes.end());
    all.at("units").get_to(state.units);
    all.at("of").get_to(state.of);
    all.at("far_work").get_to(state.far_work);
    all.at("cells").get_to(state.cells);
    all.at("report").get_to(state.report);
    all.at("pools").get_to(state.pools);
    all.at("reach").get_to(state.reach);
    all.at("ties").get_to(state.ties);
    all.at("ties_of_rewrites").get_to(state.ties_of_rewrites);
    all.at("mixed").get_to(state.mixed);
    all.at("notes").get_to(state.notes);
    all.at("seen_alone").get_to(state.seen_alone);
    take(all, "older", state.older);
    take(all, "second", state.second);
    take(all, "task", state.task);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInput, fmt::format("no state of a verification ({})", error.what()));
  }
  return state;
}

}  // namespace vernier::verify
