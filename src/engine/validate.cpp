// The rules of plan.h, one function per part of a plan, and of records: see validate.h.
#include "engine/validate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/op_attrs.h"
#include "core/token_rows.h"

namespace vernier::engine {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;

constexpr size_t kMaxRank = 10;       // of the kernels' views (backend/kernel.h)
constexpr size_t kMaxModelRank = 64;  // of a model's arrays (ops/infer.cpp)

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw Error(ErrorCode::kInput, where + ": " + what);
}
std::string range_text(size_t count) {
  return count == 0 ? "there are none" : "expected 0.." + std::to_string(count - 1);
}

std::optional<Shape> constants(const SymShape& dims) {
  Shape shape;
  for (const Dim& d : dims) {
    const auto value = d.as_constant();
    if (!value) return std::nullopt;
    shape.push_back(*value);
  }
  return shape;
}

class Checker {
 public:
  explicit Checker(const plan::Plan& plan) : plan_(plan) {}
  void check() {
    if (plan_.device.empty()) fail("plan", "names no device");
    check_symbols();
    find_known_symbols();
    check_guards();
    for (size_t b = 0; b < plan_.blobs.size(); ++b) check_blob(b);
    for (size_t d = 0; d < plan_.derivations.size(); ++d) check_derivation(d);
    for (size_t v = 0; v < plan_.values.size(); ++v) check_value(v);
    check_ports(plan_.inputs, plan_.input_names, "input");
    check_ports(plan_.outputs, plan_.output_names, "output");
    check_input_kinds();
    check_token_counts();
    for (size_t s = 0; s < plan_.steps.size(); ++s) check_step(s);
    for (size_t i = 0; i < plan_.outputs.size(); ++i) check_output(i);
    check_segments();
    check_data_sizes();
    check_ledger();
  }

 private:
  std::string value_text(size_t v) const { return value_text(static_cast<int32_t>(v)); }
  std::string value_text(int32_t v) const {
    return "value " + std::to_string(v) + " ('" + plan_.value(v).name + "')";
  }
  std::string step_text(size_t s) const {
    return "step " + std::to_string(s) + " ('" + plan_.steps[s].name + "')";
  }
  static void check_index(int32_t index, size_t count, const std::string& where,
                          const std::string& what) {
    if (index >= 0 && static_cast<size_t>(index) < count) return;
    fail(where, what + " " + std::to_string(index) + " does not exist (" + range_text(count) + ")");
  }

  void check_symbols() const {
    std::set<std::string> names;
    for (const plan::Symbol& s : plan_.symbols) {
      const std::string where = "size '" + s.name + "'";
      if (s.name.empty() || !names.insert(s.name).second)
        fail(where, "a size needs a name of its own");
      if (s.min < 1 || s.min > s.opt || s.opt > s.max) {
        fail(where, "range " + std::to_string(s.min) + ".." + std::to_string(s.opt) + ".." +
                        std::to_string(s.max) + " is not 1 <= min <= opt <= max");
      }
    }
  }
  // After the inputs were checked. No input may have such a size.
  void check_token_counts() const {
    for (const plan::TokenCount& count : plan_.token_counts) {
      const std::string where = "size '" + count.name + "'";
      check_index(count.input, plan_.inputs.size(), where, "counts the tokens of input");
      const plan::PlanValue& mask = plan_.value(plan_.inputs[count.input]);
      if (mask.shape.size() != 2 || !is_token_mask(mask.dtype)) {
        fail(where, "counts the tokens of " + std::string(name(mask.dtype)) + str(mask.shape) +
                        ", which is no mask of two dimensions");
      }
      if (count.parts < 1) fail(where, std::to_string(count.parts) + " parts");
      for (const int32_t input : plan_.inputs) {
        for (const Dim& d : plan_.value(input).shape) {
          const std::vector<std::string> symbols = d.symbols();
          if (std::ranges::find(symbols, count.name) != symbols.end())
            fail(where, "is the size of an input, and counted too");
        }
      }
    }
  }
  // Declared sizes, counts of tokens, and the sizes that steps find in data.
  void find_known_symbols() {
    for (const plan::Symbol& s : plan_.symbols) known_.insert(s.name);
    const auto add = [this](const std::string& name) {
      if (name.empty() || !known_.insert(name).second)
        fail("size '" + name + "'", "a size needs a name of its own");
    };
    for (const plan::TokenCount& count : plan_.token_counts) add(count.name);
    for (const plan::DataSize& data : plan_.data_sizes) add(data.name);
    for (const plan::DataSize& data : plan_.data_sizes) found_at_.emplace(data.name, data.step);
  }
  // After values and steps were checked.
  void check_data_sizes() const {
    for (const plan::DataSize& data : plan_.data_sizes) {
      const std::string where = "size '" + data.name + "'";
      check_index(data.step, plan_.steps.size(), where, "is found at step");
      const plan::Step& step = plan_.step(data.step);
      const auto output = static_cast<size_t>(data.output);
      if (data.output < 0 || !step.has_output(output))
        fail(where, "is a size of output " + std::to_string(data.output) + ", which is not made");
      const SymShape& shape = plan_.value(step.outputs[output]).shape;
      check_index(data.axis, shape.size(), where, "axis");
      if (!(shape[static_cast<size_t>(data.axis)] == data.size()))
        fail(where, "is not axis " + std::to_string(data.axis) + " of " + str(shape));
      if (data.at_most.size() > 1) fail(where, "has several bounds");
      for (const Dim& d : data.at_most) check_found(d, data.step - 1, where);
    }
    for (const int32_t input : plan_.inputs)
      for (const Dim& d : plan_.value(input).shape) check_found(d, -1, value_text(input));
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      const auto at = static_cast<int32_t>(s);
      // The host reads the inputs before it finds the sizes of the outputs.
      const bool begins = plan_.begins_segment(at);
      for (int32_t in : plan_.steps[s].inputs)
        if (in != kNone) check_all_found(in, begins ? at - 1 : at, step_text(s));
      for (int32_t out : plan_.steps[s].outputs)
        if (out != kNone) check_all_found(out, at, step_text(s));
    }
    const auto last = static_cast<int32_t>(plan_.steps.size());
    for (int32_t out : plan_.outputs) check_all_found(out, last, "output");
  }
  // Is every size of the value found at `step` or before?
  void check_all_found(int32_t v, int32_t step, const std::string& where) const {
    if (plan_.data_sizes.empty()) return;
    const plan::PlanValue& value = plan_.value(v);
    for (const SymShape* dims : {&value.shape, &value.strides, &value.values})
      for (const Dim& d : *dims) check_found(d, step, where);
    check_found(value.offset_elems, step, where);
    if (value.kind == Kind::kAlias) check_all_found(value.alias_of, step, where);
  }
  void check_found(const Dim& dim, int32_t step, const std::string& where) const {
    check_dim(dim, where);
    for (const std::string& symbol : dim.symbols()) {
      const auto found = found_at_.find(symbol);
      if (found == found_at_.end() || found->second <= step) continue;
      fail(where, "size expression " + dim.str() + " uses '" + symbol + "' before step " +
                      std::to_string(found->second) + " finds it");
    }
  }
  void check_dim(const Dim& dim, const std::string& where) const {
    for (const std::string& symbol : dim.symbols()) {
      if (known_.contains(symbol)) continue;
      fail(where, "size expression " + dim.str() + " uses '" + symbol +
                      "', which no input and no step gives");
    }
  }
  void check_guards() const {
    for (const plan::Guard& guard : plan_.guards) {
      check_dim(guard.lhs, "guard '" + guard.where + "'");
      check_dim(guard.rhs, "guard '" + guard.where + "'");
    }
  }

  void check_blob(size_t b) const {
    const plan::Blob& blob = plan_.blobs[b];
    const std::string where = "blob " + std::to_string(b);
    if (size_bytes(blob.dtype) == 0)
      fail(where, "elements of type " + std::string(name(blob.dtype)));
    if (blob.shape.size() > kMaxRank) fail(where, "more than 10 dimensions");
    num_elems(blob.shape);  // throws on negative and huge sizes
    const bool packed = !blob.layout.empty();
    if (!blob.bytes.defined()) fail(where, "has no bytes");
    if (packed && blob.bytes.dtype() == DType::kU8 && blob.bytes.rank() == 1) return;
    if (packed) fail(where, "packed as '" + blob.layout + "' but not a list of bytes");
    if (blob.bytes.dtype() != blob.dtype || blob.bytes.shape() != blob.shape) {
      fail(where, std::string(name(blob.bytes.dtype())) + str(blob.bytes.shape()) +
                      " bytes for an array " + std::string(name(blob.dtype)) + str(blob.shape));
    }
  }

  // Shapes that do not follow from the operands are found by whoever evaluates them.
  void check_derivation(size_t d) const {
    const plan::DerivationRow& row = plan_.derivations[d];
    const std::string where = "derivation " + std::to_string(d);
    if (size_bytes(row.dtype) == 0) fail(where, "elements of type " + std::string(name(row.dtype)));
    if (row.shape.size() > kMaxModelRank) fail(where, "more than 64 dimensions");
    const auto elems = static_cast<size_t>(num_elems(row.shape));  // throws on negative and huge
    using RowKind = plan::DerivationRow::Kind;
    if ((row.kind == RowKind::kModel) == row.name.empty())
      fail(where, "a constant of the model needs a name, and nothing else has one");
    const size_t width = size_bytes(row.dtype);
    const bool all = row.numbers.size() == elems * width, one = row.numbers.size() == width;
    if (row.kind == RowKind::kNumbers ? !(all || (one && elems > 0)) : !row.numbers.empty())
      fail(where,
           std::to_string(row.numbers.size()) + " bytes for " + std::to_string(elems) + " numbers");
    if (row.kind != RowKind::kOperator) {
      if (!row.inputs.empty() || !row.attrs.empty() || row.output != 0)
        fail(where, "has operands, but no operator");
      return;
    }
    try {
      check_attrs(row.op, row.attrs);
    } catch (const Error& error) {
      fail(where, error.what());
    }
    const Arity arity = vernier::arity(row.op);
    if (row.inputs.empty() || row.output < 0 || (arity.max_out >= 0 && row.output >= arity.max_out))
      fail(where, std::string(name(row.op)) + " without operands, or without this output");
    for (int32_t in : row.inputs)
      if (in != kNone) check_index(in, d, where, "derivation");
  }
  void check_derivation_of(int32_t derivation, const std::string& where) const {
    if (derivation != kNone) check_index(derivation, plan_.derivations.size(), where, "derivation");
  }

  void check_value(size_t v) const {
    const plan::PlanValue& value = plan_.values[v];
    const std::string where = value_text(v);
    if (size_bytes(value.dtype) == 0)
      fail(where, "elements of type " + std::string(name(value.dtype)));
    if (value.shape.size() > kMaxRank) fail(where, "more than 10 dimensions");
    for (const SymShape* dims : {&value.shape, &value.strides, &value.values})
      for (const Dim& d : *dims) check_dim(d, where);
    check_dim(value.offset_elems, where);
    for (const Dim& d : value.shape)
      if (d.is_constant() && d.constant() < 0) fail(where, "negative size " + d.str());
    if (const auto shape = constants(value.shape)) num_elems(*shape);
    check_alias(value, where);
    check_constant(value, where);
    check_shape_values(value, where);
    check_lifetime(value, where);
  }
  void check_alias(const plan::PlanValue& value, const std::string& where) const {
    if (value.kind != Kind::kAlias) {
      if (value.alias_of != kNone || !value.strides.empty() || !(value.offset_elems == Dim(0)))
        fail(where, "is not an alias but has alias_of, an offset or strides");
      return;
    }
    check_index(value.alias_of, plan_.values.size(), where, "aliased value");
    const plan::PlanValue& base = plan_.value(value.alias_of);
    if (base.kind == Kind::kAlias) fail(where, "is an alias of an alias");
    if (base.dtype != value.dtype)
      fail(where, "is an alias with elements of another type: " + std::string(name(value.dtype)) +
                      " of " + std::string(name(base.dtype)));
    if (!value.strides.empty() && value.strides.size() != value.shape.size())
      fail(where, "has " + std::to_string(value.strides.size()) + " strides for " +
                      std::to_string(value.shape.size()) + " dimensions");
    const auto shape = constants(value.shape), base_shape = constants(base.shape);
    auto strides = constants(value.strides);
    const auto offset = value.offset_elems.as_constant();
    if (!shape || !base_shape || !strides || !offset) return;  // the runtime checks those per shape
    if (value.strides.empty()) strides = row_major_strides(*shape);
    if (!stays_inside(*offset, *shape, *strides, num_elems(*base_shape)))
      fail(where, "reaches outside the value it is an alias of");
  }
  void check_constant(const plan::PlanValue& value, const std::string& where) const {
    if (value.kind != Kind::kConstant) {
      if (value.constant != kNone || value.derivation != kNone)
        fail(where, "is not a constant but has a blob or a derivation");
      return;
    }
    check_index(value.constant, plan_.blobs.size(), where, "blob");
    check_derivation_of(value.derivation, where);
    const plan::Blob& blob = plan_.blob(value.constant);
    if (!blob.layout.empty()) fail(where, "is a constant of packed bytes");
    const auto shape = constants(value.shape);
    if (blob.dtype != value.dtype || !shape || *shape != blob.shape) {
      fail(where, "is " + std::string(name(value.dtype)) + str(value.shape) + " but its blob " +
                      std::string(name(blob.dtype)) + str(blob.shape));
    }
  }
  static void check_shape_values(const plan::PlanValue& value, const std::string& where) {
    if (value.kind != Kind::kShapeValues) {
      if (!value.values.empty()) fail(where, "has shape values but is none");
      return;
    }
    const auto shape = constants(value.shape);
    if (!shape || num_elems(*shape) != static_cast<int64_t>(value.values.size()))
      fail(where, std::to_string(value.values.size()) + " elements for shape " + str(value.shape));
    if (value.dtype != DType::kI64 && value.dtype != DType::kI32)
      fail(where, "shape values of type " + std::string(name(value.dtype)));
    for (const Dim& d : value.values) {
      const auto number = d.as_constant();
      if (number && wrap_integer(value.dtype, *number) != *number)
        fail(where, "shape value " + d.str() + " does not fit " + std::string(name(value.dtype)));
    }
  }
  void check_lifetime(const plan::PlanValue& value, const std::string& where) const {
    if (value.kind != Kind::kArena) {
      if (value.first_step != kNone || value.last_step != kNone)
        fail(where, "has a lifetime but no memory in the arena");
      return;
    }
    check_index(value.first_step, plan_.steps.size(), where, "first step");
    check_index(value.last_step, plan_.steps.size(), where, "last step");
    if (value.first_step > value.last_step) fail(where, "its last step comes before its first");
  }

  void check_ports(const std::vector<int32_t>& ports, const std::vector<std::string>& names,
                   const std::string& what) const {
    if (ports.size() != names.size()) {
      fail("plan", std::to_string(ports.size()) + " " + what + "s but " +
                       std::to_string(names.size()) + " names");
    }
    std::set<std::string> seen;
    for (size_t i = 0; i < ports.size(); ++i) {
      const std::string where = what + " '" + names[i] + "'";
      check_index(ports[i], plan_.values.size(), where, "value");
      if (names[i].empty() || !seen.insert(names[i]).second) fail(where, "needs a name of its own");
    }
  }
  void check_input_kinds() {
    written_.assign(plan_.values.size(), false);
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const auto v = static_cast<size_t>(plan_.inputs[i]);
      const std::string where = "input '" + plan_.input_names[i] + "'";
      if (plan_.values[v].kind != Kind::kInput) fail(where, value_text(v) + " is not an input");
      if (written_[v]) fail(where, value_text(v) + " is two inputs");
      written_[v] = true;
    }
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const Kind kind = plan_.values[v].kind;
      if (kind == Kind::kInput && !written_[v]) fail(value_text(v), "is an input without a name");
      if (kind == Kind::kConstant || kind == Kind::kShapeValues) written_[v] = true;
    }
  }

  void check_step(size_t s) {
    const plan::Step& step = plan_.steps[s];
    const std::string where = step_text(s);
    if (step.kernel.empty()) fail(where, "names no kernel");
    try {
      check_attrs(step.op, step.attrs);
    } catch (const Error& error) {
      fail(where, error.what());
    }
    check_operand_counts(step, where);
    check_outputs(step, where);
    check_packed(step, where);
    for (int32_t in : step.inputs) {
      if (in == kNone) continue;
      check_index(in, plan_.values.size(), where, "input value");
      check_written(in, where);
      check_alive(in, s);
    }
    for (int32_t out : step.outputs) {
      if (out == kNone) continue;
      check_index(out, plan_.values.size(), where, "output value");
      if (plan_.value(out).kind != Kind::kArena)
        fail(where, "writes " + value_text(out) + ", which is not in the arena");
      if (written(out)) fail(where, "writes " + value_text(out) + " a second time");
      check_alive(out, s);
      written(out) = true;
    }
  }
  static void check_operand_counts(const plan::Step& step, const std::string& where) {
    const Arity arity = vernier::arity(step.op);
    const auto outside = [](size_t count, int min, int max) {
      return count < static_cast<size_t>(min) || (max >= 0 && count > static_cast<size_t>(max));
    };
    if (outside(step.inputs.size(), arity.min_in, arity.max_in) ||
        outside(step.outputs.size(), 1, arity.max_out)) {
      fail(where, std::string(name(step.op)) + " with " + std::to_string(step.inputs.size()) +
                      " inputs and " + std::to_string(step.outputs.size()) + " outputs");
    }
  }
  // Each kernel of TopK and Split asks which of its outputs are wanted; those of the others write
  // the first one always.
  static void check_outputs(const plan::Step& step, const std::string& where) {
    const bool any = step.op == OpKind::kTopK || step.op == OpKind::kSplit;
    const auto end = any ? step.outputs.end() : step.outputs.begin() + 1;
    if (std::any_of(step.outputs.begin(), end, [](int32_t out) { return out != kNone; })) return;
    fail(where, any ? "writes no output" : "lacks output 0");
  }
  void check_packed(const plan::Step& step, const std::string& where) const {
    std::set<int32_t> seen;
    for (const plan::PackedInput& packed : step.packed) {
      check_index(packed.input, step.inputs.size(), where, "packed input");
      check_index(packed.blob, plan_.blobs.size(), where, "packed blob");
      check_derivation_of(packed.derivation, where);
      if (step.has_input(packed.at()) || !seen.insert(packed.input).second)
        fail(where, "input " + std::to_string(packed.input) + " is given twice");
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool given = step.has_input(i) || seen.contains(static_cast<int32_t>(i));
      if (!given && requires_input(step.op, i)) fail(where, "lacks input " + std::to_string(i));
    }
  }
  void check_written(int32_t v, const std::string& where) const {
    if (!written(plan_.base_index(v)))
      fail(where, "reads " + value_text(v) + " before a step wrote it");
  }
  void check_output(size_t i) const {
    const int32_t v = plan_.outputs[i];
    const std::string where = "output '" + plan_.output_names[i] + "'";
    check_written(v, where);
    if (!plan_.value(v).strides.empty()) fail(where, "has gaps");
    const plan::PlanValue& base = plan_.base_of(v);
    if (base.kind == Kind::kInput) fail(where, "is memory of an input");
    if (base.kind == Kind::kArena && static_cast<size_t>(base.last_step) + 1 != plan_.steps.size())
      fail(where, "does not live to the last step");
  }
  void check_alive(int32_t v, size_t s) const {
    const plan::PlanValue& base = plan_.base_of(v);
    if (base.kind != Kind::kArena) return;
    const auto step = static_cast<int32_t>(s);
    if (base.first_step <= step && step <= base.last_step) return;
    fail(step_text(s), "uses " + value_text(v) + " outside its lifetime, steps " +
                           std::to_string(base.first_step) + ".." + std::to_string(base.last_step));
  }

  void check_segments() const {
    if (plan_.segments.empty()) fail("plan", "has no segments");
    int32_t end = 0;
    for (const plan::Segment& segment : plan_.segments) {
      if (segment.first_step != end || segment.end_step < end)
        fail("plan", "a segment of steps " + std::to_string(segment.first_step) + ".." +
                         std::to_string(segment.end_step) + " follows step " + std::to_string(end));
      end = segment.end_step;
    }
    if (static_cast<size_t>(end) != plan_.steps.size())
      fail("plan", "its segments end at step " + std::to_string(end) + " of " +
                       std::to_string(plan_.steps.size()));
    std::set<int32_t> begun;
    for (size_t i = 1; i < plan_.segments.size(); ++i) {
      const int32_t first = plan_.segments[i].first_step;
      if (first == end || !plan_.begins_segment(first) || !begun.insert(first).second)
        fail("plan", "a segment begins at step " + std::to_string(first) +
                         ", before which the host finds nothing");
    }
    for (int32_t s = 0; s < end; ++s) {
      if (plan_.begins_segment(s) && !begun.contains(s))
        fail(step_text(static_cast<size_t>(s)),
             "what the host finds is in the middle of a segment");
    }
  }
  void check_ledger() const {
    std::set<std::string> keys;
    for (const plan::LedgerRow& row : plan_.ledger) {
      const std::string where = "ledger row '" + row.key + "'";
      if (row.key.empty() || !keys.insert(row.key).second) fail(where, "needs a key of its own");
      if (row.step != kNone) check_index(row.step, plan_.steps.size(), where, "step");
    }
  }

  std::vector<bool>::reference written(int32_t v) { return written_[static_cast<size_t>(v)]; }
  bool written(int32_t v) const { return written_[static_cast<size_t>(v)]; }

  const plan::Plan& plan_;
  std::set<std::string> known_;
  std::map<std::string, int32_t> found_at_;  // by size of data: its step
  std::vector<bool> written_;                // by value: has contents when the current step runs
};

[[noreturn]] void fail_certificate(const std::string& what) {
  throw Error(ErrorCode::kInput, "the certificate " + what);
}
// Text that reports print: there, and without control characters.
bool printable(const std::string& text) {
  return !text.empty() && std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}
bool is_hash(const std::string& hash) {
  return hash.size() == 32 && std::ranges::all_of(hash, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}
void check_hash(const std::string& of, const std::string& hash) {
  if (!is_hash(hash))
    fail_certificate("has " + of + " hash '" + hash + "', expected 32 hex digits");
}

void check_range(const Certificate::Range& range) {
  for (const Certificate::Size& size : range) {
    if (size.name.empty()) fail_certificate("has a size without a name");
    if (size.swept.empty()) fail_certificate("has no value of size '" + size.name + "'");
    for (size_t i = 0; i < size.swept.size(); ++i) {
      if (size.swept[i] < (i == 0 ? 0 : size.swept[i - 1] + 1)) {
        fail_certificate("has size '" + size.name + "' = " + std::to_string(size.swept[i]) +
                         ", expected ascending sizes of at least 0");
      }
    }
  }
}
void check_limits(const std::vector<Certificate::Limit>& limits) {
  for (const Certificate::Limit& limit : limits) {
    if (!printable(limit.name)) fail_certificate("has a limit without a name in plain text");
    if (!std::isfinite(limit.value))
      fail_certificate("has limit " + limit.name + " = " + std::to_string(limit.value));
  }
}

void check_versions(const char* record, const std::vector<Certificate::Version>& versions) {
  for (const Certificate::Version& version : versions) {
    if (!printable(version.of) || !printable(version.number))
      throw Error(ErrorCode::kInput, std::string("the ") + record +
                                         " has a version without a name or number in plain text");
  }
}

void check_certificate(const Certificate& certificate, const std::string& content_hash) {
  if (!printable(certificate.verdict)) fail_certificate("has no verdict in plain text");
  check_hash("engine", certificate.engine_hash);
  check_hash("model", certificate.model_hash);
  check_hash("data", certificate.data_hash);
  for (const Certificate::Range& range : certificate.ranges) check_range(range);
  check_limits(certificate.tolerances);
  for (const Certificate::OutputLimits& output : certificate.outputs) {
    if (output.output.empty()) fail_certificate("has an output without a name");
    check_limits(output.limits);
    check_limits({{"noise", output.noise_rms}, {"rms of the reference", output.reference_rms}});
  }
  for (const Certificate::Plugin& plugin : certificate.plugins) {
    if (!printable(plugin.name) || !printable(plugin.file))
      fail_certificate("has a plugin without a name or file in plain text");
    check_hash("plugin", plugin.hash);
  }
  check_versions("certificate", certificate.versions);
  if (certificate.engine_hash != content_hash) {
    fail_certificate("is of another engine: verified was the content with hash " +
                     certificate.engine_hash + ", here is " + content_hash +
                     "; verify the engine again");
  }
}

void check_canary(const Canary& canary) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::kInput, "the canary " + what);
  };
  check_versions("canary", canary.versions);
  for (const Canary::Run& run : canary.runs) {
    if (!is_hash(run.outputs_hash))
      fail("has outputs hash '" + run.outputs_hash + "', expected 32 hex digits");
    for (const Canary::Array& array : run.inputs) {
      uint64_t bytes = size_bytes(array.dtype);
      for (const int64_t size : array.shape) {
        if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes))
          fail("has input '" + array.name + "' of shape " + str(array.shape));
      }
      if (array.name.empty() || bytes != array.bytes.size())
        fail("has input '" + array.name + "' of " + std::to_string(array.bytes.size()) +
             " bytes, expected a name and " + std::to_string(bytes) + " for " +
             std::string(name(array.dtype)) + str(array.shape));
    }
  }
}

}  // namespace

bool stays_inside(int64_t offset, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  int64_t elems) {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  int64_t low = offset, high = offset;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t span = 0;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &span)) return false;
    int64_t& end = span < 0 ? low : high;
    if (__builtin_add_overflow(end, span, &end)) return false;
  }
  return low >= 0 && high < elems;
}

void check_plan(const plan::Plan& plan) { Checker(plan).check(); }

void check_records(const Records& records, const std::string& content_hash) {
  if (records.certificate) check_certificate(*records.certificate, content_hash);
  if (records.canary) check_canary(*records.canary);
}

}  // namespace vernier::engine
