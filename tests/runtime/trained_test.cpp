// Trained models whose task is an oracle: a GPT that sorts, and a recommender with published
// metrics, in FP32 and in 16 bits. The lines they print go into docs/verification_fitting.md
// (tools/precision_table.py). They are other people's and not in this repository: SKIP where they
// are absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "io/npz.h"
#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

const std::filesystem::path kTrained = std::filesystem::path(VERNIER_SHARED_MODELS) / "trained";

Input i64_input(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<int64_t>& data) {
  return {name, DType::kI64, shape, data.data()};
}

// All 3^6 inputs, six letters each, row-major.
std::vector<int64_t> all_words() {
  std::vector<int64_t> words;
  for (int word = 0; word < 729; ++word) {
    for (int letter = 0, rest = word; letter < 6; ++letter, rest /= 3) words.push_back(rest % 3);
  }
  return words;
}

class NanoGptSort : public ::testing::TestWithParam<const char*> {};

TEST_P(NanoGptSort, All729WordsComeOutSorted) {
  const std::filesystem::path model = kTrained / "nano_gpt_sort/nano_gpt_sort_op13.onnx";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "SKIP: " << model << " is not here";
  constexpr int64_t kWords = 729, kLetters = 6;
  CompileOptions options;
  options.mode = GetParam();
  options.shapes = "batch=1..729,time=1..11";
  Session session(Engine::from_bytes(compile_to_bytes(model.string(), options)), {.threads = 2});
  const std::vector<int64_t> words = all_words();
  std::vector<std::vector<int64_t>> rows;  // a word, then what the model says so far
  for (int64_t w = 0; w < kWords; ++w)
    rows.emplace_back(words.begin() + w * kLetters, words.begin() + (w + 1) * kLetters);
  for (int64_t length = kLetters; length < 2 * kLetters; ++length) {
    std::vector<int64_t> flat;
    for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
    const std::vector<int64_t> shape{kWords, length};
    const Input input = i64_input("idx", shape, flat);
    const Output logits = session.run({&input, 1})[0];
    const auto* values = static_cast<const float*>(logits.data);
    for (int64_t w = 0; w < kWords; ++w) {
      const float* last = values + (w * length + length - 1) * 3;
      rows[static_cast<size_t>(w)].push_back(std::max_element(last, last + 3) - last);
    }
  }
  int sorted = 0;
  for (const auto& row : rows) {
    std::vector<int64_t> expected(row.begin(), row.begin() + kLetters);
    std::sort(expected.begin(), expected.end());
    sorted += std::equal(expected.begin(), expected.end(), row.begin() + kLetters);
  }
  std::printf("| nano_gpt_sort | %s | %d of %d words sorted | |\n", GetParam(), sorted,
              static_cast<int>(kWords));
  EXPECT_EQ(sorted, kWords);
}

INSTANTIATE_TEST_SUITE_P(Modes, NanoGptSort, ::testing::Values("fp32", "fp16", "bf16"),
                         [](const auto& one) { return std::string(one.param); });

struct Metrics {
  double hit5 = 0, ndcg5 = 0, hit10 = 0, ndcg10 = 0;
  void add(int64_t rank) {
    const double gain = 1 / std::log2(static_cast<double>(rank) + 2);
    if (rank < 5) hit5 += 1, ndcg5 += gain;
    if (rank < 10) hit10 += 1, ndcg10 += gain;
  }
  void divide(double users) {
    for (double* sum : {&hit5, &ndcg5, &hit10, &ndcg10}) *sum /= users;
  }
};

constexpr size_t kListed = 10;
using List = std::array<int64_t, kListed>;  // a user's first items, the best first

struct Recommended {
  Metrics metrics;
  std::vector<List> lists;
};

List first_of(const std::vector<float>& scores) {
  std::vector<int64_t> items(scores.size());
  std::iota(items.begin(), items.end(), 0);
  const auto better = [&](int64_t a, int64_t b) {
    const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  List list;
  std::partial_sort_copy(items.begin(), items.end(), list.begin(), list.end(), better);
  return list;
}

class Beauty {
 public:
  explicit Beauty(const std::filesystem::path& folder)
      : model_((folder / "iclrec_beauty_scores_op11.onnx").string()) {
    std::map<std::string, Tensor> arrays;
    for (auto& [name, tensor] : io::read_arrays(folder / "iclrec_beauty_eval.npz"))
      arrays[name] = tensor;
    ids_ = arrays["input_ids"].integers();
    answers_ = arrays["answer"].integers();
    seen_ = arrays["seen_flat"].integers();
    seen_offsets_ = arrays["seen_off"].integers();
  }

  size_t users() const { return answers_.size(); }

  Recommended recommend(const std::string& mode) const {
    CompileOptions options;
    options.mode = mode;
    Session session(Engine::from_bytes(compile_to_bytes(model_, options)), {.threads = 2});
    constexpr size_t kBatch = 64, kLength = 50;
    Recommended result;
    for (size_t first = 0; first < users(); first += kBatch) {
      const size_t rows = std::min(kBatch, users() - first);
      const auto begin = ids_.begin() + static_cast<std::ptrdiff_t>(first * kLength);
      const std::vector<int64_t> batch(begin, begin + static_cast<std::ptrdiff_t>(rows * kLength));
      const std::vector<int64_t> shape{static_cast<int64_t>(rows), kLength};
      const Input input = i64_input("input_ids", shape, batch);
      const Output scores = session.run({&input, 1})[0];
      const auto items = static_cast<size_t>(scores.shape[1]);
      for (size_t r = 0; r < rows; ++r) {
        const auto* row = static_cast<const float*>(scores.data) + r * items;
        add({row, row + items}, first + r, result);
      }
    }
    result.metrics.divide(static_cast<double>(users()));
    return result;
  }

 private:
  void add(std::vector<float> scores, size_t user, Recommended& result) const {
    for (int64_t s = seen_offsets_[user]; s < seen_offsets_[user + 1]; ++s)
      scores[static_cast<size_t>(seen_[static_cast<size_t>(s)])] = 0;
    const float score = scores[static_cast<size_t>(answers_[user])];
    result.metrics.add(std::count_if(scores.begin(), scores.end(),
                                     [score](float other) { return other > score; }));
    result.lists.push_back(first_of(scores));
  }

  std::string model_;
  std::vector<int64_t> ids_, answers_, seen_, seen_offsets_;
};

// The share of users whose list is another one: in any place, or in the items it holds.
struct Changes {
  double order = 0, items = 0;
};

Changes changes(const std::vector<List>& lists, const std::vector<List>& wanted) {
  Changes found;
  for (size_t user = 0; user < lists.size(); ++user) {
    List a = lists[user], b = wanted[user];
    found.order += a != b;
    std::ranges::sort(a);
    std::ranges::sort(b);
    found.items += a != b;
  }
  const auto users = static_cast<double>(lists.size());
  return {found.order / users, found.items / users};
}

TEST(IclrecBeauty, KeepsThePublishedHitRatesAndNdcgInEveryMode) {
  const std::filesystem::path folder = kTrained / "iclrec_beauty";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIP: " << folder << " is not here";
  const Beauty beauty(folder);
  std::vector<List> in_f32;
  for (const char* mode : {"fp32", "fp16", "bf16"}) {
    const Recommended found = beauty.recommend(mode);
    if (in_f32.empty()) in_f32 = found.lists;
    const Changes changed = changes(found.lists, in_f32);
    const Metrics& m = found.metrics;
    std::printf(
        "| iclrec_beauty | %s | HIT@5 %.4f, NDCG@5 %.4f, HIT@10 %.4f, NDCG@10 %.4f | %.1f %% of "
        "%zu "
        "users, %.1f %% in other items |\n",
        mode, m.hit5, m.ndcg5, m.hit10, m.ndcg10, 100 * changed.order, beauty.users(),
        100 * changed.items);
    // Published to four digits; 16 bits may move a few users across a border.
    const double limit = std::string_view(mode) == "fp32" ? 0.00005 : 0.0005;
    EXPECT_NEAR(m.hit5, 0.0500, limit) << mode;
    EXPECT_NEAR(m.ndcg5, 0.0326, limit) << mode;
    EXPECT_NEAR(m.hit10, 0.0744, limit) << mode;
    EXPECT_NEAR(m.ndcg10, 0.0403, limit) << mode;
  }
}

}  // namespace
}  // namespace vernier::test
