// The list of a backend's kernels, and the numerics and states that many of them share. Contract of
// a kernel: KernelBody in backend/kernel.h.
#pragma once
#include <deque>

#include "backend/kernel.h"
#include "backend/operands.h"
#include "core/attrs.h"

namespace vernier::backend {

inline constexpr uint32_t kAllStrided = ~0u;  ///< every input, in a mask of inputs

/// Builds a backend's kernel list and names each row <device>.<op>.<strategy>. It owns the names,
/// so it must outlive its kernels.
class KernelTable {
 public:
  explicit KernelTable(std::string_view device) : device_(device) {}
  void add(OpKind op, std::string_view strategy, const KernelBody& body);
  /// Adds a row for every operator that has one of the flags; 0: for every operator.
  void add_all(std::string_view strategy, const KernelBody& (*body)(OpKind), uint32_t with_flags);
  std::span<const KernelDef> kernels() const { return kernels_; }

 private:
  std::string device_;
  std::deque<std::string> names_;  // KernelDef::name points here
  std::vector<KernelDef> kernels_;
};

/// Numerics of a kernel that computes in f32 and rounds its results to their storage type (that of
/// the first float output): every rounding point has type f32, the last one the storage type.
/// Integers are exact; without a float output the numerics are f32 as well.
Numerics f32_numerics(const Problem& problem);
/// Numerics of a kernel that moves or compares values: nothing is rounded.
Numerics exact_numerics(const Problem& problem);
/// exact_numerics where all floating operands have one type, else f32_numerics.
Numerics moving_numerics(const Problem& problem);

/// The attributes of a step, decoded once per session, because decoding lists allocates.
/// `decode_once` is a create(); prepare and launch read attrs_of<A>(call.state).
template <class A>
struct AttrState final : KernelState {
  explicit AttrState(AttrView bytes) : attrs(decode<A>(bytes)) {}
  A attrs;
};
template <class A>
std::unique_ptr<KernelState> decode_once(const CreateCall& call) {
  return std::make_unique<AttrState<A>>(call.attrs);
}
template <class A>
const A& attrs_of(const KernelState* state) {
  return static_cast<const AttrState<A>*>(state)->attrs;
}

/// A ShapeState that only asks for workspace.
std::unique_ptr<ShapeState> workspace_only(size_t bytes);

}  // namespace vernier::backend
