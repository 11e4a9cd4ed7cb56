// fp64_rate: how fast verify's FP64 evaluations are beside the machine's product of doubles
// (docs/experiments/0045-fp64-on-a-gpu.md). Usage: fp64_rate MODEL.onnx ROWS LENGTH
//          [--device cpu] [--rounds 5]
// Prints the rate of one large product, and of R and F of the model at that size. Operations are
// those of the products, attention's included.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "compile/pipeline.h"
#include "core/fp64_device.h"
#include "evaluate/domain.h"
#include "evaluate/plan_evaluator.h"
#include "evaluate/rows.h"
#include "evaluate/samples.h"
#include "onnx/import.h"
#include "ops/evaluate.h"
#include "reference/evaluate_anywhere.h"
#include "rules/rules.h"
#include "runtime/backends.h"

namespace {

using namespace vernier;  // NOLINT(google-build-using-namespace): a program
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of products of doubles that are as large as a layer's.
double product_rate(int rounds) {
  constexpr int64_t kSize = 4096;
  const bool on_device = fp64_device() != nullptr;
  const int64_t rows = on_device ? 2 * kSize : kSize / 4, size = on_device ? kSize : kSize / 2;
  EvalTensor a(DType::kF64, {rows, size}), b(DType::kF64, {size, size});
  std::ranges::fill(a.f, 0.5);
  std::ranges::fill(b.f, 0.25);
  if (on_device) {
    a = fp64_device()->copied(a);
    b = fp64_device()->copied(b);
  }
  const auto multiply = [&](int times) {
    const auto begin = Clock::now();
    EvalTensor y;
    for (int i = 0; i < times; ++i) {
      y = EvalTensor::shaped(DType::kF64, {rows, size});
      const std::vector<const EvalTensor*> in{&a, &b};
      reference::evaluate_anywhere(OpKind::kMatMul, {{}, in, {&y, 1}, Rounding()});
    }
    if (on_device) fp64_device()->difference(y, y);  // waits
    return seconds_since(begin);
  };
  multiply(1);
  const double flops = 2.0 * static_cast<double>(rows * size) * static_cast<double>(size);
  return flops * rounds / multiply(rounds);
}

// Operations of the plan's products at these sizes.
double product_flops(const plan::Plan& plan, const std::map<std::string, int64_t>& symbols) {
  double flops = 0;
  const auto shape_of = [&](int32_t value) {
    Shape shape;
    if (value == plan::kNone) return shape;
    for (const Dim& d : plan.value(value).shape) shape.push_back(d.evaluate(symbols));
    return shape;
  };
  for (const plan::Step& step : plan.steps) {
    if ((flags(step.op) & kProduct) == 0) continue;
    std::vector<Shape> in, out;
    std::vector<DType> in_types, out_types;
    for (const int32_t value : step.inputs) {
      in.push_back(shape_of(value));
      in_types.push_back(value == plan::kNone ? DType::kUndefined : plan.value(value).dtype);
    }
    for (const plan::PackedInput& packed : step.packed) {
      const plan::Blob& blob = plan.blob(packed.blob);
      if (in.size() <= packed.at()) in.resize(packed.at() + 1), in_types.resize(packed.at() + 1);
      in[packed.at()] = blob.shape;
      in_types[packed.at()] = blob.dtype;
    }
    for (const int32_t value : step.outputs) {
      out.push_back(shape_of(value));
      out_types.push_back(value == plan::kNone ? DType::kUndefined : plan.value(value).dtype);
    }
    flops += rules::cost(step.op, {step.attrs, in, out, in_types, out_types}).flops;
  }
  return flops;
}

// The best of `rounds` runs behind one that is not timed, in seconds.
template <class Run>
double best_of(int rounds, const Run& run) {
  run();
  double best = HUGE_VAL;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = Clock::now();
    run();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

int measure(const std::string& path, int64_t rows, int64_t length, const std::string& device,
            int rounds) {
  constexpr double kGiga = 1e9;
  const backend::Backend& backend = runtime::backend_named(device, "--device");
  const WithFp64Device use(backend.fp64_device ? backend.fp64_device() : nullptr);
  const double peak = product_rate(rounds);
  fmt::print("{}: one product of doubles {:.0f} GFLOP/s\n", device, peak / kGiga);

  const auto model = onnx::import_model(path);
  CompileOptions options;
  options.device = device;
  const plan::Plan plan = compiler::plan_of(*model, options, plan::PlanOptions::Constants::kExact);
  const std::string batch = evaluate::batch_symbol(plan);
  const evaluate::BatchAxes axes = evaluate::axes_of_symbol(plan, batch);
  const auto sizes = evaluate::sizes_of_row(plan, batch, length);
  const evaluate::Domains domains = compiler::domains_of(*model);
  std::vector<NamedTensors> samples;
  for (int64_t r = 0; r < rows; ++r)
    samples.push_back(sample_row(domains, axes, sizes, {1, r, evaluate::RowFill::kAll}));
  const NamedTensors inputs = join_rows(samples, axes);
  std::vector<Tensor> ordered;
  for (const std::string& name : plan.input_names) ordered.push_back(*evaluate::find(inputs, name));
  const double flops = product_flops(plan, evaluate::bind_symbols(plan, ordered));

  ConstantCache constants(UINT64_MAX);
  const double r = best_of(rounds, [&] {
    ops::EvaluateOptions shared;
    shared.constants = &constants;
    ops::evaluate(*model, {inputs.begin(), inputs.end()}, shared);
  });
  const double f = best_of(rounds, [&] {
    evaluate::PlanEvaluator(plan, backend, {.constants = &constants}).run(ordered);
  });
  for (const auto& [what, seconds] : {std::pair{"R", r}, std::pair{"F", f}}) {
    fmt::print(
        "{}: {} of {} rows of length {}: {:.1f} GFLOP in {:.3f} s, {:.0f} GFLOP/s, {:.2f} of "
        "the product's rate\n",
        device, what, rows, length, flops / kGiga, seconds, flops / seconds / kGiga,
        flops / seconds / peak);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> plain;
  std::string device = "cpu";
  int rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--device" && i + 1 < argc)
      device = argv[++i];
    else if (argument == "--rounds" && i + 1 < argc)
      rounds = std::max(1, std::atoi(argv[++i]));
    else
      plain.push_back(argument);
  }
  if (plain.size() != 3) {
    fmt::print(stderr, "usage: fp64_rate MODEL.onnx ROWS LENGTH [--device cpu] [--rounds 5]\n");
    return 2;
  }
  try {
    return measure(plain[0], std::atoll(plain[1].c_str()), std::atoll(plain[2].c_str()), device,
                   rounds);
  } catch (const std::exception& error) {
    fmt::print(stderr, "fp64_rate: error: {}\n", error.what());
    return 2;
  }
}
