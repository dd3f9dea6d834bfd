#pragma once
#include <array>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "expr/expr.h"
#include "expr/rebuild.h"

/// The functions a user builds expressions with. Operands of different numbers of dimensions are
/// aligned at the last axis, dtypes are upcast as in Theano, numbers become constants. An axis
/// stretches only if its type is broadcastable.
namespace snug {

using Here = std::source_location;

// ---- inputs ----

/// A variable of a given number of dimensions; bit i of `broadcast`: axis i has size 1 and
/// stretches.
Expr tensor(DType dtype, int ndim, std::string name = {}, std::uint8_t broadcast = 0,
            Here where = Here::current());

/// scalar, vector, matrix, row, col, tensor3 and tensor4 of the default float type; with a letter
/// in front of a fixed one: b int8, w int16, i int32, l int64, f float32, d float64, c complex64, z
/// complex128.
#define SNUG_INPUTS(letter, dtype)                                                   \
  inline Expr letter##scalar(std::string name = {}, Here where = Here::current()) {  \
    return tensor(dtype, 0, std::move(name), 0, where);                              \
  }                                                                                  \
  inline Expr letter##vector(std::string name = {}, Here where = Here::current()) {  \
    return tensor(dtype, 1, std::move(name), 0, where);                              \
  }                                                                                  \
  inline Expr letter##matrix(std::string name = {}, Here where = Here::current()) {  \
    return tensor(dtype, 2, std::move(name), 0, where);                              \
  }                                                                                  \
  inline Expr letter##row(std::string name = {}, Here where = Here::current()) {     \
    return tensor(dtype, 2, std::move(name), 1, where);                              \
  }                                                                                  \
  inline Expr letter##col(std::string name = {}, Here where = Here::current()) {     \
    return tensor(dtype, 2, std::move(name), 2, where);                              \
  }                                                                                  \
  inline Expr letter##tensor3(std::string name = {}, Here where = Here::current()) { \
    return tensor(dtype, 3, std::move(name), 0, where);                              \
  }                                                                                  \
  inline Expr letter##tensor4(std::string name = {}, Here where = Here::current()) { \
    return tensor(dtype, 4, std::move(name), 0, where);                              \
  }
SNUG_INPUTS(, default_float())
SNUG_INPUTS(b, DType::I8)
SNUG_INPUTS(w, DType::I16)
SNUG_INPUTS(i, DType::I32)
SNUG_INPUTS(l, DType::I64)
SNUG_INPUTS(f, DType::F32)
SNUG_INPUTS(d, DType::F64)
SNUG_INPUTS(c, DType::C64)
SNUG_INPUTS(z, DType::C128)
#undef SNUG_INPUTS

Expr shared(const Array& value, std::string name = {}, std::uint8_t broadcast = 0,
            Here where = Here::current());
Expr shared(const Recipe& recipe, std::string name = {}, std::uint8_t broadcast = 0,
            Here where = Here::current());
/// An array on the host.
Array zeros(const Dims& shape, DType dtype = default_float());
Array ones(const Dims& shape, DType dtype = default_float());

// ---- elementwise ----

Expr neg(const Arg& x);
Expr abs(const Arg& x);
Expr sign(const Arg& x);
Expr sqr(const Arg& x);
Expr sqrt(const Arg& x);
Expr exp(const Arg& x);
Expr expm1(const Arg& x);
Expr exp2(const Arg& x);
Expr log(const Arg& x);
Expr log1p(const Arg& x);
Expr log2(const Arg& x);
Expr log10(const Arg& x);
Expr tanh(const Arg& x);
Expr sigmoid(const Arg& x);
Expr softplus(const Arg& x);
Expr erf(const Arg& x);
Expr erfc(const Arg& x);
Expr sin(const Arg& x);
Expr cos(const Arg& x);
Expr tan(const Arg& x);
Expr asin(const Arg& x);
Expr acos(const Arg& x);
Expr atan(const Arg& x);
Expr sinh(const Arg& x);
Expr cosh(const Arg& x);
Expr asinh(const Arg& x);
Expr acosh(const Arg& x);
Expr atanh(const Arg& x);
Expr floor(const Arg& x);
Expr ceil(const Arg& x);
Expr trunc(const Arg& x);
Expr round(const Arg& x);  // half to even
Expr isnan(const Arg& x);
Expr isinf(const Arg& x);
Expr invert(const Arg& x);
Expr cast(const Arg& x, DType dtype);  // `x` itself if it has that dtype
/// The same value under a new name: an identity node.
Expr identity(const Arg& x);

Expr add(const Arg& a, const Arg& b);
Expr sub(const Arg& a, const Arg& b);
Expr mul(const Arg& a, const Arg& b);
Expr div(const Arg& a, const Arg& b);  // true division; of integers: in the default float type
Expr floor_div(const Arg& a, const Arg& b);
Expr mod(const Arg& a, const Arg& b);  // sign of b
Expr pow(const Arg& a, const Arg& b);
Expr minimum(const Arg& a, const Arg& b);
Expr maximum(const Arg& a, const Arg& b);
Expr atan2(const Arg& a, const Arg& b);
Expr lt(const Arg& a, const Arg& b);
Expr le(const Arg& a, const Arg& b);
Expr gt(const Arg& a, const Arg& b);
Expr ge(const Arg& a, const Arg& b);
Expr eq(const Arg& a, const Arg& b);
Expr ne(const Arg& a, const Arg& b);
Expr bit_and(const Arg& a, const Arg& b);
Expr bit_or(const Arg& a, const Arg& b);
Expr bit_xor(const Arg& a, const Arg& b);
Expr shl(const Arg& a, const Arg& b);
Expr shr(const Arg& a, const Arg& b);
/// `then` where the condition is not 0, else `otherwise`.
Expr switch_(const Arg& condition, const Arg& then, const Arg& otherwise);
Expr clip(const Arg& x, const Arg& low, const Arg& high);

inline Expr operator+(const Arg& a, const Arg& b) { return add(a, b); }
inline Expr operator-(const Arg& a, const Arg& b) { return sub(a, b); }
inline Expr operator*(const Arg& a, const Arg& b) { return mul(a, b); }
inline Expr operator/(const Arg& a, const Arg& b) { return div(a, b); }
inline Expr operator-(const Arg& x) { return neg(x); }

// ---- reductions ----

/// Which axes to reduce: all, one, or several; negative ones count from the end.
struct Axes {
  bool all = true;
  std::vector<std::int64_t> list;
  Axes() = default;
  Axes(int axis) : all(false), list{axis} {}
  Axes(std::int64_t axis) : all(false), list{axis} {}
  Axes(std::initializer_list<std::int64_t> axes) : all(false), list(axes) {}
  Axes(std::vector<std::int64_t> axes) : all(false), list(std::move(axes)) {}
};

/// Small integers add up in int64 or uint64, float32 in float64 rounded at the end. `dtype` and
/// `acc` override the result's and the accumulator's type.
Expr sum(const Arg& x, const Axes& axes = {}, bool keepdims = false,
         std::optional<DType> dtype = {}, std::optional<DType> acc = {});
Expr prod(const Arg& x, const Axes& axes = {}, bool keepdims = false,
          std::optional<DType> dtype = {}, std::optional<DType> acc = {});
Expr mean(const Arg& x, const Axes& axes = {}, bool keepdims = false,
          std::optional<DType> dtype = {}, std::optional<DType> acc = {});
Expr max(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Expr min(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Expr any(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Expr all(const Arg& x, const Axes& axes = {}, bool keepdims = false);
/// The first place of the largest element; over several axes, counted in C order.
Expr argmax(const Arg& x, const Axes& axes = {}, bool keepdims = false);
Expr argmin(const Arg& x, const Axes& axes = {}, bool keepdims = false);
/// `corrected` takes out what the rounding of the mean adds.
Expr var(const Arg& x, const Axes& axes = {}, bool keepdims = false, std::int64_t ddof = 0,
         bool corrected = false);
Expr stddev(const Arg& x, const Axes& axes = {}, bool keepdims = false, std::int64_t ddof = 0,
            bool corrected = false);

// ---- shapes ----

/// The sizes of a new shape: a list of integers and 0-d expressions, or an integer vector.
struct Sizes {
  Expr vector;  // int64, of known length
  Sizes();
  Sizes(const Expr& vector);
  Sizes(const std::vector<Expr>& sizes);
  Sizes(std::initializer_list<Expr> sizes) : Sizes(std::vector<Expr>(sizes)) {}
  Sizes(const Dims& sizes);
  std::size_t ndim() const;
};

Expr shape(const Arg& x);                             // int64 vector
Expr shape_i(const Arg& x, std::int64_t axis);        // int64, 0-d
Expr make_vector(const std::vector<Expr>& elements);  // int64 vector of 0-d integers
/// One size may be -1: what is left. A size known to be 1 makes its axis broadcastable.
Expr reshape(const Arg& x, const Sizes& sizes);
/// Keeps the first ndim - 1 axes and joins the others.
Expr flatten(const Arg& x, int ndim = 1);
/// Reorders axes; -1 is a new broadcastable axis; axes left out must be broadcastable.
Expr dimshuffle(const Arg& x, const std::vector<std::int64_t>& pattern);
Expr transpose(const Arg& x, const std::vector<std::int64_t>& axes = {});
Expr swapaxes(const Arg& x, std::int64_t a, std::int64_t b);
Expr expand_dims(const Arg& x, std::int64_t axis);
/// Aligned at the last axis.
Expr broadcast_to(const Arg& x, const Sizes& sizes);
inline Expr alloc(const Arg& value, const Sizes& sizes) { return broadcast_to(value, sizes); }
Expr zeros_like(const Arg& x, std::optional<DType> dtype = {});
Expr ones_like(const Arg& x, std::optional<DType> dtype = {});
/// `value` (0-d, a number) in the shape of x.
Expr full_like(const Arg& x, double value, std::optional<DType> dtype = {});
/// Says that an axis has size 1 and stretches, or that it does not stretch.
Expr addbroadcast(const Arg& x, const std::vector<std::int64_t>& axes);
Expr unbroadcast(const Arg& x, const std::vector<std::int64_t>& axes);
Expr rebroadcast(const Arg& x, std::uint8_t broadcast);
/// Checks sizes at the call and makes them known here; -1: not checked.
Expr specify_shape(const Arg& x, const std::vector<std::int64_t>& sizes);
Expr concatenate(const std::vector<Expr>& xs, std::int64_t axis = 0, Here where = Here::current());
Expr stack(const std::vector<Expr>& xs, std::int64_t axis = 0, Here where = Here::current());

/// [start, stop) by step; int64 for integers unless `dtype` says otherwise. Float arguments must be
/// numbers or make the length a value that is only known while running.
Expr arange(const Arg& start, const Arg& stop, const Arg& step = 1,
            std::optional<DType> dtype = {});
inline Expr arange(const Arg& stop) { return arange(Arg(Expr(0), stop.where), stop); }
Expr eye(const Arg& n, const Arg& m, std::int64_t k = 0, DType dtype = default_float());
Expr tril(const Arg& x, std::int64_t k = 0);
Expr triu(const Arg& x, std::int64_t k = 0);

// ---- indexing ----

/// One item between the brackets of an index.
struct IndexItem {
  enum class Kind : std::uint8_t { Range, Index, NewAxis, Ellipsis };
  Kind kind = Kind::Range;
  Expr start, stop, step;  // Range; null: left out
  Expr index;              // Index: a 0-d integer, an array of integers, or a mask of bools;
                           // a mask of 0 dimensions is a new axis of size 1 or 0

  IndexItem() = default;  // the whole axis
  IndexItem(const Expr& i) : kind(Kind::Index), index(i) {}
  IndexItem(int i) : IndexItem(Expr(i)) {}
  static IndexItem range(Expr start, Expr stop = {}, Expr step = {});
  static IndexItem newaxis();
  static IndexItem ellipsis();
};

/// x[items] with NumPy's meaning: slices with run-time bounds and steps of either sign, single
/// indices, new axes, arrays of integers, masks, and mixtures of them.
Expr subtensor(const Arg& x, const std::vector<IndexItem>& items);
/// x with x[items] replaced by y, or increased by y; repeated indices add up.
Expr set_subtensor(const Arg& x, const std::vector<IndexItem>& items, const Arg& y);
Expr inc_subtensor(const Arg& x, const std::vector<IndexItem>& items, const Arg& y);
/// x[..., start:stop:step, ...] on one axis.
Expr slice_axis(const Arg& x, std::int64_t axis, const Expr& start, const Expr& stop,
                const Expr& step = {});
/// The places of the elements that are not 0: one int64 vector per axis.
std::vector<Expr> nonzero(const Arg& x);

// ---- linear algebra ----

/// Theano's dot: scalars multiply, vectors and matrices as in mathematics, more dimensions over the
/// last axis of a and the last but one of b.
Expr dot(const Arg& a, const Arg& b);
Expr batched_dot(const Arg& a, const Arg& b);
Expr tensordot(const Arg& a, const Arg& b, const std::vector<std::int64_t>& axes_a,
               const std::vector<std::int64_t>& axes_b);

// ---- random numbers ----

/// A source of random expressions. Each draw has a state of its own, a shared variable that moves
/// on by its default update at every call; all follow from the seed. A draw in the body of a loop
/// gives other numbers in every iteration.
class RandomStream {
 public:
  /// `states`: of the draws made before, if the stream is one that was saved.
  explicit RandomStream(std::uint64_t seed = 42, std::vector<Expr> states = {})
      : seed_(seed), states_(std::move(states)) {}
  Expr uniform(const Sizes& sizes, double low = 0, double high = 1, std::optional<DType> dtype = {},
               Here where = Here::current());
  Expr normal(const Sizes& sizes, double mean = 0, double deviation = 1,
              std::optional<DType> dtype = {}, Here where = Here::current());
  /// 1 with probability p, else 0.
  Expr bernoulli(const Sizes& sizes, const Arg& p, std::optional<DType> dtype = {});
  /// Sets all states as if the draws so far had been made with this seed.
  void seed(std::uint64_t seed);
  std::uint64_t seed() const { return seed_; }
  /// The shared variables of the draws so far.
  const std::vector<Expr>& states() const { return states_; }

 private:
  Expr key();
  std::uint64_t seed_;
  std::vector<Expr> states_;
};
/// Sets elements to 0 with probability p and scales the others by 1 / (1 - p).
Expr dropout(const Arg& x, double p, RandomStream& stream);

// ---- loops ----

struct LoopStep {
  std::vector<Expr> states, outputs;
};
/// One iteration: its number, the elements of the sequences, the states before it.
using LoopBody = std::function<LoopStep(const Expr& index, const std::vector<Expr>& elements,
                                        const std::vector<Expr>& states)>;
struct LoopResult {
  std::vector<Expr> states;   // after the last iteration
  std::vector<Expr> outputs;  // of all iterations, stacked on a new first axis
};
/// Runs the body `count` times (null: as often as the sequences are long). What the body uses from
/// outside is passed in; what does not depend on the iteration is computed once.
LoopResult loop(const LoopBody& body, const std::vector<Expr>& sequences,
                const std::vector<Expr>& states, const Expr& count = {},
                Here where = Here::current());
/// fn of each element of the sequences, stacked.
Expr map(const std::function<Expr(const std::vector<Expr>&)>& fn,
         const std::vector<Expr>& sequences, Here where = Here::current());

}  // namespace snug

// Areas with a header of their own.
#include "ops/branch_functions.h"
#include "ops/complex_functions.h"
#include "ops/conv_functions.h"
#include "ops/fft_functions.h"
#include "ops/index_functions.h"
#include "ops/layout_functions.h"
#include "ops/linalg_functions.h"  // IWYU pragma: export
#include "ops/network_functions.h"
#include "ops/product_functions.h"
#include "ops/sort_functions.h"
#include "ops/special_functions.h"
#include "ops/watch_functions.h"
