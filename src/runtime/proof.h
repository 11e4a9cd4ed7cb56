// What opening an engine proves of its steps: an engine file may come from anybody, and kernels
// trust the shapes, types and attributes that they are given.
#pragma once
#include <map>
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

/// What is left to ask where these are the sizes: the guards, that views stay inside what they are
/// views of, and that shape values fit their type. A session asks the same of every new shape; this
/// is for whoever evaluates a plan without one. Throws Error(kInput).
void check_sizes(const plan::Plan& plan, const std::vector<plan::Guard>& guards,
                 const std::map<std::string, int64_t>& sizes);

/// A number that these sizes give for an element of shape values must fit their type: rules take it
/// as it is. Throws Error(kInput).
void check_shape_value(const plan::PlanValue& value, int64_t number);

/// The step as its kernel is asked about it. Contents of plain constants are there, packed ones are
/// marked as packed.
backend::Problem problem_of(const plan::Plan& plan, const plan::Step& step);

/// May `kernel` run the step: it supports the operands, takes them as they lie, and computes what
/// was asked of the step as the plan says. Throws Error(kInput) naming the step.
void prove_kernel(const plan::Plan& plan, const plan::Step& step, const backend::KernelDef& kernel,
                  const backend::Problem& problem);

}  // namespace vernier::runtime
