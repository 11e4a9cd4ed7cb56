// What is checked of a kernel row on a case, and the tests of case tables: see harness.h.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backend/device_under_test.h"
#include "core/elementwise_program.h"

namespace vernier::backend::test {
namespace {

constexpr float kInf = HUGE_VALF;

bool is_16_bits(DType t) { return t == DType::kF16 || t == DType::kBF16; }

Tensor with_element(const Tensor& t, int64_t index, float value) {
  std::vector<std::byte> bytes(t.data(), t.data() + t.bytes());
  store_float(t.dtype(), value, bytes.data() + static_cast<size_t>(index) * size_bytes(t.dtype()));
  return Tensor::from_bytes(t.dtype(), t.shape(), bytes);
}

// One variant of a case: as written, in 16 bits, or in several types.
enum class Storage : uint8_t { kAsWritten, kSixteenBits, kMixed };

// A few rows of a large case, with their answers; of another case all of it.
class Sample {
 public:
  explicit Sample(const OpCase& c) {
    const int64_t batch = c.checks == Checks::kSampled ? batch_of(c) : 0;
    for (int64_t row : {int64_t{0}, batch / 2, batch - 2, batch - 1}) {
      if (row >= 0 && row < batch && (rows_.empty() || row > rows_.back())) rows_.push_back(row);
    }
  }
  OpCase part(const OpCase& c) const { return rows_.empty() ? c : with_rows(c, rows_); }
  Results part(const OpCase& c, const Results& all) const {
    if (rows_.empty()) return all;
    Results some;
    for (size_t o = 0; o < all.size(); ++o)
      some.push_back(all[o].defined() ? pick(all[o], c.outputs[o].batch_axis, rows_) : Tensor());
    return some;
  }

 private:
  std::vector<int64_t> rows_;  // empty: all
};

std::string check_values(const KernelDef& kernel, const OpCase& c, const Results& got) {
  const Sample sample(c);
  const OpCase part = sample.part(c);
  return compare(part, sample.part(c, got), expected_of(kernel, part));
}

void check_rows_alone(const KernelDef& kernel, const OpCase& c, const Results& together) {
  const int64_t batch = batch_of(c);
  if (batch < 2) return;
  for (int64_t r : {int64_t{0}, batch / 2, batch - 1}) {
    const Results alone = run_kernel(kernel, with_rows(c, std::array{r}), {});
    for (size_t o = 0; o < alone.size(); ++o) {
      if (!alone[o].defined() || c.outputs[o].batch_axis < 0) continue;
      EXPECT_EQ(compare_bits(slice(together[o], c.outputs[o].batch_axis, r), alone[o]), "")
          << kernel.name << " " << c.name << ": row " << r << " alone differs from in its batch";
    }
  }
}

// `values`: what stands at the first, middle and last element of each float input in turn. In 16
// bits, where the same code computes, the first of them only, and all in the middle; in a large
// array NaN in the middle.
void check_special_values(const KernelDef& kernel, const OpCase& c, std::span<const float> values) {
  const bool large = c.checks == Checks::kSampled;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& original = c.inputs[i].value;
    const bool half = is_16_bits(original.dtype());
    if (!c.inputs[i].special || original.elems() == 0) continue;
    if (original.dtype() != DType::kF32 && !half) continue;
    const int64_t middle = original.elems() / 2;
    for (int64_t at : {int64_t{0}, middle, original.elems() - 1}) {
      if (large && at != middle) continue;
      for (float value : large || (half && at != middle) ? values.first(1) : values) {
        OpCase poisoned = c;
        // q, k, scores by relative position
        const bool in_scores = c.op == OpKind::kAttention && (i < 2 || i == 10 || i == 11);
        if (in_scores && std::isfinite(value))
          poisoned.ulps += device_under_test().attention_slack(value);
        poisoned.inputs[i].value = with_element(original, at, value);
        EXPECT_EQ(check_values(kernel, poisoned, run_kernel(kernel, poisoned, {})), "")
            << kernel.name << " " << c.name << ": input " << i << " element " << at << " = "
            << value;
      }
    }
  }
}

std::string way_text(const RunOptions& options) {
  if (options.way == Way::kTwice) return "the second launch differs";
  if (options.way == Way::kGraph) return "in a CUDA graph it differs";
  if (options.backwards) return "from the last row to the first it differs";
  return std::to_string(options.threads) + " threads differ";
}

// Inputs at addresses that are multiples of their elements only: where the device has one set of
// bits for all addresses, check_other_ways() covers them.
void check_odd_addresses(const KernelDef& kernel, const OpCase& c) {
  if (device_under_test().address_unit() == 1) return;
  EXPECT_EQ(check_values(kernel, c, run_kernel(kernel, c, {.odd_inputs = true})), "")
      << "inputs at odd addresses";
}

void check_other_ways(const KernelDef& kernel, const OpCase& c, const Results& one) {
  const auto same = [&](const RunOptions& options, const std::string& what) {
    const Results other = run_kernel(kernel, c, options);
    for (size_t o = 0; o < one.size(); ++o) {
      if (one[o].defined()) {
        EXPECT_EQ(compare_bits(one[o], other[o]), "") << what << ", output " << o;
      }
    }
  };
  for (const RunOptions& options : device_under_test().other_ways()) {
    // Operators that the host computes are in no recording.
    const bool recorded = options.way == Way::kGraph;
    if (!recorded || (flags(c.op) & kDataDependent) == 0) same(options, way_text(options));
  }
  same({.strided = true}, "inputs elsewhere in memory differ");
}

void check_row(const KernelDef& kernel, const OpCase& c, Storage storage) {
  const OpCase part = Sample(c).part(c);
  const Expected want = expected_of(kernel, part);
  device_under_test().for_each_target([&](const std::string& target, bool best) {
    SCOPED_TRACE(std::string(kernel.name) + " " + c.name + " on " + target);
    const Results one = run_kernel(kernel, c, {});
    EXPECT_EQ(compare(part, Sample(c).part(c, one), want), "");
    if (storage == Storage::kMixed || (storage == Storage::kSixteenBits && !best)) return;
    check_other_ways(kernel, c, one);
    check_odd_addresses(kernel, c);
    if (c.checks == Checks::kValues) return;
    check_rows_alone(kernel, c, one);
    // The largest number of f16; f32 holds sums of its squares, not of bf16's largest.
    constexpr std::array<float, 5> kSpecial{NAN, kInf, -kInf, 65504, -65504};
    // Infinities on the best instruction sets only: the others differ in how NaN gets lost.
    const size_t count = storage == Storage::kSixteenBits ? 5 : best ? 3 : 1;
    check_special_values(kernel, c, std::span(kSpecial).first(count));
  });
}

// Anything that stored_as() would store otherwise?
bool has_f32(const OpCase& c) {
  return std::ranges::any_of(
             c.inputs,
             [](const Arg& a) { return a.value.dtype() == DType::kF32 && !a.stays_f32; }) ||
         std::ranges::any_of(c.outputs, [](const Out& o) { return o.dtype == DType::kF32; });
}

// Why no row of the operator takes the case, as the last of them says it.
std::string refusal(const OpCase& c) {
  std::string reason = "it has none";
  for (const KernelDef& kernel : device_under_test().backend().kernels) {
    if (kernel.op != c.op || kernel.name.ends_with(".evaluator")) continue;
    const Support support = kernel.supports(make_problem(c));
    reason = std::string(kernel.name) + ": " + support.reason;
  }
  return reason;
}

// Cases without a row, counted by operator and stored type, until their table is done.
class Skipped {
 public:
  void note(const OpCase& c, const std::string& stored) {
    Kind& kind = kinds_[std::string(name(c.op)) + stored];
    if (kind.count++ == 0) kind.example = c.name + ": " + refusal(c);
  }
  void print_and_clear() {
    for (const auto& [what, kind] : kinds_)
      std::printf("SKIP %s: no row for %d cases, as for %s\n", what.c_str(), kind.count,
                  kind.example.c_str());
    kinds_.clear();
  }

 private:
  struct Kind {
    int count = 0;
    std::string example;
  };
  std::map<std::string, Kind> kinds_;
};
Skipped& skipped() {
  static Skipped all;
  return all;
}

void check_stored(const OpCase& c, Storage storage, const std::string& text) {
  const std::vector<const KernelDef*> rows = rows_of(c);
  device_under_test().expect_rows(c, rows.size());
  if (rows.empty()) skipped().note(c, text);
  for (const KernelDef* kernel : rows) {
    if (is_float(c.outputs[0].dtype)) {
      EXPECT_EQ(kernel->numerics(make_problem(c)).store, c.outputs[0].dtype)
          << kernel->name << " " << c.name;
    }
    check_row(*kernel, c, storage);
  }
}

// The same case in 16 bits. A Cast says itself what it gives.
void check_16_bits(const OpCase& c) {
  if (!has_f32(c) || c.op == OpKind::kCast) return;
  constexpr DType kMixed[]{DType::kF16, DType::kBF16, DType::kF32};
  check_stored(stored_as(c, std::array{DType::kF16}), Storage::kSixteenBits, " in f16");
  check_stored(stored_as(c, std::array{DType::kBF16}), Storage::kSixteenBits, " in bf16");
  check_stored(stored_as(c, kMixed), Storage::kMixed, " in mixed types");
}

// The same case where more, or less, precision is asked of a product, if a row then declares
// something else.
void check_requests(const OpCase& c) {
  if ((flags(c.op) & kProduct) == 0) return;
  std::vector<std::pair<const KernelDef*, DType>> seen;
  const auto is_new = [&](const KernelDef* kernel, const OpCase& asked) {
    const std::pair key{kernel, kernel->numerics(make_problem(asked)).compute};
    if (std::ranges::find(seen, key) != seen.end()) return false;
    seen.push_back(key);
    return true;
  };
  for (const KernelDef* kernel : rows_of(c)) is_new(kernel, c);
  for (const Request& request : device_under_test().requests()) {
    OpCase asked = c;
    asked.asked = request;
    asked.name += " asked for " + request_text(request);
    for (const KernelDef* kernel : rows_of(asked)) {
      if (is_new(kernel, asked)) check_row(*kernel, asked, Storage::kAsWritten);
    }
  }
}

// With bare arrays: values of the first few cases of each row that are neither tiny nor large.
int check_bare(const OpCase& c) {
  constexpr int kCasesPerRow = 4;
  constexpr int64_t kFewest = 24, kMost = 40'000;
  static std::map<std::string_view, int> done;
  int64_t elems = 0;
  for (const Arg& arg : c.inputs) elems += arg.value.elems();
  const std::vector<const KernelDef*> rows = rows_of(c);
  if (elems < kFewest || elems > kMost) return static_cast<int>(rows.size());
  for (const KernelDef* kernel : rows) {
    if (done[kernel->name]++ >= kCasesPerRow) continue;
    EXPECT_EQ(check_values(*kernel, c, run_kernel(*kernel, c, {})), "") << kernel->name << c.name;
    run_kernel(*kernel, c, {.strided = true});
    OpCase half = stored_as(c, std::array{DType::kF16});
    for (const KernelDef* other : rows_of(half)) run_kernel(*other, half, {});
  }
  return static_cast<int>(rows.size());
}

// The type that a chain gives on the case's inputs.
DType chain_type(const OpCase& c) {
  std::vector<DType> types;
  for (const Arg& arg : c.inputs) types.push_back(arg.value.dtype());
  const std::string text = decode<FusedElementwiseAttrs>(c.attrs).program;
  for (const Instruction& instruction : parse_elementwise_program(text, types.size())) {
    std::vector<DType> operands;
    for (int v : instruction.operands) operands.push_back(types[static_cast<size_t>(v)]);
    types.push_back(result_type(instruction, operands));
  }
  return types.back();
}

}  // namespace

OpCase stored_as(const OpCase& c, std::span<const DType> types) {
  OpCase stored = c;
  size_t next = 0;
  for (Arg& arg : stored.inputs) {
    if (arg.value.dtype() != DType::kF32 || arg.stays_f32) continue;
    std::vector<double> values;
    for (int64_t i = 0; i < arg.value.elems(); ++i) values.push_back(arg.value.float_at(i));
    arg.value = Tensor::from(types[next++ % types.size()], arg.value.shape(),
                             std::span<const double>(values));
    stored.name += " " + std::string(name(arg.value.dtype()));
  }
  for (Out& out : stored.outputs) {
    if (out.dtype != DType::kF32) continue;
    out.dtype = types[next++ % types.size()];
    if (c.op == OpKind::kFusedElementwise) out.dtype = chain_type(stored);
    stored.name += " to " + std::string(name(out.dtype));
  }
  return stored;
}

int check_case(const OpCase& c) {
  if (device_under_test().bare()) return check_bare(c);
  const std::vector<const KernelDef*> rows = rows_of(c);
  for (const KernelDef* kernel : rows) check_row(*kernel, c, Storage::kAsWritten);
  if (rows.empty()) return 0;
  check_requests(c);
  check_16_bits(c);
  return static_cast<int>(rows.size());
}

namespace {

class CasesTest : public ::testing::Test {
 public:
  explicit CasesTest(std::vector<OpCase> (*make)()) : make_(make) {}
  void SetUp() override {
    if (const Support here = device_under_test().available(); !here)
      GTEST_SKIP() << "SKIP: " << here.reason;
  }
  void TestBody() override { check_cases(make_()); }

 private:
  std::vector<OpCase> (*make_)();
};

}  // namespace

void check_cases(const std::vector<OpCase>& cases) {
  DeviceUnderTest& tested = device_under_test();
  for (const OpCase& c : cases) {
    if (!tested.takes(c)) continue;
    try {
      const int rows = check_case(c);
      tested.expect_rows(c, static_cast<size_t>(rows));
      if (rows == 0) skipped().note(c, "");
    } catch (const Error& error) {
      // Sizes beyond a GPU kernel's 32-bit arithmetic.
      if (std::string_view(error.what()).find("CUDA kernel takes up to") !=
          std::string_view::npos) {
        skipped().note(c, " (sizes beyond its kernels)");
        continue;
      }
      ADD_FAILURE() << name(c.op) << " " << c.name << ": " << error.what();
      // A device that an illegal access broke fails here too: nothing more can be learnt from it.
      Device& device = tested.device(1);
      device.synchronise(device.execution().stream);
    }
  }
  skipped().print_and_clear();
}

Cases::Cases([[maybe_unused]] const char* table, [[maybe_unused]] std::vector<OpCase> (*make)()) {
#ifndef __clang_analyzer__  // which takes what googletest keeps for a leak
  ::testing::RegisterTest("Cases", table, nullptr, nullptr, __FILE__, __LINE__,
                          [make]() -> ::testing::Test* { return new CasesTest(make); });
#endif
}

}  // namespace vernier::backend::test
