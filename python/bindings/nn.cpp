// Layers, initialisers, losses, models, summaries and pruning (nn/*.h).
#include <nanobind/stl/shared_ptr.h>

#include "arguments.h"
#include "layers.h"
#include "nn/layers.h"
#include "nn/losses.h"
#include "nn/models.h"
#include "nn/prune.h"
#include "nn/summary.h"
#include "node_object.h"

namespace snug::python {
namespace {

using nb::arg;
using nb::handle;
using nn::Initialiser;
using nn::LayerPtr;
using nn::Named;

LayerPtr layer_or_none(handle h, const char* what) {
  return h.is_none() ? nullptr : layer_of(h, what);
}

/// Layers or pairs (name, layer), in one list or as arguments.
std::vector<Named> layers_of(const nb::args& args, const char* what) {
  nb::object items = nb::borrow(args);
  if (args.size() == 1 && (nb::isinstance<nb::list>(args[0]) || nb::isinstance<nb::tuple>(args[0])))
    items = nb::borrow(args[0]);
  std::vector<Named> layers;
  for (handle item : items) {
    if (nb::isinstance<nb::tuple>(item) && nb::len(item) == 2)
      layers.emplace_back(nb::cast<std::string>(item[0]), layer_of(item[1], what));
    else
      layers.emplace_back(layer_of(item, what));
  }
  return layers;
}

// ---- initialisers ----

}  // namespace

Initialiser initialiser_of(handle h) {
  if (nb::isinstance<nb::str>(h)) return nn::init::named(nb::cast<std::string>(h));
  if (nb::isinstance<Initialiser>(h)) return nb::cast<Initialiser>(h);
  return nn::init::value(array_from(as_ndarray(h)));
}

namespace {

std::string describe(const Initialiser& i) {
  using Kind = Initialiser::Kind;
  switch (i.kind) {
    case Kind::Constant: return fmt::format("constant({})", i.a);
    case Kind::Uniform: return fmt::format("uniform({}, {})", i.a, i.b);
    case Kind::Normal: return fmt::format("normal({}, {})", i.a, i.b);
    case Kind::Orthogonal: return fmt::format("orthogonal({})", i.b);
    case Kind::Value: return fmt::format("value of shape {}", describe_shape(i.array.shape));
  }
  return {};
}

void bind_initialisers(nb::module_& m) {
  nb::class_<Initialiser>(m, "Initialiser", "How a parameter starts.")
      .def("__repr__", [](const Initialiser& i) {
        const char* by = i.scale == Initialiser::Scale::None ? ""
                         : i.scale == Initialiser::Scale::In ? ", scaled by what goes in"
                                                             : ", scaled by what goes in and out";
        return fmt::format("<snug.nn initialiser {}{}>", describe(i), by);
      });
  m.def("init_constant", nn::init::constant, arg("value") = 0.0, "The same number everywhere.");
  m.def("init_uniform", nn::init::uniform, arg("low") = -0.05, arg("high") = 0.05,
        "Between low and high.");
  m.def("init_normal", nn::init::normal, arg("mean") = 0.0, arg("deviation") = 0.05,
        "Around mean.");
  m.def("init_glorot_uniform", nn::init::glorot_uniform, arg("gain") = 1.0,
        "Uniform with variance gain^2 * 2 / (in + out).");
  m.def("init_glorot_normal", nn::init::glorot_normal, arg("gain") = 1.0,
        "Normal with variance gain^2 * 2 / (in + out).");
  m.def("init_he_uniform", nn::init::he_uniform, "Uniform with variance 2 / in.");
  m.def("init_he_normal", nn::init::he_normal, "Normal with variance 2 / in.");
  m.def("init_lecun_uniform", nn::init::lecun_uniform, "Uniform with variance 1 / in.");
  m.def("init_lecun_normal", nn::init::lecun_normal, "Normal with variance 1 / in.");
  m.def("init_orthogonal", nn::init::orthogonal, arg("gain") = 1.0,
        "Rows or columns, whichever are fewer, orthogonal and of length gain.");
}

// ---- kinds of layers ----

std::string text_or_none(handle h) { return h.is_none() ? "" : nb::cast<std::string>(h); }

/// An integer, or one per axis.
std::vector<std::int64_t> per_axis(handle h) {
  if (PyLong_Check(h.ptr())) return {integer_of(h, "layer")};
  return ints_of(h);
}

using MakeConv = LayerPtr (*)(std::int64_t, const std::vector<std::int64_t>&,
                              const nn::ConvLayerOptions&);

void bind_conv(nb::module_& m, const char* name, MakeConv make, const char* doc) {
  m.def(
      name,
      [make](std::int64_t filters, handle kernel, handle stride, handle pad, handle dilation,
             std::int64_t groups, handle activation, bool bias, std::int64_t in, handle weight,
             handle bias_start) {
        UserLine line;
        nn::ConvLayerOptions o;
        o.stride = per_axis(stride);
        o.dilation = per_axis(dilation);
        if (nb::isinstance<nb::str>(pad))
          o.border = nb::cast<std::string>(pad);
        else
          o.pad = per_axis(pad);
        o.groups = groups;
        o.activation = text_or_none(activation);
        o.bias = bias;
        o.in = in;
        o.weight = initialiser_of(weight);
        o.bias_start = initialiser_of(bias_start);
        return make(filters, per_axis(kernel), o);
      },
      arg("filters"), arg("kernel"), arg("stride") = 1, arg("pad") = "valid", arg("dilation") = 1,
      arg("groups") = 1, arg("activation") = nb::none(), arg("bias") = true, arg("channels") = 0,
      arg("weight") = "he_normal", arg("bias_start") = "zeros", doc);
}

void bind_plain_layers(nb::module_& m) {
  m.def(
      "Dense",
      [](std::int64_t units, std::int64_t in, handle activation, bool bias, handle weight,
         handle bias_start) {
        UserLine line;
        return nn::dense(units, {.activation = text_or_none(activation),
                                 .bias = bias,
                                 .in = in,
                                 .weight = initialiser_of(weight),
                                 .bias_start = initialiser_of(bias_start)});
      },
      arg("units"), arg("features") = 0, arg("activation") = nb::none(), arg("bias") = true,
      arg("weight") = "glorot_uniform", arg("bias_start") = "zeros",
      "activation(x weight + bias) over the last axis; weight is (features, units).");
  m.def(
      "Embedding",
      [](std::int64_t count, std::int64_t size, handle weight) {
        UserLine line;
        return nn::embedding(count, size, {initialiser_of(weight)});
      },
      arg("count"), arg("size"), arg("weight") = nn::init::normal(0, 1),
      "Row x[...] of a matrix (count, size) for every integer of the input.");
  m.def(
      "Activation",
      [](const std::string& name) {
        UserLine line;
        return nn::activation(name);
      },
      arg("name"), "An activation by name, such as 'relu'.");
  m.def("activation_names", nn::activation_names, "The names that Activation knows.");
  m.def("Flatten", nn::flatten, "(batch, ...) -> (batch, all others)");
  m.def(
      "Reshape", [](handle sizes) { return nn::reshape(per_axis(sizes)); }, arg("sizes"),
      "(batch, ...) -> (batch, sizes); one size may be -1.");
  m.def(
      "Dropout",
      [](double p) {
        UserLine line;
        return nn::dropout(p);
      },
      arg("p") = 0.5,
      "In training sets elements to 0 with probability p and scales the others by 1 / (1 - p).");
  bind_conv(m, "Conv1d", nn::conv1d,
            "A correlation of (batch, channels, columns). Arguments as for Conv2d.");
  bind_conv(m, "Conv3d", nn::conv3d,
            "A correlation over the three last axes. Arguments as for Conv2d.");
  bind_conv(m, "ConvTranspose2d", nn::conv_transpose2d,
            "The smallest images of which Conv2d with these arguments makes images of the size of "
            "the\ninput; weight is (channels, filters / groups, rows, columns).");
  bind_conv(m, "Conv2d", nn::conv2d,
            "A correlation of (batch, channels, rows, columns); weight is (filters, channels / "
            "groups,\nrows, columns). pad: 'valid', 'half' (also 'same'), 'full', or numbers.");
}

using MakePool = LayerPtr (*)(const std::vector<std::int64_t>&, const nn::PoolLayerOptions&);

void bind_pool(nb::module_& m, const char* name, MakePool make, const char* doc) {
  m.def(
      name,
      [make](handle window, handle stride, handle pad, bool ignore_border) {
        UserLine line;
        return make(per_axis(window),
                    {stride.is_none() ? std::vector<std::int64_t>{} : per_axis(stride),
                     per_axis(pad), ignore_border});
      },
      arg("window"), arg("stride") = nb::none(), arg("pad") = 0, arg("ignore_border") = true, doc);
}

void bind_pools(nb::module_& m) {
  bind_pool(m, "MaxPool", nn::max_pool,
            "The largest element of every window, over all axes but the first two.");
  bind_pool(m, "AveragePool", nn::average_pool,
            "The average of every window without the padding, over all axes but the first two.");
  m.def(
      "Upsample",
      [](handle factor) {
        UserLine line;
        return nn::upsample(per_axis(factor));
      },
      arg("factor"),
      "Every element factor times along all axes but the first two: a number, or one per axis.");
  m.def("GlobalMaxPool", nn::global_max_pool, "(batch, channels, ...) -> (batch, channels)");
  m.def("GlobalAveragePool", nn::global_average_pool,
        "(batch, channels, ...) -> (batch, channels)");
}

void bind_norms(nb::module_& m) {
  m.def(
      "BatchNorm",
      [](double epsilon, double momentum, bool affine, std::int64_t in) {
        UserLine line;
        return nn::batch_norm(
            {.epsilon = epsilon, .momentum = momentum, .affine = affine, .in = in});
      },
      arg("epsilon") = 1e-5, arg("momentum") = 0.1, arg("affine") = true, arg("channels") = 0,
      "Mean 0 and variance 1 per channel (axis 1), then a trainable scale and shift. In training "
      "by\nthe statistics of the batch, of which running ones take `momentum` at every call; else "
      "by those.");
  m.def(
      "LayerNorm",
      [](double epsilon, bool affine, std::int64_t in) {
        UserLine line;
        return nn::layer_norm({.epsilon = epsilon, .affine = affine, .in = in});
      },
      arg("epsilon") = 1e-5, arg("affine") = true, arg("features") = 0,
      "Mean 0 and variance 1 over the last axis, then a trainable scale and shift.");
}

void bind_containers(nb::module_& m) {
  m.def(
      "Sequential",
      [](const nb::args& layers) {
        UserLine line;
        return nn::sequential(layers_of(layers, "Sequential"));
      },
      arg("layers"),
      "Layers one after another: layers, functions of an expression, or pairs (name, layer).");
  m.def(
      "Residual",
      [](handle body, handle shortcut, handle activation) {
        UserLine line;
        return nn::residual(layer_of(body, "Residual"), layer_or_none(shortcut, "Residual"),
                            text_or_none(activation));
      },
      arg("body"), arg("shortcut") = nb::none(), arg("activation") = nb::none(),
      "activation(body(x) + shortcut(x)); without a shortcut x itself.");
  m.def(
      "Concat",
      [](const nb::args& branches, std::int64_t axis) {
        UserLine line;
        return nn::concat(layers_of(branches, "Concat"), axis);
      },
      arg("branches"), arg("axis") = 1,
      "The outputs of all branches for the same input, joined on an axis.");
  m.def(
      "Skip",
      [](handle body, std::int64_t axis) {
        UserLine line;
        return nn::skip(layer_of(body, "Skip"), axis);
      },
      arg("body"), arg("axis") = 1, "x joined with body(x) on an axis.");
}

void bind_attention(nb::module_& m) {
  m.def(
      "Attention",
      [](std::int64_t heads, bool causal, bool bias, std::int64_t in, handle weight) {
        UserLine line;
        return nn::attention(
            heads, {.causal = causal, .bias = bias, .in = in, .weight = initialiser_of(weight)});
      },
      arg("heads"), arg("causal") = false, arg("bias") = true, arg("features") = 0,
      arg("weight") = "glorot_uniform",
      "Every time of (batch, time, features) takes from all times, or with causal from itself and "
      "those\nbefore: softmax(query key' / sqrt(size)) value in each of `heads` parts of the "
      "features.");
}

using MakeRecurrent = LayerPtr (*)(std::int64_t, const nn::RecurrentOptions&);

void bind_recurrent(nb::module_& m) {
  for (auto [name, make] :
       {std::pair<const char*, MakeRecurrent>{"LSTM", nn::lstm}, {"GRU", nn::gru}})
    m.def(
        name,
        [make](std::int64_t units, bool sequences, bool backwards, std::int64_t in, handle weight,
               handle recurrent, bool unrolled) {
          UserLine line;
          return make(units, {.sequences = sequences,
                              .backwards = backwards,
                              .unrolled = unrolled,
                              .in = in,
                              .weight = initialiser_of(weight),
                              .recurrent = initialiser_of(recurrent)});
        },
        arg("units"), arg("sequences") = false, arg("backwards") = false, arg("features") = 0,
        arg("weight") = "glorot_uniform", arg("recurrent") = "orthogonal", arg("unrolled") = false,
        "Over (batch, time, features), from states of 0; gives the last state, or with sequences "
        "those\nof all times. unrolled: a copy of the step per time, so that a plan sees "
        "every step; the\nfirst call, or build, must know their number.");
  m.def(
      "lstm_cell",
      [](handle x, handle h, handle c, handle recurrent) {
        UserLine line;
        constexpr const char* kName = "lstm_cell";
        nn::LstmState s = nn::lstm_cell(as_tensor(x, kName), as_tensor(h, kName),
                                        as_tensor(c, kName), as_tensor(recurrent, kName));
        return result_of(std::vector<Expr>{s.hidden, s.cell});
      },
      tensor_arg("from_input"), tensor_arg("hidden"), tensor_arg("cell"), tensor_arg("recurrent"),
      "One step: (hidden, cell). from_input is x weight + bias, (batch, 4 units), in the order "
      "input,\nforget, candidate, output.");
  define(m, "gru_cell", nn::gru_cell, tensor_arg("from_input"), tensor_arg("hidden"),
         tensor_arg("recurrent"), tensor_arg("recurrent_bias"),
         "One step: the new state. from_input is x weight + bias, (batch, 3 units), in the order "
         "reset,\nupdate, candidate.");
}

// ---- losses and metrics ----

void bind_losses(nb::module_& m) {
  const auto p = tensor_arg("predictions"), y = tensor_arg("targets"),
             logits = tensor_arg("logits");
  define(m, "cross_entropy", nn::cross_entropy, logits, y, arg("reduction") = "mean",
         arg("axis") = -1,
         "Of softmax(logits). Targets are class numbers (integers, without the axis) or "
         "distributions in\nthe shape of the logits. reduction: 'mean', 'sum' or 'none'.");
  define(m, "binary_cross_entropy", nn::binary_cross_entropy, logits, y, arg("reduction") = "mean",
         "Of sigmoid(logits), element by element; exact for large logits.");
  define(m, "mse", nn::mse, p, y, arg("reduction") = "mean", "The squared difference.");
  define(m, "mae", nn::mae, p, y, arg("reduction") = "mean", "The absolute difference.");
  define(m, "huber", nn::huber, p, y, arg("delta") = 1.0, arg("reduction") = "mean",
         "Half the squared difference up to delta, straight on from there.");
  define(m, "hinge", nn::hinge, p, y, arg("reduction") = "mean",
         "max(0, 1 - predictions * targets) for targets of -1 and 1.");
  define(m, "accuracy", nn::accuracy, p, y, arg("axis") = -1, arg("reduction") = "mean",
         "The part of the examples whose largest prediction is the target. reduction='none': 0 or "
         "1 of\neach.");
  define(m, "top_k_accuracy", nn::top_k_accuracy, p, y, arg("k") = 5, arg("axis") = -1,
         arg("reduction") = "mean",
         "The part of the examples whose target has fewer than k predictions above it.");
  define(m, "mean_error", nn::mean_error, p, y, arg("axis") = -1, arg("reduction") = "mean",
         "1 - accuracy");
}

// ---- models, summaries, pruning ----

nb::dict dict_of(const nn::LayerSummary& l) {
  nb::dict d;
  d["name"] = l.name;
  d["kind"] = l.kind;
  d["output"] = tuple_of(l.output);
  d["parameters"] = l.parameters;
  d["trainable"] = l.trainable;
  d["frozen"] = l.frozen;
  d["flops"] = l.flops;
  d["parameter_bytes"] = l.parameter_bytes;
  d["activation_bytes"] = l.activation_bytes;
  return d;
}

void bind_summary(nb::module_& m) {
  nb::class_<nn::Summary>(m, "Summary", "What the layers of a model cost for one input.")
      .def_prop_ro("layers",
                   [](const nn::Summary& s) {
                     nb::list all;
                     for (const nn::LayerSummary& l : s.layers) all.append(dict_of(l));
                     return all;
                   })
      .def_prop_ro("total", [](const nn::Summary& s) { return dict_of(s.total); })
      .def("json", &nn::Summary::json)
      .def("__str__", &nn::Summary::describe)
      .def("__repr__", &nn::Summary::describe);
  m.def(
      "summary",
      [](const LayerPtr& model, handle shape, handle dtype) {
        UserLine line;
        return nn::summarise(*model, dims_of(shape), as_dtype(dtype));
      },
      arg("model"), arg("shape"), arg("dtype") = "floatX",
      "Shapes, parameters, FLOPs and bytes of every layer for inputs of this shape, batch "
      "included.");
}

void bind_models(nb::module_& m) {
  m.def(
      "make_model",
      [](const std::string& name, handle input, std::int64_t classes, std::uint64_t seed) {
        UserLine line;
        return nn::models::make(name, {input.is_none() ? Dims{} : dims_of(input), classes, seed});
      },
      arg("name"), arg("input") = nb::none(), arg("classes") = 0, arg("seed") = nn::kDefaultSeed,
      "A reference model by name, for examples of the shape `input`; both as published unless "
      "given.\nIt gives logits; an autoencoder those of its input, flattened.");
  m.def(
      "model_names",
      [] {
        std::vector<std::string> names;
        for (const nn::models::Info& info : nn::models::all()) names.push_back(info.name);
        return names;
      },
      "The names that make_model knows.");
}

void bind_prune(nb::module_& m) {
  nb::class_<nn::PruneReport>(m, "PruneReport", "How many elements of the weights are 0.")
      .def_prop_ro("sparsity", &nn::PruneReport::sparsity)
      .def_prop_ro("rows",
                   [](const nn::PruneReport& r) {
                     nb::list all;
                     for (const auto& row : r.rows)
                       all.append(nb::make_tuple(row.name, row.size, row.zeros));
                     return all;
                   })
      .def("__str__", &nn::PruneReport::describe)
      .def("__repr__", &nn::PruneReport::describe);
  m.def(
      "prune",
      [](const LayerPtr& model, double fraction, bool together) {
        UserLine line;
        return nn::prune(*model, fraction, together);
      },
      arg("model"), arg("fraction"), arg("together") = false,
      "Sets the smallest fraction of every weight, or of all of them together, to 0 and masks "
      "them.");
  m.def(
      "masked",
      [](handle updates, const LayerPtr& model) {
        UserLine line;
        nn::Updates all;
        nb::object pairs =
            nb::hasattr(updates, "items") ? updates.attr("items")() : nb::borrow(updates);
        for (handle pair : pairs)
          all.emplace_back(unwrap(pair[0], "masked"), as_tensor(pair[1], "masked"));
        nb::list out;
        for (const auto& [target, value] : nn::masked(all, *model))
          out.append(nb::make_tuple(wrap(target), wrap(value)));
        return out;
      },
      arg("updates"), arg("model"),
      "The updates with pruned elements kept at 0: pairs (shared variable, new value).");
  m.def(
      "sparsity", [](const LayerPtr& model) { return nn::sparsity(*model); }, arg("model"),
      "How many weights are 0 now.");
}

}  // namespace

void bind_nn(nb::module_& m) {
  bind_initialisers(m);
  bind_layers(m);
  bind_plain_layers(m);
  bind_pools(m);
  bind_norms(m);
  bind_containers(m);
  bind_attention(m);
  bind_recurrent(m);
  bind_losses(m);
  bind_summary(m);
  bind_models(m);
  bind_prune(m);
}

}  // namespace snug::python
