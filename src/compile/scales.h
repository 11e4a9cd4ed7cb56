// Scales files: what `vernier calibrate` finds of the products that int8 quantizes, and what
// `vernier build --scales` takes. Contract: docs/quantization.md "Scales files".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vernier::compiler {

/// Errors at a product's results: rms of the difference / rms of the results, by what made it.
using NamedErrors = std::vector<std::pair<std::string, double>>;

/// A static range that is not wider says nothing: its scale would leave f32's normal numbers.
inline constexpr double kLeastRange = 1e-30;

/// A value that products read, and how it is quantized for them.
struct ScalesSite {
  std::string x;                      ///< its ONNX name; may be empty
  std::vector<std::string> products;  ///< names of the ONNX nodes (passes/quantize.h)
  std::vector<float> factors;  ///< of its channels: powers of two, 2^-kMostFactor … 2^kMostFactor
  int64_t rows = 0;            ///< rows of the data that were seen
  double low = 0, high = 0;    ///< static range of x·factor; both 0: none
  std::string range_method;    ///< what gave it: "max", "percentile 99.99", "mse", "entropy"
  NamedErrors factor_errors;   ///< by exponent a, "0" (all factors 1) first
  NamedErrors range_errors;    ///< by method

  bool has_range() const { return high - low > kLeastRange; }
};

struct Scales {
  std::string model_file, model_hash;  ///< the hash of the file's bytes, in hex, as in certificates
  std::vector<std::string> data_files;
  int64_t batches = 0, tokens = 0;
  std::string method;  ///< of the static ranges, as --method
  std::vector<ScalesSite> sites;
};

inline constexpr int kMostFactor = 16;

/// JSON with one line for each list of numbers. Throws Error(kInput) for names that are not UTF-8.
std::string save_scales(const Scales& scales);
/// Throws Error(kInput), which names `file`, where in it, what is there and what was expected.
Scales load_scales(std::string_view text, const std::string& file);

}  // namespace vernier::compiler
