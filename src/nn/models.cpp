#include "nn/models.h"

#include <fmt/format.h>

#include "nn/layers.h"
#include "nn/options.h"

namespace snug::nn::models {
namespace {

using Layers = std::vector<Named>;

/// The last layer, small at first: all classes are equally likely.
LayerPtr logits(std::int64_t classes) {
  return dense(classes, {.weight = init::glorot_uniform(0.1)});
}

// ---- plain networks ----

LayerPtr make_mlp(std::int64_t classes) {
  return sequential({flatten(), dense(512, {.activation = "relu"}), dropout(0.2),
                     dense(512, {.activation = "relu"}), dropout(0.2), logits(classes)});
}

LayerPtr make_lenet(std::int64_t classes) {
  return sequential({conv2d(6, {5}, {.border = "half", .activation = "relu"}), max_pool({2}),
                     conv2d(16, {5}, {.activation = "relu"}), max_pool({2}), flatten(),
                     dense(120, {.activation = "relu"}), dense(84, {.activation = "relu"}),
                     logits(classes)});
}

/// Blocks of 3x3 convolutions with pooling after each, and dense layers with dropout.
LayerPtr make_vgg(const std::vector<std::vector<std::int64_t>>& blocks,
                  const std::vector<std::int64_t>& units, std::int64_t classes) {
  Layers features, classifier{flatten()};
  for (const auto& block : blocks) {
    for (std::int64_t filters : block)
      features.emplace_back(conv2d(filters, {3}, {.border = "half", .activation = "relu"}));
    features.emplace_back(max_pool({2}));
  }
  for (std::int64_t n : units) {
    classifier.emplace_back(dense(n, {.activation = "relu", .weight = init::he_normal()}));
    classifier.emplace_back(dropout(0.5));
  }
  classifier.emplace_back(logits(classes));
  return sequential({{"features", sequential(std::move(features))},
                     {"classifier", sequential(std::move(classifier))}});
}

LayerPtr make_vgg11(std::int64_t classes) {
  return make_vgg({{64}, {128}, {256, 256}, {512, 512}, {512, 512}}, {4096, 4096}, classes);
}
LayerPtr make_vgg16(std::int64_t classes) {
  return make_vgg({{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}},
                  {4096, 4096}, classes);
}
LayerPtr make_vgg19(std::int64_t classes) {
  return make_vgg(
      {{64, 64}, {128, 128}, {256, 256, 256, 256}, {512, 512, 512, 512}, {512, 512, 512, 512}},
      {4096, 4096}, classes);
}
LayerPtr make_vgg_art(std::int64_t classes) {
  return make_vgg({{32, 32}, {64, 64}, {128, 128}, {256, 256}}, {512}, classes);
}
LayerPtr make_vgg_small(std::int64_t classes) {
  return make_vgg({{32, 32}, {64, 64}}, {128}, classes);
}

// ---- networks with batch normalisation ----

/// Convolution without bias, batch norm, activation.
void add_normed(Layers& layers, std::int64_t filters, std::int64_t kernel, std::int64_t stride,
                const std::string& act, std::int64_t groups = 1) {
  layers.emplace_back(conv2d(
      filters, {kernel}, {.stride = {stride}, .border = "half", .groups = groups, .bias = false}));
  layers.emplace_back(batch_norm());
  if (!act.empty()) layers.emplace_back(activation(act));
}

LayerPtr residual_block(std::int64_t in, std::int64_t out, std::int64_t stride, bool bottleneck) {
  Layers body;
  if (bottleneck) {
    add_normed(body, out / 4, 1, 1, "relu");
    add_normed(body, out / 4, 3, stride, "relu");
    add_normed(body, out, 1, 1, "");
  } else {
    add_normed(body, out, 3, stride, "relu");
    add_normed(body, out, 3, 1, "");
  }
  Layers shortcut;
  if (in != out || stride != 1) add_normed(shortcut, out, 1, stride, "");
  return residual(sequential(std::move(body)),
                  shortcut.empty() ? nullptr : sequential(std::move(shortcut)), "relu");
}

LayerPtr make_resnet(const std::vector<int>& depths, bool bottleneck, std::int64_t classes) {
  Layers stem;
  add_normed(stem, 64, 7, 2, "relu");
  stem.emplace_back(max_pool({3}, {.stride = {2}, .pad = {1}}));
  Layers parts{{"stem", sequential(std::move(stem))}};
  std::int64_t in = 64, out = bottleneck ? 256 : 64;
  for (std::size_t stage = 0; stage < depths.size(); ++stage) {
    Layers blocks;
    for (int k = 0; k < depths[stage]; ++k) {
      blocks.emplace_back(residual_block(in, out, stage > 0 && k == 0 ? 2 : 1, bottleneck));
      in = out;
    }
    parts.emplace_back(fmt::format("stage{}", stage + 1), sequential(std::move(blocks)));
    out *= 2;
  }
  parts.emplace_back("pool", global_average_pool());
  parts.emplace_back("classifier", logits(classes));
  return sequential(std::move(parts));
}

LayerPtr make_resnet18(std::int64_t classes) { return make_resnet({2, 2, 2, 2}, false, classes); }
LayerPtr make_resnet50(std::int64_t classes) { return make_resnet({3, 4, 6, 3}, true, classes); }

LayerPtr make_mobilenet(std::int64_t classes) {
  Layers features;
  add_normed(features, 32, 3, 2, "relu6");
  std::int64_t in = 32;
  const std::pair<std::int64_t, std::int64_t> kBlocks[] = {
      // filters, stride
      {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2},  {512, 1},
      {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1},
  };
  for (const auto& [out, stride] : kBlocks) {
    add_normed(features, in, 3, stride, "relu6", in);  // each channel alone
    add_normed(features, out, 1, 1, "relu6");
    in = out;
  }
  return sequential({{"features", sequential(std::move(features))},
                     {"pool", global_average_pool()},
                     {"classifier", sequential({dropout(0.001), logits(classes)})}});
}

// ---- segmentation ----

void add_two_convolutions(Layers& layers, std::int64_t filters) {
  for (int k = 0; k < 2; ++k)
    layers.emplace_back(conv2d(filters, {3}, {.border = "half", .activation = "relu"}));
}

/// Two convolutions; then, unless it is the lowest level, what the level below makes of half the
/// size joined with them, and two more.
LayerPtr unet_level(std::int64_t filters, int below) {
  Layers layers;
  add_two_convolutions(layers, filters);
  if (below > 0) {
    layers.emplace_back(skip(sequential({max_pool({2}), unet_level(2 * filters, below - 1),
                                         conv_transpose2d(filters, {2}, {.stride = {2}})})));
    add_two_convolutions(layers, filters);
  }
  return sequential(std::move(layers));
}

LayerPtr make_unet(std::int64_t classes) {
  return sequential({{"levels", unet_level(64, 4)}, {"classifier", conv2d(classes, {1})}});
}

// ---- the table ----

struct Row {
  Info info;
  LayerPtr (*make)(std::int64_t classes);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {{"lenet", "LeNet-5 with max pooling and relu", {1, 28, 28}, 10}, make_lenet},
      {{"mlp", "two dense layers of 512 with dropout", {1, 28, 28}, 10}, make_mlp},
      {{"mobilenet", "MobileNet v1", {3, 224, 224}, 1000}, make_mobilenet},
      {{"resnet18", "ResNet-18", {3, 224, 224}, 1000}, make_resnet18},
      {{"resnet50", "ResNet-50", {3, 224, 224}, 1000}, make_resnet50},
      {{"unet", "U-Net with borders kept: classes of pixels", {1, 256, 256}, 2}, make_unet},
      {{"vgg-art", "VGG with four narrow blocks, for paintings by artist", {3, 116, 116}, 23},
       make_vgg_art},
      {{"vgg-small", "VGG with two narrow blocks, for small images", {1, 28, 28}, 10},
       make_vgg_small},
      {{"vgg11", "VGG with 11 layers", {3, 224, 224}, 1000}, make_vgg11},
      {{"vgg16", "VGG with 16 layers", {3, 224, 224}, 1000}, make_vgg16},
      {{"vgg19", "VGG with 19 layers", {3, 224, 224}, 1000}, make_vgg19},
  };
  return kRows;
}

const Row& row_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Row& row : rows()) {
    if (row.info.name == name) return row;
    names.push_back(row.info.name);
  }
  const std::string near = nearest(name, names);
  fail(Fault::Value, fmt::format("there is no model '{}'", name),
       near.empty() ? fmt::format("there are {}", fmt::join(names, ", "))
                    : fmt::format("did you mean '{}'?", near));
}

}  // namespace

std::vector<Info> all() {
  std::vector<Info> infos;
  for (const Row& row : rows()) infos.push_back(row.info);
  return infos;
}

const Info& info(const std::string& name) { return row_of(name).info; }

LayerPtr make(const std::string& name, const Options& o) {
  const Row& row = row_of(name);
  Dims sizes = o.input.empty() ? row.info.input : o.input;
  sizes.insert(0, -1);
  const std::int64_t classes = o.classes == 0 ? row.info.classes : o.classes;
  require_positive(name.c_str(), "classes", classes);
  LayerPtr model = row.make(classes);
  model->build(sizes, o.seed);
  return model;
}

}  // namespace snug::nn::models
