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
std::vector<std::int64_t> ints_of(nb::handle h, std::string_view what = "axis");

/// An argument of a function, for errors. Where a text is expected it is the function's name.
struct Place {
  std::string_view function, argument;
  operator std::string_view() const { return function; }
  std::string text() const { return fmt::format("{}: {}", function, argument); }
};

/// Any object where signatures say T: the errors are ours, not nanobind's.
template <class T>
struct Given {
  nb::handle object;
};
bool flag_of(nb::handle h, std::string_view what);  // a bool, also NumPy's, or 0 or 1
double number_of(nb::handle h, std::string_view what);
std::string text_of(nb::handle h, std::string_view what);

/// How a parameter of a function of ops/functions.h comes from Python: as the object `From`, made
/// into what the function takes by `get`.
template <class T>
struct Parameter {
  using From = T;
  static const T& get(const T& value, std::string_view) { return value; }
};
template <>
struct Parameter<std::int64_t> {
  using From = Given<std::int64_t>;
  static std::int64_t get(From given, const Place& place) {
    return integer_of(given.object, place.text());
  }
};
template <>
struct Parameter<bool> {
  using From = Given<bool>;
  static bool get(From given, const Place& place) { return flag_of(given.object, place.text()); }
};
template <>
struct Parameter<double> {
  using From = Given<double>;
  static double get(From given, const Place& place) {
    return number_of(given.object, place.text());
  }
};
template <>
struct Parameter<std::string> {
  using From = Given<std::string>;
  static std::string get(From given, const Place& place) {
    return text_of(given.object, place.text());
  }
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
  static std::optional<std::int64_t> get(nb::handle h, const Place& place) {
    if (h.is_none()) return {};
    return integer_of(h, place.text());
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
  static std::vector<std::int64_t> get(nb::handle h, const Place& place) {
    return ints_of(h, place.text());
  }
};

inline Tensor result_of(const Expr& e) { return tensor_of(e); }
inline nb::tuple result_of(const std::vector<Expr>& all) { return nb::tuple(wrap_all(all)); }

template <class Extra>
void add_name(std::vector<std::string>& names, const Extra& extra) {
  if constexpr (requires { extra.name_; }) names.emplace_back(extra.name_);
}

/// Makes a function of ops/functions.h one of the module. `extra` are its arguments in order
/// (`tensor_arg("x")`, `nb::arg("axis") = 0`) and, if no op row has the name, its doc.
template <class R, class... P, class... Extra>
void define(nb::module_& m, const char* name, R (*f)(P...), const Extra&... extra) {
  std::vector<std::string> names;
  (add_name(names, extra), ...);
  m.def(
      name,
      [f, name, names](typename Parameter<std::decay_t<P>>::From... values) {
        UserLine line;
        std::size_t i = 0;
        // Braces: arguments are made from the left, as `i` counts them.
        return std::apply(
            [&](auto&&... made) { return result_of(f(made...)); },
            std::tuple{Parameter<std::decay_t<P>>::get(values, Place{name, names[i++]})...});
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

template <class T>
struct nanobind::detail::type_caster<snug::python::Given<T>> {
  NB_TYPE_CASTER(snug::python::Given<T>, make_caster<T>::Name)
  bool from_python(handle object, std::uint32_t, cleanup_list*) noexcept {
    value.object = object;
    return true;
  }
};
