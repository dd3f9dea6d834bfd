#pragma once
#include <string>
#include <vector>

#include "nn/layer.h"

namespace snug::nn {

/// What one layer without inner layers costs for the input of a summary.
struct LayerSummary {
  std::string name;  // "features.0"
  std::string kind;  // "Conv2d(64, 3x3, relu)"
  Dims output;
  std::int64_t parameters = 0, trainable = 0;  // numbers; a layer that occurs again has none
  bool frozen = false;
  double flops = 0;  // 2 per multiply-add of products and convolutions; others are not counted
  std::int64_t parameter_bytes = 0, activation_bytes = 0;  // activations: of the output
};

struct Summary {
  Dims input;
  std::vector<LayerSummary> layers;
  LayerSummary total;
  std::string describe() const;  // an aligned table
  std::string json() const;
};

/// Of a forward pass for inputs of these sizes, batch included. Makes the parameters if there are
/// none yet.
Summary summarise(Layer& model, const Dims& input, DType dtype = default_float(),
                  Here where = Here::current());

}  // namespace snug::nn
