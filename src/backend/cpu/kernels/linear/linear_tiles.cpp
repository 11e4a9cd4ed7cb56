// The bf16 product of cpu.linear.onednn_bf16 on tile registers (simd/tiles.h): y = act(x·w + bias)
// + residual on gemm.h's panels. Contract: linear.h.
//
// A result is summed by itself, 32 products at a time in ascending order, whatever rows and columns
// stand beside it: the bits of a row depend on neither M nor the threads. Products are exact, sums
// f32; subnormal operands and sums count as zero (a rule of the instruction).
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels/linear/linear.h"
#include "backend/cpu/simd/tiles.h"

namespace vernier::backend::cpu {
namespace {

constexpr int64_t kRowUnit = 16;     // rows are assigned to threads in these units
constexpr int64_t kRowsAtOnce = 32;  // of sums
constexpr size_t kSumBytes = kRowsAtOnce * kPanelCols * sizeof(float);

class TileLinear final : public LinearState {
 public:
  explicit TileLinear(const PackedWeight& weight)
      : weight_(weight.panels), k_(panel_rows(DType::kBF16, weight.shape.k)) {}

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) override {
    return workspace_only(static_cast<size_t>(call.execution.threads->size()) * part_bytes());
  }

  void launch(const LaunchCall& call) const override {
    const LinearRun run(call);
    if (run.m == 0 || run.n == 0) return;
    ThreadTeam& threads = *call.execution.threads;
    const int64_t row_units = (run.m + kRowUnit - 1) / kRowUnit;
    const Grid grid =
        choose_grid({.threads = threads_worth(threads.size(), run.m, run.n, k_ / 4),
                     .row_units = row_units,
                     .col_units = num_panels(run.n),
                     .row_unit_bytes = static_cast<double>(row_bytes() * kRowUnit),
                     .col_unit_bytes = static_cast<double>(row_bytes() * kPanelCols)});
    for_each_block(threads, grid, {run.m, kRowUnit, num_panels(run.n), block_rows()},
                   [&](Span rows, Span panels, int part) {
                     const TileScope tiles;
                     run_block(run, rows, panels,
                               call.workspace + static_cast<size_t>(part) * part_bytes());
                   });
  }

 private:
  int64_t row_bytes() const { return k_ * static_cast<int64_t>(size_bytes(DType::kBF16)); }
  int64_t copy_step() const { return row_bytes() + kTileStepBytes; }
  int64_t block_rows() const { return rows_for_tiles(row_bytes()); }
  size_t copy_bytes() const { return static_cast<size_t>(block_rows() * copy_step()); }
  size_t part_bytes() const { return round_to_line(copy_bytes()) + kSumBytes; }

  static const std::byte* row_of(const LinearRun& run, int64_t row) {
    return run.x.data + run.rows.offset(row) * static_cast<int64_t>(size_bytes(DType::kBF16));
  }

  // Where rows are as tiles take them: whole tiles of them, evenly spaced, in lines of the cache.
  bool in_place(const LinearRun& run, Span rows) const {
    return run.rows.every(k_) && run.k == k_ &&
           tiles_read_in_place(row_of(run, rows.begin), rows.end - rows.begin, row_bytes());
  }

  // The rows with length k_, the missing ones of the last tile and the end of each zero.
  void copy_rows(const LinearRun& run, Span rows, std::byte* copy) const {
    const auto bytes = static_cast<size_t>(run.k) * size_bytes(DType::kBF16);
    int64_t r = 0;
    for (; r < rows.end - rows.begin; ++r) {
      std::byte* to = copy + r * copy_step();
      std::memcpy(to, row_of(run, rows.begin + r), bytes);
      std::memset(to + bytes, 0, static_cast<size_t>(row_bytes()) - bytes);
    }
    for (; r % kRowsOfTile != 0; ++r)
      std::memset(copy + r * copy_step(), 0, static_cast<size_t>(row_bytes()));
  }

  void run_block(const LinearRun& run, Span rows, Span panels, std::byte* own) const {
    const bool direct = in_place(run, rows);
    if (!direct) copy_rows(run, rows, own);
    const std::byte* x = direct ? row_of(run, rows.begin) : own;
    const int64_t step = direct ? row_bytes() : copy_step();
    auto* sums = own + round_to_line(copy_bytes());
    const auto panel_at = [this](int64_t panel) {
      return weight_.at(panel * panel_elems(DType::kBF16, k_)).data;
    };
    const int64_t parts = (rows.end - rows.begin + kRowsAtOnce - 1) / kRowsAtOnce;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel) {
      const int64_t col = panel * kPanelCols;
      for (int64_t row = rows.begin; row < rows.end; row += kRowsAtOnce) {
        const int64_t count = std::min(kRowsAtOnce, rows.end - row);
        std::span<const std::byte> next;
        if (panel + 1 < panels.end)
          next = part_of_panel(panel_at(panel + 1), row_bytes() * kPanelCols,
                               (row - rows.begin) / kRowsAtOnce, parts);
        multiply_panel_on_tiles({.operands = TileOperands::kBF16,
                                 .a = x + (row - rows.begin) * step,
                                 .a_step = step,
                                 .rows = count,
                                 .panel = panel_at(panel),
                                 .sums = sums,
                                 .steps = row_bytes() / kTileStepBytes,
                                 .fetch = next});
        EpilogueCall epilogue = run.epilogue(row, col);
        epilogue.src = reinterpret_cast<const float*>(sums);
        epilogue.src_step = kPanelCols;
        epilogue.rows = count;
        epilogue.cols = std::min(kPanelCols, run.n - col);
        linear_epilogue(epilogue);
      }
    }
  }

  FloatsIn weight_;
  int64_t k_;  // of the panels, padding included
};

}  // namespace

std::unique_ptr<LinearState> make_tile_linear(const PackedWeight& weight) {
  if (weight.panels.dtype != DType::kBF16 || !has_tiles()) return nullptr;
  return std::make_unique<TileLinear>(weight);
}

}  // namespace vernier::backend::cpu
