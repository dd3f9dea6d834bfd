#pragma once
#include <unordered_set>

#include "expr/op_def.h"
#include "ops/functions.h"
#include "ops/rows.h"

/// What rows of one kind have in common: shape rules, loop bodies, gradients.
namespace snug::ops {

using Exprs = std::vector<Expr>;

// ---- shape and dtype rules of elementwise ops ----

/// The broadcast shape of all operands. An axis stretches only if its type is broadcastable.
Type broadcast_type(Infer& f, DType dtype);
DType upcast_all(const Infer& f);
void upcast_rule(Infer& f);   // numbers of any dtype; the operands' upcast
void signed_rule(Infer& f);   // as upcast_rule, but no bool
void float_rule(Infer& f);    // the float type that holds the result
void compare_rule(Infer& f);  // bool
void bits_rule(Infer& f);     // integers or bools; the operands' upcast
void shift_rule(Infer& f);    // integers
/// The op takes floats only; integers are cast by the public function.
void require_float(const Infer& f, std::size_t i);
void require_discrete(const Infer& f, std::size_t i);
void require_same_dtype(const Infer& f, std::size_t i, std::size_t j);

/// Attr "axis": one of the axes of input 0, of which the last `behind` do not count.
std::size_t axis_attr(const Infer& f, int behind = 0);
/// Input 1 must have the shape of the part of input 0 that it replaces or increases.
void require_part(Infer& f, const Type& part);
/// A size that comes from a value is not negative; `name` is what users call it.
void require_nonnegative(Infer& f, SizeId size, const std::string& name);

/// A shape from an integer vector of known length (input i). `broadcast` is attr "broadcast" if
/// there is one, else the axes known to be 1.
Type type_from_shape(Infer& f, std::size_t i, DType dtype);

// ---- loop bodies ----

template <Prim P>
Scalar unary(ScalarBuilder& s, const Attrs&) {
  return s.call(P, s.arg(0, s.result));
}
template <Prim P>
Scalar binary(ScalarBuilder& s, const Attrs&) {
  return s.call(P, s.arg(0, s.result), s.arg(1, s.result));
}

// ---- views ----

/// The view rule of an index view, from its axis rule.
template <int (*SourceAxis)(const AxisArgs&, std::size_t)>
bool index_view(const ViewArgs& v, Layout& out) {
  out.offset = v.layout.offset;
  out.strides.clear();
  for (std::size_t axis = 0; axis < v.out.dims.size(); ++axis) {
    int from = SourceAxis({v.attrs, v.in, v.out}, axis);
    out.strides.push_back(from == kRepeated ? v.sizes.zero() : v.layout.strides[from]);
  }
  return true;
}

// ---- gradients ----

/// A 0-d constant of the dtype of `like`.
Expr number(double value, const Expr& like);
/// A constant of this value, behind axes and casts.
bool is_number(Expr e, double value);
/// The x of switch(x <= 0, 0, x), else null.
Expr relu_operand(const Expr& e);
/// Sums `dy` over the axes that `x` was stretched on.
Expr unbroadcast(const Expr& dy, const Expr& x);
/// The gradients of the operands of a broadcasting op, before unbroadcasting; null stays null.
Exprs unbroadcast_all(const GradArgs& g, Exprs gradients);
/// `op` on these inputs and those of g from `first` on, with g's attributes.
Expr apply_as(const GradArgs& g, const OpDef& op, Exprs inputs, std::size_t first);
/// Puts the axes a reduction dropped back, as broadcastable ones.
Expr expand_axes(const Expr& reduced, const std::vector<std::int64_t>& axes);
/// `x` with the type of `like`'s axes: reshaped to its shape and broadcast pattern.
Expr reshape_like(const Expr& x, const Expr& like);

/// The iteration numbers of the loops whose bodies this thread is building, outermost first. A
/// random draw mixes them into its key, so that every iteration draws anew.
const std::vector<Expr>& open_loops();

/// `results` stacked on a new axis of size `count`, 0 or 1: what `region` holds is computed only if
/// it is 1.
std::vector<Expr> run_if(const Expr& count, const std::vector<Expr>& results,
                         const std::unordered_set<Variable*>& region);

/// The attributes of a loop over elements.
Attrs loop_attrs(std::size_t n_seq, std::size_t n_state, std::size_t n_out,
                 std::shared_ptr<const Lambda> body);

// ---- sizes ----

/// True if the size cannot be negative, as far as a short look shows.
bool nonnegative(const SizeTable& sizes, SizeId id, int depth = 4);

// ---- reference interpreter ----

/// Counts through the multi-index of a shape in C order.
class Counter {
 public:
  explicit Counter(const Dims& shape) : shape_(shape), at(shape.size(), 0) {}
  void next() {
    for (std::size_t i = shape_.size(); i-- > 0;) {
      if (++at[i] < shape_[i]) return;
      at[i] = 0;
    }
  }

 private:
  Dims shape_;

 public:
  Dims at;
};
std::int64_t flat(const Dims& shape, const Dims& at);
/// Stores a sum kept in double or int64, wrapped to the dtype.
void store(RefTensor& t, std::int64_t k, Number n);
/// Input 0 with a part replaced by input 1, or increased by it. `visit` calls its argument with
/// (place in input 0, place in input 1) for every element of the part.
template <class F>
void put_part(const ReferenceArgs& r, bool increase, F&& visit) {
  RefTensor& y = r.y[0];
  y.f = r.x[0]->f;
  y.i = r.x[0]->i;
  visit([&](std::int64_t at, std::int64_t k) {
    Number a = y.at(at), b = r.x[1]->at(k);
    auto sum = static_cast<std::uint64_t>(a.i) + static_cast<std::uint64_t>(b.i);  // may wrap
    increase ? store(y, at, {a.f + b.f, static_cast<std::int64_t>(sum)}) : y.set(at, b);
  });
}

}  // namespace snug::ops
