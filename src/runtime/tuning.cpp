// Steps handed to their kernels' tune(): see tuning.h.
#include "runtime/tuning.h"

#include <memory>

#include "runtime/device_weights.h"
#include "runtime/joined_steps.h"

namespace vernier::runtime {
namespace {

// The largest size of every symbol, where there is most to gain.
std::map<std::string, int64_t> largest_sizes(const plan::Plan& plan) {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan.symbols) sizes[symbol.name] = symbol.max;
  plan.add_bounds(sizes);
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

  /// `next`: a step that the launch does too, or null.
  std::string tune(const plan::Step& step, const plan::Step* next,
                   const backend::KernelDef& kernel) {
    const backend::OnDevice here(*device_);
    std::vector<backend::TensorArg> in = arguments(step.inputs), out = arguments(step.outputs),
                                    constant_inputs(step.inputs.size()), next_in, next_out;
    if (next != nullptr) {
      next_in = arguments(next->inputs);
      next_out = arguments(next->outputs);
    }
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
    return kernel.tune({{step.attrs, &step.numerics, constants, constant_inputs, execution_},
                        in,
                        out,
                        *device_,
                        next_in,
                        next_out});
  }

 private:
  std::vector<backend::TensorArg> arguments(std::span<const int32_t> values) const {
    std::vector<backend::TensorArg> all;
    for (const int32_t value : values) all.push_back(argument(value));
    return all;
  }
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

/// A plan's steps as tuning sees them.
class Steps {
 public:
  Steps(const plan::Plan& plan, const backend::Backend& backend) : plan_(plan) {
    for (const plan::Step& step : plan.steps)
      kernels_.push_back(backend::find_kernel(backend, step.kernel));
  }
  /// Null where there is nothing to tune.
  const backend::KernelDef* kernel(size_t s) const {
    return kernels_[s] != nullptr && kernels_[s]->tune != nullptr ? kernels_[s] : nullptr;
  }
  /// The step that the launch of `s` does too, and whose operand is written nowhere else; or null.
  const plan::Step* next(size_t s) const {
    return joins_next(plan_, s, kernels_) == Joins::kAlone ? &plan_.steps[s + 1] : nullptr;
  }
  std::string key(size_t s) const {
    const plan::Step* behind = next(s);
    return problem_key(plan_, plan_.steps[s]) +
           (behind == nullptr ? "" : " then " + problem_key(plan_, *behind));
  }

 private:
  const plan::Plan& plan_;
  std::vector<const backend::KernelDef*> kernels_;
};

// By key, the step with the most elements in its first input: a record holds what was timed for so
// many rows, and fewer.
std::map<std::string, size_t> largest_of_each(const plan::Plan& plan, const Steps& steps) {
  const std::map<std::string, int64_t> sizes = largest_sizes(plan);
  const auto elems = [&](const plan::Step& step) {
    double count = 1;
    if (!step.has_input(0)) return count;
    for (const Dim& d : plan.value(step.inputs[0]).shape)
      count *= static_cast<double>(d.evaluate(sizes));
    return count;
  };
  std::map<std::string, size_t> found;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (steps.kernel(s) == nullptr) continue;
    size_t& best = found.try_emplace(steps.key(s), s).first->second;
    if (elems(plan.steps[s]) > elems(plan.steps[best])) best = s;
  }
  return found;
}

}  // namespace

int tune_plan(plan::Plan& plan, const backend::Backend& backend, TuningRecord& record,
              const std::function<void(const std::string&)>& progress) {
  std::unique_ptr<Tuner> tuner;
  int timed = 0;
  const Steps steps(plan, backend);
  const std::map<std::string, size_t> largest = largest_of_each(plan, steps);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const backend::KernelDef* kernel = steps.kernel(s);
    if (kernel == nullptr) continue;
    const std::string key = steps.key(s);
    auto known = record.find(key);
    if (known == record.end()) {
      if (backend.available && !backend.available()) continue;
      if (progress) progress(key);
      if (!tuner) tuner = std::make_unique<Tuner>(plan, backend);
      const size_t at = largest.at(key);
      known = record.emplace(key, tuner->tune(plan.steps[at], steps.next(at), *kernel)).first;
      ++timed;
    }
    plan.steps[s].tuning = known->second;
  }
  return timed;
}

}  // namespace vernier::runtime
