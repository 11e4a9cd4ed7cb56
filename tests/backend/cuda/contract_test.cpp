// The kernel contract on a GPU: one Linear and one LayerNorm, found through the backend's list, run
// through kernel.h with device buffers, a stream and a workspace; against the FP64 evaluators, and
// a row's bits at M = 1 against the same row at M = 4096. Skips, saying why, where there is no GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "backend/cuda/cuda.h"
#include "core/attrs.h"
#include "core/evaluator.h"

namespace vernier::backend {
namespace {

constexpr int64_t kManyRows = 4096;

// Device memory that frees itself.
class Buffer {
 public:
  Buffer(Device& device, size_t bytes)
      : device_(device), data_(device.allocate(std::max<size_t>(bytes, 1))) {}
  ~Buffer() { device_.free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() const { return data_; }

 private:
  Device& device_;
  std::byte* data_;
};

TensorArg arg_of(const Shape& shape, std::byte* data) {
  TensorArg arg{.data = data, .dtype = DType::kF32, .rank = static_cast<int>(shape.size())};
  const Shape strides = row_major_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    arg.shape[i] = shape[i];
    arg.strides[i] = strides[i];
  }
  return arg;
}

Tensor random_tensor(Shape shape, double mean, double deviation, std::mt19937_64& random) {
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  for (double& v : values) v = normal(random);
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}

struct Case {
  OpKind op;
  AttrBytes attrs;
  Tensor x;                       // [rows, cols]
  std::vector<Tensor> constants;  // inputs 1…
  int64_t out_cols;
};

// One kernel of the CUDA list for one case, driven as a session drives it.
class Runner {
 public:
  Runner(Device& device, const Case& c) : device_(device), case_(c) {
    Problem problem;
    problem.op = c.op;
    problem.attrs = c.attrs;
    const Dim rows = Dim::symbol("rows");
    problem.inputs.push_back({true, DType::kF32, {rows, c.x.shape()[1]}, nullptr});
    for (const Tensor& t : c.constants) {
      problem.inputs.push_back(
          {true, DType::kF32, SymShape(t.shape().begin(), t.shape().end()), &t});
    }
    problem.outputs.push_back({true, DType::kF32, {rows, c.out_cols}, nullptr});
    for (const KernelDef& row : cuda_backend().kernels) {
      if (row.op == c.op && row.supports(problem)) kernel_ = &row;
    }
    constant_args_.push_back({});
    for (const Tensor& t : c.constants) {
      uploads_.push_back(std::make_unique<Buffer>(device, t.bytes()));
      device.copy_to_device(uploads_.back()->data(), t.data(), t.bytes(), execution_.stream);
      constant_args_.push_back(arg_of(t.shape(), uploads_.back()->data()));
    }
    if (kernel_ && kernel_->create) {
      state_ = kernel_->create({c.attrs, nullptr, {}, constant_args_, execution_});
    }
  }
  bool found() const { return kernel_ != nullptr; }

  // The output for rows [first, first + rows) of x, poisoned with NaN before the run.
  std::vector<float> run(int64_t first, int64_t rows) {
    const int64_t cols = case_.x.shape()[1];
    const auto count = static_cast<size_t>(rows * case_.out_cols);
    Buffer x(device_, static_cast<size_t>(rows * cols) * 4), y(device_, count * 4);
    device_.copy_to_device(x.data(), case_.x.data() + first * cols * 4,
                           static_cast<size_t>(rows * cols) * 4, execution_.stream);
    std::vector<float> result(count, std::nanf(""));
    device_.copy_to_device(y.data(), reinterpret_cast<const std::byte*>(result.data()), count * 4,
                           execution_.stream);
    std::vector<TensorArg> in = constant_args_;
    in[0] = arg_of({rows, cols}, x.data());
    const std::vector<TensorArg> out{arg_of({rows, case_.out_cols}, y.data())};
    std::unique_ptr<ShapeState> shape;
    if (kernel_->prepare)
      shape = kernel_->prepare({case_.attrs, state_.get(), in, out, execution_});
    Buffer workspace(device_, shape ? shape->workspace_bytes : 0);
    kernel_->launch(
        {case_.attrs, state_.get(), shape.get(), in, out, workspace.data(), execution_});
    device_.copy_to_host(reinterpret_cast<std::byte*>(result.data()), y.data(), count * 4,
                         execution_.stream);
    device_.synchronise(execution_.stream);
    return result;
  }

 private:
  Device& device_;
  const Case& case_;
  Execution execution_ = device_.execution();
  const KernelDef* kernel_ = nullptr;
  std::vector<std::unique_ptr<Buffer>> uploads_;
  std::vector<TensorArg> constant_args_;
  std::unique_ptr<KernelState> state_;
};

// The FP64 meaning of the first `rows` rows.
EvalTensor evaluate(const Case& c, int64_t rows) {
  std::vector<EvalTensor> inputs;
  inputs.push_back(EvalTensor::from(c.x));
  for (const Tensor& t : c.constants) inputs.push_back(EvalTensor::from(t));
  inputs[0].shape[0] = rows;
  inputs[0].f.resize(static_cast<size_t>(inputs[0].elems()));
  std::vector<const EvalTensor*> in;
  for (const EvalTensor& t : inputs) in.push_back(&t);
  std::vector<EvalTensor> out{EvalTensor(DType::kF32, {rows, c.out_cols})};
  evaluator(c.op)({c.attrs, in, out, Rounding{}});
  return out[0];
}

// `tolerance` is relative to 1 + |reference|. Prints what it saw: worst error and equal rows.
void expect_right_and_row_invariant(const Case& c, double tolerance, const std::string& label) {
  const auto device = cuda_backend().make_device({});
  Runner runner(*device, c);
  ASSERT_TRUE(runner.found()) << label;
  const std::vector<float> many = runner.run(0, kManyRows);
  constexpr int64_t kCheckedRows = 64;
  const EvalTensor expected = evaluate(c, kCheckedRows);
  double worst = 0;
  for (size_t i = 0; i < expected.f.size(); ++i) {
    const double error = std::abs(many[i] - expected.f[i]) / (1 + std::abs(expected.f[i]));
    ASSERT_FALSE(std::isnan(many[i])) << label << ": NaN at element " << i;
    worst = std::max(worst, error);
  }
  EXPECT_LE(worst, tolerance) << label;
  int equal = 0, compared = 0;
  for (int64_t rows : {1, 2, 3, 17, 128, 1000}) {
    for (int64_t first : {int64_t{0}, int64_t{5}, kManyRows - rows}) {
      const std::vector<float> alone = runner.run(first, rows);
      ++compared;
      equal += std::memcmp(alone.data(), many.data() + first * c.out_cols, alone.size() * 4) == 0;
    }
  }
  EXPECT_EQ(equal, compared) << label << ": bits of a row changed with M";
  std::printf("%-40s worst error %.2e (limit %.0e), same bits as at M=%lld: %d/%d\n", label.c_str(),
              worst, tolerance, static_cast<long long>(kManyRows), equal, compared);
}

class CudaContract : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const Support here = cuda_available(); !here) GTEST_SKIP() << "SKIP: " << here.reason;
    const uint64_t seed = std::random_device{}();
    random_.seed(seed);
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  }
  std::mt19937_64 random_;
};

TEST_F(CudaContract, LinearIsRightAndItsRowsDoNotDependOnM) {
  for (auto [k, n] :
       {std::pair<int64_t, int64_t>{768, 3072}, {3072, 768}, {1024, 1024}, {96, 100}, {65, 33}}) {
    for (bool bias : {false, true}) {
      Case c{.op = OpKind::kLinear,
             .attrs = encode(LinearAttrs{}),
             .x = random_tensor({kManyRows, k}, 0, 1, random_),
             .constants = {},
             .out_cols = n};
      c.constants.push_back(
          random_tensor({k, n}, 0, 1 / std::sqrt(static_cast<double>(k)), random_));
      if (bias) c.constants.push_back(random_tensor({n}, 0, 1, random_));
      // A sequential f32 sum takes k roundings of at most 2^-24 of a partial sum that stays below 5
      // (unit deviation, 2·10^5 elements): a random walk of 5·2^-24·sqrt(k), rounded down to 4.
      const double tolerance = 0x1p-22 * std::sqrt(static_cast<double>(k));
      expect_right_and_row_invariant(
          c, tolerance,
          "Linear K=" + std::to_string(k) + " N=" + std::to_string(n) + (bias ? " bias" : ""));
    }
  }
}

TEST_F(CudaContract, LayerNormIsRightAndItsRowsDoNotDependOnM) {
  for (int64_t cols : {1, 33, 768, 1024, 8192, 9001}) {
    for (double mean : {0.0, 300.0}) {
      Case c{.op = OpKind::kLayerNorm,
             .attrs = encode(NormAttrs{}),
             .x = random_tensor({kManyRows, cols}, mean, 1, random_),
             .constants = {},
             .out_cols = cols};
      c.constants.push_back(random_tensor({cols}, 1, 0.1, random_));
      c.constants.push_back(random_tensor({cols}, 0, 0.1, random_));
      // The mean in f32 is off by up to |mean|·eps·log2(cols); the result by that much.
      const double tolerance = 1e-5 + 0x1p-23 * 16 * mean;
      expect_right_and_row_invariant(c, tolerance,
                                     "LayerNorm cols=" + std::to_string(cols) +
                                         " mean=" + std::to_string(static_cast<int>(mean)));
    }
  }
}

TEST_F(CudaContract, TooMuchMemoryIsAnErrorThatSaysHowMuch) {
  const auto device = cuda_backend().make_device({});
  try {
    device->allocate(size_t{1} << 50);
    FAIL() << "2^50 bytes were allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMachine);
    EXPECT_NE(std::string(error.what()).find("needed 1125899906842624 bytes"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace vernier::backend
