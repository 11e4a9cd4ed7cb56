// OnnxRuntime: a Python that runs a model in ONNX Runtime, beside this process: Vernier neither
// links ONNX Runtime nor shares memory with it. Contract: docs/verification.md "A second judge".
#pragma once
#include <filesystem>
#include <string>

#include "core/limits.h"
#include "vernier/tensor.h"

namespace vernier::verify {

class OnnxRuntime {
 public:
  struct Options {
    std::string python;  ///< the program that is started; looked up as a shell does
    std::filesystem::path model;
    int threads = 0;  ///< 0: as many as ONNX Runtime takes
  };
  /// Starts the program, which opens the model. Throws Error(kInput) where it cannot be started, is
  /// no Python, or has no onnxruntime; Error(kMachine) when a limit of `watch` is reached.
  OnnxRuntime(const Options& options, const Watch& watch);
  /// Ends it, and removes what it has written.
  ~OnnxRuntime();
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const std::string& version() const { return version_; }
  /// Why ONNX Runtime does not take the model; empty: it does.
  const std::string& refused() const { return refused_; }

  struct Answers {
    NamedTensors outputs;
    std::string refused;  ///< why there are none; empty: there are
  };
  /// Runs the model. Once the program has ended, all runs are refused.
  Answers run(const NamedTensors& inputs, const Watch& watch);

 private:
  struct Reply;
  void start(const Options& options);
  Reply receive(const Watch& watch);
  std::string last_words() const;
  void end() noexcept;

  int process_ = -1, connection_ = -1, printed_ = -1;
  std::string version_, refused_, received_;
  std::filesystem::path folder_;
};

}  // namespace vernier::verify
