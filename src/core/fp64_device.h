// A device that helps the FP64 evaluators: it multiplies large matrices in host memory, and
// evaluates operators on arrays that stay in its memory.
#pragma once
#include <cstdint>
#include <memory>

#include "core/evaluator.h"

namespace vernier {

/// Σ (a − b)² and Σ b² over the elements whose difference is finite; `agree`: all others are the
/// same infinity or NaN in both.
struct SquaredDifference {
  double squares = 0, reference = 0;
  bool agree = true;
};

/// Several threads may call it at a time. Functions throw Error(kMachine) if the device fails.
class Fp64Device {
 public:
  virtual ~Fp64Device() = default;

  // ---- products of matrices in host memory
  /// Multiplications from which a product pays the way there and back.
  virtual double least() const = 0;
  /// c[m, n] += a[m, k] · b[k, n], dense and row-major. A row's bits depend on its row of a, on b
  /// and on k alone, not on m.
  virtual void multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                            double* c) = 0;
  /// `b` will not change or move before forget(b), so that the device may keep its copy.
  virtual void keep(const double* b, int64_t elems) = 0;
  virtual void forget(const double* b) = 0;

  // ---- arrays in its memory (EvalTensor::there)
  // They are used by the thread that made them, until it has copied what others read. Inputs may
  // lie in host memory as well; results are on the device.
  /// Has the device this operator, for such operands, types and roundings, and does it pay? Nothing
  /// is computed; `call.out` needs no memory.
  virtual bool takes(OpKind op, const EvalCall& call) const = 0;
  /// As evaluator(op)(call), within 1e-12 of the results' scale; roundings and peaks included. Only
  /// what takes() accepts.
  virtual void evaluate(OpKind op, const EvalCall& call) = 0;
  /// `x`, copied to the device.
  virtual EvalTensor copied(const EvalTensor& x) = 0;
  /// `x` after `rounding`.
  virtual EvalTensor rounded(const PointRounding& rounding, const EvalTensor& x) = 0;
  /// Records the peak of `x` at a point that changes nothing.
  virtual void see(const Rounding& rounding, size_t point, const EvalTensor& x) = 0;
  /// The noise of reference/noise_each.h on `x`, the same numbers. Small whole numbers stay if
  /// asked.
  struct Noise {
    double size = 0;
    uint64_t seed = 0;
    bool keeps_whole_numbers = false;  ///< those up to 2^16
  };
  virtual EvalTensor perturbed(const EvalTensor& x, const Noise& noise) = 0;
  /// The elements of `x` at `strides` over `shape`, from element `first` on.
  virtual EvalTensor strided(const EvalTensor& x, const Shape& shape, const Shape& strides,
                             int64_t first) = 0;
  /// `x`, whose first rows are rows `places` of `from`; a row is what `width` elements are.
  struct Rows {
    const EvalTensor& from;
    const std::vector<int64_t>& places;
    int64_t width = 0;
  };
  virtual EvalTensor with_rows(const EvalTensor& x, const Rows& rows) = 0;
  virtual SquaredDifference difference(const EvalTensor& a, const EvalTensor& b) = 0;
};

/// During its lifetime evaluators use `device`, unless an outer one has a device already; null: no
/// change. Nothing may be evaluated while it begins or ends.
class WithFp64Device {
 public:
  explicit WithFp64Device(std::unique_ptr<Fp64Device> device);
  ~WithFp64Device();
  WithFp64Device(const WithFp64Device&) = delete;
  WithFp64Device& operator=(const WithFp64Device&) = delete;

 private:
  std::unique_ptr<Fp64Device> device_;
};

/// The device in use; null: there is none.
Fp64Device* fp64_device();

/// Multiplications from which a product in host memory goes to the device; 0: there is none.
double least_on_device();

/// c += a·b on the device. False, with nothing done: there is none, or the product is too small for
/// it.
bool multiply_on_device(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                        double* c);

/// As Fp64Device::keep() and forget(); without a device nothing is done.
void keep_on_device(const double* b, int64_t elems);
void forget_on_device(const double* b);

}  // namespace vernier
