// Lookup in the table of ONNX operators: see translations.h.
#include "onnx/translations.h"

#include <map>

#include "core/error.h"

namespace vernier::onnx {
namespace {

using Key = std::pair<std::string_view, std::string_view>;

using Index = std::map<Key, const Translation*>;

Index make_index() {
  Index index;
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

const Index& translation_index() {
  static const Index kIndex = make_index();
  return kIndex;
}

}  // namespace

const Translation* find_translation(std::string_view domain, std::string_view op_type) {
  const auto found = translation_index().find({domain, op_type});
  return found == translation_index().end() ? nullptr : found->second;
}

std::vector<const Translation*> all_translations() {
  std::vector<const Translation*> rows;
  for (const auto& [key, row] : translation_index()) rows.push_back(row);
  return rows;
}

}  // namespace vernier::onnx
