// The table-driven checks of CPU kernels: see harness.h.
#include "backend/cpu/harness.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>

#include "core/elementwise_program.h"
#include "core/evaluator.h"
#include "core/threads.h"

namespace vernier::backend::test {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xa5};
constexpr uint32_t kSignallingNaN = 0x7fa00001u;

// Memory between two guards; starts as signalling NaN.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), storage_((bytes + 2 * kGuard) / 64 + 2) {
    std::fill(base(), base() + bytes + 2 * kGuard, kGuardByte);
    for (size_t i = 0; i < bytes; ++i) {
      data()[i] = reinterpret_cast<const std::byte*>(&kSignallingNaN)[i % 4];
    }
  }
  std::byte* data() { return base() + kGuard; }
  bool intact() {
    const auto good = [](std::byte b) { return b == kGuardByte; };
    return std::all_of(base(), base() + kGuard, good) &&
           std::all_of(data() + bytes_, data() + bytes_ + kGuard, good);
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::byte* base() { return storage_.data()->bytes; }
  size_t bytes_;
  std::vector<Line> storage_;
};

TensorArg dense_arg(DType dtype, const Shape& shape, std::byte* data) {
  TensorArg arg{.data = data, .dtype = dtype, .rank = static_cast<int>(shape.size())};
  const Shape strides = row_major_strides(shape);
  std::copy(shape.begin(), shape.end(), arg.shape.begin());
  std::copy(strides.begin(), strides.end(), arg.strides.begin());
  return arg;
}

// The array with gaps after each row, and twice that between the outermost slices.
TensorArg strided_arg(const Tensor& t, std::vector<Guarded>& keep) {
  const size_t width = size_bytes(t.dtype());
  const int64_t cols = t.shape().back(), rows = cols == 0 ? 0 : t.elems() / cols;
  const int64_t step = cols + 3;
  keep.emplace_back(static_cast<size_t>(rows * step) * width);
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(keep.back().data() + static_cast<size_t>(r * step) * width,
                t.data() + static_cast<size_t>(r * cols) * width,
                static_cast<size_t>(cols) * width);
  }
  TensorArg arg = dense_arg(t.dtype(), t.shape(), keep.back().data());
  int64_t stride = step;
  for (int i = arg.rank - 2; i >= 0; --i) {
    arg.strides[static_cast<size_t>(i)] = stride;
    stride *= arg.shape[static_cast<size_t>(i)];
  }
  return arg;
}

TensorArg input_arg(const Arg& arg, bool strided, std::vector<Guarded>& keep) {
  if (!arg.value.defined()) return {};
  if (strided && arg.value.rank() >= 2) return strided_arg(arg.value, keep);
  keep.emplace_back(arg.value.bytes());
  if (arg.value.bytes() > 0) std::memcpy(keep.back().data(), arg.value.data(), arg.value.bytes());
  return dense_arg(arg.value.dtype(), arg.value.shape(), keep.back().data());
}

SymShape symbolic(const Shape& shape) { return {shape.begin(), shape.end()}; }

Tensor with_element(const Tensor& t, int64_t index, float value) {
  std::vector<std::byte> bytes(t.data(), t.data() + t.bytes());
  store_float(t.dtype(), value, bytes.data() + static_cast<size_t>(index) * size_bytes(t.dtype()));
  return Tensor::from_bytes(t.dtype(), t.shape(), bytes);
}

bool is_16_bits(DType t) { return t == DType::kF16 || t == DType::kBF16; }

// Is `got` a rounding of something within `limit` of `want`? Rounding is monotonic.
bool matches(double got, double want, DType type, double limit) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return round_to(type, want - limit) <= got && got <= round_to(type, want + limit);
}

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

Problem make_problem(const OpCase& c) {
  Problem problem{.op = c.op, .attrs = c.attrs, .inputs = {}, .outputs = {}};
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

Results run_kernel(const KernelDef& kernel, const OpCase& c, const RunOptions& options) {
  const Problem problem = make_problem(c);
  const auto device = cpu_backend().make_device({.threads = options.threads, .ordinal = 0});
  const Execution execution = device->execution();
  std::vector<PackedConstant> packed;
  if (kernel.pack != nullptr) packed = kernel.pack(problem);
  std::vector<ConstantArg> constants;
  for (const PackedConstant& p : packed) constants.push_back({p.input, p.layout, p.bytes});

  std::vector<Guarded> keep;
  keep.reserve(c.inputs.size() + c.outputs.size() + 1);
  std::vector<TensorArg> in, out, constant_inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const bool replaced = std::any_of(packed.begin(), packed.end(), [i](const auto& p) {
      return p.input == static_cast<int>(i);
    });
    const bool strided = options.strided && (kernel.strided_inputs >> i & 1u) != 0;
    in.push_back(replaced ? TensorArg{} : input_arg(c.inputs[i], strided, keep));
    constant_inputs.push_back(c.inputs[i].constant ? in.back() : TensorArg{});
  }
  const size_t first_output = keep.size();
  for (const Out& spec : c.outputs) {
    if (spec.dtype == DType::kUndefined) {
      out.push_back({});
      continue;
    }
    keep.emplace_back(static_cast<size_t>(num_elems(spec.shape)) * size_bytes(spec.dtype));
    out.push_back(dense_arg(spec.dtype, spec.shape, keep.back().data()));
  }

  std::unique_ptr<KernelState> state;
  const Numerics numerics = kernel.numerics(problem);
  if (kernel.create != nullptr)
    state = kernel.create({c.attrs, &numerics, constants, constant_inputs, execution});
  std::unique_ptr<ShapeState> shape;
  if (kernel.prepare != nullptr) shape = kernel.prepare({c.attrs, state.get(), in, out, execution});
  Guarded workspace(shape == nullptr ? 0 : shape->workspace_bytes);
  kernel.launch({c.attrs, state.get(), shape.get(), in, out, workspace.data(), execution});

  EXPECT_TRUE(workspace.intact()) << kernel.name << " wrote outside its workspace: " << c.name;
  Results results;
  for (size_t i = 0, at = first_output; i < c.outputs.size(); ++i) {
    const Out& spec = c.outputs[i];
    if (spec.dtype == DType::kUndefined) {
      results.push_back({});
      continue;
    }
    EXPECT_TRUE(keep[at].intact())
        << kernel.name << " wrote outside output " << i << ": " << c.name;
    const size_t bytes = static_cast<size_t>(num_elems(spec.shape)) * size_bytes(spec.dtype);
    results.push_back(Tensor::from_bytes(spec.dtype, spec.shape, {keep[at].data(), bytes}));
    ++at;
  }
  return results;
}

std::vector<EvalTensor> run_reference(const OpCase& c) {
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
  const Rounding none;
  evaluator(c.op)({.attrs = c.attrs, .in = in, .out = out, .rounding = none});
  return out;
}

std::vector<const KernelDef*> rows_of(const OpCase& c) {
  std::vector<const KernelDef*> rows;
  const Problem problem = make_problem(c);
  for (const KernelDef& kernel : cpu_backend().kernels) {
    if (kernel.op != c.op || kernel.name.ends_with(".evaluator")) continue;
    if (kernel.supports(problem)) rows.push_back(&kernel);
  }
  return rows;
}

std::string compare(const OpCase& c, const Results& got, const std::vector<EvalTensor>& want) {
  for (size_t o = 0; o < got.size(); ++o) {
    if (!got[o].defined()) continue;
    const auto where = [&](int64_t i) {
      return "output " + std::to_string(o) + " element " + std::to_string(i) + " of " +
             str(got[o].shape());
    };
    double largest = 0;
    for (double v : want[o].f)
      largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    for (int64_t i = 0; i < got[o].elems(); ++i) {
      if (!want[o].is_float()) {
        const int64_t a = got[o].integer_at(i), b = want[o].i[static_cast<size_t>(i)];
        if (a != b) return where(i) + ": " + std::to_string(a) + ", expected " + std::to_string(b);
        continue;
      }
      const double a = got[o].float_at(i);
      const double b = want[o].f[static_cast<size_t>(i)];
      const double limit = c.exact ? 0 : c.ulps * 0x1p-24 * std::max(largest, 1e-30);
      if (!matches(a, b, got[o].dtype(), limit)) {
        return where(i) + ": " + std::to_string(a) + ", expected " + std::to_string(b) +
               ", difference " + std::to_string(std::abs(a - b) / (0x1p-24 * largest)) +
               " ulp of the largest";
      }
    }
  }
  return "";
}

std::string compare_bits(const Tensor& a, const Tensor& b) {
  if (a.bytes() != b.bytes()) return "sizes differ: " + str(a.shape()) + " " + str(b.shape());
  const size_t width = size_bytes(a.dtype());
  for (size_t i = 0; i < a.bytes(); i += width) {
    if (std::memcmp(a.data() + i, b.data() + i, width) != 0)
      return "element " + std::to_string(i / width) + " of " + str(a.shape());
  }
  return "";
}

Tensor slice(const Tensor& t, int axis, int64_t index) {
  const auto k = static_cast<size_t>(axis);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < t.rank(); ++i) {
    if (i < k) outer *= t.shape()[i];
    if (i > k) inner *= t.shape()[i];
  }
  const size_t run = static_cast<size_t>(inner) * size_bytes(t.dtype());
  std::vector<std::byte> bytes;
  for (int64_t o = 0; o < outer; ++o) {
    const std::byte* src = t.data() + static_cast<size_t>(o * t.shape()[k] + index) * run;
    bytes.insert(bytes.end(), src, src + run);
  }
  Shape shape = t.shape();
  shape[k] = 1;
  return Tensor::from_bytes(t.dtype(), shape, bytes);
}

std::string best_target() {
  const int64_t supported = hwy::SupportedTargets();
  return hwy::TargetName(supported & -supported);
}

void for_each_target(const std::function<void(const std::string&)>& body) {
  hwy::SetSupportedTargetsForTest(0);
  const int64_t available = hwy::SupportedTargets();
  // What the library is compiled for, worst first; see cpu.cmake.
  for (int64_t target :
       {int64_t{HWY_SCALAR}, int64_t{HWY_NEON}, int64_t{HWY_AVX2}, int64_t{HWY_AVX3}}) {
    if ((available & target) == 0) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

namespace {

// The case with only row `index` of every batched operand.
OpCase row_case(const OpCase& c, int64_t index) {
  OpCase one = c;
  for (Arg& arg : one.inputs) {
    if (arg.value.defined() && arg.batch_axis >= 0)
      arg.value = slice(arg.value, arg.batch_axis, index);
  }
  for (Out& out : one.outputs) {
    if (out.dtype != DType::kUndefined && out.batch_axis >= 0)
      out.shape[static_cast<size_t>(out.batch_axis)] = 1;
  }
  return one;
}

int64_t batch_of(const OpCase& c) {
  for (const Arg& arg : c.inputs) {
    if (arg.value.defined() && arg.batch_axis >= 0)
      return arg.value.shape()[static_cast<size_t>(arg.batch_axis)];
  }
  return 0;
}

void check_rows_alone(const KernelDef& kernel, const OpCase& c, const Results& together) {
  const int64_t batch = batch_of(c);
  if (batch < 2) return;
  for (int64_t r : {int64_t{0}, batch / 2, batch - 1}) {
    const Results alone = run_kernel(kernel, row_case(c, r), {});
    for (size_t o = 0; o < alone.size(); ++o) {
      if (!alone[o].defined() || c.outputs[o].batch_axis < 0) continue;
      EXPECT_EQ(compare_bits(slice(together[o], c.outputs[o].batch_axis, r), alone[o]), "")
          << kernel.name << " " << c.name << ": row " << r << " alone differs from in its batch";
    }
  }
}

// `values`: what stands at the first, middle and last element of each float input in turn. In 16
// bits, where the same code computes, the first of them only, and all in the middle.
void check_special_values(const KernelDef& kernel, const OpCase& c, std::span<const float> values) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor& original = c.inputs[i].value;
    const bool half = is_16_bits(original.dtype());
    if (!c.inputs[i].special || original.elems() == 0) continue;
    if (original.dtype() != DType::kF32 && !half) continue;
    const int64_t middle = original.elems() / 2;
    for (int64_t at : {int64_t{0}, middle, original.elems() - 1}) {
      for (float value : half&& at != middle ? values.first(1) : values) {
        OpCase poisoned = c;
        poisoned.inputs[i].value = with_element(original, at, value);
        const std::string difference =
            compare(poisoned, run_kernel(kernel, poisoned, {}), run_reference(poisoned));
        EXPECT_EQ(difference, "") << kernel.name << " " << c.name << ": input " << i << " element "
                                  << at << " = " << value;
      }
    }
  }
}

bool has_f32(const OpCase& c) {
  return std::ranges::any_of(c.inputs,
                             [](const Arg& a) { return a.value.dtype() == DType::kF32; }) ||
         std::ranges::any_of(c.outputs, [](const Out& o) { return o.dtype == DType::kF32; });
}

void check_stored(const OpCase& c, bool mixed) {
  const std::string best = best_target();
  const std::vector<const KernelDef*> rows = rows_of(c);
  EXPECT_FALSE(rows.empty()) << c.name << " has no row";
  const std::vector<EvalTensor> want = run_reference(c);
  for (const KernelDef* kernel : rows) {
    const DType store = kernel->numerics(make_problem(c)).store;
    if (is_float(c.outputs[0].dtype)) {
      EXPECT_EQ(store, c.outputs[0].dtype) << kernel->name << " " << c.name;
    }
    for_each_target([&](const std::string& target) {
      SCOPED_TRACE(std::string(kernel->name) + " " + c.name + " on " + target);
      const Results one = run_kernel(*kernel, c, {.threads = 1});
      EXPECT_EQ(compare(c, one, want), "");
      if (target != best || mixed) return;
      const Results two = run_kernel(*kernel, c, {.threads = 2});
      const Results strided = run_kernel(*kernel, c, {.threads = 1, .strided = true});
      for (size_t o = 0; o < one.size(); ++o) {
        if (!one[o].defined()) continue;
        EXPECT_EQ(compare_bits(one[o], two[o]), "") << "1 and 2 threads differ, output " << o;
        EXPECT_EQ(compare_bits(one[o], strided[o]), "") << "strided inputs differ, output " << o;
      }
      check_rows_alone(*kernel, c, one);
      // The largest number of f16; f32 holds sums of its squares, not of bf16's largest.
      constexpr std::array<float, 5> kSpecial{NAN, INFINITY, -INFINITY, 65504, -65504};
      check_special_values(*kernel, c, kSpecial);
    });
  }
}

// The same case in 16 bits. A Cast says itself what it gives.
void check_16_bits(const OpCase& c) {
  if (!has_f32(c) || c.op == OpKind::kCast) return;
  constexpr DType kMixed[]{DType::kF16, DType::kBF16, DType::kF32};
  check_stored(stored_as(c, std::array{DType::kF16}), false);
  check_stored(stored_as(c, std::array{DType::kBF16}), false);
  check_stored(stored_as(c, kMixed), true);
}

// The type that a chain gives on the case's inputs.
DType chain_type(const OpCase& c) {
  std::vector<DType> types;
  for (const Arg& arg : c.inputs) types.push_back(arg.value.dtype());
  const std::string text = decode<FusedElementwiseAttrs>(c.attrs).program;
  for (const Instruction& instruction : parse_elementwise_program(text, types.size())) {
    std::vector<DType> operands;
    for (int v : instruction.operands) operands.push_back(types[static_cast<size_t>(v)]);
    types.push_back(result_type(instruction, operands));
  }
  return types.back();
}

}  // namespace

OpCase stored_as(const OpCase& c, std::span<const DType> types) {
  OpCase stored = c;
  size_t next = 0;
  for (Arg& arg : stored.inputs) {
    if (arg.value.dtype() != DType::kF32 || arg.stays_f32) continue;
    std::vector<double> values;
    for (int64_t i = 0; i < arg.value.elems(); ++i) values.push_back(arg.value.float_at(i));
    arg.value = Tensor::from(types[next++ % types.size()], arg.value.shape(),
                             std::span<const double>(values));
    stored.name += " " + std::string(name(arg.value.dtype()));
  }
  for (Out& out : stored.outputs) {
    if (out.dtype != DType::kF32) continue;
    out.dtype = types[next++ % types.size()];
    if (c.op == OpKind::kFusedElementwise) out.dtype = chain_type(stored);
    stored.name += " to " + std::string(name(out.dtype));
  }
  return stored;
}

int check_case(const OpCase& c) {
  const std::string best = best_target();
  const std::vector<const KernelDef*> rows = rows_of(c);
  const std::vector<EvalTensor> want = run_reference(c);
  for (const KernelDef* kernel : rows) {
    for_each_target([&](const std::string& target) {
      SCOPED_TRACE(std::string(kernel->name) + " " + c.name + " on " + target);
      const Results one = run_kernel(*kernel, c, {.threads = 1});
      EXPECT_EQ(compare(c, one, want), "");
      const Results two = run_kernel(*kernel, c, {.threads = 2});
      const Results strided = run_kernel(*kernel, c, {.threads = 1, .strided = true});
      for (size_t o = 0; o < one.size(); ++o) {
        if (!one[o].defined()) continue;
        EXPECT_EQ(compare_bits(one[o], two[o]), "") << "1 and 2 threads differ, output " << o;
        EXPECT_EQ(compare_bits(one[o], strided[o]), "") << "strided inputs differ, output " << o;
      }
      check_rows_alone(*kernel, c, one);
      // Infinities on the best instruction set only: the others differ in how NaN gets lost.
      constexpr std::array<float, 3> kSpecial{NAN, INFINITY, -INFINITY};
      check_special_values(*kernel, c, std::span(kSpecial).first(target == best ? 3 : 1));
    });
  }
  if (!rows.empty()) check_16_bits(c);
  return static_cast<int>(rows.size());
}

}  // namespace vernier::backend::test
