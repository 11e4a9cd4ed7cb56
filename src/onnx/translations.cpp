// Lookup in the table of ONNX operators: see translations.h.
#include "onnx/translations.h"

#include <map>

#include "core/error.h"

namespace vernier::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;

std::map<Key, const Translation*> make_index() {
  std::map<Key, const Translation*> index;
  for (const auto group :
       {elementwise_translations(), reduction_translations(), matrix_translations(),
        normalization_translations(), attention_translations(), recurrent_translations(),
        loop_translations(), shape_translations(), movement_translations(), image_translations(),
        spatial_translations(), signal_translations(), quantization_translations(),
        microsoft_translations(), microsoft_attention_translations(),
        microsoft_quantization_translations()}) {
    for (const Translation& row : group) {
      const bool added = index.emplace(Key{row.domain, row.op_type}, &row).second;
      VERNIER_ASSERT(added, "two rows translate " + std::string(row.op_type));
    }
  }
  return index;
}

}  // namespace

const Translation* find_translation(std::string_view domain, std::string_view op_type) {
  static const std::map<Key, const Translation*> kIndex = make_index();
  const auto found = kIndex.find({domain, op_type});
  return found == kIndex.end() ? nullptr : found->second;
}

}  // namespace vernier::onnx
