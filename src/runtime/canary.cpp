// Canaries of engines: see canary.h.
#include "runtime/canary.h"

#include <algorithm>

#include "core/hash.h"
#include "runtime/certified.h"
#include "runtime/engine_impl.h"

namespace vernier::runtime {
namespace {

void add_text(Hash128& hash, const std::string& text) {
  const std::string line = text + "\n";
  hash.add(std::as_bytes(std::span(line)));
}

std::string hash_of_outputs(std::span<const Output> outputs) {
  Hash128 hash;
  for (const Output& output : outputs) {
    add_text(hash,
             std::string(output.name) + " " + std::string(name(output.dtype)) + str(output.shape));
    hash.add({static_cast<const std::byte*>(output.data), output.bytes});
  }
  return hex(hash.digest());
}

std::string answer_to(Session& session, const std::vector<Canary::Array>& arrays) {
  std::vector<Input> inputs;
  for (const Canary::Array& array : arrays)
    inputs.push_back({array.name, array.dtype, array.shape, array.bytes.data()});
  return hash_of_outputs(session.run(inputs));
}

std::string shapes_of(const std::vector<Canary::Array>& arrays) {
  std::string text;
  for (const Canary::Array& array : arrays)
    text += (text.empty() ? "" : ", ") + array.name + " " + str(array.shape);
  return text;
}

// What is another than it was, e.g. "target 'a' then and 'b' now"; empty: nothing that is recorded.
std::string changes_since(const std::vector<Certificate::Version>& then,
                          const std::vector<Certificate::Version>& now) {
  std::string text;
  const auto add = [&text](const std::string& of, const std::string& before,
                           const std::string& after) {
    text += (text.empty() ? "" : ", ") + of + " " + before + " then and " + after + " now";
  };
  const auto number = [](const std::vector<Certificate::Version>& of, const std::string& name) {
    const auto found = std::ranges::find(of, name, &Certificate::Version::of);
    return found == of.end() ? std::string("none") : "'" + found->number + "'";
  };
  for (const Certificate::Version& version : then) {
    const std::string after = number(now, version.of);
    if (after != "'" + version.number + "'") add(version.of, "'" + version.number + "'", after);
  }
  for (const Certificate::Version& version : now) {
    if (number(then, version.of) == "none") add(version.of, "none", "'" + version.number + "'");
  }
  return text;
}

}  // namespace

Canary record_canary(const std::shared_ptr<const Engine>& engine,
                     std::vector<std::vector<Canary::Array>> inputs,
                     const SessionOptions& options) {
  Canary canary{.versions = environment_of(*engine->impl().backend), .runs = {}};
  Session session(engine, options);
  for (std::vector<Canary::Array>& arrays : inputs) {
    std::string hash = answer_to(session, arrays);
    canary.runs.push_back({std::move(arrays), std::move(hash)});
  }
  return canary;
}

void require_canary(const std::shared_ptr<const Engine>& engine, const SessionOptions& options) {
  const std::string& name = engine->impl().file->name;
  const Canary* canary = engine->canary();
  if (canary == nullptr || canary->runs.empty()) {
    throw Error(ErrorCode::kCheckFailed,
                name + " has no canary; build it again where its device is, without --no-canary");
  }
  SessionOptions plain = options;
  plain.canary = false;
  plain.certificate.reset();
  Session session(engine, plain);
  for (const Canary::Run& run : canary->runs) {
    const std::string hash = answer_to(session, run.inputs);
    if (hash == run.outputs_hash) continue;
    const std::string changes =
        changes_since(canary->versions, environment_of(*engine->impl().backend));
    throw Error(ErrorCode::kCheckFailed,
                name + " answers its canary with other bits than when it was built (inputs " +
                    shapes_of(run.inputs) + "; hash " + hash + ", recorded " + run.outputs_hash +
                    "); " +
                    (changes.empty() ? "nothing that is recorded has changed since: the file or "
                                       "the machine may be damaged; compare its weights "
                                       "('vernier run --check')"
                                     : "changed since: " + changes) +
                    "; 'vernier verify' says whether the answers are still right");
  }
}

}  // namespace vernier::runtime
