// What the tests of the CUDA rows need of their device beyond backend/device_under_test.h.
#pragma once
#include "backend/device_under_test.h"

namespace vernier::backend::test {

/// From now on runs are those that memory checkers want (DeviceUnderTest::bare).
void make_bare();

}  // namespace vernier::backend::test

namespace vernier::test {

/// Makes a test of each of op_tables(). Before GoogleTest is initialized.
void register_op_tables();

}  // namespace vernier::test
