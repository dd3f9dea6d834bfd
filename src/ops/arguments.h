#pragma once
#include "base/origin_marks.h"
#include "expr/number.h"
#include "ops/rules.h"

/// What the public functions do with their arguments.
namespace snug {

/// Opens an origin scope at the place of a call. What is built in it is known to the user by the
/// name of the function that opens it, unless that is an op's own. Helpers pass null or the name of
/// the function they serve.
struct Scope : OriginScope {
  explicit Scope(const Arg& a, const char* called = __builtin_FUNCTION())
      : Scope(a.where, called) {}
  explicit Scope(const Here& w, const char* called = __builtin_FUNCTION())
      : OriginScope(w.file_name(), static_cast<int>(w.line()), w.function_name()),
        word_(is_composite(called) ? called : nullptr) {}

 private:
  static bool is_composite(const char* function);
  WordScope word_;
};

/// `what` is the name of the function, for the message.
void require_expr(const char* what, const Expr& e);
/// An axis of a value of `ndim` dimensions, counted from the front.
std::int64_t normal_axis(const char* what, std::int64_t axis, int ndim);

Expr int64_constant(std::int64_t value);
Expr typed_number(double value, DType dtype);
/// What sums and products of a dtype are kept in: small integers in int64 or uint64.
DType sum_dtype(DType t);
/// The elements of a size vector known to be 1, as a mask.
std::int64_t ones_mask(const Expr& vector);

/// `x` cast to the float type that holds it.
Expr in_float(const char* what, const Arg& x);
/// An elementwise op on operands that are aligned at the last axis.
Expr elementwise(const OpDef& op, std::vector<Expr> xs, Attrs attrs = {});
Expr unary(const OpDef& op, const Arg& x);
Expr binary(const OpDef& op, const Arg& a, const Arg& b);

}  // namespace snug
