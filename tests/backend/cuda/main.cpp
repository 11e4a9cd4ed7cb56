// test_backend_cuda [--bare] [GoogleTest options]. --bare: a few small cases of each row, every
// array in an allocation of its own and outputs not written before, for compute-sanitizer:
//   compute-sanitizer --tool memcheck|racecheck|initcheck test_backend_cuda --bare
// test_backend_cuda --time [PART...] [--rest MS] [--hot] [--all-rows] [--tuned] [--json FILE]:
// times the cases whose names have one of these parts, all cases without any (docs/measuring.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "backend/cuda/device_under_test.h"
#include "backend/timing.h"

namespace {

using vernier::backend::test::TimingOptions;

constexpr int kUsage = 2;

int usage(std::string_view argument) {
  std::fprintf(
      stderr,
      "unexpected argument '%.*s'; expected --bare, or --time [PART...] [--rest MS] [--hot] "
      "[--all-rows] [--tuned] [--json FILE]\n",
      static_cast<int>(argument.size()), argument.data());
  return kUsage;
}

// 0, or the exit code for arguments that make no sense.
int read_timing(int count, char** arguments, TimingOptions& options) {
  for (int i = 0; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const bool has_value = argument == "--rest" || argument == "--json";
    if (has_value && i + 1 == count) return usage(argument);
    if (argument == "--rest") {
      options.rest_ms = std::atoi(arguments[++i]);
    } else if (argument == "--json") {
      options.json = arguments[++i];
    } else if (argument == "--hot") {
      options.hot = true;
    } else if (argument == "--all-rows") {
      options.all_rows = true;
    } else if (argument == "--tuned") {
      options.tuned = true;
    } else if (argument.starts_with("--")) {
      return usage(argument);
    } else {
      options.parts.emplace_back(argument);
    }
  }
  return 0;
}

int time_them(int count, char** arguments) {
  TimingOptions options;
  if (const int code = read_timing(count, arguments, options); code != 0) return code;
  const vernier::Support here = vernier::backend::test::device_under_test().available();
  if (!here) {
    std::printf("SKIP: %s\n", here.reason.c_str());
    return 0;
  }
  try {
    const int code =
        vernier::backend::test::time_cases(vernier::backend::test::timed_cases(), options);
    // What run_kernel finds: changed guards and inputs.
    return code == 0 && ::testing::UnitTest::GetInstance()->Failed() ? 1 : code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}

}  // namespace

int main(int count, char** arguments) {
  vernier::test::register_op_tables();
  ::testing::InitGoogleTest(&count, arguments);
  if (count > 1 && std::string_view(arguments[1]) == "--time")
    return time_them(count - 2, arguments + 2);
  for (int i = 1; i < count; ++i) {
    if (std::string_view(arguments[i]) != "--bare") return usage(arguments[i]);
    vernier::backend::test::make_bare();
  }
  return RUN_ALL_TESTS();
}
