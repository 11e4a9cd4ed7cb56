// Large tables of which an operator reads few rows: only those are converted to FP64.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "core/attr_codec.h"
#include "core/op_kind.h"
#include "core/tensor.h"

namespace vernier::reference {

/// A table cut to the rows that are read, and the ids of these rows in it: two inputs of a step.
struct CutTable {
  size_t table_input = 0, ids_input = 0;
  EvalTensor table, ids;
};

/// The tables of a Gather along axis 0 or an EmbedNorm that have at least 2^20 elements, cut; in
/// place of them the operator gives the same results. A table with an id outside of it is left as
/// it is: the evaluator reports the id. `table`: a float array by input, null: leave it alone;
/// `ids`: an integer array by input, null: absent. `device_keeps`: a device keeps constants, so
/// that tables with up to eight times as many rows as are read are left alone.
std::vector<CutTable> cut_tables(OpKind op, AttrView attrs, size_t num_inputs,
                                 const std::function<const Tensor*(size_t input)>& table,
                                 const std::function<const EvalTensor*(size_t input)>& ids,
                                 bool device_keeps = false);

/// One table [rows, …], cut to the rows that `ids` name; empty if one is outside of it.
std::optional<CutTable> cut_table(const Tensor& table, const EvalTensor& ids);

}  // namespace vernier::reference
