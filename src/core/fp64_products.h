// Where the FP64 evaluators compute large matrix products: on this CPU, or on a device beside it.
#pragma once
#include <cstdint>
#include <memory>

namespace vernier {

/// A device that multiplies matrices of doubles in host memory faster than this CPU.
class Fp64Products {
 public:
  virtual ~Fp64Products() = default;
  /// Multiplications from which a product pays the way there and back.
  virtual double least() const = 0;
  /// c[m, n] += a[m, k] · b[k, n], dense and row-major. A row's bits depend on its row of a, on b
  /// and on k alone, not on m. Several threads may call it at a time. Throws Error(kMachine) if the
  /// device fails.
  virtual void multiply_add(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                            double* c) = 0;
  /// `b` will not change or move before forget(b), so that the device may keep its copy.
  virtual void keep(const double* b, int64_t elems) = 0;
  virtual void forget(const double* b) = 0;
};

/// During its lifetime the large products of all evaluators go to `device`, unless an outer one has
/// a device already; null: no change. Nothing may be evaluated while it begins or ends.
class WithFp64Products {
 public:
  explicit WithFp64Products(std::unique_ptr<Fp64Products> device);
  ~WithFp64Products();
  WithFp64Products(const WithFp64Products&) = delete;
  WithFp64Products& operator=(const WithFp64Products&) = delete;

 private:
  std::unique_ptr<Fp64Products> device_;
};

/// Multiplications from which a product goes to the device; 0: there is none.
double least_on_device();

/// c += a·b on the device. False, with nothing done: there is none, or the product is too small for
/// it.
bool multiply_on_device(int64_t m, int64_t n, int64_t k, const double* a, const double* b,
                        double* c);

/// As Fp64Products::keep() and forget(); without a device nothing is done.
void keep_on_device(const double* b, int64_t elems);
void forget_on_device(const double* b);

}  // namespace vernier
