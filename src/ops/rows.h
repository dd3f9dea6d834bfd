#pragma once
#include "expr/op_def.h"

/// Every op of the table. A row is defined in the file of its kind and listed in table.cpp.
namespace snug::ops {

// leaf.cpp
extern const OpDef input, shared, constant;
// elementwise.cpp
extern const OpDef neg, abs, sign, sqr, sqrt, exp, expm1, exp2, log, log1p, log2, log10, tanh,
    sigmoid, softplus, erf, erfc, sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh,
    floor, ceil, trunc, round, cast, stop_gradient;
extern const OpDef add, sub, mul, div, floor_div, mod, pow, minimum, maximum, atan2;
// special.cpp
extern const OpDef gamma, gammaln, digamma, trigamma, polygamma, erfinv, erfcinv, erfcx, gammainc,
    gammaincc, betaln, j0, j1, jv, i0, i1, iv, xlogx, xlogy0;
// compare.cpp
extern const OpDef isnan, isinf, invert, lt, le, gt, ge, eq, ne, bit_and, bit_or, bit_xor, shl, shr,
    switch_;
// complex.cpp
extern const OpDef view_as_real, view_as_complex, real, imag, pair;
// fft.cpp
extern const OpDef fft, rfft, irfft;
// reduce.cpp
extern const OpDef sum, prod, max, min, any, all, argmax, argmin;
// views.cpp
extern const OpDef dimshuffle, broadcast_to, reshape, rebroadcast, concatenate;
// slice.cpp
extern const OpDef slice, slice_set, slice_inc;
// sizes.cpp
extern const OpDef shape, make_vector;
// generate.cpp
extern const OpDef arange, random_uniform, random_normal, eye;
// index.cpp
extern const OpDef check_index, gather, scatter_add, scatter_set, nonzero;
// cumulative.cpp
extern const OpDef cumsum, cumprod, linear_recurrence;
// sort.cpp
extern const OpDef sort, argsort, argtopk, searchsorted;
// linalg.cpp
extern const OpDef dot, batched_dot, cholesky, solve;
// matrix_functions.cpp
extern const OpDef inverse, det, slogdet, expm, lstsq;
// decompose.cpp
extern const OpDef qr, qr_r, svd, svdvals, eig, eigh, eigvalsh;
// conv.cpp
extern const OpDef conv2d, conv2d_grad_input, conv2d_grad_weight, conv3d, conv3d_grad_input,
    conv3d_grad_weight;
// pool.cpp
extern const OpDef max_pool, max_unpool, max_pool_take, average_pool, average_pool_grad;
// softmax.cpp
extern const OpDef softmax, log_softmax, standardize;
// watch.cpp
extern const OpDef assert_, disconnected_grad, grad_clip, grad_scale, on_device, print,
    undefined_grad;
// loop.cpp
extern const OpDef loop;

}  // namespace snug::ops
