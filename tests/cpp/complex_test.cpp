// Complex numbers at the border of a graph: they are pairs of floats inside.
#include <gtest/gtest.h>

#include <complex>

#include "error_of.h"
#include "expr/op_def.h"
#include "graph/capture.h"
#include "ops/rows.h"
#include "snug.h"

namespace snug {
namespace {

using C64 = std::complex<float>;
using C128 = std::complex<double>;
using testing::error_of;

Array numbers() { return Array::from<C128>({{1, 2}, {3, -4}, {0, 1}}, {3}); }

TEST(Complex, DTypesUpcastAsNumPy) {
  EXPECT_EQ(size_of(DType::C64), 8);
  EXPECT_EQ(size_of(DType::C128), 16);
  EXPECT_EQ(upcast(DType::C64, DType::F32), DType::C64);
  EXPECT_EQ(upcast(DType::C64, DType::F64), DType::C128);
  EXPECT_EQ(upcast(DType::I16, DType::C64), DType::C64);
  EXPECT_EQ(upcast(DType::I32, DType::C64), DType::C128);
  EXPECT_EQ(upcast(DType::Bool, DType::C64), DType::C64);
  EXPECT_EQ(upcast(DType::F16, DType::C64), DType::C64);
  EXPECT_EQ(upcast(DType::C64, DType::C128), DType::C128);
  EXPECT_FALSE(is_float(DType::C64));
  EXPECT_EQ(dtype_from_name("complex128"), DType::C128);
}

TEST(Complex, ArraysArePairs) {
  Array a = numbers();
  Array p = a.as_pairs();
  EXPECT_EQ(p.dtype, DType::F64);
  EXPECT_EQ(p.shape, (Dims{3, 2}));
  EXPECT_EQ(p.at_double(3), -4);
  EXPECT_EQ(p.data, a.data);
  EXPECT_TRUE(same_bits(p.as_complex(), a));
  EXPECT_EQ(a.to(DType::C64).at_complex(1), C128(3, -4));
  EXPECT_EQ(Array::scalar(2.5).to(DType::C64).item<C64>(), C64(2.5f, 0));
  EXPECT_EQ(describe_element(a, 1), "3-4j");
  EXPECT_EQ(error_of([&] { a.at_double(0); }).fault(), Fault::Type);
}

TEST(Complex, AGraphHasPairs) {
  Expr z = zvector("z");
  Expr y = view_as_complex(view_as_real(z) * Expr(2.0));
  const std::vector<Expr> inputs{z}, outputs{y};
  Captured c = capture({inputs, outputs, {}, {}, true});
  const Graph& g = c.graph;
  for (const Node& n : g.nodes())
    for (const Type& t : n.types) EXPECT_FALSE(is_complex(t.dtype));
  const Type& in = g.type(g.inputs()[0].value);
  EXPECT_EQ(in.dtype, DType::F64);
  ASSERT_EQ(in.ndim(), 2);
  EXPECT_TRUE(g.sizes().is(in.dims[1], 2));
  Array out = function({z}, y)(numbers());
  EXPECT_EQ(out.dtype, DType::C128);
  EXPECT_EQ(out.shape, (Dims{3}));
  EXPECT_EQ(out.at_complex(1), C128(6, -8));
}

TEST(Complex, PairsThatAreTakenApartVanish) {
  Expr a = dvector("a"), b = dvector("b");
  Expr z = complex(a, b) * complex(b, a);
  std::string text = function({a, b}, real(z) + imag(z)).explain();
  EXPECT_EQ(text.substr(text.find("== tasks")).find("pair"), std::string::npos) << text;
}

TEST(Complex, PlansCountEveryByte) {
  Expr z = cmatrix("z");
  Function f = function({z}, conj(z));
  MemoryReport r = f.memory(std::vector<Dims>{{6, 7}});
  EXPECT_EQ(r.inputs, 6 * 7 * 8);
  EXPECT_EQ(r.outputs, 6 * 7 * 8);
  // A view of all the pairs needs no memory: the sum reads the argument.
  Function s = function({z}, sum(z));
  EXPECT_EQ(s.memory(std::vector<Dims>{{6, 7}}).outputs, 8);
}

TEST(Complex, SharedVariablesKeepTheirType) {
  Expr w = shared(numbers(), "w");
  Function f = function({}, std::vector<Expr>{},
                        {.updates = {{w, w * Expr(C128(0, 1))}}, .mode = Mode::Check});
  f.call({});
  Array value = as_shared(w)->get_value();
  EXPECT_EQ(value.dtype, DType::C128);
  EXPECT_EQ(value.at_complex(0), C128(-2, 1));
  Function longer = function({}, std::vector<Expr>{}, {.updates = {{w, concatenate({w, w})}}});
  longer.call({});
  EXPECT_EQ(as_shared(w)->get_value().shape, (Dims{6}));
  EXPECT_EQ(as_shared(w)->get_value().at_complex(3), C128(-2, 1));
}

TEST(Complex, GradientsFollowTheano) {
  Expr z = zvector("z");
  Array g = function({z}, grad(sum(sqr(abs(z))), z))(numbers());  // 2 z
  for (std::int64_t k = 0; k < 3; ++k)
    EXPECT_LT(std::abs(g.at_complex(k) - 2.0 * numbers().at_complex(k)), 1e-14);
  EXPECT_EQ(error_of([&] { grad(sum(z), z); }).fault(), Fault::Type);
}

TEST(Complex, WhatHasNoMeaningSaysSo) {
  Expr z = zvector("z");
  const auto e = error_of([&] { lt(z, z); });
  EXPECT_EQ(e.fault(), Fault::Type);
  EXPECT_EQ(e.message(), "lt: is not defined for complex numbers");
  EXPECT_EQ(error_of([&] { cast(z, DType::F64); }).hint(), "take real(x), imag(x) or abs(x)");
  EXPECT_EQ(error_of([&] { tensor(DType::C64, 8); }).fault(), Fault::Type);
}

TEST(Fourier, TransformsAndTheirInverses) {
  Expr z = zvector("z"), x = dvector("x");
  Array there = function({z}, fft(z))(numbers());
  EXPECT_LT(std::abs(there.at_complex(0) - C128(4, -1)), 1e-14);
  Array back = function({z}, ifft(fft(z)))(numbers());
  for (std::int64_t k = 0; k < 3; ++k)
    EXPECT_LT(std::abs(back.at_complex(k) - numbers().at_complex(k)), 1e-15);
  Array reals = Array::from<double>({1, 2, 4, 8, 16}, {5});
  Array same = function({x}, irfft(rfft(x), 5))(reals);
  for (std::int64_t k = 0; k < 5; ++k) EXPECT_NEAR(same.at_double(k), reals.at_double(k), 1e-14);
}

}  // namespace
}  // namespace snug
