// Sizes that data say (plan::DataSize): found by the host before a step, by its rule and, where
// finding the size is computing the result, by its evaluator.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// What the host knows of an input of a step.
struct KnownInput {
  DType dtype = DType::kUndefined;  ///< kUndefined: absent
  Shape shape;
  const EvalTensor* contents = nullptr;  ///< null: not read
};

/// Must the host read this input to find the sizes of the step's outputs? All inputs of operators
/// whose results say their size (kDataDependent); else small ones, which may ask for sizes.
bool says_sizes(OpKind op, const Shape& input);

struct FoundSizes {
  std::vector<Shape> shapes;        ///< by output; of absent ones empty
  std::vector<EvalTensor> results;  ///< by output, of kDataDependent operators; else empty
};
/// `inputs`: by input of the step, packed ones too. Throws Error(kInput) for values that the
/// operator refuses.
FoundSizes find_sizes(const plan::Plan& plan, const plan::Step& step,
                      std::span<const KnownInput> inputs);

/// Calls set(index in Plan::data_sizes, size plus 1) for each size that `step` finds. Throws
/// Error(kInput) where the outputs have not the number of axes that the plan says.
template <class Set>
void bind_data_sizes(const plan::Plan& plan, int32_t step, const FoundSizes& found,
                     const Set& set) {
  for (size_t i = 0; i < plan.data_sizes.size(); ++i) {
    const plan::DataSize& data = plan.data_sizes[i];
    if (data.step != step) continue;
    const auto output = static_cast<size_t>(data.output), axis = static_cast<size_t>(data.axis);
    if (output >= found.shapes.size() || axis >= found.shapes[output].size()) {
      throw Error(ErrorCode::kInput, "step '" + plan.step(step).name + "': output " +
                                         std::to_string(output) +
                                         " has fewer axes than the engine says; build it again");
    }
    set(i, found.shapes[output][axis] + 1);
  }
}

/// Throws Error(kInput) where an output's sizes are not those that the plan computes from the sizes
/// found: `declared`, by output.
void check_found_sizes(const plan::Step& step, const FoundSizes& found,
                       std::span<const Shape> declared);

}  // namespace vernier::runtime
