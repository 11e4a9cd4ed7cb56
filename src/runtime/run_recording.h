// The recording of a shape's runs (a CUDA graph), where the device records.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "backend/kernel.h"
#include "core/error.h"
#include "core/log.h"

namespace vernier::runtime {

/// The second run of a shape is recorded; later ones replay it. Where that fails (a recording takes
/// memory of the device) steps are launched one by one, as in the first run.
class RunRecording {
 public:
  using Work = std::function<void(const backend::Execution&)>;

  bool made() const { return recording_ != nullptr; }
  /// Is the next run the one to record?
  bool due() const { return launched_ && !recording_ && recordable_; }
  /// Records what `work` enqueues. `shape`: for the line of the log where that fails.
  void record(backend::Device& device, const Work& work, const std::string& shape) {
    try {
      recording_ = device.record(work);
    } catch (const Error& error) {
      recordable_ = false;
      log::warn("runs of " + shape + " are not recorded and take longer: " + error.what());
    }
  }
  void replay(void* stream) { recording_->replay(stream); }
  /// The steps were launched, or replayed.
  void note_run() { launched_ = true; }
  /// The addresses that it holds are no longer right.
  void drop() { recording_.reset(); }

 private:
  bool launched_ = false, recordable_ = true;
  std::unique_ptr<backend::Recording> recording_;
};

}  // namespace vernier::runtime
