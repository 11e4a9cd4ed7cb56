// Calibrate: factors of channels and static ranges for int8 products, from data or from a
// calibration cache of TensorRT. Contract: docs/quantization.md "Calibration".
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "vernier/limits.h"

namespace vernier {

struct CalibrateOptions {
  std::filesystem::path model;
  /// .npz files with arrays named as the model's inputs, and folders of such files, which are taken
  /// in the order of their names. Each file is a batch; one with many rows is several.
  std::vector<std::filesystem::path> data;
  /// The scales file that is written. Beside it, OUTPUT.checkpoint.npz holds what is done after
  /// each batch; the same call goes on from there, and removes it at its end.
  std::filesystem::path output;
  /// How static ranges are found: output-error, max, percentile, mse or entropy.
  std::string method = "output-error";
  std::string shapes;  ///< as CompileOptions has it: what the batches may be
  int threads = 0;     ///< CPUs of the runs; 0: all that the process may use
  std::function<void(const std::string& stage)> progress;
  Limits limits;
};

/// A value that products read.
struct CalibratedSite {
  std::string x;                      ///< its ONNX name; may be empty
  std::vector<std::string> products;  ///< names of the ONNX nodes that multiply it
  int64_t channels = 0, rows = 0;     ///< rows of the data; padding does not count
  std::string exponent;               ///< a of its factors; "0": all 1
  double plain_error =
      0;             ///< of int8 at the products' results without factors, as part of their rms
  double error = 0;  ///< … with them
  double low = 0, high = 0, static_error = 0;
  std::string range_method;  ///< of low and high
};

struct CalibrateReport {
  std::vector<CalibratedSite> sites;
  std::vector<std::string> files;
  int64_t batches = 0, tokens = 0;
  std::vector<std::string> notes;  ///< warnings too
  double ms = 0;
};

/// Runs the model in FP32 over the data and writes the scales file. Memory: one file of data, one
/// run, and a sample of rows. Throws Error(kInput): a model without products that int8 quantizes,
/// data that do not fit it or on which it computes NaN; Error(kMachine): limits, files.
CalibrateReport calibrate(const CalibrateOptions& options);

struct ImportCacheOptions {
  std::filesystem::path model, cache;
  std::filesystem::path output;  ///< the scales file that is written
  Limits limits;
};

/// What products read, and the static range that it takes: -limit … limit.
struct ImportedRange {
  std::string x;                      ///< the tensor; may be empty where it has no range
  std::vector<std::string> products;  ///< names of the ONNX nodes that multiply it
  double limit = 0;
};

struct ImportCacheReport {
  std::string version, algorithm;      ///< of TensorRT: "8601", "EntropyCalibration2"
  std::vector<ImportedRange> found;    ///< operands of int8 products that have a range now
  std::vector<ImportedRange> missing;  ///< those that the cache says nothing of
  std::vector<std::string> unknown;    ///< tensors of the cache that the model does not have
  double ms = 0;
};

/// Writes the scales file of a calibration cache that TensorRT has made of this model: the ranges
/// that it has, and factors of 1. Throws Error(kInput): a file that is no such cache, or that has
/// no range for any int8 product of the model; Error(kMachine): limits, files.
ImportCacheReport import_cache(const ImportCacheOptions& options);

/// The reports for a terminal, and as JSON (docs/json.md "calibrate").
std::string to_text(const CalibrateReport& report);
std::string to_json(const CalibrateReport& report);
std::string to_text(const ImportCacheReport& report);
std::string to_json(const ImportCacheReport& report);

}  // namespace vernier
