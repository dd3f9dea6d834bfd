#pragma once
#include <algorithm>
#include <array>
#include <concepts>

#include "api/function.h"
#include "autodiff/grad.h"
#include "ops/functions.h"

/// Snug for C++ programs: expressions, gradients, compiled functions.
///
///   auto x = matrix("x"); auto W = shared(zeros({784, 10}), "W");
///   auto loss = mean(sqr(dot(x, W)));
///   auto [gW] = grad(loss, W);
///   auto train = function({x}, loss, {.updates = {{W, W - 0.1f * gW}}});
///   float l = train(images).item<float>();
namespace snug {

/// The gradients of a 0-d `loss`, one per variable: auto [gW, gb] = grad(loss, W, b).
template <std::convertible_to<Expr>... Wrt>
std::array<Expr, sizeof...(Wrt)> grad(const Expr& loss, const Wrt&... wrt) {
  std::vector<Expr> found = gradients(loss, {Expr(wrt)...});
  std::array<Expr, sizeof...(Wrt)> result;
  std::move(found.begin(), found.end(), result.begin());
  return result;
}

}  // namespace snug
