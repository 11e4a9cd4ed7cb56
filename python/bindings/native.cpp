// vernier._native: what the Python package needs of the library, function by function. No logic:
// arrays are given names and types by python/vernier/, answers go back as JSON or plain arrays.
// Every call that reads a file or works for long runs without the interpreter's lock.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "cli/program.h"
#include "vernier/bisect.h"
#include "vernier/calibrate.h"
#include "vernier/compare.h"
#include "vernier/compile.h"
#include "vernier/extract.h"
#include "vernier/inspect.h"
#include "vernier/limits.h"
#include "vernier/localise.h"
#include "vernier/packed.h"
#include "vernier/printable.h"
#include "vernier/reduce.h"
#include "vernier/session.h"
#include "vernier/verify.h"
#include "vernier/version.h"

namespace nb = nanobind;

namespace vernier::python {
namespace {

// ---- text and limits

/// A str must be UTF-8, and names need not be: those that are not are shown with escapes.
std::string as_str(const std::string& name) {
  std::string_view rest = name;
  while (!rest.empty()) {
    const size_t length = utf8_length(rest);
    if (length == 0) return printable_name(name);
    rest.remove_prefix(length);
  }
  return name;
}

std::vector<std::string> as_strs(std::vector<std::string> texts) {
  std::ranges::transform(texts, texts.begin(), as_str);
  return texts;
}

/// Ctrl-C during work without the interpreter's lock: its handler runs, and what that raises
/// (KeyboardInterrupt) comes out of the call. Handlers run in the main thread only; others never
/// wait for the lock here.
class SignalCheck {
 public:
  bool operator()() {
    if (::gettid() != ::getpid()) return false;
    constexpr auto kInterval = std::chrono::milliseconds(200);
    const auto now = Limits::Clock::now();
    if (now < next_) return false;
    next_ = now + kInterval;
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    return false;
  }

 private:
  Limits::Clock::time_point next_ = Limits::Clock::now();
};

/// `max_memory`: "" or text as parse_bytes() takes it. 0 seconds: no limit.
Limits limits_of(const std::string& max_memory, double max_seconds) {
  Limits limits;
  if (!max_memory.empty()) limits.max_bytes = parse_bytes(max_memory, "max_memory");
  if (!(max_seconds >= 0))
    throw Error(ErrorCode::kInput, "max_seconds: expected a positive number of seconds");
  limits.max_seconds = max_seconds;
  limits.stop = SignalCheck();
  return limits;
}

/// A Python function that is called with each stage of the work. What it raises ends the work.
std::function<void(std::string_view)> teller(nb::object function) {
  if (function.is_none()) return {};
  // The library may drop its last copy without the interpreter's lock.
  const auto drop = [](nb::object* object) {
    const nb::gil_scoped_acquire locked;
    delete object;
  };
  const std::shared_ptr<nb::object> held(new nb::object(std::move(function)), drop);
  return [held](std::string_view stage) {
    const nb::gil_scoped_acquire locked;
    (*held)(as_str(std::string(stage)));
  };
}

// ---- arrays

/// An array as the package passes it: name, Vernier's name of its type, and the elements as
/// unsigned integers of their size, since NumPy shares neither bfloat16 nor float8.
using Elements = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using NamedElements = std::tuple<std::string, std::string, Elements>;

/// An array of its own memory, made without the interpreter's lock.
struct Result {
  std::string name;
  DType dtype;
  std::vector<size_t> shape;
  std::unique_ptr<std::byte[]> bytes;
};

std::vector<int64_t> shape_of(const Elements& array) {
  return {array.shape_ptr(), array.shape_ptr() + array.ndim()};
}

DType dtype_of(const std::string& text) { return parse_dtype(text).value_or(DType::kUndefined); }

Result copy_of(const Output& output) {
  Result result{std::string(output.name),
                output.dtype,
                {output.shape.begin(), output.shape.end()},
                std::make_unique_for_overwrite<std::byte[]>(output.bytes)};
  if (output.bytes) std::memcpy(result.bytes.get(), output.data, output.bytes);
  return result;
}

/// (name, type, elements) of an array, whose memory goes to Python.
nb::tuple to_python(Result result) {
  std::byte* data = result.bytes.release();
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::byte*>(p); });
  const nb::dlpack::dtype bits{static_cast<uint8_t>(nb::dlpack::dtype_code::UInt),
                               static_cast<uint8_t>(8 * size_bytes(result.dtype)), 1};
  nb::ndarray<nb::numpy> elements(data, result.shape.size(), result.shape.data(), owner, nullptr,
                                  bits);
  return nb::make_tuple(as_str(result.name), std::string(name(result.dtype)), elements);
}

/// Caller's memory for an output: name, Vernier's name of its type, and the elements as unsigned
/// integers of their size.
using Buffer = nb::ndarray<nb::c_contig, nb::device::cpu>;
using NamedBuffer = std::tuple<std::string, std::string, Buffer>;

std::string text_of(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// Copies an output to caller's memory of its type and shape.
void copy_to(const Output& output, const NamedBuffer& buffer) {
  const auto& [name, dtype, elements] = buffer;
  const std::vector<int64_t> shape{elements.shape_ptr(), elements.shape_ptr() + elements.ndim()};
  if (dtype_of(dtype) != output.dtype || !std::ranges::equal(shape, output.shape)) {
    throw Error(ErrorCode::kInput,
                "out: output '" + name + "' is " + std::string(vernier::name(output.dtype)) +
                    text_of(output.shape) + ", got an array of " + dtype + text_of(shape));
  }
  if (output.bytes) std::memcpy(elements.data(), output.data, output.bytes);
}

/// Vernier's name of a type of DLPack; "" where it has none. Types of fewer than 8 bits are packed
/// there.
std::string name_of(nb::dlpack::dtype type) {
  using enum nb::dlpack::dtype_code;
  const auto code = static_cast<nb::dlpack::dtype_code>(type.code);
  if (code == Bool) return "bool";
  const char* const kind = code == Float    ? "f"
                           : code == Bfloat ? "bf"
                           : code == Int    ? "i"
                           : code == UInt   ? "u"
                                            : nullptr;
  return kind && type.lanes == 1 && type.bits >= 8 ? kind + std::to_string(type.bits) : "";
}

/// (type, elements as unsigned integers) of an array of the host that is shared by DLPack; without
/// a copy where it is dense. `Access` is nb::ro, or nothing for an array that is written to.
template <class... Access>
nb::tuple from_dlpack(const nb::ndarray<Access..., nb::c_contig, nb::device::cpu>& array) {
  auto held = std::make_unique<nb::ndarray<Access..., nb::c_contig, nb::device::cpu>>(array);
  using Held = decltype(held)::element_type;
  const std::vector<size_t> shape{array.shape_ptr(), array.shape_ptr() + array.ndim()};
  const nb::dlpack::dtype bits{static_cast<uint8_t>(nb::dlpack::dtype_code::UInt),
                               array.dtype().bits, 1};
  const nb::capsule owner(held.release(), [](void* p) noexcept { delete static_cast<Held*>(p); });
  nb::ndarray<nb::numpy, Access...> elements(array.data(), shape.size(), shape.data(), owner,
                                             nullptr, bits);
  return nb::make_tuple(name_of(array.dtype()), elements);
}

/// An array in the memory of the engine's GPU, by its name: what DLPack's capsule holds.
using DeviceArray = nb::ndarray<nb::device::cuda>;
using NamedDeviceArray = std::pair<std::string, DeviceArray>;

/// Its shape. Throws Error(kInput) unless it is dense, row-major and on GPU 0.
std::vector<int64_t> dense_shape_of(const char* what, const NamedDeviceArray& named) {
  const auto& [name, array] = named;
  const std::vector<int64_t> shape{array.shape_ptr(), array.shape_ptr() + array.ndim()};
  const std::string place = what + (" '" + name + "': ");
  if (array.device_id() != 0)
    throw Error(ErrorCode::kInput, place + "the array is on GPU " +
                                       std::to_string(array.device_id()) +
                                       ", and engines run on GPU 0");
  int64_t step = 1;
  for (size_t axis = shape.size(); axis-- > 0; step *= shape[axis]) {
    if (shape[axis] > 1 && array.stride(axis) != step)
      throw Error(ErrorCode::kInput,
                  place + "expected a dense array, its axes in order (tensor.contiguous())");
  }
  return shape;
}

DType dtype_of(const DeviceArray& array) { return dtype_of(name_of(array.dtype())); }

NamedTensors tensors_of(const std::vector<NamedElements>& arrays) {
  NamedTensors tensors;
  for (const auto& [name, dtype, elements] : arrays) {
    tensors.emplace_back(name, Tensor::from_bytes(dtype_of(dtype), shape_of(elements),
                                                  {static_cast<const std::byte*>(elements.data()),
                                                   elements.nbytes()}));
  }
  return tensors;
}

nb::list to_python(const NamedTensors& tensors) {
  nb::list rows;
  for (const auto& [name, tensor] : tensors) {
    rows.append(to_python(copy_of(
        {name, tensor.dtype(), tensor.shape(), tensor.byte_span().data(), tensor.bytes()})));
  }
  return rows;
}

// ---- engines and sessions

/// (name, type, [(text, minimum, maximum) of each size])
using PortRow =
    std::tuple<std::string, std::string, std::vector<std::tuple<std::string, int64_t, int64_t>>>;

std::vector<PortRow> rows_of(const std::vector<Port>& ports) {
  std::vector<PortRow> rows;
  for (const Port& port : ports) {
    auto& [name, dtype, dims] =
        rows.emplace_back(as_str(port.name), std::string(vernier::name(port.dtype)),
                          std::vector<std::tuple<std::string, int64_t, int64_t>>{});
    for (const PortDim& dim : port.dims) dims.emplace_back(as_str(dim.text), dim.min, dim.max);
  }
  return rows;
}

struct PythonEngine {
  PythonEngine(const std::string& path, bool read_into_memory) {
    const nb::gil_scoped_release unlocked;
    engine = Engine::open(path, {.read_into_memory = read_into_memory});
  }
  std::shared_ptr<const Engine> engine;
};

/// One thread's at a time: a second one gets an error, as in C++, until the outputs are copied too.
class PythonSession {
 public:
  /// `terms`: of the certificate that is asked for; none: none is. `stream`: the handle of a stream
  /// of the engine's GPU; 0: the session's own.
  PythonSession(const PythonEngine& engine, int threads, const std::string& max_memory,
                double max_seconds, const std::optional<CertificateTerms>& terms, bool canary,
                uint64_t stream)
      : session_(engine.engine,
                 {.threads = threads,
                  // NOLINTNEXTLINE(performance-no-int-to-ptr): a handle, as Python has it
                  .stream = reinterpret_cast<void*>(stream),
                  .limits = limits_of(max_memory, max_seconds),
                  .certificate = terms,
                  .canary = canary}),
        has_callers_stream_(stream != 0) {
    if (terms) engine.engine->check_weights();
  }

  /// The handle of the stream that runs are ordered on; 0: the device has none.
  uint64_t stream() { return reinterpret_cast<uint64_t>(session_.stream()); }

  /// The outputs, and the message about those that hold NaN or infinity (empty: none does).
  /// Outputs that have a buffer are copied there and are not among the results. `wanted`: names of
  /// the outputs that are returned; empty: all. `on_device`: further inputs, on the engine's GPU.
  nb::tuple run(const std::vector<NamedElements>& arrays, const std::vector<NamedBuffer>& buffers,
                const std::vector<std::string>& wanted,
                const std::vector<NamedDeviceArray>& on_device) {
    std::vector<Result> results;
    std::string non_finite;
    {
      const nb::gil_scoped_release unlocked;
      const std::unique_lock use = take();
      const Inputs inputs = inputs_of(arrays, on_device);
      std::vector<std::string> names;
      for (const Output& output : session_.run(inputs.list)) {
        if (!wanted.empty() && std::ranges::find(wanted, output.name) == wanted.end()) continue;
        const auto buffer = std::ranges::find_if(
            buffers, [&](const NamedBuffer& b) { return std::get<0>(b) == output.name; });
        if (buffer == buffers.end())
          results.push_back(copy_of(output));
        else
          copy_to(output, *buffer);
        if (verify::is_non_finite(output.dtype,
                                  {static_cast<const std::byte*>(output.data), output.bytes}))
          names.emplace_back(output.name);
      }
      if (!names.empty()) non_finite = verify::explain_non_finite(session_, inputs.list, names);
    }
    nb::list rows;
    for (Result& result : results) rows.append(to_python(std::move(result)));
    return nb::make_tuple(rows, non_finite);
  }

  /// Writes outputs to buffers on the engine's GPU, and no others. They are complete when this
  /// returns; on a stream of the caller's, if all inputs are on the GPU too, when the stream is.
  void run_to_device(const std::vector<NamedElements>& arrays,
                     const std::vector<NamedDeviceArray>& on_device,
                     const std::vector<NamedDeviceArray>& buffers) {
    const nb::gil_scoped_release unlocked;
    const std::unique_lock use = take();
    const Inputs inputs = inputs_of(arrays, on_device);
    const std::vector<std::vector<int64_t>> shapes = session_.output_shapes(inputs.list);
    const std::vector<Port> ports = session_.engine().outputs();
    std::vector<OutputBuffer> outputs;
    for (const NamedDeviceArray& buffer : buffers) {
      const auto& [name, array] = buffer;
      const auto at = std::ranges::find(ports, name, &Port::name) - ports.begin();
      check_buffer(buffer, ports.at(static_cast<size_t>(at)), shapes.at(static_cast<size_t>(at)));
      outputs.push_back({name, array.data(), array.nbytes(), Memory::kDevice});
    }
    if (has_callers_stream_ && arrays.empty())
      session_.enqueue(inputs.list, outputs);
    else
      session_.run(inputs.list, outputs);
  }

 private:
  struct Inputs {
    std::vector<std::vector<int64_t>> shapes;
    std::vector<Input> list;
  };
  std::unique_lock<std::mutex> take() {
    std::unique_lock use(in_use_, std::try_to_lock);
    if (!use) {
      throw Error(ErrorCode::kInput,
                  "the session is running in another thread; a session is one thread's at a "
                  "time: make one per thread from the same engine, whose weights they share");
    }
    return use;
  }
  static Inputs inputs_of(const std::vector<NamedElements>& arrays,
                          const std::vector<NamedDeviceArray>& on_device) {
    Inputs inputs;
    for (const auto& [name, dtype, elements] : arrays) inputs.shapes.push_back(shape_of(elements));
    for (const NamedDeviceArray& array : on_device)
      inputs.shapes.push_back(dense_shape_of("input", array));
    size_t at = 0;
    for (const auto& [name, dtype, elements] : arrays)
      inputs.list.push_back({name, dtype_of(dtype), inputs.shapes[at++], elements.data()});
    for (const auto& [name, array] : on_device) {
      inputs.list.push_back(
          {name, dtype_of(array), inputs.shapes[at++], array.data(), Memory::kDevice});
    }
    return inputs;
  }
  void check_buffer(const NamedDeviceArray& buffer, const Port& output,
                    const std::vector<int64_t>& expected) {
    const std::vector<int64_t> shape = dense_shape_of("out: output", buffer);
    if (dtype_of(buffer.second) != output.dtype || shape != expected) {
      throw Error(ErrorCode::kInput, "out: output '" + output.name + "' is " +
                                         std::string(vernier::name(output.dtype)) +
                                         text_of(expected) + ", got an array of " +
                                         name_of(buffer.second.dtype()) + text_of(shape));
    }
  }

  Session session_;
  const bool has_callers_stream_;
  std::mutex in_use_;
};

// ---- functions

/// `keep`: "" times nothing; "faster" and "int8" keep that engine (CompareOptions::Keep). The
/// comparison is JSON.
nb::dict build(const std::string& model, const std::string& engine, const CompileOptions& options,
               const std::string& keep) {
  using enum CompareOptions::Keep;
  ComparedReport all;
  {
    const nb::gil_scoped_release unlocked;
    if (keep.empty())
      all.build = compile(model, engine, options);
    else
      all = compile_faster(model, engine, options,
                           {.keep = keep == "quantized" ? kQuantized : kFaster});
  }
  const CompileReport& report = all.build;
  nb::dict result;
  result["engine"] = engine;
  result["model"] = as_str(report.model);
  result["onnx_nodes"] = report.onnx_nodes;
  result["steps"] = report.steps;
  result["fallback_steps"] = report.fallback_steps;
  result["weight_bytes"] = report.weight_bytes;
  result["notes"] = as_strs(report.notes);
  result["policy"] = report.policy;
  result["ms"] = report.ms;
  result["comparison"] = all.comparison ? to_json(*all.comparison) : "null";
  return result;
}

/// A result as JSON, and as the text for a person.
using JsonAndText = std::pair<std::string, std::string>;

template <class Result>
JsonAndText both(const Result& result) {
  return {to_json(result), as_str(to_text(result))};
}

/// What VerifyRequest's plain fields do not hold is set here.
JsonAndText verify_files(verify::Request& request, const std::string& tolerance, bool stamp) {
  const nb::gil_scoped_release unlocked;
  request.tolerance = verify::parse_tolerance(tolerance);
  return both(stamp ? verify::verify_and_stamp(request) : verify::verify(request));
}

JsonAndText judge_stored(const std::string& report, const std::string& tolerance) {
  const nb::gil_scoped_release unlocked;
  return both(verify::judge_stored(report, verify::parse_tolerance(tolerance)));
}

JsonAndText localise(verify::Request& request) {
  const nb::gil_scoped_release unlocked;
  return both(verify::localise(request));
}

JsonAndText bisect(verify::Request& request, const std::string& tolerance) {
  const nb::gil_scoped_release unlocked;
  request.tolerance = verify::parse_tolerance(tolerance);
  return both(verify::bisect(request));
}

JsonAndText reduce(verify::Request& request, const std::string& tolerance,
                   const std::string& folder) {
  const nb::gil_scoped_release unlocked;
  request.tolerance = verify::parse_tolerance(tolerance);
  return both(verify::reduce(request, {.folder = folder, .plugins = {}}));
}

JsonAndText calibrate_files(const CalibrateOptions& options) {
  const nb::gil_scoped_release unlocked;
  return both(calibrate(options));
}

JsonAndText import_files(const ImportCacheOptions& options) {
  const nb::gil_scoped_release unlocked;
  return both(import_cache(options));
}

JsonAndText extract_part(const ExtractOptions& options) {
  const nb::gil_scoped_release unlocked;
  return both(extract(options));
}

template <class View>
View view_named(const std::string& name, const std::string& path,
                std::initializer_list<std::pair<const char*, View>> views) {
  std::string known;
  for (const auto& [text, view] : views) {
    if (name == text) return view;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw Error(ErrorCode::kInput, "'" + path + "' has no view '" + name + "'; it has " + known);
}

std::string inspect(const std::string& path, const std::string& view, const std::string& node,
                    const std::string& shapes, int threads, bool as_text) {
  const nb::gil_scoped_release unlocked;
  const InspectFormat format = as_text ? InspectFormat::kText : InspectFormat::kJson;
  if (!is_engine_file(path)) {
    using enum ModelView;
    const auto chosen = view_named<ModelView>(view, path,
                                              {{"summary", kSummary},
                                               {"graph", kGraph},
                                               {"raised", kRaised},
                                               {"raised-graph", kRaisedGraph}});
    return inspect_model(path, {.view = chosen, .format = format});
  }
  using enum EngineView;
  const auto chosen = view_named<EngineView>(view, path,
                                             {{"summary", kSummary},
                                              {"plan", kPlan},
                                              {"memory", kMemory},
                                              {"timing", kTiming},
                                              {"ledger", kLedger}});
  return inspect_engine(*Engine::open(path), {.view = chosen,
                                              .format = format,
                                              .node = node,
                                              .shapes = shapes,
                                              .threads = threads,
                                              .inputs = {}});
}

/// The program: what its exit code is.
int program(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const nb::gil_scoped_release unlocked;
  return cli::program(static_cast<int>(words.size()), argv.data());
}

// ---- errors

/// vernier::Error becomes vernier.Error, which the function `make` makes of its message and code
/// (from_library of python/vernier/_error.py).
void translate(const std::exception_ptr& thrown, void* make) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::handle from_library(static_cast<PyObject*>(make));
    const nb::object made =
        from_library(printable_message(error.what()), std::string(name(error.code())));
    PyErr_SetObject(made.type().ptr(), made.ptr());
  }
}

}  // namespace

NB_MODULE(_native, m) {
  m.attr("version") = kVersion;
  // Kept for the life of the process, as the module is.
  nb::object make = nb::module_::import_("vernier._error").attr("from_library");
  nb::register_exception_translator(&translate, make.release().ptr());

  nb::class_<PythonEngine>(m, "Engine")
      .def(nb::init<const std::string&, bool>())
      .def("inputs", [](const PythonEngine& e) { return rows_of(e.engine->inputs()); })
      .def("outputs", [](const PythonEngine& e) { return rows_of(e.engine->outputs()); })
      .def("device", [](const PythonEngine& e) { return e.engine->device(); })
      .def("content_hash", [](const PythonEngine& e) { return e.engine->content_hash(); })
      .def("weight_bytes", [](const PythonEngine& e) { return e.engine->weight_bytes(); })
      .def("verdict",
           [](const PythonEngine& e) -> std::optional<std::string> {
             if (!e.engine->certificate()) return std::nullopt;
             return e.engine->certificate()->verdict;
           })
      .def(
          "check_weights", [](const PythonEngine& e) { e.engine->check_weights(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("check_unchanged", [](const PythonEngine& e) { e.engine->check_unchanged(); })
      .def("padded",
           [](const PythonEngine& e, const std::vector<NamedElements>& arrays,
              const std::vector<int64_t>& starts) {
             return to_python(padded(*e.engine, tensors_of(arrays), starts));
           })
      .def("packed", [](const PythonEngine& e, const std::vector<NamedElements>& arrays,
                        const std::vector<int64_t>& starts) {
        return to_python(packed(*e.engine, tensors_of(arrays), starts));
      });
  nb::class_<CertificateTerms>(m, "CertificateTerms")
      .def(nb::init<>())
      .def_rw("own_tolerance", &CertificateTerms::own_tolerance)
      .def_rw("declared", &CertificateTerms::declared);
  nb::class_<PythonSession>(m, "Session")
      .def(nb::init<const PythonEngine&, int, const std::string&, double,
                    const std::optional<CertificateTerms>&, bool, uint64_t>(),
           nb::call_guard<nb::gil_scoped_release>(), nb::arg("engine"), nb::arg("threads"),
           nb::arg("max_memory"), nb::arg("max_seconds"), nb::arg("terms").none(),
           nb::arg("canary"), nb::arg("stream"))
      .def("run", &PythonSession::run)
      .def("run_to_device", &PythonSession::run_to_device)
      .def("stream", &PythonSession::stream);

  nb::class_<CompileOptions>(m, "CompileOptions")
      .def(nb::init<>())
      .def_rw("device", &CompileOptions::device)
      .def_rw("canary", &CompileOptions::canary)
      .def_rw("shapes", &CompileOptions::shapes)
      .def_rw("outputs", &CompileOptions::extra_outputs)
      .def_rw("fuse_off", &CompileOptions::passes_off)
      .def_rw("zero_fill", &CompileOptions::zero_fill)
      .def_rw("mode", &CompileOptions::mode)
      .def_rw("rules", &CompileOptions::rules)
      .def_rw("layer_precisions", &CompileOptions::layer_precisions)
      .def_rw("layer_output_types", &CompileOptions::layer_output_types)
      .def_rw("policy", &CompileOptions::policy)
      .def_rw("policy_file", &CompileOptions::policy_file)
      .def_rw("scales", &CompileOptions::scales)
      .def_rw("scales_file", &CompileOptions::scales_file)
      .def_rw("static_scales", &CompileOptions::static_scales)
      .def_rw("export_qdq", &CompileOptions::export_qdq)
      .def_rw("int8_error", &CompileOptions::int8_error)
      .def("limit", [](CompileOptions& options, const std::string& max_memory,
                       double max_seconds) { options.limits = limits_of(max_memory, max_seconds); })
      .def(
          "progress",
          [](CompileOptions& options, nb::object function) {
            options.progress = teller(std::move(function));
          },
          nb::arg("function").none());
  m.def("build", &build);

  m.def(
      "calibrate",
      [](const std::string& model, const std::vector<std::string>& data, const std::string& output,
         const std::string& method, const std::string& shapes, int threads,
         const std::string& max_memory, double max_seconds, nb::object progress) {
        CalibrateOptions options;
        options.model = model;
        options.data.assign(data.begin(), data.end());
        options.output = output;
        options.method = method;
        options.shapes = shapes;
        options.threads = threads;
        options.limits = limits_of(max_memory, max_seconds);
        options.progress = teller(std::move(progress));
        return calibrate_files(options);
      },
      nb::arg("model"), nb::arg("data"), nb::arg("output"), nb::arg("method"), nb::arg("shapes"),
      nb::arg("threads"), nb::arg("max_memory"), nb::arg("max_seconds"),
      nb::arg("progress").none());
  m.def("import_cache",
        [](const std::string& model, const std::string& cache, const std::string& output,
           const std::string& max_memory, double max_seconds) {
          ImportCacheOptions options;
          options.model = model;
          options.cache = cache;
          options.output = output;
          options.limits = limits_of(max_memory, max_seconds);
          return import_files(options);
        });
  m.def(
      "export_onnx",
      [](const std::string& model, const std::string& to) {
        const nb::gil_scoped_release unlocked;
        export_onnx(model, to);
      },
      nb::arg("model"), nb::arg("to"));
  m.def(
      "extract",
      [](const std::string& model, const std::string& part, const std::vector<std::string>& begin,
         const std::vector<std::string>& end, const std::string& max_memory, double max_seconds,
         nb::object progress) {
        ExtractOptions options;
        options.model = model;
        options.part = part;
        options.from = begin;
        options.to = end;
        options.limits = limits_of(max_memory, max_seconds);
        options.progress = teller(std::move(progress));
        return extract_part(options);
      },
      nb::arg("model"), nb::arg("part"), nb::arg("begin"), nb::arg("end"), nb::arg("max_memory"),
      nb::arg("max_seconds"), nb::arg("progress").none());

  using verify::Request;
  nb::class_<Request>(m, "VerifyRequest")
      .def("__init__",
           [](Request* self, const std::string& engine, const std::string& model) {
             new (self) Request;
             self->engine = engine;
             self->model = model;
           })
      .def("add_inputs",
           [](Request& r, const std::string& label, const std::vector<NamedElements>& arrays) {
             r.inputs.push_back({label, tensors_of(arrays)});
           })
      .def("expect",
           [](Request& r, const std::vector<NamedElements>& a) { r.expect = tensors_of(a); })
      .def("limit", [](Request& r, const std::string& max_memory,
                       double max_seconds) { r.limits = limits_of(max_memory, max_seconds); })
      .def("task",
           [](Request& r, const std::string& metric, const std::vector<NamedElements>& labels,
              const std::string& output) {
             r.task = {.metric = metric, .output = output, .labels = tensors_of(labels)};
           })
      .def("thorough", [](Request& r) { r.depth = verify::Depth::kThorough; })
      .def("quick", [](Request& r) { r.depth = verify::Depth::kQuick; })
      .def("against", [](Request& r, const std::string& engine) { r.against = engine; })
      .def("checkpoint",
           [](Request& r, const std::string& path, bool resume) {
             r.checkpoint = path;
             r.resume = resume;
           })
      .def(
          "progress",
          [](Request& r, nb::object function) { r.progress = teller(std::move(function)); },
          nb::arg("function").none())
      .def("html",
           [](Request& r, const std::string& path) {
             r.html = path;
             r.localise = true;
           })
      .def_rw("batches", &Request::batches)
      .def_rw("lengths", &Request::lengths)
      .def_rw("begin", &Request::from)
      .def_rw("end", &Request::to)
      .def_rw("batch_axis", &Request::batch_axis)
      .def_rw("seed", &Request::seed)
      .def_rw("read_into_memory", &Request::read_into_memory)
      .def_rw("accept_declared", &Request::accept_declared)
      .def_rw("threads", &Request::threads)
      .def_rw("budget_seconds", &Request::budget_seconds)
      .def_rw("evaluate_on", &Request::evaluate_on)
      .def_rw("also", &Request::also)
      .def_rw("also_python", &Request::also_python);
  m.def("verify", &verify_files);
  m.def("judge_stored", &judge_stored);
  m.def("localise", &localise);
  m.def("bisect", &bisect);
  m.def("reduce", &reduce);
  m.def("from_dlpack", &from_dlpack<nb::ro>);
  m.def("buffer_from_dlpack", &from_dlpack<>, nb::arg().noconvert());
  m.def("program", &program);
  m.def("inspect", &inspect);
}

}  // namespace vernier::python
