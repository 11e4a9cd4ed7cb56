// FP64 evaluators of Conv and ConvTranspose. Contract: core/evaluator.h; rounding points a (data),
// b (weights), out. Conv gathers columns of the input in chunks and multiplies.
#include <algorithm>

#include "core/attrs.h"
#include "reference/elementwise.h"
#include "reference/matmul.h"
#include "reference/window.h"

namespace vernier::reference {
namespace {

constexpr int64_t kChunk = 1024;  // output positions whose columns are in memory at once

struct ConvSizes {
  int64_t batch, groups;
  int64_t in_channels, out_channels;  // per group
  int64_t in_plane, out_plane, taps;  // elements of the spatial planes and of the kernel
};

Window conv_window(const ConvAttrs& attrs, const EvalTensor& w, const Shape& in, const Shape& out) {
  const Shape kernel(w.shape.begin() + 2, w.shape.end());
  return window_of({kernel, attrs.strides, attrs.dilations, attrs.pads, attrs.auto_pad}, in, out);
}

// For each tap and output position the element of the input plane, or −1 in the padding: [taps,
// out_plane].
std::vector<int64_t> gather_table(const Window& window) {
  std::vector<int64_t> table;
  if (num_elems(window.kernel) == 0 || num_elems(window.out) == 0) return table;
  Shape tap(window.kernel.size(), 0);
  do {
    Shape at(window.out.size(), 0);
    do {
      table.push_back(window.input_index(at, tap));
    } while (next_position(at, window.out));
  } while (next_position(tap, window.kernel));
  return table;
}

// out [out_channels, out_plane] += w [out_channels, in_channels·taps] · columns of x.
void convolve_plane(const ConvSizes& s, const std::vector<int64_t>& table, const double* x,
                    const double* w, const PointRounding& accumulator, double* out) {
  const int64_t depth = s.in_channels * s.taps;
  for (int64_t begin = 0; begin < s.out_plane; begin += kChunk) {
    const int64_t count = std::min(kChunk, s.out_plane - begin);
    std::vector<double> columns(static_cast<size_t>(depth * count), 0.0);
    for (int64_t row = 0; row < depth; ++row) {
      const double* plane = x + row / s.taps * s.in_plane;
      const int64_t* from = table.data() + row % s.taps * s.out_plane + begin;
      for (int64_t i = 0; i < count; ++i) {
        if (from[i] >= 0) columns[row * count + i] = plane[from[i]];
      }
    }
    std::vector<double> result(static_cast<size_t>(s.out_channels * count), 0.0);
    multiply_add({s.out_channels, count, depth}, w, columns.data(), result.data(), accumulator);
    for (int64_t m = 0; m < s.out_channels; ++m)
      std::copy_n(result.data() + m * count, count, out + m * s.out_plane + begin);
  }
}

void add_bias_and_round(const EvalCall& call, int64_t plane) {
  const EvalTensor* bias = call.in.size() > 2 ? call.in[2] : nullptr;
  EvalTensor& y = call.out[0];
  const int64_t channels = y.shape[1];
  for (size_t i = 0; i < y.f.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / plane % channels;
    const double sum = y.f[i] + (bias ? bias->f[channel] : 0.0);
    y.f[i] = call.rounding(2, call.rounding.inner(sum));
  }
}

// out plane += x plane scattered by w: each input position adds to the positions its taps reach.
void spread_plane(const std::vector<int64_t>& table, int64_t in_plane, const double* x,
                  const double* w, std::vector<Sum>& out) {
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] < 0) continue;
    const auto at = static_cast<int64_t>(i);
    out[table[i]].add(x[at % in_plane] * w[at / in_plane]);
  }
}

// Padding of ConvTranspose if output_shape or auto_pad gives the output size.
void set_transposed_pads(const ConvAttrs& attrs, Window& window) {
  if (attrs.output_shape.empty() && (attrs.auto_pad == 0 || attrs.auto_pad == 3)) return;
  for (size_t i = 0; i < window.out.size(); ++i) {
    const int64_t extra = attrs.output_padding.empty() ? 0 : attrs.output_padding[i];
    const int64_t full = window.strides[i] * (window.out[i] - 1) + extra +
                         (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t total = std::max<int64_t>(full - window.in[i], 0);
    window.pad_begin[i] = attrs.auto_pad == 1 ? total / 2 : total - total / 2;
  }
}

}  // namespace

// y[n, m, p] = Σ_{c, tap} x[n, c, p·stride + tap·dilation − pad]·w[m, c, tap] + bias[m]
void eval_conv(const EvalCall& call) {
  const auto attrs = decode<ConvAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &w = *call.in[1];
  require_float("Conv", x);
  EvalTensor& y = call.out[0];
  const Window window = conv_window(attrs, w, x.shape, y.shape);
  const ConvSizes s{x.shape[0],
                    attrs.group,
                    w.shape[1],
                    w.shape[0] / attrs.group,
                    num_elems(window.in),
                    num_elems(window.out),
                    num_elems(window.kernel)};
  if (y.f.empty()) return;
  const std::vector<int64_t> table = gather_table(window);
  std::vector<double> storage_x, storage_w;
  const double* data = at_point(call, 0, x, storage_x).data();
  const double* weights = at_point(call, 1, w, storage_w).data();
  for (int64_t n = 0; n < s.batch * s.groups; ++n) {
    convolve_plane(s, table, data + n * s.in_channels * s.in_plane,
                   weights + n % s.groups * s.out_channels * s.in_channels * s.taps,
                   call.rounding.accumulator(), y.f.data() + n * s.out_channels * s.out_plane);
  }
  add_bias_and_round(call, s.out_plane);
}

// The transpose of Conv: w is [in channels, out channels / group, kernel...]. The window moves over
// the output, one position per element of the input.
void eval_conv_transpose(const EvalCall& call) {
  const auto attrs = decode<ConvAttrs>(call.attrs);
  const EvalTensor &x = *call.in[0], &w = *call.in[1];
  require_float("ConvTranspose", x);
  EvalTensor& y = call.out[0];
  if (y.f.empty()) return;
  ConvAttrs plain = attrs;
  plain.auto_pad = 0;
  Window window = conv_window(plain, w, y.shape, x.shape);
  set_transposed_pads(attrs, window);
  const ConvSizes s{x.shape[0],
                    attrs.group,
                    x.shape[1] / attrs.group,
                    w.shape[1],
                    num_elems(window.out),
                    num_elems(window.in),
                    num_elems(window.kernel)};
  const std::vector<int64_t> table = gather_table(window);
  std::vector<double> storage_x, storage_w;
  const double* data = at_point(call, 0, x, storage_x).data();
  const double* weights = at_point(call, 1, w, storage_w).data();
  for (int64_t out = 0; out < s.batch * s.groups * s.out_channels; ++out) {
    const int64_t item = out / s.out_channels, m = out % s.out_channels;  // item: batch and group
    std::vector<Sum> sums(static_cast<size_t>(s.out_plane), Sum(call.rounding.accumulator()));
    for (int64_t c = 0; c < s.in_channels; ++c) {
      const int64_t channel = item % s.groups * s.in_channels + c;
      spread_plane(table, s.in_plane, data + (item * s.in_channels + c) * s.in_plane,
                   weights + (channel * s.out_channels + m) * s.taps, sums);
    }
    for (size_t i = 0; i < sums.size(); ++i)
      y.f[static_cast<size_t>(out * s.out_plane) + i] = sums[i].value();
  }
  add_bias_and_round(call, s.out_plane);
}

}  // namespace vernier::reference
