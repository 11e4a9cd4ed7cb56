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
  const auto add = [&](const std::string& name, int64_t less) {
    if (symbols.empty()) return;
    if (symbols[0] != kUnknownSize)
      sizes += (sizes.empty() ? "" : ", ") + name + "=" + std::to_string(symbols[0] - less);
    symbols = symbols.subspan(1);
  };
  for (const plan::Symbol& symbol : plan.symbols) add(symbol.name, 0);
  for (const plan::TokenCount& count : plan.token_counts) add(count.name, 0);
  for (const plan::DataSize& data : plan.data_sizes) add(data.name, 1);
  return sizes.empty() ? "fixed sizes" : sizes;
}

}  // namespace vernier::runtime
