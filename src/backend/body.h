// What a kernel file of any backend exports: one KernelBody per row of its kernels.def; numerics
// and states that many rows share. Contract of each member: KernelDef in backend/kernel.h.
#pragma once
#include <deque>

#include "backend/kernel.h"
#include "backend/operands.h"
#include "core/attrs.h"

namespace vernier::backend {

inline constexpr uint32_t kAllStrided = ~0u;

/// A KernelDef without name and operator; those stand in kernels.def.
struct KernelBody {
  Support (*supports)(const Problem&) = nullptr;
  Numerics (*numerics)(const Problem&) = nullptr;
  std::string_view bit_class = "row";
  uint32_t strided_inputs = 0;
  uint32_t repeating_inputs = kAllStrided;
  std::vector<PackedConstant> (*pack)(const Problem&) = nullptr;
  Tensor (*unpack)(const Problem&, const ConstantArg&) = nullptr;
  std::vector<PackedLayout> (*packed_layouts)(const Problem&) = nullptr;
  std::unique_ptr<KernelState> (*create)(const CreateCall&) = nullptr;
  std::unique_ptr<ShapeState> (*prepare)(const PrepareCall&) = nullptr;
  void (*launch)(const LaunchCall&) = nullptr;
  std::string (*tune)(const TuneCall&) = nullptr;
};

/// A backend's kernel list while it is made: names each row <device>.<op>.<strategy>. Keeps the
/// names, so it must outlive its kernels.
class KernelTable {
 public:
  explicit KernelTable(std::string_view device) : device_(device) {}
  void add(OpKind op, std::string_view strategy, const KernelBody& body);
  /// One row for every operator with a flag of `with_flags`; 0: for all.
  void add_all(std::string_view strategy, const KernelBody& (*body)(OpKind), uint32_t with_flags);
  std::span<const KernelDef> kernels() const { return kernels_; }

 private:
  std::string device_;
  std::deque<std::string> names_;  // KernelDef::name points here
  std::vector<KernelDef> kernels_;
};

/// Numerics of a kernel that computes in f32 and rounds its results to their stored type (that of
/// the first floating output): every rounding point takes f32, the last one the stored type.
/// Integer outputs are exact and say f32 for their (absent) floating part.
Numerics f32_numerics(const Problem& problem);
/// Numerics of a kernel that only moves or compares values: stored as they are.
Numerics exact_numerics(const Problem& problem);
/// exact_numerics where all floating operands have one type, else f32_numerics.
Numerics moving_numerics(const Problem& problem);

/// A step's attributes, decoded when the session is made: lists in them would cost an allocation in
/// every launch. For `create`; launch and prepare read them with attrs_of<A>(call.state).
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

/// A ShapeState with nothing but its workspace.
std::unique_ptr<ShapeState> workspace_only(size_t bytes);

}  // namespace vernier::backend
