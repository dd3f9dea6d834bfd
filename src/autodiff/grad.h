#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expr/expr.h"

namespace snug {

enum class Disconnected : std::uint8_t { Raise, Warn, Ignore };

struct GradOptions {
  std::vector<Expr> consider_constant = {};  // no gradient flows through them
  /// The whole gradients of these expressions; with `add_known` a part, to which is added what else
  /// arrives.
  std::vector<std::pair<Expr, Expr>> known_grads = {};
  bool add_known = false;
  Disconnected disconnected_inputs = Disconnected::Raise;
  bool zero_if_disconnected = true;  // else a null expression
  /// If given, a gradient that does not exist is a null expression with the reason here, one text
  /// per variable ("" where it exists). Otherwise it is an error.
  std::vector<std::string>* undefined = nullptr;
};

/// The gradients of a 0-d real `cost` (or null with known_grads) by each of `wrt`; those of an
/// integer cost are 0, as those of all that is made of integers. A gradient has the dtype, shape
/// and broadcastable axes of its variable; that of an integer variable is a float.
std::vector<Expr> gradients(const Expr& cost, const std::vector<Expr>& wrt,
                            const GradOptions& options = {});

/// The gradients of `cost` by a list of variables.
inline std::vector<Expr> grad(const Arg& cost, const std::vector<Expr>& wrt,
                              const GradOptions& options = {}) {
  OriginScope scope(cost.where.file_name(), static_cast<int>(cost.where.line()),
                    cost.where.function_name());
  return gradients(cost.expr, wrt, options);
}

/// By one variable.
inline Expr grad(const Arg& cost, const Expr& wrt) { return grad(cost, std::vector<Expr>{wrt})[0]; }

/// By several: `auto [gW, gb] = grad(loss, W, b);`
template <class... More>
requires(sizeof...(More) > 0 &&
         (std::is_convertible_v<More, Expr> &&
          ...)) std::array<Expr, 1 + sizeof...(More)> grad(const Arg& cost, const Expr& first,
                                                           const More&... more) {
  std::vector<Expr> all = grad(cost, std::vector<Expr>{first, Expr(more)...});
  std::array<Expr, 1 + sizeof...(More)> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = all[i];
  return out;
}

}  // namespace snug
