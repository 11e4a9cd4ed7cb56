// Steps handed to their kernels' tune(): see tuning.h.
#include "runtime/tuning.h"

#include <memory>

#include "runtime/device_weights.h"

namespace vernier::runtime {
namespace {

// The largest size of every symbol, where there is most to gain.
std::map<std::string, int64_t> largest_sizes(const plan::Plan& plan) {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan.symbols) sizes[symbol.name] = symbol.max;
  plan.add_token_bounds(sizes);
  return sizes;
}

backend::TensorArg dense(DType dtype, const Shape& shape) {
  backend::TensorArg arg{.data = nullptr, .dtype = dtype, .rank = static_cast<int>(shape.size())};
  const Shape strides = row_major_strides(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    arg.shape[i] = shape[i];
    arg.strides[i] = strides[i];
  }
  return arg;
}

class Tuner {
 public:
  Tuner(const plan::Plan& plan, const backend::Backend& backend)
      : plan_(plan),
        weights_(backend, plan),
        device_(backend.make_device({})),
        execution_(device_->execution()),
        sizes_(largest_sizes(plan)) {}

  std::string tune(const plan::Step& step, const backend::KernelDef& kernel) {
    const backend::OnDevice here(*device_);
    std::vector<backend::TensorArg> in, out, constant_inputs(step.inputs.size());
    for (int32_t value : step.inputs) in.push_back(argument(value));
    for (int32_t value : step.outputs) out.push_back(argument(value));
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i].data) constant_inputs[i] = in[i];
    }
    std::vector<backend::ConstantArg> constants;
    for (const plan::PackedInput& packed : step.packed) {
      const plan::Blob& blob = plan_.blob(packed.blob);
      constants.push_back(
          {packed.input, blob.layout, {weights_.blob(packed.blob), blob.bytes.bytes()}});
      constant_inputs[packed.at()] = dense(blob.dtype, blob.shape);
      in[packed.at()] = dense(blob.dtype, blob.shape);
    }
    return kernel.tune(
        {{step.attrs, &step.numerics, constants, constant_inputs, execution_}, in, out, *device_});
  }

 private:
  backend::TensorArg argument(int32_t index) const {
    if (index == plan::kNone) return {};
    const plan::PlanValue& value = plan_.value(index);
    Shape shape;
    for (const Dim& d : value.shape) shape.push_back(d.evaluate(sizes_));
    backend::TensorArg arg = dense(value.dtype, shape);
    for (size_t d = 0; d < value.strides.size(); ++d)
      arg.strides[d] = value.strides[d].evaluate(sizes_);
    if (value.kind == plan::PlanValue::Kind::kConstant) arg.data = weights_.blob(value.constant);
    return arg;
  }

  const plan::Plan& plan_;
  DeviceWeights weights_;
  std::unique_ptr<backend::Device> device_;
  backend::Execution execution_;
  std::map<std::string, int64_t> sizes_;
};

}  // namespace

std::string problem_key(const plan::Plan& plan, const plan::Step& step) {
  std::string key = step.kernel;
  const auto add_value = [&](int32_t index) {
    if (index == plan::kNone) return;
    const plan::PlanValue& value = plan.value(index);
    key.append(" ").append(name(value.dtype));
    if (value.kind == plan::PlanValue::Kind::kConstant) key += str(value.shape);
  };
  for (int32_t value : step.inputs) add_value(value);
  for (const plan::PackedInput& packed : step.packed) {
    const plan::Blob& blob = plan.blob(packed.blob);
    key.append(" ").append(name(blob.dtype)).append(str(blob.shape));
  }
  key += " ->";
  for (int32_t value : step.outputs) add_value(value);
  if (!step.attrs.empty()) {
    constexpr char kDigits[] = "0123456789abcdef";
    key += " attributes ";
    for (const auto byte : step.attrs) {
      const auto number = static_cast<unsigned>(byte);
      key += kDigits[number / 16 % 16];
      key += kDigits[number % 16];
    }
  }
  return key;
}

namespace {

// By key, the step with the most elements in its first input: a record holds what was timed for so
// many rows, and fewer.
std::map<std::string, const plan::Step*> largest_of_each(const plan::Plan& plan,
                                                         const backend::Backend& backend) {
  const std::map<std::string, int64_t> sizes = largest_sizes(plan);
  const auto elems = [&](const plan::Step& step) {
    double count = 1;
    if (!step.has_input(0)) return count;
    for (const Dim& d : plan.value(step.inputs[0]).shape)
      count *= static_cast<double>(d.evaluate(sizes));
    return count;
  };
  std::map<std::string, const plan::Step*> found;
  for (const plan::Step& step : plan.steps) {
    const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
    if (!kernel || !kernel->tune) continue;
    const plan::Step*& best = found[problem_key(plan, step)];
    if (!best || elems(step) > elems(*best)) best = &step;
  }
  return found;
}

}  // namespace

int tune_plan(plan::Plan& plan, const backend::Backend& backend, TuningRecord& record,
              const std::function<void(const std::string&)>& progress) {
  std::unique_ptr<Tuner> tuner;
  int timed = 0;
  const std::map<std::string, const plan::Step*> largest = largest_of_each(plan, backend);
  for (plan::Step& step : plan.steps) {
    const backend::KernelDef* kernel = backend::find_kernel(backend, step.kernel);
    if (!kernel || !kernel->tune) continue;
    const std::string key = problem_key(plan, step);
    auto known = record.find(key);
    if (known == record.end()) {
      if (backend.available && !backend.available()) continue;
      if (progress) progress(key);
      if (!tuner) tuner = std::make_unique<Tuner>(plan, backend);
      known = record.emplace(key, tuner->tune(*largest.at(key), *kernel)).first;
      ++timed;
    }
    step.tuning = known->second;
  }
  return timed;
}

}  // namespace vernier::runtime
