#pragma once
#include <string>
#include <vector>

#include "nn/layer.h"

/// Pruning by magnitude: the smallest weights become 0 and stay so through training.
///
///   nn::prune(*model, 0.8);
///   auto train = function({x, y}, loss, {.updates = nn::masked(updates, *model)});
///   nn::prune(*model, 0.9);  // `train` goes on with fewer weights
namespace snug::nn {

struct PruneReport {
  struct Row {
    std::string name;
    std::int64_t size = 0, zeros = 0;
  };
  std::vector<Row> rows;
  double sparsity() const;       // the part of all these weights that is 0
  std::string describe() const;  // an aligned table
};

/// Sets the smallest `fraction` of every weight (trainable, at least 2 dimensions) to 0, or with
/// `together` the smallest of all of them, and masks them.
PruneReport prune(Layer& model, double fraction, bool together = false);
/// The updates with the new values of masked parameters kept at 0 where the mask is.
Updates masked(const Updates& updates, Layer& model);
/// How many weights are 0 now.
PruneReport sparsity(Layer& model);

}  // namespace snug::nn
