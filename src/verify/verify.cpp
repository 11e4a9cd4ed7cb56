// Verify on files: see verify.h; the checks are in sweep.cpp.
#include "verify/verify.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <chrono>

#include "onnx/import.h"
#include "verify/sweep.h"

namespace vernier::verify {
namespace {

// The hash of the user's arrays, or of what makes the seeded ones.
std::string data_hash(const Request& request, const Report& report) {
  XXH3_state_t* state = XXH3_createState();
  XXH3_128bits_reset(state);
  const auto add = [&](const void* data, size_t bytes) {
    if (bytes > 0) XXH3_128bits_update(state, data, bytes);
  };
  for (const UserInputs& inputs : request.inputs) {
    for (const auto& [name, tensor] : inputs.arrays) {
      const std::string head = name + str(tensor.shape());
      add(head.data(), head.size());
      add(tensor.data(), tensor.bytes());
    }
  }
  std::string seeded = fmt::format("seed {}", request.seed);
  for (const CellResult& cell : report.cells)
    seeded += fmt::format(";{}x{}", cell.batch, cell.length);
  for (const std::string& note : report.notes) seeded += ";" + note;
  add(seeded.data(), seeded.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(state);
  XXH3_freeState(state);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

Report verify_engine(const std::shared_ptr<const Engine>& engine, const ir::Graph& model,
                     const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  Report report = Sweep(engine, model, request).run();
  report.data_hash = data_hash(request, report);
  report.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return report;
}

Report verify(const Request& request) {
  const std::shared_ptr<const Engine> engine = Engine::open(request.engine.string());
  if (request.progress) request.progress("checking weights");
  engine->check_weights();
  return verify_engine(engine, *onnx::import_model(request.model), request);
}

}  // namespace vernier::verify
