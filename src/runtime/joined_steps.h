// Steps whose launch does the work of the step behind too (KernelBody::joins).
#pragma once
#include <cstdint>
#include <span>

#include "backend/kernel.h"
#include "plan/plan.h"

namespace vernier::runtime {

/// Does a step's launch do the next step's work too? kAlone: and nobody else reads its result.
enum class Joins : uint8_t { kNo, kYes, kAlone };

/// Of step `s`. `kernels`: by step; a null one joins nothing.
Joins joins_next(const plan::Plan& plan, size_t s,
                 std::span<const backend::KernelDef* const> kernels);

}  // namespace vernier::runtime
