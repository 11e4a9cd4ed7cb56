// Tables and ids of EmbedNorm: see embedding.h. Contract: EmbedNormAttrs in core/attrs.h.
#include "backend/cuda/kernels/norm/embedding.h"

#include "backend/cuda/kernels/norm/norm.h"
#include "backend/cuda/lines.h"

namespace vernier::backend::cuda {

Support supports_tables(const Problem& problem, int64_t most) {
  const int64_t tables = problem.attrs_as<EmbedNormAttrs>().tables;
  if (tables > most) return no("more than " + std::to_string(most) + " tables");
  for (size_t i = 0; i < static_cast<size_t>(2 * tables); i += 2) {
    const DType type = problem.inputs[i].dtype;
    if (type != DType::kI32 && type != DType::kI64) return no("ids of " + std::string(name(type)));
  }
  if (problem.outputs[0].shape.size() > kMaxAxes) return no("more than 10 axes");
  return yes();
}

StridedIndex id_index(TensorArg ids, const TensorArg& out) {
  // As rows of one element: its last axis is the last row axis.
  ids.shape[ids.rank] = ids.strides[ids.rank] = 1;
  ++ids.rank;
  return row_index(ids, out, out.rank - 1);
}

}  // namespace vernier::backend::cuda
