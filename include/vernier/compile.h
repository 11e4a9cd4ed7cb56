// Compile: an ONNX model to an engine.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vernier/error.h"
#include "vernier/kernel_set.h"
#include "vernier/limits.h"
#include "vernier/promotion.h"

namespace vernier {

struct CompileOptions {
  std::string device = "cpu";
  /// Kernels in place of the device's own (load_plugins()); must outlive the call. Null: its own.
  const KernelSet* kernels = nullptr;
  /// Size ranges: "ids=1..32x4..512" per input, "batch=1..32,seq=4..512" per named size,
  /// "min..opt..max" where an optimum matters. Empty: batch-like sizes 1..64, others 1..512 or the
  /// model's position table.
  std::string shapes;
  std::vector<std::string> extra_outputs;  ///< ONNX value names to give as outputs too
  std::vector<std::string> passes_off;     ///< optional passes to leave out, by name
  /// Outputs of floats with a place for each token are 0 at padding, so that padding is not
  /// computed for them (docs/unpadding.md). verify holds the model to the same.
  bool zero_fill = false;
  /// What is requested of every node: model (its own float types), fp32, tf32, fp16, bf16, int8,
  /// fp8, w8 or w4; empty: the policy's mode, or model.
  std::string mode;
  /// Rules that change it, later ones win: "op:LayerNorm compute=f32" (docs/precision.md).
  std::vector<std::string> rules;
  /// The same in trtexec's spelling: "LayerNormalization_*:fp32,Softmax_12:fp32"; before `rules`.
  std::string layer_precisions, layer_output_types;
  std::vector<Promotion> promotions;
  std::string precision_constraints;  ///< trtexec's; "obey" is what Vernier always does
  /// A policy file's JSON, to which the above add, and its name for messages.
  std::string policy, policy_file;
  /// What calibrate() wrote (docs/quantization.md "Scales files"): the JSON text, and the file's
  /// name for messages. Products in int8 and fp8 take its factors. Empty: none.
  std::string scales, scales_file;
  /// With scales: operands of products in int8 and fp8 take the file's static ranges in place of
  /// the range of each row. All of them must have one. Less exact; faster where a product can
  /// quantize what it makes (a GPU's).
  bool static_scales = false;
  /// Writes the model with its products of 8 bits as Q/DQ operators to this file too, for other
  /// runtimes (docs/quantization.md "Q/DQ models for other runtimes"). Of int8 it needs
  /// static_scales. Empty: none.
  std::string export_qdq;
  /// Modes int8, fp8, w8 and w4: how far quantization may move an output on seeded inputs, rms, as
  /// a part of the output's. Products are kept in 16 bits, of w4 in w8, until it holds
  /// (docs/quantization.md "Fallback"). verify refuses 5 % on any of its inputs (of fp8 10 %). 1
  /// and above: nothing is measured, and every product stays quantized.
  double int8_error = 0.04;
  /// JSON file with the variants that were fastest on a device: read if it exists, and written with
  /// what had to be timed. The same file gives the same engine. Empty: everything is timed again.
  std::string tuning_file;
  bool seed_missing_weights = false;  ///< seeded values for external data that is missing
  /// Runs the engine on a few seeded inputs and records the hashes of its answers in the file
  /// (docs/certificates.md "Canary"). Where it cannot run here, a note says why.
  bool canary = true;
  /// Called with each stage of the work ("import", "raise_attention", "pack", "write").
  std::function<void(std::string_view stage)> progress;
  /// max_bytes: of the model's weights, as they are read and again as they are packed, and of
  /// what folding and the range audit evaluate beside them.
  Limits limits;
};

struct CompileReport {
  std::string model;                                      ///< name in the ONNX file
  int64_t onnx_nodes = 0, steps = 0, fallback_steps = 0;  ///< fallback: on the FP64 evaluator
  uint64_t weight_bytes = 0;
  std::vector<std::string> notes;  ///< defaults taken and what else the user should know
  std::string policy;              ///< mode and rules as JSON, as --policy reads it
  double ms = 0;
};

/// Compiles `model_path` and writes `engine_path` (atomically). Throws Error.
CompileReport compile(const std::string& model_path, const std::string& engine_path,
                      const CompileOptions& options = {});
/// Compiles to the bytes of an engine file.
std::vector<std::byte> compile_to_bytes(const std::string& model_path,
                                        const CompileOptions& options = {},
                                        CompileReport* report = nullptr);

}  // namespace vernier
