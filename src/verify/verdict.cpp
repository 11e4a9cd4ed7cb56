// The verdicts' table: see vernier/verdict.h.
#include "vernier/verdict.h"

#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "vernier/error.h"

namespace vernier::verify {
namespace {

struct Row {
  Verdict verdict;
  std::string_view name, advice;
};
constexpr Row kRows[] = {
    {Verdict::kRewriteBug, "bug (rewrite)",
     "This is a bug in Vernier: a pass changed the meaning of the graph. Please report it with "
     "the model. Until it is fixed, build --fuse PASS=off leaves the pass out."},
    {Verdict::kUninitialisedRead, "bug (uninitialised read)",
     "This is a bug in Vernier: the answer depends on what the memory held before. Please report "
     "it."},
    {Verdict::kRace, "bug (race)",
     "This is a bug in Vernier: the answer depends on the threads. Please report it."},
    {Verdict::kBug, "bug",
     "This is a bug in Vernier: a kernel is wrong on its own inputs. Please report it."},
    {Verdict::kOverflow, "overflow",
     "The model's values leave the range of a type. Look at the range audit below, and give the "
     "step a type of wider range."},
    {Verdict::kNan, "nan",
     "An output is NaN or infinite on one side only. The explanation above says why, at which "
     "step it begins, and which rules raise what it comes from."},
    {Verdict::kNeighbours, "neighbours",
     "This is a bug in Vernier: a row's bits depend on the other rows of its batch. Please report "
     "it."},
    {Verdict::kPrecision, "precision",
     "Every step does what its types allow, but the answer is further from FP64 than the limits. "
     "The error growth below says which steps add most: raise their precision, or set --tolerance "
     "if the error is small enough for the use."},
    {Verdict::kReference, "reference",
     "The FP64 evaluation of the model is not what --expect holds: the model or the expected "
     "arrays are not what they are taken for."},
    {Verdict::kPass, "pass", "Nothing. verify --stamp writes this verdict into the engine file."},
};

const Row& row_of(Verdict verdict) {
  const auto* row = std::ranges::find(kRows, verdict, &Row::verdict);
  VERNIER_ASSERT(row != std::end(kRows), "a verdict of the table");
  return *row;
}

}  // namespace

std::string_view name(Verdict verdict) { return row_of(verdict).name; }
std::string_view advice(Verdict verdict) { return row_of(verdict).advice; }
int exit_code(Verdict verdict) {
  return verdict == Verdict::kPass ? 0 : static_cast<int>(ErrorCode::kCheckFailed);
}

}  // namespace vernier::verify
