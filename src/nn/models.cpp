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

LayerPtr make_logistic(const Dims&, std::int64_t classes) {
  return sequential({flatten(), logits(classes)});
}

LayerPtr make_mlp(const Dims&, std::int64_t classes) {
  return sequential({flatten(), dense(512, {.activation = "relu"}), dropout(0.2),
                     dense(512, {.activation = "relu"}), dropout(0.2), logits(classes)});
}

/// Logits of the elements of its input, flattened.
LayerPtr make_autoencoder(const Dims& input, std::int64_t) {
  Layers encoder{flatten()}, decoder;
  for (std::int64_t n : {1000, 500, 250}) encoder.emplace_back(dense(n, {.activation = "sigmoid"}));
  encoder.emplace_back(dense(30));
  for (std::int64_t n : {250, 500, 1000}) decoder.emplace_back(dense(n, {.activation = "sigmoid"}));
  decoder.emplace_back(dense(product(input)));
  return sequential(
      {{"encoder", sequential(std::move(encoder))}, {"decoder", sequential(std::move(decoder))}});
}

LayerPtr make_lenet(const Dims&, std::int64_t classes) {
  return sequential({conv2d(6, {5}, {.border = "half", .activation = "relu"}), max_pool({2}),
                     conv2d(16, {5}, {.activation = "relu"}), max_pool({2}), flatten(),
                     dense(120, {.activation = "relu"}), dense(84, {.activation = "relu"}),
                     logits(classes)});
}

/// 3x3 convolutions, and pooling.
void add_vgg_block(Layers& layers, std::int64_t filters, int count) {
  for (int k = 0; k < count; ++k)
    layers.emplace_back(conv2d(filters, {3}, {.border = "half", .activation = "relu"}));
  layers.emplace_back(max_pool({2}));
}

/// Blocks of (filters, convolutions), and dense layers with dropout.
LayerPtr make_vgg(const std::vector<std::pair<std::int64_t, int>>& blocks,
                  const std::vector<std::int64_t>& units, std::int64_t classes) {
  Layers features, classifier{flatten()};
  for (const auto& [filters, count] : blocks) add_vgg_block(features, filters, count);
  for (std::int64_t n : units) {
    classifier.emplace_back(dense(n, {.activation = "relu", .weight = init::he_normal()}));
    classifier.emplace_back(dropout(0.5));
  }
  classifier.emplace_back(logits(classes));
  return sequential({{"features", sequential(std::move(features))},
                     {"classifier", sequential(std::move(classifier))}});
}

LayerPtr make_vgg11(const Dims&, std::int64_t classes) {
  return make_vgg({{64, 1}, {128, 1}, {256, 2}, {512, 2}, {512, 2}}, {4096, 4096}, classes);
}
LayerPtr make_vgg16(const Dims&, std::int64_t classes) {
  return make_vgg({{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}, {4096, 4096}, classes);
}
LayerPtr make_vgg19(const Dims&, std::int64_t classes) {
  return make_vgg({{64, 2}, {128, 2}, {256, 4}, {512, 4}, {512, 4}}, {4096, 4096}, classes);
}
LayerPtr make_vgg_art(const Dims&, std::int64_t classes) {
  return make_vgg({{32, 2}, {64, 2}, {128, 2}, {256, 2}}, {512}, classes);
}
LayerPtr make_vgg_small(const Dims&, std::int64_t classes) {
  return make_vgg({{32, 2}, {64, 2}}, {128}, classes);
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

LayerPtr make_resnet18(const Dims&, std::int64_t classes) {
  return make_resnet({2, 2, 2, 2}, false, classes);
}
LayerPtr make_resnet50(const Dims&, std::int64_t classes) {
  return make_resnet({3, 4, 6, 3}, true, classes);
}

LayerPtr make_mobilenet(const Dims&, std::int64_t classes) {
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

LayerPtr make_unet(const Dims&, std::int64_t classes) {
  return sequential({{"levels", unet_level(64, 4)}, {"classifier", conv2d(classes, {1})}});
}

LayerPtr classes_of_pixels(std::int64_t classes) { return conv2d(classes, {1}); }

/// Images of twice the size.
LayerPtr enlarge(std::int64_t filters) {
  return conv_transpose2d(filters, {4}, {.stride = {2}, .pad = {1}, .bias = false});
}

/// VGG16 whose dense layers are convolutions; classes at 1/32 of the size are enlarged and summed
/// with those of the blocks before, at 1/16 and 1/8.
LayerPtr make_fcn8(const Dims&, std::int64_t classes) {
  Layers eighth, sixteenth, last;
  for (std::int64_t filters : {64, 128, 256}) add_vgg_block(eighth, filters, filters < 256 ? 2 : 3);
  add_vgg_block(sixteenth, 512, 3);
  add_vgg_block(last, 512, 3);
  for (std::int64_t kernel : {7, 1}) {
    last.emplace_back(conv2d(4096, {kernel}, {.border = "half", .activation = "relu"}));
    last.emplace_back(dropout(0.5));
  }
  last.emplace_back(classes_of_pixels(classes));
  last.emplace_back(enlarge(classes));
  sixteenth.emplace_back(residual(sequential(std::move(last)), classes_of_pixels(classes)));
  sixteenth.emplace_back(enlarge(classes));
  eighth.emplace_back(residual(sequential(std::move(sixteenth)), classes_of_pixels(classes)));
  eighth.emplace_back(conv_transpose2d(classes, {16}, {.stride = {8}, .pad = {4}, .bias = false}));
  return sequential(std::move(eighth));
}

/// The classes are found at half the size.
LayerPtr make_segnet(const Dims&, std::int64_t classes) {
  Layers encoder, decoder;
  for (std::int64_t filters : {64, 128, 256, 256}) {
    add_normed(encoder, filters, 3, 1, "relu");
    encoder.emplace_back(max_pool({2}));
  }
  add_normed(encoder, 512, 3, 1, "");
  for (std::int64_t filters : {256, 128, 64}) {
    decoder.emplace_back(upsample({2}));
    add_normed(decoder, filters, 3, 1, "");
  }
  decoder.emplace_back(conv2d(classes, {3}, {.border = "half"}));
  decoder.emplace_back(upsample({2}));
  return sequential(
      {{"encoder", sequential(std::move(encoder))}, {"decoder", sequential(std::move(decoder))}});
}

// ---- sequences: (time, features) ----

LayerPtr make_lstm(const Dims&, std::int64_t classes) {
  return sequential({lstm(128, {.unrolled = true}), logits(classes)});
}

/// Normalised before attention and before the dense layers, which add to their input.
LayerPtr transformer_block(std::int64_t features, std::int64_t heads) {
  return sequential(
      {{"attention", residual(sequential({layer_norm(), attention(heads)}))},
       {"dense", residual(sequential({layer_norm(), dense(4 * features, {.activation = "gelu"}),
                                      dense(features)}))}});
}

LayerPtr make_transformer(const Dims& input, std::int64_t classes) {
  Layers blocks;
  for (int k = 0; k < 12; ++k) blocks.emplace_back(transformer_block(input.back(), 12));
  blocks.emplace_back(layer_norm());
  LayerPtr pool = call([](const Expr& x, Pass&) { return mean(x, 1); }, "MeanOverTime");
  return sequential({{"blocks", sequential(std::move(blocks))},
                     {"pool", std::move(pool)},
                     {"classifier", logits(classes)}});
}

// ---- the table ----

struct Row {
  Info info;
  LayerPtr (*make)(const Dims& input, std::int64_t classes);
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows{
      {{"autoencoder", "dense layers 1000, 500, 250, 30 and back", {1, 28, 28}, 0},
       make_autoencoder},
      {{"fcn8", "FCN-8s on VGG-16: classes of pixels", {3, 416, 608}, 19}, make_fcn8},
      {{"lenet", "LeNet-5 with max pooling and relu", {1, 28, 28}, 10}, make_lenet},
      {{"logistic", "logistic regression", {1, 28, 28}, 10}, make_logistic},
      {{"lstm", "an LSTM of 128 units over the rows of an image, unrolled", {28, 28}, 10},
       make_lstm},
      {{"mlp", "two dense layers of 512 with dropout", {1, 28, 28}, 10}, make_mlp},
      {{"mobilenet", "MobileNet v1", {3, 224, 224}, 1000}, make_mobilenet},
      {{"resnet18", "ResNet-18", {3, 224, 224}, 1000}, make_resnet18},
      {{"resnet50", "ResNet-50", {3, 224, 224}, 1000}, make_resnet50},
      {{"segnet", "SegNet with one convolution per level: classes of pixels", {3, 416, 608}, 19},
       make_segnet},
      {{"transformer", "12 blocks of attention with 12 heads, normalised before", {128, 768}, 10},
       make_transformer},
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
  const Dims input = o.input.empty() ? row.info.input : o.input;
  const std::int64_t classes = o.classes == 0 ? row.info.classes : o.classes;
  if (row.info.classes > 0)
    require_positive(name.c_str(), "classes", classes);
  else if (classes != 0)
    fail(Fault::Value, fmt::format("{} gives its input again and has no classes", name));
  LayerPtr model = row.make(input, classes);
  Dims sizes = input;
  sizes.insert(0, -1);
  model->build(sizes, o.seed);
  return model;
}

}  // namespace snug::nn::models
