// Certificate: how an engine was verified, and the verdict. Plain data. It is in the engine file,
// outside the content hash (docs/engine_format.md), and has no date: same input, same bytes. What
// it is good for: docs/certificates.md "Certificate".
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace vernier {

/// Hashes are XXH3-128, 32 digits in hex.
struct Certificate {
  /// A limit, e.g. {"rms", 1e-3}.
  struct Limit {
    std::string name;
    double value = 0;
    bool operator==(const Limit&) const = default;
  };
  /// What took part in the verification, e.g. {"vernier", "0.1.0"}.
  struct Version {
    std::string of, number;
    bool operator==(const Version&) const = default;
  };
  /// What one output was really held to: the tolerance, raised by the noise of the engine's types.
  /// The limits are "worst", of |E − R| / (1 + |R|) of an element; "element", of |E − R| where that
  /// is larger; "rms", of rms(E − R) over all cells; and "max", "cos", "flips" if they were asked
  /// for.
  struct OutputLimits {
    std::string output;
    double noise_rms = 0;      ///< rms(I − F): the error that the engine's types explain
    double reference_rms = 0;  ///< rms(R), to read the others by
    std::vector<Limit> limits;
    bool operator==(const OutputLimits&) const = default;
  };
  /// One named size of the engine, and what it was in the runs: ascending, none twice.
  struct Size {
    std::string name;
    std::vector<int64_t> swept;
    int64_t min() const { return swept.front(); }
    int64_t max() const { return swept.back(); }
    bool operator==(const Size&) const = default;
  };
  /// Sizes that were verified together, one for each named size of the engine: all that lie between
  /// the smallest and the largest along every axis are covered. The grid of a sweep is one range; a
  /// cell beyond it and a file of the user's are ranges of their own, which cover just themselves.
  using Range = std::vector<Size>;
  /// A plugin that steps of the engine come from.
  struct Plugin {
    std::string name, file, hash;
    bool operator==(const Plugin&) const = default;
  };

  std::string verdict;      ///< "pass", or the finding: "precision" …
  std::string engine_hash;  ///< Engine::content_hash() of the engine that ran
  std::string model_hash;   ///< of the model's file
  std::string data_hash;    ///< of the input arrays
  std::vector<Range> ranges;
  std::vector<Limit> tolerances;  ///< as they were asked for
  bool own_tolerance = false;     ///< they are the user's, not the usual ones
  /// Kernels declare errors above the cap, and were accepted (Request::accept_declared).
  bool accepted_declared = false;
  std::vector<OutputLimits> outputs;
  std::vector<Version> versions;  ///< environment(): the program, the machine, its libraries
  std::vector<Plugin> plugins;    ///< by name

  bool passed() const { return verdict == "pass"; }
  bool operator==(const Certificate&) const = default;
};

/// What a caller takes from a certificate besides the verdict "pass" under the usual limits.
struct CertificateTerms {
  bool own_tolerance = false;  ///< limits that the user chose
  bool declared = false;       ///< errors that kernels declare above the cap
};

}  // namespace vernier
