#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "backend/onednn/conv_chain.h"

namespace snug::onednn {

/// A part with the elements where its operands start. `layout`: its filters are in this one of the
/// cut's layouts; -1: plain.
struct PlacedPart {
  int chain = 0, layout = -1;
  std::int64_t in0 = 0, in1 = 0, out = 0;
};

/// Filters that parts share, in oneDNN's layout, `offset` bytes into the shared memory. Without a
/// chain the plain ones are in it.
struct FilterLayout {
  dnnl::memory::desc desc;
  FilterSlices slices;
  std::uint64_t offset = 0;
};

/// A convolution cut into parts that may run at once, by its sizes alone.
struct ConvCut {
  std::vector<std::shared_ptr<const ConvChain>> chains;
  std::vector<PlacedPart> parts;
  std::vector<FilterLayout> layouts;
  std::uint64_t shared_bytes = 0, slot_bytes = 0;  // for all parts; for each that runs at a time
  /// Gradients by filters: each part gives a sum, so many bytes after the one before; 0: none.
  std::int64_t sums = 0;
  std::uint64_t sum_bytes = 0;
};

/// Nothing if oneDNN has no good code for it.
std::optional<ConvCut> cut_convolution(const ConvPart& whole);

}  // namespace snug::onednn
