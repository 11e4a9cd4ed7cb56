// The CPU's kernel list, expanded from kernels.def: see cpu.h.
#include "backend/cpu/cpu.h"

#include "backend/cpu/body.h"
#include "backend/cpu/device.h"
#include "backend/cpu/per_op.h"
#include "backend/cpu/widened.h"

namespace vernier::backend {
namespace cpu {

#define KERNEL(op, strategy, body) extern const KernelBody body;
#define KERNEL_ELEMENTWISE(strategy, body)
#define KERNEL_ALL(strategy, body)
#include "backend/cpu/kernels.def"
#undef KERNEL
#undef KERNEL_ELEMENTWISE
#undef KERNEL_ALL

namespace {

// First the rows of kernels.def, then each of them again for 16-bit operands, then the evaluator.
KernelTable make_table() {
  KernelTable table("cpu");
#define KERNEL(op, strategy, body) table.add(OpKind::k##op, strategy, body);
#define KERNEL_ELEMENTWISE(strategy, body) table.add_all(strategy, &body, kElementwise);
#define KERNEL_ALL(strategy, body)
#include "backend/cpu/kernels.def"
#undef KERNEL
#undef KERNEL_ELEMENTWISE
#undef KERNEL_ALL
#define KERNEL(op, strategy, body) table.add(OpKind::k##op, strategy "_widened", widened<body>());
#define KERNEL_ELEMENTWISE(strategy, body)
#define KERNEL_ALL(strategy, body) table.add_all(strategy, &body, 0);
#include "backend/cpu/kernels.def"
#undef KERNEL
#undef KERNEL_ELEMENTWISE
#undef KERNEL_ALL
  return table;
}

}  // namespace
}  // namespace cpu

const Backend& cpu_backend() {
  static const KernelTable table = cpu::make_table();
  static const Backend backend{.name = "cpu",
                               .kernels = table.kernels(),
                               .make_device = &cpu::make_device,
                               .target = &cpu::target,
                               .environment = &cpu::environment,
                               .attended = DType::kBF16,
                               .token_size_parts = 64};
  return backend;
}

}  // namespace vernier::backend
