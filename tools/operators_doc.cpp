// Prints docs/operators.md from ops.def, the CPU's kernel list and the table of ONNX operators. A
// test compares the committed file with this output. Run: build/release/operators_doc >
// docs/operators.md
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "backend/cpu/cpu.h"
#include "core/op_kind.h"
#include "onnx/translations.h"
#include "onnx/unsupported.h"

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

/// Lines of at most 100 columns.
void print_filled(const std::string& text) {
  std::string line;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > 100) {
      std::puts(line.c_str());
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  std::puts(line.c_str());
}

/// The ONNX operators that the importer translates, a paragraph for each domain.
void print_translations() {
  std::string_view domain = "none yet";
  std::string names;
  const auto print_domain = [&] {
    if (names.empty()) return;
    std::puts("");
    print_filled((domain.empty() ? std::string("ai.onnx") : std::string(domain)) + ": " + names +
                 ".");
  };
  for (const vernier::onnx::Translation* row : vernier::onnx::all_translations()) {
    if (row->domain != domain) {
      print_domain();
      domain = row->domain;
      names.clear();
    }
    names += (names.empty() ? "" : ", ") + std::string(row->op_type);
  }
  print_domain();
}

void print_refusals() {
  std::puts("\n| left out | because |\n|---|---|");
  for (const vernier::onnx::Refusal& row : vernier::onnx::known_refusals()) {
    const std::string domain = row.domain.empty() ? "" : std::string(row.domain) + ".";
    std::printf("| %s%s | %s |\n", domain.c_str(),
                row.op_type.empty() ? "*" : std::string(row.op_type).c_str(),
                std::string(row.why).c_str());
  }
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
  std::puts(
      "\n## Operators of ONNX\n\n"
      "These are read, from the opset that introduced them to 28. Some become one operator of the "
      "table\nabove, others several. If, too, is read: what it decides when the engine is built is "
      "left out, else\nboth branches are computed.");
  print_translations();
  std::puts(
      "\n## Left out\n\n"
      "A model with such a node is refused, with its name and the reason. So are a Loop whose "
      "number of\nsteps depends on data (one that ends early by its condition is read, with at "
      "most "
      "64 steps), a\nreduction whose axes depend on data, an If whose branches differ in shape, "
      "and Dropout in training\nmode.");
  print_refusals();
  return 0;
}
