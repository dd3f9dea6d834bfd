#include "backend/opencl/opencl_library_table.h"

#include "backend/opencl/routines.h"

namespace snug {
namespace {

bool of_floats(const Node& node) { return is_float(node.types[0].dtype); }

constexpr auto kMatrix = LibraryEntry::Strides::Matrix;

constexpr LibraryEntry kTable[] = {
    {"affine", "opencl", kMatrix, opencl_routines::prepare_affine, of_floats},
    {"batched_dot", "opencl", kMatrix, opencl_routines::prepare_dot, of_floats},
    {"dot", "opencl", kMatrix, opencl_routines::prepare_dot, of_floats},
};

}  // namespace

LibraryTable opencl_library_table() { return kTable; }

}  // namespace snug
