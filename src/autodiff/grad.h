#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "expr/expr.h"

namespace snug {

enum class Disconnected : std::uint8_t { Raise, Warn, Ignore };

struct GradOptions {
  std::vector<Expr> consider_constant = {};
  std::vector<std::pair<Expr, Expr>> known_grads = {};
  Disconnected disconnected_inputs = Disconnected::Raise;
  bool zero_if_disconnected = true;  // else a null expression
};

/// The gradients of a 0-d float `cost` (or null with known_grads) by each of `wrt`.
std::vector<Expr> gradients(const Expr& cost, const std::vector<Expr>& wrt,
                            const GradOptions& options = {});

}  // namespace snug
