// Peak memory of a build, as the operating system sees it in a process of its own: one set of
// weights, wherever the model keeps them.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "onnx/model_writer.h"
#include "vernier/compile.h"

namespace vernier {
namespace {

namespace fs = std::filesystem;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnMemory = false;
#else
constexpr bool kOwnMemory = true;
#endif

constexpr int64_t kWidth = 2048;
constexpr int kProducts = 12;
constexpr size_t kWeightBytes = kProducts * kWidth * kWidth * sizeof(float);  // 201 MB

// A line of /proc/self/status in bytes; 0 if it is not there.
size_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

void write_model(const fs::path& path, bool external) {
  onnx::ModelWriter model("products", 17, 1);
  model.add_input("x", DType::kF32, {"batch", kWidth});
  std::string last = "x";
  for (int i = 0; i < kProducts; ++i) {
    const std::string number = std::to_string(i), weight = "w" + number, out = "y" + number;
    model.add_weight({.name = weight, .dims = {kWidth, kWidth}, .deviation = 0.02});
    model.add_node({.name = "product" + number,
                    .op = "MatMul",
                    .inputs = {last, weight},
                    .outputs = {out},
                    .attributes = {}});
    last = out;
  }
  model.add_output(last, DType::kF32, {"batch", kWidth});
  model.save(path, {.external = external, .progress = {}});
}

class BuildMemory : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!kOwnMemory) GTEST_SKIP() << "a sanitizer's own memory is counted with it";
    if (status_bytes("VmHWM") == 0) GTEST_SKIP() << "/proc/self/status has no VmHWM here";
    folder_ = fs::temp_directory_path() / ("vernier_build_memory_" + std::to_string(::getpid()));
    fs::create_directory(folder_);
    write_model(folder_ / "model.onnx", GetParam());
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  // In a child: there the peak starts from what the parent holds now, not from its own peak.
  size_t peak_of_build() const {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      const size_t before = status_bytes("VmRSS");
      try {
        compile((folder_ / "model.onnx").string(), (folder_ / "engine.vn").string(),
                {.mode = "fp32"});
      } catch (...) {
        _exit(2);
      }
      const size_t peak = status_bytes("VmHWM") - before;
      _exit(write(ends[1], &peak, sizeof peak) == sizeof peak ? 0 : 1);
    }
    close(ends[1]);
    size_t peak = 0;
    EXPECT_EQ(read(ends[0], &peak, sizeof peak), static_cast<ssize_t>(sizeof peak));
    close(ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    return peak;
  }
  fs::path folder_;
};

TEST_P(BuildMemory, IsThatOfOneSetOfWeights) {
  const size_t peak = peak_of_build();
  std::printf("peak %.1f MB over the start, weights %.1f MB\n", static_cast<double>(peak) / 1e6,
              static_cast<double>(kWeightBytes) / 1e6);
  EXPECT_LT(static_cast<double>(peak), 1.3 * static_cast<double>(kWeightBytes));
  EXPECT_GT(peak, kWeightBytes / 2);  // it measures what it should
  EXPECT_GE(fs::file_size(folder_ / "engine.vn"), kWeightBytes);
}

INSTANTIATE_TEST_SUITE_P(Weights, BuildMemory, testing::Bool(),
                         [](const auto& own) { return own.param ? "External" : "InTheModel"; });

}  // namespace
}  // namespace vernier
