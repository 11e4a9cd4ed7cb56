// Arena and sources of one shape: see entry_layout.h.
#include "runtime/entry_layout.h"

#include <algorithm>

#include "runtime/arena.h"

namespace vernier::runtime {
namespace {

using plan::PlanValue;

class Layout {
 public:
  Layout(const EntryParts& parts, const std::vector<size_t>& shape_value_offsets, ShapeEntry& entry)
      : parts_(parts),
        plan_(parts.engine.plan),
        shape_value_offsets_(shape_value_offsets),
        entry_(entry),
        place_of_(plan_.values.size(), 0),
        input_of_(plan_.values.size(), 0) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i) input_of_[plan_.inputs[i]] = i;
  }

  void place_all() {
    add_values();
    first_workspace_ = intervals_.size();
    add_workspaces();
    const bool staged = !parts_.arguments.on_host();
    if (staged) {
      place_staged();
      const auto steps = static_cast<int32_t>(entry_.steps.size());
      intervals_.push_back({entry_.staged.bytes, 0, steps, 0});
    }
    entry_.arena_bytes = std::max<size_t>(place(intervals_, parts_.device.alignment()), 1);
    if (staged) entry_.staged.offset = intervals_.back().offset;
  }

  void find_sources() {
    for (size_t s = 0; s < entry_.steps.size(); ++s) {
      StepRun& run = entry_.steps[s];
      const plan::Step& step = plan_.steps[s];
      for (size_t i = 0; i < run.in.size(); ++i)
        run.in_sources.push_back(source_of(step.inputs[i], run.in[i]));
      for (size_t i = 0; i < run.out.size(); ++i)
        run.out_sources.push_back(source_of(step.outputs[i], run.out[i]));
      run.workspace_offset = intervals_[first_workspace_ + s].offset;
    }
    if (entry_.segment + 1 < plan_.segments.size()) return;  // the last one has them all
    for (int32_t out : plan_.outputs) {
      backend::TensorArg arg = parts_.arguments.value(out, entry_.slots);
      entry_.output_sources.push_back(source_of(out, arg));
      entry_.output_shapes.emplace_back(arg.shape.begin(), arg.shape.begin() + arg.rank);
      entry_.outputs.push_back(arg);
    }
  }

 private:
  int32_t carried_at(size_t value) const { return parts_.engine.carried_at[value]; }
  size_t bytes_of_value(int32_t index) const {
    const backend::TensorArg arg = parts_.arguments.value(index, entry_.slots);
    return product_of_bytes(static_cast<size_t>(arg.elems()), size_bytes(arg.dtype));
  }

  bool is_kept(size_t value) const {
    return entry_.kept.bytes > 0 && parts_.engine.sized.kept_at[value] != plan::kNone;
  }

  void add_values() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const PlanValue& value = plan_.values[v];
      if (value.kind != PlanValue::Kind::kArena || carried_at(v) != plan::kNone || is_kept(v))
        continue;
      if (!lives_in(value, plan_.segments[entry_.segment])) continue;
      place_of_[v] = intervals_.size();
      intervals_.push_back(
          {bytes_of_value(static_cast<int32_t>(v)), value.first_step, value.last_step, 0});
    }
  }
  void add_workspaces() {
    for (size_t s = 0; s < entry_.steps.size(); ++s) {
      const auto step = static_cast<int32_t>(s);
      const auto& state = entry_.steps[s].shape_state;
      intervals_.push_back({state ? state->workspace_bytes : 0, step, step, 0});
    }
  }
  void place_staged() {
    StagedInputs& staged = entry_.staged;
    const size_t alignment = parts_.device.alignment();
    const auto take = [&](size_t bytes) {
      const size_t offset = staged.bytes;
      staged.bytes = sum_of_bytes(offset, round_up(bytes, alignment));
      return offset;
    };
    for (int32_t input : plan_.inputs) {
      staged.input_bytes.push_back(bytes_of_value(input));
      staged.input_offsets.push_back(take(staged.input_bytes.back()));
    }
    staged.shape_values_offset = take(entry_.shape_values.size());
  }

  // Of a value that is no view.
  Source base_source(int32_t index) const {
    const bool on_host = parts_.arguments.on_host();
    const auto v = static_cast<size_t>(index);
    switch (plan_.value(index).kind) {
      case PlanValue::Kind::kInput:
        if (on_host) return {Source::kFirstInput + static_cast<int32_t>(input_of_[v]), 0};
        return {Source::kArena, entry_.staged.offset + entry_.staged.input_offsets[input_of_[v]]};
      case PlanValue::Kind::kShapeValues:
        if (on_host) return {Source::kShapeValues, shape_value_offsets_[v]};
        return {Source::kArena,
                entry_.staged.offset + entry_.staged.shape_values_offset + shape_value_offsets_[v]};
      case PlanValue::Kind::kArena:
        if (carried_at(v) != plan::kNone) {
          const auto first = Source::kFirstInput + static_cast<int32_t>(plan_.inputs.size());
          return {first + carried_at(v), 0};
        }
        if (is_kept(v)) return {Source::kKept, entry_.kept.offsets[parts_.engine.sized.kept_at[v]]};
        return {Source::kArena, intervals_[place_of_[v]].offset};
      default:
        return {};
    }
  }
  // A constant base makes the argument's address final at once.
  Source source_of(int32_t index, backend::TensorArg& arg) const {
    if (index == plan::kNone) return {};
    const PlanValue& value = plan_.value(index);
    if (value.kind != PlanValue::Kind::kAlias) return base_source(index);
    const auto offset = static_cast<size_t>(entry_.slot(parts_.engine.slots_of(index).offset)) *
                        size_bytes(arg.dtype);
    Source source = base_source(value.alias_of);
    source.offset += offset;
    if (source.base == Source::kFixed) {
      const PlanValue& base = plan_.value(value.alias_of);
      arg.data = const_cast<std::byte*>(parts_.arguments.constant_data(base.constant)) + offset;
    }
    return source;
  }

  const EntryParts& parts_;
  const plan::Plan& plan_;
  const std::vector<size_t>& shape_value_offsets_;
  ShapeEntry& entry_;
  std::vector<Interval> intervals_;  // values in the arena, then workspaces, then staged inputs
  size_t first_workspace_ = 0;
  std::vector<size_t> place_of_, input_of_;  // by value: of intervals_, of the plan's inputs
};

}  // namespace

void lay_out(const EntryParts& parts, const std::vector<size_t>& shape_value_offsets,
             ShapeEntry& entry) {
  Layout layout(parts, shape_value_offsets, entry);
  layout.place_all();
  layout.find_sources();
}

}  // namespace vernier::runtime
