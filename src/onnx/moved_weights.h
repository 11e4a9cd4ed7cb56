// MovedWeights: the weights of a model that becomes a new file: those of external data are mapped
// until they lie in the new file, or in a data file beside it. Internal to src/onnx.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/limits.h"
#include "onnx/external_data.h"
#include "onnx/onnx.pb.h"

namespace vernier::onnx {

class MovedWeights {
 public:
  struct Target {
    std::filesystem::path to;
    std::string what;  ///< for messages: "a Q/DQ model"
    std::string file;  ///< the same of its file: "Q/DQ model"
  };
  MovedWeights(const std::filesystem::path& model, Target target);

  /// Finds the weights of a graph, and maps what lies beside the model. The graph must stay where
  /// it is. Throws Error(kInput) where external data are missing or damaged.
  void collect(proto::GraphProto& graph);
  /// Puts them where they belong: into the messages, or from `external_from` bytes in all on into
  /// the data file, which is written. Its name; empty: there is none.
  std::optional<std::string> place(uint64_t external_from);
  uint64_t bytes() const { return bytes_; }

  /// Throws Error(kInput) where `to` is a file of the model that is read.
  static void check_keeps(const std::filesystem::path& read, const std::filesystem::path& to);
  /// The same for the files of external data that were collected.
  void check_keeps_data() const;

 private:
  enum class Which : uint8_t { kMain, kBranch };
  void collect(proto::GraphProto& graph, Which which);
  void collect(proto::NodeProto& node);
  bool read(proto::TensorProto& tensor);
  uint64_t size_of(const proto::TensorProto& tensor) const;
  void bring_in(proto::TensorProto& tensor);
  void refer(proto::TensorProto& tensor);

  std::filesystem::path folder_, data_;
  Target target_;
  ExternalData external_;
  uint64_t bytes_ = 0, end_ = 0;
  std::vector<proto::TensorProto*> places_;
  std::map<const proto::TensorProto*, Tensor> mapped_;
  std::set<std::string> locations_;
  std::vector<std::pair<uint64_t, proto::TensorProto*>> to_data_;  // by offset
};

/// What a new model file has of weights.
struct MovedModel {
  uint64_t weight_bytes = 0;
  std::string data_file;  ///< name of the file beside it; empty: there is none
};
/// Writes `model`, made from the one at `from`, with its weights, each file whole or not at all.
/// Throws as MovedWeights does, and Error(kMachine) where the files cannot be written or a limit of
/// `watch` is reached.
MovedModel write_moved(proto::ModelProto& model, const std::filesystem::path& from,
                       const MovedWeights::Target& target, uint64_t external_from,
                       const Watch& watch);

}  // namespace vernier::onnx
