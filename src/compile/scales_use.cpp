// Scales in a build: see scales_use.h.
#include "compile/scales_use.h"

#include <fmt/format.h>

#include <set>

#include "compile/lines.h"
#include "core/attrs.h"
#include "core/hash.h"
#include "core/names.h"
#include "passes/quantize.h"
#include "precision/onnx_nodes.h"

namespace vernier::compiler {
namespace {

// "'a', 'b', 'c' and 4 others"
std::string listed(const std::vector<std::string>& names, size_t most = 5) {
  std::string text;
  for (size_t i = 0; i < std::min(most, names.size()); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > most) text += fmt::format(" and {} others", names.size() - most);
  return text;
}

std::string label(const passes::ProductName& product) {
  return product.name.empty() ? product.key : product.name;
}

}  // namespace

void check_scales_model(const Scales& scales, const std::string& file,
                        const std::string& model_path) {
  const std::string hash = file_hash(model_path);
  if (hash == scales.model_hash) return;
  throw Error(ErrorCode::kInput,
              fmt::format("scales '{}' are of another model: of '{}' with hash {}; '{}' has hash "
                          "{}. Calibrate this one, with 'vernier calibrate'",
                          file, scales.model_file, scales.model_hash, model_path, hash));
}

void check_scales_names(const Scales& scales, const std::string& file, const ir::Graph& raised) {
  std::vector<std::string> known;
  std::set<std::string, std::less<>> all;
  for (const precision::OnnxNode& node : precision::onnx_nodes(raised)) {
    if (!node.name.empty()) known.push_back(node.name);
    all.insert(node.name);
    all.insert(node.key);
  }
  for (size_t s = 0; s < scales.sites.size(); ++s) {
    for (const std::string& product : scales.sites[s].products) {
      if (all.contains(product)) continue;
      throw Error(ErrorCode::kInput,
                  fmt::format("scales '{}': sites[{}].products names '{}', which is no node of the "
                              "model{}. Write the file again with 'vernier calibrate'",
                              file, s, product, nearest_names(product, known)));
    }
  }
}

passes::ColumnFactors column_factors(const Scales& scales) {
  passes::ColumnFactors factors;
  for (const ScalesSite& site : scales.sites) {
    const auto shared = std::make_shared<const std::vector<float>>(site.factors);
    for (const std::string& product : site.products) factors.emplace(product, shared);
  }
  return factors;
}

passes::StaticRanges static_ranges(const Scales& scales) {
  passes::StaticRanges ranges;
  for (const ScalesSite& site : scales.sites) {
    if (!site.has_range()) continue;
    for (const std::string& product : site.products)
      ranges.emplace(product, passes::StaticRange{site.low, site.high});
  }
  return ranges;
}

Scales recorded(const Scales& scales) {
  Scales kept;
  kept.model_file = scales.model_file;
  kept.model_hash = scales.model_hash;
  for (const ScalesSite& site : scales.sites) {
    ScalesSite& own = kept.sites.emplace_back();
    own.x = site.x;
    own.products = site.products;
    own.factors = site.factors;
    own.low = site.low;
    own.high = site.high;
  }
  return kept;
}

void ScalesUse::take(const ir::Graph& graph, const ir::Node& linear, const Tensor& weight) {
  ++taken_;
  const std::vector<passes::ProductName> names = passes::product_names(linear);
  const int64_t channels = weight.shape()[linear.attrs_as<LinearAttrs>().trans_w ? 1 : 0];
  for (const passes::ProductName& name : names) {
    const passes::SharedFactors found = passes::factors_of(name, factors_);
    if (!found || std::ssize(*found) == channels) continue;
    throw Error(ErrorCode::kInput,
                fmt::format("scales '{}': product '{}' has {} factors, expected {}: one for each "
                            "channel of its input. Write the file again with 'vernier calibrate'",
                            file_, label(name), found->size(), channels));
  }
  if (operands_ == OperandScales::kStatic && !passes::range_of(linear, ranges_)) {
    const std::string& x = graph.value(linear.inputs[0]).name;
    const std::string operand = x.empty() && !names.empty() ? "input of " + label(names[0]) : x;
    if (std::ranges::find(without_range_, operand) == without_range_.end())
      without_range_.push_back(operand);
  }
  if (passes::factors_of(linear, factors_)) return;
  for (const passes::ProductName& name : names) missing_.push_back(label(name));
}

void ScalesUse::check_ranges() const {
  constexpr size_t kMost = 20;
  if (without_range_.empty()) return;
  throw Error(
      ErrorCode::kInput,
      fmt::format("--static: scales '{}' have no static range for {} of quantized products: {}. "
                  "Calibrate the model again, with data in which they are not all 0; or keep "
                  "their products in 16 bits with --rule 'name:PRODUCT compute=f16'; or build "
                  "without --static, with the scales of rows",
                  file_, counted(std::ssize(without_range_), "operand"),
                  listed(without_range_, kMost)));
}

std::vector<std::string> ScalesUse::notes() const {
  if (taken_ == 0)
    return {
        fmt::format("warning: scales '{}' change nothing: no product takes operands of 8 bits. "
                    "Build in mode int8 or fp8",
                    file_)};
  if (missing_.empty()) return {};
  return {
      fmt::format("warning: scales '{}' have no entry for {}: {}. They keep the scales of "
                  "their rows; calibrate the model again, with this version",
                  file_, counted(std::ssize(missing_), "product"), listed(missing_))};
}

}  // namespace vernier::compiler
