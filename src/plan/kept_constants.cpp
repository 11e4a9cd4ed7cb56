// Constants by what they are made from: see kept_constants.h.
#include "plan/kept_constants.h"

#include <memory>
#include <utility>

#include "core/convert.h"
#include "core/hash.h"

namespace vernier::plan {
namespace {

// Text with its length in front: two different lists of texts never give the same key.
void add_text(std::string& key, std::string_view text) {
  key += std::to_string(text.size()) + ":";
  key += text;
}

std::string hash_of(const Tensor& contents) {
  Hash128 hash;
  hash.add(contents.byte_span());
  return hex(hash.digest());
}

}  // namespace

void KeptConstants::expect(const ir::Graph& graph) {
  constexpr size_t kLeastBytes = 4096;  // below it a look takes as long as the hash
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const ir::Value& value = graph.value(static_cast<ir::ValueId>(i));
    if (value.is_constant() && value.constant.bytes() >= kLeastBytes)
      hashes_.add(value.constant, [&] { return hash_of(value.constant); });
  }
}

void KeptConstants::add_contents(std::string& key, const Tensor& contents) const {
  add_text(key, name(contents.dtype()));
  add_text(key, str(contents.shape()));
  const std::string* known = hashes_.find(contents);
  add_text(key, known ? *known : hash_of(contents));
}

void KeptConstants::add_operands(std::string& key,
                                 const std::vector<backend::Operand>& operands) const {
  add_text(key, std::to_string(operands.size()));
  for (const backend::Operand& operand : operands) {
    add_text(key, operand.present ? name(operand.dtype) : "");
    add_text(key, operand.present ? str(operand.shape) : "");
    add_text(key, operand.constant ? "constant" : "");
    if (operand.constant) add_contents(key, *operand.constant);
  }
}

std::string KeptConstants::key_of(const backend::KernelDef& kernel,
                                  const backend::Problem& problem) const {
  std::string key;
  add_text(key, kernel.name);
  add_text(key, name(problem.op));
  add_text(key, {reinterpret_cast<const char*>(problem.attrs.data()), problem.attrs.size()});
  add_operands(key, problem.inputs);
  add_operands(key, problem.outputs);
  Request asked = problem.asked;
  asked.by.clear();
  add_text(key, request_text(asked));
  return key;
}

std::vector<PackedTensor> packed_by(const backend::KernelDef& kernel,
                                    const backend::Problem& problem) {
  std::vector<PackedTensor> packed;
  for (backend::PackedConstant& constant : kernel.pack(problem)) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(constant.bytes));
    const Tensor shared(DType::kU8, {static_cast<int64_t>(bytes->size())}, bytes, bytes->data());
    packed.push_back({constant.input, constant.layout, shared});
  }
  return packed;
}

Tensor KeptConstants::stored(const Tensor& contents, DType stored) {
  const bool same = contents.dtype() == stored;
  if (same && is_aligned(contents)) return contents;
  std::string key;
  add_text(key, name(stored));
  add_contents(key, contents);
  const auto [it, fresh] = stored_.try_emplace(std::move(key));
  if (fresh) {
    it->second = aligned(converted(contents, stored));  // once for all engines, as by packed()
    if (!same) ++made_;
  }
  return it->second;
}

const std::vector<PackedTensor>& KeptConstants::packed(const backend::KernelDef& kernel,
                                                       const backend::Problem& problem) {
  std::string key = key_of(kernel, problem);
  const auto known = packed_.find(key);
  if (known != packed_.end()) return known->second;
  ++made_;
  std::vector<PackedTensor> packed = packed_by(kernel, problem);
  for (PackedTensor& constant : packed)  // aligned once for all engines that share it
    constant.bytes = aligned(constant.bytes);
  return packed_.emplace(std::move(key), std::move(packed)).first->second;
}

}  // namespace vernier::plan
