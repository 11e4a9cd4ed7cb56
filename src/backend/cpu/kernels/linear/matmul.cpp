// cpu.matmul.packed, cpu.gemm.packed, cpu.linear.packed_at_run: products whose right operand is not
// constant and is packed at run time. Contract: MatMul as in ONNX (any rank, broadcast batch axes,
// one-axis operands), GemmAttrs, LinearAttrs; bits as in gemm-inl.h. f32. A MatMul whose columns
// are scores by relative position joins the attention that reads them: it computes those of the
// distances that occur.
#include <algorithm>

#include "backend/cpu/index.h"
#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/kernels/linear/gemm.h"
#include "core/error.h"

namespace vernier::backend::cpu {
namespace {

// ---- a batch of products c[i] = a[i] · b[i]

struct Product {
  TensorArg a, b;  // [..., m, k], [..., k, n] with strides (0 where a batch axis repeats)
  int64_t m = 0, n = 0, k = 0;
  int batch_axes = 0;
  std::array<int64_t, kMaxRank> batch{};
  std::array<int64_t, kMaxRank> a_strides{}, b_strides{};
  int64_t a_row = 0, b_row = 0, b_col = 1;
  float* c = nullptr;

  int64_t batches() const {
    int64_t count = 1;
    for (int i = 0; i < batch_axes; ++i) count *= batch[i];
    return count;
  }
  std::pair<int64_t, int64_t> offsets(int64_t index) const {
    int64_t at_a = 0, at_b = 0;
    for (int i = batch_axes - 1; i >= 0; --i) {
      const auto axis = static_cast<size_t>(i);
      at_a += index % batch[axis] * a_strides[axis];
      at_b += index % batch[axis] * b_strides[axis];
      index /= batch[axis];
    }
    return {at_a, at_b};
  }
};

// One-axis operands as a row (a) or a column (b).
TensorArg as_matrix(TensorArg t, int at) {
  if (t.rank > 1) return t;
  const auto vector_axis = static_cast<size_t>(at), other = static_cast<size_t>(1 - at);
  const int64_t size = t.shape[0], stride = t.strides[0];
  t.rank = 2;
  t.shape[vector_axis] = size;
  t.strides[vector_axis] = stride;
  t.shape[other] = 1;
  t.strides[other] = at == 1 ? size : 1;
  return t;
}

Product matmul_product(const TensorArg& in_a, const TensorArg& in_b) {
  Product p;
  p.a = as_matrix(in_a, 1);
  p.b = as_matrix(in_b, 0);
  p.m = p.a.dim(-2);
  p.k = p.a.dim(-1);
  p.n = p.b.dim(-1);
  p.a_row = p.a.stride(-2);
  p.b_row = p.b.stride(-2);
  p.b_col = p.b.stride(-1);
  p.batch_axes = std::max(p.a.rank, p.b.rank) - 2;
  for (int i = 0; i < p.batch_axes; ++i) {
    const auto axis = static_cast<size_t>(i);
    const int own_a = i - (p.batch_axes - (p.a.rank - 2));
    const int own_b = i - (p.batch_axes - (p.b.rank - 2));
    const int64_t size_a = own_a < 0 ? 1 : p.a.dim(own_a), size_b = own_b < 0 ? 1 : p.b.dim(own_b);
    p.batch[axis] = size_a == 1 ? size_b : size_a;
    p.a_strides[axis] = broadcast_stride(p.a, i, p.batch_axes + 2);
    p.b_strides[axis] = broadcast_stride(p.b, i, p.batch_axes + 2);
  }
  return p;
}

// a [m, k] against every batch of a shared b is one tall product.
void fold_batches(Product& p) {
  while (p.batch_axes > 0) {
    const auto last = static_cast<size_t>(p.batch_axes - 1);
    const bool shared = p.b_strides[last] == 0;
    const bool even = p.m == 1 || p.a_strides[last] == p.a_row * p.m;
    if (!shared || !even || p.a_strides[last] == 0) return;
    if (p.m == 1) p.a_row = p.a_strides[last];
    p.m *= p.batch[last];
    --p.batch_axes;
  }
}

size_t packed_bytes(const Product& p) {
  return round_to_line(packed_elems(p.k, p.n) * sizeof(float));
}
size_t scratch_bytes(const Product& p) {
  return round_to_line(gemm_scratch_elems(p.k) * sizeof(float));
}
size_t workspace_bytes(const Product& p, int threads) {
  return static_cast<size_t>(threads) * (packed_bytes(p) + scratch_bytes(p));
}

constexpr int64_t kRowUnit = 16;

struct Part {
  Span rows, panels;
};
void multiply_part(const Product& p, int64_t batch, const float* packed, const Part& part,
                   float* scratch) {
  const int64_t row0 = part.rows.begin * kRowUnit;
  const int64_t rows = std::min(p.m, part.rows.end * kRowUnit) - row0;
  if (rows <= 0) return;
  const Rows steps(p.m, p.a_row);
  gemm({.a = p.a.as<const float>() + p.offsets(batch).first,
        .rows = &steps,
        .first_row = row0,
        .packed = packed,
        .c = p.c + (batch * p.m + row0) * p.n,
        .c_step = p.n,
        .m = rows,
        .n = p.n,
        .k = p.k,
        .first_panel = part.panels.begin,
        .end_panel = part.panels.end,
        .scratch = scratch});
}

// With many batches each part packs and multiplies whole batches; with few, all parts share each.
// `wanted`: panels of columns; no others of c are written.
void multiply(const Product& p, const LaunchCall& call, Span wanted) {
  ThreadTeam& threads = *call.execution.threads;
  const int64_t batches = p.batches(), panels = wanted.end - wanted.begin;
  const int64_t units = (p.m + kRowUnit - 1) / kRowUnit;
  const auto packed_of = [&](int part) {
    return reinterpret_cast<float*>(call.workspace + static_cast<size_t>(part) * packed_bytes(p));
  };
  const auto scratch_of = [&](int part) {
    return reinterpret_cast<float*>(call.workspace +
                                    static_cast<size_t>(threads.size()) * packed_bytes(p) +
                                    static_cast<size_t>(part) * scratch_bytes(p));
  };
  const auto view = [&](int64_t batch) {
    return MatrixView{.data = p.b.as<const float>() + p.offsets(batch).second,
                      .rows = p.k,
                      .cols = p.n,
                      .row_step = p.b_row,
                      .col_step = p.b_col};
  };
  if (batches >= threads.size()) {
    threads.parallel_for(batches, 1, [&](int64_t begin, int64_t end, int part) {
      for (int64_t batch = begin; batch < end; ++batch) {
        pack_panels(view(batch), packed_of(part), wanted.begin, wanted.end);
        multiply_part(p, batch, packed_of(part), {{0, units}, wanted}, scratch_of(part));
      }
    });
    return;
  }
  const Grid grid = choose_grid(
      {.threads = threads_worth(threads.size(), p.m, std::min(p.n, panels * kPanelCols), p.k),
       .row_units = units,
       .col_units = panels,
       .row_unit_bytes = 4.0 * static_cast<double>(p.k * kRowUnit),
       .col_unit_bytes = 4.0 * static_cast<double>(p.k * kPanelCols)});
  for (int64_t batch = 0; batch < batches; ++batch) {
    threads.parallel_for(panels, 1, [&](int64_t begin, int64_t end, int) {
      pack_panels(view(batch), packed_of(0), wanted.begin + begin, wanted.begin + end);
    });
    threads.parallel_for(grid.rows * grid.cols, 1, [&](int64_t begin, int64_t end, int part) {
      for (int64_t cell = begin; cell < end; ++cell) {
        const auto index = static_cast<int>(cell);
        const Span own = share(panels, index % grid.cols, grid.cols);
        multiply_part(p, batch, packed_of(0),
                      {share(units, index / grid.cols, grid.rows),
                       {wanted.begin + own.begin, wanted.begin + own.end}},
                      scratch_of(part));
      }
    });
  }
}

void multiply(const Product& p, const LaunchCall& call) { multiply(p, call, {0, num_panels(p.n)}); }

// ---- MatMul

// Widens `columns` to all that an attention reads of `positions`, rows of columns of y, at its
// buckets. False: nobody knows.
bool add_columns(const TensorArg& positions, const TensorArg& buckets, const TensorArg& y,
                 Span& columns) {
  if (!given(positions)) return true;
  const int64_t n = y.dim(-1), count = buckets.elems();
  if (positions.dim(-1) != n || positions.stride(-1) != 1 ||
      (positions.as<float>() - y.as<float>()) % n != 0)
    return false;
  for (int i = 0; i < positions.rank - 1; ++i) {
    if (positions.dim(i) != 1 && positions.stride(i) % n != 0) return false;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = read_index(buckets, i),
                  bucket = std::clamp<int64_t>(at, 0, n - 1);  // the attention refuses others
    columns.begin = std::min(columns.begin, bucket);
    columns.end = std::max(columns.end, bucket + 1);
  }
  return true;
}
// The panels that the attention behind reads.
Span panels_read(const LaunchCall& next, const TensorArg& y) {
  using enum AttentionAttrs::Input;
  const int64_t n = y.dim(-1);
  Span columns{n, 0};
  const bool known =
      add_columns(operand_at(next.in, kQueryPositions), operand_at(next.in, kQueryBuckets), y,
                  columns) &&
      add_columns(operand_at(next.in, kKeyPositions), operand_at(next.in, kKeyBuckets), y, columns);
  if (!known || columns.begin >= columns.end) return {0, num_panels(n)};
  return {columns.begin / kPanelCols, num_panels(columns.end)};
}

std::unique_ptr<ShapeState> prepare_matmul(const PrepareCall& call) {
  Product p = matmul_product(call.in[0], call.in[1]);
  fold_batches(p);
  return workspace_only(workspace_bytes(p, call.execution.threads->size()));
}
void launch_matmul(const LaunchCall& call) {
  if (call.out[0].elems() != 0) {
    Product p = matmul_product(call.in[0], call.in[1]);
    fold_batches(p);
    p.c = call.out[0].as<float>();
    const bool in_part = call.next != nullptr && call.result_unused;
    multiply(p, call, in_part ? panels_read(*call.next, call.out[0]) : Span{0, num_panels(p.n)});
  }
  if (call.next != nullptr) launch_attention_blocked(*call.next);
}
bool joins_attention(const Problem&, const Problem& next) { return next.op == OpKind::kAttention; }

// ---- Gemm: alpha · a · b(ᵀ) + beta · c

Product gemm_product(AttrView bytes, std::span<const TensorArg> in) {
  const auto attrs = decode<GemmAttrs>(bytes);
  TensorArg b = in[1];
  if (attrs.trans_b) {
    std::swap(b.shape[0], b.shape[1]);
    std::swap(b.strides[0], b.strides[1]);
  }
  return matmul_product(in[0], b);
}

Support supports_gemm(const Problem& problem) {
  if (problem.attrs_as<GemmAttrs>().trans_a) return no("the left operand is transposed");
  return all_f32(problem);
}
std::unique_ptr<ShapeState> prepare_gemm(const PrepareCall& call) {
  const Product p = gemm_product(call.attrs, call.in);
  return workspace_only(workspace_bytes(p, call.execution.threads->size()));
}
void launch_gemm(const LaunchCall& call) {
  const auto attrs = decode<GemmAttrs>(call.attrs);
  Product p = gemm_product(call.attrs, call.in);
  p.c = call.out[0].as<float>();
  if (p.m == 0 || p.n == 0) return;
  multiply(p, call);
  const bool has_c = call.in.size() > 2 && call.in[2].data != nullptr && attrs.beta != 0;
  const TensorArg c = has_c ? call.in[2] : TensorArg{};
  const int64_t col_step = has_c && c.rank > 0 && c.dim(-1) != 1 ? c.stride(-1) : 0;
  const int64_t row_step = has_c && c.rank > 1 && c.dim(-2) != 1 ? c.stride(-2) : 0;
  const auto alpha = static_cast<float>(attrs.alpha), beta = static_cast<float>(attrs.beta);
  if (!has_c && alpha == 1.0f) return;
  const int64_t grain = std::max<int64_t>(1, 8192 / p.n);
  call.execution.threads->parallel_for(p.m, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j = 0; j < p.n; ++j) {
        float& y = p.c[r * p.n + j];
        y *= alpha;
        if (has_c) y += beta * c.as<const float>()[r * row_step + j * col_step];
      }
    }
  });
}

// ---- Linear with a weight that is not a constant

Product linear_product(AttrView attrs, std::span<const TensorArg> in) {
  TensorArg w = in[1];
  if (decode<LinearAttrs>(attrs).trans_w) {
    std::swap(w.shape[0], w.shape[1]);
    std::swap(w.strides[0], w.strides[1]);
  }
  Product p = matmul_product(in[0], w);
  fold_batches(p);
  return p;
}
Support supports_linear(const Problem& problem) {
  if (problem.has_input(3) && str(problem.inputs[3].shape) != str(problem.outputs[0].shape))
    return no("the residual is broadcast");
  if (rank_of(problem.inputs[1]) != 2) return no("the weight is not a matrix");
  return all_f32(problem);
}
std::unique_ptr<ShapeState> prepare_linear_at_run(const PrepareCall& call) {
  const Product p = linear_product(call.attrs, call.in);
  return workspace_only(workspace_bytes(p, call.execution.threads->size()));
}
void launch_linear_at_run(const LaunchCall& call) {
  if (call.out[0].elems() == 0) return;
  Product p = linear_product(call.attrs, call.in);
  p.c = call.out[0].as<float>();
  multiply(p, call);
  const auto input = [&](size_t i) {
    return i < call.in.size() ? call.in[i].as<const float>() : nullptr;
  };
  const EpilogueCall whole{.src = p.c,
                           .src_step = p.n,
                           .dst = p.c,
                           .dst_step = p.n,
                           .bias = input(2),
                           .residual = input(3),
                           .residual_step = p.n,
                           .rows = 0,
                           .cols = p.n,
                           .activation = decode<LinearAttrs>(call.attrs).activation};
  const int64_t rows = call.out[0].elems() / p.n;
  call.execution.threads->parallel_for(rows, std::max<int64_t>(1, 4096 / p.n),
                                       [&](int64_t begin, int64_t end, int) {
                                         EpilogueCall part = whole;
                                         part.rows = end - begin;
                                         part.src = p.c + begin * p.n;
                                         part.dst = p.c + begin * p.n;
                                         part.residual = whole.residual.at(begin * p.n);
                                         linear_epilogue(part);
                                       });
}

}  // namespace

extern const KernelBody matmul_packed, gemm_packed, linear_packed_at_run;
constexpr KernelBody matmul_packed{
    .supports = &all_f32,
    .numerics = &f32_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_matmul,
    .launch = &launch_matmul,
    .joins = &joins_attention,
    .joined_inputs = 1U << AttentionAttrs::kQueryPositions | 1U << AttentionAttrs::kKeyPositions,
};
constexpr KernelBody gemm_packed{
    .supports = &supports_gemm,
    .numerics = &f32_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_gemm,
    .launch = &launch_gemm,
};
constexpr KernelBody linear_packed_at_run{
    .supports = &supports_linear,
    .numerics = &f32_numerics,
    .strided_inputs = 3,
    .prepare = &prepare_linear_at_run,
    .launch = &launch_linear_at_run,
};

}  // namespace vernier::backend::cpu
