#pragma once
#include <climits>
#include <cmath>
#include <string_view>

#include "backend/native/blas_buffers.h"
#include "backend/native/blas_library.h"
#include "backend/native/call.h"

/// LAPACK under one name per routine for both precisions, matrices by columns. Work arrays are
/// ours; a size of -1 asks for the best one, which comes in work[0]. LAPACK's OpenBLAS keeps
/// packing buffers of its own.
namespace snug::native {

#define SNUG_LAPACK(T, letter)                                                                     \
  inline lapack_int potrf(char uplo, int n, T* a) {                                                \
    return lapack().LAPACKE_##letter##potrf_work(LAPACK_COL_MAJOR, uplo, n, a, n);                 \
  }                                                                                                \
  inline lapack_int getrf(int n, T* a, lapack_int* pivots) {                                       \
    return lapack().LAPACKE_##letter##getrf_work(LAPACK_COL_MAJOR, n, n, a, n, pivots);            \
  }                                                                                                \
  inline lapack_int getri(int n, T* a, const lapack_int* pivots, T* work, int size) {              \
    return lapack().LAPACKE_##letter##getri_work(LAPACK_COL_MAJOR, n, a, n, pivots, work, size);   \
  }                                                                                                \
  inline lapack_int getrs(int n, const T* a, const lapack_int* pivots, T* b) {                     \
    return lapack().LAPACKE_##letter##getrs_work(LAPACK_COL_MAJOR, 'N', n, n, a, n, pivots, b, n); \
  }                                                                                                \
  inline lapack_int gelqf(int m, int n, T* a, T* tau, T* work, int size) {                         \
    return lapack().LAPACKE_##letter##gelqf_work(LAPACK_COL_MAJOR, m, n, a, m, tau, work, size);   \
  }                                                                                                \
  inline lapack_int orglq(int m, int n, int k, T* a, const T* tau, T* work, int size) {            \
    return lapack().LAPACKE_##letter##orglq_work(LAPACK_COL_MAJOR, m, n, k, a, m, tau, work,       \
                                                 size);                                            \
  }                                                                                                \
  inline lapack_int gesdd(char job, int m, int n, T* a, T* s, T* u, T* vt, int vt_rows, T* work,   \
                          int size, lapack_int* integers) {                                        \
    return lapack().LAPACKE_##letter##gesdd_work(LAPACK_COL_MAJOR, job, m, n, a, m, s, u, m, vt,   \
                                                 vt_rows, work, size, integers);                   \
  }                                                                                                \
  inline lapack_int syevd(char job, char uplo, int n, T* a, T* w, T* work, int size,               \
                          lapack_int* integers, int integer_size) {                                \
    return lapack().LAPACKE_##letter##syevd_work(LAPACK_COL_MAJOR, job, uplo, n, a, n, w, work,    \
                                                 size, integers, integer_size);                    \
  }                                                                                                \
  inline lapack_int geev(int n, T* a, T* re, T* im, T* v, T* work, int size) {                     \
    return lapack().LAPACKE_##letter##geev_work(LAPACK_COL_MAJOR, 'N', 'V', n, a, n, re, im,       \
                                                nullptr, 1, v, n, work, size);                     \
  }                                                                                                \
  inline lapack_int gelsd(int m, int n, int k, T* a, T* b, int b_rows, T* s, T rcond,              \
                          lapack_int* rank, T* work, int size, lapack_int* integers) {             \
    return lapack().LAPACKE_##letter##gelsd_work(LAPACK_COL_MAJOR, m, n, k, a, m, b, b_rows, s,    \
                                                 rcond, rank, work, size, integers);               \
  }                                                                                                \
  /* c = a . b, square, by rows. */                                                                \
  inline void multiply(int n, const T* a, const T* b, T* c) {                                      \
    blas().cblas_##letter##gemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, \
                                0, c, n);                                                          \
  }
SNUG_LAPACK(float, s)
SNUG_LAPACK(double, d)
#undef SNUG_LAPACK

class LapackCall : public Call {
 public:
  explicit LapackCall(const CallSite& site) : Call(site) { blas_buffers = 1; }
};

template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::F32)
    f(float{});
  else
    f(double{});
}

/// A work size as LAPACK gives it, in bytes. Floats do not hold every integer: one step more.
template <class T>
std::uint64_t work_bytes(T size) {
  return align64(static_cast<std::uint64_t>(std::ceil(std::nextafter(size, 2 * size + 1))) *
                 sizeof(T));
}
/// How many elements of a work array are in so many bytes.
template <class T>
int work_size(std::uint64_t bytes) {
  return static_cast<int>(std::min<std::uint64_t>(bytes / sizeof(T), INT_MAX));
}

inline ArgDesc by_rows(DType dtype, std::int64_t rows, std::int64_t cols) {
  return {dtype, {rows, cols}, {cols, 1}};
}
inline ArgDesc by_columns(DType dtype, std::int64_t rows, std::int64_t cols) {
  return {dtype, {rows, cols}, {1, rows}};
}

inline void check_dtype(std::string_view op, const ArgDesc& a) {
  if (a.dtype != DType::F32 && a.dtype != DType::F64)
    fail(Fault::Unsupported, fmt::format("{}: not done on {}", op, name_of(a.dtype)),
         "cast to float32 or float64 first");
}
inline void check_matrix(std::string_view op, const ArgDesc& a) {
  SNUG_CHECK(a.shape.size() == 2 && a.shape[0] <= INT_MAX && a.shape[1] <= INT_MAX,
             "{}: a matrix of shape {}", op, describe_shape(a.shape));
}
/// LAPACK counts the work array of a decomposition with vectors, some four squares of the smaller
/// size, in 32 bits.
inline void check_work(std::string_view op, const ArgDesc& a) {
  check_matrix(op, a);
  constexpr std::int64_t kLargest = 23000;
  if (std::min(a.shape[0], a.shape[1]) > kLargest)
    fail(Fault::Unsupported,
         fmt::format("{}: a matrix of shape {} is too large for LAPACK, which takes {} rows or "
                     "columns",
                     op, describe_shape(a.shape), kLargest));
}
inline void check_square(std::string_view op, const ArgDesc& a) {
  check_matrix(op, a);
  SNUG_CHECK(a.shape[0] == a.shape[1], "{}: a matrix of shape {}", op, describe_shape(a.shape));
}

}  // namespace snug::native
