// What became of an ONNX node in an engine: a row of the ledger says one of these.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace vernier {

enum class LedgerState : uint8_t { kStep, kComposite, kFolded, kShape, kMerged, kDead, kRemoved };

struct LedgerStateText {
  LedgerState state;
  std::string_view name;     ///< in engine files, JSON and reports
  std::string_view meaning;  ///< of a node in this state
};
/// By number.
inline constexpr std::array<LedgerStateText, 7> kLedgerStates{{
    {LedgerState::kStep, "step", "a step computes this node alone"},
    {LedgerState::kComposite, "composite", "a step computes it together with other nodes"},
    {LedgerState::kFolded, "folded", "its result is a constant, computed by the build"},
    {LedgerState::kShape, "shape", "it computes sizes, which the host evaluates once per shape"},
    {LedgerState::kMerged, "merged", "a view of its input, or equal to another node: no work"},
    {LedgerState::kDead, "dead", "no output depends on it"},
    {LedgerState::kRemoved, "removed", "it has no effect, or others stand in its place"},
}};

constexpr std::string_view name(LedgerState state) {
  return kLedgerStates[static_cast<size_t>(state)].name;
}
constexpr std::optional<LedgerState> parse_ledger_state(std::string_view text) {
  for (const LedgerStateText& row : kLedgerStates)
    if (row.name == text) return row.state;
  return std::nullopt;
}

}  // namespace vernier
