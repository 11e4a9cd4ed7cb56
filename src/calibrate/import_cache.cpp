// Scales of a TensorRT calibration cache: the ranges of its tensors for the products that read
// them. Contract: vernier/calibrate.h.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "calibrate/cache.h"
#include "compile/export_qdq.h"
#include "compile/lines.h"
#include "compile/pipeline.h"
#include "core/hash.h"
#include "core/mapped_file.h"
#include "io/text_file.h"
#include "onnx/slice.h"
#include "precision/onnx_nodes.h"
#include "vernier/calibrate.h"

namespace vernier {
namespace {

// A value that products read, under the names that it has in the model.
struct Operand {
  std::vector<std::string> names;     ///< as the products' nodes read it; "" are left out
  std::vector<std::string> products;  ///< as scales files name them
  int64_t channels = 0;
};

void add_name(Operand& operand, const std::string& name) {
  if (!name.empty() && std::ranges::find(operand.names, name) == operand.names.end())
    operand.names.push_back(name);
}

// Operands of the products that mode int8 quantizes, in order. `uses`: how many nodes have a name.
std::vector<Operand> operands_of(const std::vector<compiler::QuantizedProduct>& products,
                                 const onnx::ModelSlicer& model,
                                 const std::map<std::string, int>& uses) {
  std::vector<Operand> operands;
  std::map<ir::ValueId, size_t> operand_of;
  for (const compiler::QuantizedProduct& product : products) {
    const auto [at, fresh] = operand_of.emplace(product.x, operands.size());
    if (fresh) operands.emplace_back();
    Operand& own = operands[at->second];
    own.channels = product.weight.shape()[product.trans_w ? 1 : 0];
    add_name(own, product.x_name);
    for (const passes::ProductName& name : product.names) {
      const auto used = uses.find(name.name);
      const bool is_unique = !name.name.empty() && used != uses.end() && used->second == 1;
      own.products.push_back(is_unique ? name.name : name.key);
      if (!name.key.starts_with('#')) continue;  // of a function: its values have other names
      const auto& inputs = model.nodes().at(onnx::main_node_of(name.key)).inputs;
      if (!inputs.empty() && !model.is_initializer(inputs[0])) add_name(own, inputs[0]);
    }
  }
  return operands;
}

std::string text_of(const std::filesystem::path& path) {
  constexpr size_t kLargest = size_t{16} << 20;
  const auto file = MappedFile::open(path);
  if (file->bytes().size() > kLargest)
    throw Error(ErrorCode::kInput, "calibration cache '" + path.string() +
                                       "' is larger than 16 MiB; expected a text file of "
                                       "TensorRT, with a line for each tensor");
  return {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
}

// Names of the model's tensors: of its main graph.
std::set<std::string> tensors_of(const onnx::ModelSlicer& model) {
  std::set<std::string> tensors = model.inputs();
  for (const onnx::MainNode& node : model.nodes()) {
    tensors.insert(node.inputs.begin(), node.inputs.end());
    tensors.insert(node.outputs.begin(), node.outputs.end());
  }
  return tensors;
}

}  // namespace

ImportCacheReport import_cache(const ImportCacheOptions& asked) {
  const auto start = Limits::Clock::now();
  io::check_can_write(asked.output, "scales");
  const calibration::Cache cache =
      calibration::read_cache(text_of(asked.cache), asked.cache.string());
  CompileOptions options;
  options.mode = "int8";
  options.limits = asked.limits.begun();
  compiler::Compiled compiled;
  const auto imported = compiler::import(asked.model.string(), options, compiled);
  compiler::check_can_calibrate(*imported, asked.model.string());
  std::map<std::string, int> uses;
  for (const precision::OnnxNode& node : precision::onnx_nodes(*imported)) ++uses[node.name];
  const onnx::ModelSlicer slicer(asked.model);

  ImportCacheReport report;
  report.version = cache.version;
  report.algorithm = cache.algorithm;
  compiler::Scales scales{.model_file = asked.model.filename().string(),
                          .model_hash = file_hash(asked.model),
                          .data_files = {asked.cache.filename().string()},
                          .method = "TensorRT " + cache.algorithm,
                          .sites = {}};
  const auto products = compiler::quantized_products(*imported, options);
  for (const Operand& operand : operands_of(products, slicer, uses)) {
    const auto known = std::ranges::find_if(operand.names, [&](const std::string& name) {
      const auto at = cache.scales.find(name);
      return at != cache.scales.end() && at->second > 0;
    });
    if (known == operand.names.end()) {
      report.missing.push_back({operand.names.empty() ? "" : operand.names[0], operand.products});
      continue;
    }
    constexpr double kLargestQ8 = 127;
    const double limit = kLargestQ8 * double{cache.scales.find(*known)->second};
    report.found.push_back({*known, operand.products, limit});
    compiler::ScalesSite& site = scales.sites.emplace_back();
    site.x = *known;
    site.products = operand.products;
    site.factors.assign(static_cast<size_t>(operand.channels), 1);
    site.low = -limit;
    site.high = limit;
    site.range_method = scales.method;
  }
  const std::set<std::string> tensors = tensors_of(slicer);
  for (const auto& [name, scale] : cache.scales)
    if (!tensors.contains(name)) report.unknown.push_back(name);
  if (scales.sites.empty())
    throw Error(
        ErrorCode::kInput,
        fmt::format("calibration cache '{}' has no scale of an operand of the products that mode "
                    "int8 quantizes in '{}' ({} in the cache, {} of them in the model); expected "
                    "one that was made of this model",
                    asked.cache.string(), asked.model.string(),
                    counted(std::ssize(cache.scales), "tensor"),
                    std::ssize(cache.scales) - std::ssize(report.unknown)));
  io::write_text_file(asked.output, "scales", compiler::save_scales(scales));
  report.ms = std::chrono::duration<double, std::milli>(Limits::Clock::now() - start).count();
  return report;
}

}  // namespace vernier
