// Checks of decoded plans and records: can a session run the plan, is the certificate whole?
// Contract: plan/plan.h, vernier/certificate.h, docs/engine_format.md.
#pragma once
#include <span>

#include "engine/codec.h"
#include "plan/plan.h"

namespace vernier::engine {

/// Throws Error(kInput) naming the value, step, blob or row that breaks the rules of plan.h:
/// indices in range, aliases of non-aliases of the same type, ranks <= 10, attributes that decode,
/// lifetimes that cover every use, steps that read what was written and write only arena memory,
/// and write something, segments that cover the steps, size symbols that are known, blobs of the
/// right size, shape values that fit their type, unique input and output names. The runtime checks
/// that the kernels exist.
void check_plan(const plan::Plan& plan);

/// Throws Error(kInput) unless the certificate, if there is one, has a verdict, hashes of 32 hex
/// digits, ascending sizes, finite limits, names (what is not the model's own in plain text,
/// without control characters), and is of the engine with this content hash; and the canary, if
/// there is one, has named arrays with as many bytes as their types and shapes say, and hashes.
void check_records(const Records& records, const std::string& content_hash);

/// Does a strided view of these sizes stay in [0, elems) of what it is a view of?
/// One without elements does.
bool stays_inside(int64_t offset, std::span<const int64_t> shape, std::span<const int64_t> strides,
                  int64_t elems);

}  // namespace vernier::engine
