// cpu.linear.onednn_brg, and the product of cpu.linear.onednn_bf16: a linear layer through `matmul`
// of oneDNN 2.x. The only file that uses its API. Contract: kernels/linear/linear.h; reasons:
// docs/decisions/0008-linear-on-onednn-brgemm.md.
//
// A row's bits must depend on neither M nor the threads. In oneDNN that holds for `matmul` with a
// fixed M whose implementation is "brg:…". So rows are divided into chunks of 256, 128, 64, 32 or
// 16 and a last one of 16, 8, 4, 2 or 1 (padded), and columns into tiles of at most 512. Each
// (chunk, tile) size is one primitive; one thread runs it for each part of the grid. K is never
// split. If this machine has no such primitive, the step runs on Vernier's kernel with the same
// packed weight. bf16 products are exact and summed in f32; subnormal operands count as zero (a
// rule of the instruction).
#include "backend/cpu/kernels/linear/linear.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>

#include "backend/cpu/onednn/version.h"
#include "core/fork.h"

namespace vernier::backend::cpu {
namespace {

constexpr std::array<int64_t, 9> kLadder{256, 128, 64, 32, 16, 8, 4, 2, 1};
constexpr int64_t kRowUnit = 16;  // threads get multiples of this; only the last rows are fewer
// A chunk of 256 × 512 results (512 KiB) stays in the second-level cache until the epilogue.
constexpr int64_t kTileCols = 512;

// oneDNN 2.6 does not check its allocations for code and objects, and crashes if they fail. So the
// memory is checked before.
void require_room() {
  constexpr size_t kRoom = size_t{4} << 20;  // several times the size of a primitive
  void* room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  munmap(room, kRoom);
}

// Primitives created and run in its scope use the calling thread only: Vernier's pool runs the
// parts. OpenMP keeps the number per thread, so a worker sets it for each part.
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
  static const dnnl::engine cpu = [] {
    onednn::leave_out_tiles();
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

// One product: x [m, k] and w [k, cols] of `type` to f32 [m, cols].
struct Sizes {
  DType type;
  int64_t m, k, cols;
};

dnnl::memory::data_type data_type(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

// Throws dnnl::error if this machine has no implementation.
dnnl::matmul::primitive_desc describe(const Sizes& s) {
  using dnnl::memory;
  // gemm.h's panels; k is a multiple of 16 (f32) or 32 (bf16), so the tags have no padding along k.
  const auto tag =
      s.type == DType::kBF16 ? memory::format_tag::BA16a64b2a : memory::format_tag::BA16a64b;
  const memory::desc x({s.m, s.k}, data_type(s.type), memory::format_tag::ab);
  const memory::desc weight({s.k, s.cols}, data_type(s.type), tag);
  const memory::desc y({s.m, s.cols}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return {dnnl::matmul::desc(x, weight, y), attr, engine()};
}

// brg, and for bf16 only on an instruction set with bf16 products: others add in another order.
bool is_brg(const dnnl::matmul::primitive_desc& description, DType type) {
  const std::string_view name = description.impl_info_str();
  if (!name.starts_with("brg:")) return false;
  if (name.find("amx") != std::string_view::npos) return false;
  return type == DType::kF32 || name.find("bf16") != std::string_view::npos;
}

// The next chunk for `left` remaining rows: the largest that fits, at the end the smallest that
// covers them.
int64_t chunk_of(int64_t left) {
  for (size_t i = 0; i + 1 < kLadder.size(); ++i) {
    if (kLadder[i] <= left && left >= kRowUnit) return kLadder[i];
    if (left < kRowUnit && kLadder[i] >= left && kLadder[i + 1] < left) return kLadder[i];
  }
  return kLadder.back();
}

// The widths of the tiles that columns [64·begin, 64·end) are cut into.
int64_t tile_width(int64_t col, int64_t end_col) { return std::min(kTileCols, end_col - col); }

Support ask_machine(DType type, int64_t k) {
  require_room();
  const SingleThreaded single;
  try {
    for (int64_t m : kLadder) {
      // Every width a thread may get is a multiple of 64 up to 512; brg takes all or none of them.
      for (int64_t cols : {kPanelCols, kTileCols}) {
        const auto description = describe({type, m, k, cols});
        if (!is_brg(description, type)) {
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
// The answer depends only on the machine, takes milliseconds, and is needed for every layer when a
// model is planned and when an engine is opened.
Support machine_supports(DType type, int64_t k) {
  constexpr size_t kMaxAnswers = 4096;
  const std::lock_guard lock(fork_mutex());
  static std::map<std::pair<DType, int64_t>, Support> answers;
  if (const auto known = answers.find({type, k}); known != answers.end()) return known->second;
  const Support answer = ask_machine(type, k);
  if (answers.size() < kMaxAnswers) answers.emplace(std::pair(type, k), answer);
  return answer;
}
// f32 panels have no padded rows, and a product padded from few columns to 64 costs more than ours.
Support f32_supports(const WeightShape& w) {
  if (w.k % 16 != 0) return no("K is not a multiple of 16");
  if (w.n < kPanelCols) return no("N is below 64");
  return machine_supports(DType::kF32, w.k);
}

// A primitive and, per part, the memory objects that its calls set pointers in.
struct Primitive {
  struct Arguments {
    dnnl::memory src, weight, dst, scratch;
  };
  dnnl::matmul run;
  size_t scratch_bytes = 0;
  std::vector<Arguments> per_part;

  // oneDNN's cache belongs to the process: after a fork a child must not wait for an entry that
  // only its parent would have finished.
  Primitive(const Sizes& sizes, int parts) {
    const std::lock_guard lock(fork_mutex());
    require_room();
    const auto description = describe(sizes);
    VERNIER_ASSERT(is_brg(description, sizes.type), description.impl_info_str());
    run = dnnl::matmul(description);
    scratch_bytes = description.scratchpad_desc().get_size();
    for (int i = 0; i < parts; ++i) {
      const auto memory = [](const dnnl::memory::desc& desc) {
        return dnnl::memory(desc, engine(), DNNL_MEMORY_NONE);
      };
      per_part.push_back({memory(description.src_desc()), memory(description.weights_desc()),
                          memory(description.dst_desc()), memory(description.scratchpad_desc())});
    }
  }
};

struct PointerSet {
  const std::byte* src;
  const std::byte* weight;
  float* dst;
  std::byte* scratch;
};

void execute(const Primitive& primitive, int part, const dnnl::stream& stream,
             const PointerSet& pointers) {
  const auto& args = primitive.per_part[part];
  // oneDNN takes inputs as void*; it does not write to src or weight.
  dnnl_memory_set_data_handle(args.src.get(), const_cast<std::byte*>(pointers.src));
  dnnl_memory_set_data_handle(args.weight.get(), const_cast<std::byte*>(pointers.weight));
  dnnl_memory_set_data_handle(args.dst.get(), pointers.dst);
  dnnl_memory_set_data_handle(args.scratch.get(), pointers.scratch);
  const std::array<dnnl_exec_arg_t, 4> list{{{DNNL_ARG_SRC, args.src.get()},
                                             {DNNL_ARG_WEIGHTS, args.weight.get()},
                                             {DNNL_ARG_DST, args.dst.get()},
                                             {DNNL_ARG_SCRATCHPAD, args.scratch.get()}}};
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive.run.get(), stream.get(), 4, list.data());
  if (status == dnnl_out_of_memory) throw std::bad_alloc();
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
  std::vector<std::vector<Job>> per_part;
  size_t part_bytes = 0, tile_offset = 0, scratch_offset = 0;
};

class BrgLinear final : public LinearState {
 public:
  BrgLinear(const PackedWeight& weight, int parts)
      : weight_(weight.panels), k_(panel_rows(weight.panels.dtype, weight.shape.k)) {
    require_room();
    const std::lock_guard lock(fork_mutex());
    for (int i = 0; i < parts; ++i) streams_.emplace_back(engine());
  }

  std::unique_ptr<ShapeState> prepare(const PrepareCall& call) override {
    const SingleThreaded single;
    const int64_t m = elems_between(call.in[0], 0, call.in[0].rank - 1);
    const int64_t panels = num_panels(call.out[0].dim(-1));
    const int64_t units = (m + kRowUnit - 1) / kRowUnit;
    const int threads = call.execution.threads->size();
    const double k_bytes = static_cast<double>(k_) * static_cast<double>(weight_.elem_bytes());
    const Grid grid = choose_grid({.threads = threads_worth(threads, m, call.out[0].dim(-1), k_),
                                   .row_units = units,
                                   .col_units = panels,
                                   .row_unit_bytes = k_bytes * kRowUnit,
                                   .col_unit_bytes = k_bytes * kPanelCols});
    auto shape = std::make_unique<BrgShape>();
    shape->per_part.resize(grid.rows * grid.cols);
    size_t scratch = 0;
    for (int part = 0; part < grid.rows * grid.cols; ++part) {
      const Span rows = share(units, part / grid.cols, grid.rows);
      const Span cols = share(panels, part % grid.cols, grid.cols);
      auto& jobs = shape->per_part[part];
      add_jobs(jobs, {rows.begin * kRowUnit, std::min(m, rows.end * kRowUnit)},
               {cols.begin * kPanelCols, cols.end * kPanelCols}, threads);
      for (const Job& job : jobs) scratch = std::max(scratch, job.primitive->scratch_bytes);
    }
    const auto array = [](int64_t count, size_t width) {
      return round_to_line(static_cast<size_t>(count) * width);
    };
    const int64_t chunk = std::min(kLadder[0], std::max<int64_t>(units, 1) * kRowUnit);
    shape->tile_offset = array(chunk * k_, weight_.elem_bytes());
    shape->scratch_offset = shape->tile_offset + array(chunk * kTileCols, sizeof(float));
    shape->part_bytes = shape->scratch_offset + round_to_line(scratch);
    shape->workspace_bytes = shape->part_bytes * static_cast<size_t>(threads);
    return shape;
  }

  void launch(const LaunchCall& call) const override {
    const LinearRun run(call);
    const auto& shape = static_cast<const BrgShape&>(*call.shape_state);
    const auto count = static_cast<int64_t>(shape.per_part.size());
    // The grid has as many cells as parts, so both have the same index.
    call.execution.threads->parallel_for(count, 1, [&](int64_t begin, int64_t end, int part) {
      const SingleThreaded single;
      std::byte* workspace = call.workspace + static_cast<size_t>(part) * shape.part_bytes;
      for (int64_t cell = begin; cell < end; ++cell) {
        for (const Job& job : shape.per_part[cell]) run_job(run, job, shape, workspace, part);
      }
    });
  }

 private:
  void add_jobs(std::vector<Job>& jobs, Span rows, Span cols, int parts) {
    for (int64_t row = rows.begin; row < rows.end;) {
      const int64_t left = rows.end - row;
      const int64_t chunk = chunk_of(left);
      for (int64_t col = cols.begin; col < cols.end; col += kTileCols) {
        const int64_t width = tile_width(col, cols.end);
        jobs.push_back({.primitive = &primitive(chunk, width, parts),
                        .row = row,
                        .rows = std::min(chunk, left),
                        .chunk = chunk,
                        .col = col,
                        .cols = width});
      }
      row += chunk;
    }
  }

  const Primitive& primitive(int64_t m, int64_t cols, int parts) {
    const Sizes sizes{weight_.dtype, m, k_, cols};
    return primitives_.try_emplace({m, cols}, sizes, parts).first->second;
  }

  // The chunk's rows contiguous with length k_, missing rows and columns zero. Only for tails,
  // strided inputs and a padded K, once per tile.
  const std::byte* copy_chunk(const LinearRun& run, const Job& job, std::byte* copy) const {
    const auto width = static_cast<int64_t>(run.x.elem_bytes());
    for (int64_t r = 0; r < job.rows; ++r) {
      std::byte* row = copy + r * k_ * width;
      std::memcpy(row, run.x.at(run.rows.offset(job.row + r)).data,
                  static_cast<size_t>(run.k * width));
      std::fill(row + run.k * width, row + k_ * width, std::byte{0});
    }
    std::fill(copy + job.rows * k_ * width, copy + job.chunk * k_ * width, std::byte{0});
    return copy;
  }

  void run_job(const LinearRun& run, const Job& job, const BrgShape& shape, std::byte* workspace,
               int part) const {
    auto* tile = reinterpret_cast<float*>(workspace + shape.tile_offset);
    const bool in_place = run.rows.every(k_) && run.k == k_ && job.rows == job.chunk;
    execute(*job.primitive, part, streams_[part],
            {.src = in_place ? run.x.at(run.rows.offset(job.row)).data
                             : copy_chunk(run, job, workspace),
             .weight = weight_.at(job.col * k_).data,
             .dst = tile,
             .scratch = workspace + shape.scratch_offset});
    EpilogueCall epilogue = run.epilogue(job.row, job.col);
    epilogue.src = tile;
    epilogue.src_step = job.cols;
    epilogue.rows = job.rows;
    epilogue.cols = std::min(job.cols, run.n - job.col);
    linear_epilogue(epilogue);
  }

  FloatsIn weight_;
  int64_t k_;  // of the panels, padding included
  std::vector<dnnl::stream> streams_;
  std::map<std::pair<int64_t, int64_t>, Primitive> primitives_;  // by rows and columns; stable
};

Support supports(const Problem& problem) {
  Support packed = supports_packed_linear(problem);
  return packed ? f32_supports(weight_shape(problem)) : packed;
}

}  // namespace

std::unique_ptr<LinearState> make_onednn_linear(const PackedWeight& weight, int parts) {
  const DType type = weight.panels.dtype;
  const Support support = type == DType::kF32
                              ? f32_supports(weight.shape)
                              : machine_supports(type, panel_rows(type, weight.shape.k));
  if (!support) return nullptr;
  return std::make_unique<BrgLinear>(weight, parts);
}

extern const KernelBody linear_onednn;
constexpr KernelBody linear_onednn{
    .supports = &supports,
    .numerics = &f32_numerics,
    .strided_inputs = 1,
    .pack = &pack_linear,
    .unpack = &unpack_linear,
    .packed_layouts = &linear_layouts,
    .create = [](const CreateCall& call) -> std::unique_ptr<KernelState> {
      return make_linear(packed_weight(call, DType::kF32), call.execution.threads->size());
    },
    .prepare = &prepare_linear,
    .launch = &launch_linear,
    .variants = kRowVariants,
};

}  // namespace vernier::backend::cpu
