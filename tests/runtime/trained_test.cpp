// Trained models whose task is an oracle: a GPT that sorts, and a recommender with published
// metrics. They are other people's and not in this repository: SKIP where they are absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

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

TEST(NanoGptSort, All729WordsComeOutSorted) {
  const std::filesystem::path model = kTrained / "nano_gpt_sort/nano_gpt_sort_op13.onnx";
  if (!std::filesystem::exists(model)) GTEST_SKIP() << "SKIP: " << model << " is not here";
  constexpr int64_t kWords = 729, kLetters = 6;
  Session session(
      Engine::from_bytes(compile_to_bytes(model.string(), {.shapes = "batch=1..729,time=1..11"})),
      {.threads = 2});
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
  std::printf("nano_gpt_sort: %d of %d words sorted\n", sorted, static_cast<int>(kWords));
  EXPECT_EQ(sorted, kWords);
}

struct Metrics {
  double hit5 = 0, ndcg5 = 0, hit10 = 0, ndcg10 = 0;
  void add(int64_t rank) {
    const double gain = 1 / std::log2(static_cast<double>(rank) + 2);
    if (rank < 5) hit5 += 1, ndcg5 += gain;
    if (rank < 10) hit10 += 1, ndcg10 += gain;
  }
};

TEST(IclrecBeauty, GivesThePublishedHitRatesAndNdcg) {
  const std::filesystem::path folder = kTrained / "iclrec_beauty";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIP: " << folder << " is not here";
  std::map<std::string, Tensor> arrays;
  for (auto& [name, tensor] : io::read_arrays(folder / "iclrec_beauty_eval.npz"))
    arrays[name] = tensor;
  const std::vector<int64_t> ids = arrays["input_ids"].integers(),
                             answers = arrays["answer"].integers();
  const std::vector<int64_t> seen = arrays["seen_flat"].integers(),
                             seen_offsets = arrays["seen_off"].integers();
  constexpr int64_t kBatch = 64, kLength = 50;
  const auto users = static_cast<int64_t>(answers.size());
  Session session(
      Engine::from_bytes(compile_to_bytes((folder / "iclrec_beauty_scores_op11.onnx").string())),
      {.threads = 2});
  Metrics metrics;
  for (int64_t first = 0; first < users; first += kBatch) {
    const int64_t rows = std::min(kBatch, users - first);
    const std::vector<int64_t> batch(ids.begin() + first * kLength,
                                     ids.begin() + (first + rows) * kLength);
    const std::vector<int64_t> shape{rows, kLength};
    const Input input = i64_input("input_ids", shape, batch);
    const Output scores = session.run({&input, 1})[0];
    const int64_t items = scores.shape[1];
    for (int64_t r = 0; r < rows; ++r) {
      const auto user = static_cast<size_t>(first + r);
      std::vector<float> row(static_cast<const float*>(scores.data) + r * items,
                             static_cast<const float*>(scores.data) + (r + 1) * items);
      for (int64_t s = seen_offsets[user]; s < seen_offsets[user + 1]; ++s)
        row[static_cast<size_t>(seen[static_cast<size_t>(s)])] = 0;
      const float score = row[static_cast<size_t>(answers[user])];
      metrics.add(
          std::count_if(row.begin(), row.end(), [score](float other) { return other > score; }));
    }
  }
  const auto n = static_cast<double>(users);
  std::printf("iclrec_beauty: HIT@5 %.4f NDCG@5 %.4f HIT@10 %.4f NDCG@10 %.4f over %lld users\n",
              metrics.hit5 / n, metrics.ndcg5 / n, metrics.hit10 / n, metrics.ndcg10 / n,
              static_cast<long long>(users));
  // Published to four digits.
  EXPECT_NEAR(metrics.hit5 / n, 0.0500, 0.00005);
  EXPECT_NEAR(metrics.ndcg5 / n, 0.0326, 0.00005);
  EXPECT_NEAR(metrics.hit10 / n, 0.0744, 0.00005);
  EXPECT_NEAR(metrics.ndcg10 / n, 0.0403, 0.00005);
}

}  // namespace
}  // namespace vernier::test
