// The functions of ops/functions.h under the names Python code uses. Docs come from the op rows.
#include <nanobind/stl/function.h>

#include "arguments.h"
#include "autodiff/grad.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;
using nb::object;

using Unary = Expr (*)(const Arg&);
using Binary = Expr (*)(const Arg&, const Arg&);

constexpr std::pair<const char*, Unary> kUnary[] = {
    {"neg", snug::neg},     {"abs", snug::abs},         {"sign", snug::sign},
    {"sqr", snug::sqr},     {"sqrt", snug::sqrt},       {"exp", snug::exp},
    {"expm1", snug::expm1}, {"exp2", snug::exp2},       {"log", snug::log},
    {"log1p", snug::log1p}, {"log2", snug::log2},       {"log10", snug::log10},
    {"tanh", snug::tanh},   {"sigmoid", snug::sigmoid}, {"softplus", snug::softplus},
    {"erf", snug::erf},     {"erfc", snug::erfc},       {"sin", snug::sin},
    {"cos", snug::cos},     {"tan", snug::tan},         {"asin", snug::asin},
    {"acos", snug::acos},   {"atan", snug::atan},       {"sinh", snug::sinh},
    {"cosh", snug::cosh},   {"asinh", snug::asinh},     {"acosh", snug::acosh},
    {"atanh", snug::atanh}, {"floor", snug::floor},     {"ceil", snug::ceil},
    {"trunc", snug::trunc}, {"round", snug::round},     {"isnan", snug::isnan},
    {"isinf", snug::isinf}, {"invert", snug::invert},   {"identity", snug::identity},
    {"shape", snug::shape},
};
constexpr std::pair<const char*, Binary> kBinary[] = {
    {"add", snug::add},
    {"sub", snug::sub},
    {"mul", snug::mul},
    {"div", snug::div},
    {"floor_div", snug::floor_div},
    {"mod", snug::mod},
    {"pow", snug::pow},
    {"minimum", snug::minimum},
    {"maximum", snug::maximum},
    {"atan2", snug::atan2},
    {"lt", snug::lt},
    {"le", snug::le},
    {"gt", snug::gt},
    {"ge", snug::ge},
    {"eq", snug::eq},
    {"ne", snug::ne},
    {"bit_and", snug::bit_and},
    {"bit_or", snug::bit_or},
    {"bit_xor", snug::bit_xor},
    {"shl", snug::shl},
    {"shr", snug::shr},
    {"dot", snug::dot},
    {"batched_dot", snug::batched_dot},
};

void bind_elementwise(nb::module_& m) {
  for (auto [name, f] : kUnary) define(m, name, f, tensor_arg("x"));
  for (auto [name, f] : kBinary) define(m, name, f, tensor_arg("a"), tensor_arg("b"));
  define(m, "cast", snug::cast, tensor_arg("x"), arg("dtype").none());
  define(m, "switch", switch_, tensor_arg("cond"), tensor_arg("ift"), tensor_arg("iff"));
  define(m, "clip", clip, tensor_arg("x"), tensor_arg("min"), tensor_arg("max"),
         "x, but at least min and at most max.");
}

using SumLike = Expr (*)(const Arg&, const Axes&, bool, std::optional<DType>, std::optional<DType>);
constexpr std::pair<const char*, SumLike> kSumLike[] = {
    {"sum", snug::sum},
    {"prod", snug::prod},
    {"mean", snug::mean},
};
using Reduce = Expr (*)(const Arg&, const Axes&, bool);
constexpr std::pair<const char*, Reduce> kReduce[] = {
    {"max", snug::max}, {"min", snug::min},       {"any", snug::any},
    {"all", snug::all}, {"argmax", snug::argmax}, {"argmin", snug::argmin},
};
using Moment = Expr (*)(const Arg&, const Axes&, bool, std::int64_t, bool);
constexpr std::pair<const char*, Moment> kMoment[] = {{"var", snug::var}, {"std", snug::stddev}};

void bind_reductions(nb::module_& m) {
  for (auto [name, f] : kSumLike)
    define(m, name, f, tensor_arg("x"), arg("axis") = nb::none(), arg("keepdims") = false,
           arg("dtype") = nb::none(), arg("acc_dtype") = nb::none());
  for (auto [name, f] : kReduce)
    define(m, name, f, tensor_arg("x"), arg("axis") = nb::none(), arg("keepdims") = false);
  for (auto [name, f] : kMoment)
    define(m, name, f, tensor_arg("x"), arg("axis") = nb::none(), arg("keepdims") = false,
           arg("ddof") = 0, arg("corrected") = false);
}

void bind_linear(nb::module_& m) {
  define(m, "tensordot", tensordot, tensor_arg("a"), tensor_arg("b"), arg("axes_a"), arg("axes_b"),
         "The product summed over pairs of axes.");
}

void bind_random(nb::module_& m) {
  nb::class_<RandomStream>(m, "RandomStream", "A source of random expressions.")
      .def(nb::init<std::uint64_t>(), arg("seed") = 42)
      .def(
          "uniform",
          [](RandomStream& s, handle size, double low, double high, handle dtype) {
            UserLine line;
            return tensor_of(s.uniform(sizes_of(size, "uniform"), low, high, dtype_or_none(dtype)));
          },
          arg("size"), arg("low") = 0.0, arg("high") = 1.0, arg("dtype") = nb::none(),
          "Uniform numbers from low to high.")
      .def(
          "normal",
          [](RandomStream& s, handle size, double avg, double std, handle dtype) {
            UserLine line;
            return tensor_of(s.normal(sizes_of(size, "normal"), avg, std, dtype_or_none(dtype)));
          },
          arg("size"), arg("avg") = 0.0, arg("std") = 1.0, arg("dtype") = nb::none(),
          "Normal numbers.")
      .def(
          "bernoulli",
          [](RandomStream& s, handle size, handle p, handle dtype) {
            UserLine line;
            return tensor_of(s.bernoulli(sizes_of(size, "bernoulli"), as_tensor(p, "bernoulli"),
                                         dtype_or_none(dtype)));
          },
          arg("size"), arg("p") = 0.5, arg("dtype") = nb::none(), "1 with probability p, else 0.")
      .def("__reduce__",
           [](const RandomStream& s) {
             return nb::make_tuple(nb::module_::import_("snug._pickle").attr("random_stream"),
                                   nb::make_tuple(s.seed(), wrap_all(s.states())));
           })
      .def("seed", nb::overload_cast<std::uint64_t>(&RandomStream::seed), arg("seed"),
           "Sets all states as if the draws so far had been made with this seed.");
  m.def("_random_stream", [](std::uint64_t seed, handle states) {
    std::vector<Expr> all = unwrap_all(states, "RandomStream");
    for (const Expr& e : all)
      if (!as_shared(e)) fail(Fault::Type, "RandomStream: a state is no shared variable");
    return RandomStream(seed, std::move(all));
  });
  m.def(
      "dropout",
      [](handle x, double p, RandomStream& stream) {
        UserLine line;
        return tensor_of(dropout(as_tensor(x, "dropout"), p, stream));
      },
      tensor_arg("x"), arg("p"), arg("stream"),
      "Sets elements to 0 with probability p and scales the others by 1 / (1 - p).");
}

void bind_loops(nb::module_& m) {
  m.def(
      "loop",
      [](nb::callable fn, handle sequences, handle states, handle count) {
        UserLine line;
        LoopBody body = [&](const Expr& index, const std::vector<Expr>& elements,
                            const std::vector<Expr>& before) {
          object result = fn(wrap(index), wrap_all(elements), wrap_all(before));
          LoopStep step;
          step.states = tensors_of(result[0], "loop");
          step.outputs = tensors_of(result[1], "loop");
          return step;
        };
        LoopResult r = loop(body, tensors_of(sequences, "loop"), tensors_of(states, "loop"),
                            count.is_none() ? Expr() : as_tensor(count, "loop"));
        return nb::make_tuple(wrap_all(r.states), wrap_all(r.outputs));
      },
      arg("fn"), arg("sequences"), arg("states"), arg("count").none(),
      "fn(index, elements, states) -> (new states, outputs), once per element of the sequences.");
}

}  // namespace

void bind_ops(nb::module_& m) {
  bind_elementwise(m);
  bind_reductions(m);
  bind_complex(m);
  bind_convolutions(m);
  bind_fft(m);
  bind_shapes(m);
  bind_arrays(m);
  bind_linear(m);
  bind_linalg(m);
  bind_networks(m);
  bind_special(m);
  bind_random(m);
  bind_loops(m);
  bind_gradients(m);
  bind_graphs(m);
  bind_watch(m);
}

}  // namespace snug::python
