// The once-per-shape work: sizes, arguments, kernels' shape state, arena layout. Part of
// Session::Impl.
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>

#include "core/value_rules.h"
#include "engine/validate.h"
#include "runtime/arena.h"
#include "runtime/proof.h"
#include "runtime/session_impl.h"

namespace vernier {
namespace {

using plan::PlanValue;

void set_shape(backend::TensorArg& arg, std::span<const int64_t> shape) {
  arg.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), arg.shape.begin());
  int64_t stride = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    arg.strides[i - 1] = stride;
    stride *= shape[i - 1];
  }
}

// Nothing to write, and nothing that only the kernel checks: values of inputs.
bool is_empty(const plan::Step& step, std::span<const backend::TensorArg> in,
              std::span<const backend::TensorArg> out) {
  const auto has_elements = [](const backend::TensorArg& t) {
    return t.dtype != DType::kUndefined && t.elems() > 0;
  };
  if (std::ranges::any_of(out, has_elements)) return false;
  return std::ranges::none_of(value_rules(step.op, step.attrs, in.size()),
                              [&](const ValueRule& rule) {
                                const auto input = static_cast<size_t>(rule.input);
                                return input < in.size() && has_elements(in[input]);
                              });
}

// Memory and swap of this machine, in bytes.
uint64_t machine_bytes() {
  struct sysinfo info {};
  if (::sysinfo(&info) != 0) return UINT64_MAX;
  return saturating_product(saturating_sum(info.totalram, info.totalswap), info.mem_unit);
}

}  // namespace

Session::Impl::ShapeEntry& Session::Impl::entry_for_bound_symbols() {
  ++runs;
  for (auto& entry : shapes) {
    if (entry->symbols != symbols_) continue;
    entry->last_used = runs;
    return *entry;
  }
  std::unique_ptr<ShapeEntry> fresh = make_entry();
  fresh->last_used = runs;
  if (shapes.size() == kMaxShapes) {
    const auto oldest =
        std::min_element(shapes.begin(), shapes.end(),
                         [](const auto& a, const auto& b) { return a->last_used < b->last_used; });
    shapes.erase(oldest);
  }
  shapes.push_back(std::move(fresh));
  return *shapes.back();
}

std::unique_ptr<Session::Impl::ShapeEntry> Session::Impl::make_entry() {
  auto entry = std::make_unique<ShapeEntry>();
  entry->symbols = symbols_;
  entry->slots.resize(parts.program.num_slots());
  parts.program.evaluate(symbols_, entry->slots);
  check_guards(*entry);
  for (size_t v = 0; v < parts.plan.values.size(); ++v)
    check_alias(*entry, static_cast<int32_t>(v));
  std::vector<size_t> shape_value_offsets(parts.plan.values.size(), 0);
  fill_shape_values(*entry, shape_value_offsets);
  check_least_memory(*entry);
  make_arguments(*entry);
  make_layout(*entry, shape_value_offsets);
  check_memory(*entry);
  return entry;
}

std::string Session::Impl::symbols_text() const {
  std::string sizes;
  for (size_t s = 0; s < symbols_.size(); ++s) {
    sizes += (sizes.empty() ? "" : ", ") + parts.plan.symbols[s].name + "=" +
             std::to_string(symbols_[s]);
  }
  return sizes.empty() ? "fixed sizes" : sizes;
}

void Session::Impl::check_guards(const ShapeEntry& entry) const {
  for (size_t g = 0; g < parts.guards.size(); ++g) {
    const int64_t lhs = entry.slots[static_cast<size_t>(parts.guards[g].first)];
    const int64_t rhs = entry.slots[static_cast<size_t>(parts.guards[g].second)];
    if (lhs == rhs) continue;
    const plan::Guard& guard = parts.guards_to_hold[g];
    throw Error(ErrorCode::kInput, "inputs of sizes " + symbols_text() +
                                       " do not fit the model: at node '" + guard.where + "' " +
                                       guard_text(guard.lhs, guard.rhs, lhs, rhs));
  }
}

void Session::Impl::fill_shape_values(ShapeEntry& entry, std::vector<size_t>& offsets) const {
  constexpr size_t kAlignment = 8;
  for (size_t v = 0; v < parts.plan.values.size(); ++v) {
    const PlanValue& value = parts.plan.values[v];
    if (value.kind != PlanValue::Kind::kShapeValues) continue;
    offsets[v] = (entry.shape_values.size() + kAlignment - 1) / kAlignment * kAlignment;
    const size_t width = size_bytes(value.dtype);
    entry.shape_values.resize(offsets[v] + width * value.values.size());
    for (size_t i = 0; i < value.values.size(); ++i) {
      const int64_t number = entry.slots[static_cast<size_t>(parts.slots[v].values[i])];
      runtime::check_shape_value(value, number);
      store_integer(value.dtype, number, entry.shape_values.data() + offsets[v] + i * width);
    }
  }
}

// Where the inputs and the shape values lie in the memory that they are copied to the device from.
void Session::Impl::place_staged(ShapeEntry& entry) const {
  const size_t alignment = device->alignment();
  const auto take = [&](size_t bytes) {
    const size_t offset = entry.staged_bytes;
    entry.staged_bytes = runtime::sum_of_bytes(offset, runtime::round_up(bytes, alignment));
    return offset;
  };
  for (int32_t input : parts.plan.inputs) {
    const backend::TensorArg arg = argument(entry, input);
    entry.input_offsets.push_back(
        take(runtime::product_of_bytes(static_cast<size_t>(arg.elems()), size_bytes(arg.dtype))));
  }
  entry.shape_values_offset = take(entry.shape_values.size());
}

// Does an alias stay inside what it is a view of? The planner's do; a file may say anything.
void Session::Impl::check_alias(const ShapeEntry& entry, int32_t index) const {
  const PlanValue& value = parts.plan.values[static_cast<size_t>(index)];
  if (value.kind != PlanValue::Kind::kAlias) return;
  const backend::TensorArg view = argument(entry, index), base = argument(entry, value.alias_of);
  const auto rank = static_cast<size_t>(view.rank);
  const int64_t offset =
      entry.slots[static_cast<size_t>(parts.slots[static_cast<size_t>(index)].offset)];
  if (engine::stays_inside(offset, std::span(view.shape).first(rank),
                           std::span(view.strides).first(rank), base.elems()))
    return;
  throw Error(ErrorCode::kInput, "the engine's value " + std::to_string(index) + " '" + value.name +
                                     "' reaches outside the value that it is a view of; build the "
                                     "engine again");
}

// Shape, strides and type of a value; data only of constants. Sizes are checked: no negative ones,
// no product beyond kMaxArrayElems.
backend::TensorArg Session::Impl::argument(const ShapeEntry& entry, int32_t index) const {
  const PlanValue& value = parts.plan.values[static_cast<size_t>(index)];
  const Engine::Impl::ValueSlots& slots = parts.slots[static_cast<size_t>(index)];
  backend::TensorArg arg;
  arg.dtype = value.dtype;
  if (value.kind == PlanValue::Kind::kConstant) {
    set_shape(arg, parts.plan.blobs[static_cast<size_t>(value.constant)].shape);
    // Kernels never write to an input.
    arg.data = const_cast<std::byte*>(constant_data(value.constant));
    return arg;
  }
  std::array<int64_t, backend::kMaxRank> shape{};
  for (size_t d = 0; d < slots.shape.size(); ++d)
    shape[d] = entry.slots[static_cast<size_t>(slots.shape[d])];
  num_elems(std::span(shape.data(), slots.shape.size()));
  set_shape(arg, std::span(shape.data(), slots.shape.size()));
  for (size_t d = 0; d < slots.strides.size(); ++d)
    arg.strides[d] = entry.slots[static_cast<size_t>(slots.strides[d])];
  return arg;
}

backend::TensorArg Session::Impl::packed_argument(size_t step,
                                                  const plan::PackedInput& packed) const {
  const plan::Blob& blob = parts.plan.blobs[static_cast<size_t>(packed.blob)];
  backend::TensorArg arg;
  arg.dtype = blob.dtype;
  set_shape(arg, blob.shape);
  // Without data where the kernel's state has the packed bytes.
  const auto again = parts.repacked.find(static_cast<int32_t>(step));
  if (again == parts.repacked.end()) return arg;
  for (const auto& [input, plain] : again->second.plain) {
    if (input == packed.input) arg.data = const_cast<std::byte*>(plain.data());
  }
  return arg;
}

// The values alone, without the kernels' workspaces: kernels take memory for themselves when they
// are asked for those (check_memory() asks again, for all of it).
void Session::Impl::check_least_memory(const ShapeEntry& entry) const {
  const plan::Plan& plan = parts.plan;
  std::vector<uint64_t> begun(plan.steps.size() + 1, 0), ended(plan.steps.size() + 1, 0);
  uint64_t inputs = 0;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    if (value.kind != PlanValue::Kind::kArena && value.kind != PlanValue::Kind::kInput) continue;
    const uint64_t bytes = runtime::product_of_bytes(
        static_cast<size_t>(argument(entry, static_cast<int32_t>(v)).elems()),
        size_bytes(value.dtype));
    const bool is_input = value.kind == PlanValue::Kind::kInput;
    uint64_t& sum = is_input ? inputs : begun[static_cast<size_t>(value.first_step)];
    sum = runtime::sum_of_bytes(sum, bytes);
    if (!is_input) ended[static_cast<size_t>(value.last_step) + 1] += bytes;
  }
  uint64_t live = 0, most = 0;
  for (size_t s = 0; s < begun.size(); ++s) {
    live = runtime::sum_of_bytes(live - ended[s], begun[s]);
    most = std::max(most, live);
  }
  Watch(limits).check_memory(saturating_sum(parts.bytes_held, runtime::sum_of_bytes(inputs, most)),
                             [&] { return "a run with " + symbols_text(); });
  const uint64_t machine = on_host() ? machine_bytes() : UINT64_MAX;
  if (most <= machine) return;
  throw Error(ErrorCode::kMachine, "out of memory: " + std::to_string(most) +
                                       " bytes for activations of " + symbols_text() +
                                       ", but this machine has " + bytes_text(machine) +
                                       " of memory and swap; use smaller shapes");
}

void Session::Impl::make_arguments(ShapeEntry& entry) {
  const plan::Plan& plan = parts.plan;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const plan::Step& step = plan.steps[s];
    StepRun run;
    for (int32_t in : step.inputs)
      run.in.push_back(in == plan::kNone ? backend::TensorArg{} : argument(entry, in));
    for (const plan::PackedInput& packed : step.packed)
      run.in[static_cast<size_t>(packed.input)] = packed_argument(s, packed);
    for (int32_t out : step.outputs)
      run.out.push_back(out == plan::kNone ? backend::TensorArg{} : argument(entry, out));
    run.empty = is_empty(step, run.in, run.out);
    at_step(s, [&] {
      if (parts.kernels[s]->prepare && !run.empty)
        run.shape_state =
            parts.kernels[s]->prepare({step.attrs, states[s].get(), run.in, run.out, execution});
    });
    entry.steps.push_back(std::move(run));
  }
}

void Session::Impl::make_layout(ShapeEntry& entry, const std::vector<size_t>& shape_value_offsets) {
  const plan::Plan& plan = parts.plan;
  std::vector<runtime::Interval> intervals;
  std::vector<size_t> interval_of(plan.values.size(), 0);
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    if (value.kind != PlanValue::Kind::kArena) continue;
    interval_of[v] = intervals.size();
    const size_t bytes = runtime::product_of_bytes(
        static_cast<size_t>(argument(entry, static_cast<int32_t>(v)).elems()),
        size_bytes(value.dtype));
    intervals.push_back({bytes, value.first_step, value.last_step, 0});
  }
  const size_t first_workspace = intervals.size();
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    const auto step = static_cast<int32_t>(s);
    const auto& state = entry.steps[s].shape_state;
    intervals.push_back({state ? state->workspace_bytes : 0, step, step, 0});
  }
  if (!on_host()) {
    place_staged(entry);
    intervals.push_back({entry.staged_bytes, 0, static_cast<int32_t>(entry.steps.size()), 0});
  }
  entry.arena_bytes = std::max<size_t>(runtime::place(intervals, device->alignment()), 1);
  if (!on_host()) entry.staged_offset = intervals.back().offset;

  std::vector<int32_t> input_of(plan.values.size(), 0);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    input_of[static_cast<size_t>(plan.inputs[i])] = static_cast<int32_t>(i);
  const auto base_source = [&](size_t v) -> Source {
    switch (plan.values[v].kind) {
      case PlanValue::Kind::kInput:
        if (!on_host())
          return {Source::kArena,
                  entry.staged_offset + entry.input_offsets[static_cast<size_t>(input_of[v])]};
        return {Source::kFirstInput + input_of[v], 0};
      case PlanValue::Kind::kShapeValues:
        if (!on_host())
          return {Source::kArena,
                  entry.staged_offset + entry.shape_values_offset + shape_value_offsets[v]};
        return {Source::kShapeValues, shape_value_offsets[v]};
      case PlanValue::Kind::kArena:
        return {Source::kArena, intervals[interval_of[v]].offset};
      default:
        return {};
    }
  };
  // The source of a value; a constant base makes the argument's address final at once.
  const auto source_of = [&](int32_t index, backend::TensorArg& arg) -> Source {
    if (index == plan::kNone) return {};
    const auto v = static_cast<size_t>(index);
    if (plan.values[v].kind != PlanValue::Kind::kAlias) return base_source(v);
    const auto base = static_cast<size_t>(plan.values[v].alias_of);
    const auto offset =
        static_cast<size_t>(entry.slots[static_cast<size_t>(parts.slots[v].offset)]) *
        size_bytes(arg.dtype);
    Source source = base_source(base);
    source.offset += offset;
    if (source.base == Source::kFixed) {
      arg.data = const_cast<std::byte*>(constant_data(plan.values[base].constant)) + offset;
    }
    return source;
  };
  for (size_t s = 0; s < entry.steps.size(); ++s) {
    StepRun& run = entry.steps[s];
    const plan::Step& step = plan.steps[s];
    for (size_t i = 0; i < run.in.size(); ++i)
      run.in_sources.push_back(source_of(step.inputs[i], run.in[i]));
    for (size_t i = 0; i < run.out.size(); ++i)
      run.out_sources.push_back(source_of(step.outputs[i], run.out[i]));
    run.workspace_offset = intervals[first_workspace + s].offset;
  }
  for (int32_t out : plan.outputs) {
    backend::TensorArg arg = argument(entry, out);
    entry.output_sources.push_back(source_of(out, arg));
    entry.output_shapes.emplace_back(arg.shape.begin(), arg.shape.begin() + arg.rank);
    entry.outputs.push_back(arg);
  }
}

}  // namespace vernier
