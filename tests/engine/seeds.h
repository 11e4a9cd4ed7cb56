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

/// File name -> contents.
inline std::map<std::string, std::vector<std::byte>> fuzz_seeds() {
  plan::Plan empty;
  empty.device = "cpu";
  std::map<std::string, std::vector<std::byte>> seeds;
  for (const auto& [name, plan] : std::map<std::string, plan::Plan>{
           {"empty", empty}, {"sample", sample_plan()}, {"weighty", weighty_plan(20)}}) {
    const std::vector<std::byte> file = engine_bytes(plan);
    seeds[name + ".vn"] = file;
    const std::vector<std::byte> plan_section = encode_plan(plan), ledger = encode_ledger(plan);
    const uint64_t weight_bytes = read_engine_bytes(file)->weights.size();
    std::vector<std::byte>& sections = seeds[name + ".sections"];
    for (const uint64_t size : {uint64_t{plan_section.size()}, weight_bytes}) {
      for (int shift = 0; shift < 32; shift += 8)
        sections.push_back(static_cast<std::byte>(size >> shift));
    }
    for (const auto* part : {&plan_section, &ledger})
      sections.insert(sections.end(), part->begin(), part->end());
  }
  return seeds;
}

}  // namespace vernier::engine
