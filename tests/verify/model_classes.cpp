// Classes of models: see model_classes.h.
#include "verify/model_classes.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "onnx/import.h"
#include "onnx/model_file.h"
#include "verify/verify.h"
#include "vernier/compile.h"

namespace vernier::test {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHeader =
    "# Other projects' models (not in this repository): which build and verify, and why the others "
    "are refused.\n# Made by tools/classify_models.cpp; checked by tests/verify/peers_test.cpp.\n"
    "# A line that ends with / is the folder of the lines below it; a name alone, without its "
    ".onnx:\n"
    "# what the line above says is so of it too.\n";

// The first line of a message; where it announces a list, with the list's first entry. The file
// that it speaks of is left out.
std::string first_line(const std::string& message, const fs::path& file) {
  constexpr size_t kLongest = 100;
  size_t end = message.find('\n');
  if (end != std::string::npos && end > 0 && message[end - 1] == ':')
    end = message.find('\n', end + 1);
  std::string line = message.substr(0, end);
  for (char& c : line) c = c == '\n' || c == '\t' ? ' ' : c;
  for (const std::string& name :
       {"cannot import '" + file.string() + "': ", file.parent_path().string() + "/"}) {
    for (size_t at; (at = line.find(name)) != std::string::npos;) line.erase(at, name.size());
  }
  if (line.size() > kLongest) line = line.substr(0, kLongest) + "...";
  return line;
}

// Of the largest input at its smallest sizes.
int64_t least_input_elems(const Engine& engine) {
  int64_t largest = 0;
  for (const Port& port : engine.inputs()) {
    int64_t elems = 1;
    for (const PortDim& dim : port.dims) elems *= dim.min;
    largest = std::max(largest, elems);
  }
  return largest;
}

std::string verdict_of(std::vector<std::byte> bytes, const fs::path& file) {
  verify::Request request;
  request.batches = {1, 3};
  request.lengths = {5};
  request.threads = 2;
  const auto engine = Engine::from_bytes(std::move(bytes));
  // FP64 takes minutes for more rows of such inputs: one row shows whether they are right.
  constexpr int64_t kLargeElems = int64_t{1} << 20;
  if (least_input_elems(*engine) > kLargeElems) request.batches = request.lengths = {1};
  return std::string(
      name(verify::verify_engine(engine, *onnx::import_model(file), request).verdict));
}

// Operators of ONNX itself on tensors of numbers?
bool is_numeric(const onnx::proto::ModelProto& model) {
  const auto plain = [](const auto& nodes) {
    return std::ranges::all_of(nodes, [](const onnx::proto::NodeProto& node) {
      return onnx::canonical_domain(node.domain()).empty() &&
             node.op_type().find("Sequence") == std::string::npos;
    });
  };
  const auto numbers = [](const auto& values) {
    return std::ranges::all_of(values, [](const onnx::proto::ValueInfoProto& value) {
      constexpr int32_t kString = 8;
      return value.type().has_tensor_type() && value.type().tensor_type().elem_type() != kString;
    });
  };
  return model.functions().empty() && plain(model.graph().node()) &&
         numbers(model.graph().input()) && numbers(model.graph().output());
}

// Does it draw random numbers, so that no answer can be held against it?
bool is_random(const onnx::proto::ModelProto& model) {
  constexpr int kTrainingModeInput = 2;
  return std::ranges::any_of(model.graph().node(), [](const onnx::proto::NodeProto& node) {
    return node.op_type().starts_with("Random") || node.op_type() == "Multinomial" ||
           node.op_type() == "Bernoulli" ||
           (node.op_type() == "Dropout" && node.input_size() > kTrainingModeInput);
  });
}

std::string kind_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  onnx::proto::ModelProto model;
  if (!model.ParseFromString(bytes) || !is_numeric(model)) return "other";
  return is_random(model) ? "random" : "ai.onnx";
}

// What a process of its own has to say of one file: lines "outcome<TAB>why", the last one counts.
void classify(const fs::path& file, Verdicts verdicts,
              const std::function<void(std::string)>& say) {
  std::vector<std::byte> engine;
  try {
    engine = compile_to_bytes(file.string());
  } catch (const Error& error) {
    const bool refused = error.code() == ErrorCode::kInput;
    return say((refused ? "refused\t" : "failed\t") + first_line(error.what(), file));
  } catch (const std::exception& error) {
    return say("failed\t" + first_line(error.what(), file));
  }
  if (verdicts == Verdicts::kNo) return say("builds\t");
  say("builds\tnot verified: it did not end in time");
  try {
    say("builds\t" + verdict_of(std::move(engine), file));
  } catch (const std::exception& error) {
    say("builds\tnot verified: " + first_line(error.what(), file));
  }
}

using Clock = std::chrono::steady_clock;

// A file being classified by a child process, which writes into a pipe.
struct Job {
  size_t index = 0;
  pid_t process = 0;
  int pipe = -1;
  Clock::time_point begin;
  std::string said;
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
};

Job start(size_t index, const fs::path& file, Verdicts verdicts) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("cannot make a pipe");
  Job job{.index = index, .process = fork(), .pipe = ends[0], .begin = Clock::now(), .said = ""};
  if (job.process < 0) throw std::runtime_error("cannot start a process");
  if (job.process == 0) {
    close(ends[0]);
    classify(file, verdicts, [&](const std::string& line) {
      const std::string text = line + "\n";
      if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    });
    _exit(0);
  }
  close(ends[1]);
  return job;
}

// Reads what is there; true when the process is done, or is ended because its time is up.
bool poll_job(Job& job, double limit_seconds) {
  pollfd ready{.fd = job.pipe, .events = POLLIN, .revents = 0};
  constexpr int kWaitMs = 5;
  char buffer[4096];
  while (poll(&ready, 1, kWaitMs) > 0) {
    const ssize_t count = read(job.pipe, buffer, sizeof(buffer));
    if (count <= 0) return true;
    job.said.append(buffer, static_cast<size_t>(count));
  }
  if (job.seconds() < limit_seconds) return false;
  kill(job.process, SIGKILL);
  return true;
}

void finish(Job& job, ModelClass& model) {
  int status = 0;
  waitpid(job.process, &status, 0);
  close(job.pipe);
  model.outcome = "failed";
  model.why = "it did not end in time";
  const bool ended = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
  std::istringstream lines(job.said);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find('\t');
    model.outcome = line.substr(0, tab);
    model.why = line.substr(tab + 1);
  }
  if (!ended) return;
  model.outcome = "failed";
  model.why = "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace

std::vector<std::string> models_below(const fs::path& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx")
      paths.push_back(fs::relative(entry.path(), folder).generic_string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<ModelClass> classify_models(const fs::path& folder,
                                        const std::vector<std::string>& paths,
                                        const ClassifyOptions& options) {
  std::vector<ModelClass> models(paths.size());
  std::vector<Job> running;
  size_t next = 0;
  while (next < paths.size() || !running.empty()) {
    while (next < paths.size() && static_cast<int>(running.size()) < options.jobs) {
      models[next].path = paths[next];
      models[next].kind = kind_of(folder / paths[next]);
      if (models[next].kind == "ai.onnx" && options.invalid.contains(paths[next]))
        models[next].kind = "invalid";
      running.push_back(start(next, folder / paths[next], options.verdicts));
      ++next;
    }
    std::erase_if(running, [&](Job& job) {
      if (!poll_job(job, options.limit_seconds)) return false;
      finish(job, models[job.index]);
      if (options.done) options.done(models[job.index], job.seconds());
      return true;
    });
  }
  return models;
}

std::string summary(const std::vector<ModelClass>& models) {
  size_t numeric = 0, build = 0, pass = 0;
  for (const ModelClass& model : models) {
    if (model.kind != "ai.onnx") continue;
    ++numeric;
    build += model.outcome == "builds";
    pass += model.outcome == "builds" && model.why == "pass";
  }
  const auto share = [&](size_t part) {
    return fmt::format(
        "{} ({:.1f} %)", part,
        numeric ? 100.0 * static_cast<double>(part) / static_cast<double>(numeric) : 0.0);
  };
  return fmt::format("numeric ai.onnx files: {}; build: {}; build and verify: {}", numeric,
                     share(build), share(pass));
}

std::string to_tsv(const std::vector<ModelClass>& models) {
  std::string text(kHeader), folder, last;
  for (const ModelClass& model : models) {
    const fs::path path(model.path);
    const std::string own = path.parent_path().string();
    if (own != folder) text += own + "/\n";
    folder = own;
    const std::string found =
        "\t" + model.kind + "\t" + model.outcome + (model.why.empty() ? "" : "\t" + model.why);
    text += path.stem().string() + (found == last ? "" : found) + "\n";
    last = found;
  }
  return text;
}

std::vector<ModelClass> read_tsv(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("cannot read " + file.string());
  std::vector<ModelClass> models;
  std::string folder;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#')) continue;
    if (line.ends_with('/')) {
      folder = line;
      continue;
    }
    std::istringstream columns(line);
    ModelClass model = models.empty() ? ModelClass() : models.back();
    std::getline(columns, model.path, '\t');
    model.path = folder + model.path + ".onnx";
    if (!columns.eof()) {
      model.why.clear();
      std::getline(columns, model.kind, '\t');
      std::getline(columns, model.outcome, '\t');
      std::getline(columns, model.why);
    }
    if (model.outcome != "builds" && model.outcome != "refused")
      throw std::runtime_error(file.string() + ": bad line '" + line + "'");
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace vernier::test
