#pragma once
#include <string>
#include <vector>

#include "io/tensor_file.h"
#include "nn/layer.h"

namespace snug::nn {

/// What a file of parameters says of its model, so that it can be made again: one of nn/models.h.
struct ModelCard {
  std::string model;
  Dims input;                        // of one example
  std::vector<std::string> classes;  // their names, without '/'
  bool bytes = false;                // examples are images of bytes, divided by 255

  io::Metadata metadata() const;
};

struct SavedModel {
  LayerPtr model;
  ModelCard card;
};
/// The model of a .safetensors file that has a card, as `snug train` writes it.
SavedModel load_model(const std::string& path);

}  // namespace snug::nn
