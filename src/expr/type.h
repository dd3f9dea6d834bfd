#pragma once
#include <string>

#include "base/dtype.h"
#include "base/inline_vec.h"
#include "expr/sizes.h"

namespace snug {

/// The type a user sees: dtype, number of dimensions, which dimensions stretch, and the sizes known
/// while the expression is built (-1: not known). A broadcastable axis has size 1; an axis of size
/// 1 is broadcastable only if its type says so, as in Theano.
struct TensorType {
  DType dtype = DType::F32;
  Dims shape;
  std::uint8_t broadcast = 0;  // bit i: axis i stretches

  int ndim() const { return static_cast<int>(shape.size()); }
  bool broadcastable(std::size_t axis) const { return broadcast >> axis & 1; }
  bool operator==(const TensorType&) const = default;
};
std::string describe(const TensorType& type);  // "float32 (?, 784)"

/// The type of a value in a graph: as above, with sizes as expressions of the graph's SizeTable.
struct Type {
  DType dtype = DType::F32;
  SizeDims dims;
  std::uint8_t broadcast = 0;

  int ndim() const { return static_cast<int>(dims.size()); }
  bool broadcastable(std::size_t axis) const { return broadcast >> axis & 1; }
  bool operator==(const Type&) const = default;
};

}  // namespace snug
