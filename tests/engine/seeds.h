// The seeds of the engine fuzz target, made from the sample plans (fuzz/engine.cpp has the input
// format).
#pragma once
#include <map>
#include <string>

#include "engine/codec.h"
#include "engine/reader.h"
#include "engine/writer.h"
#include "sample_plan.h"

namespace vernier::engine {

inline void append_u32(std::vector<std::byte>& bytes, uint64_t number) {
  for (int shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<std::byte>(number >> shift));
}

/// File name -> contents.
inline std::map<std::string, std::vector<std::byte>> fuzz_seeds() {
  plan::Plan empty;
  empty.segments = {{0, 0}};
  empty.device = "cpu";
  std::map<std::string, std::vector<std::byte>> seeds;
  for (const auto& [name, plan] : std::map<std::string, plan::Plan>{
           {"empty", empty}, {"sample", sample_plan()}, {"weighty", weighty_plan(20)}}) {
    const std::vector<std::byte> file = engine_bytes(plan);
    const auto read = read_engine_bytes(file);
    const Certificate certificate = sample_certificate(read->content_hash);
    seeds[name + ".vn"] = file;
    const Records records{.certificate = certificate, .canary = sample_canary()};
    if (name == "empty") seeds["stamped.vn"] = engine_bytes(plan, records);
    const std::vector<std::byte> plan_section = encode_plan(plan), ledger = encode_ledger(plan),
                                 records_section = encode_records(records);
    std::vector<std::byte>& sections = seeds[name + ".sections"];
    for (const uint64_t size :
         {uint64_t{plan_section.size()}, uint64_t{ledger.size()}, uint64_t{read->weights.size()}}) {
      append_u32(sections, size);
    }
    for (const auto* part : {&plan_section, &ledger, &records_section})
      sections.insert(sections.end(), part->begin(), part->end());
  }
  return seeds;
}

}  // namespace vernier::engine
