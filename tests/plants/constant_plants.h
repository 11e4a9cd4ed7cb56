// Plants in an engine: the kernels are right, a constant or an attribute is not the model's.
// Contract: docs/verification_fitting.md "Planted defects".
#pragma once
#include "plan/plan.h"

namespace vernier::test {

/// The last row of the largest table times -3.
void spoil_vocabulary_row(plan::Plan& plan);
/// Row r of the table of positions holds row r + 1, from row 64 on.
void spoil_late_positions(plan::Plan& plan);
/// One element of the first list that a product adds is off by 2^-12 of it.
void spoil_bias_element(plan::Plan& plan);
/// Two columns of the first packed matrix of a product change places.
void spoil_packed_columns(plan::Plan& plan);
/// The epsilon of the second norm of a sum becomes 1e-2.
void spoil_an_epsilon(plan::Plan& plan);
/// The scale of one column of the first int8 weight is twice what it is, and its weights half.
void spoil_int8_scale(plan::Plan& plan);

}  // namespace vernier::test
