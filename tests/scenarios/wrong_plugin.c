/* Plugins with one mistake each, chosen by the macro MISTAKE: what load_plugins(), the planner and a
 * run must refuse in words (custom_kernel_test.cpp). 0: none; it works on one shape only. */
#include "vernier/custom_op.h"

enum {
  kRunFails = 0,
  kVersion,
  kUnknownOperator,
  kNoLaunch,
  kBadName,
  kNoBitClass,
  kOwnReference,
  kBadType,
  kNoKernels
};

static const char* supports(const vernier_problem* problem) {
  (void)problem;
  return NULL;
}

static void numerics(const vernier_problem* problem, vernier_numerics* numerics) {
  (void)problem;
  numerics->store = numerics->accumulate = VERNIER_F32;
  numerics->compute = MISTAKE == kBadType ? VERNIER_I64 : VERNIER_F32;
}

static const char* launch(const vernier_call* call) {
  (void)call;
  return "the moon is not full";
}

static const vernier_kernel kernel = {
    .name = MISTAKE == kBadName ? "Has Spaces" : "loop",
    .op = MISTAKE == kUnknownOperator ? "LayerNorn" : "Softmax",
    .bit_class = MISTAKE == kNoBitClass ? "" : "row",
    .supports = supports,
    .numerics = numerics,
    .launch = MISTAKE == kNoLaunch ? NULL : launch,
    .reference = MISTAKE == kOwnReference ? launch : NULL};

const vernier_plugin_info* PLUGIN_FUNCTION(void);
const vernier_plugin_info* PLUGIN_FUNCTION(void) {
  static const vernier_plugin_info info = {
      MISTAKE == kVersion ? 7 : VERNIER_CUSTOM_OP_VERSION, PLUGIN_NAME, MISTAKE == kNoKernels ? 0 : 1,
      &kernel};
  return &info;
}
