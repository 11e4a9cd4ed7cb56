// Every wrong input: refused before anything runs, by a message that names the input, what it is
// and what was expected. Contract: include/vernier/session.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/graphs.h"
#include "runtime/engines.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

using testing::HasSubstr;

constexpr std::string_view kTwo =
    R"(graph two(%ids: f32[batch, seq], %mask: f32[batch, seq], %wide: f32[2*seq + 1]) {
  %y = Add(%ids, %mask)
  %z = Abs(%wide)
  guard mod(seq, 4) == 0 "/pool/Reshape"
  return %y as "y", %z as "z"
})";

Arrays good(int64_t batch = 2, int64_t seq = 8) {
  return {{"ids", random_f32({batch, seq}, 1)},
          {"mask", random_f32({batch, seq}, 2)},
          {"wide", random_f32({2 * seq + 1}, 3)}};
}

struct WrongCase {
  const char* name;
  Arrays inputs;
  std::vector<std::string> says;
};

Arrays with(Arrays arrays, const std::string& name, Tensor t) {
  arrays[name] = std::move(t);
  return arrays;
}
Arrays without(Arrays arrays, const std::string& name) {
  arrays.erase(name);
  return arrays;
}

std::vector<WrongCase> cases() {
  return {
      {"Missing",
       without(good(), "mask"),
       {"input 'mask': missing", "f32 [batch=1..64, seq=1..512]"}},
      {"Unknown",
       with(good(), "token_types", random_f32({2, 8}, 1)),
       {"input 'token_types' does not exist", "'ids' [batch=1..64, seq=1..512], 'mask'"}},
      {"Type",
       with(good(), "ids", i64({2, 8}, std::vector<int64_t>(16))),
       {"input 'ids': got i64", "takes f32"}},
      {"Rank",
       with(good(), "ids", random_f32({16}, 1)),
       {"input 'ids': got shape [16] with 1 dimensions, expected 2"}},
      {"Disagreement",
       with(good(), "mask", random_f32({3, 8}, 1)),
       {"input 'mask': got shape [3, 8]: dimension 0 is 3", "dimension 0 of input 'ids' is 2",
        "both must be the size 'batch'"}},
      {"AboveTheRange",
       good(65, 8),
       {"input 'ids': got shape [65, 8]", "'batch' (dimension 0) is 65, outside 1..64",
        "--shapes batch=MIN..MAX"}},
      {"Empty", good(0, 8), {"'batch' (dimension 0) is 0, outside 1..64"}},
      {"Expression",
       with(good(), "wide", random_f32({16}, 1)),
       {"input 'wide': got shape [16]: dimension 0 is 16, expected 2*seq + 1 = 17"}},
      {"Guard", good(2, 6), {"batch=2, seq=6", "at node '/pool/Reshape'", "= 2 must equal 0"}},
  };
}

void PrintTo(const WrongCase& one, std::ostream* out) { *out << one.name; }

class WrongInputs : public ::testing::TestWithParam<WrongCase> {};

TEST_P(WrongInputs, AreRefusedWithNamesAndNumbers) {
  Session session(engine_of(kTwo), {.threads = 1});
  const std::string error = error_of([&] { run(session, GetParam().inputs); });
  for (const std::string& part : GetParam().says) EXPECT_THAT(error, HasSubstr(part));
}

INSTANTIATE_TEST_SUITE_P(Table, WrongInputs, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(WrongInput, GivenTwice) {
  Session session(engine_of(kTwo), {.threads = 1});
  const Arrays arrays = good();
  std::vector<Input> inputs = inputs_of(arrays);
  inputs.push_back(inputs[0]);
  EXPECT_THAT(error_of([&] { session.run(inputs); }), HasSubstr("input 'ids': given twice"));
}

TEST(WrongInput, NoData) {
  Session session(engine_of(kTwo), {.threads = 1});
  const Arrays arrays = good();
  std::vector<Input> inputs = inputs_of(arrays);
  inputs[1].data = nullptr;
  EXPECT_THAT(error_of([&] { session.run(inputs); }),
              HasSubstr("input 'mask': its data pointer is null"));
}

TEST(WrongInput, AFixedSize) {
  Session session(engine_of("graph g(%x: f32[n, 3]) { %y = Abs(%x) return %y as \"y\" }"),
                  {.threads = 1});
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({2, 4}, 1)}});
              }),
              HasSubstr("input 'x': got shape [2, 4]: dimension 1 is 4, expected 3"));
}

TEST(WrongInput, OfPrepareIsRefusedToo) {
  Session session(engine_of(kTwo), {.threads = 1});
  const std::vector<InputShape> shapes{{"ids", {2, 8}}, {"mask", {2, 8}}, {"wide", {18}}};
  EXPECT_THAT(error_of([&] { session.prepare(shapes); }), HasSubstr("expected 2*seq + 1 = 17"));
  EXPECT_THAT(error_of([&] {
                session.prepare(std::vector<InputShape>{{"idx", {2}}});
              }),
              HasSubstr("input 'idx' does not exist"));
}

// ---- ids

struct WrongId {
  const char* name;
  const char* graph;
  Arrays inputs;
  std::vector<std::string> says;
};

std::vector<WrongId> wrong_ids() {
  return {
      {"BehindTheEnd",
       "graph g(%ids: i64[b, s]) { %y = Gather(f32[4, 2]{0, 1, 2, 3, 4, 5, 6, 7}, %ids) {axis=0} "
       "return %y as \"y\" }",
       {{"ids", i64({2, 3}, {0, 1, 2, 3, 4, 9})}},
       {"input 'ids': element [1, 1] is 4, outside the table of 4 entries that step 'Gather_",
        "reads (0..3, or -4..-1 from its end)", "the engine takes i64 [b=1..64, s=1..512]"}},
      {"BeforeTheFront",
       "graph g(%ids: i32[n]) { %y = Gather(f32[2, 4]{0, 1, 2, 3, 4, 5, 6, 7}, %ids) {axis=-1} "
       "return %y as \"y\" }",
       {{"ids", Tensor::from(DType::kI32, {3}, std::vector<int64_t>{-4, 3, -5})}},
       {"input 'ids': element [2] is -5, outside the table of 4 entries"}},
      {"Cast",
       "graph g(%ids: i32[n]) { %c = Cast(%ids) {to=i64} %y = Gather(f32[4, 2]{0, 1, 2, 3, 4, 5, "
       "6, 7}, %c) {axis=0} return %y as \"y\" }",
       {{"ids", Tensor::from(DType::kI32, {2}, std::vector<int64_t>{0, 7})}},
       {"input 'ids': element [1] is 7, outside the table of 4 entries"}},
      {"SeenThroughAView",
       "graph g(%ids: i32[b, 6]) { %s = Slice(%ids) {inline_starts=true, starts=[2], axes=[1], "
       "sizes=(3), steps=[1]} %c = Cast(%s) {to=i64} %y = Gather(f32[4, 2]{0, 1, 2, 3, 4, 5, 6, "
       "7}, %c) {axis=0} return %y as \"y\" }",
       {{"ids", Tensor::from(DType::kI32, {2, 6},
                             std::vector<int64_t>{99, 99, 0, 1, 2, 99, 99, 99, 3, 44, 0, 99})}},
       {"input 'ids': element [1, 3] is 44"}},
      {"OfATableThatGrows",
       "graph g(%x: f32[b, s], %at: i64[b, 1]) { %a = Abs(%x) %y = GatherElements(%a, %at) "
       "{axis=1} return %y as \"y\" }",
       {{"x", random_f32({2, 5}, 1)}, {"at", i64({2, 1}, {4, 5})}},
       {"input 'at': element [1, 0] is 5, outside the table of 5 entries"}},
      {"OfTuples",
       "graph g(%x: f32[3, 5], %at: i64[n, 2]) { %a = Abs(%x) %y = GatherND(%a, %at) return %y as "
       "\"y\" }",
       {{"x", random_f32({3, 5}, 1)}, {"at", i64({2, 2}, {2, 4, 3, 0})}},
       {"input 'at': element [1, 0] is 3, outside the table of 3 entries that step 'GatherND_"}},
      {"OfTuplesInBatches",
       "graph g(%x: f32[2, 5, 3], %at: i64[2, n, 1]) { %a = Abs(%x) %y = GatherND(%a, %at) "
       "{batch_dims=1} return %y as \"y\" }",
       {{"x", random_f32({2, 5, 3}, 1)}, {"at", i64({2, 2, 1}, {4, -5, 0, -6})}},
       {"input 'at': element [1, 1, 0] is -6, outside the table of 5 entries"}},
      {"OfPlacesToWrite",
       "graph g(%x: f32[3, 5], %at: i64[n, 2], %u: f32[n]) { %a = Abs(%x) %y = ScatterND(%a, %at, "
       "%u) return %y as \"y\" }",
       {{"x", random_f32({3, 5}, 1)}, {"at", i64({2, 2}, {2, 4, 0, 5})}, {"u", random_f32({2}, 2)}},
       {"input 'at': element [1, 1] is 5, outside the table of 5 entries that step 'ScatterND_"}},
      {"Axis",
       "graph g(%x: f32[b, s], %axis: i64[]) { %a = Abs(%x) %y = CumSum(%a, %axis) return %y as "
       "\"y\" }",
       {{"x", random_f32({2, 5}, 1)}, {"axis", i64({}, {2})}},
       {"input 'axis': element [] is 2, no axis of the array of rank 2 that step 'CumSum_",
        "works along (-2..1)"}},
      {"FarAxis",
       "graph g(%x: f32[b, s], %axis: i64[1]) { %a = Abs(%x) %y = CumSum(%a, %axis) return %y as "
       "\"y\" }",
       {{"x", random_f32({2, 5}, 1)}, {"axis", i64({1}, {int64_t{1} << 31})}},
       {"input 'axis': element [0] is 2147483648, no axis of the array of rank 2"}},
      {"Length",
       "graph g(%x: f32[s, b], %n: i64[b]) { %a = Abs(%x) %y = ReverseSequence(%a, %n) return %y "
       "as \"y\" }",
       {{"x", random_f32({5, 2}, 1)}, {"n", i64({2}, {5, 6})}},
       {"input 'n': element [1] is 6, no length of the axis of 5 entries that step",
        "reads (0..5)"}},
      {"Target",
       "graph g(%x: f32[b, 3], %t: i64[b]) { %a = Abs(%x) %y = NegativeLogLikelihoodLoss(%a, %t) "
       "{ignores=true, ignore_index=-1} return %y as \"y\" }",
       {{"x", random_f32({3, 3}, 1)}, {"t", i64({3}, {-1, 2, 3})}},
       {"input 't': element [2] is 3, outside the table of 3 entries that step", "reads (0..2)"}},
      {"Divisor",
       "graph g(%x: i64[n], %d: i64[n]) { %y = Div(%x, %d) return %y as \"y\" }",
       {{"x", i64({2}, {4, 5})}, {"d", i64({2}, {2, 0})}},
       {"input 'd': element [1] is 0, a divisor of integers that step 'Div_",
        "divides by (it must not be 0)"}},
      {"DivisorInAChain",
       "graph g(%x: i64[n], %d: i64[n]) { %a = Add(%x, %x) %y = Mod(%a, %d) return %y as \"y\" }",
       {{"x", i64({2}, {4, 5})}, {"d", i64({2}, {0, 3})}},
       {"input 'd': element [0] is 0, a divisor of integers"}},
      {"Starts",
       "graph g(%x: f32[1, s, 2, 4], %n: i32[k]) { %a = Abs(%x) %y = Attention(%a, %a, %a, _, _, "
       "%n, %n) return %y as \"y\" }",
       {{"x", random_f32({1, 5, 2, 4}, 1)},
        {"n", Tensor::from(DType::kI32, {3}, std::vector<int64_t>{0, 4, 3})}},
       {"input 'n': element [2] is 3, no start of a sequence among the 5 rows that step",
        "starts ascend from 0 to at most 5"}},
  };
}

void PrintTo(const WrongId& one, std::ostream* out) { *out << one.name; }

class WrongIds : public ::testing::TestWithParam<WrongId> {};

TEST_P(WrongIds, AreRefusedBeforeAnythingRuns) {
  // Counts the steps that ran.
  struct Steps final : RunObserver {
    void after_step(int32_t, const backend::LaunchCall&) override { ++ran; }
    int ran = 0;
  } steps;
  Session session(engine_of(GetParam().graph), {.threads = 1});
  const std::string error = error_of([&] { run(session, GetParam().inputs, &steps); });
  for (const std::string& part : GetParam().says) EXPECT_THAT(error, HasSubstr(part));
  EXPECT_EQ(steps.ran, 0);
}

INSTANTIATE_TEST_SUITE_P(Table, WrongIds, ::testing::ValuesIn(wrong_ids()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Ids, CountFromBothEndsAndOnlyWhereTheyAreRead) {
  Session session(
      engine_of("graph g(%ids: i64[4]) { %s = Slice(%ids) {inline_starts=true, starts=[1], "
                "axes=[0], sizes=(2), "
                "steps=[1]} %y = Gather(f32[4]{10, 11, 12, 13}, %s) {axis=0} return %y as \"y\" }"),
      {.threads = 1});
  const Arrays outputs = run(session, {{"ids", i64({4}, {-99, -4, 3, 99})}});
  EXPECT_EQ(outputs.at("y").float_at(0), 10);
  EXPECT_EQ(outputs.at("y").float_at(1), 13);
}

TEST(Ids, OfEveryExampleModelAreChecked) {
  int checked = 0;
  for (const ExampleModel& model : example_models()) {
    NamedTensors inputs = model.cases()[0].inputs;
    const auto ids = std::ranges::find(inputs, "input_ids", &NamedTensors::value_type::first);
    if (ids == inputs.end()) continue;
    std::vector<int64_t> values = ids->second.integers();
    values.back() = 1 << 30;
    ids->second = Tensor::from(DType::kI64, ids->second.shape(), values);
    Session session(Engine::from_bytes(compile_to_bytes(model.path.string())), {.threads = 1});
    EXPECT_THAT(error_of([&] { session.run(refs(inputs)); }),
                HasSubstr("input 'input_ids': element " +
                          position_text(ids->second.elems() - 1, ids->second.shape()) +
                          " is 1073741824, outside the table of "))
        << model.name;
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

TEST(Ids, ThatTheModelComputesAreTheKernelsToCheck) {
  Session session(engine_of("graph g(%ids: i64[n]) { %two = Add(%ids, i64[1]{2}) %y = "
                            "Gather(f32[4]{0, 1, 2, 3}, %two) {axis=0} return %y as \"y\" }"),
                  {.threads = 1});
  const std::string error = error_of([&] { run(session, {{"ids", i64({3}, {0, 1, 2})}}); });
  EXPECT_THAT(error, HasSubstr("node 'Gather_"));
  EXPECT_THAT(error, HasSubstr("index 4 at position 2 is outside its table of 4 entries"));
  EXPECT_THAT(error, HasSubstr("allowed are -4 to 3"));
}

TEST(Ids, ThatAreIgnoredPass) {
  Session session(
      engine_of("graph g(%x: f32[b, 3], %t: i64[b]) { %a = Abs(%x) %y = "
                "NegativeLogLikelihoodLoss(%a, %t) {ignores=true, ignore_index=-7} return %y as "
                "\"y\" }"),
      {.threads = 1});
  const Tensor x = Tensor::from(DType::kF32, {2, 3}, std::vector<double>{1, 2, 3, 4, 5, 6});
  const Arrays outputs = run(session, {{"x", x}, {"t", i64({2}, {-7, 2})}});
  EXPECT_EQ(outputs.at("y").float_at(0), -6);
}

TEST(Axis, ThatTheModelComputesIsTheKernelsToCheck) {
  Session session(engine_of("graph g(%x: f32[b, s], %axis: i64[]) { %one = Add(%axis, i64[]{1}) "
                            "%y = CumSum(%x, %one) return %y as \"y\" }"),
                  {.threads = 1});
  const auto of = [&](int64_t axis) {
    return Arrays{{"x", random_f32({2, 3}, 1)}, {"axis", i64({}, {axis})}};
  };
  run(session, of(0));
  run(session, of(-3));
  for (int64_t axis : {int64_t{1}, int64_t{-4}, int64_t{1} << 31, INT64_MAX}) {
    const std::string error = error_of([&] { run(session, of(axis)); });
    EXPECT_THAT(error, HasSubstr("node 'CumSum_"));
    EXPECT_THAT(error, HasSubstr("is outside [-2, 2) of an input of rank 2"));
  }
}

// ---- sizes that are not the same, but of which one must not be larger

TEST(WrongSizes, OfElementIndices) {
  constexpr const char* kGather =
      "graph g(%x: f32[b, s], %at: i64[rows, n]) { %a = Abs(%x) %y = GatherElements(%a, %at) "
      "{axis=1} return %y as \"y\" }";
  constexpr const char* kScatter =
      "graph g(%x: f32[b, s], %at: i64[rows, n]) { %a = Abs(%x) %u = Cast(%at) {to=f32} %y = "
      "ScatterElements(%a, %at, %u) {axis=1} return %y as \"y\" }";
  for (const char* graph : {kGather, kScatter}) {
    Session session(engine_of(graph), {.threads = 1});
    const auto of = [](int64_t rows, int64_t picked) {
      return Arrays{
          {"x", random_f32({3, 4}, 1)},
          {"at", i64({rows, picked}, std::vector<int64_t>(static_cast<size_t>(rows * picked), 1))}};
    };
    run(session, of(3, 9));  // longer on its own axis
    run(session, of(1, 2));
    const std::string error = error_of([&] { run(session, of(4, 2)); });
    EXPECT_THAT(error, HasSubstr("do not fit the model: at node '"));
    EXPECT_THAT(error, HasSubstr("rows = 4 must be at most b = 3"));
    run(session, of(2, 2));  // it stays usable
  }
}

TEST(WrongSizes, OfAConstantIndex) {
  Session session(engine_of("graph g(%x: f32[n, 2]) { %y = Gather(%x, i64[2]{0, 3}) {axis=0} "
                            "return %y as \"y\" }"),
                  {.threads = 1});
  run(session, {{"x", random_f32({4, 2}, 1)}});
  EXPECT_THAT(error_of([&] {
                run(session, {{"x", random_f32({3, 2}, 1)}});
              }),
              HasSubstr("4 must be at most n = 3"));
}

// ---- buffers

TEST(WrongBuffer, IsNamed) {
  Session session(engine_of(kTwo), {.threads = 1});
  const Arrays arrays = good();
  float small[4];
  const OutputBuffer short_one[] = {{"y", small, sizeof small}};
  EXPECT_THAT(error_of([&] { session.run(inputs_of(arrays), short_one); }),
              HasSubstr("output 'y': the buffer has 16 bytes, the output 64"));
  const OutputBuffer unknown[] = {{"logits", small, sizeof small}};
  EXPECT_THAT(error_of([&] { session.run(inputs_of(arrays), unknown); }),
              HasSubstr("output 'logits' does not exist; the engine's outputs are y, z"));
}

}  // namespace
}  // namespace vernier::test
