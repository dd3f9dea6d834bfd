#pragma once
#include "ops/functions.h"

/// Convolutions, pooling and what goes with them. Images have their batch and channels first.
namespace snug {

struct ConvOptions {
  std::string border_mode = "valid";   // "valid", "half", "full"; or
  std::vector<std::int64_t> pad = {};  // (rows, columns) or (top, bottom, left, right)
  std::array<std::int64_t, 2> subsample = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
  bool flip = true;  // a convolution; false: a correlation
  std::int64_t groups = 1;
};
/// Images (batch, channels, rows, columns), filters (out, in / groups, rows, columns).
Expr conv2d(const Arg& x, const Arg& w, const ConvOptions& options = {});

// ---- pooling ----

struct PoolOptions {
  std::vector<std::int64_t> window;       // over the last axes, 1 to 3 of them
  std::vector<std::int64_t> stride = {};  // empty: the window
  std::vector<std::int64_t> pad = {};     // per axis, or low and high of every axis; empty: none
  bool ignore_border = true;              // false: a window that ends beyond the border counts, too
  std::string mode = "max";               // "average_inc_pad", "average_exc_pad", "sum"
};
/// The largest element, the average or the sum of every window. nan is the largest element; the
/// gradient goes to the first of equal ones. Averages count the padding or not.
Expr pool(const Arg& x, const PoolOptions& options);
/// x where it is the largest of its window, else 0. Windows do not overlap.
Expr max_pool_same_size(const Arg& x, const std::vector<std::int64_t>& window);

}  // namespace snug
