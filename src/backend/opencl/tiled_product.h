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
};

/// Rows and columns of a tile, what of k is in local memory, and items of a group.
struct ProductTile {
  int rows = 64, columns = 64, depth = 16, items_y = 16, items_x = 16;
};
/// For a result of m x n elements.
ProductTile choose_tile(const OpenClFound& device, DType dtype, std::int64_t m, std::int64_t n);

OpenClText tiled_text(const TiledProduct& product, const ProductTile& tile,
                      const OpenClFound& device);

}  // namespace snug
