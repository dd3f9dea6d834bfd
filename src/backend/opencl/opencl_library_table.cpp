#include "backend/opencl/opencl_library_table.h"

#include "backend/opencl/routines.h"

namespace snug {
namespace {

bool of_floats(const Node& node) { return is_float(node.types[0].dtype); }

constexpr auto kContiguous = LibraryEntry::Strides::Contiguous;
constexpr auto kMatrix = LibraryEntry::Strides::Matrix;
constexpr auto kAny = LibraryEntry::Strides::Any;

namespace r = opencl_routines;

constexpr LibraryEntry kTable[] = {
    {"affine", "opencl", kMatrix, r::prepare_affine, of_floats},
    {"average_pool", "opencl", kContiguous, r::prepare_average_pool},
    {"average_pool_grad", "opencl", kContiguous, r::prepare_average_pool_grad},
    {"batched_dot", "opencl", kMatrix, r::prepare_dot, of_floats},
    {"concatenate", "opencl", kAny, r::prepare_concatenate},
    {"conv2d", "opencl", kContiguous, r::prepare_conv},
    {"conv2d_grad_input", "opencl", kContiguous, r::prepare_conv_grad_input},
    {"conv2d_grad_weight", "opencl", kContiguous, r::prepare_conv_grad_weight},
    {"conv3d", "opencl", kContiguous, r::prepare_conv},
    {"conv3d_grad_input", "opencl", kContiguous, r::prepare_conv_grad_input},
    {"conv3d_grad_weight", "opencl", kContiguous, r::prepare_conv_grad_weight},
    {"dot", "opencl", kMatrix, r::prepare_dot, of_floats},
    {"gather", "opencl", kContiguous, r::prepare_gather},
    {"max_pool", "opencl", kContiguous, r::prepare_max_pool},
    {"max_pool_take", "opencl", kContiguous, r::prepare_max_pool_take},
    {"max_unpool", "opencl", kContiguous, r::prepare_max_unpool},
    {"scatter_add", "opencl", kContiguous, r::prepare_scatter_add},
    {"scatter_set", "opencl", kContiguous, r::prepare_scatter_set},
    {"slice_inc", "opencl", kAny, r::prepare_slice_inc},
    {"slice_set", "opencl", kAny, r::prepare_slice_set},
};

}  // namespace

LibraryTable opencl_library_table() { return kTable; }

}  // namespace snug
