#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/array.h"
#include "graph/graph.h"

namespace snug {

struct DeviceInfo;
class Accelerator;
class CommandQueues;

/// One operand of a library call, with sizes known.
struct ArgDesc {
  DType dtype = DType::F32;
  Dims shape;
  Dims strides;  // in elements
};

/// A node to be done by a library (or by a hand-written routine where no library has one).
/// Size inputs of the op are left out of `in`; their values are in `size_values`.
struct CallSite {
  const Node* node = nullptr;
  std::vector<ArgDesc> in, out;  // outputs are contiguous
  /// Per size input (loop: per input) its elements; empty: not known before running.
  std::vector<std::vector<std::int64_t>> size_values;
  /// Some sizes are upper bounds; the actual ones come with each run.
  bool runtime_sizes = false;
  int threads = 1;
  const DeviceInfo* device = nullptr;        // as TaskSizes::device
  const Accelerator* accelerator = nullptr;  // that the node is on; null: the host
  bool unbounded = false;                    // as CompileOptions has it
};

struct RunArgs {
  std::byte* const* in = nullptr;  // of a kernel: its operands, as KernelFn has them
  std::byte* const* out = nullptr;
  std::byte* workspace = nullptr;    // 64-byte aligned, PreparedCall::workspace bytes
  const ArgDesc* in_desc = nullptr;  // actual sizes and strides of this run
  const ArgDesc* out_desc = nullptr;
  const std::int64_t* const* size_values = nullptr;  // per size input, its elements in this run
  /// Where the op writes the actual extents of its outputs with run-time sizes.
  std::int64_t* extents = nullptr;
  /// Output 0 is the storage of input 0 (ops with kInPlace): no copy first.
  bool in_place = false;
  bool interruptible = false;  // shared variables are still as they were: a request to stop holds
  // For devices, which keep what they are given until they run: how much of it there is; of a
  // kernel its integers, and the points of its first outer axis.
  std::uint32_t in_count = 0, out_count = 0, size_inputs = 0, size_elements = 0;
  std::span<const std::int64_t> ints = {};
  std::int64_t points = 0;
  // For loops on devices.
  std::byte* const* elsewhere = nullptr;   // by Space, as PreparedCall has it
  CommandQueues* const* queues = nullptr;  // by DeviceId
};

/// Bytes of code that libraries generate, of several calls that may share it.
class CodeCount {
 public:
  void add(const void* which, std::uint64_t bytes) {
    if (counted_.insert(which).second) bytes_ += bytes;
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::set<const void*> counted_;
  std::uint64_t bytes_ = 0;
};

/// A call made ready for given sizes: immutable, may run on several threads at once. `run` throws
/// an Error if the data make it fail (only ops with kMayFail), and allocates nothing of ours.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  /// Makes the code that libraries generate, which planning does without. Before the first run;
  /// more often does nothing. A Memory error if the limits of the process leave too little for it.
  virtual void make_ready() const {}
  /// What `make_ready` takes at first, about.
  virtual void count_code(CodeCount&) const {}
  virtual void run(const RunArgs& args) const = 0;
  std::uint64_t workspace = 0;  // in the memory of its device; of a loop: of the host
  /// Of a loop on another device: what it needs in other memories, by their number (Space).
  std::vector<std::pair<std::uint8_t, std::uint64_t>> elsewhere;
  /// Of a loop: how many marks its body needs of a device.
  virtual std::uint32_t marks(DeviceId) const { return 0; }
  double seconds = 0;    // predicted, of loops; 0: by its sizes
  int blas_buffers = 0;  // that OpenBLAS takes at a time, besides those it has from the start
};

struct LibraryEntry {
  /// Which layouts of inputs it takes as they are; others are made contiguous first.
  enum class Strides : std::uint8_t {
    Contiguous,
    Matrix,  // the last two axes row- or column-major with any leading dimension, outer axes any
    Any,
  };
  std::string_view op;       // name of the op
  std::string_view library;  // "onednn", "openblas", "native"; shown by explain
  Strides strides = Strides::Contiguous;
  std::unique_ptr<PreparedCall> (*prepare)(const CallSite&) = nullptr;
  /// Which nodes of the op it does (by dtype, say); null: all of them.
  bool (*takes)(const Node&) = nullptr;
  bool prefers_channels_last = false;  // an op on such images: worth turning them for
};
/// Sorted by op; of several entries for one op the first that takes a node does it.
using LibraryTable = std::span<const LibraryEntry>;
/// One per device, by DeviceId.
using Libraries = std::span<const LibraryTable>;

/// Null if no entry does the node; of the table of its device.
const LibraryEntry* find_library(LibraryTable table, const Node& node);
inline const LibraryEntry* find_library(Libraries libraries, const Node& node) {
  return find_library(libraries[node.device], node);
}

}  // namespace snug
