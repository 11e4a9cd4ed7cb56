// bench_floor: the time below which no engine of a BERT-like encoder can come on this machine and
// library: its GEMMs through oneDNN with packed weights, distinct per layer, and its attention
// products as batched GEMMs, without softmax, norms, residuals or embeddings.
//   bench_floor --layers 6 --hidden 384 --heads 12 --ffn 1536 --batch 1 --length 128 [--threads 2]
// Prints JSON: the milliseconds of every pass, and oneDNN's version. Used by bench/peers/cpu.py.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "core/random.h"

namespace {

using dnnl::memory;

struct Options {
  int64_t layers = 0, hidden = 0, heads = 0, ffn = 0, batch = 1, length = 128;
  int threads = 1;
  double seconds = 1;
  size_t runs = 10;
};

constexpr int kWarmUpRuns = 3;

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}
dnnl::stream& stream() {
  static dnnl::stream in_order(engine());
  return in_order;
}

memory::desc plain(const memory::dims& dims) {
  const auto tag = dims.size() == 2 ? memory::format_tag::ab : memory::format_tag::abc;
  return {dims, memory::data_type::f32, tag};
}

// Values as wide as trained ones; zeros or denormals would run at another speed.
memory filled(const memory::desc& desc, double deviation, uint64_t seed) {
  memory array(desc, engine());
  auto* values = static_cast<float*>(array.get_data_handle());
  vernier::SplitMix random(seed);
  for (size_t i = 0; i < desc.get_size() / sizeof(float); ++i)
    values[i] = static_cast<float>(deviation * (2 * random.uniform() - 1));
  return array;
}

struct Step {
  dnnl::matmul run;
  std::unordered_map<int, memory> arguments;
};

// y [m, n] = x [m, k] · w [k, n] + b, then GELU. The weight lies in the layout that oneDNN likes.
Step linear(const memory& x, const memory& y, bool gelu, uint64_t seed) {
  const int64_t k = x.get_desc().dims()[1], n = y.get_desc().dims()[1];
  const memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any);
  dnnl::primitive_attr attr;
  if (gelu) {
    dnnl::post_ops post;
    post.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    attr.set_post_ops(post);
  }
  const dnnl::matmul::primitive_desc description(
      dnnl::matmul::desc(x.get_desc(), any, plain({1, n}), y.get_desc()), attr, engine());
  memory weight = filled(plain({k, n}), 1 / std::sqrt(static_cast<double>(k)), seed);
  memory packed(description.weights_desc(), engine());
  dnnl::reorder(weight, packed).execute(stream(), weight, packed);
  stream().wait();
  return {dnnl::matmul(description),
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_WEIGHTS, packed},
           {DNNL_ARG_BIAS, filled(plain({1, n}), 0.05, seed + 1)},
           {DNNL_ARG_DST, y}}};
}

// y [b, m, n] = x [b, m, k] · w [b, k, n]
Step product(const memory& x, const memory& w, const memory& y) {
  const dnnl::matmul::primitive_desc description(
      dnnl::matmul::desc(x.get_desc(), w.get_desc(), y.get_desc()), engine());
  return {dnnl::matmul(description), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}}};
}

// All steps of the encoder. Layers share activations: only their weights are their own.
std::vector<Step> encoder(const Options& o) {
  const int64_t tokens = o.batch * o.length, size = o.hidden / o.heads, rows = o.batch * o.heads;
  const memory x = filled(plain({tokens, o.hidden}), 1, 1);
  const memory qkv(plain({tokens, 3 * o.hidden}), engine());
  const memory out(plain({tokens, o.hidden}), engine()), wide(plain({tokens, o.ffn}), engine());
  const memory q = filled(plain({rows, o.length, size}), 1, 2);
  const memory k = filled(plain({rows, size, o.length}), 1, 3);
  const memory v = filled(plain({rows, o.length, size}), 1, 4);
  const memory scores(plain({rows, o.length, o.length}), engine());
  const memory probabilities = filled(plain({rows, o.length, o.length}), 1, 5);
  const memory context(plain({rows, o.length, size}), engine());
  std::vector<Step> steps;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    const auto seed = static_cast<uint64_t>(100 * layer);
    steps.push_back(linear(x, qkv, false, seed + 10));
    steps.push_back(product(q, k, scores));
    steps.push_back(product(probabilities, v, context));
    steps.push_back(linear(x, out, false, seed + 20));
    steps.push_back(linear(x, wide, true, seed + 30));
    steps.push_back(linear(wide, out, false, seed + 40));
  }
  return steps;
}

double pass_ms(const std::vector<Step>& steps) {
  const auto start = std::chrono::steady_clock::now();
  for (const Step& step : steps) step.run.execute(stream(), step.arguments);
  stream().wait();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

nlohmann::json measure(const Options& options) {
  omp_set_num_threads(options.threads);
  const std::vector<Step> steps = encoder(options);
  for (int i = 0; i < kWarmUpRuns; ++i) pass_ms(steps);
  std::vector<double> times;
  double total_ms = 0;
  while (times.size() < options.runs || total_ms < options.seconds * 1e3) {
    times.push_back(pass_ms(steps));
    total_ms += times.back();
  }
  const dnnl_version_t& v = *dnnl_version();
  return {{"times_ms", times},
          {"onednn", std::to_string(v.major) + "." + std::to_string(v.minor) + "." +
                         std::to_string(v.patch)}};
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The GEMMs and attention products of a BERT-like encoder through oneDNN");
  Options o;
  const auto size = [&app](const char* name, int64_t& value) {
    return app.add_option(name, value)->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  };
  size("--layers", o.layers)->required();
  size("--hidden", o.hidden)->required();
  size("--heads", o.heads)->required();
  size("--ffn", o.ffn)->required();
  size("--batch", o.batch);
  size("--length", o.length);
  app.add_option("--threads", o.threads)->check(CLI::Range(1, 1024));
  app.add_option("--seconds", o.seconds)->check(CLI::Range(0.0, 3600.0));
  app.add_option("--runs", o.runs)->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);
  std::cout << measure(o).dump(2) << "\n";
  return 0;
}
