#pragma once
#include <memory>
#include <string>

#include "backend/native/conv.h"
#include "backend/onednn/chain.h"

namespace snug::onednn {

/// A convolution or a part of one, done by one thread. The operands of its chain are (x, w) -> y,
/// (w, dy) -> dx or (x, dy) -> dw. Images over rows and columns have their channels last.
struct ConvPart {
  native::ConvKind kind;
  native::ConvShape shape;
  DType dtype = DType::F32;
  /// Channels of the images that these are a part of: more than those of the shape if it is cut by
  /// channels.
  std::int64_t x_channels, y_channels;
  /// How filters lie: as oneDNN wants them; or plain, of so many channels (those of the shape or
  /// more), with input and output swapped for a gradient by images that is done as a forward
  /// convolution.
  bool library_filters = false, swapped = false;
  std::int64_t filter_channels;
  bool blocked = false;                     // oneDNN chooses the layout of images
  std::int64_t gather_h = 0, gather_w = 0;  // x has these rows and columns, and every so many count
  std::int64_t gather_sh = 1, gather_sw = 1;

  std::string key() const;
};

class ConvChain : public Chain {
 public:
  dnnl::memory::desc filters;  // as oneDNN wants them
  std::string implementation;
};

/// Null if oneDNN has only its reference code for it.
std::shared_ptr<const ConvChain> conv_chain(const ConvPart& part);

/// Filters from the plain order of `part` into that of its chain, or back, in slices that may be
/// done at once. Offsets are in elements.
struct FilterSlices {
  std::shared_ptr<const Chain> chain;
  std::int64_t count = 1, plain_step = 0, library_step = 0;
  bool plain = false;  // the two orders are one, and there is no chain
};
FilterSlices filter_slices(const ConvPart& part, const dnnl::memory::desc& library, bool back);

}  // namespace snug::onednn
