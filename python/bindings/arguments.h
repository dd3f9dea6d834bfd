#pragma once
#include "bindings.h"
#include "ops/functions.h"

/// Python values as arguments of the functions of ops/functions.h. `what` is named by errors.
namespace snug::python {

/// The doc of the op row of this name; empty if there is none.
std::string doc_of(std::string_view name);
/// None, an integer, a list of them, or a constant expression.
Axes axes_of(nb::handle h);
std::optional<DType> dtype_or_none(nb::handle h);
/// A list of sizes, each a number or an expression, or one expression for all of them.
Sizes sizes_of(nb::handle h, std::string_view what);
std::vector<Expr> tensors_of(nb::handle h, std::string_view what);
std::vector<std::int64_t> ints_of(nb::handle h);

/// How a parameter of a function of ops/functions.h comes from Python: as the object `From`, made
/// into what the function takes by `get`. Numbers, flags and texts come as they are.
template <class T>
struct Parameter {
  using From = T;
  static const T& get(const T& value, std::string_view) { return value; }
};
template <>
struct Parameter<Arg> {
  using From = nb::handle;
  static Arg get(nb::handle h, std::string_view what) { return as_tensor(h, what); }
};
template <>
struct Parameter<Axes> {
  using From = nb::handle;
  static Axes get(nb::handle h, std::string_view) { return axes_of(h); }
};
template <>
struct Parameter<Sizes> {
  using From = nb::handle;
  static Sizes get(nb::handle h, std::string_view what) { return sizes_of(h, what); }
};
template <>
struct Parameter<DType> {
  using From = nb::handle;
  static DType get(nb::handle h, std::string_view) { return as_dtype(h); }
};
template <>
struct Parameter<std::optional<DType>> {
  using From = nb::handle;
  static std::optional<DType> get(nb::handle h, std::string_view) { return dtype_or_none(h); }
};
/// None: the axis is left out.
template <>
struct Parameter<std::optional<std::int64_t>> {
  using From = nb::handle;
  static std::optional<std::int64_t> get(nb::handle h, std::string_view) {
    if (h.is_none()) return {};
    return integer_of(h, "axis");
  }
};
/// None: the value is left out.
template <>
struct Parameter<Expr> {
  using From = nb::handle;
  static Expr get(nb::handle h, std::string_view what) {
    return h.is_none() ? Expr() : as_tensor(h, what);
  }
};
template <>
struct Parameter<std::vector<Expr>> {
  using From = nb::handle;
  static std::vector<Expr> get(nb::handle h, std::string_view what) { return tensors_of(h, what); }
};
template <>
struct Parameter<std::vector<std::int64_t>> {
  using From = nb::handle;
  static std::vector<std::int64_t> get(nb::handle h, std::string_view) { return ints_of(h); }
};

inline Tensor result_of(const Expr& e) { return tensor_of(e); }
inline nb::tuple result_of(const std::vector<Expr>& all) { return nb::tuple(wrap_all(all)); }

/// Makes a function of ops/functions.h one of the module. `extra` are its arguments in order
/// (`tensor_arg("x")`, `nb::arg("axis") = 0`) and, if no op row has the name, its doc.
template <class R, class... P, class... Extra>
void define(nb::module_& m, const char* name, R (*f)(P...), const Extra&... extra) {
  m.def(
      name,
      [f, name](typename Parameter<std::decay_t<P>>::From... values) {
        UserLine line;
        return result_of(f(Parameter<std::decay_t<P>>::get(values, name)...));
      },
      doc_of(name).c_str(), extra...);
}

// Called by bind_ops.
void bind_arrays(nb::module_& m);
void bind_complex(nb::module_& m);
void bind_convolutions(nb::module_& m);
void bind_fft(nb::module_& m);
void bind_gradients(nb::module_& m);
void bind_graphs(nb::module_& m);
void bind_linalg(nb::module_& m);
void bind_networks(nb::module_& m);
void bind_shapes(nb::module_& m);
void bind_special(nb::module_& m);
void bind_watch(nb::module_& m);

}  // namespace snug::python
