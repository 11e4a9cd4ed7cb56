/* A plugin that replaces LayerNorm and AddLayerNorm by two-pass loops in f32, and says so.
 *   y = (x - mean) / sqrt(var + epsilon) * scale + bias,   var = mean((x - mean)^2)
 * Verify holds it against Vernier's FP64 evaluator as it does with any kernel. */
#include "layer_norm.h"

#include <math.h>

static void normalise(void* context, int64_t begin, int64_t end, int32_t thread) {
  const norm_rows* rows = (const norm_rows*)context;
  const int64_t n = rows->cols;
  (void)thread;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = rows->x + r * n;
    const float* addend = rows->addend ? rows->addend + r * n : NULL;
    float* y = rows->y + r * n;
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < n; ++c) {
      y[c] = addend ? x[c] + addend[c] : x[c];
      sum += y[c];
    }
    if (rows->sum) memcpy(rows->sum + r * n, y, (size_t)n * sizeof(float));
    const float mean = sum / (float)n;
    for (int64_t c = 0; c < n; ++c) squares += (y[c] - mean) * (y[c] - mean);
    const float inverse = 1 / sqrtf(squares / (float)n + rows->epsilon);
    for (int64_t c = 0; c < n; ++c) {
      const float normalised = (y[c] - mean) * inverse;
      y[c] = (rows->scale ? normalised * rows->scale[c] : normalised) +
             (rows->bias ? rows->bias[c] : 0);
    }
  }
}

static const char* launch(const vernier_call* call) { return launch_rows(call, 0, normalise); }
static const char* launch_add(const vernier_call* call) { return launch_rows(call, 1, normalise); }

static const vernier_kernel kernels[] = {
    {.name = "two_pass",
     .op = "LayerNorm",
     .bit_class = "row",
     .supports = supports_rows,
     .numerics = f32_numerics,
     .launch = launch},
    {.name = "two_pass",
     .op = "AddLayerNorm",
     .bit_class = "row",
     .supports = supports_rows,
     .numerics = f32_numerics,
     .launch = launch_add},
};

const vernier_plugin_info* vernier_plugin(void) {
  static const vernier_plugin_info info = {VERNIER_CUSTOM_OP_VERSION, "custom_layer_norm",
                                           sizeof kernels / sizeof kernels[0], kernels};
  return &info;
}
