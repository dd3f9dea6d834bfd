#include "backend/host_library.h"

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
/// Over rows and columns of images with channels last.
bool by_native_pool_last(const Node& node) {
  return node.types[0].dtype == DType::F32 && node.attrs.ints("window").size() == 2;
}
bool by_openblas(const Node& node) { return is_float(node.types[0].dtype); }

constexpr auto kContiguous = LibraryEntry::Strides::Contiguous;
constexpr auto kMatrix = LibraryEntry::Strides::Matrix;
constexpr auto kAny = LibraryEntry::Strides::Any;

constexpr LibraryEntry kTable[] = {
    {"affine", "onednn", kMatrix, onednn::prepare_affine, by_onednn},
    {"argsort", "native", kContiguous, native::prepare_argsort},
    {"argtopk", "native", kContiguous, native::prepare_argtopk},
    {"assert", "native", kAny, native::prepare_assert},
    {"average_pool", "native", kContiguous, native::prepare_average_pool},
    {"average_pool_grad", "native", kContiguous, native::prepare_average_pool_grad},
    {"average_pool_grad_last", "native", kContiguous, native::prepare_average_pool_grad_last,
     by_native_pool_last},
    {"average_pool_last", "native", kContiguous, native::prepare_average_pool_last,
     by_native_pool_last},
    {"batched_dot", "onednn", kMatrix, onednn::prepare_dot, by_onednn},
    {"batched_dot", "openblas", kMatrix, native::prepare_dot, by_openblas},
    {"batched_dot", "native", kAny, native::prepare_dot},
    {"check_index", "native", kAny, native::prepare_check_index},
    {"cholesky", "openblas", kAny, native::prepare_cholesky},
    {"concatenate", "native", kAny, native::prepare_concatenate},
    {"conv2d", "native", kContiguous, native::prepare_conv2d},
    {"conv2d_grad_input", "native", kContiguous, native::prepare_conv2d_grad_input},
    {"conv2d_grad_input_last", "onednn", kContiguous, onednn::prepare_conv2d_grad_input_last,
     by_onednn_conv, true},
    {"conv2d_grad_weight", "native", kContiguous, native::prepare_conv2d_grad_weight},
    {"conv2d_grad_weight_last", "onednn", kContiguous, onednn::prepare_conv2d_grad_weight_last,
     by_onednn_conv, true},
    {"conv2d_last", "onednn", kContiguous, onednn::prepare_conv2d_last, by_onednn_conv, true},
    {"conv3d", "onednn", kContiguous, onednn::prepare_conv3d, by_onednn_conv},
    {"conv3d", "native", kContiguous, native::prepare_conv2d},
    {"conv3d_grad_input", "onednn", kContiguous, onednn::prepare_conv3d_grad_input, by_onednn_conv},
    {"conv3d_grad_input", "native", kContiguous, native::prepare_conv2d_grad_input},
    {"conv3d_grad_weight", "onednn", kContiguous, onednn::prepare_conv3d_grad_weight,
     by_onednn_conv},
    {"conv3d_grad_weight", "native", kContiguous, native::prepare_conv2d_grad_weight},
    {"cumprod", "native", kContiguous, native::prepare_cumprod},
    {"cumsum", "native", kContiguous, native::prepare_cumsum},
    {"det", "openblas", kAny, native::prepare_det},
    {"dot", "onednn", kMatrix, onednn::prepare_dot, by_onednn},
    {"dot", "openblas", kMatrix, native::prepare_dot, by_openblas},
    {"dot", "native", kAny, native::prepare_dot},
    {"eig", "openblas", kAny, native::prepare_eig},
    {"eigh", "openblas", kAny, native::prepare_eigh},
    {"eigvalsh", "openblas", kAny, native::prepare_eigvalsh},
    {"expm", "openblas", kAny, native::prepare_expm},
    {"fft", "kissfft", kContiguous, native::prepare_fft},
    {"gather", "native", kAny, native::prepare_gather},
    {"inverse", "openblas", kAny, native::prepare_inverse},
    {"irfft", "kissfft", kContiguous, native::prepare_irfft},
    {"linear_recurrence", "native", kContiguous, native::prepare_linear_recurrence},
    {"lstsq", "openblas", kAny, native::prepare_lstsq},
    {"max_pool", "native", kContiguous, native::prepare_max_pool},
    {"max_pool_last", "native", kContiguous, native::prepare_max_pool_last, by_native_pool_last},
    {"max_pool_take", "native", kContiguous, native::prepare_max_pool_take},
    {"max_pool_take_last", "native", kContiguous, native::prepare_max_pool_take_last,
     by_native_pool_last},
    {"max_unpool", "native", kContiguous, native::prepare_max_unpool},
    {"max_unpool_last", "native", kContiguous, native::prepare_max_unpool_last,
     by_native_pool_last},
    {"nonzero", "native", kAny, native::prepare_nonzero},
    {"pair", "native", kAny, native::prepare_pair},
    {"print", "native", kAny, native::prepare_print},
    {"qr", "openblas", kAny, native::prepare_qr},
    {"qr_r", "openblas", kAny, native::prepare_qr_r},
    {"rfft", "kissfft", kContiguous, native::prepare_rfft},
    {"scatter_add", "native", kAny, native::prepare_scatter_add},
    {"scatter_set", "native", kAny, native::prepare_scatter_set},
    {"searchsorted", "native", kContiguous, native::prepare_searchsorted},
    {"slice_inc", "native", kAny, native::prepare_slice_inc},
    {"slice_set", "native", kAny, native::prepare_slice_set},
    {"slogdet", "openblas", kAny, native::prepare_slogdet},
    {"solve", "openblas", kContiguous, native::prepare_solve},
    {"sort", "native", kContiguous, native::prepare_sort},
    {"svd", "openblas", kAny, native::prepare_svd},
    {"svdvals", "openblas", kAny, native::prepare_svdvals},
};

}  // namespace

LibraryTable host_library() { return kTable; }

}  // namespace snug
