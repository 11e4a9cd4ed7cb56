// Builds the engine of the command-line tests: see engine_fixture.h.
#include "cli/engine_fixture.h"

namespace vernier::test {
namespace {

NamedTensors with_prefix(const NamedTensors& arrays, const std::string& prefix) {
  NamedTensors found;
  for (const auto& [name, tensor] : arrays) {
    if (name.starts_with(prefix)) found.emplace_back(name.substr(prefix.size()), tensor);
  }
  return found;
}

}  // namespace

TemporaryFolder* WithEngine::folder_ = nullptr;

void WithEngine::SetUpTestSuite() {
  folder_ = new TemporaryFolder;
  const Outcome built = run_program({"build", kModel, "-o", engine()});
  ASSERT_EQ(built.code, 0) << built.err;
  const NamedTensors arrays = io::read_arrays(kModelFolder + "case_2.npz");
  io::write_npz(inputs(), with_prefix(arrays, "in."));
  io::write_npz(expected(), with_prefix(arrays, "out."));
}

void WithEngine::TearDownTestSuite() {
  delete folder_;
  folder_ = nullptr;
}

}  // namespace vernier::test
