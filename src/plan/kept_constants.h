// Constants as engines hold them, kept from one plan to the next: of a model that is planned many
// times (bisect), only what changed is rounded and packed again.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "core/tensor_facts.h"
#include "ir/graph.h"

namespace vernier::plan {

/// A PackedConstant whose bytes can be shared.
struct PackedTensor {
  int input = 0;
  std::string layout;
  Tensor bytes;  ///< u8 [size]
};

/// What kernel.pack(problem) gives.
std::vector<PackedTensor> packed_by(const backend::KernelDef& kernel,
                                    const backend::Problem& problem);

/// Identified by what they are made from: kernel, attributes, types, shapes, requests and the hash
/// of the contents (XXH3-128). Keeps everything it made.
class KeptConstants {
 public:
  /// Hashes the constants of a graph that is planned again and again once for all.
  void expect(const ir::Graph& graph);
  /// As converted(contents, stored), in memory that engines need not align.
  Tensor stored(const Tensor& contents, DType stored);
  /// As packed_by().
  const std::vector<PackedTensor>& packed(const backend::KernelDef& kernel,
                                          const backend::Problem& problem);
  /// How often something had to be rounded or packed.
  int64_t made() const { return made_; }

 private:
  void add_contents(std::string& key, const Tensor& contents) const;
  void add_operands(std::string& key, const std::vector<backend::Operand>& operands) const;
  std::string key_of(const backend::KernelDef& kernel, const backend::Problem& problem) const;

  TensorFacts<std::string> hashes_;
  std::map<std::string, Tensor> stored_;
  std::map<std::string, std::vector<PackedTensor>> packed_;
  int64_t made_ = 0;
};

}  // namespace vernier::plan
