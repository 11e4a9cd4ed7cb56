// Addresses and names of a shape: see shape_entry.h.
#include "runtime/shape_entry.h"

namespace vernier::runtime {

void ShapeEntry::resolve(std::span<std::byte* const> bases) {
  const auto set = [&](backend::TensorArg& arg, const Source& source) {
    if (source.base != Source::kFixed) arg.data = bases[source.base] + source.offset;
  };
  for (StepRun& step : steps) {
    for (size_t i = 0; i < step.in.size(); ++i) set(step.in[i], step.in_sources[i]);
    for (size_t i = 0; i < step.out.size(); ++i) set(step.out[i], step.out_sources[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) set(outputs[i], output_sources[i]);
}

std::string sizes_text(const plan::Plan& plan, std::span<const int64_t> symbols) {
  std::string sizes;
  for (size_t s = 0; s < symbols.size(); ++s) {
    sizes += (sizes.empty() ? "" : ", ") +
             (s < plan.symbols.size() ? plan.symbols[s].name
                                      : plan.token_counts[s - plan.symbols.size()].name) +
             "=" + std::to_string(symbols[s]);
  }
  return sizes.empty() ? "fixed sizes" : sizes;
}

}  // namespace vernier::runtime
