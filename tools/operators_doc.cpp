// Prints docs/operators.md from ops.def and the CPU's kernel list. A test compares the committed
// file with this output. Run: build/release/operators_doc > docs/operators.md
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "backend/cpu/cpu.h"
#include "core/op_kind.h"

namespace {

using vernier::OpKind;

struct Row {
  OpKind op;
  int min_inputs, max_inputs;
  std::string_view evaluator;
};
constexpr std::array kRows{
#define OP(kind, min_in, max_in, max_out, flags, attrs, points, infer, eval, cost) \
  Row{OpKind::k##kind, min_in, max_in, #eval},
#include "ops/ops.def"
#undef OP
};

std::string inputs(const Row& row) {
  std::string text = std::to_string(row.min_inputs);
  if (row.max_inputs < 0) return text + " or more";
  if (row.max_inputs != row.min_inputs) text += " to " + std::to_string(row.max_inputs);
  return text;
}

/// The CPU's kernels for an operator besides its evaluator, fastest first.
std::string fast_kernels(OpKind op) {
  std::string names;
  for (const vernier::backend::KernelDef& kernel : vernier::backend::cpu_backend().kernels) {
    if (kernel.op != op || kernel.name.ends_with(".evaluator")) continue;
    if (kernel.name.ends_with("_widened")) continue;  // every row is repeated for 16 bits
    names += (names.empty() ? "`" : ", `") + std::string(kernel.name) + "`";
  }
  return names.empty() ? "–" : names;
}

std::string kind_of(OpKind op) {
  if (op == OpKind::kShapeValues) return "internal";
  return (flags(op) & vernier::kComposite) != 0 ? "composite" : "ONNX";
}

}  // namespace

int main() {
  std::puts(
      "# Operators\n\n"
      "Made by `operators_doc` from `src/ops/ops.def` and `src/backend/cpu/kernels.def`; do not "
      "edit.\n"
      "Every operator runs through its FP64 evaluator; where a fast kernel refuses a problem, the\n"
      "ledger says why. Composites are raised from several ONNX nodes or made by a fusion. Views "
      "may\n"
      "also become an alias of their input, without any kernel. ShapeValues is no ONNX operator:\n"
      "numbers that follow from the sizes of the inputs.\n\n"
      "| operator | kind | inputs | evaluator | fast CPU kernel |\n|---|---|---|---|---|");
  size_t fast = 0;
  for (const Row& row : kRows) {
    const std::string kernels = fast_kernels(row.op);
    fast += kernels.front() == '`' ? 1 : 0;
    std::printf("| %s | %s | %s | `%s` | %s |\n", std::string(name(row.op)).c_str(),
                kind_of(row.op).c_str(), inputs(row).c_str(), std::string(row.evaluator).c_str(),
                kernels.c_str());
  }
  std::printf("\n%zu operators, %zu with a fast CPU kernel.\n", kRows.size(), fast);
  return 0;
}
