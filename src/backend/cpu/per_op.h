// Kernel bodies that exist once per operator: prepare and launch do not get the operator as an
// argument, so each operator has its own functions. Used by cpu.cpp only.
#pragma once
#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

/// Runs the operator's FP64 evaluator (core/evaluator.h): any types, any strides, slow, allocates.
const KernelBody& evaluator_body(OpKind op);

/// The elementwise loop (elementwise.h) running this one operator, or a program of them.
const KernelBody& elementwise_body(OpKind op);

}  // namespace vernier::backend::cpu
