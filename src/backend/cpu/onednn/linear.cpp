// cpu.linear.onednn_brg: the product of a linear layer through oneDNN 2.x `matmul`, the only file
// that knows its API. Contract: kernels/linear.h; reasons:
// docs/decisions/0008-linear-on-onednn-brgemm.md.
//
// A row's bits must depend on neither M nor the threads. In oneDNN that holds for `matmul` with a
// fixed M whose implementation is "brg:…", so rows are cut into chunks of 256, 128, 64, 32 or 16
// and at the end one of 16, 8, 4, 2 or 1 (padded) and columns into tiles of at most 512; each
// (chunk, tile) size is one primitive, run by one of our threads on its own static part of the
// grid. K is never split. Where this machine has no such primitive the step runs on our own kernel,
// same packed weight.
#include "backend/cpu/kernels/linear.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>

namespace vernier::backend::cpu {
namespace {

constexpr std::array<int64_t, 9> kLadder{256, 128, 64, 32, 16, 8, 4, 2, 1};
constexpr int64_t kRowUnit = 16;  // threads get multiples of this; only the last rows are fewer
// A chunk of 256 × 512 results (512 KiB) is in the second-level cache when the epilogue reads it.
constexpr int64_t kTileCols = 512;

// Primitives made and run under this use the calling thread only; our pool has the threads.
class SingleThreaded {
 public:
  SingleThreaded() : saved_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThreaded() { omp_set_num_threads(saved_); }
  SingleThreaded(const SingleThreaded&) = delete;
  SingleThreaded& operator=(const SingleThreaded&) = delete;

 private:
  int saved_;
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

dnnl::memory::desc row_major(int64_t rows, int64_t cols) {
  return {{rows, cols}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
}

// Throws dnnl::error where this machine has no implementation at all.
dnnl::matmul::primitive_desc describe(int64_t m, int64_t k, int64_t cols) {
  // Our panels, [cols / 64][k][64]; k % 16 == 0 (supports), so the tag has no padding along k.
  const dnnl::memory::desc weight({k, cols}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::BA16a64b);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(row_major(m, k), weight, row_major(m, cols)), attr, engine()};
}

bool is_brg(const dnnl::matmul::primitive_desc& description) {
  return std::string_view(description.impl_info_str()).substr(0, 4) == "brg:";
}

// The next chunk when `left` rows remain: the largest that fits, at the end the smallest that
// covers.
int64_t chunk_of(int64_t left) {
  for (size_t i = 0; i + 1 < kLadder.size(); ++i) {
    if (kLadder[i] <= left && left >= kRowUnit) return kLadder[i];
    if (left < kRowUnit && kLadder[i] >= left && kLadder[i + 1] < left) return kLadder[i];
  }
  return kLadder.back();
}

// The widths of the tiles that columns [64·begin, 64·end) are cut into.
int64_t tile_width(int64_t col, int64_t end_col) { return std::min(kTileCols, end_col - col); }

Support machine_supports(int64_t k, int64_t n) {
  if (k % 16 != 0) return no("K is not a multiple of 16");
  if (n < kPanelCols) return no("N is below 64");
  const SingleThreaded single;
  try {
    for (int64_t m : kLadder) {
      // Every width a thread may get is a multiple of 64 up to 512; brg takes all or none of them.
      for (int64_t cols : {kPanelCols, kTileCols}) {
        const auto description = describe(m, k, cols);
        if (!is_brg(description)) {
          return no("oneDNN would run it as " + std::string(description.impl_info_str()) +
                    ", whose row bits depend on the batch");
        }
      }
    }
  } catch (const dnnl::error& e) {
    return no(std::string("oneDNN: ") + e.what());
  }
  return yes();
}

// A primitive and, per thread, the memory objects that its calls set pointers in.
struct Primitive {
  struct Arguments {
    dnnl::memory src, weight, dst, scratch;
  };
  dnnl::matmul run;
  size_t scratch_bytes = 0;
  std::vector<Arguments> per_worker;

  Primitive(int64_t m, int64_t k, int64_t cols, int workers) {
    const auto description = describe(m, k, cols);
    VERNIER_ASSERT(is_brg(description), description.impl_info_str());
    run = dnnl::matmul(description);
    scratch_bytes = description.scratchpad_desc().get_size();
    for (int i = 0; i < workers; ++i) {
      const auto memory = [](const dnnl::memory::desc& desc) {
        return dnnl::memory(desc, engine(), DNNL_MEMORY_NONE);
      };
      per_worker.push_back({memory(description.src_desc()), memory(description.weights_desc()),
                            memory(description.dst_desc()), memory(description.scratchpad_desc())});
    }
  }
};

struct PointerSet {
  const float* src;
  const float* weight;
  float* dst;
  std::byte* scratch;
};

void execute(const Primitive& primitive, int worker, const dnnl::stream& stream,
             const PointerSet& pointers) {
  const auto& args = primitive.per_worker[static_cast<size_t>(worker)];
  // oneDNN takes inputs as void*; it does not write to src or weight.
  dnnl_memory_set_data_handle(args.src.get(), const_cast<float*>(pointers.src));
  dnnl_memory_set_data_handle(args.weight.get(), const_cast<float*>(pointers.weight));
  dnnl_memory_set_data_handle(args.dst.get(), pointers.dst);
  dnnl_memory_set_data_handle(args.scratch.get(), pointers.scratch);
  const std::array<dnnl_exec_arg_t, 4> list{{{DNNL_ARG_SRC, args.src.get()},
                                             {DNNL_ARG_WEIGHTS, args.weight.get()},
                                             {DNNL_ARG_DST, args.dst.get()},
                                             {DNNL_ARG_SCRATCHPAD, args.scratch.get()}}};
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.run.get(), stream.get(), 4, list.data());
  VERNIER_ASSERT(status == dnnl_success, "oneDNN matmul failed");
}

// One chunk of rows × one tile of columns.
struct Job {
  const Primitive* primitive;
  int64_t row, rows;  // rows <= chunk
  int64_t chunk;
  int64_t col, cols;  // cols: multiple of 64, may pass N
};

struct BrgShape final : ShapeState {
  std::vector<std::vector<Job>> per_worker;
  size_t worker_bytes = 0, tile_offset = 0, scratch_offset = 0;
};

class BrgLinear final : public LinearState {
 public:
  BrgLinear(const float* packed, int workers) : packed_(packed) {
    for (int i = 0; i < workers; ++i) streams_.emplace_back(engine());
  }

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) override {
    const SingleThreaded single;
    const int64_t m = elems_between(call.in[0], 0, call.in[0].rank - 1);
    const int64_t k = call.in[0].dim(-1), panels = num_panels(call.out[0].dim(-1));
    const int64_t units = (m + kRowUnit - 1) / kRowUnit;
    const int threads = call.execution.threads->size();
    const Grid grid = choose_grid({.threads = threads,
                                   .row_units = units,
                                   .col_units = panels,
                                   .row_unit_bytes = 4.0 * static_cast<double>(k * kRowUnit),
                                   .col_unit_bytes = 4.0 * static_cast<double>(k * kPanelCols)});
    auto shape = std::make_unique<BrgShape>();
    shape->per_worker.resize(static_cast<size_t>(threads));
    size_t scratch = 0;
    for (int part = 0; part < grid.rows * grid.cols; ++part) {
      const Span rows = share(units, part / grid.cols, grid.rows);
      const Span cols = share(panels, part % grid.cols, grid.cols);
      auto& jobs = shape->per_worker[static_cast<size_t>(part)];
      add_jobs(jobs, {rows.begin * kRowUnit, std::min(m, rows.end * kRowUnit)},
               {cols.begin * kPanelCols, cols.end * kPanelCols}, k, threads);
      for (const Job& job : jobs) scratch = std::max(scratch, job.primitive->scratch_bytes);
    }
    const auto floats = [](int64_t count) {
      return round_to_line(static_cast<size_t>(count) * sizeof(float));
    };
    const int64_t chunk = std::min(kLadder[0], std::max<int64_t>(units, 1) * kRowUnit);
    shape->tile_offset = floats(chunk * k);
    shape->scratch_offset = shape->tile_offset + floats(chunk * kTileCols);
    shape->worker_bytes = shape->scratch_offset + round_to_line(scratch);
    shape->workspace_bytes = shape->worker_bytes * static_cast<size_t>(threads);
    return shape;
  }

  void launch(const LaunchCall& call) const override {
    const LinearRun run(call);
    const auto& shape = static_cast<const BrgShape&>(*call.shape_state);
    const auto count = static_cast<int64_t>(shape.per_worker.size());
    call.execution.threads->parallel_for(count, 1, [&](int64_t begin, int64_t end, int worker) {
      const SingleThreaded single;
      std::byte* workspace = call.workspace + static_cast<size_t>(worker) * shape.worker_bytes;
      for (int64_t part = begin; part < end; ++part) {
        for (const Job& job : shape.per_worker[static_cast<size_t>(part)])
          run_job(run, job, shape, workspace, worker);
      }
    });
  }

 private:
  void add_jobs(std::vector<Job>& jobs, Span rows, Span cols, int64_t k, int workers) {
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t left = rows.end - row;
      const int64_t chunk = chunk_of(left);
      for (int64_t col = cols.begin; col < cols.end; col += kTileCols) {
        const int64_t width = tile_width(col, cols.end);
        jobs.push_back({.primitive = &primitive(chunk, k, width, workers),
                        .row = row,
                        .rows = std::min(chunk, left),
                        .chunk = chunk,
                        .col = col,
                        .cols = width});
      }
      row += chunk;
    }
  }

  const Primitive& primitive(int64_t m, int64_t k, int64_t cols, int workers) {
    return primitives_.try_emplace({m, cols}, m, k, cols, workers).first->second;
  }

  void run_job(const LinearRun& run, const Job& job, const BrgShape& shape, std::byte* workspace,
               int worker) const {
    auto* tile = reinterpret_cast<float*>(workspace + shape.tile_offset);
    const float* src = run.x + run.rows.offset(job.row);
    if (!run.rows.every(run.k) || job.rows < job.chunk) {
      // Each row chunk is copied once per tile; only tails and strided inputs come here.
      auto* copy = reinterpret_cast<float*>(workspace);
      const auto row_bytes = static_cast<size_t>(run.k) * sizeof(float);
      for (int64_t r = 0; r < job.rows; ++r)
        std::memcpy(copy + r * run.k, run.x + run.rows.offset(job.row + r), row_bytes);
      std::fill(copy + job.rows * run.k, copy + job.chunk * run.k, 0.0f);
      src = copy;
    }
    execute(*job.primitive, worker, streams_[static_cast<size_t>(worker)],
            {.src = src,
             .weight = packed_ + job.col * run.k,
             .dst = tile,
             .scratch = workspace + shape.scratch_offset});
    EpilogueCall epilogue = run.epilogue(job.row, job.col);
    epilogue.src = tile;
    epilogue.src_step = job.cols;
    epilogue.rows = job.rows;
    epilogue.cols = std::min(job.cols, run.n - job.col);
    linear_epilogue(epilogue);
  }

  const float* packed_;
  std::vector<dnnl::stream> streams_;
  std::map<std::pair<int64_t, int64_t>, Primitive> primitives_;  // by rows and columns; stable
};

// K and N from the layout text, "panels64 f32 K=768 N=3072".
std::pair<int64_t, int64_t> layout_sizes(std::string_view layout) {
  const auto number = [layout](std::string_view key) {
    const size_t at = layout.find(key);
    VERNIER_ASSERT(at != std::string_view::npos, std::string(layout));
    return std::stoll(std::string(layout.substr(at + key.size())));
  };
  return {number("K="), number("N=")};
}

std::unique_ptr<KernelState> create(const CreateCall& call) {
  const float* packed = packed_weight(call);
  for (const ConstantArg& constant : call.constants) {
    if (constant.input != 1) continue;
    const auto [k, n] = layout_sizes(constant.layout);
    if (machine_supports(k, n))
      return std::make_unique<BrgLinear>(packed, call.execution.threads->size());
  }
  return make_highway_linear(packed);
}

Support supports(const Problem& problem) {
  Support packed = supports_packed_linear(problem);
  if (!packed) return packed;
  const WeightShape w = weight_shape(problem);
  return machine_supports(w.k, w.n);
}

}  // namespace

extern const KernelBody linear_onednn;
constexpr KernelBody linear_onednn{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .pack = &pack_linear,
    .unpack = &unpack_linear,
    .layout_is_current = &linear_layout_is_current,
    .create = &create,
    .prepare = &prepare_linear,
    .launch = &launch_linear,
};

}  // namespace vernier::backend::cpu
