// TensorRT's calibration caches: text, a line "TRT-<version>-<algorithm>", then "tensor: 3c010a14",
// the bits of the tensor's scale as f32 in hex. A number is scale times an integer of -127 … 127.
// Contract: docs/quantization.md "Calibration caches of TensorRT".
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace vernier::calibration {

struct Cache {
  std::string version;                               ///< "8601"
  std::string algorithm;                             ///< "EntropyCalibration2"
  std::map<std::string, float, std::less<>> scales;  ///< by tensor; 0: no range was seen
};

/// Throws Error(kInput) that names `file`, the line, what is there and what was expected. Scales
/// are 0, or normal numbers of at most a 127th of the largest f32.
Cache read_cache(std::string_view text, const std::string& file);

}  // namespace vernier::calibration
