// bench_floor: the time below which no engine of a BERT-like encoder can come on this machine and
// library: its GEMMs through oneDNN with packed weights, distinct per layer, and its attention
// products as batched GEMMs, without softmax, norms, residuals or embeddings.
//   bench_floor --layers 6 --hidden 384 --heads 12 --ffn 1536 --batch 1 --length 128 [--threads 2]
//               [--type bf16]
// --type bf16: operands and results in bf16, sums in f32, biases f32. Prints JSON: the milliseconds
// of every pass, and oneDNN's version. Used by bench/peers/cpu.py.
#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "core/random.h"

namespace {

using dnnl::memory;

struct Options {
  int64_t layers = 0, hidden = 0, heads = 0, ffn = 0, batch = 1, length = 128;
  int threads = 1;
  memory::data_type type = memory::data_type::f32;
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

using Type = memory::data_type;

memory::desc plain(const memory::dims& dims, Type type) {
  const auto tag = dims.size() == 2 ? memory::format_tag::ab : memory::format_tag::abc;
  return {dims, type, tag};
}

// `from` in the type and layout of `to`.
memory reordered(const memory& from, const memory::desc& to) {
  memory array(to, engine());
  dnnl::reorder(from, array).execute(stream(), const_cast<memory&>(from), array);
  stream().wait();
  return array;
}

// Values as wide as trained ones; zeros or denormals would run at another speed.
memory filled(const memory::desc& desc, double deviation, uint64_t seed) {
  memory array(plain(desc.dims(), Type::f32), engine());
  auto* values = static_cast<float*>(array.get_data_handle());
  vernier::SplitMix random(seed);
  for (size_t i = 0; i < array.get_desc().get_size() / sizeof(float); ++i)
    values[i] = static_cast<float>(deviation * (2 * random.uniform() - 1));
  return reordered(array, desc);
}

struct Step {
  dnnl::matmul run;
  std::unordered_map<int, memory> arguments;
};

// y [m, n] = x [m, k] · w [k, n] + b, then GELU. The weight lies in the layout that oneDNN likes.
Step linear(const memory& x, const memory& y, bool gelu, uint64_t seed) {
  const int64_t k = x.get_desc().dims()[1], n = y.get_desc().dims()[1];
  const Type type = x.get_desc().data_type();
  const memory::desc any({k, n}, type, memory::format_tag::any);
  dnnl::primitive_attr attr;
  if (gelu) {
    dnnl::post_ops post;
    post.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
    attr.set_post_ops(post);
  }
  const memory bias = filled(plain({1, n}, Type::f32), 0.05, seed + 1);
  const dnnl::matmul::primitive_desc description(
      dnnl::matmul::desc(x.get_desc(), any, bias.get_desc(), y.get_desc()), attr, engine());
  const memory weight = filled(plain({k, n}, type), 1 / std::sqrt(static_cast<double>(k)), seed);
  return {dnnl::matmul(description),
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_WEIGHTS, reordered(weight, description.weights_desc())},
           {DNNL_ARG_BIAS, bias},
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
  const auto array = [&o](const memory::dims& dims) { return plain(dims, o.type); };
  const memory x = filled(array({tokens, o.hidden}), 1, 1);
  const memory qkv(array({tokens, 3 * o.hidden}), engine());
  const memory out(array({tokens, o.hidden}), engine()), wide(array({tokens, o.ffn}), engine());
  const memory q = filled(array({rows, o.length, size}), 1, 2);
  const memory k = filled(array({rows, size, o.length}), 1, 3);
  const memory v = filled(array({rows, o.length, size}), 1, 4);
  const memory scores(array({rows, o.length, o.length}), engine());
  const memory probabilities = filled(array({rows, o.length, o.length}), 1, 5);
  const memory context(array({rows, o.length, size}), engine());
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
  const std::map<std::string, Type> types{{"f32", Type::f32}, {"bf16", Type::bf16}};
  app.add_option("--type", o.type)->transform(CLI::CheckedTransformer(types));
  app.add_option("--seconds", o.seconds)->check(CLI::Range(0.0, 3600.0));
  app.add_option("--runs", o.runs)->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);
  std::cout << measure(o).dump(2) << "\n";
  return 0;
}
