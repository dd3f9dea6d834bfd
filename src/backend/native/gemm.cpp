#include "backend/native/gemm.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>

#include "backend/native/blas_buffers.h"
#include "backend/native/blas_library.h"
#include "backend/native/call.h"
#include "backend/native/convert.h"
#include "backend/native/narrow.h"
#include "backend/native/parallel.h"
#include "backend/native/routines.h"
#include "base/elements.h"

namespace snug::native {
namespace {

template <class T>
void loop_gemm_typed(const Gemm& g, int threads) {
  using E = Element<T>;
  using Acc = typename E::Acc;
  constexpr std::int64_t kRows = 16, kCols = 64, kDepth = 64;
  const T* const a = reinterpret_cast<const T*>(g.a);
  const T* const b = reinterpret_cast<const T*>(g.b);
  T* const c = reinterpret_cast<T*>(g.c);
  const bool direct = std::is_same_v<T, Acc> && g.b_col == 1;  // rows of b serve as they are
  const std::int64_t down = (g.m + kRows - 1) / kRows, across = (g.n + kCols - 1) / kCols;
  parallel_ranges(down * across, g.m * g.n * g.k, threads, [&](std::int64_t t, std::int64_t last) {
    Acc acc[kRows][kCols], part[kCols];  // a sum of sums of kDepth terms is more exact than one sum
    Acc packed[kDepth][kCols];
    for (; t < last; ++t) {
      const std::int64_t i0 = t / across * kRows, j0 = t % across * kCols;
      const std::int64_t rows = std::min(kRows, g.m - i0), cols = std::min(kCols, g.n - j0);
      for (std::int64_t i = 0; i < rows; ++i) std::fill_n(acc[i], cols, Acc{});
      for (std::int64_t k0 = 0; k0 < g.k; k0 += kDepth) {
        const std::int64_t depth = std::min(kDepth, g.k - k0);
        const T* const tile = b + k0 * g.b_row + j0 * g.b_col;
        if (!direct)
          for (std::int64_t k = 0; k < depth; ++k)
            for (std::int64_t j = 0; j < cols; ++j)
              packed[k][j] = E::load(tile[k * g.b_row + j * g.b_col]);
        for (std::int64_t i = 0; i < rows; ++i) {
          std::fill_n(part, cols, Acc{});
          for (std::int64_t k = 0; k < depth; ++k) {
            const Acc x = E::load(a[(i0 + i) * g.a_row + (k0 + k) * g.a_col]);
            const Acc* row = packed[k];
            if constexpr (std::is_same_v<T, Acc>)
              if (direct) row = tile + k * g.b_row;
            for (std::int64_t j = 0; j < cols; ++j) part[j] = E::add(part[j], E::mul(x, row[j]));
          }
          for (std::int64_t j = 0; j < cols; ++j) acc[i][j] = E::add(acc[i][j], part[j]);
        }
      }
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j)
          c[(i0 + i) * g.c_row + (j0 + j) * g.c_col] = E::store(acc[i][j]);
    }
  });
}

struct BlasLayout {
  bool transposed;
  int ld;
};

/// How a matrix looks to a row-major BLAS, if it does.
std::optional<BlasLayout> blas_layout(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                                      std::int64_t col_stride) {
  const auto try_as = [](bool transposed, std::int64_t outer, std::int64_t inner,
                         std::int64_t outer_stride,
                         std::int64_t inner_stride) -> std::optional<BlasLayout> {
    if (inner > 1 && inner_stride != 1) return std::nullopt;
    const std::int64_t ld = outer > 1 ? outer_stride : std::max<std::int64_t>(inner, 1);
    if (ld < std::max<std::int64_t>(inner, 1) || ld > INT_MAX) return std::nullopt;
    return BlasLayout{transposed, static_cast<int>(ld)};
  };
  if (auto plain = try_as(false, rows, cols, row_stride, col_stride)) return plain;
  return try_as(true, cols, rows, col_stride, row_stride);
}

constexpr std::int64_t kTileM = 384, kTileN = 1024, kTileK = 512;

template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

void pack_run(const float* from, float* to, std::int64_t n) { std::copy_n(from, n, to); }
void pack_run(const double* from, double* to, std::int64_t n) { std::copy_n(from, n, to); }
void pack_run(const Half* from, float* to, std::int64_t n) {
  widen(DType::F16, reinterpret_cast<const std::byte*>(from), to, n);
}
void pack_run(const BFloat* from, float* to, std::int64_t n) {
  widen(DType::BF16, reinterpret_cast<const std::byte*>(from), to, n);
}

/// A dense copy of (rows, cols), stored by columns if that is how the source runs; true if so.
template <class T>
bool pack_tile(const T* from, std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
               std::int64_t col_stride, Wide<T>* to, int threads) {
  const bool by_column = col_stride != 1 && row_stride == 1;
  if (by_column) {
    std::swap(rows, cols);
    std::swap(row_stride, col_stride);
  }
  parallel_ranges(rows, rows * cols, threads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (col_stride == 1) {
        pack_run(from + i * row_stride, to + i * cols, cols);
      } else {
        for (std::int64_t j = 0; j < cols; ++j)
          to[i * cols + j] = Element<T>::load(from[i * row_stride + j * col_stride]);
      }
    }
  });
  return by_column;
}

template <class T>
void tile_gemm_typed(const Gemm& g, std::byte* workspace, int threads) {
  using W = Wide<T>;
  const std::int64_t tm = std::min(g.m, kTileM), tn = std::min(g.n, kTileN),
                     tk = std::min(g.k, kTileK);
  W* const a = reinterpret_cast<W*>(workspace);
  W* const b = reinterpret_cast<W*>(workspace + align64(sizeof(W) * tm * tk));
  W* const c = reinterpret_cast<W*>(reinterpret_cast<std::byte*>(b) + align64(sizeof(W) * tk * tn));
  Gemm tile;
  tile.dtype = std::is_same_v<W, double> ? DType::F64 : DType::F32;
  tile.a = reinterpret_cast<std::byte*>(a);
  tile.b = reinterpret_cast<std::byte*>(b);
  tile.c = reinterpret_cast<std::byte*>(c);
  for (std::int64_t i0 = 0; i0 < g.m; i0 += tm) {
    tile.m = std::min(tm, g.m - i0);
    for (std::int64_t j0 = 0; j0 < g.n; j0 += tn) {
      tile.n = std::min(tn, g.n - j0);
      tile.c_row = tile.n;
      tile.c_col = 1;
      for (std::int64_t k0 = 0; k0 < g.k; k0 += tk) {
        tile.k = std::min(tk, g.k - k0);
        const bool a_columns =
            pack_tile(reinterpret_cast<const T*>(g.a) + i0 * g.a_row + k0 * g.a_col, tile.m, tile.k,
                      g.a_row, g.a_col, a, threads);
        tile.a_row = a_columns ? 1 : tile.k;
        tile.a_col = a_columns ? tile.m : 1;
        const bool b_columns =
            pack_tile(reinterpret_cast<const T*>(g.b) + k0 * g.b_row + j0 * g.b_col, tile.k, tile.n,
                      g.b_row, g.b_col, b, threads);
        tile.b_row = b_columns ? 1 : tile.n;
        tile.b_col = b_columns ? tile.k : 1;
        blas_gemm(tile, threads, k0 > 0);
      }
      T* const out = reinterpret_cast<T*>(g.c) + i0 * g.c_row + j0 * g.c_col;
      parallel_ranges(tile.m, tile.m * tile.n, threads, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if constexpr (!std::is_same_v<T, W>) {
            if (g.c_col == 1) {
              narrow(g.dtype, c + i * tile.n, reinterpret_cast<std::byte*>(out + i * g.c_row),
                     tile.n);
              continue;
            }
          }
          for (std::int64_t j = 0; j < tile.n; ++j)
            out[i * g.c_row + j * g.c_col] = Element<T>::store(c[i * tile.n + j]);
        }
      });
    }
  }
}

/// A product is cut into parts of whole units of rows or columns, the last one with what is left,
/// each a call of OpenBLAS on one thread. They follow from the sizes alone: the value of an element
/// may depend on the part it is in (OpenBLAS's tiles at the end of a block add up in another
/// order), not on the number of threads.
constexpr std::int64_t kUnit = 192, kPart = 1 << 21, kVectorPart = 1 << 17, kLargePart = 1 << 27;
/// Products with a vector wait for memory.
bool has_vector(const Gemm& g) { return std::min(g.m, g.n) == 1; }
std::int64_t part_of(const Gemm& g) { return has_vector(g) ? kVectorPart : kPart; }
constexpr std::int64_t kPerElement = 16;  // multiply-adds in the time of an element

/// OpenBLAS's functions by the type of their elements.
template <class T>
struct Blas;
template <>
struct Blas<float> {
  static auto dot() { return blas().cblas_sdot; }
  static auto gemv() { return blas().cblas_sgemv; }
  static auto gemm() { return blas().cblas_sgemm; }
};
template <>
struct Blas<double> {
  static auto dot() { return blas().cblas_ddot; }
  static auto gemv() { return blas().cblas_dgemv; }
  static auto gemm() { return blas().cblas_dgemm; }
};

/// OpenBLAS adds up what does not lie together in one sum; this has 16.
template <class T>
T dot(int k, const T* a, std::int64_t a_step, const T* b, std::int64_t b_step) {
  if (a_step == 1 && b_step == 1) return Blas<T>::dot()(k, a, 1, b, 1);
  constexpr int kSums = 16;
  T sums[kSums] = {};
  std::int64_t i = 0;
  for (; i + kSums <= k; i += kSums)
    for (int s = 0; s < kSums; ++s) sums[s] += a[(i + s) * a_step] * b[(i + s) * b_step];
  for (int s = 0; i + s < k; ++s) sums[s] += a[(i + s) * a_step] * b[(i + s) * b_step];
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int s = 0; s < half; ++s) sums[s] += sums[s + half];
  return sums[0];
}

/// Vectors go to dot and gemv: they read the matrix once, and have many sums where gemm has one per
/// result, so that long products are more exact.
template <class T>
void blas_part_typed(const Gemm& g, bool accumulate) {
  const BlasLayout la = *blas_layout(g.m, g.k, g.a_row, g.a_col);
  const BlasLayout lb = *blas_layout(g.k, g.n, g.b_row, g.b_col);
  const auto a = reinterpret_cast<const T*>(g.a), b = reinterpret_cast<const T*>(g.b);
  const auto c = reinterpret_cast<T*>(g.c);
  const int m = static_cast<int>(g.m), n = static_cast<int>(g.n), k = static_cast<int>(g.k);
  const T before = accumulate ? 1 : 0;
  // The distance between elements of a vector: `by_row` of those in a column.
  const auto step = [](const BlasLayout& l, bool by_row) {
    return by_row != l.transposed ? l.ld : 1;
  };
  const auto turned = [](bool yes) { return yes ? CblasTrans : CblasNoTrans; };
  if (m == 1 && n == 1) {
    const T sum = dot(k, a, step(la, false), b, step(lb, true));
    *c = accumulate ? *c + sum : sum;
  } else if (n == 1) {
    Blas<T>::gemv()(CblasRowMajor, turned(la.transposed), la.transposed ? k : m,
                    la.transposed ? m : k, 1, a, la.ld, b, step(lb, true), before, c,
                    static_cast<int>(g.c_row));
  } else if (m == 1) {
    Blas<T>::gemv()(CblasRowMajor, turned(!lb.transposed), lb.transposed ? n : k,
                    lb.transposed ? k : n, 1, b, lb.ld, a, step(la, false), before, c, 1);
  } else {
    const BlasLayout lc = *blas_layout(g.m, g.n, g.c_row, g.c_col);
    Blas<T>::gemm()(CblasRowMajor, turned(la.transposed), turned(lb.transposed), m, n, k, 1, a,
                    la.ld, b, lb.ld, before, c, lc.ld);
  }
}
void blas_part(const Gemm& g, bool accumulate) {
  if (g.dtype == DType::F32)
    blas_part_typed<float>(g, accumulate);
  else
    blas_part_typed<double>(g, accumulate);
}

bool needs_tiles(const Gemm& g) {
  return is_float(g.dtype) && !narrow_takes(g) && !blas_takes(g) && g.m * g.n * g.k >= kTinyGemm;
}

class ProductCall : public Call {
 public:
  explicit ProductCall(const CallSite& site) : Call(site) {
    const Product product(in_[0], in_[1], out_[0]);
    workspace = product_workspace(product);
    blas_buffers = product_blas_buffers(product, threads_);
    // What is narrow at its bound may be a vector when it runs.
    if (site.runtime_sizes && narrow_takes(product.gemm)) blas_buffers = 1;
  }
  void run(const RunArgs& args) const override {
    run_product(Product(in(args, 0), in(args, 1), out(args, 0)), args, workspace, threads_);
  }
};

}  // namespace

void loop_gemm(const Gemm& g, int threads) {
  visit(g.dtype, [&](auto tag) { loop_gemm_typed<decltype(tag)>(g, threads); });
}

bool blas_takes(const Gemm& g) {
  return (g.dtype == DType::F32 || g.dtype == DType::F64) && g.k > 0 &&
         std::max({g.m, g.n, g.k}) <= INT_MAX && blas_layout(g.m, g.k, g.a_row, g.a_col) &&
         blas_layout(g.k, g.n, g.b_row, g.b_col) &&
         !blas_layout(g.m, g.n, g.c_row, g.c_col).value_or(BlasLayout{true, 0}).transposed;
}

void blas_gemm(const Gemm& g, int threads, bool accumulate) {
  if (narrow_takes(g)) return narrow_gemm(g, threads, accumulate, nullptr);
  const bool by_rows = g.m >= g.n;
  const std::int64_t all = by_rows ? g.m : g.n, units = all / kUnit, work = g.m * g.n * g.k;
  // Each part packs the other operand again, so more than a few are large.
  constexpr std::int64_t kFew = 8;
  const std::int64_t parts =
      std::min({units, work / part_of(g), std::max(kFew, work / kLargePart)});
  if (parts <= 1) return blas_part(g, accumulate);
  const auto run_part = [&](std::int64_t p) {
    const std::int64_t from = units * p / parts * kUnit,
                       to = p + 1 == parts ? all : units * (p + 1) / parts * kUnit;
    const std::int64_t size = size_of(g.dtype);
    Gemm part = g;
    (by_rows ? part.m : part.n) = to - from;
    (by_rows ? part.a : part.b) += from * size * (by_rows ? g.a_row : g.b_col);
    part.c += from * size * (by_rows ? g.c_row : g.c_col);
    blas_part(part, accumulate);
  };
  auto range = [&](int, std::int64_t first, std::int64_t last) {
    for (; first < last; ++first) run_part(first);
  };
  run_chunks(parts, has_vector(g) ? work : work / kPerElement, BlasBuffers::threads_for(threads),
             range);
}

std::uint64_t tile_workspace(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::uint64_t wide = dtype == DType::F64 ? 8 : 4;
  m = std::min(m, kTileM);
  n = std::min(n, kTileN);
  k = std::min(k, kTileK);
  return align64(wide * m * k) + align64(wide * k * n) + align64(wide * m * n);
}

void tile_gemm(const Gemm& g, std::byte* workspace, int threads) {
  switch (g.dtype) {
    case DType::F16: return tile_gemm_typed<Half>(g, workspace, threads);
    case DType::BF16: return tile_gemm_typed<BFloat>(g, workspace, threads);
    case DType::F32: return tile_gemm_typed<float>(g, workspace, threads);
    case DType::F64: return tile_gemm_typed<double>(g, workspace, threads);
    default: internal_error("native::tile_gemm", "not a float");
  }
}

Product::Product(const ArgDesc& a, const ArgDesc& b, const ArgDesc& c) {
  const std::size_t d = a.shape.size() - 2;  // axis of the rows: 0, or 1 behind the batch
  SNUG_CHECK(a.dtype == b.dtype && a.dtype == c.dtype, "dot: {} and {} give {}", name_of(a.dtype),
             name_of(b.dtype), name_of(c.dtype));
  SNUG_CHECK(d <= 1 && b.shape.size() == d + 2 && c.shape.size() == d + 2, "dot: {} and {} give {}",
             describe_shape(a.shape), describe_shape(b.shape), describe_shape(c.shape));
  gemm.dtype = a.dtype;
  gemm.m = std::max(a.shape[d], c.shape[d]);
  gemm.k = std::max(a.shape[d + 1], b.shape[d]);
  gemm.n = std::max(b.shape[d + 1], c.shape[d + 1]);
  gemm.a_row = a.strides[d];
  gemm.a_col = a.strides[d + 1];
  gemm.b_row = b.strides[d];
  gemm.b_col = b.strides[d + 1];
  gemm.c_row = c.strides[d];
  gemm.c_col = c.strides[d + 1];
  if (d == 0) return;
  batches = std::max({a.shape[0], b.shape[0], c.shape[0]});
  a_batch = a.strides[0];
  b_batch = b.strides[0];
  c_batch = c.strides[0];
}

Gemm Product::at(const RunArgs& args, std::int64_t batch) const {
  Gemm g = gemm;
  const std::int64_t size = size_of(g.dtype);
  g.a = args.in[0] + batch * a_batch * size;
  g.b = args.in[1] + batch * b_batch * size;
  g.c = args.out[0] + batch * c_batch * size;
  return g;
}

std::uint64_t product_workspace(const Product& product) {
  const Gemm& g = product.gemm;
  if (narrow_takes(g)) return narrow_workspace(g);
  return needs_tiles(g) ? tile_workspace(g.dtype, g.m, g.n, g.k) : 0;
}

int product_blas_buffers(const Product& product, int threads) {
  const Gemm& g = product.gemm;
  const std::int64_t work = g.m * g.n * g.k;
  if (!is_float(g.dtype) || narrow_takes(g) || (work < kTinyGemm && !needs_tiles(g))) return 0;
  if (product.work() < kParallelWork) return 1;
  if (product.batches >= threads) return threads;
  return static_cast<int>(std::clamp<std::int64_t>(work / part_of(g), 1, threads));
}

void run_product(const Product& product, const RunArgs& args, std::uint64_t workspace,
                 int threads) {
  const Gemm& g = product.gemm;
  if (product.batches * g.m * g.n == 0) return;
  if (needs_tiles(g) && workspace >= tile_workspace(g.dtype, g.m, g.n, g.k)) {
    for (std::int64_t i = 0; i < product.batches; ++i)
      tile_gemm(product.at(args, i), args.workspace, threads);
    return;
  }
  const std::int64_t work = g.m * g.n * g.k;
  const bool narrow = narrow_takes(g), blas = !narrow && work >= kTinyGemm && blas_takes(g);
  const auto one = [&](std::int64_t i, int inner, std::byte* room) {
    if (narrow)
      narrow_gemm(product.at(args, i), inner, false, room);
    else if (blas)
      blas_gemm(product.at(args, i), inner);
    else
      loop_gemm(product.at(args, i), inner);
  };
  // Many small matrices: whole ones per thread. Few or large ones: each by all threads.
  if (product.batches >= threads && work < (1 << 20)) {
    if (blas) threads = BlasBuffers::threads_for(threads);
    parallel_ranges(product.batches, product.work(), threads, [&](std::int64_t b, std::int64_t e) {
      for (std::int64_t i = b; i < e; ++i) one(i, 1, nullptr);
    });
  } else {
    std::byte* const room = narrow && workspace >= narrow_workspace(g) ? args.workspace : nullptr;
    for (std::int64_t i = 0; i < product.batches; ++i) one(i, threads, room);
  }
}

Prepared prepare_dot(const CallSite& site) { return std::make_unique<ProductCall>(site); }

}  // namespace snug::native
