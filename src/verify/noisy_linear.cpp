// Linear with noise: see noisy_linear.h.
#include "verify/noisy_linear.h"

#include <array>
#include <cmath>
#include <utility>

#include "core/evaluator.h"
#include "evaluate/plan_evaluator.h"
#include "reference/matmul.h"
#include "reference/noise_each.h"

namespace vernier::verify {
namespace {

EvalTensor squares_of(const EvalTensor& t) {
  EvalTensor squares = EvalTensor::shaped(t.dtype, t.shape);
  squares.f.reserve(t.f.size());
  for (const double v : t.f) squares.f.push_back(v * v);
  return squares;
}

}  // namespace

NoisyLinear::NoisyLinear(AttrView attrs, std::span<const EvalTensor* const> inputs, DType dtype,
                         Shape shape)
    : attrs_(attrs), inputs_(inputs), dtype_(dtype), shape_(std::move(shape)) {
  sums_ = products(*inputs[0], *inputs[1]);
  roots_ = products(squares_of(*inputs[0]), squares_of(*inputs[1]));
  for (double& v : roots_) v = std::sqrt(2 * v);
}

std::vector<double> NoisyLinear::products(const EvalTensor& x, const EvalTensor& w) const {
  std::vector<EvalTensor> out;
  out.emplace_back(dtype_, shape_);
  const std::array in{&x, &w};
  const Rounding exact;
  reference::add_linear_products({attrs_, in, out, exact});
  return std::move(out[0].f);
}

EvalTensor NoisyLinear::finished(std::span<const EvalTensor* const> inputs, EvalTensor sums) const {
  const Rounding exact;
  reference::finish_linear({attrs_, inputs, {&sums, 1}, exact});
  return sums;
}

EvalTensor NoisyLinear::exact() const {
  EvalTensor y = EvalTensor::shaped(dtype_, shape_);
  y.f = sums_;
  return finished(inputs_, std::move(y));
}

EvalTensor NoisyLinear::draw(double size, uint64_t seed) const {
  EvalTensor y = EvalTensor::shaped(dtype_, shape_);
  y.f.resize(sums_.size());
  reference::normal_noise_each(sums_.data(), roots_.data(), size, y.f.data(), std::ssize(sums_),
                               seed);
  std::vector<EvalTensor> noisy(inputs_.size());
  std::vector<const EvalTensor*> in(inputs_.begin(), inputs_.end());
  for (size_t i = 2; i < inputs_.size(); ++i) {
    if (!inputs_[i]) continue;
    evaluate::perturb(*inputs_[i], size, ++seed, noisy[i]);
    in[i] = &noisy[i];
  }
  return finished(in, std::move(y));
}

}  // namespace vernier::verify
