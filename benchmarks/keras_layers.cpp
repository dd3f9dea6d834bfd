#include "keras_layers.h"

#include <algorithm>
#include <array>

namespace keras {

int Network::add(std::vector<int> inputs, double cost, Shape s) {
  nodes_.push_back({std::move(inputs), s.rows, s.columns, s.channels, cost});
  return static_cast<int>(nodes_.size()) - 1;
}

int Network::conv(int x, std::int64_t filters, std::int64_t kernel, std::int64_t stride, bool same,
                  bool bias) {
  const Node& in = at(x);
  const std::int64_t less = same ? 1 : kernel;
  Shape out{(in.rows - less) / stride + 1, (in.columns - less) / stride + 1, filters};
  const std::int64_t each = kernel * kernel * in.channels;
  parameters += each * filters + (bias ? filters : 0);
  return add({x}, static_cast<double>(each * out.rows * out.columns * filters), out);
}

int Network::depthwise(int x, std::int64_t kernel, std::int64_t stride, bool same) {
  const Node& in = at(x);
  const std::int64_t less = same ? 1 : kernel;
  Shape out{(in.rows - less) / stride + 1, (in.columns - less) / stride + 1, in.channels};
  parameters += kernel * kernel * in.channels;
  return add({x}, static_cast<double>(kernel * kernel * out.rows * out.columns * out.channels),
             out);
}

int Network::conv_transpose(int x, std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
  const Node& in = at(x);
  Shape out{(in.rows - 1) * stride + kernel, (in.columns - 1) * stride + kernel, filters};
  parameters += kernel * kernel * in.channels * filters;
  return add({x}, static_cast<double>(in.channels * out.rows * out.columns * filters), out);
}

int Network::batch_norm(int x) {
  parameters += 4 * at(x).channels;
  return add({x}, 4.0 * static_cast<double>(at(x).elements()), shape(x));
}

int Network::max_pool(int x, std::int64_t kernel, std::int64_t stride) {
  const Node& in = at(x);
  return add({x}, 0,
             {(in.rows - kernel) / stride + 1, (in.columns - kernel) / stride + 1, in.channels});
}

int Network::pad(int x, std::int64_t before, std::int64_t after) {
  const Node& in = at(x);
  return add({x}, 0, {in.rows + before + after, in.columns + before + after, in.channels});
}

int Network::dense(int x, std::int64_t units) {
  const std::int64_t inputs = at(x).elements();
  parameters += inputs * units + units;
  return add({x}, static_cast<double>(inputs * units), {1, 1, units});
}

int Network::upsample(int x) {
  Shape out{2 * at(x).rows, 2 * at(x).columns, at(x).channels};
  return add({x}, static_cast<double>(out.rows * out.columns * out.channels), out);
}

double Network::forward_cost() const {
  double sum = 0;
  for (const Node& n : nodes_) sum += n.cost;
  return sum;
}

snug::RecomputeProblem Network::training() const {
  snug::RecomputeProblem p;
  const auto n = static_cast<std::uint32_t>(nodes_.size());
  const std::uint32_t loss = n;
  auto backward = [&](std::uint32_t i) { return 2 * n - i; };
  std::vector<std::vector<std::uint32_t>> consumers(n);
  p.values.resize(2 * n + 1);
  p.tasks.resize(2 * n + 1);
  p.values[loss].bytes = 4;
  p.tasks[loss].reads = {n - 1};
  p.tasks[loss].writes = {loss};
  for (std::uint32_t i = 0; i < n; ++i) {
    p.values[i].bytes = p.values[backward(i)].bytes =
        4 * static_cast<std::uint64_t>(nodes_[i].elements());
    p.tasks[i].writes = {i};
    p.tasks[i].cost = nodes_[i].cost;
    for (int x : nodes_[i].inputs)
      if (x >= 0) {
        p.tasks[i].reads.push_back(static_cast<std::uint32_t>(x));
        consumers[static_cast<std::size_t>(x)].push_back(i);
      }
  }
  for (std::uint32_t i = 0; i < n; ++i) {
    auto& task = p.tasks[backward(i)];
    task.cost = 2 * nodes_[i].cost;
    task.writes = {backward(i)};
    task.reads = {i};
    for (std::uint32_t c : consumers[i]) {
      task.reads.push_back(c);
      task.reads.push_back(backward(c));
    }
    if (consumers[i].empty()) task.reads.push_back(loss);
  }
  return p;
}

namespace {

int vgg_block(Network& m, int x, std::int64_t filters, int count) {
  for (int k = 0; k < count; ++k) x = m.conv(x, filters, 3);
  return m.max_pool(x, 2, 2);
}

Network vgg19() {
  Network m(224, 224);
  int x = vgg_block(m, -1, 64, 2);
  x = vgg_block(m, x, 128, 2);
  x = vgg_block(m, x, 256, 4);
  x = vgg_block(m, x, 512, 4);
  x = m.reshape(vgg_block(m, x, 512, 4));
  m.dense(m.dense(m.dense(x, 4096), 4096), 1000);
  return m;
}

std::array<int, 5> vgg16_encoder(Network& m, int levels) {
  constexpr std::array<std::pair<std::int64_t, int>, 5> kBlocks{
      {{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}};
  std::array<int, 5> f{};
  int x = -1;
  for (int k = 0; k < levels; ++k) {
    auto [filters, count] = kBlocks[static_cast<std::size_t>(k)];
    x = f[static_cast<std::size_t>(k)] = vgg_block(m, x, filters, count);
  }
  return f;
}

int padded_conv(Network& m, int x, std::int64_t filters) {
  return m.batch_norm(m.conv(m.pad(x, 1, 1), filters, 3, 1, false));
}

void classify_pixels(Network& m, int x) { m.activation(m.same_size(x)); }

constexpr std::int64_t kRows = 416, kColumns = 608, kClasses = 19;

Network unet() {
  Network m(kRows, kColumns);
  auto f = vgg16_encoder(m, 4);
  int x = padded_conv(m, f[3], 512);
  x = padded_conv(m, m.concat(m.upsample(x), f[2]), 256);
  x = padded_conv(m, m.concat(m.upsample(x), f[1]), 128);
  x = padded_conv(m, m.concat(m.upsample(x), f[0]), 64);
  classify_pixels(m, m.conv(x, kClasses, 3));
  return m;
}

/// The larger one of two images loses rows and columns.
void crop(Network& m, int& x, int& y) {
  auto cut = [&](bool columns) {
    std::int64_t a = columns ? m.at(x).columns : m.at(x).rows;
    std::int64_t b = columns ? m.at(y).columns : m.at(y).rows;
    int& larger = a > b ? x : y;  // also where nothing is to do
    std::int64_t rows = m.at(larger).rows, cols = m.at(larger).columns;
    larger = m.crop(larger, columns ? rows : std::min(a, b), columns ? std::min(a, b) : cols);
  };
  cut(true);
  cut(false);
}

Network fcn8() {
  Network m(kRows, kColumns);
  auto f = vgg16_encoder(m, 5);
  int x = m.same_size(m.conv(f[4], 4096, 7));
  x = m.same_size(m.conv(x, 4096, 1));
  x = m.conv_transpose(m.conv(x, kClasses, 1), kClasses, 4, 2);
  int y = m.conv(f[3], kClasses, 1);
  crop(m, x, y);
  x = m.conv_transpose(m.sum(x, y), kClasses, 4, 2);
  y = m.conv(f[2], kClasses, 1);
  crop(m, y, x);
  x = m.conv_transpose(m.sum(y, x), kClasses, 16, 8);
  classify_pixels(m, x);
  return m;
}

Network segnet() {
  Network m(kRows, kColumns);
  int x = -1;
  for (std::int64_t filters : {64, 128, 256, 256})
    x = m.max_pool(m.activation(padded_conv(m, x, filters)), 2, 2);
  x = padded_conv(m, x, 512);
  for (std::int64_t filters : {256, 128, 64}) x = padded_conv(m, m.upsample(x), filters);
  classify_pixels(m, m.conv(x, kClasses, 3));
  return m;
}

Network resnet50() {
  Network m(224, 224);
  auto normed = [&](int x, std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
    return m.batch_norm(m.conv(x, filters, kernel, stride));
  };
  int x = m.activation(m.batch_norm(m.conv(m.pad(-1, 3, 3), 64, 7, 2, false)));
  x = m.max_pool(m.pad(x, 1, 1), 3, 2);
  constexpr std::array<int, 4> kDepths{3, 4, 6, 3};
  std::int64_t filters = 64;
  for (std::size_t stage = 0; stage < kDepths.size(); ++stage, filters *= 2)
    for (int k = 0; k < kDepths[stage]; ++k) {
      std::int64_t stride = stage > 0 && k == 0 ? 2 : 1;
      const int shortcut = k == 0 ? normed(x, 4 * filters, 1, stride) : x;
      int y = m.activation(normed(x, filters, 1, stride));
      y = m.activation(normed(y, filters, 3, 1));
      y = normed(y, 4 * filters, 1, 1);
      x = m.activation(m.sum(y, shortcut));
    }
  m.dense(m.global_pool(x), 1000);
  return m;
}

Network mobilenet() {
  Network m(224, 224);
  int x = m.activation(m.batch_norm(m.conv(m.pad(-1, 0, 1), 32, 3, 2, false, false)));
  constexpr std::array<std::pair<std::int64_t, std::int64_t>, 13> kBlocks{{{64, 1},
                                                                           {128, 2},
                                                                           {128, 1},
                                                                           {256, 2},
                                                                           {256, 1},
                                                                           {512, 2},
                                                                           {512, 1},
                                                                           {512, 1},
                                                                           {512, 1},
                                                                           {512, 1},
                                                                           {512, 1},
                                                                           {1024, 2},
                                                                           {1024, 1}}};
  for (auto [filters, stride] : kBlocks) {
    x = stride == 1 ? m.depthwise(x, 3, 1, true) : m.depthwise(m.pad(x, 0, 1), 3, 2, false);
    x = m.activation(m.batch_norm(x));
    x = m.activation(m.batch_norm(m.conv(x, filters, 1, 1, true, false)));
  }
  x = m.same_size(m.same_size(m.global_pool(x)));  // reshape, dropout
  m.activation(m.same_size(m.conv(x, 1000, 1)));
  return m;
}

}  // namespace

std::vector<Named> networks() {
  return {{"VGG19", vgg19()},   {"U-Net", unet()},        {"FCN8", fcn8()},
          {"SegNet", segnet()}, {"ResNet50", resnet50()}, {"MobileNet", mobilenet()}};
}

}  // namespace keras
