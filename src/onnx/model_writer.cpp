// Writing models: see model_writer.h. The file is the protobuf wire format of the messages, with
// the weights' bytes streamed where their fields stand.
#include "onnx/model_writer.h"

#include <google/protobuf/io/coded_stream.h>
#include <xxhash.h>

#include <bit>
#include <cstring>
#include <span>

#include "core/error.h"
#include "core/random.h"
#include "core/tensor.h"
#include "core/threads.h"
#include "core/whole_file.h"
#include "onnx/element_types.h"
#include "onnx/onnx.pb.h"
#include "vernier/version.h"

namespace vernier::onnx {
namespace {

namespace fs = std::filesystem;
using google::protobuf::io::CodedOutputStream;

constexpr int64_t kIrVersion = 8;                // of opset 17 (ONNX 1.12)
constexpr size_t kPieceElems = size_t{1} << 22;  // 16 MiB of f32 at a time
constexpr int64_t kMinElems = int64_t{1} << 15;  // per thread that makes values: about 1 ms
constexpr uint64_t kDataAlignment = 64;          // of weights in the data file: a cache line

// Field numbers of the messages that are streamed by hand (onnx.proto).
constexpr uint32_t kModelGraph = 7, kGraphInitializer = 5, kTensorRawData = 9;

// ---- values

uint64_t sequence_of(uint64_t seed, const std::string& name) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

// The elements of one weight, in order.
class WeightValues {
 public:
  WeightValues(const SeededWeight& weight, uint64_t seed)
      : weight_(weight),
        key_(sequence_of(seed, weight.transpose_of.empty() ? weight.name : weight.transpose_of)),
        factors_(static_cast<size_t>(weight.dims.back()), 1.0) {
    for (int64_t i : weight.outliers) factors_[i] = weight.outlier_factor;
  }

  void fill(uint64_t begin, std::span<float> out) const {
    in_parallel(static_cast<int64_t>(out.size()), kMinElems, [&](int64_t from, int64_t to) {
      const auto first = static_cast<size_t>(from);
      fill_part(begin + first, out.subspan(first, static_cast<size_t>(to) - first));
    });
  }

 private:
  void fill_part(uint64_t begin, std::span<float> out) const {
    const uint64_t cols = factors_.size();
    const bool transposed = !weight_.transpose_of.empty();
    const uint64_t rows = transposed ? static_cast<uint64_t>(weight_.dims[0]) : 0;
    uint64_t row = begin / cols, col = begin % cols;
    for (float& value : out) {
      const uint64_t drawn = transposed ? col * rows + row : row * cols + col;
      const double z = SplitMix(key_, 2 * drawn).normal();
      value = static_cast<float>((weight_.mean + weight_.deviation * z) * factors_[col]);
      if (++col < cols) continue;
      ++row;
      col = 0;
    }
  }

  const SeededWeight& weight_;
  uint64_t key_;
  std::vector<double> factors_;  // of the last axis
};

uint64_t elems_of(const SeededWeight& weight) {
  return static_cast<uint64_t>(num_elems(weight.dims));
}
uint64_t bytes_of(const SeededWeight& weight) { return elems_of(weight) * sizeof(float); }

// ---- messages

void describe(proto::ValueInfoProto& info, const std::string& name, DType dtype,
              const std::vector<NamedSize>& dims) {
  info.set_name(name);
  auto* type = info.mutable_type()->mutable_tensor_type();
  type->set_elem_type(static_cast<int32_t>(element_type_number(dtype)));
  type->mutable_shape();
  for (const NamedSize& dim : dims) {
    auto* size = type->mutable_shape()->add_dim();
    if (const auto* number = std::get_if<int64_t>(&dim)) {
      size->set_dim_value(*number);
    } else {
      size->set_dim_param(std::get<std::string>(dim));
    }
  }
}

proto::TensorProto tensor_of(const SmallArray& array) {
  const Tensor tensor =
      array.dtype == DType::kF32
          ? Tensor::from_bytes(array.dtype, array.dims, std::as_bytes(std::span(array.floats)))
          : Tensor::from(array.dtype, array.dims, std::span(array.integers));
  proto::TensorProto message;
  message.mutable_dims()->Assign(array.dims.begin(), array.dims.end());
  message.set_data_type(static_cast<int32_t>(element_type_number(array.dtype)));
  message.set_raw_data(tensor.data(), tensor.bytes());
  return message;
}

void set_attribute(proto::AttributeProto& message, const NodeAttribute& attribute) {
  message.set_name(attribute.name);
  if (const auto* integer = std::get_if<int64_t>(&attribute.value)) {
    message.set_type(proto::AttributeProto::INT);
    message.set_i(*integer);
  } else if (const auto* number = std::get_if<float>(&attribute.value)) {
    message.set_type(proto::AttributeProto::FLOAT);
    message.set_f(*number);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&attribute.value)) {
    message.set_type(proto::AttributeProto::INTS);
    message.mutable_ints()->Assign(list->begin(), list->end());
  } else {
    message.set_type(proto::AttributeProto::TENSOR);
    *message.mutable_t() = tensor_of(std::get<SmallArray>(attribute.value));
  }
}

// Name, type and dims: the fields before the data.
proto::TensorProto head_of(const SeededWeight& weight) {
  proto::TensorProto message;
  message.mutable_dims()->Assign(weight.dims.begin(), weight.dims.end());
  message.set_data_type(static_cast<int32_t>(element_type_number(DType::kF32)));
  message.set_name(weight.name);
  return message;
}

void refer_to(proto::TensorProto& message, const std::string& file, uint64_t offset,
              uint64_t bytes) {
  message.set_data_location(proto::TensorProto::EXTERNAL);
  for (const auto& [key, value] :
       {std::pair<const char*, std::string>{"location", file},
        std::pair<const char*, std::string>{"offset", std::to_string(offset)},
        std::pair<const char*, std::string>{"length", std::to_string(bytes)}}) {
    auto* entry = message.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

// The key and length that precede a field of bytes.
std::string field_head(uint32_t field, uint64_t bytes) {
  std::string text;
  constexpr uint32_t kLengthDelimited = 2;
  for (uint64_t number : {uint64_t{field} << 3 | kLengthDelimited, bytes}) {
    uint8_t buffer[10];
    const uint8_t* end = CodedOutputStream::WriteVarint64ToArray(number, buffer);
    text.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(end - buffer));
  }
  return text;
}

uint64_t align_up(uint64_t value) {
  return (value + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
}

// One initializer of the model file: the bytes before its data, and whether the data follow.
struct Initializer {
  std::string head;
  const SeededWeight* inline_weight = nullptr;
};

Initializer in_the_model(const SeededWeight& weight) {
  const std::string tensor = head_of(weight).SerializeAsString();
  const std::string data = field_head(kTensorRawData, bytes_of(weight));
  const uint64_t bytes = tensor.size() + data.size() + bytes_of(weight);
  return {field_head(kGraphInitializer, bytes) + tensor + data, &weight};
}

Initializer beside_the_model(const SeededWeight& weight, const std::string& file, uint64_t offset) {
  proto::TensorProto message = head_of(weight);
  refer_to(message, file, offset, bytes_of(weight));
  const std::string tensor = message.SerializeAsString();
  return {field_head(kGraphInitializer, tensor.size()) + tensor};
}

}  // namespace

struct ModelWriter::Parts {
  uint64_t seed = 0;
  proto::ModelProto head;        // fields before the graph
  proto::ModelProto tail;        // fields after the graph
  proto::GraphProto graph_head;  // nodes and name
  proto::GraphProto graph_tail;  // inputs and outputs
  std::vector<SeededWeight> weights;
};

ModelWriter::ModelWriter(std::string description, int64_t opset, uint64_t seed)
    : parts_(std::make_unique<Parts>()) {
  parts_->seed = seed;
  parts_->head.set_ir_version(kIrVersion);
  parts_->head.set_producer_name("vernier make-model");
  parts_->head.set_producer_version(kVersion);
  parts_->head.set_doc_string(std::move(description));
  parts_->graph_head.set_name("main_graph");
  parts_->tail.add_opset_import()->set_version(opset);
}
ModelWriter::~ModelWriter() = default;

void ModelWriter::add_input(const std::string& name, DType dtype,
                            const std::vector<NamedSize>& dims) {
  describe(*parts_->graph_tail.add_input(), name, dtype, dims);
}
void ModelWriter::add_output(const std::string& name, DType dtype,
                             const std::vector<NamedSize>& dims) {
  describe(*parts_->graph_tail.add_output(), name, dtype, dims);
}
void ModelWriter::add_node(const NewNode& node) {
  auto* message = parts_->graph_head.add_node();
  message->set_name(node.name);
  message->set_op_type(node.op);
  for (const std::string& input : node.inputs) message->add_input(input);
  for (const std::string& output : node.outputs) message->add_output(output);
  for (const NodeAttribute& attribute : node.attributes)
    set_attribute(*message->add_attribute(), attribute);
}
void ModelWriter::add_weight(SeededWeight weight) {
  VERNIER_ASSERT(!weight.dims.empty(), weight.name);
  parts_->weights.push_back(std::move(weight));
}

uint64_t ModelWriter::num_nodes() const {
  return static_cast<uint64_t>(parts_->graph_head.node_size());
}
uint64_t ModelWriter::weight_bytes() const {
  uint64_t bytes = 0;
  for (const SeededWeight& weight : parts_->weights) bytes += bytes_of(weight);
  return bytes;
}

namespace {

// Writes weights piece by piece and reports the progress.
class WeightStream {
 public:
  WeightStream(uint64_t seed, uint64_t total_bytes, const SaveOptions& options)
      : seed_(seed), total_bytes_(total_bytes), options_(options), piece_(kPieceElems) {}

  void write(WholeFile& file, const SeededWeight& weight) {
    const WeightValues values(weight, seed_);
    const uint64_t elems = elems_of(weight);
    for (uint64_t begin = 0; begin < elems; begin += kPieceElems) {
      const auto part = std::span(piece_).first(std::min<uint64_t>(kPieceElems, elems - begin));
      values.fill(begin, part);
      file.write(std::as_bytes(part));
      written_bytes_ += part.size_bytes();
      if (options_.progress)
        options_.progress(static_cast<double>(written_bytes_) / static_cast<double>(total_bytes_));
    }
  }

 private:
  uint64_t seed_, total_bytes_, written_bytes_ = 0;
  const SaveOptions& options_;
  std::vector<float> piece_;
};

void write_text(WholeFile& file, std::string_view bytes) {
  file.write(std::as_bytes(std::span(bytes)));
}

// Contents and sizes of the files.
struct FileLayout {
  std::vector<Initializer> initializers;  // one per weight
  std::vector<uint64_t> offsets;          // in the data file, of weights stored there
  uint64_t graph_bytes = 0;               // of the field `graph` of the model
  SavedModel saved;
};

FileLayout lay_out(const std::vector<SeededWeight>& weights, const std::string& data_file,
                   bool external) {
  FileLayout layout;
  for (const SeededWeight& weight : weights) {
    const bool beside = external && bytes_of(weight) >= ModelWriter::kInlineBelow;
    const uint64_t offset = align_up(layout.saved.data_bytes);
    layout.offsets.push_back(offset);
    layout.initializers.push_back(beside ? beside_the_model(weight, data_file, offset)
                                         : in_the_model(weight));
    layout.graph_bytes += layout.initializers.back().head.size();
    if (beside) {
      layout.saved.data_file = data_file;
      layout.saved.data_bytes = offset + bytes_of(weight);
    } else {
      layout.graph_bytes += bytes_of(weight);
    }
  }
  return layout;
}

void write_data(const fs::path& path, const FileLayout& layout,
                const std::vector<SeededWeight>& weights, WeightStream& stream) {
  WholeFile file({path, "weights", layout.saved.data_bytes});
  uint64_t at = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (layout.initializers[i].inline_weight) continue;
    file.write(std::vector<std::byte>(layout.offsets[i] - at));
    stream.write(file, weights[i]);
    at = layout.offsets[i] + bytes_of(weights[i]);
  }
  file.commit();
}

}  // namespace

SavedModel ModelWriter::save(const fs::path& path, const SaveOptions& options) const {
  static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");
  const bool external = options.external || weight_bytes() >= kExternalFrom;
  FileLayout layout = lay_out(parts_->weights, path.filename().string() + ".data", external);
  layout.graph_bytes += parts_->graph_head.ByteSizeLong() + parts_->graph_tail.ByteSizeLong();
  const std::string head =
      parts_->head.SerializeAsString() + field_head(kModelGraph, layout.graph_bytes);
  layout.saved.model_bytes = head.size() + layout.graph_bytes + parts_->tail.ByteSizeLong();

  WholeFile file({path, "model", layout.saved.model_bytes});
  WeightStream stream(parts_->seed, weight_bytes(), options);
  if (!layout.saved.data_file.empty()) {
    write_data(path.parent_path() / layout.saved.data_file, layout, parts_->weights, stream);
  }
  write_text(file, head);
  write_text(file, parts_->graph_head.SerializeAsString());
  for (const Initializer& initializer : layout.initializers) {
    write_text(file, initializer.head);
    if (initializer.inline_weight) stream.write(file, *initializer.inline_weight);
  }
  write_text(file, parts_->graph_tail.SerializeAsString());
  write_text(file, parts_->tail.SerializeAsString());
  file.commit();
  return layout.saved;
}

}  // namespace vernier::onnx
