// Special functions and other elementwise ones (ops/special_functions.h).
#include <nanobind/stl/optional.h>

#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using Unary = Expr (*)(const Arg&);
using Binary = Expr (*)(const Arg&, const Arg&);
using OfMany = Expr (*)(const std::vector<Expr>&, Here);

struct UnaryName {
  const char* name;
  Unary f;
  const char* doc = "";  // of what is no row
};
constexpr UnaryName kUnary[] = {
    {"gamma", snug::gamma},
    {"gammaln", snug::gammaln},
    {"digamma", snug::digamma},
    {"trigamma", snug::trigamma},
    {"erfinv", snug::erfinv},
    {"erfcinv", snug::erfcinv},
    {"erfcx", snug::erfcx},
    {"j0", snug::j0},
    {"j1", snug::j1},
    {"i0", snug::i0},
    {"i1", snug::i1},
    {"xlogx", snug::xlogx},
    {"deg2rad", snug::deg2rad, "Degrees in radians."},
    {"rad2deg", snug::rad2deg, "Radians in degrees."},
    {"round_half_away_from_zero", snug::round_half_away_from_zero,
     "The nearest integer, halves away from 0, in x's dtype."},
    {"logical_not", snug::logical_not, "True where x is 0."},
};

struct BinaryName {
  const char *name, *first, *second;
  Binary f;
  const char* doc = "";
};
constexpr BinaryName kBinary[] = {
    {"polygamma", "n", "x", snug::polygamma},
    {"gammainc", "k", "x", snug::gammainc},
    {"gammaincc", "k", "x", snug::gammaincc},
    {"betaln", "a", "b", snug::betaln},
    {"beta", "a", "b", snug::beta,
     "The beta function, gamma(a) gamma(b) / gamma(a + b), of positive numbers."},
    {"gammal", "k", "x", snug::gammal, "The lower incomplete gamma function of k, at x."},
    {"gammau", "k", "x", snug::gammau, "The upper incomplete gamma function of k, at x."},
    {"chi2sf", "x", "k", snug::chi2sf,
     "The probability that a chi-squared variable with k degrees of freedom exceeds x."},
    {"jv", "v", "x", snug::jv},
    {"iv", "v", "x", snug::iv},
    {"xlogy0", "x", "y", snug::xlogy0},
    {"ceil_intdiv", "a", "b", snug::ceil_intdiv, "The quotient of integers, rounded up."},
    {"second", "a", "b", snug::second, "b in the common shape of a and b."},
    {"logical_and", "a", "b", snug::logical_and, "True where neither a nor b is 0."},
    {"logical_or", "a", "b", snug::logical_or, "True where a or b is not 0."},
    {"logical_xor", "a", "b", snug::logical_xor, "True where one of a and b is 0."},
};

void define_of_many(nb::module_& m, const char* name, OfMany f, const char* doc) {
  m.def(
      name,
      [f, name](nb::args xs) {
        UserLine line;
        return tensor_of(f(tensors_of(xs, name), Here::current()));
      },
      doc);
}

}  // namespace

void bind_special(nb::module_& m) {
  auto doc = [](const auto& f) { return *f.doc ? std::string(f.doc) : doc_of(f.name); };
  for (const UnaryName& u : kUnary) define(m, u.name, u.f, tensor_arg("x"), doc(u).c_str());
  for (const BinaryName& b : kBinary)
    define(m, b.name, b.f, tensor_arg(b.first), tensor_arg(b.second), doc(b).c_str());
  define_of_many(m, "largest", snug::largest, "The largest of the arguments, elementwise.");
  define_of_many(m, "smallest", snug::smallest, "The smallest of the arguments, elementwise.");
  define(m, "isclose", snug::isclose, tensor_arg("a"), tensor_arg("b"), arg("rtol") = 1e-5,
         arg("atol") = 1e-8, arg("equal_nan") = false,
         "Where |a - b| <= atol + rtol * |b|, or both are the same infinity.");
  define(m, "allclose", snug::allclose, tensor_arg("a"), tensor_arg("b"), arg("rtol") = 1e-5,
         arg("atol") = 1e-8, arg("equal_nan") = false,
         "Whether a and b are equal within a tolerance everywhere.");
  define(m, "nan_to_num", snug::nan_to_num, tensor_arg("x"), arg("nan") = 0.0,
         arg("posinf") = nb::none(), arg("neginf") = nb::none(),
         "x with other numbers for NaN and the infinities, by default 0 and the largest ones.");
  define(m, "ptp", snug::ptp, tensor_arg("x"), arg("axis") = nb::none(), arg("keepdims") = false,
         "The largest element minus the smallest, over axes.");
  define(m, "vector_norm", snug::vector_norm, tensor_arg("x"), arg("ord") = 2.0,
         arg("axis") = nb::none(), arg("keepdims") = false,
         "The sum of |x|**ord to the power of 1 / ord, over axes; ord may be infinite.");
  define(m, "cov", snug::cov, tensor_arg("x"), arg("ddof") = 1,
         "The covariances of the rows of a matrix.");
}

}  // namespace snug::python
