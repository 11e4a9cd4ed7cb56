// Rates of a device and floors of steps: see roofline.h.
#include "compile/roofline.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "backend/device_memory.h"
#include "compile/pipeline.h"
#include "compile/tune.h"
#include "core/attrs.h"
#include "core/random.h"
#include "core/threads.h"
#include "core/value_rules.h"
#include "engine/writer.h"
#include "ops/infer.h"
#include "rules/rules.h"

namespace vernier::compiler {
namespace {

constexpr int kRounds = 5;

// The least of a few times: what the device can do.
template <class Run>
double least_ms(const Run& run) {
  double least = run();
  for (int round = 1; round < kRounds; ++round) least = std::min(least, run());
  return least;
}

double copy_rate(backend::Device& device) {
  const backend::OnDevice here(device);
  const size_t bytes = size_t{1} << (device.host_memory() ? 27 : 30);  // more than caches hold
  const backend::DeviceMemory source(device, bytes), target(device, bytes);
  const backend::Execution execution = device.execution();
  const double ms = least_ms([&] {
    const auto first = device.mark(execution.stream);
    if (execution.threads) {
      execution.threads->parallel_for(static_cast<int64_t>(bytes), 4096,
                                      [&](int64_t begin, int64_t end, int) {
                                        std::memcpy(target.data() + begin, source.data() + begin,
                                                    static_cast<size_t>(end - begin));
                                      });
    } else {
      device.copy_on_device(target.data(), source.data(), bytes, execution.stream);
    }
    const auto last = device.mark(execution.stream);
    device.synchronise(execution.stream);
    return device.milliseconds_between(*first, *last);
  });
  return 2 * static_cast<double>(bytes) / ms;
}

// Values as products of a model see them: on zeros a device draws less power and is faster.
Tensor random_array(Shape shape) {
  constexpr int64_t kLeastElems = int64_t{1} << 18;
  const int64_t elems = num_elems(shape);
  return Tensor::filled(DType::kF32, std::move(shape), [elems](std::byte* bytes) {
    auto* values = reinterpret_cast<float*>(bytes);
    in_parallel(elems, kLeastElems, [values](int64_t begin, int64_t end) {
      SplitMix random(1, static_cast<uint64_t>(begin));
      for (int64_t i = begin; i < end; ++i)
        values[i] = static_cast<float>(2 * random.uniform() - 1);
    });
  });
}

struct LargeProduct {
  int64_t m, n, k;
};

std::string mode_of(DType compute) {
  switch (compute) {
    case DType::kF32:
      return "fp32";
    case DType::kTF32:
      return "tf32";
    case DType::kF16:
      return "fp16";
    case DType::kBF16:
      return "bf16";
    default:
      return "";
  }
}

// y = x·w as an engine of one product.
std::shared_ptr<const Engine> product_engine(const LargeProduct& p, const std::string& mode,
                                             const backend::Backend& backend) {
  ir::Graph graph;
  const ir::ValueId x = graph.add_input("x", DType::kF32, {Dim(p.m), Dim(p.k)});
  const ir::ValueId w = graph.add_constant(random_array({p.k, p.n}), "w");
  const ir::NodeId product = graph.add_node(OpKind::kMatMul, {x, w}, encode(NoAttrs{}));
  graph.node(product).name = "product";
  graph.node(product).origins = {
      {.key = "product", .name = "product", .op_type = "MatMul", .part = ""}};
  graph.outputs = {graph.node(product).outputs[0]};
  graph.output_names = {"y"};
  ops::infer_graph(graph);
  CompileOptions options;
  options.device = backend.name;
  options.kernels = &backend;
  options.mode = mode;
  plan::Plan plan = plan_of(graph, options);
  tune(plan, options);
  return Engine::from_bytes(engine::engine_bytes(plan), backend);
}

double product_rate(DType compute, const backend::Backend& backend, int threads, bool on_host) {
  const LargeProduct p = on_host ? LargeProduct{1024, 1024, 1024} : LargeProduct{8192, 4096, 4096};
  const auto engine = product_engine(p, mode_of(compute), backend);
  const Tensor x = random_array({p.m, p.k});
  const std::vector<Input> inputs{{"x", DType::kF32, x.shape(), x.data()}};
  Session session(engine, {.threads = threads});
  session.run(inputs);
  const plan::Plan& plan = engine->impl().plan;
  const double ms = least_ms([&] {
    double products = 0;
    const std::vector<double> times = session.impl().time_steps(inputs);
    for (size_t s = 0; s < times.size(); ++s)
      products += (flags(plan.steps[s].op) & kProduct) != 0 ? times[s] : 0;
    return products;
  });
  return 2 * static_cast<double>(p.m * p.n * p.k) / ms;
}

DType compute_type(const plan::Step& step) {
  return step.numerics.compute == DType::kUndefined ? DType::kF32 : step.numerics.compute;
}

// Of what a step reads of its tables, the part that its indices do not name.
double unread_bytes(const plan::Step& step, const Session::Impl::StepRun& run) {
  double bytes = 0;
  for (const ValueRule& rule : value_rules(step.op, step.attrs, step.inputs.size())) {
    if (rule.kind != ValueRule::Kind::kIndex) continue;
    const backend::TensorArg& table = run.in[rule.table];
    const backend::TensorArg& indices = run.in[rule.input];
    const int64_t rows = table.rank > 0 ? table.shape[0] : 0;
    if (rule.axis != 0 || rows <= indices.elems()) continue;
    bytes += static_cast<double>((rows - indices.elems()) * (table.elems() / rows)) *
             static_cast<double>(size_bytes(table.dtype));
  }
  return bytes;
}

}  // namespace

DeviceRates measure_rates(Session::Impl& session) {
  DeviceRates rates{.copy_bytes_per_ms = copy_rate(*session.device), .flops_per_ms = {}};
  const int threads = session.execution.threads ? session.execution.threads->size() : 0;
  for (const plan::Step& step : session.parts.plan.steps) {
    const DType compute = compute_type(step);
    const bool known = rates.flops_per_ms.contains(compute) || mode_of(compute).empty();
    if ((flags(step.op) & kProduct) == 0 || known) continue;
    rates.flops_per_ms[compute] =
        product_rate(compute, *session.parts.backend, threads, session.device->host_memory());
  }
  return rates;
}

double floor_ms(const Session::Impl& session, size_t index, const DeviceRates& rates) {
  const plan::Step& step = session.parts.plan.steps[index];
  const Session::Impl::StepRun& run = session.shapes.back()->steps[index];
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  const auto add = [](const std::vector<backend::TensorArg>& arguments, std::vector<Shape>& shapes,
                      std::vector<DType>& types) {
    for (const backend::TensorArg& arg : arguments) {
      shapes.emplace_back(arg.shape.begin(), arg.shape.begin() + arg.rank);
      types.push_back(arg.dtype);
    }
  };
  add(run.in, in, in_types);
  add(run.out, out, out_types);
  const rules::Cost cost = rules::cost(step.op, {step.attrs, in, out, in_types, out_types});
  const double bytes = cost.bytes - unread_bytes(step, run);
  double ms = std::max(0.0, bytes) / rates.copy_bytes_per_ms;
  const auto rate = rates.flops_per_ms.find(compute_type(step));
  if ((flags(step.op) & kProduct) != 0 && rate != rates.flops_per_ms.end())
    ms = std::max(ms, cost.flops / rate->second);
  return ms;
}

}  // namespace vernier::compiler
