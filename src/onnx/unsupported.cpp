// Finds and lists the nodes that cannot be imported: see unsupported.h.
#include "onnx/unsupported.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "core/error.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<proto::NodeProto>;

constexpr std::string_view kRandom = "it draws random numbers; an engine has one answer";
constexpr std::string_view kStrings = "it works on strings; do so before the engine runs";
constexpr std::string_view kSequences = "it works on a sequence of tensors; an engine has tensors";
constexpr std::string_view kTraining = "it is a step of training; an engine only gives answers";
constexpr std::array kRefusals{
    Refusal{"", "Bernoulli", kRandom},
    Refusal{"", "Multinomial", kRandom},
    Refusal{"", "RandomNormal", kRandom},
    Refusal{"", "RandomNormalLike", kRandom},
    Refusal{"", "RandomUniform", kRandom},
    Refusal{"", "RandomUniformLike", kRandom},
    Refusal{"", "RegexFullMatch", kStrings},
    Refusal{"", "StringConcat", kStrings},
    Refusal{"", "StringNormalizer", kStrings},
    Refusal{"", "StringSplit", kStrings},
    Refusal{"", "TfIdfVectorizer", "it counts runs of words; do so before the engine runs"},
    Refusal{"", "ImageDecoder", "it decodes a file; do so before the engine runs"},
    Refusal{"", "ConcatFromSequence", kSequences},
    Refusal{"", "SequenceAt", kSequences},
    Refusal{"", "SequenceConstruct", kSequences},
    Refusal{"", "SequenceEmpty", kSequences},
    Refusal{"", "SequenceErase", kSequences},
    Refusal{"", "SequenceInsert", kSequences},
    Refusal{"", "SequenceLength", kSequences},
    Refusal{"", "SequenceMap", kSequences},
    Refusal{"", "SplitToSequence", kSequences},
    Refusal{"ai.onnx.ml", "", "trees, tables and other models without tensors are left out"},
    Refusal{"ai.onnx.preview.training", "", kTraining},
    Refusal{"ai.onnx.training", "", kTraining},
};

std::string reason_of(std::string_view domain, std::string_view op_type) {
  const auto found = std::ranges::find_if(kRefusals, [&](const Refusal& refusal) {
    return refusal.domain == domain && (refusal.op_type.empty() || refusal.op_type == op_type);
  });
  return found == kRefusals.end() ? "" : std::string(found->why);
}

class Scan {
 public:
  Scan(const Functions& functions, UnsupportedNodes& found)
      : functions_(functions), found_(found) {}

  // In the order of the calls, with an explicit stack: the depth of nested calls is bounded only by
  // the size of the file.
  void nodes(const Nodes& nodes, const Opsets& opsets, const std::string& path) {
    open_.push_back({&nodes, opsets, path});
    while (!open_.empty()) {
      Body& body = open_.back();
      if (body.next == body.nodes->size()) {
        open_.pop_back();
        continue;
      }
      const proto::NodeProto& next = (*body.nodes)[body.next];
      node(next, body.names.origin(next, body.next++, body.path));
    }
  }

 private:
  struct Body {
    const Nodes* nodes;
    Opsets opsets;
    std::string path;
    NodeNames names = {};
    int next = 0;
  };

  void node(const proto::NodeProto& node, const ir::Origin& origin) {
    const std::string domain(canonical_domain(node.domain()));
    if (const auto call = functions_.find(function_key(node)); call != functions_.end()) {
      const proto::FunctionProto& function = *call->second;
      if (!seen_.insert(&function).second) return;  // each body once
      open_.push_back({&function.node(),
                       read_opsets(function.opset_import(), "function " + function.name()),
                       "/" + function.name()});
      return;
    }
    if (domain.empty() && node.op_type() == "If") return;
    const Translation* row = find_translation(domain, node.op_type());
    if (row == nullptr) {
      found_.add(domain, origin, reason_of(domain, node.op_type()));
      return;
    }
    const Opsets& opsets = open_.back().opsets;
    const auto opset = opsets.find(domain);
    if (opset != opsets.end() && opset->second < row->since) {
      found_.add(domain, origin,
                 "at opset " + std::to_string(opset->second) + " (supported since opset " +
                     std::to_string(row->since) + ")");
    }
  }

  const Functions& functions_;
  UnsupportedNodes& found_;
  std::set<const proto::FunctionProto*> seen_;
  std::vector<Body> open_;
};

}  // namespace

std::span<const Refusal> known_refusals() { return kRefusals; }

FunctionKey function_key(const proto::NodeProto& node) {
  return {std::string(canonical_domain(node.domain())), node.op_type(), node.overload()};
}

ir::Origin NodeNames::origin(const proto::NodeProto& node, int index, const std::string& path) {
  const int k = counts_[node.op_type()]++;
  std::string name = node.name().empty() ? node.op_type() + "_" + std::to_string(k) : node.name();
  if (!path.empty()) name = path + "/" + name;
  return {path + "#" + std::to_string(index), std::move(name), node.op_type(), ""};
}

void UnsupportedNodes::add(const std::string& domain, const ir::Origin& origin,
                           const std::string& why) {
  rows_[{domain, origin.op_type, why}].push_back(quote(origin.name) + " (" + origin.key + ")");
}

void UnsupportedNodes::throw_if_any() const {
  if (rows_.empty()) return;
  size_t count = 0;
  std::string list;
  bool foreign = false, standard = false;
  for (const auto& [key, nodes] : rows_) {
    const auto& [domain, op_type, why] = key;
    (domain.empty() ? standard : foreign) = true;
    count += nodes.size();
    list += "\n  " + (domain.empty() ? "" : domain + ".") + op_type + " x" +
            std::to_string(nodes.size()) + (why.empty() ? "" : ", " + why) + ": ";
    for (size_t i = 0; i < nodes.size(); ++i) list += (i ? ", " : "") + nodes[i];
  }
  std::string advice;
  if (standard) {
    advice +=
        "\nExport the model without these nodes, or with another opset; docs/operators.md "
        "lists the supported operators.";
  }
  if (foreign) {
    advice +=
        "\nOperators of other domains come from a runtime's optimizer or a custom exporter: "
        "use the model as it was before that optimization.";
  }
  throw Error(ErrorCode::kInput, std::to_string(count) + (count == 1 ? " node is" : " nodes are") +
                                     " not supported:" + list + advice);
}

void find_unsupported(const Nodes& nodes, const Opsets& opsets, const Functions& functions,
                      const std::string& path, UnsupportedNodes& found) {
  Scan(functions, found).nodes(nodes, opsets, path);
}

}  // namespace vernier::onnx
