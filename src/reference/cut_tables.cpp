// Tables cut to the rows that are read: see cut_tables.h.
#include "reference/cut_tables.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/threads.h"
#include "core/value_rules.h"

namespace vernier::reference {

std::optional<CutTable> cut_table(const Tensor& table, const EvalTensor& ids) {
  const int64_t rows = table.shape()[0], width = table.elems() / rows;
  const size_t row_bytes = static_cast<size_t>(width) * size_bytes(table.dtype());
  std::unordered_map<int64_t, int64_t> places;  // of the rows that are read
  places.reserve(ids.i.size());
  std::vector<int64_t> read;
  CutTable result{.table = {}, .ids = ids};
  for (int64_t& id : result.ids.i) {
    if (id < -rows || id >= rows) return std::nullopt;
    const int64_t row = id < 0 ? id + rows : id;
    const auto [place, fresh] = places.emplace(row, std::ssize(read));
    id = place->second;
    if (fresh) read.push_back(row);
  }
  Shape shape = table.shape();
  shape[0] = std::ssize(read);
  const int64_t least = std::max<int64_t>(1, (int64_t{1} << 18) / std::max<int64_t>(1, width));
  const Tensor small = Tensor::filled(table.dtype(), std::move(shape), [&](std::byte* to) {
    in_parallel(std::ssize(read), least, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(to + static_cast<size_t>(i) * row_bytes,
                    table.data() + static_cast<size_t>(read[i]) * row_bytes, row_bytes);
    });
  });
  result.table = EvalTensor::from(small);
  return result;
}

std::vector<CutTable> cut_tables(OpKind op, AttrView attrs, size_t num_inputs,
                                 const std::function<const Tensor*(size_t)>& table,
                                 const std::function<const EvalTensor*(size_t)>& ids,
                                 bool device_keeps) {
  constexpr int64_t kLargeElems = int64_t{1} << 20;
  std::vector<CutTable> tables;
  if (op != OpKind::kGather && op != OpKind::kEmbedNorm) return tables;
  for (const ValueRule& rule : value_rules(op, attrs, num_inputs)) {
    const auto t = static_cast<size_t>(rule.table), i = static_cast<size_t>(rule.input);
    if (rule.axis != 0 || t >= num_inputs || i >= num_inputs) continue;
    const Tensor* whole = table(t);
    const EvalTensor* read = ids(i);
    if (!whole || !read || !is_float(whole->dtype()) || whole->rank() == 0 ||
        whole->elems() < kLargeElems)
      continue;
    if (device_keeps && whole->shape()[0] <= 8 * read->elems()) continue;
    if (auto small = cut_table(*whole, *read)) {
      small->table_input = t;
      small->ids_input = i;
      tables.push_back(std::move(*small));
    }
  }
  return tables;
}

}  // namespace vernier::reference
