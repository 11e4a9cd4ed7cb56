// Packed arrays: see vernier/packed.h.
#include "vernier/packed.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "runtime/engine_impl.h"
#include "runtime/id_rules.h"
#include "vernier/nearest.h"

namespace vernier {
namespace {

// The places of rows, and which inputs and outputs have them.
class Places {
 public:
  Places(const Engine& engine, std::span<const int64_t> starts)
      : plan_(engine.impl().plan), starts_(starts) {
    if (plan_.token_counts.empty()) {
      throw Error(ErrorCode::kInput,
                  "packed arrays need an engine that computes tokens only, and this one computes "
                  "padding: the notes of its build ('vernier inspect ENGINE --ledger') say why; "
                  "build it with --unpad zero-fill if its outputs have a place for each token, or "
                  "pad the arrays yourself");
    }
    count_ = &plan_.token_counts.front();
    mask_ = plan_.value(plan_.inputs[count_->input]).shape;
    for (const plan::TokenCount& other : plan_.token_counts) {
      if (has(plan_.inputs[other.input])) continue;
      throw Error(ErrorCode::kInput,
                  "packed arrays need an engine whose rows have one length, and "
                  "this one has several masks of other sizes; pad the arrays");
    }
    check_starts();
    length_ = std::max(longest(), least_length());
  }

  int64_t rows() const { return std::ssize(starts_) - 1; }
  int64_t tokens() const { return starts_.back(); }
  int64_t length() const { return length_; }
  int64_t begin(int64_t row) const { return starts_[static_cast<size_t>(row)]; }
  int64_t size(int64_t row) const { return begin(row + 1) - begin(row); }
  /// The place b·length + s of a row's first token: padding lies where it is left out.
  int64_t first_place(int64_t row) const {
    return row * length() + (count_->behind ? 0 : length() - size(row));
  }
  const plan::TokenCount& count() const { return *count_; }

  bool has(int32_t value) const {
    const SymShape& shape = plan_.value(value).shape;
    return shape.size() >= 2 && same(shape[0], mask_[0]) && same(shape[1], mask_[1]);
  }
  // May the mask be made, since nothing but padding is read off it?
  bool makes_mask() const {
    const auto rules = runtime::find_id_rules(plan_);
    return std::ranges::none_of(rules, [&](const runtime::IdRule& rule) {
      return std::cmp_equal(rule.input, count_->input);
    });
  }

 private:
  bool same(const Dim& a, const Dim& b) const {
    return a == b || std::ranges::any_of(plan_.guards, [&](const plan::Guard& guard) {
             return (guard.lhs == a && guard.rhs == b) || (guard.lhs == b && guard.rhs == a);
           });
  }
  void check_starts() const {
    const auto fail = [](const std::string& what) {
      throw Error(ErrorCode::kInput, "cu_seqlens: " + what +
                                         "; it holds where each row begins, from 0 on, and then "
                                         "the number of all tokens");
    };
    if (starts_.size() < 2)
      fail("got " + std::to_string(starts_.size()) + " numbers, expected 2 or more");
    if (starts_[0] != 0) fail("begins with " + std::to_string(starts_[0]) + ", expected 0");
    for (int64_t row = 0; row < rows(); ++row) {
      if (size(row) < 1)
        fail("row " + std::to_string(row) + " has " + std::to_string(size(row)) +
             " tokens, expected at least 1");
    }
  }
  int64_t longest() const {
    int64_t most = 0;
    for (int64_t row = 0; row < rows(); ++row) most = std::max(most, size(row));
    return most;
  }
  int64_t least_length() const {
    const auto symbol = mask_[1].as_symbol();
    if (!symbol) return mask_[1].as_constant().value_or(1);
    const auto found = std::ranges::find(plan_.symbols, *symbol, &plan::Symbol::name);
    return found == plan_.symbols.end() ? 1 : found->min;
  }

  const plan::Plan& plan_;
  const std::span<const int64_t> starts_;
  const plan::TokenCount* count_ = nullptr;
  SymShape mask_;
  int64_t length_ = 1;
};

Shape with_leading(std::vector<int64_t> leading, const Shape& shape, size_t from) {
  leading.insert(leading.end(), shape.begin() + static_cast<int64_t>(from), shape.end());
  return leading;
}

// An element of a mask that says padding, or a token.
Tensor filled(DType dtype, const Shape& shape, int64_t value) {
  EvalTensor all(dtype, shape);
  if (all.is_float())
    std::ranges::fill(all.f, static_cast<double>(value));
  else
    std::ranges::fill(all.i, value);
  return all.to_tensor();
}

// [T, …] ⇒ [B, S, …], over `background`.
Tensor put_in_places(const Tensor& packed, const Tensor& background, const Places& places) {
  std::vector<std::byte> bytes(background.byte_span().begin(), background.byte_span().end());
  const size_t place = packed.bytes() / static_cast<size_t>(std::max<int64_t>(1, places.tokens()));
  for (int64_t row = 0; row < places.rows(); ++row) {
    std::memcpy(bytes.data() + static_cast<size_t>(places.first_place(row)) * place,
                packed.byte_span().data() + static_cast<size_t>(places.begin(row)) * place,
                static_cast<size_t>(places.size(row)) * place);
  }
  return Tensor::from_bytes(packed.dtype(), background.shape(), bytes);
}

void check_names(const plan::Plan& plan, const NamedTensors& arrays) {
  for (const auto& [name, tensor] : arrays) {
    if (std::ranges::find(plan.input_names, name) != plan.input_names.end()) continue;
    throw Error(ErrorCode::kInput,
                "the engine has no input '" + name + "'" + did_you_mean(name, plan.input_names));
  }
}

const Tensor* named(const NamedTensors& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &NamedTensors::value_type::first);
  return found == arrays.end() ? nullptr : &found->second;
}

}  // namespace

NamedTensors padded(const Engine& engine, const NamedTensors& packed,
                    std::span<const int64_t> starts) {
  const plan::Plan& plan = engine.impl().plan;
  const Places places(engine, starts);
  check_names(plan, packed);
  NamedTensors arrays;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const std::string& name = plan.input_names[i];
    const Tensor* given = named(packed, name);
    const bool is_mask = std::cmp_equal(i, places.count().input);
    if (!places.has(plan.inputs[i])) {
      if (given != nullptr) arrays.emplace_back(name, *given);  // absent: run() says so
      continue;
    }
    const int64_t padding = is_mask ? places.count().padding : 0;
    if (given == nullptr && (!is_mask || !places.makes_mask())) {
      throw Error(ErrorCode::kInput, "input '" + name + "' is missing; give its " +
                                         std::to_string(places.tokens()) +
                                         " tokens, one row after the other");
    }
    const DType dtype = plan.value(plan.inputs[i]).dtype;
    const Tensor tokens =
        given != nullptr ? *given : filled(dtype, {places.tokens()}, padding == 0 ? 1 : 0);
    if (tokens.rank() < 1 || tokens.shape()[0] != places.tokens()) {
      throw Error(ErrorCode::kInput, "input '" + name + "' has shape " + str(tokens.shape()) +
                                         ", expected " + std::to_string(places.tokens()) +
                                         " tokens first, as cu_seqlens ends");
    }
    if (tokens.dtype() != dtype) {
      throw Error(ErrorCode::kInput, "input '" + name + "' is " +
                                         std::string(vernier::name(tokens.dtype())) +
                                         ", expected " + std::string(vernier::name(dtype)));
    }
    const Shape whole = with_leading({places.rows(), places.length()}, tokens.shape(), 1);
    arrays.emplace_back(name, put_in_places(tokens, filled(dtype, whole, padding), places));
  }
  return arrays;
}

NamedTensors packed(const Engine& engine, const NamedTensors& answers,
                    std::span<const int64_t> starts) {
  const plan::Plan& plan = engine.impl().plan;
  const Places places(engine, starts);
  NamedTensors arrays;
  for (const auto& [name, whole] : answers) {
    const auto at = std::ranges::find(plan.output_names, name) - plan.output_names.begin();
    const bool has_places =
        std::cmp_less(at, plan.outputs.size()) && places.has(plan.outputs[static_cast<size_t>(at)]);
    if (!has_places) {
      arrays.emplace_back(name, whole);
      continue;
    }
    const size_t place = whole.bytes() / static_cast<size_t>(places.rows() * places.length());
    std::vector<std::byte> bytes;
    for (int64_t row = 0; row < places.rows(); ++row) {
      const std::byte* from =
          whole.byte_span().data() + static_cast<size_t>(places.first_place(row)) * place;
      bytes.insert(bytes.end(), from, from + static_cast<size_t>(places.size(row)) * place);
    }
    arrays.emplace_back(
        name, Tensor::from_bytes(whole.dtype(), with_leading({places.tokens()}, whole.shape(), 2),
                                 bytes));
  }
  return arrays;
}

NamedTensors run_packed(Session& session, const NamedTensors& arrays,
                        std::span<const int64_t> starts) {
  const Engine& engine = session.engine();
  const NamedTensors whole = padded(engine, arrays, starts);
  std::vector<Input> inputs;
  for (const auto& [name, tensor] : whole)
    inputs.push_back({name, tensor.dtype(), tensor.shape(), tensor.byte_span().data()});
  NamedTensors answers;
  for (const Output& output : session.run(inputs)) {
    const auto* data = static_cast<const std::byte*>(output.data);
    answers.emplace_back(
        std::string(output.name),
        Tensor::from_bytes(output.dtype, Shape(output.shape.begin(), output.shape.end()),
                           {data, output.bytes}));
  }
  return packed(engine, answers, starts);
}

std::vector<int64_t> starts_of(const Tensor& cu_seqlens) {
  if (cu_seqlens.rank() != 1 || !is_integer(cu_seqlens.dtype())) {
    throw Error(ErrorCode::kInput, "cu_seqlens: got " + std::string(name(cu_seqlens.dtype())) +
                                       " " + str(cu_seqlens.shape()) +
                                       ", expected a list of integers: where each row begins, and "
                                       "then the number of all tokens");
  }
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < cu_seqlens.elems(); ++i) starts.push_back(cu_seqlens.integer_at(i));
  return starts;
}

}  // namespace vernier
