// Certificate: what an engine was verified with, and the verdict. Plain data. It is in the engine
// file, outside the content hash (docs/engine_format.md), and has no date: same input, same bytes.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace vernier {

/// Hashes are XXH3-128, 32 digits in hex.
struct Certificate {
  /// A limit that the outputs were compared with, e.g. {"rms", 1e-3}.
  struct Limit {
    std::string name;
    double value = 0;
    bool operator==(const Limit&) const = default;
  };
  /// The version of a program that took part, e.g. {"vernier", "0.1.0"}.
  struct Version {
    std::string of, number;
    bool operator==(const Version&) const = default;
  };

  std::string verdict;                    ///< "pass", or the finding: "precision" …
  std::string engine_hash;                ///< Engine::content_hash() of the engine that ran
  std::string model_hash;                 ///< of the model's file
  std::string data_hash;                  ///< of the input arrays
  std::vector<int64_t> batches, lengths;  ///< swept: each batch with each length
  std::vector<Limit> tolerances;
  std::vector<Version> versions;

  bool passed() const { return verdict == "pass"; }
  bool operator==(const Certificate&) const = default;
};

}  // namespace vernier
