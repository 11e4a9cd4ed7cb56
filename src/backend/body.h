// What a kernel file of any backend exports: one KernelBody per row of its kernels.def, and the few
// helpers all of them need. Contract of each member: KernelDef in backend/kernel.h.
#pragma once
#include <deque>

#include "backend/kernel.h"
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

/// True for f16 and bf16.
constexpr bool is_16_bit_float(DType t) { return t == DType::kF16 || t == DType::kBF16; }

/// Numerics of a kernel that computes in f32 and rounds its results to their stored type (that of
/// the first floating output): every rounding point takes f32, the last one the stored type.
/// Integer outputs are exact and say f32 for their (absent) floating part.
Numerics f32_numerics(const Problem& problem);
/// Numerics of a kernel that only moves or compares values: stored as they are.
Numerics exact_numerics(const Problem& problem);

/// Yes if every output and every floating input that is present is f32, else a reason naming the
/// first that is not. Integer inputs pass: ids and masks.
Support all_f32(const Problem& problem);
/// The same with f32, f16 and bf16 in any mix: for kernels that widen and narrow (convert.h).
Support all_up_to_f32(const Problem& problem);
/// Yes if all floating operands that are present have one type: for kernels that move elements.
Support one_float_type(const Problem& problem);
/// Yes if operand `input` is present with a known rank <= kMaxRank.
inline size_t rank_of(const Operand& operand) { return operand.shape.size(); }
/// `axis` counted from the front.
inline int64_t positive_axis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

/// True if an operand of shape `own`, broadcast to `shape`, has one value per element of the axes
/// [first_axis, rank), the same for all rows. A count alone does not say so: [4, 1] beside [4, 4].
bool is_per_row_element(const SymShape& own, const SymShape& shape, size_t first_axis);
/// True if `t` is row-major without gaps (size-1 axes may have any stride).
bool is_dense(const TensorArg& t);
/// Number of elements in axes [begin, end).
int64_t elems_between(const TensorArg& t, int begin, int end);

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

/// Row r of an array seen as [rows, cols] whose last axis is contiguous and whose outer axes have
/// any strides.
class Rows {
 public:
  explicit Rows(const TensorArg& t, int inner_axes = 1);
  Rows(int64_t count, int64_t step) : count_(count), step_(step) {}
  int64_t count() const { return count_; }
  /// True if row r is at r·step for every r.
  bool every(int64_t step) const { return count_ <= 1 || (uniform_ && step_ == step); }
  /// Offset of row r in elements.
  int64_t offset(int64_t r) const {
    if (uniform_) return r * step_;
    int64_t at = 0;
    for (int i = axes_ - 1; i >= 0; --i) {
      const auto k = static_cast<size_t>(i);
      at += r % shape_[k] * strides_[k];
      r /= shape_[k];
    }
    return at;
  }

 private:
  int axes_ = 0;
  bool uniform_ = true;
  int64_t count_ = 1, step_ = 0;
  std::array<int64_t, kMaxRank> shape_{}, strides_{};
};

/// The lines of an array along `axis` as rows: one per place in the other axes, in row-major order,
/// any strides. Elements of a line are t.stride(axis) apart.
Rows lines_along(const TensorArg& t, int axis);

}  // namespace vernier::backend
