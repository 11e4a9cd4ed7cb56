// Canary: seeded inputs and the hashes of what an engine answered to them when it was built. Plain
// data. It is in the engine file, outside the content hash (docs/engine_format.md). What it is good
// for: docs/certificates.md "Canary".
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vernier/certificate.h"
#include "vernier/dtype.h"

namespace vernier {

struct Canary {
  /// An input: dense, row-major.
  struct Array {
    std::string name;
    DType dtype = DType::kUndefined;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
    bool operator==(const Array&) const = default;
  };
  struct Run {
    std::vector<Array> inputs;
    std::string outputs_hash;  ///< XXH3-128 of names, types, shapes and bytes, 32 digits in hex
    bool operator==(const Run&) const = default;
  };
  std::vector<Certificate::Version> versions;  ///< the program, the machine, its libraries
  std::vector<Run> runs;
  bool operator==(const Canary&) const = default;
};

}  // namespace vernier
