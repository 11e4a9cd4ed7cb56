// cpu.conv.im2col: y[n, m] = w[m] · columns(x[n]) + bias, one or two spatial axes. Contract:
// ConvAttrs in core/attrs.h. The windows of 64 output positions are gathered into one panel of the
// packed product (gemm.h), K = channels per group · window, in memory order; padding is 0. Bits of
// an output depend on its own window only. f32. Workspace: one panel per part.
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/linear/gemm.h"

namespace vernier::backend::cpu {
namespace {

struct Geometry {
  int64_t batch, groups, group_in, group_out;  // channels per group
  // Two spatial axes; a single one is the second.
  std::array<int64_t, 2> in{1, 1}, out{1, 1}, kernel{1, 1}, stride{1, 1}, dilation{1, 1}, pad{0, 0};
  int64_t k() const { return group_in * kernel[0] * kernel[1]; }
  int64_t positions() const { return out[0] * out[1]; }
};

int64_t at_or(const std::vector<int64_t>& values, size_t i, int64_t fallback) {
  return i < values.size() ? values[i] : fallback;
}

Geometry geometry(const ConvAttrs& attrs, std::span<const TensorArg> in, const TensorArg& out) {
  const TensorArg &x = in[0], &w = in[1];
  Geometry g{.batch = x.dim(0),
             .groups = attrs.group,
             .group_in = w.dim(1),
             .group_out = w.dim(0) / attrs.group};
  const auto axes = static_cast<size_t>(x.rank - 2);
  for (size_t i = 0; i < axes; ++i) {
    const size_t to = i + 2 - axes;
    const auto axis = static_cast<int>(i) + 2;
    g.in[to] = x.dim(axis);
    g.out[to] = out.dim(axis);
    g.kernel[to] = w.dim(axis);
    g.stride[to] = at_or(attrs.strides, i, 1);
    g.dilation[to] = at_or(attrs.dilations, i, 1);
    g.pad[to] = at_or(attrs.pads, i, 0);
    constexpr int64_t kSameUpper = 1, kSameLower = 2, kValid = 3;
    if (attrs.auto_pad == kValid) g.pad[to] = 0;
    if (attrs.auto_pad == kSameUpper || attrs.auto_pad == kSameLower) {
      const int64_t reach =
          (g.out[to] - 1) * g.stride[to] + (g.kernel[to] - 1) * g.dilation[to] + 1;
      const int64_t total = std::max<int64_t>(0, reach - g.in[to]);
      g.pad[to] = attrs.auto_pad == kSameUpper ? total / 2 : total - total / 2;
    }
  }
  return g;
}

// One row of a panel: tap (kh, kw) of one channel under `count` output positions from `first`.
struct Tap {
  int64_t h, w;
};
void gather_tap(const Geometry& g, const float* channel, const Tap& tap, Span positions,
                float* dst) {
  for (int64_t p = positions.begin; p < positions.end; ++p) {
    const int64_t h = p / g.out[1] * g.stride[0] + tap.h * g.dilation[0] - g.pad[0];
    const int64_t w = p % g.out[1] * g.stride[1] + tap.w * g.dilation[1] - g.pad[1];
    const bool inside = h >= 0 && h < g.in[0] && w >= 0 && w < g.in[1];
    dst[p - positions.begin] = inside ? channel[h * g.in[1] + w] : 0.0f;
  }
}

void gather_panel(const Geometry& g, const float* x, Span positions, float* panel) {
  for (int64_t c = 0; c < g.group_in; ++c) {
    const float* channel = x + c * g.in[0] * g.in[1];
    for (int64_t h = 0; h < g.kernel[0]; ++h) {
      for (int64_t w = 0; w < g.kernel[1]; ++w) {
        gather_tap(g, channel, {h, w}, positions, panel);
        std::fill(panel + (positions.end - positions.begin), panel + kPanelCols, 0.0f);
        panel += kPanelCols;
      }
    }
  }
}

size_t panel_bytes(const Geometry& g) {
  return round_to_line(packed_elems(g.k(), kPanelCols) * sizeof(float));
}
size_t part_bytes(const Geometry& g) {
  return panel_bytes(g) + round_to_line(gemm_scratch_elems(g.k()) * sizeof(float));
}

std::unique_ptr<ShapeState> prepare(const PrepareCall& call) {
  return workspace_only(
      part_bytes(geometry(attrs_of<ConvAttrs>(call.state), call.in, call.out[0])) *
      static_cast<size_t>(call.execution.threads->size()));
}

void launch(const LaunchCall& call) {
  const TensorArg &x = call.in[0], &w = call.in[1], &y = call.out[0];
  if (y.elems() == 0) return;
  const Geometry g = geometry(attrs_of<ConvAttrs>(call.state), call.in, y);
  const float* bias = call.in.size() > 2 ? call.in[2].as<const float>() : nullptr;
  const int64_t positions = g.positions(), panels = num_panels(positions), k = g.k();
  const Rows weight_rows(g.group_out, k);
  call.execution.threads->parallel_for(
      g.batch * g.groups * panels, 1, [&](int64_t begin, int64_t end, int part) {
        std::byte* scratch = call.workspace + static_cast<size_t>(part) * part_bytes(g);
        auto* panel = reinterpret_cast<float*>(scratch);
        for (int64_t item = begin; item < end; ++item) {
          const int64_t image = item / panels, group = image % g.groups;
          const int64_t first = item % panels * kPanelCols;
          const Span span{first, std::min(positions, first + kPanelCols)};
          gather_panel(g, x.as<const float>() + image * g.group_in * g.in[0] * g.in[1], span,
                       panel);
          float* out = y.as<float>() + image * g.group_out * positions + first;
          gemm({.a = w.as<const float>() + group * g.group_out * k,
                .rows = &weight_rows,
                .first_row = 0,
                .packed = panel,
                .c = out,
                .c_step = positions,
                .m = g.group_out,
                .n = span.end - span.begin,
                .k = k,
                .first_panel = 0,
                .end_panel = 1,
                .scratch = reinterpret_cast<float*>(scratch + panel_bytes(g))});
          if (bias == nullptr) continue;
          for (int64_t m = 0; m < g.group_out; ++m) {
            const float b = bias[group * g.group_out + m];
            for (int64_t p = 0; p < span.end - span.begin; ++p) out[m * positions + p] += b;
          }
        }
      });
}

Support supports(const Problem& problem) {
  const size_t rank = rank_of(problem.inputs[0]);
  if (rank != 3 && rank != 4) return no("only one or two spatial axes are supported");
  return all_f32(problem);
}

}  // namespace

extern const KernelBody conv_im2col;
constexpr KernelBody conv_im2col{
    .supports = &supports,
    .numerics = &f32_numerics,
    .create = &decode_once<ConvAttrs>,
    .prepare = &prepare,
    .launch = &launch,
};

}  // namespace vernier::backend::cpu
