// Plants: kernels with one defect each, which verify must find. They stand in for kernels of a
// device's list in a backend of this test program; src/ knows nothing of them. Contract:
// docs/verification_fitting.md "Planted defects".
#pragma once
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/kernel.h"
#include "ir/graph.h"
#include "plan/plan.h"

namespace vernier::test {

/// Does what `right` should do, wrongly. On a GPU everything goes to the stream of the call.
using PlantedLaunch = void (*)(const backend::KernelDef& right, const backend::LaunchCall&);

struct Plant {  // NOLINT(clang-analyzer-optin.performance.Padding): in the order of the tables
  std::string_view name;
  std::string_view defect;  ///< in words
  std::string_view model;   ///< folder below tests/models, or a model of models.h
  std::string_view
      kernel;  ///< the row of kernels.def it replaces, or how the names of several begin
  std::string_view verdict;  ///< what verify must say
  bool names_step;           ///< the defect is in one step, which the report must name
  PlantedLaunch launch;
  std::string_view mode = "fp32";  ///< the engine's
  /// A fusion (--fuse NAME=off) without which the engine has no such step, and so no defect.
  std::string_view fusion = {};
  /// Bytes of workspace beyond the kernel's own; scratch_of() is where they lie. Null: none.
  size_t (*scratch)(const backend::PrepareCall&) = nullptr;
  /// Makes the state of `right` wrongly. Null: as `right` does.
  std::unique_ptr<backend::KernelState> (*create)(const backend::KernelDef& right,
                                                  const backend::CreateCall&) = nullptr;
  /// Only at sizes that verify must visit by itself: it chooses them, not the matrix.
  bool default_sizes = false;
  /// Spoils a constant of the engine; `launch` is null then, and the kernels are right.
  void (*spoil)(plan::Plan& plan) = nullptr;
  /// Only in steps on packed rows, which a part of the model need not have.
  bool packed = false;
  /// Changes the model of which the engine is built; `launch` is null then, and the kernels are
  /// right. It is verified against the model as it was.
  void (*rewrite)(ir::Graph& model) = nullptr;
};

/// A plant's name as that of a parameter of a test: only letters, digits and '_'.
template <class ParamInfo>
std::string plant_test_name(const ParamInfo& one) {
  std::string name(one.param);
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The defects for a device ("cpu", "cuda"); empty where the program was built without it.
std::span<const Plant> plants(std::string_view device = "cpu");
/// The kernels of a device with the plant in place of those it replaces; null: as they are. The
/// result lives as long as the program.
const backend::Backend& planted_backend(const Plant* plant, std::string_view device = "cpu");
/// Yes, or why nothing can run on the device here.
Support available(std::string_view device);

/// Where the last `bytes` of a launch's workspace begin.
std::byte* scratch_of(const backend::LaunchCall& call, size_t bytes);
/// Calls `body` with all arrays of the call in host memory, and copies the outputs back: for
/// defects that are written once for all devices.
void on_host(const backend::LaunchCall& call,
             const std::function<void(const backend::LaunchCall&)>& body);

}  // namespace vernier::test
