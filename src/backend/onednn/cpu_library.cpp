#include "backend/onednn/cpu_library.h"

#include "backend/native/routines.h"
#include "backend/onednn/routines.h"

namespace snug {
namespace {

bool by_onednn(const Node& node) {
  const DType t = node.types[0].dtype;
  return t == DType::F32 || (t == DType::BF16 && onednn::has_bfloat16());
}
bool by_onednn_conv(const Node& node) {
  const DType t = node.types[0].dtype;
  return t == DType::F32 || t == DType::F16 || t == DType::BF16;
}
bool by_openblas(const Node& node) { return is_float(node.types[0].dtype); }

constexpr auto kContiguous = LibraryEntry::Strides::Contiguous;
constexpr auto kMatrix = LibraryEntry::Strides::Matrix;
constexpr auto kAny = LibraryEntry::Strides::Any;

constexpr LibraryEntry kTable[] = {
    {"affine", "onednn", kMatrix, onednn::prepare_affine, by_onednn},
    {"batched_dot", "onednn", kMatrix, onednn::prepare_dot, by_onednn},
    {"batched_dot", "openblas", kMatrix, native::prepare_dot, by_openblas},
    {"batched_dot", "native", kAny, native::prepare_dot},
    {"check_index", "native", kAny, native::prepare_check_index},
    {"cholesky", "openblas", kAny, native::prepare_cholesky},
    {"concatenate", "native", kAny, native::prepare_concatenate},
    {"conv2d", "onednn", kContiguous, onednn::prepare_conv2d, by_onednn_conv},
    {"conv2d", "native", kContiguous, native::prepare_conv2d},
    {"conv2d_grad_input", "onednn", kContiguous, onednn::prepare_conv2d_grad_input, by_onednn_conv},
    {"conv2d_grad_input", "native", kContiguous, native::prepare_conv2d_grad_input},
    {"conv2d_grad_weight", "onednn", kContiguous, onednn::prepare_conv2d_grad_weight,
     by_onednn_conv},
    {"conv2d_grad_weight", "native", kContiguous, native::prepare_conv2d_grad_weight},
    {"dot", "onednn", kMatrix, onednn::prepare_dot, by_onednn},
    {"dot", "openblas", kMatrix, native::prepare_dot, by_openblas},
    {"dot", "native", kAny, native::prepare_dot},
    {"fft", "pocketfft", kContiguous, native::prepare_fft},
    {"gather", "native", kAny, native::prepare_gather},
    {"irfft", "pocketfft", kContiguous, native::prepare_irfft},
    {"nonzero", "native", kAny, native::prepare_nonzero},
    {"pair", "native", kAny, native::prepare_pair},
    {"rfft", "pocketfft", kContiguous, native::prepare_rfft},
    {"scatter_add", "native", kAny, native::prepare_scatter_add},
    {"scatter_set", "native", kAny, native::prepare_scatter_set},
    {"slice_inc", "native", kAny, native::prepare_slice_inc},
    {"slice_set", "native", kAny, native::prepare_slice_set},
    {"solve", "openblas", kContiguous, native::prepare_solve},
};

}  // namespace

LibraryTable cpu_library() { return kTable; }

}  // namespace snug
