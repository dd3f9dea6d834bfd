#pragma once
#include "ops/functions.h"

/// Windows of images as tensors of their own.
namespace snug {

/// Low and high of `axes` axes, from one number per axis or from these; none if it is empty.
std::vector<std::int64_t> both_sides(const char* what, const std::vector<std::int64_t>& pad,
                                     std::size_t axes);

/// The sizes of x as 0-d integers.
std::vector<Expr> sizes_of(const Expr& x);

/// Places on an axis (windows, cells): window * step + cell * dilation - low.
Expr window_places(const Expr& windows, const Expr& cells, const Arg& step, const Arg& dilation,
                   const Expr& low);

/// Of images (batch, channels, rows, columns) all windows: (batch, channels, windows of rows, of
/// columns, rows of a window, columns). `outside`: places may lie outside; elements are 0 there.
Expr windows_of(const Expr& x, const Expr& rows, const Expr& columns, bool outside);
/// Images with windows added to what they are; those outside are left out.
Expr add_windows(const Expr& images, const Expr& rows, const Expr& columns, const Expr& windows);

}  // namespace snug
