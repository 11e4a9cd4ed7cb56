// Plan: what an engine does, as plain data — values, steps, shape program, ledger. Made by
// plan/planner.h, written and read by engine/, run by runtime/. Sees core only.
#pragma once
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/attr_codec.h"
#include "core/dim.h"
#include "core/ledger_state.h"
#include "core/numerics.h"
#include "core/op_kind.h"
#include "core/tensor.h"
#include "core/token_rule.h"
#include "vernier/promotion.h"

namespace vernier::plan {

inline constexpr int32_t kNone = -1;

/// A size symbol and the range the engine was built for.
struct Symbol {
  std::string name;
  int64_t min = 1, opt = 1, max = 1;
};

/// A size that each run reads from data: the places that it keeps for the tokens of a mask
/// (core/token_rows.h). Not a Symbol: nobody gives it.
struct TokenCount {
  std::string name;     ///< the size's, as expressions name it
  int32_t input = 0;    ///< index into Plan::inputs: the mask [B, S]
  int64_t padding = 0;  ///< what its padding equals
  int64_t parts = 1;    ///< sizes between two powers of two
  bool front = false;   ///< padding in front of a row's tokens is left out
  bool behind = true;   ///< padding behind them is
  TokenRule rule() const { return {padding, front, behind}; }
};

/// A size that a step finds in data: a count, or what small arrays that the model computes ask for.
/// The host finds it before the step, from its inputs (runtime/data_sizes.h). Not a Symbol.
struct DataSize {
  std::string name;              ///< of the size plus 1: in expressions symbols are at least 1
  int32_t step = 0;              ///< the first of a segment
  int32_t output = 0, axis = 0;  ///< where the step's outputs have it
  SymShape at_most;              ///< one size that it cannot pass; empty: none is known
  Dim size() const { return Dim::symbol(name) - 1; }
};

/// lhs == rhs must hold for the sizes of every run; `where` names the node that needs it.
struct Guard {
  Dim lhs, rhs;
  std::string where;
};

struct PlanValue {
  enum class Kind : uint8_t {
    kInput,        ///< caller's buffer
    kConstant,     ///< blob `constant`
    kShapeValues,  ///< i64/i32 elements `values`, written by the host once per new shape
    kArena,        ///< memory of the arena, live from its first to its last step
    kAlias,        ///< a view into `alias_of`: `offset_elems`, `strides`
  };
  std::string name;  ///< ONNX name where it equals an ONNX value, else empty
  DType dtype = DType::kUndefined;
  SymShape shape;
  Kind kind = Kind::kArena;
  int32_t constant = kNone;                       ///< index into Plan::blobs
  int32_t derivation = kNone;                     ///< kConstant: into Plan::derivations; or unknown
  std::vector<Dim> values;                        ///< kShapeValues
  int32_t alias_of = kNone;                       ///< never itself an alias
  Dim offset_elems;                               ///< kAlias
  SymShape strides;                               ///< kAlias; empty elsewhere: row-major
  int32_t first_step = kNone, last_step = kNone;  ///< kArena: lifetime, aliases included
};

/// Bytes in the engine's weight section: a plain constant, or one packed for a kernel.
struct Blob {
  DType dtype = DType::kUndefined;
  Shape shape;         ///< of the plain array
  std::string layout;  ///< empty: plain row-major
  Tensor bytes;        ///< u8 [size] for packed, else the array itself; mapped after load
};

struct PackedInput {
  int32_t input = 0;  ///< which input of the step it replaces (that input is kNone in `inputs`)
  int32_t blob = kNone;
  int32_t derivation = kNone;  ///< of the plain array
  /// `input` as an index of lists by input.
  size_t at() const { return static_cast<size_t>(input); }
};

/// How a constant was made of the model's: a core Derivation as plain data. Of an int8 weight and
/// of its scales it is how the real weight was made.
struct DerivationRow {
  enum class Kind : uint8_t { kModel, kNumbers, kOperator } kind = Kind::kModel;
  DType dtype = DType::kUndefined;
  Shape shape;
  std::string name;               ///< kModel
  AttrBytes numbers;              ///< kNumbers: the bytes of all elements, or of one for all
  OpKind op = OpKind::kIdentity;  ///< kOperator
  AttrBytes attrs;
  int32_t output = 0;
  std::vector<int32_t> inputs;  ///< rows before this one; kNone: absent
};

struct Step {
  std::string kernel;  ///< row of kernels.def
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  std::vector<int32_t> inputs, outputs;  ///< value indices; kNone: absent
  std::vector<PackedInput> packed;
  Request asked;      ///< of the node: by the model, a mode, a rule
  Numerics numerics;  ///< what the kernel declares that it does: satisfies `asked`
  std::string bit_class;
  std::string name;                  ///< label for messages: the ONNX node that names the composite
  std::vector<std::string> origins;  ///< keys of the ONNX nodes it computes
  std::string tuning;  ///< what its kernel found fastest (KernelBody::tune), else empty

  /// Is input `i` present: listed, not left out, and not packed?
  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != kNone; }
  /// Is output `i` made: listed and wanted?
  bool has_output(size_t i) const { return i < outputs.size() && outputs[i] != kNone; }
};

/// A run of steps without a stop. Before each segment but the first the host finds the sizes that
/// data say of its first step (DataSize), or its results (kDataDependent).
struct Segment {
  int32_t first_step = 0, end_step = 0;
  bool holds(int32_t step) const { return step >= first_step && step < end_step; }
  bool holds(size_t step) const { return holds(static_cast<int32_t>(step)); }
};

/// What was asked of one ONNX node, what it got, and why.
struct LedgerRow {
  std::string key, node, op;  ///< key "path#index", ONNX name, ONNX op type
  std::string composite;      ///< the composite or operator it became part of, else empty
  Request asked;
  DType got_store = DType::kUndefined, got_compute = DType::kUndefined,
        got_accumulate = DType::kUndefined;
  bool in_register = false;  ///< its result is never stored: got_store is the register's type
  LedgerState state = LedgerState::kStep;
  int32_t step = kNone;
  std::string kernel, why;
};

/// A library whose kernels a plan has steps of (docs/custom_kernels.md).
struct Plugin {
  std::string name;  ///< what it calls itself: kernels are plugin.<name>.<operator>.<kernel>
  std::string file;  ///< its file's name, without folders
  std::string hash;  ///< of the file's bytes, in hex
};

/// An output [B, S, …] that is 0 behind the tokens of each row of a mask (core/token_rows.h).
struct ZeroFilled {
  std::string output, mask;  ///< names of the model's output and input
  int64_t padding = 0;       ///< what the mask's padding equals
};

/// What was asked of the build: the same options make the same plan of the same model.
struct BuildOptions {
  std::string policy;                   ///< JSON, as --save-policy writes it
  std::vector<Promotion> promotions;    ///< of the range audit
  std::string shapes;                   ///< as --shapes
  std::vector<std::string> passes_off;  ///< --fuse NAME=off
  std::vector<std::string> outputs;     ///< --outputs
  std::vector<Plugin> plugins;          ///< of --plugin, those that steps come from
  std::string scales;                   ///< of --scales: JSON, what the build took of the file
  bool static_scales = false;           ///< --static
  bool zero_fill = false;               ///< --unpad zero-fill
  std::vector<ZeroFilled> zero_filled;  ///< the outputs that it found
};

struct Plan {
  std::string model_name, producer;  ///< of the ONNX file
  BuildOptions build;                ///< what this plan was asked for
  std::string device;                ///< backend name
  std::string target;                ///< what packed weights depend on
  std::vector<Symbol> symbols;
  std::vector<TokenCount> token_counts;  ///< values of sizes: those of `symbols`, then these,
  std::vector<DataSize> data_sizes;      ///< then these
  std::vector<Guard> guards;
  std::vector<PlanValue> values;
  std::vector<Step> steps;
  std::vector<Segment> segments;
  std::vector<Blob> blobs;
  std::vector<DerivationRow> derivations;  ///< of constants, for verify
  std::vector<int32_t> inputs, outputs;    ///< value indices
  std::vector<std::string> input_names, output_names;
  std::vector<LedgerRow> ledger;
  std::vector<std::string> notes;  ///< what the build wants a reader to know (defaults taken, …)

  /// By index, as other parts of the plan name them: not kNone.
  PlanValue& value(int32_t index) { return values[index]; }
  const PlanValue& value(int32_t index) const { return values[index]; }
  Step& step(int32_t index) { return steps[index]; }
  const Step& step(int32_t index) const { return steps[index]; }
  Blob& blob(int32_t index) { return blobs[index]; }
  const Blob& blob(int32_t index) const { return blobs[index]; }
  const Symbol& symbol(int32_t index) const { return symbols[index]; }

  /// The value whose memory `index` is: itself, or what it is a view of.
  int32_t base_index(int32_t index) const {
    const PlanValue& v = value(index);
    return v.kind == PlanValue::Kind::kAlias ? v.alias_of : index;
  }
  const PlanValue& base_of(int32_t index) const { return value(base_index(index)); }
  /// Is `view` the value `of`, or all of its elements in their order, in another shape?
  bool shows_all_of(int32_t view, int32_t of) const {
    if (view == of) return true;
    const PlanValue& v = value(view);
    if (v.kind != PlanValue::Kind::kAlias || v.alias_of != of || !(v.offset_elems == Dim(0)))
      return false;
    Dim elems = 1, all = 1;
    for (size_t i = v.shape.size(); i-- > 0; elems = elems * v.shape[i]) {
      if (!v.strides.empty() && !(v.shape[i] == Dim(1)) && !(v.strides[i] == elems)) return false;
    }
    for (const Dim& size : value(of).shape) all = all * size;
    return elems == all;
  }
  /// Do the inputs whose bits are set in `which` (KernelBody::joined_inputs) read `result`: input 0
  /// alone all of it, of others those that are there any views of it?
  bool reads_result(std::span<const int32_t> read, uint32_t which, int32_t result) const {
    bool any = false;
    for (size_t i = 0; i < read.size() && i < 32; ++i) {
      if ((which >> i & 1U) == 0 || read[i] == kNone) continue;
      if (which == 1 ? !shows_all_of(read[i], result) : base_index(read[i]) != result) return false;
      any = true;
    }
    return any;
  }
  /// Of a value that has one row for each token of a mask, [1, T, …] or [T, …], in place of
  /// [B, S, …]: the token count T. Null: it has no such rows.
  const TokenCount* tokens_of(int32_t index) const {
    const SymShape& shape = value(index).shape;
    const size_t axis = !shape.empty() && shape[0] == Dim(1) ? 1 : 0;
    if (axis >= shape.size()) return nullptr;
    const auto symbol = shape[axis].as_symbol();
    const auto found =
        symbol ? std::ranges::find(token_counts, *symbol, &TokenCount::name) : token_counts.end();
    return found != token_counts.end() ? &*found : nullptr;
  }
  /// Adds the largest number of places for each token count that `sizes` lacks, where it has the
  /// sizes of the mask, and the largest of each size that data say; 1 where no bound is known.
  void add_bounds(std::map<std::string, int64_t>& sizes) const {
    const auto known = [&](const std::string& symbol) { return sizes.contains(symbol); };
    for (const TokenCount& count : token_counts) {
      const SymShape& mask = value(inputs[count.input]).shape;
      if (known(count.name) || !std::ranges::all_of(product(mask).symbols(), known)) continue;
      sizes[count.name] = product(mask).evaluate(sizes);
    }
    for (const DataSize& data : data_sizes) {
      if (known(data.name)) continue;
      const bool bounded =
          !data.at_most.empty() && std::ranges::all_of(data.at_most[0].symbols(), known);
      sizes[data.name] = 1 + (bounded ? data.at_most[0].evaluate(sizes) : 1);
    }
  }
  /// Does the host find the results of this step (kDataDependent)?
  bool is_found(int32_t index) const { return (flags(step(index).op) & kDataDependent) != 0; }
  /// Does the host find sizes, or results, before this step?
  bool begins_segment(int32_t index) const {
    return is_found(index) ||
           std::ranges::find(data_sizes, index, &DataSize::step) != data_sizes.end();
  }
  /// The contents of a constant.
  const Blob& blob_of(const PlanValue& constant) const { return blob(constant.constant); }
};

}  // namespace vernier::plan
