// The fields of what an engine file holds, listed once by struct, in the order of the file: for
// writing and reading (codec.cpp) and for changing them one by one (fuzz/plan_mutator.cpp).
// Contract: docs/engine_format.md.
#pragma once
#include <concepts>
#include <type_traits>

#include "plan/plan.h"
#include "vernier/canary.h"
#include "vernier/certificate.h"

namespace vernier::engine {

// A field list takes a struct to write from, or one to read into.
template <class V, class T>
using Fields = std::conditional_t<V::kWrites, const T&, T&>;

template <class V>
void fields(V& v, Fields<V, plan::Symbol> x) {
  v(x.name, x.min, x.opt, x.max);
}
template <class V>
void fields(V& v, Fields<V, plan::Guard> x) {
  v(x.lhs, x.rhs, x.where);
}
template <class V>
void fields(V& v, Fields<V, plan::TokenCount> x) {
  v(x.name, x.input, x.padding, x.parts, x.front, x.behind);
}
template <class V>
void fields(V& v, Fields<V, plan::DataSize> x) {
  v(x.name, x.step, x.output, x.axis, x.at_most);
}
template <class V>
void fields(V& v, Fields<V, plan::PlanValue> x) {
  v(x.name, x.dtype, x.shape, x.kind, x.constant, x.derivation, x.values, x.alias_of,
    x.offset_elems, x.strides, x.first_step, x.last_step);
}
template <class V>
void fields(V& v, Fields<V, plan::Blob> x) {
  v(x.dtype, x.shape, x.layout, x.bytes);
}
template <class V>
void fields(V& v, Fields<V, plan::PackedInput> x) {
  v(x.input, x.blob, x.derivation);
}
template <class V>
void fields(V& v, Fields<V, plan::DerivationRow> x) {
  v(x.kind, x.dtype, x.shape, x.name, x.numbers, x.op, x.attrs, x.output, x.inputs);
}
template <class V>
void fields(V& v, Fields<V, PointRounding> x) {
  v(x.type, x.mode, x.block, x.scale);
}
template <class V>
void fields(V& v, Fields<V, Numerics> x) {
  v(x.store, x.compute, x.accumulate, x.inner, x.points, x.approximation_abs, x.approximation_rel,
    x.accumulate_mode, x.accumulate_block, x.sum_error);
}
template <class V>
void fields(V& v, Fields<V, TypeRequest> x) {
  v(x.type, x.exact);
}
template <class V>
void fields(V& v, Fields<V, Request> x) {
  v(x.compute, x.accumulate, x.store, x.by, x.inner);
}
template <class V>
void fields(V& v, Fields<V, plan::Step> x) {
  v(x.kernel, x.op, x.attrs, x.inputs, x.outputs, x.packed, x.asked, x.numerics, x.bit_class,
    x.name, x.origins, x.tuning);
}
template <class V>
void fields(V& v, Fields<V, plan::Segment> x) {
  v(x.first_step, x.end_step);
}
template <class V>
void fields(V& v, Fields<V, plan::LedgerRow> x) {
  v(x.key, x.node, x.op, x.composite, x.asked, x.got_store, x.got_compute, x.got_accumulate,
    x.in_register, x.state, x.step, x.kernel, x.why);
}
template <class V>
void fields(V& v, Fields<V, Promotion> x) {
  v(x.nodes, x.compute, x.store);
}
template <class V>
void fields(V& v, Fields<V, plan::Plugin> x) {
  v(x.name, x.file, x.hash);
}
template <class V>
void fields(V& v, Fields<V, plan::ZeroFilled> x) {
  v(x.output, x.mask, x.padding);
}
template <class V>
void fields(V& v, Fields<V, plan::BuildOptions> x) {
  v(x.policy, x.promotions, x.shapes, x.passes_off, x.outputs, x.plugins, x.scales, x.static_scales,
    x.zero_fill, x.zero_filled);
}
template <class V>
void fields(V& v, Fields<V, plan::Plan> x) {  // the ledger is a section of its own
  v(x.model_name, x.producer, x.build, x.device, x.target, x.symbols, x.token_counts, x.data_sizes,
    x.guards, x.values, x.steps, x.segments, x.blobs, x.derivations, x.inputs, x.outputs,
    x.input_names, x.output_names, x.notes);
}
template <class V>
void fields(V& v, Fields<V, Certificate::Limit> x) {
  v(x.name, x.value);
}
template <class V>
void fields(V& v, Fields<V, Certificate::Version> x) {
  v(x.of, x.number);
}
template <class V>
void fields(V& v, Fields<V, Certificate::OutputLimits> x) {
  v(x.output, x.noise_rms, x.reference_rms, x.limits);
}
template <class V>
void fields(V& v, Fields<V, Certificate::Size> x) {
  v(x.name, x.swept);
}
template <class V>
void fields(V& v, Fields<V, Certificate::Plugin> x) {
  v(x.name, x.file, x.hash);
}
template <class V>
void fields(V& v, Fields<V, Certificate> x) {
  v(x.verdict, x.engine_hash, x.model_hash, x.data_hash, x.ranges, x.tolerances, x.own_tolerance,
    x.accepted_declared, x.outputs, x.versions, x.plugins);
}
template <class V>
void fields(V& v, Fields<V, Canary::Array> x) {
  v(x.name, x.dtype, x.shape, x.bytes);
}
template <class V>
void fields(V& v, Fields<V, Canary::Run> x) {
  v(x.inputs, x.outputs_hash);
}
template <class V>
void fields(V& v, Fields<V, Canary> x) {
  v(x.versions, x.runs);
}

// The largest number of each enumeration that is stored as one.
constexpr DType last_of(DType) { return kLastDType; }
constexpr plan::PlanValue::Kind last_of(plan::PlanValue::Kind) {
  return plan::PlanValue::Kind::kAlias;
}
constexpr plan::DerivationRow::Kind last_of(plan::DerivationRow::Kind) {
  return plan::DerivationRow::Kind::kOperator;
}
constexpr PointRounding::Mode last_of(PointRounding::Mode) {
  return PointRounding::Mode::kTruncate;
}
constexpr PointRounding::Scale last_of(PointRounding::Scale) {
  return PointRounding::Scale::kUnnormalisedRoundedSum;
}
template <class E>
concept StoredEnum = std::is_enum_v<E> && requires(E e) {
  last_of(e);
};

}  // namespace vernier::engine
