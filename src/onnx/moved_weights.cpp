// Weights of new model files: see moved_weights.h.
#include "onnx/moved_weights.h"

#include <array>
#include <span>

#include "core/error.h"
#include "core/whole_file.h"
#include "onnx/element_types.h"
#include "onnx/model_file.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDataAlignment = 64;  // of weights in the data file, as model_writer.cpp's
constexpr uint64_t kInlineBelow = 1024;  // bytes of weights that stay in the model file

[[noreturn]] void fail(const std::string& what) { throw Error(ErrorCode::kInput, what); }

// Bytes of the elements that a message holds.
uint64_t inside(const proto::TensorProto& tensor) {
  const auto all = [](const auto& field, size_t width) {
    return static_cast<uint64_t>(field.size()) * width;
  };
  return tensor.raw_data().size() + all(tensor.float_data(), 4) + all(tensor.int32_data(), 4) +
         all(tensor.int64_data(), 8) + all(tensor.double_data(), 8) + all(tensor.uint64_data(), 8);
}

}  // namespace

MovedWeights::MovedWeights(const fs::path& model, Target target)
    : folder_(model.parent_path().empty() ? fs::path(".") : model.parent_path()),
      data_(target.to.parent_path() / (target.to.filename().string() + ".data")),
      target_(std::move(target)),
      external_(folder_) {}

void MovedWeights::collect(proto::GraphProto& graph) { collect(graph, Which::kMain); }

// `places_` keeps the addresses of the main graph's own tensors.
void MovedWeights::collect(proto::GraphProto& graph, Which which) {
  for (proto::TensorProto& tensor : *graph.mutable_initializer()) {
    const bool raw = tensor.has_raw_data();
    const bool beside = read(tensor);
    if (!beside) bytes_ += inside(tensor);
    if (beside || (which == Which::kMain && raw)) places_.push_back(&tensor);
  }
  for (proto::NodeProto& node : *graph.mutable_node()) collect(node);
}

void MovedWeights::collect(proto::NodeProto& node) {
  for (proto::AttributeProto& attribute : *node.mutable_attribute()) {
    if (attribute.has_t() && read(*attribute.mutable_t())) places_.push_back(attribute.mutable_t());
    for (proto::TensorProto& tensor : *attribute.mutable_tensors())
      if (read(tensor)) places_.push_back(&tensor);
    if (attribute.has_g()) collect(*attribute.mutable_g(), Which::kBranch);
    for (proto::GraphProto& graph : *attribute.mutable_graphs()) collect(graph, Which::kBranch);
  }
}

// Is the tensor external? Maps it then.
bool MovedWeights::read(proto::TensorProto& tensor) {
  if (tensor.data_location() != proto::TensorProto::EXTERNAL) return false;
  const std::string where = "tensor " + quote(tensor.name());
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  DType type = element_type(tensor.data_type(), where);
  if (is_packed(type)) {
    shape = {packed_bytes(type, num_elems(shape))};
    type = DType::kU8;
  }
  const auto array = external_.read(tensor, type, shape, where);
  if (!array)
    fail(where + ": its file " + quote(external_location(tensor)) + " is missing, and " +
         target_.what + " holds all weights");
  bytes_ += array->bytes();
  locations_.insert(external_location(tensor));
  mapped_.emplace(&tensor, *array);
  return true;
}

std::optional<std::string> MovedWeights::place(uint64_t external_from) {
  const bool beside = bytes_ >= external_from;
  for (proto::TensorProto* tensor : places_) {
    if (beside && size_of(*tensor) >= kInlineBelow)
      refer(*tensor);
    else
      bring_in(*tensor);
  }
  if (to_data_.empty()) return std::nullopt;
  for (const std::string& location : locations_) check_keeps(folder_ / location, data_);
  WholeFile file({data_, "weights", end_});
  uint64_t at = 0;
  for (const auto& [offset, tensor] : to_data_) {
    file.write(std::vector<std::byte>(offset - at));
    const auto mapped = mapped_.find(tensor);
    const auto bytes = mapped != mapped_.end() ? mapped->second.byte_span()
                                               : std::as_bytes(std::span(tensor->raw_data()));
    file.write(bytes);
    at = offset + bytes.size();
    tensor->clear_raw_data();
  }
  file.commit();
  return data_.filename().string();
}

void MovedWeights::check_keeps(const fs::path& read, const fs::path& to) {
  std::error_code error;  // two files that are not there are not the same
  if (!fs::equivalent(read, to, error)) return;
  fail("writing '" + to.string() + "' would destroy '" + read.string() +
       "', which the model is made from; give another name");
}

void MovedWeights::check_keeps_data() const {
  for (const std::string& location : locations_) check_keeps(folder_ / location, target_.to);
}

uint64_t MovedWeights::size_of(const proto::TensorProto& tensor) const {
  const auto found = mapped_.find(&tensor);
  return found == mapped_.end() ? tensor.raw_data().size() : found->second.bytes();
}

void MovedWeights::bring_in(proto::TensorProto& tensor) {
  const auto found = mapped_.find(&tensor);
  if (found == mapped_.end()) return;
  tensor.set_raw_data(found->second.data(), found->second.bytes());
  tensor.clear_external_data();
  tensor.clear_data_location();
}

void MovedWeights::refer(proto::TensorProto& tensor) {
  const uint64_t offset = (end_ + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  end_ = offset + size_of(tensor);
  to_data_.emplace_back(offset, &tensor);
  tensor.clear_external_data();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<const char*, std::string>{"location", data_.filename().string()},
        std::pair<const char*, std::string>{"offset", std::to_string(offset)},
        std::pair<const char*, std::string>{"length", std::to_string(size_of(tensor))}}) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

MovedModel write_moved(proto::ModelProto& model, const fs::path& from,
                       const MovedWeights::Target& target, uint64_t external_from,
                       const Watch& watch) {
  MovedWeights weights(from, target);
  weights.collect(*model.mutable_graph());
  weights.check_keeps_data();
  WholeFile made({target.to, target.file, 0});
  MovedModel written{.weight_bytes = weights.bytes(),
                     .data_file = weights.place(external_from).value_or("")};
  watch.check_time([&] { return "writing the " + target.file; });
  const std::string bytes = model.SerializeAsString();
  made.write(std::as_bytes(std::span(bytes)));
  made.commit();
  return written;
}

}  // namespace vernier::onnx
