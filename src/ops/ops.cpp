// The operator table: see ops.h.
#include "ops/ops.h"

#include <array>

namespace vernier::ops {

#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  void infer(InferContext& context);                                               \
  Cost cost(const CostCall& call);
#define VIEW(layout, ...)                                                                 \
  std::optional<Layout> layout(const ir::Graph&, const ir::Node&, size_t, const Layout&); \
  OP(__VA_ARGS__)
#include "ops/ops.def"
#undef OP

const OpDef& def(OpKind kind) {
  static constexpr std::array kOps{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  OpDef{OpKind::k##kind, #kind, min_in, max_in, max_out, flags, &infer, &cost, nullptr},
#define VIEW(layout, kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  OpDef{OpKind::k##kind, #kind, min_in, max_in, max_out, (flags) | kView, &infer, &cost, &layout},
#include "ops/ops.def"
#undef OP
  };
  return kOps[static_cast<size_t>(kind)];
}

}  // namespace vernier::ops
