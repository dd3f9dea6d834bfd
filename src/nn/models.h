#pragma once
#include <string>
#include <vector>

#include "nn/layer.h"

/// Reference models by name, with their parameters made (as recipes: no memory is used yet). They
/// give logits.
namespace snug::nn::models {

struct Info {
  std::string name, doc;
  Dims input;  // of one example, as published: (channels, rows, columns) or (time, features)
  std::int64_t classes;  // as published; 0: an autoencoder, which gives its input, flattened
};
/// By name.
std::vector<Info> all();
const Info& info(const std::string& name);

struct Options {
  Dims input = {};           // of one example; empty: as published
  std::int64_t classes = 0;  // 0: as published
  std::uint64_t seed = kDefaultSeed;
};
LayerPtr make(const std::string& name, const Options& options = {});

}  // namespace snug::nn::models
