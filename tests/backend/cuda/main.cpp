// test_backend_cuda [--bare] [GoogleTest options]. --bare: a few small cases of each row, every
// array in an allocation of its own and outputs not written before, for compute-sanitizer:
//   compute-sanitizer --tool memcheck|racecheck|initcheck test_backend_cuda --bare
#include <gtest/gtest.h>

#include <string_view>

#include "backend/cuda/device_under_test.h"

int main(int count, char** arguments) {
  vernier::test::register_op_tables();
  ::testing::InitGoogleTest(&count, arguments);
  for (int i = 1; i < count; ++i) {
    if (std::string_view(arguments[i]) != "--bare") {
      std::fprintf(stderr, "unknown option %s\n", arguments[i]);
      return 2;
    }
    vernier::backend::test::make_bare();
  }
  return RUN_ALL_TESTS();
}
