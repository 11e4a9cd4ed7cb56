// Plants: kernels with one defect each, which verify must find. They stand in for a kernel of the
// CPU's list in a backend of this test program; src/ knows nothing of them. Contract:
// docs/verification.md "Planted defects".
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "backend/kernel.h"

namespace vernier::test {

struct Plant {
  std::string_view name;
  std::string_view defect;   ///< in words
  std::string_view model;    ///< folder below tests/models, or a model of models.h
  std::string_view kernel;   ///< the row of kernels.def it replaces
  std::string_view verdict;  ///< what verify must say
  bool names_step;           ///< the defect is in one step, which the report must name
  void (*launch)(const backend::LaunchCall&);
};

std::span<const Plant> plants();
/// The CPU's kernels with the plant in place of its kernel; null: as they are. The result lives as
/// long as the program.
const backend::Backend& planted_backend(const Plant* plant);

}  // namespace vernier::test
