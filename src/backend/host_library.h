#pragma once
#include "kernel/library.h"

namespace snug {

/// Every op that a library or a hand-written routine does on the CPU.
LibraryTable host_library();

}  // namespace snug
