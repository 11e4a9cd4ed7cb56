// Distances between arrays, and tolerances in text: see verify.h.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "verify/verify.h"

namespace vernier::verify {
namespace {

// Both NaN, or the same infinity.
bool same_non_finite(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (std::isinf(a) && a == b);
}

}  // namespace

Distance distance(const EvalTensor& got, const EvalTensor& want) {
  Distance d;
  d.elems = want.elems();
  const int64_t row_elems = want.rank() > 0 && want.shape[0] > 0 ? d.elems / want.shape[0] : 1;
  if (!want.is_float()) {
    for (size_t i = 0; i < want.i.size(); ++i) d.different_integers += got.i[i] != want.i[i];
    return d;
  }
  double squares = 0, squares_want = 0, squares_got = 0, products = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < d.elems; ++i) {
    const double g = got.f[static_cast<size_t>(i)], w = want.f[static_cast<size_t>(i)];
    if (!std::isfinite(g) || !std::isfinite(w)) {
      d.wrong_non_finite += !same_non_finite(g, w);
      continue;
    }
    ++finite;
    const double error = std::abs(g - w);
    squares += error * error;
    squares_want += w * w;
    squares_got += g * g;
    products += g * w;
    d.max_abs = std::max(d.max_abs, error);
    if (const double relative = error / (1 + std::abs(w)); relative > d.worst) {
      d.worst = relative;
      d.worst_index = i;
      d.worst_row = i / row_elems;
    }
  }
  if (finite > 0) {
    d.rms = std::sqrt(squares / static_cast<double>(finite));
    d.rms_reference = std::sqrt(squares_want / static_cast<double>(finite));
    const double norms = std::sqrt(squares_want) * std::sqrt(squares_got);
    d.cosine = norms > 0 ? products / norms : (squares == 0 ? 1.0 : 0.0);
  }
  return d;
}

Tolerance parse_tolerance(const std::string& text) {
  Tolerance tolerance;
  size_t at = 0;
  while (at < text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    at = comma + 1;
    const size_t equals = part.find('=');
    const std::string key = part.substr(0, std::min(equals, part.size()));
    const std::string number = equals == std::string::npos ? "" : part.substr(equals + 1);
    double value = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    const bool good = !number.empty() && error == std::errc{} &&
                      end == number.data() + number.size() && std::isfinite(value) && value >= 0;
    if (!good || (key != "worst" && key != "max" && key != "rms" && key != "cos")) {
      throw Error(ErrorCode::kInput,
                  "--tolerance: got '" + part +
                      "', expected worst=, max=, rms= or cos= with a number >= 0, "
                      "for example rms=1e-3,max=1e-2");
    }
    if (key == "worst") tolerance.worst = value;
    if (key == "max") tolerance.max = value;
    if (key == "rms") tolerance.rms = value;
    if (key == "cos") tolerance.cos = value;
  }
  return tolerance;
}

}  // namespace vernier::verify
