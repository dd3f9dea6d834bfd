// Sorting, indexing, arranging and products of tensors, under the names Python code uses.
#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

void bind_sorting(nb::module_& m) {
  define(m, "cumsum", cumsum, tensor_arg("x"), arg("axis") = nb::none());
  define(m, "cumprod", cumprod, tensor_arg("x"), arg("axis") = nb::none());
  define(m, "linear_recurrence", linear_recurrence, tensor_arg("a"), tensor_arg("b"),
         arg("axis") = 0);
  define(m, "sort", snug::sort, tensor_arg("x"), arg("axis").none() = -1);
  define(m, "argsort", argsort, tensor_arg("x"), arg("axis").none() = -1);
  define(m, "topk", topk, tensor_arg("x"), tensor_arg("k"), arg("axis").none() = -1,
         "The k largest elements along an axis, the largest first; or the -k smallest.");
  define(m, "argtopk", argtopk, tensor_arg("x"), tensor_arg("k"), arg("axis").none() = -1,
         "The places of the k largest elements along an axis; or of the -k smallest.");
  define(m, "topk_and_argtopk", topk_and_argtopk, tensor_arg("x"), tensor_arg("k"),
         arg("axis").none() = -1, "topk and argtopk.");
  define(m, "median", median, tensor_arg("x"), arg("axis") = nb::none(), arg("keepdims") = false,
         "The element in the middle of the sorted ones, or the mean of the two that are.");
  define(m, "searchsorted", searchsorted, tensor_arg("x"), tensor_arg("v"), arg("side") = "left",
         arg("sorter") = nb::none());
  define(m, "bincount", bincount, tensor_arg("x"), arg("weights") = nb::none(),
         arg("minlength") = nb::none(),
         "How often 0, 1, ... occur in a vector of integers, or the sums of their weights.");
  m.def(
      "unique",
      [](handle x) {
        UserLine line;
        UniqueResult r = unique(as_tensor(x, "unique"));
        return nb::make_tuple(wrap(r.values), wrap(r.index), wrap(r.inverse), wrap(r.counts));
      },
      tensor_arg("x"),
      "The different elements in ascending order; the first place of each; for each element of x "
      "its place among them; how often each occurs.");
  define(m, "repeat", repeat, tensor_arg("x"), tensor_arg("repeats"), arg("axis") = nb::none(),
         "Each element several times along an axis.");
}

void bind_picking(nb::module_& m) {
  define(m, "take", take, tensor_arg("x"), tensor_arg("indices"), arg("axis") = nb::none(),
         arg("mode") = "raise",
         "The elements of x at these places along an axis; without one, in C order.");
  define(m, "take_along_axis", take_along_axis, tensor_arg("x"), tensor_arg("indices"),
         arg("axis") = -1, "The elements of each line of x at the places that indices has for it.");
  define(m, "put_along_axis", put_along_axis, tensor_arg("x"), tensor_arg("indices"),
         tensor_arg("y"), arg("axis") = -1,
         "x with the elements that take_along_axis reads replaced by y.");
  m.def(
      "choose",
      [](handle which, handle choices, const std::string& mode) {
        UserLine line;
        const Expr place = as_tensor(which, "choose");
        if (nb::isinstance<nb::list>(choices) || nb::isinstance<nb::tuple>(choices))
          return tensor_of(choose(place, tensors_of(choices, "choose"), mode));
        return tensor_of(choose_from(place, as_tensor(choices, "choose"), mode));
      },
      tensor_arg("which"), arg("choices"), arg("mode") = "raise",
      "Element by element the value of the choice that `which` names.");
  define(m, "compress", compress, tensor_arg("condition"), tensor_arg("x"),
         arg("axis") = nb::none(), "The elements along an axis where the condition is not 0.");
  define(m, "flatnonzero", flatnonzero, tensor_arg("x"),
         "The places, in C order, of the elements that are not 0.");
  define(m, "nonzero_values", nonzero_values, tensor_arg("x"), "The elements that are not 0.");
  define(m, "count_nonzero", count_nonzero, tensor_arg("x"), arg("axis") = nb::none(),
         arg("keepdims") = false, "How many elements are not 0.");
  define(m, "diagonal", diagonal, tensor_arg("x"), arg("offset") = 0, arg("axis1") = 0,
         arg("axis2") = 1, "The diagonal of two axes, as the last axis.");
  define(m, "alloc_diagonal", alloc_diagonal, tensor_arg("x"), arg("offset") = 0, arg("axis1") = 0,
         arg("axis2") = 1, "0 but on a diagonal, which holds the last axis of x.");
  define(m, "diag", diag, tensor_arg("x"), arg("k") = 0,
         "The matrix with a vector on its diagonal, or the diagonal of a matrix.");
  define(m, "fill_diagonal", fill_diagonal, tensor_arg("x"), tensor_arg("value"),
         "x with a number on its main diagonal.");
  define(m, "fill_diagonal_offset", fill_diagonal_offset, tensor_arg("x"), tensor_arg("value"),
         tensor_arg("offset"), "A matrix with a number on one of its diagonals.");
  define(m, "unravel_index", unravel_index, tensor_arg("indices"), arg("dims"), arg("order") = "C",
         "The index on each axis of elements that are numbered.");
  define(m, "ravel_multi_index", ravel_multi_index, arg("multi_index"), arg("dims"),
         arg("mode") = "raise", arg("order") = "C", "The number of the elements at an index.");
  define(m, "one_hot", one_hot, tensor_arg("x"), tensor_arg("n"), arg("dtype") = nb::none(),
         "1 at place x[...] of a new last axis of size n, and 0 elsewhere.");
  define(m, "inverse_permutation", inverse_permutation, tensor_arg("perm"),
         "The permutation that undoes one; of a matrix in each row.");
  define(m, "permute_row_elements", permute_row_elements, tensor_arg("x"), tensor_arg("y"),
         arg("inverse") = false,
         "The elements of each row of x in the order that y gives, or back.");
}

using Joined = Expr (*)(const std::vector<Expr>&, Here);
constexpr std::tuple<const char*, Joined, const char*> kJoined[] = {
    {"hstack", hstack, "The tensors side by side: along axis 1, vectors along axis 0."},
    {"vstack", vstack, "The tensors one below the other; vectors are rows."},
    {"dstack", dstack, "The tensors behind each other: along axis 2."},
    {"column_stack", column_stack, "The tensors side by side; vectors are columns."},
};

void bind_arranging(nb::module_& m) {
  define(m, "moveaxis", moveaxis, tensor_arg("x"), arg("source"), arg("destination"),
         "x with axes at other places; the others keep their order.");
  define(m, "squeeze", squeeze, tensor_arg("x"), arg("axis") = nb::none(),
         "x without its broadcastable axes, or without the given ones.");
  define(m, "atleast_1d", atleast_1d, tensor_arg("x"), "x with at least one axis.");
  define(m, "atleast_2d", atleast_2d, tensor_arg("x"), "x with at least two axes.");
  define(m, "atleast_3d", atleast_3d, tensor_arg("x"), "x with at least three axes.");
  m.def(
      "broadcast_arrays",
      [](const nb::args& xs) {
        UserLine line;
        return wrap_all(broadcast_arrays(tensors_of(xs, "broadcast_arrays")));
      },
      "The tensors stretched to one shape.");
  define(m, "flip", flip, tensor_arg("x"), arg("axis") = nb::none(), "x backwards along axes.");
  define(m, "roll", roll, tensor_arg("x"), tensor_arg("shift"), arg("axis") = nb::none(),
         "The elements moved on along an axis; those beyond the end come in at the start.");
  define(m, "rot90", rot90, tensor_arg("x"), arg("k"), arg("axis1"), arg("axis2"),
         "k quarter turns in the plane of two axes.");
  define(m, "split", split, tensor_arg("x"), arg("sizes"), arg("axis") = 0,
         "Parts of these sizes along an axis.");
  define(m, "tile", tile, tensor_arg("x"), arg("reps"), "x repeated along each axis.");
  define(m, "pad", pad, tensor_arg("x"), arg("width"), arg("mode"), tensor_arg("value"),
         "x with more elements around it.");
  define(m, "diff", diff, tensor_arg("x"), arg("n") = 1, arg("axis") = -1,
         "Differences of neighbours along an axis, n times.");
  for (auto [name, f, doc] : kJoined)
    m.def(
        name,
        [f, name](handle xs) {
          UserLine line;
          return tensor_of(f(tensors_of(xs, name), Here::current()));
        },
        arg("tensors"), doc);
  define(m, "linspace", linspace, tensor_arg("start"), tensor_arg("stop"), tensor_arg("num"),
         arg("endpoint") = true, arg("dtype") = nb::none(), "Numbers that are evenly spaced.");
  define(m, "logspace", logspace, tensor_arg("start"), tensor_arg("stop"), tensor_arg("num"),
         arg("endpoint") = true, arg("base") = 10.0, arg("dtype") = nb::none(),
         "Numbers whose logarithms are evenly spaced.");
  m.def(
      "meshgrid",
      [](handle xs, const std::string& indexing, bool sparse) {
        UserLine line;
        return wrap_all(meshgrid(tensors_of(xs, "meshgrid"), indexing, sparse));
      },
      arg("vectors"), arg("indexing") = "xy", arg("sparse") = false,
      "The coordinates of a grid: one tensor per vector.");
  define(m, "tri", tri, tensor_arg("n"), tensor_arg("m"), arg("k"), arg("dtype"),
         "1 on and below diagonal k of a matrix, 0 above.");
  define(m, "bartlett", bartlett, tensor_arg("n"), arg("dtype"),
         "The triangular window of n points that starts and ends with 0.");
}

void bind_products(nb::module_& m) {
  m.def(
      "einsum",
      [](const std::string& subscripts, handle operands) {
        UserLine line;
        return tensor_of(einsum(subscripts, tensors_of(operands, "einsum")));
      },
      arg("subscripts"), arg("operands"), "The sum of products that the subscripts name.");
  define(m, "batched_tensordot", batched_tensordot, tensor_arg("a"), tensor_arg("b"), arg("axes_a"),
         arg("axes_b"), "For each element of the batch, the product summed over pairs of axes.");
  define(m, "outer", outer, tensor_arg("x"), tensor_arg("y"),
         "The products of all elements of x with all of y, as a matrix.");
  define(m, "inner", inner, tensor_arg("a"), tensor_arg("b"),
         "The products summed over the last axis of both.");
  define(m, "vdot", vdot, tensor_arg("a"), tensor_arg("b"),
         "The products of all elements, summed.");
  define(m, "cross", cross, tensor_arg("a"), tensor_arg("b"), arg("axis") = -1,
         "The vectors at right angles to those along an axis of size 3.");
}

}  // namespace

void bind_arrays(nb::module_& m) {
  bind_sorting(m);
  bind_picking(m);
  bind_arranging(m);
  bind_products(m);
}

}  // namespace snug::python
