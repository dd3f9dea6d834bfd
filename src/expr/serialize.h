#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expr/expr.h"

namespace snug {

/// What stays outside of the bytes of a graph and is handed over beside them.
struct SaveOptions {
  /// Expressions that the reader has by itself: the bytes only hold their place in `outside`.
  std::function<bool(const Expr&)> is_outside = {};
  std::vector<Expr>* outside = nullptr;  // gets them
  /// If given, gets the values of the shared variables, and the bytes do not have them.
  std::vector<Array>* values = nullptr;
  /// If given, gets every expression in the order of the bytes; `load_graph` gives the same order.
  std::vector<Expr>* variables = nullptr;
};

/// Expressions with all they reach as bytes: inputs, constants, shared variables with their values
/// and default updates, loops with their bodies, names and the places in the user's code. There is
/// no code in it. No recursion: graphs may be 100,000 deep.
std::string save_graph(std::span<const Expr> roots, const SaveOptions& options = {});

struct LoadOptions {
  std::span<const Expr> outside = {};  // as many as were saved, of the same types
  std::span<const Array> values = {};  // of the shared variables, if they were saved apart
  std::vector<Expr>* variables = nullptr;
};

/// The roots again, made of new nodes. Bytes that are damaged, cut, or of another version give a
/// Value error: their hash is checked, sizes are checked before memory is taken, and every node is
/// made by the rule of its op.
std::vector<Expr> load_graph(std::string_view bytes, const LoadOptions& options = {});

}  // namespace snug
