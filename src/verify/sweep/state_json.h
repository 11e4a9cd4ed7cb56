// SweepState as CBOR (RFC 8949): every number as it is, NaN and infinities too.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "verify/sweep/checkpoint.h"

namespace vernier::verify {

std::vector<uint8_t> to_cbor(const SweepState& state);
/// Throws Error(kInput) where the bytes are no such state.
SweepState state_of_cbor(std::span<const uint8_t> bytes);

}  // namespace vernier::verify
