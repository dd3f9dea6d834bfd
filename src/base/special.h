#pragma once

/// Special functions of mathematics that the C++ library lacks or has no thread-safe form of. They
/// neither throw nor keep any state; where a function has no value it is NaN, at a pole with one
/// limit infinite. Values at infinities and zeros are those of scipy.special.
namespace snug::special {

double erfcx(double x);  // exp(x * x) * erfc(x)
double gamma(double x);
double gammaln(double x);  // log |gamma(x)|
double digamma(double x);
double trigamma(double x);
double erfinv(double x);
double erfcinv(double x);
double j0(double x);
double j1(double x);
double i0(double x);
double i1(double x);
double polygamma(double n, double x);  // derivative n of digamma
double gammainc(double k, double x);   // regularised: from 0 to 1
double gammaincc(double k, double x);
double jv(double order, double x);
double iv(double order, double x);
double betaln(double a, double b);  // log |gamma(a) gamma(b) / gamma(a + b)|

}  // namespace snug::special
