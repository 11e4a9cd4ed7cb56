// NonZero, Compress, Unique, NonMaxSuppression: the FP64 evaluator on the host. A session finds
// their results before the segment that they begin (runtime/data_sizes.h), and does not launch
// them; a launch does the same for sizes that are known: it waits, copies, evaluates and copies
// back.
#include <vector>

#include "backend/cuda/body.h"
#include "backend/cuda/check.h"
#include "backend/elements.h"
#include "core/evaluator.h"

namespace vernier::backend::cuda {
namespace {

Support supports(const Problem&) { return yes(); }

Shape shape_of(const TensorArg& t) { return {t.shape.begin(), t.shape.begin() + t.rank}; }

EvalTensor fetched(const TensorArg& t, cudaStream_t stream) {
  std::vector<std::byte> bytes(static_cast<size_t>(t.elems()) * size_bytes(t.dtype));
  check_cuda(cudaMemcpyAsync(bytes.data(), t.data, bytes.size(), cudaMemcpyDeviceToHost, stream),
             "copying an operand to the host");
  check_cuda(cudaStreamSynchronize(stream), "copying an operand to the host");
  return EvalTensor::from(Tensor::from_bytes(t.dtype, shape_of(t), bytes));
}

template <OpKind kOp>
void launch(const LaunchCall& call) {
  const cudaStream_t stream = stream_of(call.execution);
  std::vector<EvalTensor> inputs(call.in.size()), out(call.out.size());
  std::vector<const EvalTensor*> in(call.in.size(), nullptr);
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (!given(call.in[i])) continue;
    inputs[i] = fetched(call.in[i], stream);
    in[i] = &inputs[i];
  }
  for (size_t i = 0; i < call.out.size(); ++i)
    if (given(call.out[i])) out[i] = shaped_like(call.out[i]);
  const Rounding exact;
  evaluator(kOp)({.attrs = call.attrs, .in = in, .out = out, .rounding = exact});
  for (size_t i = 0; i < call.out.size(); ++i) {
    if (!given(call.out[i])) continue;
    VERNIER_ASSERT(out[i].shape == shape_of(call.out[i]),
                   "the sizes found are not those asked for");
    out[i].dtype = call.out[i].dtype;
    const Tensor result = out[i].to_tensor();
    check_cuda(cudaMemcpyAsync(call.out[i].data, result.data(), result.bytes(),
                               cudaMemcpyHostToDevice, stream),
               "copying a result to the GPU");
    check_cuda(cudaStreamSynchronize(stream), "copying a result to the GPU");
  }
}

template <OpKind kOp>
constexpr KernelBody kOnHost{
    .supports = &supports,
    .numerics = &exact_numerics,
    .launch = &launch<kOp>,
};

}  // namespace

extern const KernelBody non_zero_host, compress_host, unique_host, non_max_suppression_host;
constexpr KernelBody non_zero_host = kOnHost<OpKind::kNonZero>;
constexpr KernelBody compress_host = kOnHost<OpKind::kCompress>;
constexpr KernelBody unique_host = kOnHost<OpKind::kUnique>;
constexpr KernelBody non_max_suppression_host = kOnHost<OpKind::kNonMaxSuppression>;

}  // namespace vernier::backend::cuda
