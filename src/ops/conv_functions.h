#pragma once
#include "ops/functions.h"

/// Convolutions, pooling and normalisation of images, whose batch and channels come first.
namespace snug {

// ---- convolutions ----

struct ConvOptions {
  std::string border_mode = "valid";         // "valid", "half", "full"; or
  std::vector<std::int64_t> pad = {};        // per axis, or low and high of every axis
  std::vector<std::int64_t> subsample = {};  // per axis; empty: 1
  std::vector<std::int64_t> dilation = {};   // per axis; empty: 1
  bool flip = true;                          // a convolution; false: a correlation
  std::int64_t groups = 1;
};
/// Images (batch, channels, columns), filters (out, in / groups, columns).
Expr conv1d(const Arg& x, const Arg& w, const ConvOptions& options = {});
/// As conv1d, padded so that an output depends on no later input.
Expr causal_conv1d(const Arg& x, const Arg& w, const ConvOptions& options = {});
/// Images (batch, channels, rows, columns), filters (out, in / groups, rows, columns). Filters of 6
/// dimensions, (out, rows and columns of the result, in / groups, rows, columns), are other ones
/// for every place of the result.
Expr conv2d(const Arg& x, const Arg& w, const ConvOptions& options = {});
/// Images and filters with three axes in the place of rows and columns.
Expr conv3d(const Arg& x, const Arg& w, const ConvOptions& options = {});

/// The gradients of conv2d and conv3d by the images and the filters, whose shape is given. `dy` is
/// the gradient of their result.
Expr conv2d_grad_inputs(const Arg& dy, const Arg& w, const Sizes& shape,
                        const ConvOptions& options = {});
Expr conv2d_grad_weights(const Arg& x, const Arg& dy, const Sizes& shape,
                         const ConvOptions& options = {});
Expr conv3d_grad_inputs(const Arg& dy, const Arg& w, const Sizes& shape,
                        const ConvOptions& options = {});
Expr conv3d_grad_weights(const Arg& x, const Arg& dy, const Sizes& shape,
                         const ConvOptions& options = {});
/// The images of which conv2d with these options makes images of the size of x: filters (channels
/// of x, channels of the result / groups, rows, columns). `size`: rows and columns of the result;
/// without it the smallest.
Expr conv2d_transpose(const Arg& x, const Arg& w, const ConvOptions& options = {},
                      const std::vector<Expr>& size = {});

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
/// Sizes of windows that only a call knows: 0-d integers, one per axis.
struct PoolSizes {
  std::vector<Expr> window;
  std::vector<Expr> stride = {};  // empty: the window
  std::vector<Expr> pad = {};     // on both sides of an axis; empty: none
};
/// As pool, made of other ops axis by axis, so slower; the gradient goes to all equal elements.
Expr pool_of_sizes(const Arg& x, const PoolSizes& sizes, bool ignore_border = true,
                   const std::string& mode = "max");
/// x where it is the largest of its window, else 0. Windows do not overlap.
Expr max_pool_same_size(const Arg& x, const std::vector<std::int64_t>& window);
/// One number per image and channel: the "average", "max" or "sum" over all axes behind.
Expr global_pool(const Arg& x, const std::string& mode = "average");

// ---- normalisation ----

/// A number, in the dtype of what it meets, or an expression of 0 dimensions.
struct Coefficient {
  double number = 0;
  Expr expr;
  Coefficient(double value) : number(value) {}
  Coefficient(const Expr& e) : expr(e) {}
  Expr in(DType dtype) const;
};

struct BatchNormalization {
  Expr out, mean, inverse_deviation;    // statistics have size 1 on the axes
  Expr running_mean, running_variance;  // the new ones; null if none were given
};
/// (x - mean) * inverse_deviation, where both are the statistics of x over `axes` (sorted), with
/// these axes of size 1. The gradient by x has what goes through them, so they get none: one pass
/// over x less than by the definition.
Expr standardize(const Expr& x, const Expr& mean, const Expr& inverse_deviation,
                 const std::vector<std::int64_t>& axes);

/// x normalised by its own mean and variance over `axes`: (x - mean) * gamma / sqrt(variance +
/// epsilon) + beta. Running statistics move by `factor` towards those of the batch; the variance is
/// that of the population. Parameters have as many dimensions as x, or those that are not
/// normalised over.
BatchNormalization batch_normalization_train(const Arg& x, const Arg& gamma, const Arg& beta,
                                             const std::vector<std::int64_t>& axes,
                                             const Coefficient& epsilon = 1e-4,
                                             const Coefficient& factor = 0.1,
                                             const Expr& running_mean = {},
                                             const Expr& running_variance = {});
/// (x - mean) * gamma / sqrt(variance + epsilon) + beta
Expr batch_normalization_test(const Arg& x, const Arg& gamma, const Arg& beta, const Arg& mean,
                              const Arg& variance, const std::vector<std::int64_t>& axes,
                              const Coefficient& epsilon = 1e-4);
/// x / (k + alpha * s) ^ beta, where s is the sum of the squares of `size` neighbouring channels.
Expr local_response_normalization(const Arg& x, std::int64_t size = 5, double alpha = 1e-4,
                                  double beta = 0.75, double k = 2);

// ---- parts of images and sampling ----

/// A matrix with one row per window of a 4-d tensor, its elements in C order: of image, channel,
/// row and column of the window. `shape` and `step`: rows and columns. mode: "valid" (the windows
/// fill the images), "ignore_borders" (they need not), "half" and "full" (padded by shape / 2 or
/// shape - 1 zeros), "wrap_centered" (around every place, beyond the border from the other side).
Expr images2neibs(const Arg& x, const std::vector<Expr>& shape, const std::vector<Expr>& step = {},
                  const std::string& mode = "valid");
/// Images of a shape from their windows, which lie side by side. With "ignore_borders" what they
/// leave over is 0.
Expr neibs2images(const Arg& neibs, const std::vector<Expr>& neib_shape,
                  const std::vector<Expr>& shape, const std::string& mode = "valid");

/// 1, 2, ... ratio ... 2, 1, divided by the ratio if `normalize`.
Expr bilinear_kernel(const Arg& ratio, bool normalize = true);
/// Images enlarged by numerators[k] / denominators[k] (rows, columns) by bilinear interpolation;
/// beyond the border they go on as they end.
Expr bilinear_upsampling(const Arg& x, const std::vector<std::int64_t>& numerators,
                         const std::vector<std::int64_t>& denominators = {1, 1});

/// The coordinates (y, x), from -1 to 1 over the images, that affine maps theta (batch, 2, 3) of
/// (x, y, 1) give for every place of images of this size: (batch, 2, rows, columns), x first.
Expr affine_grid(const Arg& theta, const Expr& rows, const Expr& columns);
/// Images at the coordinates of a grid, by bilinear interpolation. border: what lies outside,
/// "zero" or "nearest".
Expr sample_grid(const Arg& x, const Arg& grid, const std::string& border = "zero");

}  // namespace snug
