#pragma once
#include "ops/functions.h"

/// Activations and losses of neural networks. Integers become floats.
namespace snug {

// ---- activations ----

Expr softmax(const Arg& x, std::int64_t axis = -1);
/// Integers `y` as int64, checked while running: an error of `what` names the first that is none of
/// `classes` classes, and its row.
Expr checked_labels(const char* what, const Arg& y, const Expr& classes);
Expr log_softmax(const Arg& x, std::int64_t axis = -1);
Expr relu(const Arg& x);                          // nan stays
Expr leaky_relu(const Arg& x, const Arg& alpha);  // alpha * x where x is not positive
Expr elu(const Arg& x, const Arg& alpha = 1.0);   // alpha * (exp(x) - 1) where x is not positive
Expr selu(const Arg& x);          // elu, scaled so that mean 0 and variance 1 stay so
Expr softsign(const Arg& x);      // x / (1 + |x|)
Expr hard_sigmoid(const Arg& x);  // 0.2 * x + 0.5, between 0 and 1
/// sigmoid within 0.03, of a quotient and straight lines.
Expr ultra_fast_sigmoid(const Arg& x);

// ---- losses ----

/// -log of the probability of the true class: `y` has class numbers, or distributions over the last
/// axis.
Expr categorical_crossentropy(const Arg& p, const Arg& y);
Expr binary_crossentropy(const Arg& p, const Arg& y);
/// binary_crossentropy(sigmoid(x), y), exact for large |x|.
Expr sigmoid_binary_crossentropy(const Arg& x, const Arg& y);

struct SoftmaxLoss {
  Expr loss;           // one number per row
  Expr probabilities;  // of all classes
};
/// The cross-entropy of softmax(x) with the class numbers y.
SoftmaxLoss crossentropy_softmax_1hot(const Arg& x, const Arg& y);

/// The gradients of softmax by its argument, of crossentropy_softmax_1hot by x, and of
/// categorical_crossentropy by p, as functions of what these gave.
Expr softmax_grad(const Arg& dy, const Arg& probabilities);
Expr crossentropy_softmax_1hot_dx(const Arg& dloss, const Arg& probabilities, const Arg& y);
Expr crossentropy_categorical_1hot_grad(const Arg& dloss, const Arg& p, const Arg& y);

// ---- layers ----

/// The weights and biases of a softmax over classes and of one over the outputs of every class:
/// (features, classes), (classes), (classes, features, outputs), (classes, outputs).
struct HierarchicalWeights {
  Expr w1, b1, w2, b2;
};
/// The probability of every output, in the order of the classes. The last `outputs` of the last
/// classes may be left over; they are dropped.
Expr h_softmax(const Arg& x, const HierarchicalWeights& weights, const Arg& outputs);
/// The probability of one output per row of x; computes the class it belongs to alone.
Expr h_softmax_of(const Arg& x, const HierarchicalWeights& weights, const Arg& target);

/// The matrix with one column of `value` (0-d) in front.
Expr prepend_scalar_to_each_row(const Arg& value, const Arg& matrix);

}  // namespace snug
