// From graph to plan: see planner.h. The ledger is written in ledger.cpp.
#include "plan/planner.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/attrs.h"
#include "core/byte_twins.h"
#include "core/convert.h"
#include "core/mapped_file.h"
#include "ir/derivations.h"
#include "ops/views.h"
#include "plan/ledger.h"
#include "plan/profile.h"
#include "precision/requests.h"
#include "precision/typing.h"

namespace vernier::plan {
namespace {

using ops::Layout;

backend::Problem problem_of(const ir::Graph& graph, const ir::Node& node) {
  backend::Problem problem;
  problem.op = node.op;
  problem.attrs = node.attrs;
  for (ir::ValueId id : node.inputs) {
    if (id == ir::kNoValue) {
      problem.inputs.emplace_back();
      continue;
    }
    const ir::Value& v = graph.value(id);
    const size_t i = problem.inputs.size();
    problem.inputs.push_back({true, precision::stored_type(graph, node, i), v.shape,
                              v.is_constant() ? &v.constant : nullptr});
  }
  for (ir::ValueId id : node.outputs) {
    if (id == ir::kNoValue) {
      problem.outputs.emplace_back();
      continue;
    }
    problem.outputs.push_back({true, graph.value(id).dtype, graph.value(id).shape, nullptr});
  }
  problem.asked = node.request;
  return problem;
}

/// Must the kernel take input 0 with gaps?
enum class Read : uint8_t { kAny, kStrided };
struct Choice {
  const backend::KernelDef* kernel = nullptr;
  Numerics numerics;
  std::string refusals;  // why the rows above it were not used
  std::string nearest = "the backend has no kernel for this operator";  // the last refusal
};

// The first kernel row that supports the node and satisfies what is asked of it, if there is one.
Choice choice_for(const ir::Graph& graph, const ir::Node& node, const backend::Backend& backend,
                  Read read) {
  const backend::Problem problem = problem_of(graph, node);
  Choice choice;
  for (const backend::KernelDef& row : backend.kernels) {
    if (row.op != node.op) continue;
    Support support = backend::supports(row, problem);
    if (support && read == Read::kStrided && !(row.strided_inputs & 1u))
      support = no("takes no array with gaps");
    if (support) {
      choice.numerics = row.numerics(problem);
      support = satisfies(choice.numerics, node.request);
    }
    if (support) {
      choice.kernel = &row;
      return choice;
    }
    choice.nearest = std::string(row.name) + " " + support.reason;
    choice.refusals += (choice.refusals.empty() ? "" : "; ") + choice.nearest;
  }
  return choice;
}

std::string label_of(const ir::Node& node, ir::NodeId id) {
  if (!node.name.empty()) return node.name;
  if (!node.origins.empty()) return node.origins.front().name;
  return std::string(name(node.op)) + "_" + std::to_string(id);
}

class Planner {
 public:
  Planner(const ir::Graph& graph, const backend::Backend& backend, const PlanOptions& options)
      : graph_(graph), backend_(backend), options_(options) {}
  /// Releases the graph's constants as they are planned.
  Planner(ir::Graph&& graph, const backend::Backend& backend, const PlanOptions& options)
      : graph_(graph), owned_(&graph), backend_(backend), options_(options) {}

  Plan make() {
    plan_.device = backend_.name;
    plan_.target = backend_.target();
    check_input_sizes();
    plan_.symbols = make_profile(graph_, options_.shapes, plan_.notes, options_.table_bounds);
    for (const ir::Guard& g : graph_.guards) plan_.guards.push_back({g.lhs, g.rhs, g.where});
    for (ir::ValueId id : graph_.inputs) {
      plan_.inputs.push_back(new_value(id, PlanValue::Kind::kInput));
      plan_.input_names.push_back(graph_.value(id).name);
    }
    plan_.notes.insert(plan_.notes.end(), graph_.notes.begin(), graph_.notes.end());
    for (const ir::TokenCount& count : graph_.token_counts) {
      const auto mask = std::ranges::find(graph_.inputs, count.mask);
      VERNIER_ASSERT(mask != graph_.inputs.end(), count.symbol);
      plan_.token_counts.push_back({.name = count.symbol,
                                    .input = static_cast<int32_t>(mask - graph_.inputs.begin()),
                                    .padding = count.rule.padding,
                                    .parts = backend_.token_size_parts,
                                    .front = count.rule.front,
                                    .behind = count.rule.behind});
    }
    check_ranks();
    check_requests();
    for (ir::NodeId id : graph_.order()) {
      // Views and sizes need a kernel only where a view cannot stay one.
      const OpKind op = graph_.node(id).op;
      if (op != OpKind::kShapeValues && !(flags(op) & kView)) choices_[id] = choose(id, Read::kAny);
    }
    find_last_readers();
    for (ir::NodeId id : graph_.order()) {
      plan_node(id);
      release_constants(id);
    }
    plan_outputs();
    find_lifetimes();
    cut_segments();
    write_ledger(graph_, places_, plan_);
    return std::move(plan_);
  }

 private:
  // A segment begins where the host has to find sizes.
  void cut_segments() {
    const auto end = static_cast<int32_t>(plan_.steps.size());
    plan_.segments.push_back({0, end});
    for (int32_t s = 0; s < end; ++s) {
      if (!plan_.begins_segment(s)) continue;
      plan_.segments.back().end_step = s;
      plan_.segments.push_back({s, end});
    }
  }
  // The sizes of step `s` that only data say and that no step before it found.
  void find_data_sizes(const ir::Node& node, int32_t s) {
    if (graph_.data_sizes.empty()) return;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.has_output(i)) continue;
      const SymShape& shape = graph_.value(node.outputs[i]).shape;
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const auto symbol = (shape[axis] + 1).as_symbol();
        const auto data = symbol ? graph_.data_sizes.find(*symbol) : graph_.data_sizes.end();
        if (data == graph_.data_sizes.end() || !found_sizes_.insert(*symbol).second) continue;
        DataSize size{.name = *symbol,
                      .step = s,
                      .output = static_cast<int32_t>(i),
                      .axis = static_cast<int32_t>(axis),
                      .at_most = {}};
        if (data->second) size.at_most = {*data->second - 1};
        plan_.data_sizes.push_back(std::move(size));
      }
    }
  }

  // Every symbol must be some input's whole size, or no run could find its value.
  void check_input_sizes() const {
    std::set<std::string> readable;
    for (ir::ValueId id : graph_.inputs) {
      for (const Dim& d : graph_.value(id).shape) {
        if (const auto symbol = d.as_symbol()) readable.insert(*symbol);
      }
    }
    for (ir::ValueId id : graph_.inputs) {
      for (const Dim& d : graph_.value(id).shape) {
        for (const std::string& symbol : d.symbols()) {
          if (readable.contains(symbol)) continue;
          throw Error(ErrorCode::kInput,
                      "input '" + graph_.value(id).name + "' has size " + d.str() +
                          ", but no input has exactly the size '" + symbol +
                          "', so it cannot be read; export the model with a plain named size");
        }
      }
    }
  }

  void check_ranks() const {
    for (ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      for (const auto* list : {&node.inputs, &node.outputs}) {
        for (ir::ValueId v : *list) {
          if (v == ir::kNoValue || graph_.value(v).shape.size() <= backend::kMaxRank) continue;
          throw Error(ErrorCode::kInput,
                      "node '" + label_of(node, id) + "' (" + std::string(name(node.op)) +
                          "): a value of shape " + str(graph_.value(v).shape) + " has " +
                          std::to_string(graph_.value(v).shape.size()) + " dimensions; at most " +
                          std::to_string(backend::kMaxRank) +
                          " are supported, reshape it in the model");
        }
      }
    }
  }

  // A pass that makes a node must hand on what was asked of the nodes it replaces: a node without
  // a request would take any precision. Views compute nothing.
  void check_requests() const {
    const auto is_asked = [this](ir::NodeId id) { return !graph_.node(id).request.by.empty(); };
    if (std::ranges::none_of(graph_.order(), is_asked)) return;
    const auto is_float_value = [this](ir::ValueId v) {
      return v != ir::kNoValue && is_float(graph_.value(v).dtype);
    };
    for (ir::NodeId id : graph_.order()) {
      const ir::Node& node = graph_.node(id);
      if ((flags(node.op) & kView) || std::ranges::none_of(node.outputs, is_float_value)) continue;
      VERNIER_ASSERT(is_asked(id), "node '" + label_of(node, id) + "' (" +
                                       std::string(name(node.op)) + ") lost its request");
    }
  }

  Choice choose(ir::NodeId id, Read read) const {
    const ir::Node& node = graph_.node(id);
    Choice choice = choice_for(graph_, node, backend_, read);
    if (choice.kernel != nullptr) return choice;
    throw Error(ErrorCode::kInput,
                "node '" + label_of(node, id) + "' (" + std::string(name(node.op)) + "): no " +
                    std::string(backend_.name) + " kernel can honor what is asked of it (" +
                    request_text(node.request) + "); nearest: " + choice.nearest);
  }

  int32_t new_value(ir::ValueId id, PlanValue::Kind kind) {
    const ir::Value& v = graph_.value(id);
    PlanValue value;
    value.name = v.name;
    value.dtype = v.dtype;
    value.shape = v.shape;
    value.kind = kind;
    plan_.values.push_back(std::move(value));
    const auto index = static_cast<int32_t>(plan_.values.size() - 1);
    if (kind != PlanValue::Kind::kConstant) index_[id] = index;
    layouts_[id] = {id, 0, v.shape, ops::dense_strides(v.shape)};
    return index;
  }

  int32_t value_index(ir::ValueId id) {
    if (id == ir::kNoValue) return kNone;
    if (const auto it = index_.find(id); it != index_.end()) return it->second;
    const ir::Value& v = graph_.value(id);
    VERNIER_ASSERT(v.is_constant(), "value '" + v.name + "' is used before it is planned");
    return index_[id] = new_constant(id, v.dtype);
  }

  // The plan value of input i of a node; a constant may be stored in several types.
  int32_t input_index(const ir::Node& node, size_t i) {
    const ir::ValueId id = node.inputs[i];
    if (id == ir::kNoValue) return kNone;
    const DType stored = precision::stored_type(graph_, node, i);
    if (stored == graph_.value(id).dtype) return value_index(id);
    const auto [it, fresh] = narrowed_.try_emplace({id, stored}, kNone);
    if (fresh) it->second = new_constant(id, stored);
    return it->second;
  }

  int32_t new_constant(ir::ValueId id, DType stored) {
    const Tensor& contents = graph_.value(id).constant;
    const bool exact = options_.constants == PlanOptions::Constants::kExact;
    const Tensor bytes = exact || !is_float(stored) ? contents : rounded(contents, stored);
    const int32_t index = new_value(id, PlanValue::Kind::kConstant);
    plan_.value(index).dtype = exact ? contents.dtype() : stored;
    plan_.value(index).constant = add_blob({bytes.dtype(), bytes.shape(), "", bytes});
    plan_.value(index).derivation = derivation_row(ir::derivation_of(graph_, id));
    return index;
  }

  // Each expression is a row once, behind its operands.
  int32_t derivation_row(const DerivationPtr& wanted) {
    if (!wanted) return kNone;
    kept_derivations_.push_back(wanted);
    std::vector<const Derivation*> open{wanted.get()};
    while (!open.empty()) {
      const Derivation* made = open.back();
      const size_t before = open.size();
      for (const DerivationPtr& input : made->inputs)
        if (input && !derivations_.contains(input.get())) open.push_back(input.get());
      if (open.size() > before) continue;
      open.pop_back();
      if (!derivations_.contains(made)) add_derivation(*made);
    }
    return derivations_.at(wanted.get());
  }
  void add_derivation(const Derivation& made) {
    using RowKind = DerivationRow::Kind;
    DerivationRow row;
    row.dtype = made.dtype;
    row.shape = made.shape;
    row.name = made.name;
    if (made.numbers.defined()) {
      row.kind = RowKind::kNumbers;
      row.numbers.assign(made.numbers.byte_span().begin(), made.numbers.byte_span().end());
    } else if (made.name.empty()) {
      row.kind = RowKind::kOperator;
      row.op = made.op;
      row.attrs = made.attrs;
      row.output = static_cast<int32_t>(made.output);
      for (const DerivationPtr& input : made.inputs)
        row.inputs.push_back(input ? derivations_.at(input.get()) : kNone);
    }
    derivations_[&made] = static_cast<int32_t>(plan_.derivations.size());
    plan_.derivations.push_back(std::move(row));
  }

  Tensor rounded(const Tensor& contents, DType stored) const {
    return options_.kept ? options_.kept->stored(contents, stored) : converted(contents, stored);
  }

  // Equal blobs are stored once.
  int32_t add_blob(Blob blob) {
    const std::string kind = std::string(name(blob.dtype)) + ' ' +
                             std::string(name(blob.bytes.dtype())) + str(blob.shape) + blob.layout;
    const auto index = static_cast<int32_t>(plan_.blobs.size());
    if (const auto twin = blobs_.find_or_add(kind, blob.bytes, index)) return *twin;
    plan_.blobs.push_back(std::move(blob));
    return index;
  }

  // Only where the graph may be released; constants without a reader are released at once.
  void find_last_readers() {
    if (!owned_) return;
    for (ir::NodeId id : graph_.order()) {
      for (ir::ValueId in : graph_.node(id).inputs)
        if (in != ir::kNoValue && graph_.value(in).is_constant()) last_reader_[in] = id;
    }
    for (size_t v = 0; v < graph_.num_values(); ++v) {
      const auto id = static_cast<ir::ValueId>(v);
      if (!last_reader_.contains(id)) release(id);
    }
  }
  void release_constants(ir::NodeId reader) {
    for (ir::ValueId in : graph_.node(reader).inputs) {
      const auto last = last_reader_.find(in);
      if (last != last_reader_.end() && last->second == reader) release(in);
    }
  }
  // Others may hold a mapped file too: its pages are dropped all the same.
  void release(ir::ValueId id) {
    Tensor& constant = owned_->value(id).constant;
    if (!constant.defined()) return;
    drop_pages(constant.byte_span());
    if (!graph_.is_output(id)) constant = {};
  }

  void plan_node(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    if (options_.progress) options_.progress(label_of(node, id));
    if (node.op == OpKind::kShapeValues) return plan_shape_values(id);
    if (node.has_input(0) && plan_view(id)) return;
    plan_step(id);
  }

  void plan_shape_values(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    const int32_t index = new_value(node.outputs[0], PlanValue::Kind::kShapeValues);
    plan_.value(index).values = node.attrs_as<ShapeValuesAttrs>().values;
    places_[id] = {.state = LedgerState::kShape,
                   .step = kNone,
                   .why = "sizes the host computes once per shape"};
  }

  // Every output of a view node becomes an alias, or none does.
  bool plan_view(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    value_index(node.inputs[0]);
    const Layout input = layouts_.at(node.inputs[0]);
    std::vector<Layout> layouts;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.has_output(i)) {
        layouts.emplace_back();
        continue;
      }
      auto layout = ops::view_layout(graph_, node, i, input);
      if (!layout || !usable(node.outputs[i], *layout)) return false;
      layouts.push_back(std::move(*layout));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.has_output(i)) add_alias(node.outputs[i], layouts[i]);
    }
    places_[id] = {.state = LedgerState::kMerged,
                   .step = producer_step(input.base),
                   .why = "a view of its input: no work"};
    return true;
  }

  // Can every reader of `id` take it as it lies?
  bool usable(ir::ValueId id, const Layout& layout) const {
    const bool dense = ops::is_dense(layout);
    const bool base_is_input = plan_.value(index_.at(layout.base)).kind == PlanValue::Kind::kInput;
    if (graph_.is_output(id) && (!dense || base_is_input)) return false;
    if (dense) return true;
    const auto& users = graph_.value(id).users;
    for (ir::NodeId user : std::set<ir::NodeId>(users.begin(), users.end())) {
      const ir::Node& node = graph_.node(user);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != id) continue;
        if (i == 0 && (flags(node.op) & kView)) continue;  // a view, or a step that takes strides
        const auto choice = choices_.find(user);
        if (choice == choices_.end() || i >= 32) return false;
        const backend::KernelDef& kernel = *choice->second.kernel;
        if (!(kernel.strided_inputs >> i & 1u) || !ops::innermost_contiguous(layout)) return false;
        if (!(kernel.repeating_inputs >> i & 1u) && ops::repeats(layout)) return false;
      }
    }
    return true;
  }

  void add_alias(ir::ValueId id, const Layout& layout) {
    const int32_t index = new_value(id, PlanValue::Kind::kAlias);
    PlanValue& value = plan_.value(index);
    value.alias_of = index_.at(layout.base);
    value.offset_elems = layout.offset;
    if (!ops::is_dense(layout)) value.strides = layout.strides;
    layouts_[id] = layout;
  }

  int32_t producer_step(ir::ValueId base) const {
    const auto it = made_by_.find(base);
    return it == made_by_.end() ? kNone : it->second;
  }

  void plan_step(ir::NodeId id) {
    const ir::Node& node = graph_.node(id);
    const auto chosen = choices_.find(id);
    const Choice choice = chosen != choices_.end() ? chosen->second : choose_copy(id);
    Step step;
    step.kernel = choice.kernel->name;
    step.op = node.op;
    step.attrs = node.attrs;
    step.asked = node.request;
    step.numerics = choice.numerics;
    step.bit_class = choice.kernel->bit_class;
    step.name = label_of(node, id);
    for (const ir::Origin& origin : node.origins) step.origins.push_back(origin.key);
    if (choice.kernel->pack && options_.constants == PlanOptions::Constants::kStored)
      pack(node, *choice.kernel, step);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto is_packed = [i](const PackedInput& p) { return p.input == static_cast<int>(i); };
      step.inputs.push_back(std::ranges::any_of(step.packed, is_packed) ? kNone
                                                                        : input_index(node, i));
    }
    const auto index = static_cast<int32_t>(plan_.steps.size());
    if (is_joined(node, step, *choice.kernel)) joined_.insert(index);
    last_ = {choice.kernel, node.outputs[0], {}};
    if (choice.kernel->joins != nullptr) last_.problem = problem_of(graph_, node);
    for (ir::ValueId out : node.outputs) {
      step.outputs.push_back(out == ir::kNoValue ? kNone : new_value(out, PlanValue::Kind::kArena));
      if (out != ir::kNoValue) made_by_[out] = index;
    }
    plan_.steps.push_back(std::move(step));
    find_data_sizes(node, index);
    const bool composite = node.origins.size() > 1;
    places_[id] = {.state = composite ? LedgerState::kComposite : LedgerState::kStep,
                   .step = index,
                   .why = choice.refusals};
  }

  // Can the launch of the step before do this one's work too?
  bool is_joined(const ir::Node& node, const Step& step, const backend::KernelDef& kernel) {
    if (!kernel.may_be_joined || last_.kernel == nullptr || !last_.kernel->joins) return false;
    return plan_.reads_result(step.inputs, last_.kernel->joined_inputs,
                              value_index(last_.result)) &&
           last_.kernel->joins(last_.problem, problem_of(graph_, node));
  }

  // The kernel of a view that has to move elements, from wherever they lie.
  Choice choose_copy(ir::NodeId id) const {
    const ir::Node& node = graph_.node(id);
    const bool gaps = node.has_input(0) && !ops::is_dense(layouts_.at(node.inputs[0]));
    return choose(id, gaps ? Read::kStrided : Read::kAny);
  }

  void pack(const ir::Node& node, const backend::KernelDef& kernel, Step& step) {
    const backend::Problem problem = problem_of(graph_, node);
    for (const PackedTensor& packed :
         options_.kept ? options_.kept->packed(kernel, problem) : packed_by(kernel, problem)) {
      const Tensor& plain = graph_.value(node.inputs[packed.input]).constant;
      const DType stored = precision::stored_type(graph_, node, static_cast<size_t>(packed.input));
      const ir::ValueId id = node.inputs[packed.input];
      step.packed.push_back({packed.input,
                             add_blob({stored, plain.shape(), packed.layout, packed.bytes}),
                             derivation_row(ir::derivation_of(graph_, id))});
    }
  }

  // An output must be memory of its own or of another value of the engine: inputs are copied.
  void plan_outputs() {
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ir::ValueId id = graph_.outputs[i];
      int32_t index = value_index(id);
      if (plan_.value(index).kind == PlanValue::Kind::kInput) index = copy_step(id, index);
      plan_.outputs.push_back(index);
      plan_.output_names.push_back(graph_.output_names[i]);
    }
  }

  int32_t copy_step(ir::ValueId id, int32_t source) {
    backend::Problem problem;
    problem.op = OpKind::kIdentity;
    const ir::Value& v = graph_.value(id);
    problem.inputs.push_back({true, v.dtype, v.shape, nullptr});
    problem.outputs.push_back({true, v.dtype, v.shape, nullptr});
    for (const backend::KernelDef& row : backend_.kernels) {
      if (row.op != OpKind::kIdentity || !backend::supports(row, problem)) continue;
      Step step;
      step.kernel = row.name;
      last_ = {};
      step.op = OpKind::kIdentity;
      step.numerics = row.numerics(problem);
      step.bit_class = row.bit_class;
      step.name = "copy of input '" + v.name + "'";
      step.inputs = {source};
      PlanValue value = plan_.value(source);
      value.kind = PlanValue::Kind::kArena;
      plan_.values.push_back(std::move(value));
      step.outputs = {static_cast<int32_t>(plan_.values.size() - 1)};
      plan_.steps.push_back(std::move(step));
      return plan_.steps.back().outputs[0];
    }
    throw Error(ErrorCode::kInput, "output '" + v.name +
                                       "' is an input, and the backend cannot copy " +
                                       std::string(name(v.dtype)));
  }

  // An arena value lives from the step that makes it, or from the one before whose launch may do
  // that, to the last that reads it or an alias of it; outputs live to the end. Constants that only
  // packed kernels read drop out in drop_unused().
  void find_lifetimes() {
    const auto last = static_cast<int32_t>(plan_.steps.size()) - 1;
    const auto extend = [&](int32_t value, int32_t step) {
      PlanValue& v = plan_.value(plan_.base_index(value));
      if (v.kind != PlanValue::Kind::kArena) return;
      if (v.first_step == kNone) v.first_step = step;
      v.last_step = std::max(v.last_step, step);
    };
    for (int32_t s = 0; s <= last; ++s) {
      for (int32_t out : plan_.step(s).outputs) {
        if (out != kNone) extend(out, joined_.contains(s) ? s - 1 : s);
        if (out != kNone) extend(out, s);
      }
      for (int32_t in : plan_.step(s).inputs) {
        if (in != kNone) extend(in, s);
      }
    }
    for (int32_t out : plan_.outputs) extend(out, last);
    drop_unused();
  }

  // Removes values that nothing reads (packed constants' plain arrays) and blobs without a reader.
  void drop_unused() {
    std::vector<bool> used(plan_.values.size(), false);
    const auto use = [&](int32_t v) {
      if (v == kNone) return;
      used[static_cast<size_t>(v)] = true;
      used[plan_.base_index(v)] = true;
    };
    for (const Step& step : plan_.steps) {
      for (int32_t v : step.inputs) use(v);
      for (int32_t v : step.outputs) use(v);
    }
    for (int32_t v : plan_.inputs) use(v);
    for (int32_t v : plan_.outputs) use(v);
    std::vector<int32_t> moved(plan_.values.size(), kNone);
    std::vector<PlanValue> values;
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      if (!used[v]) continue;
      moved[v] = static_cast<int32_t>(values.size());
      values.push_back(std::move(plan_.values[v]));
    }
    const auto move = [&](int32_t& v) {
      if (v != kNone) v = moved[static_cast<size_t>(v)];
    };
    for (PlanValue& v : values) move(v.alias_of);
    for (Step& step : plan_.steps) {
      for (int32_t& v : step.inputs) move(v);
      for (int32_t& v : step.outputs) move(v);
    }
    for (int32_t& v : plan_.inputs) move(v);
    for (int32_t& v : plan_.outputs) move(v);
    plan_.values = std::move(values);
    drop_unused_blobs();
  }

  void drop_unused_blobs() {
    std::vector<int32_t> moved(plan_.blobs.size(), kNone);
    std::vector<Blob> blobs;
    const auto keep = [&](int32_t& blob) {
      int32_t& to = moved[blob];
      if (to == kNone) {
        to = static_cast<int32_t>(blobs.size());
        blobs.push_back(std::move(plan_.blob(blob)));
      }
      blob = to;
    };
    for (PlanValue& v : plan_.values) {
      if (v.kind == PlanValue::Kind::kConstant) keep(v.constant);
    }
    for (Step& step : plan_.steps) {
      for (PackedInput& p : step.packed) keep(p.blob);
    }
    plan_.blobs = std::move(blobs);
  }

  const ir::Graph& graph_;
  ir::Graph* owned_ = nullptr;  // graph_, where its constants may be released
  const backend::Backend& backend_;
  const PlanOptions& options_;
  Plan plan_;
  std::map<ir::NodeId, Choice> choices_;
  std::map<ir::NodeId, Place> places_;
  std::map<ir::ValueId, int32_t> index_;
  std::map<std::pair<ir::ValueId, DType>, int32_t> narrowed_;  // constants by stored type
  std::map<ir::ValueId, Layout> layouts_;
  std::map<ir::ValueId, int32_t> made_by_;
  struct Planned {
    const backend::KernelDef* kernel = nullptr;
    ir::ValueId result = ir::kNoValue;
    backend::Problem problem;  // of kernels that join others
  };
  Planned last_;                                   // the last step
  std::set<std::string> found_sizes_;              // of data, by steps so far
  std::set<int32_t> joined_;                       // steps whose work the launch before can do
  std::map<ir::ValueId, ir::NodeId> last_reader_;  // of constants
  ByteTwins blobs_;
  std::map<const Derivation*, int32_t> derivations_;  // their rows
  std::vector<DerivationPtr> kept_derivations_;       // so that no address is used again
};

}  // namespace

bool has_kernel(const ir::Graph& graph, const ir::Node& node, const backend::Backend& backend) {
  const backend::KernelDef* kernel = choice_for(graph, node, backend, Read::kAny).kernel;
  return kernel != nullptr && !backend::is_evaluator(kernel->name);
}

Plan make_plan(const ir::Graph& graph, const backend::Backend& backend,
               const PlanOptions& options) {
  return Planner(graph, backend, options).make();
}

Plan make_plan(ir::Graph&& graph, const backend::Backend& backend, const PlanOptions& options) {
  return Planner(std::move(graph), backend, options).make();
}

}  // namespace vernier::plan
