// The inputs of a run: names, types, shapes and ranges, checked before anything runs.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/shape_entry.h"
#include "vernier/session.h"

namespace vernier::runtime {

class Binding {
 public:
  enum class Data : uint8_t { kNeeded, kNotNeeded };

  /// Throws Error(kInput) where a size symbol of the engine is the size of no input. `engine` must
  /// outlive it.
  explicit Binding(const Engine::Impl& engine);

  /// Takes the inputs of a run, in any order, and reads the size symbols from them, token counts
  /// from their data where it is needed. They must live until the run is over. Throws Error(kInput)
  /// naming the input: unknown, missing or given twice, of another type or shape, outside the range
  /// that the engine was built for.
  void bind(std::span<const Input> inputs, Data data);
  /// By input of the plan.
  std::span<const Input* const> inputs() const { return inputs_; }
  /// By symbol of the plan, then by token count, then by data size: kUnknownSize until it is set.
  const std::vector<int64_t>& symbols() const { return symbols_; }
  /// What a segment found: the value of the symbol of Plan::data_sizes[index].
  void set_data_size(size_t index, int64_t symbol);

  /// Sizes that are expressions of symbols are as these slots say. Throws Error(kInput).
  void check_expressions(const ShapeEntry& entry) const;
  /// Throws Error(kInput) where an element is a value that a step refuses (Engine::Impl::id_rules).
  /// Those in device memory are not read. Values that a model computes are checked by the CPU's
  /// kernels.
  void check_values(const ShapeEntry& entry, const Arguments& arguments) const;

 private:
  /// How one size of one input is checked: against a number, or a symbol it binds or repeats.
  struct SizeRule {
    enum class Kind : uint8_t { kNumber, kBinds, kRepeats, kExpression } kind = Kind::kNumber;
    int64_t number = 0;                      ///< kNumber
    int32_t symbol = -1;                     ///< kBinds, kRepeats
    int32_t slot = -1;                       ///< kExpression
    int32_t first_input = 0, first_dim = 0;  ///< kRepeats: where the symbol was bound
  };

  void make_rules();
  void bind_size(size_t input, size_t dim, int64_t size);
  void check_ranges() const;
  void count_all_tokens(Data data);
  void check_values(const IdRule& rule, const ShapeEntry& entry, const Arguments& arguments) const;
  int64_t& size_of(const SizeRule& rule) { return symbols_[rule.symbol]; }
  int64_t size_of(const SizeRule& rule) const { return symbols_[rule.symbol]; }
  [[noreturn]] void fail(size_t input, const std::string& what) const;

  const Engine::Impl& engine_;
  std::vector<std::vector<SizeRule>> rules_;  // by input and dimension
  std::vector<const Input*> inputs_;          // by input, during a run
  std::vector<int64_t> symbols_;              // as symbols() has them, during a run
};

}  // namespace vernier::runtime
