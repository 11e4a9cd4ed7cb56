// The CPU's kernel list, expanded from kernels.def: see cpu.h.
#include "backend/cpu/cpu.h"

#include <deque>

#include "backend/cpu/body.h"
#include "backend/cpu/device.h"
#include "backend/cpu/kernels/per_op.h"
#include "backend/cpu/kernels/widened.h"
#include "core/names.h"

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

struct Table {
  std::deque<std::string> names;  // KernelDef::name points here
  std::vector<KernelDef> kernels;

  void add(OpKind op, std::string_view strategy, const KernelBody& body) {
    names.push_back("cpu." + snake_case(vernier::name(op)) + "." + std::string(strategy));
    kernels.push_back({.name = names.back(),
                       .op = op,
                       .supports = body.supports,
                       .numerics = body.numerics,
                       .bit_class = body.bit_class,
                       .strided_inputs = body.strided_inputs,
                       .index_inputs = body.index_inputs,
                       .pack = body.pack,
                       .unpack = body.unpack,
                       .layout_is_current = body.layout_is_current,
                       .create = body.create,
                       .prepare = body.prepare,
                       .launch = body.launch});
  }
  void add_all(std::string_view strategy, const KernelBody& (*body)(OpKind), uint32_t with_flag) {
    for (size_t i = 0; i < num_op_kinds(); ++i) {
      const auto op = static_cast<OpKind>(i);
      if (with_flag == 0 || (flags(op) & with_flag) != 0) add(op, strategy, body(op));
    }
  }
};

// First the rows as they stand, then each of them again for 16-bit operands, then the evaluator.
Table make_table() {
  Table table;
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
  static const cpu::Table table = cpu::make_table();
  static const Backend backend{.name = "cpu",
                               .kernels = table.kernels,
                               .make_device = &cpu::make_device,
                               .target = &cpu::target};
  return backend;
}

}  // namespace vernier::backend
