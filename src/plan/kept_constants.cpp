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

void add_contents(std::string& key, const Tensor& contents) {
  Hash128 hash;
  hash.add(contents.byte_span());
  add_text(key, name(contents.dtype()));
  add_text(key, str(contents.shape()));
  add_text(key, hex(hash.digest()));
}

void add_operands(std::string& key, const std::vector<backend::Operand>& operands) {
  add_text(key, std::to_string(operands.size()));
  for (const backend::Operand& operand : operands) {
    add_text(key, operand.present ? name(operand.dtype) : "");
    add_text(key, operand.present ? str(operand.shape) : "");
    add_text(key, operand.constant ? "constant" : "");
    if (operand.constant) add_contents(key, *operand.constant);
  }
}

std::string key_of(const backend::KernelDef& kernel, const backend::Problem& problem) {
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

}  // namespace

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
  if (contents.dtype() == stored) return contents;
  std::string key;
  add_text(key, name(stored));
  add_contents(key, contents);
  const auto [it, fresh] = stored_.try_emplace(std::move(key));
  if (fresh) {
    it->second = converted(contents, stored);
    ++made_;
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
  for (PackedTensor& constant : packed) {  // aligned once for all engines that share it
    const Tensor& plain = constant.bytes;
    constant.bytes = Tensor::from_bytes(DType::kU8, plain.shape(), plain.byte_span());
  }
  return packed_.emplace(std::move(key), std::move(packed)).first->second;
}

}  // namespace vernier::plan
