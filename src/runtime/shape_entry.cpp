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
  const auto add = [&](const std::string& name, int64_t size) {
    sizes += (sizes.empty() ? "" : ", ") + name + "=" + std::to_string(size);
  };
  size_t s = 0;
  for (const plan::Symbol& symbol : plan.symbols) add(symbol.name, symbols[s++]);
  for (const plan::TokenCount& count : plan.token_counts) add(count.name, symbols[s++]);
  for (const plan::DataSize& data : plan.data_sizes) {
    const int64_t one_more = symbols[s++];
    if (one_more != kUnknownSize) add(data.name, one_more - 1);
  }
  return sizes.empty() ? "fixed sizes" : sizes;
}

}  // namespace vernier::runtime
