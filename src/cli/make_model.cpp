// vernier make-model: a Transformer as an exporter would write it, with seeded weights, for speed
// work and tests without a download. Contract: docs/commands.md.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/common.h"
#include "io/text_file.h"
#include "make_model/architectures.h"
#include "vernier/error.h"
#include "vernier/nearest.h"
#include "vernier/printable.h"

namespace vernier::cli {
namespace {

using make_model::Geometry;
using make_model::TorchGraph;

struct Architecture {
  const char* name;
  Geometry geometry;
};

// family, layers, hidden, heads, ffn, vocabulary (vit: classes), positions. The first of a family
// is what its bare name means.
const std::array kArchitectures{
    Architecture{"bert-base", {"bert", 12, 768, 12, 3072, 30522, 512}},
    Architecture{"bert-mini", {"bert", 6, 384, 12, 1536, 30522, 512}},
    Architecture{"bert-large", {"bert", 24, 1024, 16, 4096, 30522, 512}},
    Architecture{"xlmr-base", {"xlmr", 12, 768, 12, 3072, 250002, 512}},
    Architecture{"bge-reranker-large", {"xlmr", 24, 1024, 16, 4096, 250002, 512}},
    Architecture{"minilm-l6", {"minilm", 6, 384, 12, 1536, 30522, 512}},
    Architecture{"gpt2-small", {"gpt2", 12, 768, 12, 3072, 50257, 1024}},
    Architecture{"vit-base", {"vit", 12, 768, 12, 3072, 1000, 197}},
};

// To catch typing errors: beyond these a model has more weights than a machine can hold.
constexpr int64_t kMaxLayers = 1000, kMaxHidden = 1 << 16, kMaxRows = 1 << 24;
constexpr int64_t kLeastVocabulary = 4;  // padding and the special tokens

// The outlier channels lie at these shares of the hidden size.
constexpr std::array kOutlierShares{0.125, 0.375, 0.75};
constexpr double kMostOutliers = 1e6;

struct Options {
  std::string architecture, output;
  std::optional<int64_t> layers, hidden, heads, ffn, vocabulary, positions;
  uint64_t seed = 1;
  double outliers = 8;
  bool external = false, json = false;
};

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

Geometry named(const std::string& name) {
  std::vector<std::string> known;
  for (const Architecture& row : kArchitectures) {
    if (name == row.name || name == row.geometry.family) return row.geometry;
    known.emplace_back(row.name);
    known.push_back(row.geometry.family);
  }
  const std::string meant = did_you_mean(name, known);
  if (!meant.empty()) fail("there is no architecture '" + name + "'" + meant);
  std::string sizes;
  for (const Architecture& row : kArchitectures)
    sizes += (sizes.empty() ? "" : ", ") + std::string(row.name);
  fail("there is no architecture '" + name +
       "'; there are the families bert, xlmr, minilm, gpt2, vit and the sizes " + sizes);
}

void check_range(const char* option, int64_t value, int64_t minimum, int64_t maximum) {
  if (value >= minimum && value <= maximum) return;
  fail(fmt::format("{} {}: expected {} to {}", option, value, minimum, maximum));
}

void check(const Geometry& g) {
  check_range("--layers", g.layers, 1, kMaxLayers);
  check_range("--hidden", g.hidden, 1, kMaxHidden);
  check_range("--heads", g.heads, 1, kMaxHidden);
  check_range("--ffn", g.ffn, 1, 16 * kMaxHidden);
  check_range("--vocab", g.vocabulary, g.family == "vit" ? 1 : kLeastVocabulary, kMaxRows);
  check_range("--positions", g.positions, 1, kMaxRows);
  if (g.hidden % g.heads != 0) {
    int64_t fitting = g.heads;
    while (g.hidden % fitting != 0) --fitting;
    fail(
        fmt::format("--hidden {} does not divide among --heads {}: every head has the same "
                    "number of channels. Give --heads {} or another --hidden",
                    g.hidden, g.heads, fitting));
  }
}

Geometry geometry_of(const Options& options) {
  Geometry g = named(options.architecture);
  if (g.family == "vit" && options.positions) {
    fail(
        "--positions: a ViT has one position per patch of its 224x224 pixels, 197 with its "
        "class token; leave the option out");
  }
  g.layers = options.layers.value_or(g.layers);
  g.ffn = options.ffn.value_or(options.hidden ? 4 * *options.hidden : g.ffn);
  g.hidden = options.hidden.value_or(g.hidden);
  g.heads = options.heads.value_or(g.heads);
  g.vocabulary = options.vocabulary.value_or(g.vocabulary);
  g.positions = options.positions.value_or(g.positions);
  check(g);
  return g;
}

std::vector<int64_t> outlier_channels(int64_t hidden) {
  std::vector<int64_t> channels;
  for (double share : kOutlierShares)
    channels.push_back(static_cast<int64_t>(share * static_cast<double>(hidden)));
  return channels;
}

// What the weights are, for the model's documentation.
std::string description(const Options& options, const Geometry& g) {
  const bool post_norm = g.family != "gpt2" && g.family != "vit";
  return fmt::format(
      "{}: {}, hidden {}, {}, ffn {}; seeded normal weights (seed {}), no training. "
      "Outlier channels {} of the hidden size: {} are {} times as large",
      options.architecture, counted(g.layers, "layer"), g.hidden, counted(g.heads, "head"), g.ffn,
      options.seed, fmt::join(outlier_channels(g.hidden), ", "),
      post_norm ? "the gains of their LayerNorms"
                : "the columns of the weights that write them into the residual stream",
      options.outliers);
}

void make_graph(TorchGraph& graph, const Geometry& g) {
  if (g.family == "gpt2") return make_model::make_gpt2(graph, g);
  if (g.family == "vit") return make_model::make_vit(graph, g);
  make_model::make_encoder(graph, g);
}

int make_model(const Options& options) {
  const Geometry g = geometry_of(options);
  io::check_can_write(options.output, "model");
  const std::string text = description(options, g);
  onnx::ModelWriter writer(text, make_model::kOpset, options.seed);
  TorchGraph graph(writer, outlier_channels(g.hidden), options.outliers);
  make_graph(graph, g);
  const Clock clock;
  onnx::SavedModel saved;
  {
    Progress progress("writing " + options.output);
    int tenths = 0;
    const auto say = [&](double share) {
      if (share >= 1 || static_cast<int>(share * 10) <= tenths) return;
      tenths = static_cast<int>(share * 10);
      progress.stage(fmt::format("{} %", 10 * tenths));
    };
    saved = writer.save(options.output, {.external = options.external, .progress = say});
  }
  if (options.json) {
    print_json({{"model", options.output},
                {"description", text},
                {"layers", g.layers},
                {"hidden", g.hidden},
                {"heads", g.heads},
                {"ffn", g.ffn},
                {"vocab", g.vocabulary},
                {"onnx_nodes", writer.num_nodes()},
                {"weight_bytes", writer.weight_bytes()},
                {"model_bytes", saved.model_bytes},
                {"data_file", saved.data_file},
                {"data_bytes", saved.data_bytes},
                {"ms", clock.ms()}});
    return 0;
  }
  print_line(fmt::format("{}: {}", options.output, text));
  print_line(fmt::format("{}, {:.1f} MB of weights{}, {:.2f} s",
                         counted(static_cast<int64_t>(writer.num_nodes()), "ONNX node"),
                         static_cast<double>(writer.weight_bytes()) / 1e6,
                         saved.data_file.empty() ? "" : " in " + saved.data_file + " beside it",
                         clock.ms() / 1e3));
  return 0;
}

}  // namespace

void add_make_model(CLI::App& app, Run& chosen) {
  CLI::App* command = app.add_subcommand(
      "make-model", "Write a Transformer as ONNX, with seeded weights, as PyTorch would export it");
  const auto options = std::make_shared<Options>();
  command
      ->add_option("ARCH", options->architecture,
                   "bert, xlmr, minilm, gpt2, vit; or bert-mini (6x384), bert-base, bert-large, "
                   "xlmr-base, bge-reranker-large, minilm-l6, gpt2-small, vit-base")
      ->required();
  command->add_option("-o,--output", options->output, "ONNX file to write")->required();
  command->add_option("--layers", options->layers, "Transformer layers");
  command->add_option("--hidden", options->hidden, "channels of the residual stream");
  command->add_option("--heads", options->heads, "attention heads; divides --hidden");
  command->add_option("--ffn", options->ffn,
                      "width inside a layer; 4 x --hidden where only that is given");
  command->add_option("--vocab", options->vocabulary, "rows of the word table; of vit: classes");
  command->add_option("--positions", options->positions, "longest sequence");
  command
      ->add_option("--outliers", options->outliers,
                   "how many times as large the outlier channels are")
      ->check(CLI::Range(1.0, kMostOutliers))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the weights")->capture_default_str();
  command->add_flag("--external", options->external,
                    "weights in a file beside the model, as is usual from 1 GiB on");
  command->add_flag("--json", options->json, "print the result as JSON");
  command->footer(
      "Weights are normally distributed, as wide as trained ones; three channels are outliers, "
      "which the output and\n"
      "the model's doc_string name. The same command writes the same bytes.\n"
      "Examples:\n"
      "  vernier make-model bert-mini -o mini.onnx\n"
      "  vernier make-model bge-reranker-large -o reranker.onnx\n"
      "  vernier make-model gpt2 -o tiny.onnx --layers 2 --hidden 128 --heads 4 --vocab 1000 "
      "--seed 7\n"
      "  vernier make-model xlmr -o deep.onnx --layers 24 --hidden 128 --heads 4 --outliers 32");
  command->callback([options, &chosen] { chosen = [options] { return make_model(*options); }; });
}

}  // namespace vernier::cli
