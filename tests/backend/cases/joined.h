// Pairs of steps that one launch may do (KernelBody::joins).
#pragma once
#include <string>

#include "backend/harness.h"

namespace vernier::backend::test {

/// How a QuantizeRows finds its scale: that of each row, or one that is given.
struct Quantizing {
  bool given = false, factors = false, to_f8 = false;
};
/// QuantizeRows of output 0 of `first`; its own input 0 has zeros.
OpCase quantize_result_of(const OpCase& first, const Quantizing& how);

/// Runs the pair on each row of the second that the first row joins: the bits of one launch are
/// those of two, also in the device's other ways to run it. Returns how many rows were joined.
int check_pair(const KernelDef& kernel, const OpCase& first, const OpCase& second,
               std::string_view tuning = {}, const std::vector<HeadsOfFirst>& heads = {});

}  // namespace vernier::backend::test
