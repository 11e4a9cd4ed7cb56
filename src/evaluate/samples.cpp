// Samples: see samples.h.
#include "evaluate/samples.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace vernier::evaluate {
namespace {

using Kind = InputDomain::Kind;

// The row whose mask has a hole.
constexpr int64_t kRowWithHole = 5;

// Valid positions of row `index`, as a part of its length. There is room for the hole.
double valid_part(const RowId& id) {
  static constexpr double kFirst[] = {1.0, 0.0, 0.5, 0.75};
  if (id.index < 4) return kFirst[id.index];
  std::mt19937_64 random(id.seed * 7919 + static_cast<uint64_t>(id.index));
  const double part = static_cast<double>(random() % 1000) / 1000;
  return id.index == kRowWithHole ? (1 + part) / 2 : part;
}

// Is position `at` of `length` valid in this row?
struct Validity {
  int64_t length, valid;
  PaddingSide side;
  bool hole;
  bool operator()(int64_t at) const {
    if (hole && valid >= 4 && at == (side == PaddingSide::kRight ? valid / 2 : length - valid / 2))
      return false;
    return side == PaddingSide::kRight ? at < valid : at >= length - valid;
  }
};

Validity validity(int64_t length, const Domains& domains, const RowId& id) {
  if (id.fill != RowFill::kByIndex)
    return {length, id.fill == RowFill::kAll ? length : 0, domains.padding, false};
  const auto wanted =
      static_cast<int64_t>(std::lround(valid_part(id) * static_cast<double>(length)));
  return {length, std::clamp<int64_t>(wanted, std::min<int64_t>(1, length), length),
          domains.padding, id.index == kRowWithHole};
}

// The domain's size of an axis in a row: the batch axis is 1.
Shape row_shape(const InputDomain& domain, int batch_axis,
                const std::map<std::string, int64_t>& sizes) {
  Shape shape;
  for (size_t i = 0; i < domain.shape.size(); ++i)
    shape.push_back(static_cast<int>(i) == batch_axis ? 1 : domain.shape[i].evaluate(sizes));
  return shape;
}

int64_t draw_id(const InputDomain& domain, std::mt19937_64& random) {
  const auto count = static_cast<uint64_t>(domain.high - domain.low) + 1;
  const int64_t id = domain.low + static_cast<int64_t>(random() % count);
  if (!domain.pad || id != *domain.pad) return id;
  return id == domain.high ? domain.low : id + 1;  // the padding id stands at padding only
}

EvalTensor sample(const InputDomain& domain, Shape shape, const Validity& valid, bool padded,
                  std::mt19937_64& random) {
  EvalTensor t(domain.dtype, std::move(shape));
  const int64_t last = t.rank() > 0 ? t.shape.back() : 1;
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(domain.min, domain.max);
  for (int64_t i = 0; i < t.elems(); ++i) {
    const bool here = !padded || last != valid.length || valid(i % last);
    const auto at = static_cast<size_t>(i);
    switch (domain.kind) {
      case Kind::kIds:
        t.i[at] = here ? draw_id(domain, random) : domain.pad.value_or(0);
        break;
      case Kind::kIntegers:
        t.i[at] = draw_id(domain, random);
        break;
      case Kind::kFlags:
        t.i[at] = static_cast<int64_t>(random() % 2);
        break;
      case Kind::kUniform:
        t.f[at] = uniform(random);
        break;
      case Kind::kNormal:
        t.f[at] = std::clamp(normal(random), domain.min, domain.max);
        break;
      case Kind::kMask:
        if (t.is_float())
          t.f[at] = here ? 1 : 0;
        else
          t.i[at] = here ? 1 : 0;
        break;
    }
  }
  return t;
}

}  // namespace

bool masks_somewhere(const Domains& domains) {
  return std::ranges::any_of(domains.inputs, [](const InputDomain& d) {
    return d.kind == Kind::kMask || d.pad.has_value();
  });
}

std::map<std::string, int64_t> sizes_of_row(const plan::Plan& plan, const std::string& batch,
                                            int64_t length) {
  std::map<std::string, int64_t> sizes;
  for (const plan::Symbol& symbol : plan.symbols)
    sizes[symbol.name] = std::clamp(symbol.name == batch ? 1 : length, symbol.min, symbol.max);
  return sizes;
}

NamedTensors sample_row(const Domains& domains, const BatchAxes& axes,
                        const std::map<std::string, int64_t>& sizes, const RowId& id) {
  const bool padded = masks_somewhere(domains);
  NamedTensors row;
  uint64_t input = 0;
  for (const InputDomain& domain : domains.inputs) {
    const int axis = axes.of(domain.name);
    const bool shared = axis == kNoAxis;
    std::seed_seq seed{id.seed, ++input,
                       shared ? uint64_t{0} : static_cast<uint64_t>(id.index) + 1};
    std::mt19937_64 random(seed);
    Shape shape = row_shape(domain, axis, sizes);
    const int64_t length = shape.empty() ? 1 : shape.back();
    const Validity valid = validity(length, domains, shared ? RowId{id.seed, 0} : id);
    row.emplace_back(domain.name,
                     sample(domain, std::move(shape), valid, padded, random).to_tensor());
  }
  return row;
}

NamedTensors poisoned_row(const NamedTensors& row, const Domains& domains, const BatchAxes& axes) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kPoison[] = {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity,
                                kLargest, -kLargest};
  NamedTensors poisoned;
  for (const InputDomain& domain : domains.inputs) {
    const Tensor* tensor = find(row, domain.name);
    VERNIER_ASSERT(tensor, domain.name);
    if (axes.of(domain.name) == kNoAxis) {
      poisoned.emplace_back(domain.name, *tensor);
      continue;
    }
    EvalTensor t = EvalTensor::from(*tensor);
    std::mt19937_64 random(99);
    for (size_t i = 0; i < t.f.size(); ++i)
      t.f[i] = domain.kind == Kind::kMask ? 1 : kPoison[i % std::size(kPoison)];
    for (int64_t& v : t.i) v = domain.kind == Kind::kIds ? draw_id(domain, random) : 1;
    poisoned.emplace_back(domain.name, t.to_tensor());
  }
  return poisoned;
}

}  // namespace vernier::evaluate
