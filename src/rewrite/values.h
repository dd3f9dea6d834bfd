#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace snug {

// Small words that rules are written in.

inline bool is(const Builder& b, Value v, std::string_view op) { return b.node(v).op->name == op; }
inline Value operand(const Builder& b, Value v, std::size_t i) { return b.node(v).inputs[i]; }

/// The value of a constant node, or null.
const Array* constant_of(const Builder& b, Value v);
/// The constant of one element behind index views, or null.
const Array* scalar_of(const Builder& b, Value v);
/// A constant or a dimshuffled or rebroadcast one.
bool constant_like(const Builder& b, Value v);
/// One element, of exactly this value; 0 and -0 are different for floats.
bool is_number(const Builder& b, Value v, double number);

Value call(Builder& b, std::string_view op, std::vector<Value> inputs, Attrs attrs = {});
/// A constant with `ndim` broadcastable axes.
Value number(Builder& b, double value, DType dtype, int ndim);
/// `x` itself if the pattern changes nothing.
Value dimshuffle(Builder& b, Value x, const Attrs::Ints& pattern);
Value cast(Builder& b, Value x, DType dtype);
/// A reduction that keeps dtype: max, min, sum, ... over `axes`.
Value reduce(Builder& b, std::string_view op, ReduceOp kind, Value x, const Attrs::Ints& axes,
             DType acc);
/// Puts the reduced axes back as broadcastable ones.
Value keep_axes(Builder& b, Value reduced, const Attrs::Ints& axes, int ndim);

/// An int64 vector of these sizes that asks nothing but the inputs of the graph. Nothing if a size
/// is decided while running.
std::optional<Value> shape_vector(Builder& b, const SizeDims& dims);
/// A size as an int64 value, as above.
std::optional<Value> size_value(Builder& b, SizeId size);
/// `x` in the shape of `like`, by broadcast_to.
std::optional<Value> stretch(Builder& b, Value x, const Type& like);

}  // namespace snug
