// Engines from text and runs of them: see engines.h.
#include "runtime/engines.h"

#include <cstring>
#include <random>

#include "engine/writer.h"
#include "plan/graphs.h"
#include "runtime/backends.h"
#include "runtime/models.h"

namespace vernier::test {

std::shared_ptr<const Engine> engine_of(std::string_view text, const std::string& shapes) {
  const backend::Backend& backend =
      runtime::backend_named(device_under_test(), "the device under test");
  return Engine::from_bytes(engine::engine_bytes(plan_for(backend, *graph_of(text), shapes)));
}

Tensor f32(Shape shape, std::vector<double> values) {
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}
Tensor i64(Shape shape, std::vector<int64_t> values) {
  return Tensor::from(DType::kI64, std::move(shape), std::span<const int64_t>(values));
}
Tensor random_f32(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  for (double& v : values) v = normal(random);
  return f32(std::move(shape), std::move(values));
}

std::vector<Input> inputs_of(const Arrays& arrays) {
  std::vector<Input> inputs;
  for (const auto& [name, t] : arrays) inputs.push_back({name, t.dtype(), t.shape(), t.data()});
  return inputs;
}

Arrays run(Session& session, const Arrays& arrays, RunObserver* observer) {
  Arrays result;
  for (const Output& o : session.impl().run(inputs_of(arrays), observer)) {
    result.emplace(o.name, Tensor::from_bytes(o.dtype, {o.shape.begin(), o.shape.end()},
                                              {static_cast<const std::byte*>(o.data), o.bytes}));
  }
  return result;
}

std::string difference(const Arrays& a, const Arrays& b) {
  if (a.size() != b.size()) return "number of outputs";
  for (const auto& [name, t] : a) {
    const auto it = b.find(name);
    if (it == b.end()) return "output '" + name + "' is missing";
    const Tensor& u = it->second;
    if (t.dtype() != u.dtype() || t.shape() != u.shape())
      return "output '" + name + "': " + str(t.shape()) + " against " + str(u.shape());
    const size_t width = size_bytes(t.dtype());
    for (int64_t i = 0; i < t.elems(); ++i) {
      const size_t at = static_cast<size_t>(i) * width;
      if (std::memcmp(t.data() + at, u.data() + at, width) != 0)
        return "output '" + name + "' element " + std::to_string(i);
    }
  }
  return "";
}

}  // namespace vernier::test
