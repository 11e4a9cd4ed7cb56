// Computing tokens only: what is packed, what every kind of mask row gives, and what stays as it
// is.
#include <gtest/gtest.h>

#include <optional>

#include "ops/evaluate.h"
#include "ops/infer.h"
#include "passes/pass_testing.h"
#include "passes/passes.h"

namespace vernier::passes::testing {
namespace {

const std::string kInputs =
    "%x: f32[b, s, 8], %mask: i64[b, s], %o: f32[8, 8], %g: f32[8], %t: f32[1, s, 8]";
const std::string kKeep =
    "%m0 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} %m = Cast(%m0) {to=bool} ";
const std::string kFirst = " {inline_starts=true, starts=[0], axes=[1], steps=[1], sizes=(1)} ";

std::string heads(const std::string& name, const std::string& of) {
  return "%" + name + "_ = Linear(" + of + ", %o) %" + name + " = Reshape(%" + name +
         "_) {shape=(b, s, 2, 4), has_shape=true} ";
}
// One layer from %n on: %r.
std::string layer(const std::string& attention = "%q, %k, %v, _, %m",
                  const std::string& attrs = "scale=0.5, fill=-1e+30") {
  return heads("q", "%n") + heads("k", "%n") + heads("v", "%n") + "%a = Attention(" + attention +
         ") {" + attrs +
         "} %c = Reshape(%a) {shape=(b, s, 8), has_shape=true} %d = Linear(%c, %o) "
         "%r = Add(%d, %n) ";
}
const std::string kNorm = "%n = LayerNorm(%x, %g) ";

std::shared_ptr<ir::Graph> unpadded(const std::shared_ptr<ir::Graph>& graph) {
  const auto after = graph->clone();
  unpad(*after);
  after->remove_dead();
  after->sort();
  ops::infer_graph(*after);
  ir::check(*after, "unpad");
  return after;
}

Tensor integers(Shape shape, const std::vector<int64_t>& values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}

// Rows of every kind: tokens and padding, tokens only, a hole, padding in front, no token, one.
void expect_same_at_all_masks(const ir::Graph& before, const ir::Graph& after, int64_t other = 0) {
  auto inputs = random_inputs(before, {{"b", 6}, {"s", 4}});
  for (auto& [name, tensor] : inputs) {
    if (name == "mask")
      tensor = integers(
          {6, 4}, {1, 1, 1, 0, 1, 1, 1, 1, 1, other, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0});
  }
  const auto a = ops::evaluate(before, inputs), b = ops::evaluate(after, inputs);
  for (const auto& [name, x] : a.outputs) {
    const EvalTensor& y = b.outputs.at(name);
    ASSERT_EQ(x.shape, y.shape);
    for (int64_t i = 0; i < x.elems(); ++i)
      ASSERT_NEAR(x.value(i), y.value(i), 1e-12 * (1 + std::abs(x.value(i)))) << name << " " << i;
  }
}

// What of the padding is left out.
constexpr TokenRule kBehind{0, false, true}, kInFront{0, true, false}, kBoth{0, true, true};

void expect_unpads(const std::string& text, int token_values,
                   const std::optional<TokenRule>& rule = std::nullopt) {
  const auto before = graph_of(text), after = unpadded(before);
  EXPECT_EQ(count(*after, "TokenIndex"), 1) << structure(*after);
  ASSERT_EQ(after->token_counts.size(), 1U);
  EXPECT_EQ(after->token_counts[0].rule, rule.value_or(after->token_counts[0].rule));
  int packed = 0;
  for (ir::NodeId id : after->order()) {
    for (ir::ValueId out : after->node(id).outputs) {
      const SymShape& shape = after->value(out).shape;
      packed += shape.size() >= 2 && shape[0] == Dim(1) && shape[1] == Dim::symbol("tokens");
    }
  }
  EXPECT_EQ(packed, token_values) << structure(*after);
  expect_same_at_all_masks(*before, *after);
}

void expect_stays(const std::string& text, const std::string& why) {
  const auto before = graph_of(text), after = unpadded(before);
  EXPECT_EQ(structure(*after), structure(*before));
  if (why.empty()) return;
  ASSERT_EQ(after->notes.size(), 1u);
  EXPECT_NE(after->notes[0].find(why), std::string::npos) << after->notes[0];
}

TEST(Unpad, PacksWhatIsComputedForTheFirstToken) {
  // x, and 11 results.
  expect_unpads(graph_text(kInputs, kNorm + kKeep + layer() + "%y = Slice(%r)" + kFirst), 12,
                kBehind);
}

// x[:, -1], x[:, s - 1], x[:, -1:].
TEST(Unpad, TheLastPlaceOfEachRow) {
  const std::string before = kNorm + kKeep + layer();
  for (const char* place : {"%y = Gather(%r, i64{-1}) {axis=1}",
                            "%sh = Shape(%mask) %s = Gather(%sh, i64{1}) %e = Sub(%s, i64{1}) "
                            "%y = Gather(%r, %e) {axis=1}",
                            "%y = Slice(%r, i64[1]{-1}, i64[1]{9223372036854775807}, i64[1]{1})"})
    expect_unpads(graph_text(kInputs, before + place), 12, kInFront);
  expect_stays(graph_text(kInputs, before + "%y = Gather(%r, i64{-2}) {axis=1}"),
               "(Gather) reads the padding, too");
}

// The first place is padding's where padding lies in front, the last where it lies behind.
TEST(Unpad, StaysWhereFirstAndLastPlacesAreRead) {
  const auto before =
      graph_of(graph_text(kInputs, kNorm + kKeep + layer() + "%f_ = Slice(%r)" + kFirst +
                                       "%f = Reshape(%f_) {shape=(b, 8), has_shape=true} "
                                       "%l = Gather(%r, i64{-1}) {axis=1} %y = Add(%f, %l)"));
  EXPECT_EQ(count(*unpadded(before), "TokenIndex"), 0);
}

TEST(Unpad, PacksPositionsByPlace) {
  expect_unpads(graph_text(kInputs, "%z = Add(%x, %t) %n = LayerNorm(%z, %g) " + kKeep + layer() +
                                        "%y = Slice(%r)" + kFirst),
                14);
}

TEST(Unpad, MeansOverTokensAreUnpacked) {
  expect_unpads(graph_text(kInputs, kNorm + kKeep + layer() +
                                        "%f = Cast(%mask) {to=f32} %y = MaskedMean(%r, %f)"),
                12, kBoth);
}

TEST(Unpad, OneQueryForEachRow) {
  expect_unpads(
      graph_text(kInputs, kNorm + kKeep + heads("k", "%n") + heads("v", "%n") + "%n0 = Slice(%n)" +
                              kFirst +
                              "%q_ = Linear(%n0, %o) %q = Reshape(%q_) {shape=(b, 1, 2, 4), "
                              "has_shape=true} %a = Attention(%q, %k, %v, _, %m) {scale=0.5, "
                              "fill=-1e+30} %y = Reshape(%a) {shape=(b, 8), has_shape=true}"),
      6);
}

TEST(Unpad, OutputsThatAreZeroAtPaddingArePutBack) {
  expect_unpads(graph_text(kInputs, kNorm + kKeep + layer() + "%y = ZeroPadding(%r, %mask)"), 12,
                kBoth);
  const std::string other = "%y = ZeroPadding(%r, %x1)";
  expect_stays(graph_text(kInputs + ", %x1: i64[b, s]", kNorm + kKeep + layer() + other),
               "(ZeroPadding) reads the padding, too");
}

// Row and place of the last token of each row, %last [b, 1].
const std::string kLast =
    "%len = ReduceSum(%mask) {axes=[1], keepdims=true} %last = Sub(%len, i64{1}) ";
const std::string kPairs =
    "%sh = Shape(%mask) %b0 = Gather(%sh, i64{0}) %rb = Range(i64{0}, %b0, i64{1}) "
    "%ru = Unsqueeze(%rb) {axes=[1]} %ix = Concat(%ru, %last) {axis=1} ";

TEST(Unpad, TheLastTokenOfEachRow) {
  expect_unpads(
      graph_text(kInputs, kNorm + kKeep + layer() + kLast + kPairs + "%y = GatherND(%r, %ix)"), 12,
      kBehind);
  // As torch.gather writes it.
  expect_unpads(graph_text(kInputs, kNorm + kKeep + layer() + kLast +
                                        "%l3 = Unsqueeze(%last) {axes=[2]} "
                                        "%le = Expand(%l3) {shape=(b, 1, 8), has_shape=true} "
                                        "%y = GatherElements(%r, %le) {axis=1}"),
                12);
}

TEST(Unpad, StaysWhereAReadPlaceMayBePadding) {
  const std::string next = "%last = ReduceSum(%mask) {axes=[1], keepdims=true} ";
  expect_stays(
      graph_text(kInputs, kNorm + kKeep + layer() + next + kPairs + "%y = GatherND(%r, %ix)"),
      "(GatherND) reads the padding, too");
  // Places that other data says.
  expect_stays(graph_text(kInputs + ", %last: i64[b, 1]",
                          kNorm + kKeep + layer() + kPairs + "%y = GatherND(%r, %ix)"),
               "(GatherND) reads the padding, too");
}

TEST(Unpad, IdsOfWhichOneIsPadding) {
  const std::string keep =
      "%p = Equal(%mask, i64{0}) %m1 = Not(%p) %m = Reshape(%m1) {shape=(b, 1, 1, s), "
      "has_shape=true} ";
  expect_unpads(graph_text(kInputs, kNorm + keep + layer() + "%y = Slice(%r)" + kFirst), 12);
}

// Where(Cast(1 − mask), F, 1 − mask), as transformers wrote it for years: places of other numbers
// than 1 are hidden, and those of 0 are left out. A row with tokens may have such a number.
TEST(Unpad, AMaskThatKeepsOneNumber) {
  const std::string keep =
      "%m0 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} %m1 = Cast(%m0) {to=f32} "
      "%m = Equal(%m1, f32{1}) ";
  const std::string text = graph_text(kInputs, kNorm + keep + layer() +
                                                   "%f = Cast(%mask) {to=f32} "
                                                   "%y = MaskedMean(%r, %f)");
  expect_unpads(text, 12, kBoth);
  const auto before = graph_of(text);
  expect_same_at_all_masks(*before, *unpadded(before), 2);
  // Ids say nothing of padding so.
  expect_stays(graph_text(kInputs, "%e = Gather(%o, %mask) {axis=0} %n = LayerNorm(%e, %g) " +
                                       keep + layer() + "%y = Slice(%r)" + kFirst),
               "");
}

// Beyond what a TokenIndex takes: the model builds all the same.
TEST(Unpad, StaysWhereThePaddingIdIsTooLarge) {
  const std::string keep =
      "%p = Equal(%mask, i64{9000000000}) %m1 = Not(%p) %m = Reshape(%m1) {shape=(b, 1, 1, s), "
      "has_shape=true} ";
  expect_stays(graph_text(kInputs, kNorm + keep + layer() + "%y = Slice(%r)" + kFirst), "");
}

TEST(Unpad, CausalAttentionOfTokens) {
  expect_unpads(
      graph_text(kInputs, kNorm + kKeep +
                              layer("%q, %k, %v, _, %m", "scale=0.5, fill=-1e+30, causal=true") +
                              "%y = Slice(%r)" + kFirst),
      12);
}

TEST(Unpad, StaysWherePaddingIsRead) {
  expect_stays(graph_text(kInputs, kNorm + kKeep + layer() + "%y = Relu(%r)"),
               "output 'y' has the padding, too");
  expect_stays(graph_text(kInputs, kNorm + kKeep + layer() +
                                       "%y = ReduceMean(%r) {axes=[1], keepdims=true}"),
               "(ReduceMean) reads the padding, too");
  const std::string other = "%f = Cast(%x1) {to=f32} %y = MaskedMean(%r, %f)";
  expect_stays(graph_text(kInputs + ", %x1: i64[b, s]", kNorm + kKeep + layer() + other),
               "(MaskedMean) reads the padding, too");
}

TEST(Unpad, StaysWhereHiddenKeysCount) {
  const std::string first = "%y = Slice(%r)" + kFirst;
  expect_stays(graph_text(kInputs, kNorm + kKeep +
                                       layer("%q, %k, %v, _, %m", "scale=0.5, fill=-100") + first),
               "leaves hidden keys a probability");
  expect_stays(graph_text(kInputs + ", %bias: f32[b, 2, s, s]",
                          kNorm + kKeep + layer("%q, %k, %v, %bias, %m") + first),
               "adds a bias that is not one by pairs of places");
}

// (1 − mask)·F, as many exporters write it, alone and added to relative positions.
const std::string kHiding =
    "%u0 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} %u1 = Cast(%u0) {to=f32} "
    "%u2 = Sub(f32{1}, %u1) ";

// The bias of the tokens is packed, too.
TEST(Unpad, ABiasThatHidesPadding) {
  for (const char* fill : {"-1e4", "-3.4e38"}) {
    expect_unpads(
        graph_text(kInputs, kNorm + kHiding + "%h = Mul(%u2, f32{" + fill + "}) " +
                                layer("%q, %k, %v, %h", "scale=0.5") + "%y = Slice(%r)" + kFirst),
        12);
  }
  expect_unpads(graph_text(kInputs + ", %bias: f32[1, 2, s, s]",
                           kNorm + kHiding + "%h = Mul(%u2, f32{-3.4e38}) %sum = Add(%bias, %h) " +
                               layer("%q, %k, %v, %sum", "scale=0.5") + "%y = Slice(%r)" + kFirst),
                12);
}

// A mask that is 1 at padding.
TEST(Unpad, ABiasThatHidesWhereTheMaskIsOne) {
  expect_unpads(
      graph_text(kInputs, kNorm + kHiding + "%h = Mul(%u1, f32{-3.4e38}) " +
                              layer("%q, %k, %v, %h", "scale=0.5") + "%y = Slice(%r)" + kFirst),
      12);
}

TEST(Unpad, StaysWhereABiasHidesNothingOrSomethingElse) {
  const std::string first = "%y = Slice(%r)" + kFirst;
  expect_stays(graph_text(kInputs, kNorm + kHiding + "%h = Mul(%u2, f32{-100}) " +
                                       layer("%q, %k, %v, %h", "scale=0.5") + first),
               "");
  // Scores are not lost in a fill of -1e4, so that a row without a token would change.
  expect_stays(graph_text(kInputs + ", %bias: f32[1, 2, s, s]",
                          kNorm + kHiding + "%h = Mul(%u2, f32{-1e4}) %sum = Add(%bias, %h) " +
                              layer("%q, %k, %v, %sum", "scale=0.5") + first),
               "scores show through it");
}

// Relative positions: the bias is read at the places within a sequence.
TEST(Unpad, ABiasByPairsOfPlaces) {
  for (const char* shape : {"1, 2, s, s", "2, s, s", "s, s", "1, 1, 1, s"}) {
    expect_unpads(
        graph_text(kInputs + ", %bias: f32[" + shape + "]",
                   kNorm + kKeep + layer("%q, %k, %v, %bias, %m") + "%y = Slice(%r)" + kFirst),
        12);
  }
  // The places of a row that has padding in front are others than those of its tokens.
  expect_unpads(graph_text(kInputs + ", %bias: f32[1, 2, s, s]",
                           kNorm + kKeep + layer("%q, %k, %v, %bias, %m") +
                               "%f = Cast(%mask) {to=f32} %y = MaskedMean(%r, %f)"),
                12, kBehind);
}

// Scores by relative position are those of two places of a row, wherever it begins. Their products
// are by heads.
const std::string kByDistance = "%lq: i64[s + s], %w: f32[1, 2, 4, 3]";
std::string with_positions(const std::string& weight = "%w", const std::string& queries = "%qm") {
  const std::string products =
      "%qh = Transpose(%q) {perm=[0, 2, 1, 3]} %qp = MatMul(%qh, " + weight +
      ") %qr = Transpose(%qp) {perm=[0, 2, 1, 3]} %list = Clip(%lq, i64{0}, i64{2}) ";
  const std::string mask =
      "%q0 = Reshape(%mask) {shape=(b, 1, s, 1), has_shape=true} %qm = Cast(%q0) {to=bool} ";
  return heads("q", "%n") + heads("k", "%n") + heads("v", "%n") + products +
         (queries == "%qm" ? mask : "") +
         "%a = Attention(%q, %k, %v, _, %m, _, _, _, _, _, %qr, _, %list, _, " + queries +
         ") {scale=0.5, fill=-1e+30} %c = Reshape(%a) {shape=(b, s, 8), has_shape=true} "
         "%d = Linear(%c, %o) %r = Add(%d, %n) ";
}

TEST(Unpad, ScoresByRelativePosition) {
  const std::string inputs = kInputs + ", " + kByDistance;
  expect_unpads(graph_text(inputs, kNorm + kKeep + with_positions() + "%y = Slice(%r)" + kFirst),
                13, kBehind);
  // In front, too.
  expect_unpads(graph_text(inputs, kNorm + kKeep + with_positions() +
                                       "%f = Cast(%mask) {to=f32} %y = MaskedMean(%r, %f)"),
                13, kBoth);
}

// Weights of each row, or products that something else reads: computed at all places, then packed.
TEST(Unpad, ScoresByRelativePositionThatAreNotOfTokensAlone) {
  const std::string first = "Slice(%r)" + kFirst;
  expect_unpads(graph_text(kInputs + ", %lq: i64[s + s], %w: f32[b, 2, 4, 3]",
                           kNorm + kKeep + with_positions() + "%y = " + first),
                11, kBehind);
  expect_unpads(graph_text(kInputs + ", " + kByDistance,
                           kNorm + kKeep + with_positions() +
                               "%z = ReduceMax(%qp) {axes=[1, 2, 3]} %z1 = Reshape(%z) "
                               "{shape=(b, 1, 1), has_shape=true} %r1 = " +
                               first + "%y = Mul(%r1, %z1)"),
                11, kBehind);
}

TEST(Unpad, StaysWhereAnotherMaskHidesQueries) {
  expect_stays(
      graph_text(kInputs + ", " + kByDistance + ", %other: bool[b, 1, s, 1]",
                 kNorm + kKeep + with_positions("%w", "%other") + "%y = Slice(%r)" + kFirst),
      "hides queries by another mask");
}

TEST(Unpad, StaysWithoutAMaskOfPlaces) {
  const std::string first = "%y = Slice(%r)" + kFirst;
  expect_stays(graph_text(kInputs, kNorm + layer("%q, %k, %v") + first), "");
  // True at padding: of integers that is not one number.
  const std::string inverted =
      "%m0 = Reshape(%mask) {shape=(b, 1, 1, s), has_shape=true} %m1 = Cast(%m0) {to=bool} "
      "%m = Not(%m1) ";
  expect_stays(graph_text(kInputs, kNorm + inverted + layer() + first), "");
}

}  // namespace
}  // namespace vernier::passes::testing
