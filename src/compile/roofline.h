// What a device can do at most, and how long a step takes there at least: the share of it that each
// step of an engine reaches. docs/measuring.md "Shares of the device".
#pragma once
#include <map>

#include "runtime/session_impl.h"

namespace vernier::compiler {

/// Measured in this run, on the device of one session.
struct DeviceRates {
  double copy_bytes_per_ms = 0;          ///< of a large copy: bytes read and bytes written
  std::map<DType, double> flops_per_ms;  ///< of a large product, by the type of its operands
};

/// Rates of the types that the engine's products compute in, with the session's threads. Products
/// are Vernier's own, tuned: it takes them a second or so per type. Throws Error(kMachine) where
/// the device has no memory for them.
DeviceRates measure_rates(Session::Impl& session);

/// The larger of bytes / copy rate (every input read once, every output written once; of an indexed
/// table what the indices name) and, of products, operations / product rate; 0 where a step has no
/// cost. What stays in a cache can be faster.
double floor_ms(const Session::Impl& session, size_t step, const DeviceRates& rates);

}  // namespace vernier::compiler
