// What a calibration has done so far, in a file beside its output, so that it can go on. Contract:
// docs/quantization.md "Calibration".
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/sample.h"

namespace vernier::calibration {

/// The batches that are done, in the order of the data.
struct Done {
  int64_t files = 0;    ///< whole files
  int64_t pieces = 0;   ///< of the next file
  int64_t batches = 0;  ///< in all
};

/// OUTPUT.checkpoint.npz
std::filesystem::path checkpoint_of(const std::filesystem::path& output);
/// Writes it whole or not at all. `about`: model, data and options that it is of. Throws
/// Error(kMachine).
void write_checkpoint(const std::filesystem::path& path, const std::string& about, const Done& done,
                      const std::vector<SiteSample>& samples);

enum class Resume : uint8_t { kNothing, kGoesOn, kOfOther };
/// Takes a checkpoint over into `done` and `samples`, which have the channels and capacities of
/// this calibration. kNothing: there is none. kOfOther, and nothing is taken: it is damaged, or of
/// another model, of other data or options.
Resume read_checkpoint(const std::filesystem::path& path, const std::string& about, Done& done,
                       std::vector<SiteSample>& samples);

}  // namespace vernier::calibration
