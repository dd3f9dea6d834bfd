#pragma once
#include "bindings.h"
#include "nn/layer.h"

namespace snug::python {

/// A layer, or a Python function of an expression as one; a TypeError naming `what` otherwise. The
/// pointer holds the Python object, so that what is inside it can be collected.
nn::LayerPtr layer_of(nb::handle h, const char* what);

/// The class Layer, and layers written in Python.
void bind_layers(nb::module_& m);

nn::Initialiser initialiser_of(nb::handle h);  // nn.cpp

}  // namespace snug::python
