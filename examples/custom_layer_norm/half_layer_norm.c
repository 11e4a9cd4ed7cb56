/* The same plugin with a mistake that is easily made: it declares f32, but takes its statistics in
 * one pass in FP16,  var = mean(x^2) - mean(x)^2.  `vernier verify` says `bug` and names the step. */
#include "layer_norm.h"

#include <math.h>

static void normalise(void* context, int64_t begin, int64_t end, int32_t thread) {
  const norm_rows* rows = (const norm_rows*)context;
  const int64_t n = rows->cols;
  (void)thread;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = rows->x + r * n;
    float* y = rows->y + r * n;
    _Float16 mean = 0, square = 0;
    for (int64_t c = 0; c < n; ++c) {
      const _Float16 v = (_Float16)x[c];
      mean += v / (_Float16)n;
      square += v * v / (_Float16)n;
    }
    const float variance = fmaxf((float)(square - mean * mean), 0);
    const float inverse = 1 / sqrtf(variance + rows->epsilon);
    for (int64_t c = 0; c < n; ++c) {
      const float normalised = (x[c] - (float)mean) * inverse;
      y[c] = (rows->scale ? normalised * rows->scale[c] : normalised) +
             (rows->bias ? rows->bias[c] : 0);
    }
  }
}

static const char* launch(const vernier_call* call) { return launch_rows(call, 0, normalise); }

static const vernier_kernel kernels[] = {
    {.name = "one_pass",
     .op = "LayerNorm",
     .bit_class = "row",
     .supports = supports_rows,
     .numerics = f32_numerics,
     .launch = launch},
};

const vernier_plugin_info* vernier_plugin(void) {
  static const vernier_plugin_info info = {VERNIER_CUSTOM_OP_VERSION, "half_layer_norm",
                                           sizeof kernels / sizeof kernels[0], kernels};
  return &info;
}
