#pragma once
#include "snug.h"

namespace snug {

/// The loss of a training pass of a model over images of any batch, and its arguments.
struct Classifier {
  Expr x, y, loss;

  Classifier(nn::Layer& model, const Dims& images)
      : x(input({DType::F32, Dims(images.size(), -1), 0}, "x")), y(ivector("y")) {
    Dims one = images;
    one[0] = -1;
    model.build(one, 7);
    nn::Pass pass{.training = true, .seed = 7};
    loss = nn::cross_entropy(model(x, pass), y);
  }
};

}  // namespace snug
