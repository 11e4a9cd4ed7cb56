// Problems, numerics and calls between Vernier and a plugin's C functions: see plugin_kernel.h.
#include "runtime/plugin_kernel.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/op_attrs.h"
#include "core/threads.h"

namespace vernier::runtime {
namespace {

using backend::CreateCall;
using backend::LaunchCall;
using backend::PrepareCall;
using backend::Problem;
using backend::TensorArg;

static_assert(VERNIER_MAX_RANK == backend::kMaxRank && VERNIER_MAX_POINTS == kMaxPoints);
static_assert(VERNIER_BOOL == static_cast<int>(DType::kBool));

constexpr size_t kMaxKernels = 64;  // of all plugins of one process

// A row's functions have no context of their own, so each place of this table has its own set
// (make_row<I>). Places are filled when a library is loaded, under load_plugins()' lock, before any
// row that reads them exists, and never change.
struct Places {
  std::array<PluginKernel, kMaxKernels> kernels;
  size_t used = 0;
};
Places& places() {
  static Places all;
  return all;
}

// ---- build time

struct CProblem {
  std::string op, attributes;
  std::vector<vernier_operand> inputs, outputs;
  std::vector<const char*> points;
  vernier_problem c{};
};

std::vector<vernier_operand> c_operands(const std::vector<backend::Operand>& operands) {
  std::vector<vernier_operand> result;
  for (const backend::Operand& operand : operands) {
    vernier_operand& c = result.emplace_back();
    if (!operand.present) continue;
    c.dtype = static_cast<int32_t>(operand.dtype);
    c.rank = static_cast<int32_t>(operand.shape.size());
    for (size_t d = 0; d < std::min(operand.shape.size(), size_t{VERNIER_MAX_RANK}); ++d)
      c.shape[d] = operand.shape[d].as_constant().value_or(-1);
  }
  return result;
}

void fill(CProblem& problem, const Problem& asked) {
  problem.op = name(asked.op);
  problem.attributes = print_attrs(asked.op, asked.attrs);
  problem.inputs = c_operands(asked.inputs);
  problem.outputs = c_operands(asked.outputs);
  for (std::string_view point : rounding_points(asked.op)) problem.points.push_back(point.data());
  problem.c = {.op = problem.op.c_str(),
               .attributes = problem.attributes.c_str(),
               .num_inputs = static_cast<int32_t>(problem.inputs.size()),
               .num_outputs = static_cast<int32_t>(problem.outputs.size()),
               .inputs = problem.inputs.data(),
               .outputs = problem.outputs.data(),
               .num_points = static_cast<int32_t>(problem.points.size()),
               .points = problem.points.data()};
}

Support supports(const PluginKernel& kernel, const Problem& asked) {
  if (std::max(asked.inputs.size(), asked.outputs.size()) > size_t{VERNIER_MAX_OPERANDS})
    return no("a plugin's kernel takes at most 16 inputs and outputs");
  for (const auto* operands : {&asked.inputs, &asked.outputs}) {
    for (const backend::Operand& operand : *operands) {
      if (operand.present && is_only_evaluated(operand.dtype))
        return no("vernier/custom_op.h has no type " + std::string(vernier::name(operand.dtype)));
    }
  }
  CProblem problem;
  fill(problem, asked);
  const char* reason = kernel.functions->supports(&problem.c);
  if (!reason) return yes();
  return no(*reason ? reason : "refuses without a reason");
}

DType float_type(const PluginKernel& kernel, const char* what, int32_t number) {
  const auto type = static_cast<DType>(number);
  if (number >= VERNIER_F32 && number <= VERNIER_TF32) return type;
  throw Error(ErrorCode::kInput,
              "kernel " + kernel.row + " declares " + std::to_string(number) + " as its " + what +
                  " type, which is not a floating-point type of vernier/custom_op.h");
}

// A rounding at a point widens what verify allows the step, so it must be to a type that the kernel
// declares as one of its own: those are held against what is asked of the node.
void check_point(const PluginKernel& kernel, const Numerics& declared, const char* point,
                 DType type) {
  for (DType own : {declared.store, declared.compute, declared.accumulate, declared.inner})
    if (represents(type, own)) return;
  throw Error(ErrorCode::kInput,
              "kernel " + kernel.row + " declares that it rounds '" + point + "' to " +
                  std::string(vernier::name(type)) +
                  ", which is narrower than the types that it stores, computes and sums in; "
                  "declare the type there, too, so that the planner sees it");
}

Numerics numerics(const PluginKernel& kernel, const Problem& asked) {
  CProblem problem;
  fill(problem, asked);
  vernier_numerics c{};
  kernel.functions->numerics(&problem.c, &c);
  Numerics result;
  result.store = float_type(kernel, "store", c.store);
  result.compute = float_type(kernel, "compute", c.compute);
  result.accumulate = float_type(kernel, "accumulate", c.accumulate);
  result.inner = c.inner == VERNIER_NONE ? result.compute : float_type(kernel, "inner", c.inner);
  for (size_t i = 0; i < problem.points.size(); ++i) {
    if (c.points[i] == VERNIER_NONE) continue;
    result.points[i].type = float_type(kernel, problem.points[i], c.points[i]);
    check_point(kernel, result, problem.points[i], result.points[i].type);
  }
  if (!(c.approximation_abs >= 0 && c.approximation_rel >= 0)) {
    throw Error(ErrorCode::kInput,
                "kernel " + kernel.row + " declares a negative error of its approximations");
  }
  result.approximation_abs = c.approximation_abs;
  result.approximation_rel = c.approximation_rel;
  return result;
}

// ---- run time

struct PluginState final : backend::KernelState {
  const PluginKernel* kernel = nullptr;
  std::string attributes;
};

// Lives on the caller's stack for one call: the run path allocates nothing.
struct CCall {
  std::array<vernier_array, VERNIER_MAX_OPERANDS> inputs, outputs;
  vernier_call c{};
};

void c_arrays(std::span<const TensorArg> args, std::array<vernier_array, VERNIER_MAX_OPERANDS>& c) {
  VERNIER_ASSERT(args.size() <= c.size(), "supports() refuses more operands");
  for (size_t i = 0; i < args.size(); ++i) {
    c[i] = {args[i].data, static_cast<int32_t>(args[i].dtype), args[i].rank, {}};
    std::copy_n(args[i].shape.begin(), args[i].rank, c[i].shape);
  }
}

void parallel_for(const vernier_call* call, int64_t count, int64_t grain,
                  void (*body)(void*, int64_t, int64_t, int32_t), void* context) {
  static_cast<ThreadTeam*>(call->host)
      ->parallel_for(count, std::max<int64_t>(grain, 1), [&](int64_t begin, int64_t end, int part) {
        body(context, begin, end, part);
      });
}

void fill(CCall& call, const PluginState& state, std::span<const TensorArg> in,
          std::span<const TensorArg> out, const backend::Execution& execution) {
  c_arrays(in, call.inputs);
  c_arrays(out, call.outputs);
  call.c.attributes = state.attributes.c_str();
  call.c.num_inputs = static_cast<int32_t>(in.size());
  call.c.num_outputs = static_cast<int32_t>(out.size());
  call.c.inputs = call.inputs.data();
  call.c.outputs = call.outputs.data();
  call.c.stream = execution.stream;
  call.c.num_threads = execution.threads->size();
  call.c.parallel_for = &parallel_for;
  call.c.host = execution.threads;
}

const PluginState& state_of(const backend::KernelState* state) {
  return *static_cast<const PluginState*>(state);
}

std::unique_ptr<backend::KernelState> create(const PluginKernel& kernel, const CreateCall& call) {
  auto state = std::make_unique<PluginState>();
  state->kernel = &kernel;
  state->attributes = print_attrs(kernel.op, call.attrs);
  return state;
}

std::unique_ptr<backend::ShapeState> prepare(const PrepareCall& call) {
  auto shape = std::make_unique<backend::ShapeState>();
  const PluginState& state = state_of(call.state);
  if (!state.kernel->functions->workspace_bytes) return shape;
  CCall c;
  fill(c, state, call.in, call.out, call.execution);
  shape->workspace_bytes = state.kernel->functions->workspace_bytes(&c.c);
  return shape;
}

void launch(const LaunchCall& call) {
  const PluginState& state = state_of(call.state);
  CCall c;
  fill(c, state, call.in, call.out, call.execution);
  c.c.workspace = call.workspace;
  if (const char* wrong = state.kernel->functions->launch(&c.c))
    throw Error(ErrorCode::kInput, "plugin '" + state.kernel->plugin + "' says: " + wrong);
}

// ---- rows

template <size_t I>
constexpr backend::KernelDef make_row() {
  return {{.supports = [](const Problem& p) { return supports(places().kernels[I], p); },
           .numerics = [](const Problem& p) { return numerics(places().kernels[I], p); },
           .create = [](const CreateCall& c) { return create(places().kernels[I], c); },
           .prepare = &prepare,
           .launch = &launch},
          {},
          OpKind::kIdentity};
}

template <size_t... I>
constexpr std::array<backend::KernelDef, sizeof...(I)> make_rows(std::index_sequence<I...>) {
  return {make_row<I>()...};
}

}  // namespace

backend::KernelDef row_of(PluginKernel kernel) {
  static constexpr auto kRows = make_rows(std::make_index_sequence<kMaxKernels>());
  Places& all = places();
  if (all.used == kMaxKernels) {
    throw Error(ErrorCode::kInput, "kernel " + kernel.row + " is one too many: a process takes " +
                                       std::to_string(kMaxKernels) + " kernels of plugins");
  }
  backend::KernelDef row = kRows[all.used];
  PluginKernel& place = all.kernels[all.used++];
  place = std::move(kernel);
  row.name = place.row;
  row.op = place.op;
  row.bit_class = place.functions->bit_class;
  return row;
}

}  // namespace vernier::runtime
