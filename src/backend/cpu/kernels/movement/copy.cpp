// Strided copies: see copy.h. Highway only for the 4-byte transposition.
#include "backend/cpu/kernels/movement/copy.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/kernels/movement/copy.cpp"
#include <hwy/foreach_target.h>

#include "backend/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace vernier::backend::cpu {
namespace HWY_NAMESPACE {
// (rows, cols) with steps in elements, as transpose_block.
void Transpose32(const uint32_t* src, int64_t src_step, uint32_t* dst, int64_t dst_step,
                 int64_t rows, int64_t cols) {
  transpose_block(src, src_step, dst, dst_step, rows, cols);
}
}  // namespace HWY_NAMESPACE
}  // namespace vernier::backend::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace vernier::backend::cpu {
HWY_EXPORT(Transpose32);
namespace {

constexpr int64_t kBlock = 32;  // two blocks of 4 KiB stay in the first-level cache
constexpr int64_t kParallelBytes = 1 << 16;

// The axes longer than 1, outermost destination first; neighbors that step together are merged.
struct Loops {
  std::array<CopyAxis, kMaxCopyAxes> axes;
  int count = 0;

  explicit Loops(std::span<const CopyAxis> all) {
    for (const CopyAxis& axis : all) {
      if (axis.size == 1) continue;
      VERNIER_ASSERT(count < kMaxCopyAxes);
      axes[count++] = axis;
    }
    // Insertion sort: std::stable_sort would allocate in every launch.
    for (int i = 1; i < count; ++i) {
      for (int j = i; j > 0 && axes[j].dst > axes[j - 1].dst; --j) std::swap(axes[j], axes[j - 1]);
    }
    int merged = 0;
    for (int i = 0; i < count; ++i) {
      const CopyAxis& axis = axes[i];
      CopyAxis& last = axes[std::max(merged - 1, 0)];
      if (merged > 0 && last.src == axis.src * axis.size && last.dst == axis.dst * axis.size)
        last = {last.size * axis.size, axis.src, axis.dst};
      else
        axes[merged++] = axis;
    }
    count = merged;
    if (count == 0) axes[count++] = {1, 1, 1};
  }
  CopyAxis& inner() { return axes[count - 1]; }
};

template <class T>
void copy_row(const T* src, T* dst, const CopyAxis& axis) {
  if (axis.src == 1 && axis.dst == 1) {
    std::memcpy(dst, src, static_cast<size_t>(axis.size) * sizeof(T));
  } else if (axis.src == 0 && axis.dst == 1) {
    std::fill_n(dst, axis.size, *src);
  } else {
    for (int64_t i = 0; i < axis.size; ++i) dst[i * axis.dst] = src[i * axis.src];
  }
}

template <class T>
void transpose_tile(const T* src, int64_t src_step, T* dst, int64_t dst_step, int64_t rows,
                    int64_t cols) {
  if constexpr (sizeof(T) == 4) {
    HWY_DYNAMIC_DISPATCH(Transpose32)(src, src_step, dst, dst_step, rows, cols);
  } else {
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = 0; r < rows; ++r) dst[c * dst_step + r] = src[r * src_step + c];
    }
  }
}

// The last two loops where the source is contiguous along `outer` and the destination along
// `inner`: (inner, outer) of the source becomes (outer, inner).
template <class T>
void copy_plane(const T* src, T* dst, const CopyAxis& outer, const CopyAxis& inner) {
  for (int64_t o = 0; o < outer.size; o += kBlock) {
    for (int64_t i = 0; i < inner.size; i += kBlock) {
      transpose_tile(src + o + i * inner.src, inner.src, dst + o * outer.dst + i, outer.dst,
                     std::min(kBlock, inner.size - i), std::min(kBlock, outer.size - o));
    }
  }
}

// Offsets of item `index` of the first `axes` loops.
std::pair<int64_t, int64_t> offsets(const Loops& loops, int axes, int64_t index) {
  int64_t src = 0, dst = 0;
  for (int i = axes - 1; i >= 0; --i) {
    const CopyAxis& axis = loops.axes[i];
    src += index % axis.size * axis.src;
    dst += index % axis.size * axis.dst;
    index /= axis.size;
  }
  return {src, dst};
}

template <class T>
void copy_typed(const CopyCall& call, Loops loops) {
  const auto* src = reinterpret_cast<const T*>(call.src);
  auto* dst = reinterpret_cast<T*>(call.dst);
  // Find an axis along which the source is contiguous, if it is not along the destination's inner
  // axis.
  bool plane = false;
  if (loops.count >= 2 && loops.inner().dst == 1 && loops.inner().src != 1) {
    for (int i = 0; i + 1 < loops.count; ++i) {
      if (loops.axes[i].src != 1) continue;
      std::rotate(loops.axes.begin() + i, loops.axes.begin() + i + 1,
                  loops.axes.begin() + loops.count - 1);
      plane = true;
      break;
    }
  }
  const int outer_axes = loops.count - (plane ? 2 : 1);
  int64_t items = 1;
  for (int i = 0; i < outer_axes; ++i) items *= loops.axes[i].size;
  int64_t item_elems = loops.inner().size;
  const CopyAxis& second = loops.axes[std::max(loops.count - 2, 0)];
  if (plane) item_elems *= second.size;
  const int64_t grain =
      std::max<int64_t>(1, kParallelBytes / std::max<int64_t>(1, item_elems * int64_t{sizeof(T)}));
  call.threads->parallel_for(items, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      const auto [from, to] = offsets(loops, outer_axes, k);
      if (plane)
        copy_plane(src + from, dst + to, second, loops.inner());
      else
        copy_row(src + from, dst + to, loops.inner());
    }
  });
}

}  // namespace

void copy_strided(const CopyCall& call) {
  for (const CopyAxis& axis : call.axes) {
    if (axis.size == 0) return;
  }
  Loops loops(call.axes);
  switch (call.elem_bytes) {
    case 1:
      return copy_typed<uint8_t>(call, loops);
    case 2:
      return copy_typed<uint16_t>(call, loops);
    case 4:
      return copy_typed<uint32_t>(call, loops);
    default:
      return copy_typed<uint64_t>(call, loops);
  }
}

void fill_elements(std::byte* dst, int64_t count, const std::byte* element, size_t elem_bytes) {
  if (count == 0) return;
  std::memcpy(dst, element, elem_bytes);
  // Doubling: each step copies everything written so far.
  const size_t total = static_cast<size_t>(count) * elem_bytes;
  for (size_t done = elem_bytes; done < total; done += std::min(done, total - done))
    std::memcpy(dst + done, dst, std::min(done, total - done));
}

}  // namespace vernier::backend::cpu
#endif
