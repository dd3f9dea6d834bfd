#pragma once
#include <cblas.h>
#include <lapacke.h>

#include <cstdint>

// What OpenBLAS itself takes its buffers by; its headers do not declare them.
extern "C" {
void* blas_memory_alloc(int);
void blas_memory_free(void*);
}

#define SNUG_BLAS(X)      \
  X(cblas_sdot);          \
  X(cblas_ddot);          \
  X(cblas_sgemv);         \
  X(cblas_dgemv);         \
  X(cblas_sgemm);         \
  X(cblas_dgemm);         \
  X(cblas_strsm);         \
  X(cblas_dtrsm);         \
  X(blas_memory_alloc);   \
  X(blas_memory_free);    \
  X(openblas_get_config); \
  X(openblas_get_corename);

#define SNUG_LAPACKE(X)   \
  X(LAPACKE_spotrf_work); \
  X(LAPACKE_dpotrf_work); \
  X(LAPACKE_sgetrf_work); \
  X(LAPACKE_dgetrf_work); \
  X(LAPACKE_sgetri_work); \
  X(LAPACKE_dgetri_work); \
  X(LAPACKE_sgetrs_work); \
  X(LAPACKE_dgetrs_work); \
  X(LAPACKE_sgelqf_work); \
  X(LAPACKE_dgelqf_work); \
  X(LAPACKE_sorglq_work); \
  X(LAPACKE_dorglq_work); \
  X(LAPACKE_sgesdd_work); \
  X(LAPACKE_dgesdd_work); \
  X(LAPACKE_ssyevd_work); \
  X(LAPACKE_dsyevd_work); \
  X(LAPACKE_sgeev_work);  \
  X(LAPACKE_dgeev_work);  \
  X(LAPACKE_sgelsd_work); \
  X(LAPACKE_dgelsd_work);

namespace snug::native {

/// The functions of OpenBLAS and LAPACKE, which are loaded when they are first asked for. While it
/// is loaded, OpenBLAS maps a buffer for each of its threads, and tries for ever if a limit of the
/// process does not allow it; so it is loaded with one thread where there is no room for more.
#define SNUG_FIELD(name) decltype(&::name) name
struct BlasLibrary {
  SNUG_BLAS(SNUG_FIELD)
};
struct LapackLibrary {
  SNUG_LAPACKE(SNUG_FIELD)
};
#undef SNUG_FIELD

/// A Memory error if there is no room for it, a Missing one if it is not installed. Where calls run
/// on threads it has been asked for before.
const BlasLibrary& blas();
const LapackLibrary& lapack();
bool blas_is_loaded();
/// What loading it takes at least.
std::uint64_t bytes_to_load();

}  // namespace snug::native
