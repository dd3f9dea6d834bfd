// Activations and losses (ops/network_functions.h).
#include "arguments.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;

HierarchicalWeights weights_of(handle w1, handle b1, handle w2, handle b2) {
  return {as_tensor(w1, "h_softmax"), as_tensor(b1, "h_softmax"), as_tensor(w2, "h_softmax"),
          as_tensor(b2, "h_softmax")};
}

void bind_losses(nb::module_& m) {
  define(m, "categorical_crossentropy", categorical_crossentropy, tensor_arg("coding_dist"),
         tensor_arg("true_dist"),
         "-log of the probability of the true class. `true_dist` has class numbers, or "
         "distributions\nover the last axis.");
  define(m, "binary_crossentropy", binary_crossentropy, tensor_arg("output"), tensor_arg("target"),
         "-(target * log(output) + (1 - target) * log(1 - output))");
  define(m, "sigmoid_binary_crossentropy", sigmoid_binary_crossentropy, tensor_arg("output"),
         tensor_arg("target"),
         "binary_crossentropy(sigmoid(output), target), exact for large numbers.");
  m.def(
      "crossentropy_softmax_1hot",
      [](handle x, handle y) {
        UserLine line;
        constexpr const char* kName = "crossentropy_softmax_1hot";
        SoftmaxLoss r = crossentropy_softmax_1hot(as_tensor(x, kName), as_tensor(y, kName));
        return result_of(std::vector<Expr>{r.loss, r.probabilities});
      },
      tensor_arg("x"), tensor_arg("y_idx"),
      "The cross-entropy of softmax(x) with the class numbers y_idx, and softmax(x).");
  define(m, "softmax_grad", softmax_grad, tensor_arg("dy"), tensor_arg("sm"),
         "The gradient of softmax by its argument; sm is what it gave.");
  define(m, "crossentropy_softmax_1hot_dx", crossentropy_softmax_1hot_dx, tensor_arg("dy"),
         tensor_arg("sm"), tensor_arg("y_idx"),
         "The gradient of crossentropy_softmax_1hot by x; sm is the softmax of x.");
  define(m, "crossentropy_categorical_1hot_grad", crossentropy_categorical_1hot_grad,
         tensor_arg("g_y"), tensor_arg("coding_dist"), tensor_arg("true_one_of_n"),
         "The gradient of the cross-entropy by the probabilities.");
}

}  // namespace

void bind_networks(nb::module_& m) {
  define(m, "softmax", softmax, tensor_arg("x"), arg("axis") = -1);
  define(m, "log_softmax", log_softmax, tensor_arg("x"), arg("axis") = -1);
  define(m, "relu", relu, tensor_arg("x"), "x where it is positive, else 0.");
  define(m, "leaky_relu", leaky_relu, tensor_arg("x"), tensor_arg("alpha"),
         "x where it is positive, else alpha * x.");
  define(m, "elu", elu, tensor_arg("x"), tensor_arg("alpha"),
         "x where it is positive, else alpha * (exp(x) - 1).");
  define(m, "selu", selu, tensor_arg("x"), "elu, scaled so that mean 0 and variance 1 stay so.");
  define(m, "softsign", softsign, tensor_arg("x"), "x / (1 + |x|)");
  define(m, "hard_sigmoid", hard_sigmoid, tensor_arg("x"), "0.2 * x + 0.5, between 0 and 1.");
  define(m, "ultra_fast_sigmoid", ultra_fast_sigmoid, tensor_arg("x"),
         "sigmoid within 0.03, of a quotient and straight lines.");
  bind_losses(m);
  m.def(
      "h_softmax",
      [](handle x, handle w1, handle b1, handle w2, handle b2, handle outputs) {
        UserLine line;
        return tensor_of(h_softmax(as_tensor(x, "h_softmax"), weights_of(w1, b1, w2, b2),
                                   as_tensor(outputs, "h_softmax")));
      },
      tensor_arg("x"), tensor_arg("W1"), tensor_arg("b1"), tensor_arg("W2"), tensor_arg("b2"),
      tensor_arg("outputs"), "The probability of every output of a softmax in two levels.");
  m.def(
      "h_softmax_of",
      [](handle x, handle w1, handle b1, handle w2, handle b2, handle target) {
        UserLine line;
        return tensor_of(h_softmax_of(as_tensor(x, "h_softmax"), weights_of(w1, b1, w2, b2),
                                      as_tensor(target, "h_softmax")));
      },
      tensor_arg("x"), tensor_arg("W1"), tensor_arg("b1"), tensor_arg("W2"), tensor_arg("b2"),
      tensor_arg("target"), "The probability of one output per row of x.");
  define(m, "prepend_scalar_to_each_row", prepend_scalar_to_each_row, tensor_arg("val"),
         tensor_arg("mat"), "The matrix with one column of val in front.");
}

}  // namespace snug::python
