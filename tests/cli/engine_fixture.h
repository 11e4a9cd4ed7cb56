// One engine built by the program for all tests of a suite, and the stored cases as plain files.
#pragma once
#include <gtest/gtest.h>

#include "cli/program.h"
#include "io/npz.h"

namespace vernier::test {

inline const std::string kModelFolder = "tests/models/bge_reranker_ts17/";
inline const std::string kModel = kModelFolder + "model.onnx";

/// Suites on the example reranker. Files live as long as the suite.
class WithEngine : public testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  static std::string file(const std::string& name) { return *folder_ / name; }
  static std::string engine() { return file("model.vn"); }
  /// A 4x48 case: its inputs, and its FP64 outputs as f4, named as the model names them.
  static std::string inputs() { return file("in.npz"); }
  static std::string expected() { return file("expected.npz"); }
  /// The inputs with changes made to them, written as an .npz file.
  template <class Change>
  static std::string changed_inputs(const Change& change) {
    NamedTensors arrays = io::read_arrays(inputs());
    change(arrays);
    io::write_npz(file("changed.npz"), arrays);
    return file("changed.npz");
  }

 private:
  static TemporaryFolder* folder_;
};

}  // namespace vernier::test
