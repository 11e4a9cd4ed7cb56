/* Kernels of your own, in C: a shared library that replaces Vernier's kernel of an operator.
 * Interface version 0, for CPUs. Contract: docs/custom_kernels.md; example:
 * examples/custom_layer_norm. The library exports one function, vernier_plugin(), and is given to
 * build, run, verify, bench and inspect by --plugin LIB.so. Plain C11; no library to link. */
#ifndef VERNIER_CUSTOM_OP_H
#define VERNIER_CUSTOM_OP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VERNIER_CUSTOM_OP_VERSION 0
enum { VERNIER_MAX_RANK = 10, VERNIER_MAX_OPERANDS = 16, VERNIER_MAX_POINTS = 8 };

/* Element types, numbered as in vernier/dtype.h. TF32 is a compute type only. */
enum {
  VERNIER_NONE = 0,
  VERNIER_F32 = 1,
  VERNIER_F64 = 2,
  VERNIER_F16 = 3,
  VERNIER_BF16 = 4,
  VERNIER_F8E4M3 = 5,
  VERNIER_F8E5M2 = 6,
  VERNIER_TF32 = 7,
  VERNIER_I8 = 8,
  VERNIER_U8 = 9,
  VERNIER_I16 = 10,
  VERNIER_U16 = 11,
  VERNIER_I32 = 12,
  VERNIER_U32 = 13,
  VERNIER_I64 = 14,
  VERNIER_U64 = 15,
  VERNIER_BOOL = 16
};

/* ---- build time: what is asked of a kernel ----------------------------------------------------
 */

/* An input or output. Absent optional ones have dtype VERNIER_NONE. */
typedef struct vernier_operand {
  int32_t dtype, rank;
  int64_t shape[VERNIER_MAX_RANK]; /* -1: not known before a run */
} vernier_operand;

typedef struct vernier_problem {
  const char* op;         /* "LayerNorm": docs/operators.md */
  const char* attributes; /* "{axis=-1, epsilon=1e-05}"; read with vernier_attribute() */
  int32_t num_inputs, num_outputs;
  const vernier_operand *inputs, *outputs;
  int32_t num_points; /* the operator's rounding points: "x", "mean", "var", "normalised", "out" */
  const char* const* points;
} vernier_problem;

/* What the kernel does to a node. All fields start as 0; the planner holds them against what is
 * asked of the node, and verify replays every step with them, so say what is true. */
typedef struct vernier_numerics {
  int32_t store;      /* the type its floating results are held in */
  int32_t compute;    /* the type operands are taken in */
  int32_t accumulate; /* the type sums are carried in */
  int32_t inner;      /* of products: the type the rest of it computes in; else as compute */
  int32_t points[VERNIER_MAX_POINTS]; /* the type values take at each point; 0: no rounding */
  /* declared error of approximations (exp, erf …): verify takes up to 1e-5 of the result on its
   * word
   */
  double approximation_abs, approximation_rel;
} vernier_numerics;

/* ---- run time ---------------------------------------------------------------------------------
 */

/* A dense, row-major array. Absent ones have data NULL. Never write to an input. */
typedef struct vernier_array {
  void* data;
  int32_t dtype, rank;
  int64_t shape[VERNIER_MAX_RANK];
} vernier_array;

typedef struct vernier_call vernier_call;
struct vernier_call {
  const char* attributes;
  int32_t num_inputs, num_outputs;
  const vernier_array *inputs, *outputs;
  void*
      workspace;  /* what workspace_bytes() asked for, 64-byte aligned; its contents are anything */
  int32_t device; /* 0: CPU, the only one of version 0 */
  int32_t device_ordinal;
  void* stream; /* NULL on the CPU; later a cudaStream_t */
  int32_t num_threads;
  /* body(context, begin, end, part) over [0, count) in contiguous parts whose bounds are multiples
   * of grain; the same parts for the same sizes. part < num_threads: index scratch memory with it
   * and never by thread, since any thread may do any part. CPU only. */
  void (*parallel_for)(const vernier_call* call, int64_t count, int64_t grain,
                       void (*body)(void* context, int64_t begin, int64_t end, int32_t part),
                       void* context);
  void* host; /* Vernier's own */
};

typedef struct vernier_kernel {
  const char* name; /* [a-z0-9_]+: its step is called plugin.<plugin>.<operator>.<name> */
  const char* op;   /* an operator of Vernier's */
  /* Why a row's bits do not depend on its neighbours: "row" where each row is computed alone, in an
   * order that its length fixes; else the name of a class of kernels with equal bits. */
  const char* bit_class;
  /* NULL: yes, for every size that is not known yet. Else why not, in words for the ledger; the
   * text must stay valid. */
  const char* (*supports)(const vernier_problem* problem);
  void (*numerics)(const vernier_problem* problem, vernier_numerics* numerics);
  /* Bytes of workspace for these shapes (no data yet); NULL: none. Once per new shape. */
  size_t (*workspace_bytes)(const vernier_call* call);
  /* Does the work: no allocation, no lock. NULL: done; else what is wrong with the values, a text
   * that stays valid. Called from any thread, one call per session at a time. */
  const char* (*launch)(const vernier_call* call);
  /* For operators of your own, which version 0 does not have: both must be NULL. Where they are
   * Vernier's, its own shape inference and FP64 evaluator hold. */
  int32_t (*output_shapes)(const vernier_problem* problem, vernier_operand* outputs);
  const char* (*reference)(const vernier_call* call);
} vernier_kernel;

typedef struct vernier_plugin_info {
  int32_t version;  /* VERNIER_CUSTOM_OP_VERSION; first in every version of this struct */
  const char* name; /* [a-z0-9_]+ */
  int32_t num_kernels;
  const vernier_kernel* kernels; /* tried in this order, before Vernier's own */
} vernier_plugin_info;

/* The library's one export. What it returns must stay valid. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const vernier_plugin_info*
vernier_plugin(void);

/* The number of an attribute, or `fallback` where there is none of that name. */
static inline double vernier_attribute(const char* attributes, const char* name, double fallback) {
  const size_t length = strlen(name);
  const char* at = attributes;
  /* NOLINTBEGIN(modernize-use-nullptr): this is C */
  while ((at = strstr(at, name)) != NULL) {
    if (at > attributes && (at[-1] == '{' || at[-1] == ' ') && at[length] == '=')
      return strtod(at + length + 1, NULL);
    at += length;
  }
  /* NOLINTEND(modernize-use-nullptr) */
  return fallback;
}

#ifdef __cplusplus
}
#endif
#endif
