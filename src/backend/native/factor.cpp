#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/lapack.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "ops/dense.h"

// A row-major matrix is its transpose to LAPACK, so lower and upper change places and no
// transposing copy is made. Every routine here works in the output or the workspace.

namespace snug::native {
namespace {

/// b (n, m) = op(a)^-1 . b, row-major.
void trsm(CBLAS_UPLO uplo, bool trans, bool unit, int n, int m, const float* a, float* b) {
  blas().cblas_strsm(CblasRowMajor, CblasLeft, uplo, trans ? CblasTrans : CblasNoTrans,
                     unit ? CblasUnit : CblasNonUnit, n, m, 1.0f, a, n, b, m);
}
void trsm(CBLAS_UPLO uplo, bool trans, bool unit, int n, int m, const double* a, double* b) {
  blas().cblas_dtrsm(CblasRowMajor, CblasLeft, uplo, trans ? CblasTrans : CblasNoTrans,
                     unit ? CblasUnit : CblasNonUnit, n, m, 1.0, a, n, b, m);
}

/// Factorises a row-major matrix in place, reading and writing one triangle. NaN counts as not
/// positive.
template <class T>
void factor_positive(std::string_view op, bool lower, int n, T* a) {
  std::int64_t failed = potrf(lower ? 'U' : 'L', n, a);
  SNUG_CHECK(failed >= 0, "{}: argument {} of potrf", op, -failed);
  for (std::int64_t i = 0; failed == 0 && i < n; ++i)
    if (!(a[i * n + i] > 0)) failed = i + 1;
  if (failed > 0) ops::fail_not_positive(op, failed, n);
}

class CholeskyCall : public LapackCall {
 public:
  explicit CholeskyCall(const CallSite& site)
      : LapackCall(site), lower_(site.node->attrs.flag("lower")) {
    check_dtype("cholesky", in_[0]);
  }
  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    check_square("cholesky", a);
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
    factor_positive("cholesky", lower_, static_cast<int>(n), to);
  }
  bool lower_;
};

class SolveCall : public LapackCall {
 public:
  explicit SolveCall(const CallSite& site)
      : LapackCall(site), trans_(site.node->attrs.flag("trans")) {
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
    check_square("solve", a);
    const std::int64_t n = a.shape[0], columns = b.shape.size() == 1 ? 1 : b.shape[1];
    SNUG_CHECK(b.shape[0] == n && columns <= INT_MAX, "solve: {} with {}", describe_shape(a.shape),
               describe_shape(b.shape));
    if (n == 0 || columns == 0) return;
    copy_bytes(args.out[0], args.in[1], n * columns * size_of(b.dtype), threads_);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      solve(static_cast<int>(n), static_cast<int>(columns), reinterpret_cast<const T*>(args.in[0]),
            reinterpret_cast<T*>(args.out[0]), args.workspace);
    });
  }

 private:
  enum class Kind : std::uint8_t { General, Lower, Upper, Positive };

  template <class T>
  void solve(int n, int m, const T* a, T* x, std::byte* workspace) const {
    const std::int64_t elements = std::int64_t{n} * n;
    T* const factors = reinterpret_cast<T*>(workspace);
    switch (kind_) {
      case Kind::Lower:
      case Kind::Upper:
        for (std::int64_t i = 0; i < n; ++i)
          if (a[i * n + i] == 0) ops::fail_singular("solve", i + 1, n);
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
    if (failed > 0) ops::fail_singular("solve", failed, n);
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

class InverseCall : public LapackCall {
 public:
  explicit InverseCall(const CallSite& site) : LapackCall(site) {
    check_dtype("inverse", in_[0]);
    const std::int64_t n = std::max<std::int64_t>(in_[0].shape[0], in_[0].shape[1]);
    with_float(in_[0].dtype, [&](auto tag) {
      using T = decltype(tag);
      T size = 1;
      if (n > 0) getri(static_cast<int>(n), static_cast<T*>(nullptr), nullptr, &size, -1);
      workspace = align64(n * sizeof(lapack_int)) + work_bytes(size);
    });
  }
  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    check_square("inverse", a);
    const int n = static_cast<int>(a.shape[0]);
    if (n == 0) return;
    copy(out(args, 0), args.out[0], a, args.in[0], threads_);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const y = reinterpret_cast<T*>(args.out[0]);
      auto* const pivots = reinterpret_cast<lapack_int*>(args.workspace);
      const std::int64_t failed = getrf(n, y, pivots);
      SNUG_CHECK(failed >= 0, "inverse: argument {} of getrf", -failed);
      if (failed > 0) ops::fail_singular("inverse", failed, n);
      const std::uint64_t used = align64(n * sizeof(lapack_int));
      T* const work = reinterpret_cast<T*>(args.workspace + used);
      const std::int64_t again = getri(n, y, pivots, work, work_size<T>(workspace - used));
      SNUG_CHECK(again == 0, "inverse: getri gives {}", again);
    });
  }
};

/// det and slogdet, by the pivots of the elimination.
class DeterminantCall : public LapackCall {
 public:
  explicit DeterminantCall(const CallSite& site, bool logarithm)
      : LapackCall(site), logarithm_(logarithm) {
    check_dtype(name(), in_[0]);
    const std::int64_t n = std::max<std::int64_t>(in_[0].shape[0], in_[0].shape[1]);
    workspace = align64(n * n * size_of(in_[0].dtype)) + align64(n * sizeof(lapack_int));
  }
  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    check_square(name(), a);
    with_float(a.dtype, [&](auto tag) { determinant<decltype(tag)>(args, a); });
  }

 private:
  std::string_view name() const { return logarithm_ ? "slogdet" : "det"; }

  template <class T>
  void determinant(const RunArgs& args, const ArgDesc& a) const {
    const int n = static_cast<int>(a.shape[0]);
    T* const factors = reinterpret_cast<T*>(args.workspace);
    auto* const pivots =
        reinterpret_cast<lapack_int*>(args.workspace + align64(std::uint64_t{sizeof(T)} * n * n));
    std::int64_t failed = 0;
    if (n > 0) {
      copy(by_rows(a.dtype, n, n), args.workspace, a, args.in[0], threads_);
      failed = getrf(n, factors, pivots);
      SNUG_CHECK(failed >= 0, "{}: argument {} of getrf", name(), -failed);
    }
    double product = 1, sum = 0, sign = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const double pivot = static_cast<double>(factors[i * n + i]);
      const bool exchanged = pivots[i] != i + 1;
      product *= exchanged ? -pivot : pivot;
      if ((pivot < 0) != exchanged) sign = -sign;
      sum += std::log(std::fabs(pivot));
    }
    if (failed > 0) {  // a pivot is zero
      sign = product = 0;
      sum = -std::numeric_limits<double>::infinity();
    } else if (std::isnan(sum)) {
      sign = sum;
    }
    T* const first = reinterpret_cast<T*>(args.out[0]);
    *first = static_cast<T>(logarithm_ ? sign : product);
    if (logarithm_) *reinterpret_cast<T*>(args.out[1]) = static_cast<T>(sum);
  }
  bool logarithm_;
};

}  // namespace

Prepared prepare_cholesky(const CallSite& site) { return std::make_unique<CholeskyCall>(site); }
Prepared prepare_det(const CallSite& site) {
  return std::make_unique<DeterminantCall>(site, false);
}
Prepared prepare_inverse(const CallSite& site) { return std::make_unique<InverseCall>(site); }
Prepared prepare_slogdet(const CallSite& site) {
  return std::make_unique<DeterminantCall>(site, true);
}
Prepared prepare_solve(const CallSite& site) { return std::make_unique<SolveCall>(site); }

}  // namespace snug::native
