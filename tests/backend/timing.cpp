// Timing of kernel rows: see timing.h.
#include "backend/timing.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <thread>

#include "backend/device_memory.h"
#include "backend/device_under_test.h"
#include "rules/rules.h"

namespace vernier::backend::test {
namespace {

std::vector<std::vector<TimedCase> (*)()>& lists() {
  static std::vector<std::vector<TimedCase> (*)()> all;
  return all;
}

double bytes_of(const OpCase& c) {
  double bytes = 0;
  for (const Arg& arg : c.inputs)
    bytes += arg.value.defined() ? static_cast<double>(arg.value.bytes()) : 0;
  for (const Out& out : c.outputs) {
    if (out.dtype != DType::kUndefined)
      bytes +=
          static_cast<double>(num_elems(out.shape)) * static_cast<double>(size_bytes(out.dtype));
  }
  return bytes;
}

double flops_of(const OpCase& c) {
  std::vector<Shape> in, out;
  std::vector<DType> in_types, out_types;
  for (const Arg& arg : c.inputs) {
    in.push_back(arg.value.defined() ? arg.value.shape() : Shape{});
    in_types.push_back(arg.value.dtype());
  }
  for (const Out& o : c.outputs) {
    out.push_back(o.shape);
    out_types.push_back(o.dtype);
  }
  return rules::cost(c.op, {c.attrs, in, out, in_types, out_types}).flops;
}

// A case on the device: its arrays, and the kernel's states for them.
class Placed {
 public:
  struct Options {
    bool tunes = false;            ///< asks the kernel for its tuning
    const Placed* like = nullptr;  ///< of the same case: arrays and tuning are taken from it
  };
  Placed(Device& device, const KernelDef& kernel, const OpCase& c,
         std::span<const PackedConstant> packed, const Options& options)
      : device_(device), kernel_(kernel), attrs_(c.attrs), like_(options.like) {
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const Tensor& value = c.inputs[i].value;
      in_.push_back(value.defined() ? dense_arg(value.dtype(), value.shape()) : TensorArg{});
      const bool replaced = std::ranges::any_of(
          packed, [i](const PackedConstant& p) { return p.input == static_cast<int>(i); });
      if (value.defined() && !replaced) in_[i].data = add({value.data(), value.bytes()});
    }
    std::vector<ConstantArg> constants;
    for (const PackedConstant& p : packed)
      constants.push_back({p.input, p.layout, {add(p.bytes), p.bytes.size()}});
    for (const Out& out : c.outputs) {
      out_.emplace_back();
      if (out.dtype == DType::kUndefined) continue;
      out_.back() = dense_arg(out.dtype, out.shape);
      memory_.push_back(std::make_unique<DeviceMemory>(
          device, static_cast<size_t>(out_.back().elems()) * size_bytes(out.dtype)));
      out_.back().data = memory_.back()->data();
    }
    device.synchronise(device.execution().stream);
    make_states(c, constants, options.tunes);
  }

  void launch(const Execution& execution) const {
    kernel_.launch(
        {attrs_, state_.get(), shape_.get(), in_, out_, memory_.back()->data(), execution});
  }

 private:
  std::byte* add(std::span<const std::byte> contents) {
    memory_.push_back(std::make_unique<DeviceMemory>(device_, contents.size()));
    std::byte* data = memory_.back()->data();
    void* stream = device_.execution().stream;
    if (contents.empty()) return data;
    if (like_ != nullptr) {
      const std::byte* its = like_->memory_[memory_.size() - 1]->data();
      device_.copy_on_device(data, its, contents.size(), stream);
    } else {
      device_.copy_to_device(data, contents.data(), contents.size(), stream);
    }
    return data;
  }
  void make_states(const OpCase& c, std::span<const ConstantArg> constants, bool tunes) {
    std::vector<TensorArg> constant_inputs = in_;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (!c.inputs[i].constant) constant_inputs[i] = {};
    }
    const Execution execution = device_.execution();
    const Numerics numerics = kernel_.numerics(make_problem(c));
    CreateCall create{attrs_, &numerics, constants, constant_inputs, execution};
    if (like_ != nullptr) {
      tuning_ = like_->tuning_;
    } else if (tunes && kernel_.tune != nullptr) {
      tuning_ = kernel_.tune({create, in_, out_, device_});
    }
    create.tuning = tuning_;
    if (kernel_.create != nullptr) state_ = kernel_.create(create);
    if (kernel_.prepare != nullptr)
      shape_ = kernel_.prepare({attrs_, state_.get(), in_, out_, execution});
    memory_.push_back(
        std::make_unique<DeviceMemory>(device_, shape_ == nullptr ? 0 : shape_->workspace_bytes));
  }

  Device& device_;
  const KernelDef& kernel_;
  AttrView attrs_;
  const Placed* like_;
  std::vector<std::unique_ptr<DeviceMemory>> memory_;  // inputs, packed, outputs, workspace
  std::vector<TensorArg> in_, out_;
  std::string tuning_;
  std::unique_ptr<KernelState> state_;
  std::unique_ptr<ShapeState> shape_;
};

using Work = std::function<void(const Execution&)>;

double once_ms(Device& device, const std::function<void(void* stream)>& work) {
  void* stream = device.execution().stream;
  const auto first = device.mark(stream);
  work(stream);
  const auto last = device.mark(stream);
  device.synchronise(stream);
  return device.milliseconds_between(*first, *last);
}

// Of `launches` that `work` does at a time.
Times time_work(Device& device, const Work& work, int launches, const TimingOptions& options) {
  constexpr int kWarmUps = 3;
  const std::unique_ptr<Recording> recording = device.record(work);
  std::vector<double> us;
  for (int round = -kWarmUps; round < options.replays; ++round) {
    if (options.rest_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(options.rest_ms));
    const double ms = once_ms(device, [&](void* stream) {
      if (recording != nullptr)
        recording->replay(stream);
      else
        work(device.execution());
    });
    if (round >= 0) us.push_back(ms * 1e3 / launches);
  }
  std::ranges::sort(us);
  const auto at = [&us](size_t tenths) { return us[(us.size() - 1) * tenths / 10]; };
  return {at(5), at(1), at(9)};
}

// TB/s read and written by a copy on the device.
double copy_rate(Device& device, const TimingOptions& options) {
  const DeviceMemory from(device, options.copy_bytes), to(device, options.copy_bytes);
  const Work copy = [&](const Execution& on) {
    device.copy_on_device(to.data(), from.data(), options.copy_bytes, on.stream);
  };
  return 2e-6 * static_cast<double>(options.copy_bytes) /
         time_work(device, copy, 1, options).median;
}

struct Line {
  std::string name, kernel, check;
  Times us;
  double tflops = 0, tbytes = 0, of_copy = 0;
};

void print(const Line& line) {
  std::printf("%-44s %-26s %9.2f %9.2f %9.2f %8.2f %6.2f %5.2f  %s\n", line.name.c_str(),
              line.kernel.c_str(), line.us.median, line.us.p10, line.us.p90, line.tflops,
              line.tbytes, line.of_copy, line.check.c_str());
  std::fflush(stdout);
}

// Names hold nothing that JSON escapes.
bool write_json(const std::string& file, const std::vector<Line>& lines) {
  std::FILE* out = std::fopen(file.c_str(), "w");
  if (out == nullptr) {
    std::fprintf(stderr, "'%s' cannot be written: %s\n", file.c_str(), std::strerror(errno));
    return false;
  }
  std::fprintf(out, "[");
  for (const Line& line : lines) {
    std::fprintf(out,
                 "%s\n{\"case\": \"%s\", \"kernel\": \"%s\", \"us\": %.3f, \"p10\": %.3f, "
                 "\"p90\": %.3f, \"tflops\": %.3f, \"of_copy\": %.3f, \"check\": \"%s\"}",
                 &line == lines.data() ? "" : ",", line.name.c_str(), line.kernel.c_str(),
                 line.us.median, line.us.p10, line.us.p90, line.tflops, line.of_copy,
                 line.check.c_str());
  }
  std::fprintf(out, "\n]\n");
  return std::fclose(out) == 0;
}

bool is_wanted(const TimedCase& c, const TimingOptions& options) {
  return options.parts.empty() || std::ranges::any_of(options.parts, [&c](const std::string& part) {
           return c.name.find(part) != std::string::npos;
         });
}

// Checked and timed; `check` is "right", "not compared" or "WRONG".
Line time_row(const KernelDef& kernel, const TimedCase& timed, const OpCase& c, double copy,
              const TimingOptions& options) {
  Line line{.name = timed.name, .kernel = std::string(kernel.name), .check = "right", .us = {}};
  bool compared = true;
  const std::string difference = compare_sample(kernel, c, run_kernel(kernel, c, {}), &compared);
  if (!compared) line.check = "not compared";
  if (!difference.empty()) {
    line.check = "WRONG";
    std::printf("WRONG: %s %s: %s\n", line.kernel.c_str(), line.name.c_str(), difference.c_str());
  }
  line.us = time_kernel(kernel, c, options);
  line.tflops = 1e-6 * flops_of(c) / line.us.median;
  line.tbytes = 1e-6 * (timed.bytes > 0 ? timed.bytes : bytes_of(c)) / line.us.median;
  line.of_copy = line.tbytes / copy;
  return line;
}

}  // namespace

TimedCases::TimedCases(std::vector<TimedCase> (*list)()) { lists().push_back(list); }

std::vector<TimedCase> timed_cases() {
  std::vector<TimedCase> all;
  for (const auto list : lists()) {
    for (TimedCase& c : list()) all.push_back(std::move(c));
  }
  return all;
}

Times time_kernel(const KernelDef& kernel, const OpCase& c, const TimingOptions& options) {
  constexpr double kColdBytes = 400e6;  // several times what a GPU's second-level cache holds
  constexpr double kMostSets = 100, kReplayUs = 2000, kMostLaunches = 200;
  Device& device = device_under_test().device(1);
  std::vector<PackedConstant> packed;
  if (kernel.pack != nullptr) packed = kernel.pack(make_problem(c));
  std::vector<std::unique_ptr<Placed>> sets;
  const double copies = std::min(kMostSets, 1 + std::floor(kColdBytes / (bytes_of(c) + 1)));
  const auto count = options.hot ? size_t{1} : static_cast<size_t>(copies);
  const auto add = [&](const Placed::Options& how) {
    sets.push_back(std::make_unique<Placed>(device, kernel, c, packed, how));
  };
  add({.tunes = options.tuned});
  while (sets.size() < count) add({.like = sets[0].get()});
  const auto all = [&](const Execution& on) {
    for (const auto& set : sets) set->launch(on);
  };
  all(device.execution());  // loads the code
  device.synchronise(device.execution().stream);
  const double ms = once_ms(device, [&](void*) { all(device.execution()); });
  const double us = std::max(1e3 * ms / static_cast<double>(count), 0.1);
  const auto launches = static_cast<int>(std::clamp(kReplayUs / us, 1.0, kMostLaunches));
  const Work work = [&](const Execution& on) {
    for (int i = 0; i < launches; ++i) sets[static_cast<size_t>(i) % sets.size()]->launch(on);
  };
  return time_work(device, work, launches, options);
}

std::string compare_sample(const KernelDef& kernel, const OpCase& c, const Results& got,
                           bool* compared) {
  constexpr double kMostFlops = 3e9;  // of the evaluator: some seconds
  const int64_t batch = batch_of(c);
  if (batch == 0) return compare(c, got, expected_of(kernel, c));
  std::vector<int64_t> rows;
  for (int64_t row : {batch - 1, int64_t{0}, batch / 2, batch - 2}) {
    const double flops =
        flops_of(c) / static_cast<double>(batch) * static_cast<double>(rows.size() + 1);
    const bool is_new = row >= 0 && std::ranges::find(rows, row) == rows.end();
    if (is_new && flops <= kMostFlops) rows.push_back(row);
  }
  if (compared != nullptr) *compared = !rows.empty();
  if (rows.empty()) return "";
  std::ranges::sort(rows);
  const OpCase part = with_rows(c, rows);
  Results some;
  for (size_t o = 0; o < got.size(); ++o)
    some.push_back(got[o].defined() ? pick(got[o], c.outputs[o].batch_axis, rows) : Tensor());
  return compare(part, some, expected_of(kernel, part));
}

int time_cases(const std::vector<TimedCase>& cases, const TimingOptions& options) {
  Device& device = device_under_test().device(1);
  const double copy = copy_rate(device, options);
  std::printf("%s, copy %.2f TB/s\n", device_under_test().backend().target().c_str(), copy);
  std::printf("%-44s %-26s %9s %9s %9s %8s %6s %5s  %s\n", "case", "kernel", "us", "p10", "p90",
              "TFLOP/s", "TB/s", "copy", "sampled rows");
  std::vector<Line> lines;
  bool any = false, failed = false;
  for (const TimedCase& timed : cases) {
    if (!is_wanted(timed, options)) continue;
    any = true;
    const OpCase c = timed.make();
    std::vector<const KernelDef*> rows = rows_of(c);
    if (rows.empty()) std::printf("%-44s no row\n", timed.name.c_str());
    if (!options.all_rows && rows.size() > 1) rows.resize(1);
    for (const KernelDef* kernel : rows) {
      try {
        lines.push_back(time_row(*kernel, timed, c, copy, options));
        failed = failed || lines.back().check == "WRONG";
        print(lines.back());
      } catch (const Error& error) {
        const std::string row(kernel->name);
        std::printf("FAILED: %s %s: %s\n", row.c_str(), timed.name.c_str(), error.what());
        failed = true;
      }
    }
  }
  if (!any) {
    std::fprintf(stderr, "no timed case has such a name\n");
    return 2;
  }
  if (!options.json.empty() && !write_json(options.json, lines)) return 2;
  return failed ? 1 : 0;
}

Tensor repeated(DType type, const Shape& shape) {
  constexpr int64_t kBlock = int64_t{1} << 20;
  Maker make(7);
  Tensor block = is_float(type)         ? make.normal({kBlock})
                 : type == DType::kBool ? make.integers(type, {kBlock}, 0, 1)
                                        : make.integers(type, {kBlock}, -99, 99);
  if (is_float(type) && type != DType::kF32) {
    std::vector<double> values;
    for (int64_t i = 0; i < kBlock; ++i) values.push_back(block.float_at(i));
    block = Tensor::from(type, {kBlock}, std::span<const double>(values));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(num_elems(shape)) * size_bytes(type));
  for (size_t at = 0; at < bytes.size(); at += block.bytes())
    std::memcpy(bytes.data() + at, block.data(), std::min(block.bytes(), bytes.size() - at));
  return Tensor::from_bytes(type, shape, bytes);
}

}  // namespace vernier::backend::test
