#pragma once
#include <array>

#include "nn/layer.h"

/// The layers there are. Images are (batch, channels, rows, columns), sequences (batch, time,
/// features). An empty activation is none.
namespace snug::nn {

// ---- dense ----

struct DenseOptions {
  std::string activation = {};
  bool bias = true;
  std::int64_t in = 0;  // size of the last axis of the input; 0: taken from it
  Initialiser weight = init::glorot_uniform(), bias_start = init::zeros();
};
/// activation(x weight + bias) over the last axis; weight is (in, units).
LayerPtr dense(std::int64_t units, const DenseOptions& options = {});

struct EmbeddingOptions {
  Initialiser weight = init::normal(0, 1);
};
/// Row x[...] of a matrix (count, size) for every integer of the input.
LayerPtr embedding(std::int64_t count, std::int64_t size, const EmbeddingOptions& options = {});

// ---- without parameters ----

/// "relu", "tanh", ...; an error names those there are.
LayerPtr activation(const std::string& name);
/// The function of that name; "" is the identity.
using Activation = Expr (*)(const Expr& x);
Activation activation_function(const std::string& name);
std::vector<std::string> activation_names();
/// (batch, ...) -> (batch, all others)
LayerPtr flatten();
/// (batch, ...) -> (batch, sizes); one size may be -1.
LayerPtr reshape(const std::vector<std::int64_t>& sizes);
/// In training sets elements to 0 with probability p and scales the others by 1 / (1 - p).
LayerPtr dropout(double p);
/// A function over expressions.
LayerPtr call(std::function<Expr(const Expr& x, Pass& pass)> f, std::string name = "Call");

// ---- convolutions ----

/// Numbers are given for all axes at once or one per axis.
struct ConvLayerOptions {
  std::vector<std::int64_t> stride = {1}, dilation = {1};
  std::string border = "valid";        // "valid", "half" (also "same"), "full"; or
  std::vector<std::int64_t> pad = {};  // in numbers
  std::int64_t groups = 1;
  std::string activation = {};
  bool bias = true;
  std::int64_t in = 0;  // channels of the input; 0: taken from it
  Initialiser weight = init::he_normal(), bias_start = init::zeros();
};
/// A correlation over the axes behind batch and channels; weight is (filters, in / groups,
/// kernel...).
LayerPtr conv1d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options = {});
LayerPtr conv2d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options = {});

LayerPtr conv3d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                const ConvLayerOptions& options = {});
/// The smallest images of which conv2d with these options makes images of the size of the input;
/// weight is (in, filters / groups, kernel...).
LayerPtr conv_transpose2d(std::int64_t filters, const std::vector<std::int64_t>& kernel,
                          const ConvLayerOptions& options = {});

// ---- pooling, over all axes but the first two ----

struct PoolLayerOptions {
  std::vector<std::int64_t> stride = {};  // empty: the window
  std::vector<std::int64_t> pad = {0};    // on both sides
  bool ignore_border = true;              // false: windows that end beyond the border count, too
};
LayerPtr max_pool(const std::vector<std::int64_t>& window, const PoolLayerOptions& options = {});
/// Averages leave the padding out.
LayerPtr average_pool(const std::vector<std::int64_t>& window,
                      const PoolLayerOptions& options = {});
/// (batch, channels, ...) -> (batch, channels)
LayerPtr global_max_pool();
LayerPtr global_average_pool();
/// Every element factor times along each axis, one number for all axes or one per axis.
LayerPtr upsample(const std::vector<std::int64_t>& factor);

// ---- containers ----

/// One after another.
LayerPtr sequential(std::vector<Named> layers);
/// activation(body(x) + shortcut(x)); no shortcut: x itself.
LayerPtr residual(LayerPtr body, LayerPtr shortcut = nullptr, const std::string& activation = {});
/// The outputs of all branches for the same input, joined on an axis.
LayerPtr concat(std::vector<Named> branches, std::int64_t axis = 1);
/// x joined with body(x) on an axis: the skip of a U-Net.
LayerPtr skip(LayerPtr body, std::int64_t axis = 1);

// ---- normalisation ----

struct NormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  // of batch_norm: what a step takes of the batch's statistics
  bool affine = true;     // a trainable scale and shift
  std::int64_t in = 0;    // size of the axis; 0: taken from the input
};
/// Over all axes but 1, per channel; with running statistics if not training, or frozen.
LayerPtr batch_norm(const NormOptions& options = {});
/// Over the last axis.
LayerPtr layer_norm(const NormOptions& options = {});

// ---- attention ----

struct AttentionOptions {
  bool causal = false;  // a time sees itself and those before
  bool bias = true;
  std::int64_t in = 0;
  Initialiser weight = init::glorot_uniform();
};
/// Every time of (batch, time, features) takes from all times: softmax(query key' / sqrt(size))
/// value in each of `heads` equal parts of the features, and a product of what they give.
LayerPtr attention(std::int64_t heads, const AttentionOptions& options = {});

// ---- recurrent ----

struct LstmState {
  Expr hidden, cell;
};
/// One step from the parts of the gates that come from the input: x weight + bias, (batch, 4
/// units), in the order input, forget, candidate, output. recurrent is (units, 4 units).
LstmState lstm_cell(const Arg& from_input, const Arg& hidden, const Arg& cell,
                    const Arg& recurrent);
/// One step; (batch, 3 units) in the order reset, update, candidate. The reset gate works on what
/// the recurrent weights, (units, 3 units), and their bias make of the state.
Expr gru_cell(const Arg& from_input, const Arg& hidden, const Arg& recurrent,
              const Arg& recurrent_bias);

struct RecurrentOptions {
  bool sequences = false;  // the states of all times (batch, time, units), not the last alone
  bool backwards = false;  // from the end; outputs stay in the order of the input
  bool unrolled = false;   // a copy of the step per time; the first pass must know their number
  std::int64_t in = 0;
  Initialiser weight = init::glorot_uniform(), recurrent = init::orthogonal();
};
/// Over (batch, time, features), from states of 0. The bias of the forget gate starts with 1.
LayerPtr lstm(std::int64_t units, const RecurrentOptions& options = {});
LayerPtr gru(std::int64_t units, const RecurrentOptions& options = {});

}  // namespace snug::nn
