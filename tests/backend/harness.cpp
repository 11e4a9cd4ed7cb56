// Runs a kernel row on one case: memory with guards on the device, the life of a kernel from pack
// to launch, the FP64 reference. What is checked of the results: check.cpp. Contract: harness.h.
#include "backend/harness.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backend/device_under_test.h"
#include "core/evaluator.h"

namespace vernier::backend::test {
namespace {

constexpr std::byte kGuardByte{0xa5};
constexpr uint32_t kSignalingNaN = 0x7fa00001u;

// Device memory for all arrays of a run, kept and reused: allocations cost more than the runs.
std::byte* kept_allocation(Device& device, size_t slot, size_t bytes) {
  struct Kept {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };
  static std::array<Kept, 2> all;
  Kept& kept = all[slot];
  if (kept.bytes < bytes) {
    if (kept.data != nullptr) device.free(kept.data);
    kept = {nullptr, 0};
    kept = {device.allocate(2 * bytes), 2 * bytes};
  }
  return kept.data;
}

enum class Kind : uint8_t { kInput, kOutput, kWorkspace };

// Arrays on the device, each between two guards, with their contents before and after on the host.
// Life: add() and fill host(), place(), the run, download().
class Arrays {
 public:
  Arrays(DeviceUnderTest& tested, Device& device, size_t slot)
      : tested_(tested),
        device_(device),
        slot_(slot),
        stream_(device.execution().stream),
        guard_(tested.bare() ? 0 : device.alignment()) {}
  ~Arrays() {
    if (tested_.one_allocation()) return;
    for (const Array& array : arrays_) {
      if (array.device != nullptr) device_.free(array.device);
    }
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  /// Its contents are signaling NaN. It starts `late` bytes after an aligned address.
  size_t add(Kind kind, size_t bytes, size_t late = 0) {
    const size_t begin = image_.size(), data = begin + guard_ + late;
    const size_t unit = device_.alignment();
    const size_t end = (data + bytes + guard_ + unit) / unit * unit;
    image_.resize(end, kGuardByte);
    for (size_t i = 0; i < bytes; ++i)
      image_[data + i] = reinterpret_cast<const std::byte*>(&kSignalingNaN)[i % 4];
    arrays_.push_back({kind, begin, data, bytes, tested_.bare() ? data + bytes : end, nullptr});
    return arrays_.size() - 1;
  }
  /// Valid until the next add().
  std::byte* host(size_t i) { return image_.data() + arrays_[i].data; }
  std::byte* on_device(size_t i) const {
    return arrays_[i].device + (arrays_[i].data - arrays_[i].begin);
  }

  void place() {
    if (image_.empty()) return;
    std::byte* all =
        tested_.one_allocation() ? kept_allocation(device_, slot_, image_.size()) : nullptr;
    for (Array& array : arrays_)
      array.device = all != nullptr
                         ? all + array.begin
                         : device_.allocate(std::max<size_t>(array.end - array.begin, 1));
    seen_.resize(image_.size());
    upload();
  }
  void upload() {
    each_part([this](const Array& part) {
      if (tested_.bare() && part.kind != Kind::kInput) return;
      device_.copy_to_device(part.device, image_.data() + part.begin, part.end - part.begin,
                             stream_);
    });
  }
  void download() {
    each_part([this](const Array& part) {
      if (tested_.bare() && part.kind == Kind::kWorkspace) return;
      device_.copy_to_host(seen_.data() + part.begin, part.device, part.end - part.begin, stream_);
    });
    device_.synchronise(stream_);
  }

  const std::byte* seen(size_t i) const { return seen_.data() + arrays_[i].data; }
  /// Nothing around it changed; of an input nothing at all.
  bool intact(size_t i) const {
    const Array& array = arrays_[i];
    if (tested_.bare()) return true;
    if (array.kind == Kind::kInput) return same(array.begin, array.end);
    return same(array.begin, array.data) && same(array.data + array.bytes, array.end);
  }

 private:
  struct Array {
    Kind kind;
    size_t begin, data, bytes, end;  // in the image
    std::byte* device;               // of begin
  };
  template <class Body>
  void each_part(const Body& body) {
    if (arrays_.empty()) return;
    if (tested_.one_allocation()) {
      body(Array{Kind::kInput, 0, 0, 0, image_.size(), arrays_[0].device});
      return;
    }
    for (const Array& array : arrays_) body(array);
  }
  bool same(size_t begin, size_t end) const {
    return begin == end ||
           std::memcmp(image_.data() + begin, seen_.data() + begin, end - begin) == 0;
  }

  DeviceUnderTest& tested_;
  Device& device_;
  size_t slot_;
  void* stream_;
  size_t guard_;
  std::vector<std::byte> image_, seen_;
  std::vector<Array> arrays_;
};

// An array that has no address yet.
struct Placed {
  TensorArg arg = {};
  size_t array = 0;
  bool present = false;
  int64_t offset = 0;  // elements
};

// The array with gaps after each row.
Placed add_strided(Arrays& arrays, const Tensor& t, size_t address_unit) {
  const size_t width = size_bytes(t.dtype());
  const int64_t cols = t.shape().back(), rows = cols == 0 ? 0 : t.elems() / cols;
  const auto unit = static_cast<int64_t>(address_unit);
  const int64_t step = unit == 1 ? cols + 3 : (cols / unit + 2) * unit;
  Placed placed{dense_arg(t.dtype(), t.shape()),
                arrays.add(Kind::kInput, static_cast<size_t>(rows * step) * width,
                           std::max(width, address_unit)),
                true};
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(arrays.host(placed.array) + static_cast<size_t>(r * step) * width,
                t.data() + static_cast<size_t>(r * cols) * width,
                static_cast<size_t>(cols) * width);
  }
  int64_t stride = step;
  for (int i = placed.arg.rank - 2; i >= 0; --i) {
    placed.arg.strides[static_cast<size_t>(i)] = stride;
    stride *= placed.arg.shape[static_cast<size_t>(i)];
  }
  return placed;
}

// `late`: where it begins after an aligned address, at least one element; 0: there.
Placed add_input(Arrays& arrays, const Tensor& t, bool gaps, size_t late) {
  if (!t.defined()) return {};
  if (gaps && t.rank() >= 2) return add_strided(arrays, t, late);
  Placed placed{
      dense_arg(t.dtype(), t.shape()),
      arrays.add(Kind::kInput, t.bytes(), late > 0 ? std::max(size_bytes(t.dtype()), late) : 0),
      true};
  if (t.bytes() > 0) std::memcpy(arrays.host(placed.array), t.data(), t.bytes());
  return placed;
}

// Everything a launch is given.
struct Operands {
  std::vector<Placed> in, out;
  std::vector<size_t> packed;  // arrays of the packed constants
  std::vector<TensorArg> args(const Arrays& arrays, const std::vector<Placed>& from) const {
    std::vector<TensorArg> list;
    for (const Placed& placed : from) {
      list.push_back(placed.arg);
      if (placed.present)
        list.back().data = arrays.on_device(placed.array) +
                           placed.offset * static_cast<int64_t>(size_bytes(placed.arg.dtype));
    }
    return list;
  }
};

Operands add_operands(Arrays& arrays, const KernelDef& kernel, const OpCase& c,
                      std::span<const PackedConstant> packed, const RunOptions& options) {
  Operands operands;
  const bool moved = options.strided || options.odd_inputs;
  const size_t late = options.odd_inputs ? 1 : moved ? device_under_test().address_unit() : 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& value = c.inputs[i].value;
    const bool replaced = std::ranges::any_of(
        packed, [i](const PackedConstant& p) { return p.input == static_cast<int>(i); });
    const bool gaps = moved && (kernel.strided_inputs >> i & 1u) != 0;
    // One value at two inputs is one array, as in an engine.
    const auto end = c.inputs.begin() + static_cast<std::ptrdiff_t>(i);
    const auto same = std::find_if(c.inputs.begin(), end, [&value](const Arg& arg) {
      return value.defined() && value.bytes() > 0 && arg.value.data() == value.data();
    });
    const auto first = static_cast<size_t>(same - c.inputs.begin());
    if (same != end && operands.in[first].present && !replaced &&
        gaps == (moved && (kernel.strided_inputs >> first & 1u) != 0)) {
      operands.in.push_back(operands.in[first]);
      continue;
    }
    // A packed input has its type and shape, but its bytes are the state's.
    operands.in.push_back(replaced ? Placed{.arg = dense_arg(value.dtype(), value.shape())}
                                   : add_input(arrays, value, gaps, late));
  }
  for (const PackedConstant& p : packed) {
    operands.packed.push_back(arrays.add(Kind::kInput, p.bytes.size()));
    if (!p.bytes.empty())
      std::memcpy(arrays.host(operands.packed.back()), p.bytes.data(), p.bytes.size());
  }
  for (const Out& out : c.outputs) {
    if (out.dtype == DType::kUndefined) {
      operands.out.push_back({});
      continue;
    }
    const size_t bytes = static_cast<size_t>(num_elems(out.shape)) * size_bytes(out.dtype);
    operands.out.push_back(
        {dense_arg(out.dtype, out.shape), arrays.add(Kind::kOutput, bytes), true});
  }
  return operands;
}

Results results_of(const KernelDef& kernel, const OpCase& c, const Arrays& arrays,
                   const Operands& operands) {
  for (size_t i = 0; i < operands.in.size(); ++i) {
    EXPECT_TRUE(!operands.in[i].present || arrays.intact(operands.in[i].array))
        << kernel.name << " wrote to input " << i << " or beside it: " << c.name;
  }
  Results results;
  for (size_t i = 0; i < operands.out.size(); ++i) {
    const Placed& out = operands.out[i];
    if (!out.present) {
      results.push_back({});
      continue;
    }
    EXPECT_TRUE(arrays.intact(out.array))
        << kernel.name << " wrote outside output " << i << ": " << c.name;
    const Shape& shape = c.outputs[i].shape;
    const size_t bytes = static_cast<size_t>(num_elems(shape)) * size_bytes(out.arg.dtype);
    results.push_back(Tensor::from_bytes(out.arg.dtype, shape, {arrays.seen(out.array), bytes}));
  }
  return results;
}

SymShape symbolic(const Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

Tensor Maker::normal(Shape shape, double mean, double sigma) {
  std::normal_distribution<double> distribution(mean, sigma);
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  for (double& v : values) v = distribution(random_);
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}
Tensor Maker::integers(DType dtype, Shape shape, int64_t low, int64_t high) {
  std::uniform_int_distribution<int64_t> distribution(low, high);
  std::vector<int64_t> values(static_cast<size_t>(num_elems(shape)));
  for (int64_t& v : values) v = distribution(random_);
  return Tensor::from(dtype, std::move(shape), std::span<const int64_t>(values));
}

TensorArg dense_arg(DType dtype, const Shape& shape) {
  TensorArg arg{.data = nullptr, .dtype = dtype, .rank = static_cast<int>(shape.size())};
  const Shape strides = row_major_strides(shape);
  std::copy(shape.begin(), shape.end(), arg.shape.begin());
  std::copy(strides.begin(), strides.end(), arg.strides.begin());
  return arg;
}

Problem make_problem(const OpCase& c) {
  Problem problem{.op = c.op, .attrs = c.attrs, .inputs = {}, .outputs = {}, .asked = c.asked};
  for (const Arg& arg : c.inputs) {
    problem.inputs.push_back({.present = arg.value.defined(),
                              .dtype = arg.value.dtype(),
                              .shape = symbolic(arg.value.shape()),
                              .constant = arg.constant ? &arg.value : nullptr});
  }
  for (const Out& out : c.outputs) {
    problem.outputs.push_back({.present = out.dtype != DType::kUndefined,
                               .dtype = out.dtype,
                               .shape = symbolic(out.shape),
                               .constant = nullptr});
  }
  return problem;
}

namespace {

// A kernel on a case, from pack to the call of launch. Life: the constructor adds its arrays; once
// they are placed prepare() makes the states; once the workspaces are placed too, call().
class PreparedStep {
 public:
  PreparedStep(const KernelDef& kernel, const OpCase& c, Arrays& arrays, const RunOptions& options)
      : kernel_(kernel), case_(c), options_(options), problem_(make_problem(c)) {
    if (kernel.pack != nullptr) packed_ = kernel.pack(problem_);
    operands_ = add_operands(arrays, kernel, c, packed_, options);
  }
  /// Its input 0 is the other's output 0, in the shape that this case has.
  void read_result_of(const PreparedStep& other) {
    operands_.in[0].array = other.operands_.out[0].array;
    operands_.in[0].present = true;
  }
  void read_heads_of(const PreparedStep& other, const HeadsOfFirst& heads) {
    Placed view = heads.of_result ? other.operands_.out[0] : other.operands_.in[0];
    TensorArg& arg = view.arg;
    view.offset = heads.first * arg.strides[1];
    std::swap(arg.strides[1], arg.strides[2]);
    arg.shape = operands_.in[heads.input].arg.shape;
    operands_.in[heads.input] = view;
  }

  void prepare(const Arrays& arrays, Arrays& scratch, const Execution& execution) {
    in_ = operands_.args(arrays, operands_.in);
    out_ = operands_.args(arrays, operands_.out);
    std::vector<TensorArg> constant_inputs = in_;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (!case_.inputs[i].constant) constant_inputs[i] = {};
    }
    std::vector<ConstantArg> constants;
    for (size_t i = 0; i < packed_.size(); ++i)
      constants.push_back({packed_[i].input,
                           packed_[i].layout,
                           {arrays.on_device(operands_.packed[i]), packed_[i].bytes.size()}});
    const Numerics numerics = kernel_.numerics(problem_);
    if (kernel_.create != nullptr)
      state_ = kernel_.create(
          {case_.attrs, &numerics, constants, constant_inputs, execution, options_.tuning});
    if (kernel_.prepare != nullptr)
      shape_ = kernel_.prepare({case_.attrs, state_.get(), in_, out_, execution});
    workspace_ = scratch.add(Kind::kWorkspace, shape_ == nullptr ? 0 : shape_->workspace_bytes);
  }
  LaunchCall call(const Arrays& scratch, const Execution& execution) const {
    return {case_.attrs, state_.get(),      shape_.get(), in_, out_, scratch.on_device(workspace_),
            execution,   options_.backwards};
  }
  Results results(const Arrays& arrays, const Arrays& scratch) const {
    EXPECT_TRUE(scratch.intact(workspace_))
        << kernel_.name << " wrote outside its workspace: " << case_.name;
    return results_of(kernel_, case_, arrays, operands_);
  }

 private:
  const KernelDef& kernel_;
  const OpCase& case_;
  RunOptions options_;
  Problem problem_;
  std::vector<PackedConstant> packed_;
  Operands operands_;
  std::vector<TensorArg> in_, out_;
  std::unique_ptr<KernelState> state_;
  std::unique_ptr<ShapeState> shape_;
  size_t workspace_ = 0;
};

}  // namespace

Results run_kernel(const KernelDef& kernel, const OpCase& c, const RunOptions& options) {
  DeviceUnderTest& tested = device_under_test();
  Device& device = tested.device(options.threads);
  const Execution execution = device.execution();
  Arrays arrays(tested, device, 0), scratch(tested, device, 1);
  PreparedStep step(kernel, c, arrays, options);
  arrays.place();
  step.prepare(arrays, scratch, execution);
  scratch.place();
  const LaunchCall call = step.call(scratch, execution);
  tested.launch(
      options.way, execution, [&] { kernel.launch(call); },
      [&] {
        arrays.upload();
        scratch.upload();
      });
  arrays.download();
  scratch.download();
  return step.results(arrays, scratch);
}

PairResults run_pair(const PairOfSteps& pair, Together together, const RunOptions& options) {
  DeviceUnderTest& tested = device_under_test();
  Device& device = tested.device(options.threads);
  const Execution execution = device.execution();
  Arrays arrays(tested, device, 0), scratch(tested, device, 1);
  PreparedStep first(pair.kernel, pair.first, arrays, options);
  PreparedStep second(pair.next_kernel, pair.second, arrays, options);
  for (const HeadsOfFirst& heads : pair.heads) second.read_heads_of(first, heads);
  if (pair.heads.empty()) second.read_result_of(first);
  arrays.place();
  first.prepare(arrays, scratch, execution);
  second.prepare(arrays, scratch, execution);
  scratch.place();
  LaunchCall call = first.call(scratch, execution);
  const LaunchCall next = second.call(scratch, execution);
  if (together != Together::kNo) call.next = &next;
  call.result_unused = together == Together::kUnused;
  tested.launch(
      options.way, execution,
      [&] {
        pair.kernel.launch(call);
        if (together == Together::kNo) pair.next_kernel.launch(next);
      },
      [&] {
        arrays.upload();
        scratch.upload();
      });
  arrays.download();
  scratch.download();
  return {first.results(arrays, scratch), second.results(arrays, scratch)};
}

std::vector<EvalTensor> run_reference(const OpCase& c, const Rounding& rounding) {
  std::vector<EvalTensor> inputs(c.inputs.size()), out;
  std::vector<const EvalTensor*> in(c.inputs.size(), nullptr);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].value.defined()) continue;
    inputs[i] = EvalTensor::from(c.inputs[i].value);
    in[i] = &inputs[i];
  }
  for (const Out& spec : c.outputs) {
    if (spec.dtype == DType::kUndefined)
      out.push_back({});
    else
      out.push_back({spec.dtype, spec.shape});
  }
  evaluator(c.op)({.attrs = c.attrs, .in = in, .out = out, .rounding = rounding});
  return out;
}

std::vector<const KernelDef*> rows_of(const OpCase& c) {
  std::vector<const KernelDef*> rows;
  const Problem problem = make_problem(c);
  for (const KernelDef& kernel : device_under_test().backend().kernels) {
    if (kernel.op != c.op || kernel.name.ends_with(".evaluator")) continue;
    if (backend::supports(kernel, problem) && satisfies(kernel.numerics(problem), c.asked))
      rows.push_back(&kernel);
  }
  return rows;
}

}  // namespace vernier::backend::test
