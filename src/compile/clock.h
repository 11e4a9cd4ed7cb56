// Milliseconds since the construction of the clock.
#pragma once
#include <chrono>

namespace vernier::compiler {

class Clock {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace vernier::compiler
