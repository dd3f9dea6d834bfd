#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/lapack.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "ops/dense.h"

namespace snug::native {
namespace {

/// Parts of a workspace, one behind the other, each at a multiple of 64 bytes.
class Parts {
 public:
  explicit Parts(std::byte* at) : at_(at) {}
  template <class T>
  T* take(std::int64_t count) {
    T* out = reinterpret_cast<T*>(at_);
    at_ += align64(static_cast<std::uint64_t>(count) * sizeof(T));
    return out;
  }

 private:
  std::byte* at_;
};

/// LAPACK's iterations may not end on these.
template <class T>
void require_finite(std::string_view op, const T* by_columns, std::int64_t rows,
                    std::int64_t cols) {
  for (std::int64_t k = 0; k < rows * cols; ++k)
    if (!std::isfinite(by_columns[k])) {
      for (std::int64_t i = 0; i < rows; ++i)  // the first one, by rows
        for (std::int64_t j = 0; j < cols; ++j)
          if (!std::isfinite(by_columns[j * rows + i])) ops::fail_not_finite(op, i, j, rows, cols);
    }
}

void check_result(std::string_view op, std::string_view routine, std::int64_t result,
                  std::int64_t rows, std::int64_t cols) {
  SNUG_CHECK(result >= 0, "{}: argument {} of {}", op, -result, routine);
  if (result > 0) ops::fail_no_convergence(op, rows, cols);
}

/// The (rows, cols) matrix stored by columns becomes one stored by rows. The scratch has its size,
/// or the matrix is square.
template <class T>
void turn(T* a, std::int64_t rows, std::int64_t cols, T* scratch) {
  if (rows == cols) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < i; ++j) std::swap(a[i * rows + j], a[j * rows + i]);
    return;
  }
  std::copy_n(a, rows * cols, scratch);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) a[i * cols + j] = scratch[j * rows + i];
}

std::int64_t smaller(const ArgDesc& a) { return std::min(a.shape[0], a.shape[1]); }

/// By rows, a' = l q' is what LAPACK sees: gelqf gives l = r' and q' in the very layout that the
/// outputs have.
class QrCall : public LapackCall {
 public:
  QrCall(const CallSite& site, bool with_q)
      : LapackCall(site), with_q_(with_q), complete_(with_q && site.node->attrs.flag("complete")) {
    const ArgDesc& a = in_[0];
    check_dtype("qr", a);
    check_matrix("qr", a);
    const std::int64_t m = a.shape[0], n = a.shape[1], k = smaller(a);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const none = nullptr;
      T size = 1, more = 1;
      if (k > 0) gelqf(int(n), int(m), none, none, &size, -1);
      if (k > 0 && with_q_) orglq(int(q_columns(m, n)), int(m), int(k), none, none, &more, -1);
      workspace = align64(m * n * sizeof(T)) + align64(k * sizeof(T));
      work_ = work_bytes(std::max(size, more));
    });
    workspace += work_;
  }

  void run(const RunArgs& args) const override {
    with_float(in(args, 0).dtype, [&](auto tag) { factor<decltype(tag)>(args); });
  }

 private:
  std::int64_t q_columns(std::int64_t m, std::int64_t n) const {
    return complete_ ? m : std::min(m, n);
  }

  template <class T>
  void factor(const RunArgs& args) const {
    const ArgDesc& a = in(args, 0);
    const std::int64_t m = a.shape[0], n = a.shape[1], k = smaller(a), columns = q_columns(m, n);
    Parts parts(args.workspace);
    T* const w = parts.take<T>(m * n);
    T* const tau = parts.take<T>(k);
    T* const work = parts.take<T>(0);
    const int size = work_size<T>(work_);
    if (k > 0) {
      copy(by_rows(a.dtype, m, n), args.workspace, a, args.in[0], threads_);
      check_result("qr", "gelqf", gelqf(int(n), int(m), w, tau, work, size), m, n);
    }
    T* const r = reinterpret_cast<T*>(args.out[with_q_ ? 1 : 0]);
    for (std::int64_t i = 0; i < columns; ++i)
      for (std::int64_t j = 0; j < n; ++j) r[i * n + j] = i < m && j >= i ? w[i * n + j] : T{};
    if (!with_q_ || m == 0) return;
    T* const q = reinterpret_cast<T*>(args.out[0]);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        q[i * columns + j] = j < k ? w[i * n + j] : static_cast<T>(j == i);
    if (k > 0)
      check_result("qr", "orglq", orglq(int(columns), int(m), int(k), q, tau, work, size), m, n);
  }

  bool with_q_, complete_;
  std::uint64_t work_ = 0;
};

class SvdCall : public LapackCall {
 public:
  SvdCall(const CallSite& site, bool vectors) : LapackCall(site), vectors_(vectors) {
    const ArgDesc& a = in_[0];
    check_dtype(name(), a);
    vectors ? check_work(name(), a) : check_matrix(name(), a);
    job_ = !vectors ? 'N' : site.node->attrs.flag("full") ? 'A' : 'S';
    const std::int64_t m = a.shape[0], n = a.shape[1], k = smaller(a);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const none = nullptr;
      T size = 1;
      lapack_int integer = 0;
      if (k > 0)
        gesdd(job_, int(m), int(n), none, none, none, none, int(job_ == 'S' ? k : n), &size, -1,
              &integer);
      work_ = work_bytes(size);
      workspace = align64(m * n * sizeof(T)) + align64(8 * k * sizeof(lapack_int)) + work_;
    });
  }

  void run(const RunArgs& args) const override {
    with_float(in(args, 0).dtype, [&](auto tag) { decompose<decltype(tag)>(args); });
  }

 private:
  std::string_view name() const { return vectors_ ? "svd" : "svdvals"; }

  template <class T>
  void decompose(const RunArgs& args) const {
    const ArgDesc& a = in(args, 0);
    const std::int64_t m = a.shape[0], n = a.shape[1], k = smaller(a);
    T* const s = reinterpret_cast<T*>(args.out[vectors_ ? 1 : 0]);
    T* const u = vectors_ ? reinterpret_cast<T*>(args.out[0]) : nullptr;
    T* const vt = vectors_ ? reinterpret_cast<T*>(args.out[2]) : nullptr;
    const std::int64_t u_columns = job_ == 'A' ? m : k, vt_rows = job_ == 'A' ? n : k;
    if (k == 0) {
      for (std::int64_t i = 0; i < m * u_columns && u; ++i) u[i] = static_cast<T>(i % (m + 1) == 0);
      for (std::int64_t i = 0; i < n * vt_rows && vt; ++i) vt[i] = static_cast<T>(i % (n + 1) == 0);
      return;
    }
    Parts parts(args.workspace);
    T* const w = parts.take<T>(m * n);
    auto* const integers = parts.take<lapack_int>(8 * k);
    T* const work = parts.take<T>(0);
    copy(by_columns(a.dtype, m, n), args.workspace, a, args.in[0], threads_);
    require_finite(name(), w, m, n);
    check_result(name(), "gesdd",
                 gesdd(job_, int(m), int(n), w, s, u, vt, int(std::max<std::int64_t>(vt_rows, 1)),
                       work, work_size<T>(work_), integers),
                 m, n);
    if (!vectors_) return;
    turn(u, m, u_columns, w);
    turn(vt, vt_rows, n, w);
  }

  bool vectors_;
  char job_ = 'N';
  std::uint64_t work_ = 0;
};

class EigCall : public LapackCall {
 public:
  explicit EigCall(const CallSite& site) : LapackCall(site) {
    check_dtype("eig", in_[0]);
    check_work("eig", in_[0]);
    const std::int64_t n = std::max(in_[0].shape[0], in_[0].shape[1]);
    with_float(in_[0].dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const none = nullptr;
      T size = 1;
      if (n > 0) geev(int(n), none, none, none, none, &size, -1);
      work_ = work_bytes(size);
      workspace = 2 * align64(n * n * sizeof(T)) + 2 * align64(n * sizeof(T)) + work_;
    });
  }

  void run(const RunArgs& args) const override {
    with_float(in(args, 0).dtype, [&](auto tag) { decompose<decltype(tag)>(args); });
  }

 private:
  template <class T>
  void decompose(const RunArgs& args) const {
    const ArgDesc& a = in(args, 0);
    check_square("eig", a);
    const std::int64_t n = a.shape[0];
    if (n == 0) return;
    Parts parts(args.workspace);
    T* const copied = parts.take<T>(n * n);
    T* const vectors = parts.take<T>(n * n);
    T* const re = parts.take<T>(n);
    T* const im = parts.take<T>(n);
    T* const work = parts.take<T>(0);
    copy(by_columns(a.dtype, n, n), reinterpret_cast<std::byte*>(copied), a, args.in[0], threads_);
    require_finite("eig", copied, n, n);
    check_result("eig", "geev", geev(int(n), copied, re, im, vectors, work, work_size<T>(work_)), n,
                 n);
    T* const w = reinterpret_cast<T*>(args.out[0]);
    T* const v = reinterpret_cast<T*>(args.out[1]);
    for (std::int64_t k = 0; k < n; ++k) {
      w[2 * k] = re[k];
      w[2 * k + 1] = im[k];
      // Of a conjugate pair the first, with the positive imaginary part, has both parts stored.
      const std::int64_t first = im[k] < 0 ? k - 1 : k;
      for (std::int64_t i = 0; i < n; ++i) {
        T* const at = v + 2 * (i * n + k);
        at[0] = vectors[first * n + i];
        at[1] = im[k] == 0  ? T{}
                : im[k] > 0 ? vectors[(first + 1) * n + i]
                            : -vectors[(first + 1) * n + i];
      }
    }
  }

  std::uint64_t work_ = 0;
};

class EighCall : public LapackCall {
 public:
  EighCall(const CallSite& site, bool vectors)
      : LapackCall(site), vectors_(vectors), lower_(site.node->attrs.flag("lower")) {
    check_dtype(name(), in_[0]);
    vectors_ ? check_work(name(), in_[0]) : check_matrix(name(), in_[0]);
    const std::int64_t n = std::max(in_[0].shape[0], in_[0].shape[1]);
    with_float(in_[0].dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const none = nullptr;
      T size = 1;
      lapack_int integers = 1;
      if (n > 0) syevd(job(), uplo(), int(n), none, none, &size, -1, &integers, -1);
      integers_ = integers;
      work_ = work_bytes(size);
      workspace = align64(integers_ * sizeof(lapack_int)) + work_;
      if (!vectors_) workspace += align64(n * n * sizeof(T));
    });
  }

  void run(const RunArgs& args) const override {
    with_float(in(args, 0).dtype, [&](auto tag) { decompose<decltype(tag)>(args); });
  }

 private:
  std::string_view name() const { return vectors_ ? "eigh" : "eigvalsh"; }
  char job() const { return vectors_ ? 'V' : 'N'; }
  char uplo() const { return lower_ ? 'L' : 'U'; }

  template <class T>
  void decompose(const RunArgs& args) const {
    const ArgDesc& a = in(args, 0);
    check_square(name(), a);
    const std::int64_t n = a.shape[0];
    if (n == 0) return;
    Parts parts(args.workspace);
    auto* const integers = parts.take<lapack_int>(integers_);
    T* const v = vectors_ ? reinterpret_cast<T*>(args.out[1]) : parts.take<T>(n * n);
    T* const work = parts.take<T>(0);
    copy(by_columns(a.dtype, n, n), reinterpret_cast<std::byte*>(v), a, args.in[0], threads_);
    // Of the triangle that is not read nothing may matter, NaN in it neither.
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < j; ++i) {
        T& upper = v[j * n + i];
        T& lower = v[i * n + j];
        (lower_ ? upper : lower) = lower_ ? lower : upper;
      }
    require_finite(name(), v, n, n);
    check_result(name(), "syevd",
                 syevd(job(), uplo(), int(n), v, reinterpret_cast<T*>(args.out[0]), work,
                       work_size<T>(work_), integers, int(integers_)),
                 n, n);
    if (vectors_) turn(v, n, n, v);
  }

  bool vectors_, lower_;
  std::int64_t integers_ = 1;
  std::uint64_t work_ = 0;
};

class LstsqCall : public LapackCall {
 public:
  explicit LstsqCall(const CallSite& site)
      : LapackCall(site), rcond_(site.node->attrs.number("rcond")) {
    const ArgDesc &a = in_[0], &b = in_[1];
    check_dtype("lstsq", a);
    check_work("lstsq", a);
    check_matrix("lstsq", b);
    const std::int64_t m = a.shape[0], n = a.shape[1], k = b.shape[1], both = std::max(m, n);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      T* const none = nullptr;
      T size = 1;
      lapack_int rank = 0, integers = 1;
      if (smaller(a) > 0)
        gelsd(int(m), int(n), solved(k), none, none, int(both), none, T(-1), &rank, &size, -1,
              &integers);
      integers_ = integers;
      work_ = work_bytes(size);
      workspace = align64(m * n * sizeof(T)) + align64(both * solved(k) * sizeof(T)) +
                  align64(integers_ * sizeof(lapack_int)) + work_;
    });
  }

  void run(const RunArgs& args) const override {
    with_float(in(args, 0).dtype, [&](auto tag) { solve<decltype(tag)>(args); });
  }

 private:
  /// Right-hand sides that LAPACK is given: it refuses none.
  static int solved(std::int64_t given) {
    return static_cast<int>(std::max<std::int64_t>(given, 1));
  }

  template <class T>
  void solve(const RunArgs& args) const {
    const ArgDesc &a = in(args, 0), &b = in(args, 1);
    const std::int64_t m = a.shape[0], n = a.shape[1], k = b.shape[1], both = std::max(m, n);
    T* const x = reinterpret_cast<T*>(args.out[0]);
    auto& rank_out = *reinterpret_cast<std::int64_t*>(args.out[1]);
    T* const s = reinterpret_cast<T*>(args.out[2]);
    if (m == 0 || n == 0) {
      std::fill_n(x, n * k, T{});
      rank_out = 0;
      return;
    }
    Parts parts(args.workspace);
    T* const w = parts.take<T>(m * n);
    T* const right = parts.take<T>(both * solved(k));
    if (k == 0) std::fill_n(right, both, T{});
    auto* const integers = parts.take<lapack_int>(integers_);
    T* const work = parts.take<T>(0);
    copy(by_columns(a.dtype, m, n), reinterpret_cast<std::byte*>(w), a, args.in[0], threads_);
    ArgDesc top = by_columns(b.dtype, m, k);
    top.strides[1] = both;
    copy(top, reinterpret_cast<std::byte*>(right), b, args.in[1], threads_);
    require_finite("lstsq", w, m, n);
    const T eps = std::numeric_limits<T>::epsilon();
    const T rcond = std::isnan(rcond_) ? eps * static_cast<T>(both)
                    : rcond_ < 0       ? eps
                                       : static_cast<T>(rcond_);
    lapack_int rank = 0;
    check_result("lstsq", "gelsd",
                 gelsd(int(m), int(n), solved(k), w, right, int(both), s, rcond, &rank, work,
                       work_size<T>(work_), integers),
                 m, n);
    rank_out = rank;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < k; ++j) x[i * k + j] = right[j * both + i];
  }

  double rcond_;
  std::int64_t integers_ = 1;
  std::uint64_t work_ = 0;
};

}  // namespace

Prepared prepare_eig(const CallSite& site) { return std::make_unique<EigCall>(site); }
Prepared prepare_eigh(const CallSite& site) { return std::make_unique<EighCall>(site, true); }
Prepared prepare_eigvalsh(const CallSite& site) { return std::make_unique<EighCall>(site, false); }
Prepared prepare_lstsq(const CallSite& site) { return std::make_unique<LstsqCall>(site); }
Prepared prepare_qr(const CallSite& site) { return std::make_unique<QrCall>(site, true); }
Prepared prepare_qr_r(const CallSite& site) { return std::make_unique<QrCall>(site, false); }
Prepared prepare_svd(const CallSite& site) { return std::make_unique<SvdCall>(site, true); }
Prepared prepare_svdvals(const CallSite& site) { return std::make_unique<SvdCall>(site, false); }

}  // namespace snug::native
