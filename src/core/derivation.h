// Derivation: how a constant was made of the model's own, as an expression. Passes record it
// (ir/derivations.h), plans and engine files hold it (plan/plan.h), and verify evaluates it on the
// model's constants (verify/sweep/constants.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/attr_codec.h"
#include "core/dtype.h"
#include "core/op_kind.h"
#include "core/tensor.h"

namespace vernier {

struct Derivation;
using DerivationPtr = std::shared_ptr<const Derivation>;

/// One of three: a constant of the model (`name`); numbers that are not the model's, but written by
/// the importer or a pass (`numbers`); an output of an operator on others. Each is rounded to its
/// type before the next operator reads it.
struct Derivation {
  std::string name;  ///< in the ONNX file
  Tensor numbers;    ///< of the array, or one that stands in every place
  OpKind op = OpKind::kIdentity;
  AttrBytes attrs;
  size_t output = 0;
  std::vector<DerivationPtr> inputs;  ///< null: absent
  DType dtype = DType::kUndefined;    ///< of the array, as it is held
  Shape shape;
  uint32_t depth = 0;  ///< operators behind one another
};

/// A longer chain of operators is not recorded.
inline constexpr uint32_t kMaxDerivationDepth = 256;

}  // namespace vernier
