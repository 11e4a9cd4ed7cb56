// The program of FusedElementwise: see elementwise_program.h.
#include "core/elementwise_program.h"

#include <algorithm>
#include <charconv>

#include "core/attrs.h"
#include "core/op_attrs.h"

namespace vernier {
namespace {

[[noreturn]] void bad_program(std::string_view instruction, const std::string& what) {
  throw Error(ErrorCode::kInput,
              "elementwise program: instruction '" + std::string(instruction) + "': " + what);
}

// Position of the first `wanted` at or after `from` outside quotes, or npos.
size_t find_unquoted(std::string_view text, char wanted, size_t from) {
  bool quoted = false;
  for (size_t i = from; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == wanted) {
      return i;
    }
  }
  return std::string_view::npos;
}

int parse_operand(std::string_view instruction, std::string_view text, size_t available) {
  int index = 0;
  const char* end = text.data() + text.size();
  if (text.size() < 2 || text[0] != '%') bad_program(instruction, "operands are written %0, %1, …");
  const auto [at, error] = std::from_chars(text.data() + 1, end, index);
  if (error != std::errc{} || at != end) bad_program(instruction, "operands are written %0, %1, …");
  if (index < 0 || static_cast<size_t>(index) >= available) {
    bad_program(instruction, "operand %" + std::to_string(index) +
                                 " is not computed before it; expected an operand below %" +
                                 std::to_string(available));
  }
  return index;
}

void check_operand_count(std::string_view text, const Instruction& instruction) {
  const Arity counts = arity(instruction.op);
  const int got = static_cast<int>(instruction.operands.size());
  if (got >= counts.min_in && (counts.max_in < 0 || got <= counts.max_in)) return;
  bad_program(text, "takes " + std::to_string(counts.min_in) +
                        (counts.max_in == counts.min_in ? "" : " or more") + " operands, got " +
                        std::to_string(got));
}

Instruction parse_instruction(std::string_view text, size_t available) {
  const size_t name_end = std::min(text.find_first_of("{("), text.size());
  const auto op = parse_op_kind(text.substr(0, name_end));
  if (!op) bad_program(text, "unknown operator");
  if (!(flags(*op) & kElementwise) || *op == OpKind::kFusedElementwise)
    bad_program(text, "the operator is not elementwise");
  size_t at = name_end;
  std::string_view attrs;
  if (at < text.size() && text[at] == '{') {
    const size_t close = find_unquoted(text, '}', at);
    if (close == std::string_view::npos) bad_program(text, "expected '}'");
    attrs = text.substr(at, close + 1 - at);
    at = close + 1;
  }
  if (at >= text.size() || text[at] != '(' || text.back() != ')')
    bad_program(text, "expected its operands in parentheses");
  Instruction result{*op, parse_attrs(*op, attrs), {}};
  std::string_view list = text.substr(at + 1, text.size() - at - 2);
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    result.operands.push_back(parse_operand(text, list.substr(0, comma), available));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  check_operand_count(text, result);
  return result;
}

}  // namespace

std::vector<Instruction> parse_elementwise_program(std::string_view text, size_t num_inputs) {
  std::vector<Instruction> program;
  while (!text.empty()) {
    const size_t end = std::min(find_unquoted(text, ';', 0), text.size());
    program.push_back(parse_instruction(text.substr(0, end), num_inputs + program.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (program.empty()) throw Error(ErrorCode::kInput, "the elementwise program is empty");
  return program;
}

std::string print_elementwise_program(std::span<const Instruction> program) {
  std::string text;
  for (const Instruction& instruction : program) {
    if (!text.empty()) text += ';';
    text += std::string(name(instruction.op)) + print_attrs(instruction.op, instruction.attrs);
    for (size_t i = 0; i < instruction.operands.size(); ++i)
      text += (i ? ",%" : "(%") + std::to_string(instruction.operands[i]);
    text += instruction.operands.empty() ? "()" : ")";
  }
  return text;
}

DType result_type(const Instruction& instruction, std::span<const DType> operands) {
  if (flags(instruction.op) & kBoolResult) return DType::kBool;
  if (instruction.op == OpKind::kCast) return decode<CastAttrs>(instruction.attrs).to;
  return operands[instruction.op == OpKind::kWhere ? 1 : 0];
}

}  // namespace vernier
