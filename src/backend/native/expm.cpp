#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/native/call.h"
#include "backend/native/copy.h"
#include "backend/native/lapack.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"

namespace snug::native {
namespace {

/// Higham 2005: the [m/m] Pade approximant of exp is exact to the precision of the dtype for
/// matrices of 1-norms up to a limit; larger ones are halved so often and the result squared.
struct Approximant {
  int degree;
  double limit;
  double coefficients[14];
};
constexpr Approximant kFloat[] = {
    {3, 4.258730016922831e-1, {120, 60, 12, 1}},
    {5, 1.880152677804762, {30240, 15120, 3360, 420, 30, 1}},
    {7, 3.925724783138660, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}},
};
constexpr Approximant kDouble[] = {
    {3, 1.495585217958292e-2, {120, 60, 12, 1}},
    {5, 2.539398330063230e-1, {30240, 15120, 3360, 420, 30, 1}},
    {7, 9.504178996162932e-1, {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1}},
    {9,
     2.097847961257068,
     {17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1}},
    {13,
     5.371920351148152,
     {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
      10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1}},
};

constexpr int kBuffers = 6;

/// By rows all matrices here are transposed to LAPACK. They are polynomials of one matrix and
/// commute, so transposing everything changes nothing.
template <class T>
class Exponential {
 public:
  Exponential(int n, T* workspace, lapack_int* pivots) : n_(n), pivots_(pivots) {
    size_ = std::int64_t{n} * n;
    for (int k = 0; k < kBuffers; ++k) buffer_[k] = workspace + k * size_;
  }

  /// a -> exp(a).
  void run(T* a) {
    const double norm = sum_norm(a);
    if (!std::isfinite(norm)) {
      std::fill_n(a, size_, std::numeric_limits<T>::quiet_NaN());
      return;
    }
    const Approximant* first = std::is_same_v<T, float> ? std::begin(kFloat) : std::begin(kDouble);
    const Approximant* last = std::is_same_v<T, float> ? std::end(kFloat) : std::end(kDouble);
    const Approximant* p = first;
    while (p + 1 != last && norm > p->limit) ++p;
    int squarings = 0;
    if (norm > p->limit) squarings = std::max(0, std::ilogb(norm / p->limit) + 1);
    if (squarings > 0)
      for (std::int64_t i = 0; i < size_; ++i)
        a[i] = static_cast<T>(std::ldexp(static_cast<double>(a[i]), -squarings));
    approximate(*p, a);
    T* from = a;
    T* to = buffer_[0];
    for (int k = 0; k < squarings; ++k) {
      multiply(n_, from, from, to);
      std::swap(from, to);
    }
    if (from != a) std::copy_n(from, size_, a);
  }

 private:
  double sum_norm(const T* a) const {
    double out = 0;
    for (std::int64_t j = 0; j < n_; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < n_; ++i) sum += std::fabs(static_cast<double>(a[i * n_ + j]));
      if (!(sum <= out)) out = sum;
      if (std::isnan(out)) return out;
    }
    return out;
  }

  void add_to(T* sum, double factor, const T* x) const {
    for (std::int64_t i = 0; i < size_; ++i) sum[i] += static_cast<T>(factor) * x[i];
  }
  void diagonal(T* x, double value) const {
    std::fill_n(x, size_, T{});
    for (std::int64_t i = 0; i < n_; ++i) x[i * (n_ + 1)] = static_cast<T>(value);
  }

  /// With the odd part u = a (c1 + c3 a^2 + ...) and the even part v, exp is (v - u)^-1 (v + u).
  void approximate(const Approximant& p, T* a) {
    T *const a2 = buffer_[0], *u = buffer_[1], *v = buffer_[2], *power = buffer_[3],
             *spare = buffer_[4], *const high = buffer_[5];
    const double* c = p.coefficients;
    multiply(n_, a, a, a2);
    diagonal(u, c[1]);
    diagonal(v, c[0]);
    add_to(u, c[3], a2);
    add_to(v, c[2], a2);
    std::copy_n(a2, size_, power);
    const auto next_power = [&] {
      multiply(n_, power, a2, spare);
      std::swap(power, spare);
    };
    const int direct = p.degree == 13 ? 7 : p.degree;
    for (int k = 5; k <= direct; k += 2) {
      next_power();
      add_to(u, c[k], power);
      add_to(v, c[k - 1], power);
    }
    if (p.degree == 13) {
      // power is a^6: the high halves are a^6 times polynomials of degree 6, which saves products.
      // a^4 is not kept; (c9 + c11 a^2 + c13 a^4) a^2 by Horner's scheme.
      const auto add_high = [&](T* sum, double c2, double c4, double c6) {
        diagonal(high, c4);
        add_to(high, c6, a2);
        multiply(n_, a2, high, spare);
        for (std::int64_t i = 0; i < n_; ++i) spare[i * (n_ + 1)] += static_cast<T>(c2);
        multiply(n_, a2, spare, high);
        multiply(n_, power, high, spare);
        add_to(sum, 1, spare);
      };
      add_high(u, c[9], c[11], c[13]);
      add_high(v, c[8], c[10], c[12]);
    }
    multiply(n_, a, u, spare);  // the odd part
    for (std::int64_t i = 0; i < size_; ++i) {
      a[i] = v[i] + spare[i];
      u[i] = v[i] - spare[i];
    }
    const std::int64_t failed = getrf(n_, u, pivots_);
    SNUG_CHECK(failed >= 0, "expm: argument {} of getrf", -failed);
    getrs(n_, u, pivots_, a);
  }

  int n_;
  std::int64_t size_;
  lapack_int* pivots_;
  T* buffer_[kBuffers];
};

class ExpmCall : public LapackCall {
 public:
  explicit ExpmCall(const CallSite& site) : LapackCall(site) {
    check_dtype("expm", in_[0]);
    const std::int64_t n = std::max(in_[0].shape[0], in_[0].shape[1]);
    workspace = align64(kBuffers * n * n * size_of(in_[0].dtype)) + align64(n * sizeof(lapack_int));
  }
  void run(const RunArgs& args) const override {
    const ArgDesc& a = in(args, 0);
    check_square("expm", a);
    const std::int64_t n = a.shape[0];
    if (n == 0) return;
    copy(out(args, 0), args.out[0], a, args.in[0], threads_);
    with_float(a.dtype, [&](auto tag) {
      using T = decltype(tag);
      auto* pivots = reinterpret_cast<lapack_int*>(args.workspace +
                                                   align64(kBuffers * n * n * size_of(a.dtype)));
      Exponential<T>(static_cast<int>(n), reinterpret_cast<T*>(args.workspace), pivots)
          .run(reinterpret_cast<T*>(args.out[0]));
    });
  }
};

}  // namespace

Prepared prepare_expm(const CallSite& site) { return std::make_unique<ExpmCall>(site); }

}  // namespace snug::native
