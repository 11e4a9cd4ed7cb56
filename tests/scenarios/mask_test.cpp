// Field case 4: masks that a 16-bit type cannot hold. DeBERTa's and a cached GPT-2's masks, and
// every spelling of a padding mask with every usual fill, in every mode: no NaN where FP64 has
// none, and the verdict is pass, with padded rows and a row that is all padding.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "cli/program.h"
#include "io/npz.h"
#include "runtime/engine_impl.h"
#include "scenarios/build.h"
#include "scenarios/mask_models.h"
#include "verify/bisect.h"
#include "verify/non_finite.h"

namespace vernier::verify::field {
namespace {

constexpr double kLowest = std::numeric_limits<float>::lowest();

Report verify_bytes(const std::string& bytes, const Policy& policy, const NamedTensors& inputs) {
  const std::shared_ptr<ir::Graph> model = onnx::import_bytes(bytes);
  Request request;
  request.inputs = {{"masked rows", inputs}};
  return verify_policy(*model, policy, request);
}

bool is_finite(const Report& report) {
  return std::ranges::all_of(report.outputs,
                             [](const OutputResult& o) { return o.worst.wrong_non_finite == 0; });
}

class Masks : public ::testing::TestWithParam<const char*> {
 protected:
  Policy policy() const { return {.mode = GetParam()}; }
  void expect_pass(const std::string& bytes, const NamedTensors& inputs) {
    const Report report = verify_bytes(bytes, policy(), inputs);
    EXPECT_EQ(report.verdict, "pass") << to_text(report);
    EXPECT_TRUE(is_finite(report)) << to_text(report);
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, Masks, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

TEST_P(Masks, OfDebertaHidePairsOfPositions) {
  for (const DebertaMask mask : {DebertaMask::kMaskedFill, DebertaMask::kXSoftmax}) {
    SCOPED_TRACE(mask == DebertaMask::kMaskedFill ? "masked_fill" : "XSoftmax");
    const std::string bytes = deberta_bytes(mask);
    expect_pass(bytes, deberta_inputs({7, 3, 1, 0}));
    expect_pass(deberta_bytes(mask, DebertaOutput::kProbabilities), deberta_inputs({7, 3, 1, 0}));
    const plan::Plan plan = plan_of(*onnx::import_bytes(bytes), policy());
    const auto is = [](OpKind op) { return [op](const plan::Step& s) { return s.op == op; }; };
    EXPECT_EQ(std::ranges::count_if(plan.steps, is(OpKind::kAttention)), 2);
    EXPECT_EQ(std::ranges::count_if(plan.steps, is(OpKind::kGatherElements)), 0);
    const plan::Plan split =
        plan_of(*onnx::import_bytes(bytes), {.mode = policy().mode, .passes_off = {"attention"}});
    EXPECT_EQ(std::ranges::count_if(split.steps, is(OpKind::kGatherElements)), 4);
  }
}

TEST_P(Masks, OfDebertaWithHeadsOf64) {
  const std::string bytes = deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kFirstToken, 64);
  expect_pass(bytes, deberta_inputs({7, 3, 1, 0}));
}

// Products of queries and keys with positions are computed with the attention behind them: on
// Hopper inside it, on a CPU in FP32 those that it reads. Watched runs launch both steps: the test
// above compares the bits.
TEST(MaskedPositions, AreComputedWithTheAttention) {
  const std::string bytes = deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kFirstToken, 64);
  int products = 0;
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const auto engine = engine_of(plan_of(*onnx::import_bytes(bytes), {.mode = mode}));
    const Engine::Impl& impl = engine->impl();
    for (size_t s = 0; s < impl.plan.steps.size(); ++s) {
      const plan::Step& step = impl.plan.steps[s];
      if (step.kernel != "cuda.mat_mul.heads" && step.kernel != "cpu.mat_mul.packed") continue;
      ++products;
      EXPECT_EQ(impl.joins[s], runtime::Joins::kAlone) << step.name;
      EXPECT_EQ(impl.plan.steps[s + 1].op, OpKind::kAttention);
    }
  }
  if (products == 0) GTEST_SKIP() << "SKIP: this device has no kernel that joins the attention";
  EXPECT_GE(products, 2);
}

TEST_P(Masks, OfACachedGpt2HideSomeKeysTwice) {
  expect_pass(cached_gpt2_bytes(), cached_gpt2_inputs({0, 1, 4, 7}));
}

constexpr Spelling kSpellings[] = {
    Spelling::kWhereFill, Spelling::kMaskedFill, Spelling::kAdditive, Spelling::kAdditiveWhere,
    Spelling::kExpanded,  Spelling::kTwice,      Spelling::kMaximum,  Spelling::kWithBias};

// Does F hide a score so that nothing of it is left, in FP64 and in f32? What is left in FP64 of a
// row that is all padding, beside -1e9, f32 cannot hold.
bool absorbs(double fill) { return fill <= -1e30; }

TEST_P(Masks, InEverySpelling) {
  for (const Spelling spelling : kSpellings) {
    for (const double fill : {kLowest, -3.3895e38, -1e30, -1e9, -65504.0, -1e4}) {
      for (const auto probabilities : {Probabilities::kInside, Probabilities::kShown}) {
        SCOPED_TRACE(std::string(kSpellingNames[static_cast<size_t>(spelling)]) + ", fill " +
                     std::to_string(fill) +
                     (probabilities == Probabilities::kShown ? ", probabilities shown" : ""));
        const std::string bytes = masked_attention_bytes(spelling, fill, probabilities);
        expect_pass(bytes, masked_attention_inputs({6, 1, 3}));
        const bool beyond_f32 = spelling == Spelling::kTwice && 2 * fill < kLowest;
        if (absorbs(fill) && !beyond_f32) expect_pass(bytes, masked_attention_inputs({6, 0, 1}));
        if (absorbs(fill)) continue;
        EXPECT_TRUE(is_finite(verify_bytes(bytes, policy(), masked_attention_inputs({6, 0, 1}))));
      }
    }
  }
}

// True infinities are infinite in every type: nothing is raised for them, and a row that is all
// padding is NaN where the model says so.
TEST_P(Masks, OfTrueInfinitiesAreTheModelsOwn) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const Spelling spelling :
       {Spelling::kWhereFill, Spelling::kMaskedFill, Spelling::kAdditiveWhere}) {
    for (const auto probabilities : {Probabilities::kInside, Probabilities::kShown}) {
      SCOPED_TRACE(kSpellingNames[static_cast<size_t>(spelling)]);
      const std::string bytes = masked_attention_bytes(spelling, -kInfinity, probabilities);
      expect_pass(bytes, masked_attention_inputs({6, 1, 3}));
      expect_pass(bytes, masked_attention_inputs({6, 0, 1}));
      const auto model = onnx::import_bytes(bytes);
      for (const std::string& note : plan_of(*model, policy()).notes)
        EXPECT_EQ(note.find("range audit"), std::string::npos) << note;
    }
  }
}

// What is known of the constants is done before any data are seen, with a note and a reason.
TEST(MaskLedger, NamesTheNodesThatAreKeptInF32) {
  for (const char* mode : {"fp16", "bf16"}) {
    const auto model =
        onnx::import_bytes(deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kProbabilities));
    const plan::Plan plan = plan_of(*model, {.mode = mode});
    size_t rows = 0, notes = 0;
    for (const plan::LedgerRow& row : plan.ledger) {
      if (!row.asked.by.starts_with("range audit of constants (over mode")) continue;
      EXPECT_EQ(row.asked.store.type, DType::kF32) << row.node;
      ++rows;
    }
    for (const std::string& note : plan.notes) {
      notes += note.starts_with("range audit of constants: node '/encoder/layer.0/Where") &&
               note.find("--rule 'name:/encoder/layer.0/Where") != std::string::npos &&
               note.find("3.40282e+38") != std::string::npos;
    }
    EXPECT_GE(rows, 2U) << mode;
    EXPECT_EQ(notes, 1U) << mode;
  }
}

// Who insists on 16 bits gets them, and verify says what became of it: the node, the value, why,
// and rules that mend it. Localise and bisect name the same node.
TEST(MaskVerdict, NamesNodeValueReasonAndRule) {
  const auto model =
      onnx::import_bytes(deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kProbabilities));
  for (const char* type : {"f16", "bf16"}) {
    const Policy policy{.mode = type == std::string("f16") ? "fp16" : "bf16",
                        .rules = {std::string("op:Where store==") + type}};
    Request request;
    request.inputs = {{"padded", deberta_inputs({7, 3, 0})}};
    request.localise = true;
    const Report report = verify_policy(*model, policy, request);
    EXPECT_EQ(report.verdict, "overflow") << to_text(report);
    for (const char* part : {"/encoder/layer.0/Where", "-3.40282e+38", type, "--rule"})
      EXPECT_NE(report.explanation.find(part), std::string::npos) << report.explanation;
    ASSERT_TRUE(report.localisation);
    const StepError& first =
        report.localisation->steps.at(static_cast<size_t>(report.localisation->first_non_finite));
    EXPECT_NE(report.explanation.find("'" + first.name + "'"), std::string::npos)
        << report.explanation;
    for (const char* part : {"max 0", "max 1", "max 2", "max 3"})
      EXPECT_EQ(to_text(report).find(part), std::string::npos) << to_text(report);
    // The rules that it names, behind the others.
    Policy fixed = policy;
    std::string rest = report.explanation;
    for (size_t at; (at = rest.find("--rule '")) != std::string::npos;) {
      rest = rest.substr(at + 8);
      fixed.rules.push_back(rest.substr(0, rest.find('\'')));
    }
    ASSERT_GT(fixed.rules.size(), policy.rules.size());
    const Bisection bisection = bisect_engine(engine_of(plan_of(*model, policy)), *model, request);
    ASSERT_FALSE(bisection.nodes.empty());
    EXPECT_NE(report.explanation.find("name:" + bisection.nodes.front().node), std::string::npos)
        << report.explanation << "\n"
        << to_text(bisection);
    EXPECT_EQ(verify_policy(*model, fixed, request).verdict, "pass");
  }
}

// `vernier run`: a warning that names the node, with --check an error; silent where all is finite.
TEST(MaskedRun, WarnsOfNaNAndWhereItBegins) {
  const test::TemporaryFolder folder;
  const std::string model = folder / "deberta.onnx", engine = folder / "deberta.vn",
                    inputs = folder / "in.npz", outputs = folder / "out.npz";
  const std::string bytes = deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kProbabilities);
  std::ofstream(model, std::ios::binary) << bytes;
  io::write_npz(inputs, deberta_inputs({7, 3, 0}));
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"run", engine, "--inputs", inputs, "-o", outputs};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return test::run_program(arguments);
  };
  ASSERT_EQ(test::run_program({"build", model, "-o", engine, "--fp16"}).code, 0);
  test::Outcome outcome = run({"--check"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::filesystem::remove(outputs);
  const std::vector<std::string> insists{
      "build", model, "-o", engine, "--fp16", "--rule", "op:Where store==f16"};
  ASSERT_EQ(test::run_program(insists).code, 0);
  outcome = run({"--check"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(outputs));
  const auto expect_named = [&](const std::string& kind) {
    EXPECT_EQ(outcome.err.find("vernier: " + kind), 0U) << outcome.err;
    for (const char* part :
         {"outputs 'last_hidden_state', 'attentions.0'", "'/encoder/layer.0/Where')",
          "is the first to make it of finite inputs", "makes NaN of that", "vernier verify"})
      EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  expect_named("error: --check: ");
  outcome = run({});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(outputs));
  expect_named("warning: ");
}

// The card at the head of the report has all that a reader needs, and its command mends the engine;
// no number is shown where NaN stands, and the curve ends there.
TEST(MaskedReport, SaysAtItsHeadWhatMendsIt) {
  const test::TemporaryFolder folder;
  const std::string model = folder / "model.onnx", engine = folder / "model.vn",
                    page_file = folder / "report.html";
  std::ofstream(model) << deberta_bytes(DebertaMask::kMaskedFill, DebertaOutput::kProbabilities);
  ASSERT_EQ(
      test::run_program({"build", model, "-o", engine, "--fp16", "--rule", "op:Where store==f16"})
          .code,
      0);
  Request request;
  request.model = model;
  request.engine = engine;
  request.batches = {2};
  request.lengths = {4};
  request.threads = 2;
  request.localise = true;
  request.html = page_file;
  const Report report = verify(request);
  EXPECT_EQ(report.verdict, "overflow") << to_text(report);
  const Cause& cause = report.cause;
  EXPECT_EQ(cause.node, "/encoder/layer.0/Where");
  EXPECT_EQ(cause.kernel, "cpu.where.loop");
  EXPECT_EQ(cause.cell, "batch 2, length 4");
  EXPECT_EQ(cause.value, "-3.40282e+38, and f16 holds at most 65504");
  EXPECT_EQ(cause.rules, (std::vector<std::string>{"name:/encoder/layer.0/Where store=f32",
                                                   "name:/encoder/layer.1/Where store=f32"}));
  EXPECT_EQ(cause.reason.find("--rule"), std::string::npos) << cause.reason;
  const std::string page = test::read_file(page_file);
  const size_t card = page.find("<section id=\"verdict\""),
               facts = page.find("<section id=\"facts\"");
  ASSERT_LT(card, facts);
  const std::string head = page.substr(card, facts - card);
  for (const char* part :
       {"✗ overflow", "layer.0/<wbr>Where", "holds at most 65504", "batch 2, length 4",
        "name:/encoder/layer.1/Where store=f32", "class=\"command\""})
    EXPECT_NE(head.find(part), std::string::npos) << part;
  // The command, as a shell takes it.
  std::string command = cause.command;
  const std::string program = VERNIER_PROGRAM;
  for (size_t at = command.find("vernier "); at != std::string::npos;
       at = command.find("vernier ", at + program.size()))
    command.replace(at, 7, program);
  EXPECT_NE(cause.command.find("--rule 'op:Where store==f16' --rule 'name:/enc"), std::string::npos)
      << "the engine's own rules first: " << cause.command;
  EXPECT_EQ(test::run_command("/bin/sh", {"-c", command + " --batches 2 --lengths 4"}).code, 0)
      << command;
  // Errors of what is left beside NaN are not shown.
  const auto& found = *report.localisation;
  ASSERT_GE(found.first_non_finite, 0);
  EXPECT_FALSE(found.has_shares());
  const std::string growth =
      page.substr(page.find("<section id=\"growth\""),
                  page.find("<section id=\"precision\"") - page.find("<section id=\"growth\""));
  EXPECT_NE(growth.find("class=\"band\""), std::string::npos);
  EXPECT_NE(growth.find("NaN or infinity begins in step "), std::string::npos);
  size_t drawn = 0, finite = 0;
  for (size_t at = growth.find("<circle class=\"dot-total\" cx"); at != std::string::npos;
       at = growth.find("<circle class=\"dot-total\" cx", at + 1))
    ++drawn;
  for (const StepError& step : found.steps)
    finite += step.says_it_all() && step.total_rms > 0 && step.reference_rms > 0;
  EXPECT_EQ(drawn, 2 * finite + 1) << "both charts, and the key";
  const std::string text = to_text(found);
  for (const StepError& step : found.steps) {
    if (step.says_it_all()) continue;
    EXPECT_NE(text.find("NaN       NaN       NaN"), std::string::npos) << text;
  }
}

// A true infinity of the model's own is named as such.
TEST(MaskedRun, SaysThatAConstantHoldsTheInfinity) {
  const auto model = onnx::import_bytes(masked_attention_bytes(
      Spelling::kWhereFill, -std::numeric_limits<double>::infinity(), Probabilities::kShown));
  Session session(engine_of(plan_of(*model, {})), {.threads = 1});
  const NamedTensors inputs = masked_attention_inputs({6, 0, 1});
  const std::string text =
      explain_non_finite(session, test::refs(inputs), std::vector<std::string>{"probs"});
  EXPECT_NE(text.find("is the first, of a constant of the model that holds it"), std::string::npos)
      << text;
}

}  // namespace
}  // namespace vernier::verify::field
