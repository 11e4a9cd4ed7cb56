// Ranking an evaluation set: see ranking.h.
#include "demo/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "io/npz.h"
#include "vernier/error.h"
#include "vernier/printable.h"

namespace vernier::demo {
namespace {

namespace fs = std::filesystem;

constexpr double kLimit = 1e-5;  // of |E - R| / (1 + |R|), every score; never below the noise
constexpr int kReadable = 3;     // queries that are shown in words
constexpr size_t kTextWidth = 64;
constexpr const char* kMask = "attention_mask";

// Indices of scores from the highest to the lowest; equal scores keep their order.
std::vector<size_t> best_first(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return scores[i]; });
  return order;
}

struct EvaluationSet {
  NamedTensors inputs;  // [queries · candidates, length] each
  Tensor right, bm25, reference;
  int64_t queries = 0, candidates = 0;
};

const Tensor& array(const NamedTensors& arrays, const std::string& name) {
  for (const auto& [key, tensor] : arrays) {
    if (key == name) return tensor;
  }
  throw Error(ErrorCode::kInput, "eval.npz has no array '" + name + "'; make it again with " +
                                     "tools/train_demo_reranker.py");
}

EvaluationSet read_set(const fs::path& folder, const std::vector<std::string>& input_names) {
  const NamedTensors arrays = io::read_arrays(folder / "eval.npz");
  EvaluationSet set;
  for (const std::string& name : input_names) set.inputs.emplace_back(name, array(arrays, name));
  set.right = array(arrays, "labels");
  set.bm25 = array(arrays, "bm25");
  set.reference = array(arrays, "logits");
  set.queries = set.right.elems();
  set.candidates = set.queries > 0 ? set.bm25.elems() / set.queries : 0;
  const int64_t rows = set.queries * set.candidates;
  const bool fits = rows > 0 && set.reference.elems() == rows &&
                    std::ranges::all_of(set.inputs, [&](const auto& input) {
                      return input.second.rank() == 2 && input.second.shape()[0] == rows;
                    });
  if (!fits) {
    throw Error(ErrorCode::kInput, "eval.npz: labels [" + std::to_string(set.queries) +
                                       "], bm25, logits and the inputs do not have the same rows");
  }
  return set;
}

// The rows of one query, cut to its longest passage.
NamedTensors rows_of_query(const EvaluationSet& set, int64_t query) {
  const int64_t first = query * set.candidates, width = set.inputs[0].second.shape()[1];
  int64_t length = 1;
  const Tensor& mask = array(set.inputs, kMask);
  for (int64_t r = first; r < first + set.candidates; ++r) {
    for (int64_t at = length; at < width; ++at) {
      if (mask.integer_at(r * width + at) != 0) length = at + 1;
    }
  }
  NamedTensors rows;
  for (const auto& [name, tensor] : set.inputs) {
    std::vector<int64_t> values;
    for (int64_t r = first; r < first + set.candidates; ++r) {
      for (int64_t at = 0; at < length; ++at) values.push_back(tensor.integer_at(r * width + at));
    }
    rows.emplace_back(name, Tensor::from(tensor.dtype(), {set.candidates, length},
                                         std::span<const int64_t>(values)));
  }
  return rows;
}

// Rank of `right` among the scores; a tie counts half.
double rank_of(const std::vector<double>& scores, int64_t right) {
  double rank = 1;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (static_cast<int64_t>(i) == right) continue;
    if (scores[i] > scores[right]) rank += 1;
    if (scores[i] == scores[right]) rank += 0.5;
  }
  return rank;
}

std::vector<double> scores_of(const Tensor& all, int64_t query, int64_t candidates) {
  std::vector<double> scores;
  for (int64_t i = query * candidates; i < (query + 1) * candidates; ++i)
    scores.push_back(all.float_at(i));
  return scores;
}

std::string shortened(std::string text) {
  if (text.size() > kTextWidth) text = text.substr(0, kTextWidth - 3) + "...";
  return text;
}

// One query in words: the model's first three passages, with their places in BM25's order.
std::string shown(const nlohmann::json& example, const std::vector<double>& scores) {
  const auto& passages = example.at("passages");
  std::vector<double> bm25;
  for (const auto& passage : passages) bm25.push_back(passage.at("bm25").get<double>());
  std::string text = fmt::format("\n\"{}\"\n", example.at("query").get<std::string>());
  const std::vector<size_t> order = best_first(scores);
  for (size_t place = 0; place < std::min<size_t>(3, order.size()); ++place) {
    const size_t i = order[place];
    text +=
        fmt::format("  {}. {:7.3f}  BM25: {:>2}.  {:<5}  {}  {}\n", place + 1, scores[i],
                    static_cast<int>(rank_of(bm25, static_cast<int64_t>(i))),
                    static_cast<int64_t>(i) == example.at("right").get<int64_t>() ? "right" : "",
                    passages[i].at("name").get<std::string>(),
                    shortened(passages[i].at("text").get<std::string>()));
  }
  return text;
}

double timed_ms(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Adds the distance of one query's scores from FP64's.
void compare(const std::vector<double>& scores, const std::vector<double>& reference, double noise,
             Ranking& ranking) {
  ranking.changed += best_first(scores) != best_first(reference);
  for (size_t i = 0; i < scores.size(); ++i) {
    const double difference = std::abs(scores[i] - reference[i]),
                 scale = 1 + std::abs(reference[i]);
    const double error = difference / scale;
    ranking.worst = std::isnan(error) ? INFINITY : std::max(ranking.worst, error);
    ranking.within = ranking.within && difference <= std::max(kLimit * scale, noise);
  }
}

}  // namespace

bool has_evaluation_set(const fs::path& folder) {
  return fs::exists(folder / "eval.npz") && fs::exists(folder / "examples.json");
}

Ranking rank_evaluation_set(const RunEngine& run, const fs::path& folder,
                            const std::vector<std::string>& input_names, double noise) {
  const EvaluationSet set = read_set(folder, input_names);
  std::ifstream file(folder / "examples.json");
  const nlohmann::json examples = nlohmann::json::parse(file);
  const int64_t readable = std::min<int64_t>(kReadable, static_cast<int64_t>(examples.size()));
  Ranking ranking{.examples = {}, .queries = set.queries, .candidates = set.candidates};
  std::vector<double> times_ms;
  for (int64_t query = 0; query < set.queries; ++query) {
    const NamedTensors rows = rows_of_query(set, query);
    if (query == 0) run(rows);  // warm
    NamedTensors outputs;
    times_ms.push_back(timed_ms([&] { outputs = run(rows); }));
    const std::vector<double> scores = scores_of(outputs.front().second, 0, set.candidates);
    const std::vector<double> reference = scores_of(set.reference, query, set.candidates);
    const int64_t right = set.right.integer_at(query);
    ranking.mrr_bm25 += 1 / rank_of(scores_of(set.bm25, query, set.candidates), right);
    ranking.mrr_reference += 1 / rank_of(reference, right);
    ranking.mrr_engine += 1 / rank_of(scores, right);
    compare(scores, reference, noise, ranking);
    if (query < readable) ranking.examples += shown(examples[query], scores);
  }
  for (double* mrr : {&ranking.mrr_bm25, &ranking.mrr_reference, &ranking.mrr_engine})
    *mrr /= static_cast<double>(set.queries);
  std::ranges::sort(times_ms);
  ranking.median_ms = times_ms[times_ms.size() / 2];
  return ranking;
}

std::string to_text(const Ranking& ranking) {
  return ranking.examples +
         fmt::format(
             "\n{} with {} each\n"
             "  mean reciprocal rank: BM25 {:.4f}, model in FP64 {:.4f}, engine in FP32 {:.4f} "
             "({:+.4f} over BM25)\n"
             "  orders that are not FP64's: {}; largest error {:.1e}·(1+|ref|); {:.2f} ms per "
             "query "
             "(median)\n",
             counted(ranking.queries, "query", "queries"), counted(ranking.candidates, "passage"),
             ranking.mrr_bm25, ranking.mrr_reference, ranking.mrr_engine,
             ranking.mrr_engine - ranking.mrr_bm25, ranking.changed, ranking.worst,
             ranking.median_ms);
}

}  // namespace vernier::demo
