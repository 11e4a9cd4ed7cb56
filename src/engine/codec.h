// The plan, ledger and record sections of an engine file, to bytes and back. Contract:
// docs/engine_format.md. What the bytes mean is checked by validate.h; where they lie in the file
// by format.h.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "vernier/canary.h"
#include "vernier/certificate.h"

namespace vernier::engine {

/// The plan section: everything in `plan` but its ledger and the bytes of its blobs, of which the
/// sizes are written. The same plan gives the same bytes.
std::vector<std::byte> encode_plan(const plan::Plan& plan);
/// The ledger section: `plan.ledger`.
std::vector<std::byte> encode_ledger(const plan::Plan& plan);
/// What is known of an engine beyond its content.
struct Records {
  std::optional<Certificate> certificate;
  std::optional<Canary> canary;
  bool empty() const { return !certificate && !canary; }
};
/// The section of the records; empty for none.
std::vector<std::byte> encode_records(const Records& records);

struct DecodedPlan {
  plan::Plan plan;                   ///< without ledger; Blob::bytes undefined
  std::vector<uint64_t> blob_bytes;  ///< by blob: its size in the weight section
};
/// The inverses. Memory stays within a constant times section.size(), whatever the bytes are.
/// Throw Error(kInput) "at byte N: …" on bytes that no encode_…() writes.
DecodedPlan decode_plan(std::span<const std::byte> section);
std::vector<plan::LedgerRow> decode_ledger(std::span<const std::byte> section);
/// Absent: of another version (kRecordsVersion).
std::optional<Records> decode_records(std::span<const std::byte> section);

}  // namespace vernier::engine
