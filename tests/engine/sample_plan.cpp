// The plan by hand: see sample_plan.h. A field added to plan.h does not compile here until
// members() names it, so that the comparison cannot forget one.
#include "sample_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/attrs.h"

namespace vernier::engine {
namespace {

using plan::kNone;
using Kind = plan::PlanValue::Kind;

Tensor floats(Shape shape) {
  std::vector<double> values(static_cast<size_t>(num_elems(shape)));
  std::iota(values.begin(), values.end(), 0.5);
  return Tensor::from(DType::kF32, std::move(shape), std::span<const double>(values));
}

plan::Blob plain(const Tensor& t) { return {t.dtype(), t.shape(), "", t}; }

plan::PlanValue value(std::string name, DType dtype, SymShape shape, Kind kind) {
  plan::PlanValue v;
  v.name = std::move(name);
  v.dtype = dtype;
  v.shape = std::move(shape);
  v.kind = kind;
  return v;
}
plan::PlanValue constant(std::string name, const plan::Blob& blob, int32_t index) {
  auto v = value(std::move(name), blob.dtype, SymShape(blob.shape.begin(), blob.shape.end()),
                 Kind::kConstant);
  v.constant = index;
  return v;
}
plan::PlanValue arena(std::string name, DType dtype, SymShape shape, int32_t first, int32_t last) {
  auto v = value(std::move(name), dtype, std::move(shape), Kind::kArena);
  v.first_step = first;
  v.last_step = last;
  return v;
}

Numerics linear_numerics() {
  Numerics n;
  n.store = DType::kF16;
  n.compute = DType::kBF16;
  n.accumulate = DType::kF16;
  n.accumulate_mode = PointRounding::Mode::kTruncate;
  n.accumulate_block = 128;
  n.inner = DType::kF64;
  n.points[0] = {DType::kBF16, PointRounding::Mode::kNearest, 0};
  n.points[2] = {DType::kF16, PointRounding::Mode::kTruncate, 128,
                 PointRounding::Scale::kUnnormalisedRoundedSum};
  n.approximation_abs = 3.8e-7;
  n.approximation_rel = 0x1p-24;
  return n;
}

void add_values(plan::Plan& p, const Dim& batch, const Dim& seq) {
  p.values.push_back(value("ids", DType::kI64, {batch, seq}, Kind::kInput));
  p.values.push_back(constant("table", p.blobs[0], 0));
  p.values.push_back(value("", DType::kI64, {3}, Kind::kShapeValues));
  p.values.back().values = {batch * seq, 4, min(seq, floordiv(batch + 7, 8))};
  p.values.push_back(arena("hidden", DType::kF32, {batch, seq, 4}, 0, 2));
  p.values.push_back(value("last_token", DType::kF32, {batch, 4}, Kind::kAlias));
  p.values.back().alias_of = 3;
  p.values.back().offset_elems = seq * 4 - 4;
  p.values.back().strides = {seq * 4, 1};
  p.values.push_back(arena("logits", DType::kF32, {batch, 3}, 1, 2));
  p.values.push_back(constant("bias", p.blobs[2], 2));
  p.values.push_back(arena("found", DType::kI64, {3, Dim::symbol("count") - 1}, 2, 2));
  p.values.push_back(constant("nothing", p.blobs[3], 3));
  p.values.push_back(constant("scalar", p.blobs[4], 4));
}

void add_steps(plan::Plan& p) {
  plan::Step gather;
  gather.kernel = "cpu.gather.rows";
  gather.op = OpKind::kGather;
  gather.attrs = encode(AxisAttrs{.axis = 0});
  gather.inputs = {1, 0};
  gather.outputs = {3};
  gather.name = "/embed";
  gather.origins = {"/0"};
  plan::Step linear;
  linear.kernel = "cpu.linear.onednn";
  linear.op = OpKind::kLinear;
  linear.attrs = encode(LinearAttrs{.activation = Activation::kGeluErf});
  linear.inputs = {4, kNone, 6};
  linear.outputs = {5};
  linear.packed = {{.input = 1, .blob = 1, .derivation = 2}};
  linear.asked = {.compute = {DType::kBF16, false},
                  .accumulate = {DType::kF16, true},
                  .store = {DType::kF16, true},
                  .by = "rule 3",
                  .inner = {DType::kF64, false}};
  linear.numerics = linear_numerics();
  linear.bit_class = "brg-k4";
  linear.name = "/head";
  linear.origins = {"/1", "/2", "fn/3#17"};
  linear.tuning = "rows 16: 3";
  plan::Step non_zero;
  non_zero.kernel = "cpu.non_zero.reference";
  non_zero.op = OpKind::kNonZero;
  non_zero.inputs = {3};
  non_zero.outputs = {7};
  non_zero.name = "/find";
  p.steps = {gather, linear, non_zero};
  p.segments = {{0, 2}, {2, 3}};
  p.data_sizes = {{.name = "count", .step = 2, .output = 0, .axis = 1, .at_most = {Dim(512)}}};
}

// The weight is numbers·w of the model.
void add_derivations(plan::Plan& p) {
  using RowKind = plan::DerivationRow::Kind;
  plan::DerivationRow w, half, product;
  w.dtype = half.dtype = product.dtype = DType::kF32;
  w.shape = product.shape = {4, 3};
  w.name = "head.weight";
  half.kind = RowKind::kNumbers;
  half.shape = {4, 1};
  half.numbers = {std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0x3f}};
  product.kind = RowKind::kOperator;
  product.op = OpKind::kMul;
  product.attrs = encode(NoAttrs{});
  product.inputs = {0, 1};
  p.derivations = {w, half, product};
  p.values[1].derivation = kNone;
  p.values[6].derivation = 1;
}

plan::LedgerRow ledger_row() {
  plan::LedgerRow row;
  row.key = "/1";
  row.node = "/encoder/MatMul";
  row.op = "MatMul";
  row.composite = "Linear";
  row.asked.compute = {DType::kF32, true};
  row.asked.accumulate = {DType::kF64, false};
  row.asked.store = {DType::kF16, true};
  row.asked.by = "rule 2";
  row.asked.inner = {DType::kF32, false};
  row.got_store = DType::kF16;
  row.got_compute = DType::kBF16;
  row.got_accumulate = DType::kF32;
  row.in_register = true;
  row.state = LedgerState::kComposite;
  row.step = 1;
  row.kernel = "cpu.linear.onednn";
  row.why = "cpu.linear.own: slower";
  return row;
}

// ---- comparison: members() of a struct, then field by field --------------------------------
auto members(const plan::Symbol& x) {
  const auto& [a, b, c, d] = x;
  return std::tie(a, b, c, d);
}
auto members(const plan::TokenCount& x) {
  const auto& [a, b, c, d, e, f] = x;
  return std::tie(a, b, c, d, e, f);
}
auto members(const plan::DataSize& x) {
  const auto& [a, b, c, d, e] = x;
  return std::tie(a, b, c, d, e);
}
auto members(const plan::Guard& x) {
  const auto& [a, b, c] = x;
  return std::tie(a, b, c);
}
auto members(const plan::PlanValue& x) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
}
auto members(const plan::DerivationRow& x) {
  const auto& [a, b, c, d, e, f, g, h, i] = x;
  return std::tie(a, b, c, d, e, f, g, h, i);
}
auto members(const plan::Blob& x) {
  const auto& [a, b, c, d] = x;
  return std::tie(a, b, c, d);
}
auto members(const plan::PackedInput& x) {
  const auto& [a, b, c] = x;
  return std::tie(a, b, c);
}
auto members(const plan::Step& x) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = x;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
}
auto members(const plan::Segment& x) {
  const auto& [a, b] = x;
  return std::tie(a, b);
}
auto members(const TypeRequest& x) {
  const auto& [a, b] = x;
  return std::tie(a, b);
}
auto members(const Request& x) {
  const auto& [a, b, c, d, e] = x;
  return std::tie(a, b, c, d, e);
}
auto members(const plan::LedgerRow& x) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = x;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
}
auto members(const Promotion& x) {
  const auto& [a, b, c] = x;
  return std::tie(a, b, c);
}
auto members(const plan::Plugin& x) {
  const auto& [a, b, c] = x;
  return std::tie(a, b, c);
}
auto members(const plan::ZeroFilled& x) {
  const auto& [a, b, c] = x;
  return std::tie(a, b, c);
}
auto members(const plan::BuildOptions& x) {
  const auto& [a, b, c, d, e, f, g, h, i, j] = x;
  return std::tie(a, b, c, d, e, f, g, h, i, j);
}
auto members(const plan::Plan& x) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t] = x;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t);
}

template <class T>
bool equal(const T& a, const T& b);
template <class T>
bool equal(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return equal(x, y); });
}
template <class T, size_t N>
bool equal(const std::array<T, N>& a, const std::array<T, N>& b) {
  return std::equal(a.begin(), a.end(), b.begin(),
                    [](const T& x, const T& y) { return equal(x, y); });
}
bool equal(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::ranges::equal(a.byte_span(), b.byte_span());
}
template <class T>
bool equal(const T& a, const T& b) {
  if constexpr (requires { members(a); }) {
    const auto x = members(a), y = members(b);
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return (equal(std::get<I>(x), std::get<I>(y)) && ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(x)>>());
  } else {
    return a == b;
  }
}

}  // namespace

plan::Plan sample_plan() {
  const Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  plan::Plan p;
  p.model_name = "sample";
  p.producer = "pytorch 2.9";
  p.build = {.policy = "{\"mode\":\"fp16\"}",
             .promotions = {{.nodes = {"/0", "fn/3#17"}, .compute = true, .store = false}},
             .shapes = "batch=1..32",
             .passes_off = {"gelu"},
             .outputs = {"logits", "found"},
             .plugins = {{"my_norm", "libmine.so", "00112233445566778899aabbccddeeff"}},
             .scales = "{}",
             .static_scales = true,
             .zero_fill = true,
             .zero_filled = {{"logits", "mask", 0}}};
  p.device = "cpu";
  p.target = "avx512_core_bf16 onednn 2.6.3";
  p.symbols = {{"batch", 1, 4, 32}, {"seq", 4, 16, 512}};
  p.guards = {{mod(seq, 2), 0, "/attention/Reshape"}};
  const std::vector<std::byte> packed(37, std::byte{0xa5});
  p.blobs = {plain(floats({5, 4})),
             {DType::kBF16,
              {4, 3},
              "brg:ba16",
              Tensor::from_bytes(DType::kU8, {static_cast<int64_t>(packed.size())}, packed)},
             plain(floats({3})),
             plain(floats({0, 7})),
             plain(Tensor::scalar(DType::kF64, -0.0))};
  add_values(p, batch, seq);
  add_steps(p);
  add_derivations(p);
  p.inputs = {0};
  p.input_names = {"ids"};
  p.outputs = {5, 7};
  p.output_names = {"logits", "found"};
  p.ledger = {ledger_row()};
  p.ledger.push_back({});
  p.ledger.back().key = "/4";
  p.ledger.back().state = LedgerState::kFolded;
  p.notes = {"sizes: seq 4..512 from the position table"};
  return p;
}

plan::Plan weighty_plan(int64_t weight_elems) {
  plan::Plan p;
  p.device = "cpu";
  p.symbols = {{"batch", 1, 1, 8}};
  p.blobs = {plain(floats({weight_elems}))};
  const Dim batch = Dim::symbol("batch");
  p.values = {value("x", DType::kF32, {batch, 1}, Kind::kInput), constant("w", p.blobs[0], 0),
              arena("y", DType::kF32, {batch, weight_elems}, 0, 0)};
  plan::Step add;
  add.kernel = "cpu.add.reference";
  add.op = OpKind::kAdd;
  add.inputs = {0, 1};
  add.outputs = {2};
  p.steps = {add};
  p.segments = {{0, 1}};
  p.inputs = {0};
  p.input_names = {"x"};
  p.outputs = {2};
  p.output_names = {"y"};
  return p;
}

Certificate sample_certificate(const std::string& content_hash) {
  return {
      .verdict = "pass",
      .engine_hash = content_hash,
      .model_hash = "00112233445566778899aabbccddeeff",
      .data_hash = "ffeeddccbbaa99887766554433221100",
      .ranges = {{{"batch", {1, 2, 4, 8}}, {"seq", {4, 16, 48}}}, {{"batch", {1}}, {"seq", {512}}}},
      .tolerances = {{"rms", 1e-3}, {"max", 0x1p-7}},
      .own_tolerance = true,
      .accepted_declared = true,
      .outputs = {{"logits", 1e-4, 2, {{"rms", 3e-4}}}},
      .versions = {{"vernier", "0.1.0"}, {"target", "avx512_core_bf16 onednn 2.6.3"}},
      .plugins = {{"mine", "mine.so", "0123456789abcdef0123456789abcdef"}}};
}

Canary sample_canary() {
  return {.versions = {{"vernier", "0.1.0"}, {"gpu", "some chip"}},
          .runs = {{.inputs = {{.name = "ids",
                                .dtype = DType::kI32,
                                .shape = {1, 2},
                                .bytes = std::vector<std::byte>(8, std::byte{1})},
                               {.name = "x", .dtype = DType::kF16, .shape = {0, 3}, .bytes = {}}},
                    .outputs_hash = "00112233445566778899aabbccddeeff"}}};
}

bool same(const plan::Plan& a, const plan::Plan& b) { return equal(a, b); }

}  // namespace vernier::engine
