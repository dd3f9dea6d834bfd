// The functions of ops/linalg_functions.h.
#include <nanobind/stl/optional.h>

#include "arguments.h"

namespace snug::python {

using nb::arg;

void bind_linalg(nb::module_& m) {
  using One = Expr (*)(const Arg&);
  using Two = Expr (*)(const Arg&, const Arg&);
  define(m, "cholesky", cholesky, tensor_arg("a"), arg("lower") = true);
  define(m, "solve", solve, tensor_arg("a"), tensor_arg("b"), arg("kind") = "general",
         arg("trans") = false);
  define(m, "inverse", static_cast<One>(inverse), tensor_arg("a"));
  define(m, "pinv", pinv, tensor_arg("a"), arg("rcond") = 1e-15,
         "The Moore-Penrose inverse; singular values up to rcond times the largest count as zero.");
  define(m, "det", static_cast<One>(det), tensor_arg("a"));
  define(m, "slogdet", slogdet, tensor_arg("a"));
  define(m, "qr", qr, tensor_arg("a"), arg("mode") = "reduced");
  define(m, "svd", svd, tensor_arg("a"), arg("full_matrices") = true, arg("compute_uv") = true);
  define(m, "eig", eig, tensor_arg("a"));
  define(m, "eigh", eigh, tensor_arg("a"), arg("lower") = true);
  define(m, "eigvalsh", static_cast<Expr (*)(const Arg&, bool)>(eigvalsh), tensor_arg("a"),
         arg("lower") = true);
  define(m, "eigvalsh_of_pair", static_cast<Expr (*)(const Arg&, const Arg&, bool)>(eigvalsh),
         tensor_arg("a"), tensor_arg("b"), arg("lower") = true,
         "The w with a v = w b v for symmetric a and positive definite b, rising.");
  define(m, "lstsq", lstsq, tensor_arg("a"), tensor_arg("b"), arg("rcond") = nb::none());
  define(m, "expm", static_cast<One>(expm), tensor_arg("a"));
  define(m, "matrix_power", matrix_power, tensor_arg("a"), arg("n"),
         "The n-th power of a square matrix; negative ones are powers of the inverse.");
  define(m, "trace", static_cast<One>(trace), tensor_arg("a"), "The sum of the diagonal.");
  define(m, "kron", static_cast<Two>(kron), tensor_arg("a"), tensor_arg("b"),
         "The Kronecker product, as of SciPy.");
  define(m, "norm_named", static_cast<Expr (*)(const Arg&, const std::string&)>(norm),
         tensor_arg("x"), arg("ord"), "The norm of this name.");
  define(m, "norm_of_order", static_cast<Expr (*)(const Arg&, double)>(norm), tensor_arg("x"),
         arg("ord"), "The norm of this order.");
  define(m, "tensorinv", tensorinv, tensor_arg("a"), arg("ind") = 2,
         "The inverse of a as a map from its last dimensions to the first `ind`.");
  define(m, "tensorsolve", tensorsolve, tensor_arg("a"), tensor_arg("b"), arg("axes"),
         "The x with tensordot(a, x, x.ndim) = b; `axes` of a go behind the others first.");
}

}  // namespace snug::python
