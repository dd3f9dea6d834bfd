#pragma once
#include "bindings.h"
#include "optim/optim.h"

namespace snug::python {

/// The options of an update rule by name.
optim::Options optim_options(nb::dict options);

}  // namespace snug::python
