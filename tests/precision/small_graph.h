// A raised graph of one post-norm block, small enough to read, with the origins of an exporter.
#pragma once
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ir/text.h"
#include "ops/infer.h"
#include "precision/selectors.h"
#include "vernier/error.h"

namespace vernier::precision::testing {

inline constexpr const char* kBlock = R"(
graph g(%ids: i64[b, s], %mask: i64[b, 1, 1, s]) {
  %keep = Cast(%mask) {to=bool} from "#1|/mask/Cast|Cast"
  %e = Gather(f32[10, 8] normal(seed=1, mean=0, std=1), %ids) from "#2|/emb/Gather|Gather"
  %n = LayerNorm(%e, f32[8] fill(1), f32[8] fill(0)) from "#3|/ln/ReduceMean|ReduceMean",
      "#4|/ln/Sub|Sub", "#5|/ln/Pow|Pow", "#6|/ln/Div|Div"
  %q = Linear(%n, f32[8, 8] normal(seed=2, mean=0, std=1)) from "#7|/q/MatMul|MatMul"
  %q4 = Reshape(%q) {shape=(b, s, 2, 4), has_shape=true} from "#10|/q/Reshape|Reshape"
  %k = Linear(%n, f32[8, 8] normal(seed=3, mean=0, std=1)) from "#8|/k/MatMul|MatMul"
  %k4 = Reshape(%k) {shape=(b, s, 2, 4), has_shape=true} from "#11|/k/Reshape|Reshape"
  %v = Linear(%n, f32[8, 8] normal(seed=4, mean=0, std=1)) from "#9|/v/MatMul|MatMul"
  %v4 = Reshape(%v) {shape=(b, s, 2, 4), has_shape=true} from "#12|/v/Reshape|Reshape"
  %a = Attention(%q4, %k4, %v4, _, %keep) {scale=0.5} from "#13|/att/MatMul|MatMul|scores",
      "#14|/att/Add|Add|scores", "#15|/att/Softmax|Softmax|probs", "#16|/att/MatMul_1|MatMul|context"
  %a3 = Reshape(%a) {shape=(b, s, 8), has_shape=true} from "#17|/att/Reshape|Reshape",
      "#16|/att/MatMul_1|MatMul"
  %o = Linear(%a3, f32[8, 8] normal(seed=5, mean=0, std=1)) from "#18|/out/MatMul|MatMul",
      "#19|/out/Add|Add"
  %r = Add(%o, %n) from "#20|/add/Add|Add"
  %m = LayerNorm(%r, f32[8] fill(1), f32[8] fill(0)) from "#21|/ln2/LN|LayerNormalization"
  %u = Linear(%m, f32[8, 16] normal(seed=6, mean=0, std=1)) from "#22|/up/MatMul|MatMul"
  %g = Gelu(%u) from "#23|/gelu/Erf|Erf", "#24|/gelu/Mul|Mul"
  %d = Linear(%g, f32[16, 8] normal(seed=7, mean=0, std=1)) from "#25|/down/MatMul|MatMul"
  %t = Add(%d, %m) from "#26|/add2/Add|Add"
  %z = LayerNorm(%t, f32[8] fill(1), f32[8] fill(0)) from "#27|Softmax_0|LayerNormalization"
  %h = Linear(%z, f32[8, 3] normal(seed=8, mean=0, std=1)) from "#28|/head/MatMul|MatMul"
  return %h as "y"
})";

/// kBlock with what folding left behind: an ONNX node that computed a shape, one that was constant.
inline std::shared_ptr<ir::Graph> small_graph(const std::string& text = kBlock) {
  auto graph = ir::parse(text, &ops::infer_node);
  graph->retire({{.key = "#0", .name = "/mask/Shape", .op_type = "Shape", .part = ""}},
                LedgerState::kShape, "computes sizes only");
  graph->retire({{.key = "#29", .name = "/fold/Mul", .op_type = "Mul", .part = ""}},
                LedgerState::kFolded, "constant");
  return graph;
}

/// What an Error(kInput) says; "no error" if there is none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInput);
    return error.what();
  }
  return "no error";
}

}  // namespace vernier::precision::testing
