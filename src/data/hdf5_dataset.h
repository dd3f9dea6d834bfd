#pragma once
#include "data/hdf5_objects.h"

namespace snug::data::h5 {

struct Filter {
  enum Kind : std::uint8_t { Deflate = 1, Shuffle = 2, Fletcher32 = 3 } kind = Deflate;
  std::int64_t width = 1;  // of the numbers that are shuffled
};

/// A chunk that was written.
struct Chunk {
  std::int64_t number = 0;  // among all chunks, the last axis fastest
  Address at = kNowhere;
  std::uint64_t size = 0;      // bytes in the file
  std::uint32_t left_out = 0;  // a bit per filter that was not applied to it
};

/// How chunks tile the array.
struct Tiling {
  Dims chunk;              // sizes of one
  Dims counts;             // chunks along every axis
  Dims most;               // the same if the array grows as far as it may; 0: without end
  std::int64_t bytes = 0;  // of one chunk, unpacked

  /// The number of the chunk at this place; -1 if it is outside.
  std::int64_t number_of(const Dims& place) const;
  Dims place_of(std::int64_t number) const;
};

/// Where the numbers of a dataset are. All places are checked to be in the file.
struct Dataset {
  DType dtype = DType::F32;
  bool swapped = false;  // the other byte order
  Dims sizes;
  std::vector<std::byte> fill;      // an element that was never written, as stored
  std::vector<std::byte> in_place;  // all elements, if the header has them
  Address at = kNowhere;            // all elements, in one piece
  // In chunks, if it has any:
  Tiling tiling;
  std::vector<Filter> filters;  // in the order they were applied
  bool plain_edges = false;     // chunks that reach beyond the array are not packed
  std::vector<Chunk> chunks;    // sorted by number

  bool chunked() const { return !tiling.chunk.empty(); }
};

/// The dataset with this header. What is wrong or not supported is a Value error; `name` is told.
Dataset dataset_of(const Store& store, const Messages& messages, const std::string& name);

/// The chunks of a B-tree of version 1, sorted.
std::vector<Chunk> chunks_of_tree(const Store& store, Address tree, const Tiling& tiling,
                                  bool filtered);

/// How the layouts of version 4 find chunks. Numbers of kinds are those of the format.
struct ChunkIndex {
  enum Kind : std::uint8_t { Single = 1, Implicit, FixedArray, GrowingArray, Tree } kind = Single;
  bool filtered = false;       // chunks have sizes and masks of their own
  bool single_packed = false;  // and the only one has them in the layout
};
/// The chunks that such an index leads to, sorted; `layout` stands at what describes it.
std::vector<Chunk> chunks_of_index(Cursor& layout, const Tiling& tiling, const ChunkIndex& index);

}  // namespace snug::data::h5
