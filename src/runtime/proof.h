// What opening an engine proves of its steps: an engine file may come from anybody, and kernels
// trust the shapes, types and attributes that they are given.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "core/limits.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// Applies the operators' rules (rules/rules.h) to every step, in order: operands and attributes
/// fit the operator, and outputs have the types and shapes that the plan gives them. What holds for
/// some sizes only comes back as guards that every new shape is held to, besides the plan's own.
/// Throws Error(kInput) naming the step; Error(kMachine) where the watch's time is over.
std::vector<plan::Guard> prove_shapes(const plan::Plan& plan, const Watch& watch = {});

/// What is left to check for given sizes: the guards, that views stay inside what they are views
/// of, and that shape values fit their type. For whoever evaluates a plan without a session, which
/// checks the same by slot. What a size says that `sizes` lacks is left out. Throws Error(kInput).
void check_sizes(const plan::Plan& plan, const std::vector<plan::Guard>& guards,
                 const std::map<std::string, int64_t>& sizes);

/// What is wrong with a guard whose sides have these values: "at node 'x' …".
std::string broken_guard(const plan::Guard& guard, int64_t lhs, int64_t rhs);
/// A number that these sizes give for an element of shape values must fit their type: rules take it
/// as it is. Throws Error(kInput).
void check_shape_value(const plan::PlanValue& value, int64_t number);
struct ViewSizes {
  int64_t offset = 0;  ///< in elements
  std::span<const int64_t> shape, strides;
  int64_t base_elems = 0;  ///< of what it is a view of
};
/// Does the view stay inside what it is a view of? The planner's do; a file may say anything.
/// Throws Error(kInput).
void check_view(const plan::Plan& plan, int32_t view, const ViewSizes& sizes);

/// The step as a problem for its kernel, with the contents of plain constants; packed ones are
/// marked as packed.
backend::Problem problem_of(const plan::Plan& plan, const plan::Step& step);

/// May `kernel` run the step: it supports the operands, takes them as they lie, and computes what
/// was asked of the step as the plan says. Throws Error(kInput) naming the step.
void prove_kernel(const plan::Plan& plan, const plan::Step& step, const backend::KernelDef& kernel,
                  const backend::Problem& problem);

}  // namespace vernier::runtime
