/* What the two plugins of this example share: which nodes they take, and what they say of them.
 * Interface: vernier/custom_op.h. */
#ifndef LAYER_NORM_H
#define LAYER_NORM_H

#include "vernier/custom_op.h"

/* A launch over rows; AddLayerNorm normalises x + addend. Absent arrays are NULL. */
typedef struct norm_rows {
  const float *x, *addend, *scale, *bias;
  float *y, *sum;
  int64_t cols;
  float epsilon;
} norm_rows;

static inline int adds(const vernier_problem* problem) {
  return strcmp(problem->op, "AddLayerNorm") == 0;
}

/* f32 throughout, over the last axis, scale and bias one row each. */
static inline const char* supports_rows(const vernier_problem* problem) {
  const vernier_operand* x = &problem->inputs[0];
  const int32_t parameters = adds(problem) ? 2 : 1;
  const double axis = vernier_attribute(problem->attributes, "axis", -1);
  if (x->rank < 1 || (axis != -1 && axis != x->rank - 1)) return "takes the last axis only";
  const int64_t cols = x->shape[x->rank - 1];
  if (cols < 1) return "takes a last axis of known size only";
  for (int32_t i = 0; i < problem->num_inputs; ++i) {
    const vernier_operand* in = &problem->inputs[i];
    if (in->dtype != VERNIER_F32 && in->dtype != VERNIER_NONE) return "takes f32 only";
    if (i < parameters && in->rank != x->rank) return "takes two addends of one shape only";
    if (i < parameters) {
      for (int32_t d = 0; d < x->rank; ++d)
        if (in->shape[d] != x->shape[d]) return "takes two addends of one shape only";
    } else if (in->dtype != VERNIER_NONE && (in->rank != 1 || in->shape[0] != cols)) {
      return "takes a scale and a bias of one value per column only";
    }
  }
  for (int32_t i = 0; i < problem->num_outputs; ++i) {
    const vernier_operand* out = &problem->outputs[i];
    if (i > (adds(problem) ? 1 : 0) && out->dtype != VERNIER_NONE)
      return "does not return mean and deviation";
    if (out->dtype != VERNIER_F32 && out->dtype != VERNIER_NONE) return "returns f32 only";
  }
  return NULL;
}

/* Everything in f32, every named value rounded to f32. */
static inline void f32_numerics(const vernier_problem* problem, vernier_numerics* numerics) {
  numerics->store = numerics->compute = numerics->accumulate = VERNIER_F32;
  for (int32_t i = 0; i < problem->num_points; ++i) numerics->points[i] = VERNIER_F32;
}

/* The arrays of a call; `adding`: input 1 is added to input 0. */
static inline norm_rows rows_of(const vernier_call* call, int adding) {
  const int32_t scale = adding ? 2 : 1, bias = scale + 1;
  norm_rows rows;
  rows.x = (const float*)call->inputs[0].data;
  rows.addend = adding ? (const float*)call->inputs[1].data : NULL;
  rows.scale = call->num_inputs > scale ? (const float*)call->inputs[scale].data : NULL;
  rows.bias = call->num_inputs > bias ? (const float*)call->inputs[bias].data : NULL;
  rows.y = (float*)call->outputs[0].data;
  rows.sum = adding && call->num_outputs > 1 ? (float*)call->outputs[1].data : NULL;
  rows.cols = call->inputs[0].shape[call->inputs[0].rank - 1];
  rows.epsilon = (float)vernier_attribute(call->attributes, "epsilon", 1e-5);
  return rows;
}

/* Runs body on all rows, in parallel. */
static inline const char* launch_rows(const vernier_call* call, int adding,
                                      void (*body)(void*, int64_t, int64_t, int32_t)) {
  norm_rows rows = rows_of(call, adding);
  int64_t count = 1;
  for (int32_t d = 0; d + 1 < call->inputs[0].rank; ++d) count *= call->inputs[0].shape[d];
  call->parallel_for(call, count, 4, body, &rows);
  return NULL;
}

#endif
