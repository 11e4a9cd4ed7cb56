// The device whose kernel rows the harness checks. Each test program defines its own
// device_under_test(): cpu/device_under_test.cpp, cuda/device_under_test.cpp.
#pragma once
#include <functional>
#include <span>
#include <string>

#include "backend/harness.h"

namespace vernier::backend::test {

class DeviceUnderTest {
 public:
  virtual ~DeviceUnderTest() = default;
  virtual const Backend& backend() const = 0;
  /// Yes, or why nothing can run here: every test of the program is then skipped with this reason.
  virtual Support available() const = 0;
  /// Kept for the whole program; the CPU has one per number of threads.
  virtual Device& device(int threads) = 0;
  /// Rows have one set of bits for all addresses and strides that are multiples of so many bytes.
  virtual size_t address_unit() const { return 1; }
  /// What attention may be off by, in ulps as OpCase has them, where an element of an input is as
  /// large as `value`: last bits of scores that large decide between keys whose scores almost tie.
  virtual double attention_slack(double value) const {
    (void)value;
    return 0;
  }
  /// How else a launch may be done with equal bits, beyond RunOptions{}.
  virtual std::span<const RunOptions> other_ways() const = 0;
  /// Does `launch` as `way` says, on the stream of `execution`. `restore` poisons outputs and
  /// workspace again.
  virtual void launch(Way way, const Execution& execution, const std::function<void()>& launch,
                      const std::function<void()>& restore) = 0;
  /// Calls body once per variant of the same code that can run here, the best one last. `best`: the
  /// best variant of this machine or of another one; the rest get the values' checks only.
  virtual void for_each_target(
      const std::function<void(const std::string& name, bool best)>& body) = 0;
  /// What products are asked besides nothing in particular: each request that changes what a row
  /// declares is a case of its own.
  virtual std::span<const Request> requests() const = 0;
  /// Adds a failure if the device promises another number of rows for the case.
  virtual void expect_rows(const OpCase& c, size_t rows) const = 0;

  /// One allocation for all arrays of a run is faster; one for each lets memory checkers see more.
  virtual bool one_allocation() const { return false; }
  /// For memory checkers: a few cases per row, arrays without guards, outputs not written before.
  virtual bool bare() const { return false; }
  /// False for what is too large for this device's share of the tests' time.
  virtual bool takes(const OpCase& c) const = 0;
};

DeviceUnderTest& device_under_test();

}  // namespace vernier::backend::test
