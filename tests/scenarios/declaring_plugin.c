/* A LayerNorm that declares an error of its own: right, or off by OFF. custom_kernel_test.cpp. */
#include "layer_norm.h"

#include <math.h>

static void normalise(void* context, int64_t begin, int64_t end, int32_t part) {
  const norm_rows* rows = (const norm_rows*)context;
  const int64_t n = rows->cols;
  (void)part;
  for (int64_t r = begin; r < end; ++r) {
    const float* x = rows->x + r * n;
    float* y = rows->y + r * n;
    float sum = 0, squares = 0;
    for (int64_t c = 0; c < n; ++c) sum += x[c];
    const float mean = sum / (float)n;
    for (int64_t c = 0; c < n; ++c) squares += (x[c] - mean) * (x[c] - mean);
    const float inverse = 1 / sqrtf(squares / (float)n + rows->epsilon);
    for (int64_t c = 0; c < n; ++c) {
      const float normalised = (x[c] - mean) * inverse;
      y[c] = (rows->scale ? normalised * rows->scale[c] : normalised) +
             (rows->bias ? rows->bias[c] : 0) + (float)(OFF);
    }
  }
}

static const char* launch(const vernier_call* call) { return launch_rows(call, 0, normalise); }

static void numerics(const vernier_problem* problem, vernier_numerics* numerics) {
  f32_numerics(problem, numerics);
#ifdef POINTS
  for (int32_t i = 0; i < problem->num_points; ++i) numerics->points[i] = POINTS;
#endif
  numerics->approximation_abs = DECLARED_ABS;
  numerics->approximation_rel = DECLARED_REL;
}

static const vernier_kernel kernel = {.name = "declaring",
                                      .op = "LayerNorm",
                                      .bit_class = "row",
                                      .supports = supports_rows,
                                      .numerics = numerics,
                                      .launch = launch};

const vernier_plugin_info* vernier_plugin(void) {
  static const vernier_plugin_info info = {VERNIER_CUSTOM_OP_VERSION, PLUGIN_NAME, 1, &kernel};
  return &info;
}
