// Every wrong input: refused before anything runs, by a message that names the input, what it is
// and what was expected. Contract: include/vernier/session.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/graphs.h"
#include "runtime/engines.h"

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
