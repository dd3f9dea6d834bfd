#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <climits>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"

// A row-major matrix is its transpose to LAPACK, so lower and upper change places and no
// transposing copy is made. Every routine here works in the output or the workspace.

namespace snug::native {
namespace {

// One name per routine, for both precisions.
lapack_int potrf(char uplo, int n, float* a) {
  return LAPACKE_spotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
}
lapack_int potrf(char uplo, int n, double* a) {
  return LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);
}
lapack_int getrf(int n, float* a, lapack_int* pivots) {
  return LAPACKE_sgetrf_work(LAPACK_COL_MAJOR, n, n, a, n, pivots);
}
lapack_int getrf(int n, double* a, lapack_int* pivots) {
  return LAPACKE_dgetrf_work(LAPACK_COL_MAJOR, n, n, a, n, pivots);
}
/// b (n, m) = op(a)^-1 . b, row-major.
void trsm(CBLAS_UPLO uplo, bool trans, bool unit, int n, int m, const float* a, float* b) {
  cblas_strsm(CblasRowMajor, CblasLeft, uplo, trans ? CblasTrans : CblasNoTrans,
              unit ? CblasUnit : CblasNonUnit, n, m, 1.0f, a, n, b, m);
}
void trsm(CBLAS_UPLO uplo, bool trans, bool unit, int n, int m, const double* a, double* b) {
  cblas_dtrsm(CblasRowMajor, CblasLeft, uplo, trans ? CblasTrans : CblasNoTrans,
              unit ? CblasUnit : CblasNonUnit, n, m, 1.0, a, n, b, m);
}

template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::F32)
    f(float{});
  else
    f(double{});
}

void check_dtype(std::string_view op, const ArgDesc& a) {
  if (a.dtype != DType::F32 && a.dtype != DType::F64)
    fail(Fault::Unsupported, fmt::format("{}: not done on {}", op, name_of(a.dtype)),
         "cast to float32 or float64 first");
}

void check_shape(std::string_view op, const ArgDesc& a) {
  SNUG_CHECK(a.shape.size() == 2 && a.shape[0] == a.shape[1] && a.shape[0] <= INT_MAX,
             "{}: a matrix of shape {}", op, describe_shape(a.shape));
}

/// Factorises a row-major matrix in place, reading and writing one triangle. NaN counts as not
/// positive.
template <class T>
void factor_positive(std::string_view op, bool lower, int n, T* a) {
  std::int64_t failed = potrf(lower ? 'U' : 'L', n, a);
  SNUG_CHECK(failed >= 0, "{}: argument {} of potrf", op, -failed);
  for (std::int64_t i = 0; failed == 0 && i < n; ++i)
    if (!(a[i * n + i] > 0)) failed = i + 1;
  if (failed > 0)
    fail(Fault::Numeric,
         fmt::format("{}: the matrix is not positive definite: leading minor of order {} of a "
                     "{} x {} matrix",
                     op, failed, n, n),
         "add a small multiple of the identity, or compute in float64");
}

class CholeskyCall : public Call {
 public:
  explicit CholeskyCall(const CallSite& site) : Call(site), lower_(site.node->attrs.flag("lower")) {
    check_dtype("cholesky", in_[0]);
  }
  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    check_shape("cholesky", a);
    if (a.shape[0] == 0) return;
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      factor(a, reinterpret_cast<const T*>(args.in[0]), reinterpret_cast<T*>(args.out[0]));
    });
  }

 private:
  template <class T>
  void factor(const ArgDesc& a, const T* from, T* to) const {
    const std::int64_t n = a.shape[0], row = a.strides[0], col = a.strides[1];
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        to[i * n + j] = (lower_ ? j <= i : j >= i) ? from[i * row + j * col] : T{};
    const OmpThreads scope(threads_);
    factor_positive("cholesky", lower_, static_cast<int>(n), to);
  }
  bool lower_;
};

class SolveCall : public Call {
 public:
  explicit SolveCall(const CallSite& site) : Call(site), trans_(site.node->attrs.flag("trans")) {
    check_dtype("solve", in_[0]);
    const std::string& kind = site.node->attrs.text("kind");
    if (kind == "general")
      kind_ = Kind::General;
    else if (kind == "lower")
      kind_ = Kind::Lower;
    else if (kind == "upper")
      kind_ = Kind::Upper;
    else if (kind == "positive")
      kind_ = Kind::Positive;
    else
      fail(Fault::Value, fmt::format("solve: unknown kind \"{}\"", kind),
           "the kinds are general, lower, upper and positive");
    const std::int64_t n = std::max(in_[0].shape[0], in_[0].shape[1]);
    if (kind_ == Kind::General || kind_ == Kind::Positive)
      workspace = align64(n * n * size_of(in_[0].dtype));
    if (kind_ == Kind::General) workspace += align64(n * sizeof(lapack_int));
  }

  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    const ArgDesc& b = in(args, 1);
    check_shape("solve", a);
    const std::int64_t n = a.shape[0], columns = b.shape.size() == 1 ? 1 : b.shape[1];
    SNUG_CHECK(b.shape[0] == n && columns <= INT_MAX, "solve: {} with {}", describe_shape(a.shape),
               describe_shape(b.shape));
    if (n == 0 || columns == 0) return;
    copy_bytes(args.out[0], args.in[1], n * columns * size_of(b.dtype), threads_);
    const OmpThreads scope(threads_);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      solve(static_cast<int>(n), static_cast<int>(columns), reinterpret_cast<const T*>(args.in[0]),
            reinterpret_cast<T*>(args.out[0]), args.workspace);
    });
  }

 private:
  enum class Kind : std::uint8_t { General, Lower, Upper, Positive };

  [[noreturn]] static void singular(std::int64_t pivot, int n) {
    fail(Fault::Numeric,
         fmt::format("solve: the matrix is singular: pivot {} of a {} x {} matrix is zero", pivot,
                     n, n),
         "add a small multiple of the identity, or solve the least squares problem");
  }

  template <class T>
  void solve(int n, int m, const T* a, T* x, std::byte* workspace) const {
    const std::int64_t elements = std::int64_t{n} * n;
    T* const factors = reinterpret_cast<T*>(workspace);
    switch (kind_) {
      case Kind::Lower:
      case Kind::Upper:
        for (std::int64_t i = 0; i < n; ++i)
          if (a[i * n + i] == 0) singular(i + 1, n);
        trsm(kind_ == Kind::Lower ? CblasLower : CblasUpper, trans_, false, n, m, a, x);
        return;
      case Kind::Positive:
        std::copy_n(a, elements, factors);
        factor_positive("solve", true, n, factors);
        trsm(CblasLower, false, false, n, m, factors, x);
        trsm(CblasLower, true, false, n, m, factors, x);
        return;
      case Kind::General:
        std::copy_n(a, elements, factors);
        solve_general(n, m, factors,
                      reinterpret_cast<lapack_int*>(workspace + align64(elements * sizeof(T))), x);
        return;
    }
  }

  /// getrf sees a^T = P L U, so a = U^T L^T P^T: U^T is the lower triangle as stored by rows, L^T
  /// the upper one with a unit diagonal, and P the row exchanges.
  template <class T>
  void solve_general(int n, int m, T* factors, lapack_int* pivots, T* x) const {
    const std::int64_t failed = getrf(n, factors, pivots);
    SNUG_CHECK(failed >= 0, "solve: argument {} of getrf", -failed);
    if (failed > 0) singular(failed, n);
    const auto exchange = [&](std::int64_t i) {
      const std::int64_t other = pivots[i] - 1;
      if (other != i) std::swap_ranges(x + i * m, x + (i + 1) * m, x + other * m);
    };
    if (trans_) {
      for (std::int64_t i = 0; i < n; ++i) exchange(i);
      trsm(CblasUpper, true, true, n, m, factors, x);
      trsm(CblasLower, true, false, n, m, factors, x);
    } else {
      trsm(CblasLower, false, false, n, m, factors, x);
      trsm(CblasUpper, false, true, n, m, factors, x);
      for (std::int64_t i = n; i-- > 0;) exchange(i);
    }
  }

  Kind kind_ = Kind::General;
  bool trans_;
};

}  // namespace

Prepared prepare_cholesky(const CallSite& site) { return std::make_unique<CholeskyCall>(site); }
Prepared prepare_solve(const CallSite& site) { return std::make_unique<SolveCall>(site); }

}  // namespace snug::native
