// Checks shared by inference functions: see checks.h.
#include "rules/checks.h"

#include <algorithm>

#include "core/value_rules.h"

namespace vernier::rules {

void require_same_type(InferContext& context, size_t i, size_t as) {
  if (context.dtype(i) == context.dtype(as)) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(context.dtype(i))) +
               ", expected " + std::string(name(context.dtype(as))) + " as input " +
               std::to_string(as));
}

void require_float(InferContext& context, size_t i) {
  if (is_float(context.dtype(i))) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(context.dtype(i))) +
               ", expected a float type");
}

void require_integer(InferContext& context, size_t i) {
  if (is_integer(context.dtype(i))) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(context.dtype(i))) +
               ", expected an integer type");
}

void require_signed_index(InferContext& context, size_t i) {
  if (!context.has_input(i)) return;
  const DType type = context.dtype(i);
  if (type == DType::kI32 || type == DType::kI64) return;
  context.fail("input " + std::to_string(i) + " has type " + std::string(name(type)) +
               ", expected i32 or i64");
}

void require_list(InferContext& context, size_t i) {
  require_signed_index(context, i);
  if (!context.has_input(i) || context.rank(i) <= 1) return;
  context.fail("input " + std::to_string(i) + " has shape " + str(context.shape(i)) +
               ", expected a list");
}

void require_one_element(InferContext& context, size_t i) {
  const Dim count = product(context.shape(i));
  if (equal(count, 1) == false) {
    context.fail("input " + std::to_string(i) + " of shape " + str(context.shape(i)) +
                 " must be one number");
  }
  context.require_equal(count, 1);
}

Dim data_size(InferContext& context, size_t axis, const std::optional<Dim>& upper, size_t output) {
  std::string hint(name(context.op()));
  if (output > 0) hint += "_of_" + std::to_string(output);
  return context.fresh_size(hint + "_" + std::to_string(axis), upper);
}

size_t list_length(InferContext& context, size_t i) {
  const Dim count = product(context.shape(i));
  if (!count.is_constant()) {
    context.fail("input " + std::to_string(i) + " has " + count.str() +
                 " elements, one for each axis, and how many is not known when the engine is " +
                 "built: a number of axes that depends on data is not supported here");
  }
  return static_cast<size_t>(count.constant());
}

void require_between(InferContext& context, const char* what, int64_t value, int64_t low,
                     int64_t high) {
  if (value >= low && value <= high) return;
  context.fail(std::string(what) + " is " + std::to_string(value) + ", expected " +
               std::to_string(low) + ".." + std::to_string(high));
}

void require_distinct(InferContext& context, const std::vector<size_t>& axes) {
  for (auto it = axes.begin(); it != axes.end(); ++it) {
    if (std::find(axes.begin(), it, *it) != it)
      context.fail("axis " + std::to_string(*it) + " is given twice");
  }
}

namespace {

// One value rule of one node, and the numbers it concerns, as far as inference knows them.
class ValueCheck {
 public:
  ValueCheck(InferContext& context, const ValueRule& rule)
      : context_(context), rule_(rule), input_(static_cast<size_t>(rule.input)) {}

  void run() {
    if (!context_.has_input(input_)) return;
    if (rule_.kind == ValueRule::Kind::kNonZero) return check_divisors();
    if (!find_sizes()) return;
    if (const Tensor* constant = context_.constant(input_)) return check_constant(*constant);
    if (rule_.kind == ValueRule::Kind::kStarts) return;  // checked at launch
    const auto known = context_.values(input_);
    for (size_t k = 0; known && k < known->size(); ++k) check_size((*known)[k], k);
  }

 private:
  using Kind = ValueRule::Kind;

  // The sizes that bound the elements: one, or for tuples one per element. False: not known.
  bool find_sizes() {
    const auto table = static_cast<size_t>(rule_.table);
    if (!context_.has_input(table)) return false;
    const int64_t rank = context_.rank(table);
    if (rule_.kind == Kind::kAxis) {
      sizes_ = {Dim(rank)};
      return true;
    }
    const int64_t axis = rule_.axis < 0 ? rule_.axis + rank : rule_.axis;
    const SymShape& indices = context_.shape(input_);
    const auto depth = rule_.tuples && !indices.empty() ? indices.back().as_constant() : 1;
    if (!depth || axis < 0 || axis + *depth > rank) return false;
    for (int64_t k = 0; k < *depth; ++k) sizes_.push_back(context_.shape(table)[axis + k]);
    return !sizes_.empty();
  }
  const Dim& size_of(size_t element) const { return sizes_[element % sizes_.size()]; }

  [[noreturn]] void refuse(int64_t value, size_t element, const ValueRange& allowed) const {
    const std::string number = std::to_string(value), at = std::to_string(element),
                      input = "input " + std::to_string(input_), low = std::to_string(allowed.low),
                      high = std::to_string(allowed.high);
    switch (rule_.kind) {
      case Kind::kAxis:
        context_.fail("axis " + number + " is outside [" + low + ", " +
                      std::to_string(allowed.high + 1) + ")");
      case Kind::kIndex:
        context_.fail("index " + number + " at element " + at + " of the indices is outside [" +
                      low + ", " + std::to_string(allowed.high + 1) + ")");
      case Kind::kStarts:
        context_.fail(input + " must ascend from 0 to at most " + high + "; element " + at +
                      " is " + number);
      default:
        context_.fail(number + " at element " + at + " of " + input + " is outside [" + low + ", " +
                      high + "]");
    }
  }

  void check_constant(const Tensor& constant) {
    if (!is_integer(constant.dtype())) return;  // the operator's rule checks the type
    // The smallest and largest elements whose size is known only at run time.
    std::vector<std::optional<std::pair<int64_t, int64_t>>> extremes(sizes_.size());
    int64_t before = 0;
    for (int64_t i = 0; i < constant.elems(); ++i) {
      const auto element = static_cast<size_t>(i);
      const int64_t value = constant.integer_at(i);
      if (rule_.ignored == value) continue;
      if (rule_.kind == Kind::kStarts && (value < before || (i == 0 && value != 0)))
        refuse(value, element,
               allowed_values(rule_.kind, size_of(element).as_constant().value_or(INT64_MAX)));
      before = value;
      if (const auto size = size_of(element).as_constant()) {
        const ValueRange allowed = allowed_values(rule_.kind, *size);
        if (!allowed.holds(value)) refuse(value, element, allowed);
        continue;
      }
      auto& both = extremes[element % sizes_.size()];
      if (!both) both = {value, value};
      both = {std::min(both->first, value), std::max(both->second, value)};
    }
    for (size_t k = 0; k < extremes.size(); ++k) {
      if (!extremes[k]) continue;
      check_size(extremes[k]->first, k);
      if (extremes[k]->second != extremes[k]->first) check_size(extremes[k]->second, k);
    }
  }

  // A number or an expression of sizes.
  void check_size(const Dim& value, size_t element) {
    const Dim& size = size_of(element);
    const auto number = value.as_constant(), limit = size.as_constant();
    if (number && limit) {
      const ValueRange allowed = allowed_values(rule_.kind, *limit);
      if (rule_.ignored != number && !allowed.holds(*number)) refuse(*number, element, allowed);
      return;
    }
    constexpr int64_t kFar = int64_t{1} << 62;  // beyond every size; can be negated
    if (number && (*number < -kFar || *number > kFar))
      context_.fail("value " + std::to_string(*number) + " is larger than any size");
    const bool from_end = rule_.kind == Kind::kIndex || rule_.kind == Kind::kAxis;
    context_.require_at_most(from_end ? Dim(0) - size : Dim(0), value);
    const bool reaches_size = rule_.kind == Kind::kLength || rule_.kind == Kind::kStarts;
    context_.require_at_most(reaches_size ? value : value + Dim(1), size);
  }

  void check_divisors() {
    if (is_float(context_.dtype(input_))) return;
    const Tensor* constant = context_.constant(input_);
    for (int64_t i = 0; constant != nullptr && i < constant->elems(); ++i) {
      if (constant->integer_at(i) != 0) continue;
      context_.fail("integer division by zero; input " + std::to_string(input_) +
                    " must not hold 0, but element " + std::to_string(i) + " is");
    }
  }

  InferContext& context_;
  const ValueRule& rule_;
  size_t input_;
  std::vector<Dim> sizes_;
};

}  // namespace

void check_values(InferContext& context) {
  if (!has_value_rules(context.op())) return;
  for (const ValueRule& rule :
       value_rules(context.op(), context.attr_bytes(), context.num_inputs()))
    ValueCheck(context, rule).run();
}

void require_rank(InferContext& context, size_t i, int64_t rank) {
  if (context.rank(i) == rank) return;
  context.fail("input " + std::to_string(i) + " has shape " + str(context.shape(i)) +
               ", expected rank " + std::to_string(rank));
}

void require_fits(InferContext& context, size_t i, const SymShape& target) {
  const SymShape shape = context.shape(i);
  const std::string mismatch = "input " + std::to_string(i) + " of shape " + str(shape) +
                               " does not broadcast to " + str(target);
  if (shape.size() > target.size()) context.fail(mismatch);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dim& wanted = target[target.size() - shape.size() + axis];
    if (shape[axis] == Dim(1)) continue;
    if (equal(shape[axis], wanted) == false) context.fail(mismatch);
    context.unify(shape[axis], wanted);
  }
}

double tensor_bytes(const CostCall& call) {
  double bytes = 0;
  for (size_t i = 0; i < call.in.size(); ++i)
    bytes += static_cast<double>(num_elems(call.in[i])) *
             static_cast<double>(size_bytes(call.in_types[i]));
  for (size_t i = 0; i < call.out.size(); ++i)
    bytes += static_cast<double>(num_elems(call.out[i])) *
             static_cast<double>(size_bytes(call.out_types[i]));
  return bytes;
}

}  // namespace vernier::rules
