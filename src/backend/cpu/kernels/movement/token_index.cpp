// cpu.token_index.scan: where the tokens of a padded batch lie. Contract: TokenIndexAttrs in
// core/attrs.h. The mask is dense, of any type that can be counted. One thread: the mask is small
// beside what is computed for its tokens.
#include <algorithm>

#include "backend/body.h"
#include "core/attrs.h"
#include "core/token_rows.h"

namespace vernier::backend::cpu {
namespace {

int32_t* output(const LaunchCall& call, size_t i) {
  return i < call.out.size() && given(call.out[i]) ? call.out[i].as<int32_t>() : nullptr;
}

template <class T>
void scan(const LaunchCall& call, const TokenRule& rule) {
  const TensorArg& mask = call.in[0];
  const int64_t batch = mask.dim(0), length = mask.dim(1);
  int32_t *rows = output(call, 0), *positions = output(call, 1), *starts = output(call, 2),
          *places = output(call, 3), *ordinals = output(call, 4);
  bool* const kept = call.out.size() > 5 && given(call.out[5]) ? call.out[5].as<bool>() : nullptr;
  const int64_t room = rows != nullptr        ? call.out[0].dim(0)
                       : positions != nullptr ? call.out[1].dim(0)
                       : kept != nullptr      ? call.out[5].dim(0)
                                              : batch * length;
  const auto put = [](int32_t* list, int64_t at, int64_t value) {
    if (list != nullptr) list[at] = static_cast<int32_t>(value);
  };
  int64_t start = 0;
  const T* row = mask.as<const T>();
  for (int64_t b = 0; b < batch; ++b, row += length) {
    const auto is_padding = [&](int64_t s) { return equals_padding(row[s], rule.padding); };
    TokenSpan span = kept_of_row(length, rule, is_padding);
    span.count = std::min(span.count, room - start);
    put(starts, b, start);
    put(ordinals, b, b);
    for (int64_t t = 0; t < span.count; ++t) {
      put(rows, start + t, b * length + span.first + t);
      put(positions, start + t, span.first + t);
    }
    for (int64_t t = 0; kept != nullptr && t < span.count; ++t)
      kept[start + t] = !is_padding(span.first + t);
    for (int64_t s = 0; places != nullptr && s < length; ++s) {
      const bool is_kept = s >= span.first && s < span.end();
      put(places, b * length + s, is_kept ? start + s - span.first : start);
    }
    start += span.count;
  }
  put(starts, batch, start);
  put(ordinals, batch, batch);
  for (int64_t t = start; t < room; ++t) {
    put(rows, t, 0);
    put(positions, t, 0);
    if (kept != nullptr) kept[t] = false;
  }
}

void launch(const LaunchCall& call) {
  const TokenRule rule = TokenIndexAttrs::rule_of(call.attrs);
  switch (call.in[0].dtype) {
    case DType::kBool:
    case DType::kU8:
      return scan<uint8_t>(call, rule);
    case DType::kI8:
      return scan<int8_t>(call, rule);
    case DType::kI32:
      return scan<int32_t>(call, rule);
    case DType::kI64:
      return scan<int64_t>(call, rule);
    case DType::kF64:
      return scan<double>(call, rule);
    default:
      return scan<float>(call, rule);
  }
}

}  // namespace

extern const KernelBody token_index_scan;
constexpr KernelBody token_index_scan{
    .supports = [](const Problem&) { return yes(); },
    .numerics = &exact_numerics,
    .launch = &launch,
};

}  // namespace vernier::backend::cpu
