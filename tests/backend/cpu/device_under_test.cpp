// The CPU for the harness: one device per number of threads, each row on every instruction set. See
// device_under_test.h.
#include "backend/device_under_test.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <map>

#include "backend/cpu/cpu.h"
#include "backend/cpu/targets.h"

namespace vernier::backend::test {

std::string best_target() {
  const int64_t supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);
}

void for_each_target(const std::function<void(const std::string&)>& body) {
  hwy::SetSupportedTargetsForTest(0);
  const int64_t available = hwy::SupportedTargets();
  // What the library is compiled for, worst first; see cpu.cmake.
  for (int64_t target :
       {int64_t{HWY_SCALAR}, int64_t{HWY_NEON}, int64_t{HWY_AVX2}, int64_t{HWY_AVX3}}) {
    if ((available & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

namespace {

class Cpu final : public DeviceUnderTest {
 public:
  const Backend& backend() const override { return cpu_backend(); }
  Support available() const override { return yes(); }
  Device& device(int threads) override {
    std::unique_ptr<Device>& device = devices_[threads];
    if (device == nullptr) device = cpu_backend().make_device({.threads = threads});
    return *device;
  }
  // A score as large as |value| · 4 / 4 is rounded to f32 at each of the products that follow, by
  // 2^-24 of it at most and with changing signs: 2 times that where 16 or so follow. With AVX-512
  // the tables' values need less; a machine whose best is AVX2 needed 400 ulps of 131,008.
  double attention_slack(double value) const override { return 2 * std::abs(value); }
  std::span<const RunOptions> other_ways() const override {
    static constexpr RunOptions kWays[]{{.threads = 2}};
    return kWays;
  }
  void launch(Way way, const Execution&, const std::function<void()>& launch,
              const std::function<void()>& restore) override {
    launch();
    if (way == Way::kOnce) return;
    restore();
    launch();
  }
  void for_each_target(const std::function<void(const std::string&, bool)>& body) override {
    // AVX2 is the best that many machines have: on those with AVX-512 its code is checked as much.
    const std::string best = best_target(), avx2 = hwy::TargetName(HWY_AVX2);
    test::for_each_target(
        [&](const std::string& target) { body(target, target == best || target == avx2); });
  }
  std::span<const Request> requests() const override { return {}; }
  /// Every operator here has one row that takes it; Linear and Attention have several.
  void expect_rows(const OpCase& c, size_t rows) const override {
    const bool several = c.op == OpKind::kLinear || c.op == OpKind::kAttention;
    const bool right = rows == 1 || (rows == 0 ? c.optional : several);
    EXPECT_TRUE(right) << name(c.op) << " " << c.name << " has " << rows << " rows";
  }
  bool takes(const OpCase& c) const override { return !c.device_only; }

 private:
  std::map<int, std::unique_ptr<Device>> devices_;
};

}  // namespace

DeviceUnderTest& device_under_test() {
  static Cpu cpu;
  return cpu;
}

}  // namespace vernier::backend::test
