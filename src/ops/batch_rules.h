#pragma once
#include "expr/op_def.h"

/// How ops work on a batch in slices (OpDef::batch). Elementwise ops and reductions follow from
/// their traits.
namespace snug::ops {

/// The axis of the rows stays where it is; all data inputs are cut on it.
BatchRule batch_same(const BatchArgs& a);
BatchRule batch_but_last(const BatchArgs& a);  // any axis but the last
BatchRule batch_dot(const BatchArgs& a);
BatchRule batch_batched_dot(const BatchArgs& a);
BatchRule batch_images(const BatchArgs& a);         // conv2d: images by whole filters
BatchRule batch_images_second(const BatchArgs& a);  // gradient by images: input 1 has the rows
BatchRule batch_filters(const BatchArgs& a);        // gradient by filters: summed
/// Pooling, whose windows are on the last axes; with the shape of the result as input.
BatchRule batch_windows(const BatchArgs& a);
BatchRule batch_windows_sized(const BatchArgs& a);
BatchRule batch_solve(const BatchArgs& a);  // columns of the right-hand side
BatchRule batch_dimshuffle(const BatchArgs& a);
BatchRule batch_broadcast_to(const BatchArgs& a);
BatchRule batch_reshape(const BatchArgs& a);
/// As batch_same, but the rows are not on the axis that attr "axis" names.
BatchRule batch_other_axes(const BatchArgs& a);
BatchRule batch_slice(const BatchArgs& a);
BatchRule batch_put_slice(const BatchArgs& a);  // slice_set, slice_inc
BatchRule batch_gather(const BatchArgs& a);
BatchRule batch_scatter(const BatchArgs& a);
BatchRule batch_check_index(const BatchArgs& a);
BatchRule batch_argtopk(const BatchArgs& a);       // any axis but the one of attr "axis"
BatchRule batch_searchsorted(const BatchArgs& a);  // what is looked for
BatchRule batch_arange(const BatchArgs& a);
BatchRule batch_random(const BatchArgs& a);

}  // namespace snug::ops
