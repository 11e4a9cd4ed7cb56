// The engine of the runtime's own tests: see shared_engine.h.
#include "runtime_only/shared_engine.h"

#include <cstring>
#include <random>
#include <sstream>

namespace vernier::test {

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  std::istringstream list(VERNIER_TEST_ENGINE_NAMES);
  for (std::string name; list >> name;) names.push_back(name);
  return names;
}

std::shared_ptr<const Engine> engine_named(const std::string& name) {
  return Engine::open(std::string(VERNIER_TEST_ENGINES) + "/" + name + ".vn");
}

std::shared_ptr<const Engine> shared_engine() {
  static const std::shared_ptr<const Engine> engine = engine_named(engine_names().at(0));
  return engine;
}

std::vector<InputArray> arrays_of(const Engine& engine, int64_t batch, int64_t seq, uint64_t seed) {
  std::vector<InputArray> arrays =
      synthetic_inputs(engine, "batch=" + std::to_string(batch) + ",seq=" + std::to_string(seq));
  constexpr int64_t kIds = 100;  // fewer than any vocabulary has
  std::mt19937_64 random(seed);
  for (size_t at = 0; at < arrays[0].bytes.size(); at += sizeof(int64_t)) {
    const int64_t id = 2 + static_cast<int64_t>(random() % kIds);
    std::memcpy(arrays[0].bytes.data() + at, &id, sizeof id);
  }
  return arrays;
}

std::vector<Input> refs(const std::vector<InputArray>& arrays) {
  std::vector<Input> inputs;
  for (const InputArray& array : arrays) inputs.push_back(array.ref());
  return inputs;
}

std::vector<std::byte> bytes_of(std::span<const Output> outputs) {
  std::vector<std::byte> bytes;
  for (const Output& o : outputs) {
    const auto* data = static_cast<const std::byte*>(o.data);
    bytes.insert(bytes.end(), data, data + o.bytes);
  }
  return bytes;
}

}  // namespace vernier::test
