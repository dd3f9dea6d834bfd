#pragma once
#include <cstddef>
#include <cstdint>

#include "kernel/library.h"

namespace snug::native {

/// c (m, n) = a (m, k) . b (k, n), all of one dtype; strides in elements, per row and per column.
struct Gemm {
  DType dtype = DType::F32;
  std::int64_t m = 0, n = 0, k = 0;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  std::byte* c = nullptr;
  std::int64_t a_row = 0, a_col = 0, b_row = 0, b_col = 0, c_row = 0, c_col = 0;
};

/// Products of fewer multiply-adds than this are done by loop_gemm: a library's fixed cost is more.
inline constexpr std::int64_t kTinyGemm = 2048;

/// Any dtype and strides, no workspace. The order of additions follows from k, whatever the
/// threads.
void loop_gemm(const Gemm& g, int threads);

/// True if the layouts are BLAS's (one unit stride, a leading dimension that does not overlap), the
/// dtype is float32 or float64 and the sizes fit.
bool blas_takes(const Gemm& g);
/// By OpenBLAS, or by tiles of our own (narrow.h), with the same bits whatever the threads;
/// `accumulate` adds to c.
void blas_gemm(const Gemm& g, int threads, bool accumulate = false);

/// Floats of any strides: tiles are packed (and widened to float) into the workspace and
/// multiplied by OpenBLAS.
std::uint64_t tile_workspace(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k);
void tile_gemm(const Gemm& g, std::byte* workspace, int threads);

/// The product of a dot or batched_dot (2-d or 3-d operands), one matrix of it, and their number.
struct Product {
  Gemm gemm;  // of batch 0
  std::int64_t batches = 1, a_batch = 0, b_batch = 0, c_batch = 0;

  /// Sizes that are equal in a run may differ here where they are bounds: the largest counts.
  Product(const ArgDesc& a, const ArgDesc& b, const ArgDesc& c);
  Gemm at(const RunArgs& args, std::int64_t batch) const;
  std::int64_t work() const { return batches * gemm.m * gemm.n * gemm.k; }
};
/// Narrow ones by tiles of our own, others by BLAS where it takes the layouts, through packed tiles
/// if there is workspace, else by loops.
void run_product(const Product& product, const RunArgs& args, std::uint64_t workspace, int threads);
/// What run_product needs for these layouts (or smaller sizes).
std::uint64_t product_workspace(const Product& product);
int product_blas_buffers(const Product& product, int threads);

}  // namespace snug::native
