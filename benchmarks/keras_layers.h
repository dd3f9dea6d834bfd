#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/recompute.h"

/// Networks as Checkmate's artifact sees them: a node is a Keras layer with an output and a cost in
/// multiply-accumulates, for one image.
namespace keras {

struct Node {
  std::vector<int> inputs;  // nodes; -1: the network's input, which costs nothing
  std::int64_t rows, columns, channels;
  double cost;
  std::int64_t elements() const { return rows * columns * channels; }
};

class Network {
 public:
  Network(std::int64_t rows, std::int64_t columns) : input_{{}, rows, columns, 3, 0} {}

  /// The layers give the number of their node; x is the node they work on.
  int conv(int x, std::int64_t filters, std::int64_t kernel, std::int64_t stride = 1,
           bool same = true, bool bias = true);
  int depthwise(int x, std::int64_t kernel, std::int64_t stride, bool same);
  int conv_transpose(int x, std::int64_t filters, std::int64_t kernel, std::int64_t stride);
  int batch_norm(int x);
  int activation(int x) { return add({x}, at(x).elements(), shape(x)); }
  int max_pool(int x, std::int64_t kernel, std::int64_t stride);
  int global_pool(int x) { return add({x}, 0, {1, 1, at(x).channels}); }
  int pad(int x, std::int64_t before, std::int64_t after);
  int crop(int x, std::int64_t rows, std::int64_t columns) {
    return add({x}, 0, {rows, columns, at(x).channels});
  }
  int reshape(int x) { return add({x}, 0, {1, 1, at(x).elements()}); }
  int same_size(int x) { return add({x}, 0, shape(x)); }  // dropout, reshapes of images
  int dense(int x, std::int64_t units);
  int upsample(int x);
  int sum(int x, int y) {
    return add({x, y}, 2.0 * static_cast<double>(at(x).elements()), shape(x));
  }
  int concat(int x, int y) {
    return add({x, y}, 0, {at(x).rows, at(x).columns, at(x).channels + at(y).channels});
  }

  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& at(int x) const { return x < 0 ? input_ : nodes_[static_cast<std::size_t>(x)]; }
  std::int64_t parameters = 0;

  double forward_cost() const;
  /// Checkmate's graph of a training step: bwd(i) has the size of i, reads fwd(i) and both of i's
  /// consumers, and costs twice as much.
  snug::RecomputeProblem training() const;

 private:
  struct Shape {
    std::int64_t rows, columns, channels;
  };
  Shape shape(int x) const { return {at(x).rows, at(x).columns, at(x).channels}; }
  int add(std::vector<int> inputs, double cost, Shape s);

  Node input_;
  std::vector<Node> nodes_;
};

struct Named {
  std::string name;
  Network network;
};
/// VGG19, U-Net, FCN8, SegNet, ResNet50, MobileNet.
std::vector<Named> networks();

}  // namespace keras
