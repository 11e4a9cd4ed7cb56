// Every example model runs at the largest length of its default profile, with no padding to keep
// positions inside their table. The ranges: plan/profile.h, plan/table_bounds.h.
#include <gtest/gtest.h>

#include "runtime/models.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

// Zeros: ids that every table has and no model takes for padding. One row of the longest length.
NamedTensors longest_row(const Engine& engine) {
  NamedTensors arrays;
  for (const Port& port : engine.inputs()) {
    Shape shape;
    for (const PortDim& dim : port.dims) shape.push_back(shape.empty() ? dim.min : dim.max);
    const std::vector<std::byte> zeros(static_cast<size_t>(num_elems(shape)) *
                                       size_bytes(port.dtype));
    arrays.emplace_back(port.name, Tensor::from_bytes(port.dtype, shape, zeros));
  }
  return arrays;
}

class LargestSizes : public ::testing::TestWithParam<ExampleModel> {};

TEST_P(LargestSizes, Run) {
  const auto engine = Engine::from_bytes(compile_to_bytes(GetParam().path.string()));
  const NamedTensors arrays = longest_row(*engine);
  Session session(engine, {.threads = 2});
  EXPECT_NO_THROW(session.run(refs(arrays)));
}

INSTANTIATE_TEST_SUITE_P(Models, LargestSizes, ::testing::ValuesIn(example_models()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace vernier::test
