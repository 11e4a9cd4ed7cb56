// Shape entries: see entry_maker.h.
#include "runtime/entry_maker.h"

#include <algorithm>

#include "core/value_rules.h"
#include "runtime/arena.h"
#include "runtime/entry_layout.h"
#include "runtime/proof.h"

namespace vernier::runtime {
namespace {

using plan::PlanValue;

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

class Maker {
 public:
  Maker(const EntryParts& parts, std::span<const int64_t> symbols, size_t segment)
      : parts_(parts),
        engine_(parts.engine),
        plan_(parts.engine.plan),
        segment_(plan_.segments[segment]),
        entry_(std::make_unique<ShapeEntry>()) {
    entry_->segment = segment;
    entry_->symbols.assign(symbols.begin(), symbols.end());
  }

  std::unique_ptr<ShapeEntry> make() {
    entry_->slots.resize(engine_.program.num_slots());
    engine_.program.evaluate(entry_->symbols, entry_->slots);
    check_guards();
    for (size_t v = 0; v < plan_.values.size(); ++v) check_view(static_cast<int32_t>(v));
    fill_shape_values();
    check_least_memory();
    find_kept();
    make_arguments();
    lay_out(parts_, shape_value_offsets_, *entry_);
    check_memory();
    return std::move(entry_);
  }

 private:
  std::string sizes() const { return sizes_text(plan_, entry_->symbols); }
  bool is_known(int32_t value) const {
    const Engine::Impl::ValueSlots& own = engine_.slots_of(value);
    return entry_->knows(own.shape) && entry_->knows(own.strides) && entry_->knows(own.values) &&
           (own.offset < 0 || entry_->knows({&own.offset, 1}));
  }
  backend::TensorArg argument(int32_t value) const {
    return parts_.arguments.value(value, entry_->slots);
  }
  uint64_t bytes_of_value(int32_t index) const {
    const backend::TensorArg arg = argument(index);
    return product_of_bytes(static_cast<size_t>(arg.elems()), size_bytes(arg.dtype));
  }

  void check_guards() const {
    for (size_t g = 0; g < engine_.guards.size(); ++g) {
      const auto [left, right] = engine_.guards[g];
      const int64_t lhs = entry_->slot(left), rhs = entry_->slot(right);
      if (lhs == rhs || lhs == kUnknownSize || rhs == kUnknownSize) continue;
      throw Error(ErrorCode::kInput, "inputs of sizes " + sizes() + " do not fit the model: " +
                                         broken_guard(engine_.guards_to_hold[g], lhs, rhs));
    }
  }

  void check_view(int32_t index) const {
    const PlanValue& value = plan_.value(index);
    if (value.kind != PlanValue::Kind::kAlias) return;
    if (!is_known(index) || !is_known(value.alias_of)) return;
    const backend::TensorArg view = argument(index), base = argument(value.alias_of);
    const auto rank = static_cast<size_t>(view.rank);
    runtime::check_view(plan_, index,
                        {.offset = entry_->slot(engine_.slots_of(index).offset),
                         .shape = std::span(view.shape).first(rank),
                         .strides = std::span(view.strides).first(rank),
                         .base_elems = base.elems()});
  }

  void fill_shape_values() {
    constexpr size_t kAlignment = 8;
    std::vector<std::byte>& bytes = entry_->shape_values;
    shape_value_offsets_.assign(plan_.values.size(), 0);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (value.kind != PlanValue::Kind::kShapeValues || !is_known(static_cast<int32_t>(v)))
        continue;
      const size_t offset = (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
      shape_value_offsets_[v] = offset;
      const size_t width = size_bytes(value.dtype);
      bytes.resize(offset + width * value.values.size());
      for (size_t i = 0; i < value.values.size(); ++i) {
        const int64_t number = entry_->slot(engine_.slots[v].values[i]);
        check_shape_value(value, number);
        store_integer(value.dtype, number, bytes.data() + offset + i * width);
      }
    }
  }

  // The most bytes of values that are alive at once, and those of the inputs.
  struct LeastBytes {
    uint64_t inputs = 0, live = 0;
  };
  LeastBytes least_bytes() const {
    std::vector<uint64_t> begun(plan_.steps.size() + 1, 0), ended(plan_.steps.size() + 1, 0);
    LeastBytes least;
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (value.kind != PlanValue::Kind::kArena && value.kind != PlanValue::Kind::kInput) continue;
      const bool is_input = value.kind == PlanValue::Kind::kInput;
      if (!is_input && !lives_in(value, segment_)) continue;
      const uint64_t bytes = bytes_of_value(static_cast<int32_t>(v));
      uint64_t& sum = is_input ? least.inputs : begun[value.first_step];
      sum = sum_of_bytes(sum, bytes);
      if (!is_input) ended[static_cast<size_t>(value.last_step) + 1] += bytes;
    }
    uint64_t live = 0;
    for (size_t s = 0; s < begun.size(); ++s) {
      live = sum_of_bytes(live - ended[s], begun[s]);
      least.live = std::max(least.live, live);
    }
    return least;
  }
  // The values alone, without the kernels' workspaces: kernels take memory for themselves when they
  // are asked for those (check_memory() asks again, for all of it).
  void check_least_memory() const {
    const LeastBytes least = least_bytes();
    Watch(parts_.limits)
        .check_memory(saturating_sum(engine_.bytes_held, sum_of_bytes(least.inputs, least.live)),
                      [&] { return "a run with " + sizes(); });
    const uint64_t machine = parts_.arguments.on_host() ? machine_memory_bytes() : UINT64_MAX;
    if (least.live <= machine) return;
    throw Error(ErrorCode::kMachine, "out of memory: " + std::to_string(least.live) +
                                         " bytes for activations of " + sizes() +
                                         ", but this machine has " + bytes_text(machine) +
                                         " of memory and swap; use smaller shapes");
  }

  // A session has up to Session::Impl::kMaxShapes shapes.
  void find_kept() {
    constexpr uint64_t kMostBytes = uint64_t{4} << 20;
    KeptValues& kept = entry_->kept;
    size_t bytes = 0;
    for (const int32_t value : engine_.sized.kept) {
      kept.offsets.push_back(bytes);
      bytes = sum_of_bytes(bytes, round_up(bytes_of_value(value), parts_.device.alignment()));
    }
    if (bytes <= kMostBytes) kept.bytes = bytes;
  }

  void make_arguments() {
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const plan::Step& step = plan_.steps[s];
      StepRun& run = entry_->steps.emplace_back();
      run.empty = true;
      const bool is_next = static_cast<int32_t>(s) == segment_.end_step;
      if (!is_next && !segment_.holds(s)) continue;
      for (int32_t in : step.inputs)
        run.in.push_back(in == plan::kNone ? backend::TensorArg{} : argument(in));
      for (const plan::PackedInput& packed : step.packed)
        run.in[packed.at()] = parts_.arguments.packed(s, packed);
      if (is_next) continue;
      for (int32_t out : step.outputs)
        run.out.push_back(out == plan::kNone ? backend::TensorArg{} : argument(out));
      run.found = plan_.is_found(static_cast<int32_t>(s));
      run.once = entry_->kept.bytes > 0 && engine_.sized.is_sized[s];
      run.empty = !run.found && is_empty(step, run.in, run.out);
      if (!run.empty && !run.found) parts_.steps.prepare(s, run);
    }
  }

  // What runs of this shape need, before any of it is allocated: the caller's inputs and outputs
  // too, since both are there during a run.
  void check_memory() const {
    const bool on_host = parts_.arguments.on_host();
    uint64_t bytes = engine_.bytes_held;
    if (!on_host) {
      for (const plan::Blob& blob : plan_.blobs) bytes = saturating_sum(bytes, blob.bytes.bytes());
    }
    const auto add = [&](const backend::TensorArg& arg) {
      const auto size = static_cast<uint64_t>(arg.elems()) * size_bytes(arg.dtype);
      bytes = saturating_sum(bytes, saturating_product(size, on_host ? 1 : 2));
    };
    for (int32_t input : plan_.inputs) add(argument(input));
    for (const backend::TensorArg& output : entry_->outputs) add(output);
    bytes = saturating_sum(saturating_sum(bytes, entry_->arena_bytes), entry_->kept.bytes);
    Watch(parts_.limits).check_memory(bytes, [&] { return "a run with " + sizes(); });
  }

  const EntryParts& parts_;
  const Engine::Impl& engine_;
  const plan::Plan& plan_;
  const plan::Segment& segment_;
  std::unique_ptr<ShapeEntry> entry_;
  std::vector<size_t> shape_value_offsets_;  // by value
};

}  // namespace

bool lives_in(const plan::PlanValue& value, const plan::Segment& segment) {
  return value.first_step < segment.end_step && value.last_step >= segment.first_step;
}

std::unique_ptr<ShapeEntry> make_entry(const EntryParts& parts, std::span<const int64_t> symbols,
                                       size_t segment) {
  return Maker(parts, symbols, segment).make();
}

}  // namespace vernier::runtime
