#pragma once
#include <string>
#include <vector>

#include "backend/opencl/find_devices.h"
#include "backend/opencl/opencl_text.h"
#include "base/dtype.h"

namespace snug {

/// A product of matrices in tiles: a work group has a tile of the result, each of its items some
/// rows and columns of that, and operands come through local memory. What the elements of the
/// operands are is text, so that convolutions are such products, too. A sum is in one order, that
/// of k, so its bits do not depend on the device's scheduling.
struct TiledProduct {
  std::string name;
  DType dtype = DType::F32;
  std::string parameters;  // C text behind `go`, with a comma at its end; must give long M, N, K
  std::vector<OpenClKind> args;
  OpenClHelpers helpers;
  std::string begin;  // statements before all else; `z` is the number of the matrix
  /// What is known of k, and of n, alone: arrays in local memory, by name and type, and statements
  /// that fill in their element tk, or tn.
  std::vector<std::pair<std::string, std::string>> of_k, of_n;
  std::string find_k, find_n;
  /// Statements that find elements (m, k) of a and (k, n) of b, and expressions of the type of sums
  /// that give them; k = k0 + tk, n = n0 + tn.
  std::string find_a, load_a, find_b, load_b;
  std::string store;                         // statements that keep `sum` for (m, n)
  bool a_along_k = true, b_along_k = false;  // how they lie in memory
  /// Elements of b whose `at` is negative do not count, even where a is no number.
  bool may_not_count = false;
  std::vector<std::pair<std::string, std::int64_t>> constants;  // words of the texts
};

/// Sizes of a product: `batches` of (m, k) times (k, n).
struct ProductSizes {
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
};

/// Rows and columns of a tile, what of k is in local memory, and items of a group. Results are the
/// same, to the bit, by all tiles.
struct ProductTile {
  int rows = 64, columns = 64, depth = 16, items_y = 16, items_x = 16;
  bool operator==(const ProductTile&) const = default;
};
/// Without knowing times.
ProductTile choose_tile(const OpenClFound& device, DType dtype, const ProductSizes& sizes);
/// Those that may be fastest.
std::vector<ProductTile> candidate_tiles(const OpenClFound& device, DType dtype,
                                         const ProductSizes& sizes);

/// Long sums with few results are cut into parts, which another kernel adds up in order. Decided by
/// sizes alone: bits depend on it.
struct ProductParts {
  std::int64_t count = 1, length = 0;  // parts, and terms of each
};
ProductParts choose_parts(const OpenClFound& device, const ProductSizes& sizes);
/// Bytes for the parts of products of at most these sizes.
std::uint64_t bytes_of_parts(const OpenClFound& device, DType dtype, const ProductSizes& bounds);

/// Arguments behind those of the product: with `in_parts` a memory for the parts, terms of a part
/// and how many parts there are (1: the result is stored at once), and how many batches.
OpenClText tiled_text(const TiledProduct& product, const ProductTile& tile,
                      const OpenClFound& device, bool in_parts);
/// Adds parts up: an item has an element of the result, and a group's number along z is that of the
/// matrix. The same arguments.
OpenClText join_text(const TiledProduct& product);
inline constexpr std::int64_t kJoinItems = 64;

}  // namespace snug
