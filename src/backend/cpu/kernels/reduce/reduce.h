// The groups of elements of a reduction: axes split into kept and reduced ones. Contract:
// ReduceAttrs in core/attrs.h.
#pragma once
#include "backend/cpu/body.h"

namespace vernier::backend::cpu {

struct Axis {
  int64_t size, stride;
};

/// A list of axes, outermost first; neighbors that step evenly are merged, axes of size 1 dropped.
struct Axes {
  std::array<Axis, kMaxRank> list;
  int count = 0;
  void add(Axis axis) {
    if (axis.size == 1) return;
    if (count > 0) {
      Axis& last = list[count - 1];
      if (last.stride == axis.stride * axis.size) {
        last = {last.size * axis.size, axis.stride};
        return;
      }
    }
    list[count++] = axis;
  }
  int64_t elems() const {
    int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= list[i].size;
    return n;
  }
  /// Offset of element `index` (row-major).
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int i = count - 1; i >= 0; --i) {
      const Axis& axis = list[i];
      at += index % axis.size * axis.stride;
      index /= axis.size;
    }
    return at;
  }
  /// The innermost axis; one element if there is none.
  Axis last() const { return count > 0 ? list[count - 1] : Axis{1, 1}; }
};

/// Output i reduces the elements at kept.offset(i) + reduced.offset(k).
struct Groups {
  Axes kept, reduced;
};

/// The groups of a Reduce* launch; its state is AttrState<ReduceAttrs>.
Groups split_axes(const LaunchCall& call);

}  // namespace vernier::backend::cpu
