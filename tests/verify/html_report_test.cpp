// The HTML report: names that look like HTML stay text, a section without data says what would fill
// it, and every verdict shows. What a browser makes of it: tests/dev/report_browser_test.py.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <limits>

#include "io/text_file.h"
#include "verify/html/report.h"
#include "verify/html/writer.h"

namespace vernier::verify {
namespace {

const std::string kNasty = "</script><img src=x onerror=\"a\"> & 'b'\nnext\x01\xff";
const std::string kNastyHtml =
    "&lt;/script&gt;&lt;img src=x onerror=&quot;a&quot;&gt; &amp; &#39;b&#39;\nnext\xEF\xBF\xBD"
    "\xEF\xBF\xBD";

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string without(std::string text, const std::string& part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

struct Sample {
  Report report;
  plan::Plan plan;

  // One step, with everything that has a name called kNasty.
  Sample() {
    plan::Step step;
    step.kernel = step.name = kNasty;
    plan.steps = {step};
    plan.model_name = plan.producer = plan.target = kNasty;
    plan.notes = {kNasty};
    plan::LedgerRow row;
    row.node = row.op = row.composite = row.kernel = row.why = row.asked.by = kNasty;
    row.asked.compute.type = row.got_compute = DType::kF32;
    row.step = 0;
    plan.ledger = {row};
    report.verdict = Verdict::kBug;
    report.explanation = kNasty;
    report.notes = {kNasty};
    report.cause = {.cell = kNasty,
                    .step = 0,
                    .kernel = kNasty,
                    .node = kNasty,
                    .value = kNasty,
                    .reason = kNasty,
                    .rules = {kNasty},
                    .command = "next " + without(kNasty, " ")};
    CellResult cell;
    cell.label = cell.why = kNasty;
    cell.verdict = Verdict::kBug;
    cell.batch = 4;
    report.cells = {cell};
    OutputResult output;
    output.name = output.why = output.worst_cell = kNasty;
    output.verdict = Verdict::kBug;
    report.outputs = {output};
    report.checks = {{.name = kNasty, .done = 2, .failed = 1, .note = kNasty}};
    StepResult replayed;
    replayed.kernel = replayed.name = replayed.why = kNasty;
    replayed.passed = false;
    replayed.ratio = std::numeric_limits<double>::infinity();
    report.steps = {replayed};
    ValueResult rewritten;
    rewritten.name = rewritten.kernel = rewritten.step_name = kNasty;
    report.rewrites = {rewritten};
    Localisation found;
    found.inputs = kNasty;
    StepError error;
    error.step = 0;
    error.name = error.kernel = kNasty;
    error.reference_rms = 1;
    error.total_rms = error.local_rms = 1e-7;
    error.share = 1;
    error.own_non_finite = error.non_finite = 3;
    found.steps = {error};
    found.first_non_finite = 0;
    found.ranges = {{0, kNasty, kNasty, kNasty, 7e4, DType::kF16, 65504}};
    report.localisation = found;
    report.times = StepTimes{kNasty, {1.5}};
    AlsoJudged also;
    also.name = also.version = also.refused = kNasty;
    also.outputs = {{.name = kNasty}};
    report.also = also;
  }
  std::string html() const {
    return to_html({.report = report,
                    .plan = plan,
                    .engine_file = kNasty,
                    .model_file = kNasty,
                    .model_hash = kNasty});
  }
};

TEST(Escaped, LeavesTextAndNothingElse) {
  EXPECT_EQ(escaped(kNasty), kNastyHtml);
  EXPECT_EQ(escaped("µ → 日本 🙂\ttab"), "µ → 日本 🙂\ttab");
  const std::string bad = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped(std::string_view("\0", 1)), bad);
  EXPECT_EQ(escaped("\xC0\xAF"), bad + bad);            // overlong '/'
  EXPECT_EQ(escaped("\xED\xA0\x80"), bad + bad + bad);  // a surrogate
  EXPECT_EQ(escaped("\xE2\x82"), bad + bad);            // cut off
  EXPECT_EQ(escaped(""), "");
}

TEST(HtmlReport, NamesStayText) {
  const std::string html = Sample().html();
  EXPECT_EQ(html.find(kNasty.substr(0, 20)), std::string::npos);
  EXPECT_EQ(count(html, "<img"), 0U);
  EXPECT_EQ(count(html, "<script>"), 1U);
  EXPECT_EQ(count(html, "</script>"), 1U);
  // Every place that has a name shows it.
  EXPECT_GE(count(without(html, "<wbr>"), kNastyHtml), 40U);
}

TEST(HtmlReport, AsksForNothingFromOutside) {
  const std::string html = Sample().html();
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* part : {"http:", "https:", "@import", "url(", " src=\"", "<link"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(HtmlReport, ShowsWhatWasFound) {
  Sample sample;
  sample.report.verdict = Verdict::kNeighbours;
  const std::string html = sample.html();
  for (const char* part :
       {"✗ neighbours", "a row&#39;s bits depend", "step-0", "over 1000 %", "1.500 ms in all",
        "NaN or infinity begins in step 0", "data-compute=", "class=\"failed\"", "7.00e+04",
        "data-label=\"kernel\"", "<span>next</span> <span>", "class=\"band\"", ">NaN</td>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  sample.report.verdict = Verdict::kPass;
  EXPECT_NE(sample.html().find("✓ pass"), std::string::npos);
  EXPECT_EQ(sample.html(), sample.html());
}

// What an engine was held to stands beside each output, and whose limits they are.
TEST(HtmlReport, ShowsTheLimitsThatWereApplied) {
  Sample sample;
  sample.report.outputs[0].limits = {.worst = 1e-5, .element = 3.2e-3, .rms = 1.1e-3};
  EXPECT_NE(sample.html().find("each element 1e-05·(1+|reference|) or 3.2e-03, rms 1.1e-03"),
            std::string::npos);
  EXPECT_EQ(sample.html().find("(the user&#39;s own)"), std::string::npos);
  sample.report.tolerance.rms = 0.5;
  EXPECT_NE(sample.html().find("(the user&#39;s own)"), std::string::npos);
}

// Another implementation beside the engine: who is nearer, by NaN, then integers, then rms.
TEST(HtmlReport, ShowsTheSecondJudge) {
  Sample sample;
  sample.report.also =
      AlsoJudged{.name = "onnxruntime", .version = "1.2", .cells = 3, .answered = 2};
  AlsoJudged& also = *sample.report.also;
  also.outputs = {{.name = "y",
                   .rms_reference = 2,
                   .engine = {.rms = 4e-7, .worst = 1e-6},
                   .other = {.rms = 6e-7, .worst = 2e-6}}};
  AlsoJudged::Output& output = also.outputs[0];
  const auto shows = [&](const std::string& part) {
    return sample.html().find(part) != std::string::npos;
  };
  EXPECT_TRUE(shows("onnxruntime 1.2 ran the model on the inputs of 2 of 3 cells"));
  EXPECT_TRUE(shows("data-label=\"nearer to FP64\">Vernier<"));
  EXPECT_TRUE(shows("data-label=\"ratio\">1.5<"));
  EXPECT_TRUE(shows("data-label=\"rms, onnxruntime\">6.00e-07<"));
  output.engine.rms = 6e-7;
  EXPECT_EQ(output.nearer(), "equal");
  output.engine.different_integers = 1;
  EXPECT_EQ(output.nearer(), "other");
  output.other.wrong_non_finite = 1;
  EXPECT_EQ(output.nearer(), "vernier");
  EXPECT_FALSE(output.ratio().has_value());
  EXPECT_TRUE(shows("data-label=\"rms, onnxruntime\">NaN<"));
  sample.report.also.reset();
  EXPECT_FALSE(shows("nearer to FP64"));
}

// A cell with NaN says so, and a finite error beside it is not shown.
TEST(HtmlReport, NaNStandsWhereItIs) {
  Sample sample;
  sample.report.cells[0].worst = std::numeric_limits<double>::infinity();
  sample.report.outputs[0].worst.wrong_non_finite = 1;
  sample.report.outputs[0].worst.max_abs = 3.64e-5;
  sample.report.localisation->steps[0].total_rms = 3.64e-5;
  const std::string html = sample.html();
  EXPECT_EQ(html.find("3.64e-05"), std::string::npos);
  EXPECT_NE(html.find("<small class=\"number\">NaN</small>"), std::string::npos);
  EXPECT_NE(html.find("data-label=\"max |E − R|\">NaN"), std::string::npos);
}

TEST(HtmlReport, SaysWhatWouldFillASectionWithoutData) {
  const Report report;
  const plan::Plan plan;
  const std::string html = to_html({.report = report,
                                    .plan = plan,
                                    .engine_file = "e.vn",
                                    .model_file = "m.onnx",
                                    .model_hash = ""});
  for (const char* part :
       {"No cell was run", "No output was compared", "No check was made",
        "verify --report fills it", "--timing", "carries no ledger", "No step was replayed",
        "No value was compared", "Nothing to note", "has no steps"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(HtmlReport, AFileIsAskedForBeforeTheWork) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("vernier_html_report_" + std::to_string(getpid()));
  std::filesystem::remove_all(folder);
  const auto message = [&] {
    try {
      io::check_can_write(folder / "r.html", "report");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message().find("cannot write report"), std::string::npos) << message();
  std::filesystem::create_directory(folder);
  EXPECT_EQ(message(), "no error");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace vernier::verify
