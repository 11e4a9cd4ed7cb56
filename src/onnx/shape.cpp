// Translations of operators about shapes, constants and optional tensors. Contract: node_context.h,
// translations.h.
#include <array>

#include "core/attrs.h"
#include "onnx/element_types.h"
#include "onnx/translations.h"

namespace vernier::onnx {
namespace {

// The value of a constant has several forms; exactly one must be present.
void translate_constant(NodeContext& node) {
  Attributes& attrs = node.attrs();
  for (const char* name : {"value_string", "value_strings"}) {
    if (attrs.has(name)) node.unsupported("it holds strings");
  }
  if (attrs.has("sparse_value")) node.unsupported("it is sparse; store it as a dense tensor");
  int forms = 0;
  for (const char* name : {"value", "value_float", "value_floats", "value_int", "value_ints"}) {
    forms += attrs.has(name);
  }
  if (forms != 1) node.fail("has " + std::to_string(forms) + " value attributes; expected one");
  Tensor tensor;
  if (const auto* stored = attrs.tensor("value")) {
    tensor = node.read_tensor(*stored);
  } else if (attrs.has("value_float")) {
    tensor = Tensor::scalar(DType::kF32, attrs.number("value_float", 0));
  } else if (attrs.has("value_floats")) {
    const std::vector<double> values = attrs.numbers("value_floats");
    tensor = Tensor::from(DType::kF32, {static_cast<int64_t>(values.size())},
                          std::span<const double>(values));
  } else if (attrs.has("value_int")) {
    tensor = Tensor::i64({attrs.integer("value_int", 0)}).reshaped({});
  } else {
    tensor = Tensor::i64(attrs.integers("value_ints"));
  }
  node.set_output(0, node.constant(std::move(tensor)));
}

void translate_shape(NodeContext& node) {
  ShapeOfAttrs attrs;
  if (node.opset() >= 15) {
    attrs.start = node.attrs().integer("start", 0);
    attrs.end = node.attrs().integer("end", INT64_MAX);
  }
  node.set_output(0, node.emit(OpKind::kShape, node.all_inputs(), attrs));
}

void translate_reshape(NodeContext& node) {
  ShapeAttrs attrs;
  if (node.opset() >= 14) attrs.allowzero = node.attrs().flag("allowzero", 0);
  node.set_output(0, node.emit(OpKind::kReshape, {node.input(0), node.input(1)}, attrs));
}

// axes are an attribute before opset 13, then input 1.
template <OpKind kOp>
void translate_axes(NodeContext& node) {
  AxesAttrs attrs;
  std::vector<ir::ValueId> inputs{node.input(0)};
  if (node.opset() < 13) {
    const auto axes = node.attrs().optional_integers("axes");
    attrs.given = axes.has_value();
    attrs.axes = axes.value_or(std::vector<int64_t>());
  } else if (node.has_input(1)) {
    const ir::ValueId axes = node.input(1);
    if (const auto known = node.integers(axes)) {
      attrs.axes = *known;
    } else {
      attrs.given = false;
      inputs.push_back(axes);
    }
  } else {
    attrs.given = false;
  }
  if (kOp == OpKind::kUnsqueeze && !attrs.given && inputs.size() == 1) {
    node.fail("its axes are missing");
  }
  node.set_output(0, node.emit(kOp, std::move(inputs), attrs));
}

void translate_flatten(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kFlatten, node.all_inputs(),
                               AxisAttrs{node.attrs().integer("axis", 1)}));
}

void translate_expand(NodeContext& node) {
  node.set_output(0, node.emit(OpKind::kExpand, {node.input(0), node.input(1)}, ShapeAttrs{}));
}

void translate_transpose(NodeContext& node) {
  const ir::ValueId x = node.input(0);
  TransposeAttrs attrs;
  if (const auto perm = node.attrs().optional_integers("perm")) {
    attrs.perm = *perm;
  } else {
    for (int64_t axis = node.rank(x) - 1; axis >= 0; --axis) attrs.perm.push_back(axis);
  }
  node.set_output(0, node.emit(OpKind::kTranspose, {x}, attrs));
}

void translate_constant_of_shape(NodeContext& node) {
  ConstantOfShapeAttrs attrs;
  if (const auto* value = node.attrs().tensor("value")) {
    const Tensor fill = node.read_tensor(*value);
    if (fill.elems() != 1) node.fail("attribute 'value' must hold one element");
    attrs.dtype = fill.dtype();
    constexpr int64_t kExact = int64_t{1} << 53;
    if (is_float(fill.dtype())) {
      attrs.value = fill.float_at(0);
    } else if (const int64_t number = fill.integer_at(0); number > -kExact && number < kExact) {
      attrs.value = static_cast<double>(number);
    } else {
      node.unsupported("its fill value " + std::to_string(number) + " is beyond 2^53");
    }
  }
  node.set_output(0, node.emit(OpKind::kConstantOfShape, {node.input(0)}, attrs));
}

void translate_range(NodeContext& node) {
  // The type of intermediate steps, from opset 27: ours are at least f32.
  if (node.attrs().integer("stash_type", 1) != 1) node.unsupported("its stash_type is not FLOAT");
  node.set_output(0, node.emit(OpKind::kRange, node.all_inputs()));
}

void translate_eye_like(NodeContext& node) {
  EyeLikeAttrs attrs;
  attrs.k = node.attrs().integer("k", 0);
  if (node.attrs().has("dtype")) {
    attrs.dtype =
        element_type(node.attrs().required_integer("dtype"), "EyeLike: attribute 'dtype'");
  }
  node.set_output(0, node.emit(OpKind::kEyeLike, node.all_inputs(), attrs));
}

// ---- optional tensors: whether there is an element is known here

void translate_optional(NodeContext& node) {
  node.attrs().ignore("type");  // of the element
  if (const ir::ValueId element = node.optional_input(0); element != ir::kNoValue)
    node.set_output(0, node.emit(OpKind::kIdentity, {element}));
  else
    node.set_absent(0);
}

void translate_optional_has_element(NodeContext& node) {
  const bool has = node.optional_input(0) != ir::kNoValue;
  node.set_output(0, node.constant(Tensor::scalar(DType::kBool, has ? 1 : 0)));
}

void translate_optional_get_element(NodeContext& node) {
  const ir::ValueId element = node.optional_input(0);
  if (element == ir::kNoValue) node.fail("its input is an optional without an element");
  node.set_output(0, node.emit(OpKind::kIdentity, {element}));
}

constexpr std::array kRows{
    Translation{"", "Constant", 1, translate_constant},
    Translation{"", "Shape", 1, translate_shape},
    Translation{"", "Size", 1, translate_plain<OpKind::kSize>},
    Translation{"", "Reshape", 5, translate_reshape},
    Translation{"", "Squeeze", 1, translate_axes<OpKind::kSqueeze>},
    Translation{"", "Unsqueeze", 1, translate_axes<OpKind::kUnsqueeze>},
    Translation{"", "Flatten", 1, translate_flatten},
    Translation{"", "Expand", 8, translate_expand},
    Translation{"", "Transpose", 1, translate_transpose},
    Translation{"", "ConstantOfShape", 9, translate_constant_of_shape},
    Translation{"", "Range", 11, translate_range},
    Translation{"", "EyeLike", 9, translate_eye_like},
    Translation{"", "Optional", 15, translate_optional},
    Translation{"", "OptionalHasElement", 15, translate_optional_has_element},
    Translation{"", "OptionalGetElement", 15, translate_optional_get_element},
};

}  // namespace

std::span<const Translation> shape_translations() { return kRows; }

}  // namespace vernier::onnx
