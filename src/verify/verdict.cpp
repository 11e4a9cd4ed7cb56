// The verdicts' table: see vernier/verdict.h.
#include "vernier/verdict.h"

#include <cstddef>
#include <iterator>
#include <string>

#include "core/error.h"
#include "vernier/error.h"

namespace vernier::verify {
namespace {

// In the order of rank. The name is printed, and stands in JSON and in certificates.
struct Row {
  Verdict verdict;
  int exit_code;
  std::string_view name, advice;
};
constexpr int kFailed = static_cast<int>(ErrorCode::kCheckFailed);
constexpr Row kRows[] = {
    {Verdict::kConstant, kFailed, "bug (constant)",
     "A constant of the engine is not what it should be made of the model's: build the engine "
     "again. If that does not help, this is a bug in Vernier: please report it with the model."},
    {Verdict::kRewriteBug, kFailed, "bug (rewrite)",
     "This is a bug in Vernier: a pass changed the meaning of the graph. Please report it with "
     "the model. Until it is fixed, build --fuse PASS=off leaves the pass out."},
    {Verdict::kUninitialisedRead, kFailed, "bug (uninitialised read)",
     "This is a bug in Vernier: the answer depends on what the memory held before. Please report "
     "it."},
    {Verdict::kRace, kFailed, "bug (race)",
     "This is a bug in Vernier: the answer depends on the threads. Please report it."},
    {Verdict::kBug, kFailed, "bug",
     "This is a bug in Vernier: a kernel is wrong on its own inputs. Please report it."},
    {Verdict::kOverflow, kFailed, "overflow",
     "The model's values leave the range of a type. Look at the range audit below, and give the "
     "step a type of wider range."},
    {Verdict::kNan, kFailed, "nan",
     "An output is NaN or infinite on one side only. The explanation above says why, at which "
     "step it begins, and which rules raise what it comes from."},
    {Verdict::kNeighbours, kFailed, "neighbours",
     "This is a bug in Vernier: a row's bits depend on the other rows of its batch. Please report "
     "it."},
    {Verdict::kDeclared, kFailed, "declared error",
     "A kernel declares an error that nothing here proves to be small enough, so its steps were "
     "judged by its own word. Make the kernel declare less, or accept what it says: "
     "--accept-declared."},
    {Verdict::kPrecision, kFailed, "precision",
     "Every step does what its types allow, but the answer is further from FP64 than the limits. "
     "The error growth below says which steps add most: raise their precision, or set --tolerance "
     "if the error is small enough for the use."},
    {Verdict::kReference, kFailed, "reference",
     "The FP64 evaluation of the model is not what --expect holds: the model or the expected "
     "arrays are not what they are taken for."},
    {Verdict::kPass, 0, "pass",
     "Nothing. verify --stamp writes this verdict into the engine file."},
};

constexpr bool in_order_of_rank() {
  for (size_t i = 0; i < std::size(kRows); ++i) {
    if (static_cast<size_t>(kRows[i].verdict) != i) return false;
  }
  return std::size(kRows) == static_cast<size_t>(Verdict::kPass) + 1;
}
static_assert(in_order_of_rank(), "one row for each verdict, in the order of the enum");

const Row& row_of(Verdict verdict) {
  VERNIER_ASSERT(verdict <= Verdict::kPass, "a verdict of the table");
  return kRows[static_cast<size_t>(verdict)];
}

}  // namespace

std::string_view name(Verdict verdict) { return row_of(verdict).name; }
Verdict verdict_named(std::string_view text) {
  for (const Row& row : kRows) {
    if (row.name == text) return row.verdict;
  }
  throw Error(ErrorCode::kInput, "'" + std::string(text) + "' is no verdict");
}
std::string_view advice(Verdict verdict) { return row_of(verdict).advice; }
int exit_code(Verdict verdict) { return row_of(verdict).exit_code; }

}  // namespace vernier::verify
