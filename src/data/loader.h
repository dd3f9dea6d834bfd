#pragma once
#include <chrono>
#include <memory>
#include <optional>

#include "data/source.h"
#include "data/transform.h"

namespace snug::data {

struct LoaderOptions {
  std::int64_t batch = 32;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::vector<Transform> transforms = {};
  std::string memory = "64MiB";  // for all that the loader holds
  int threads = 0;               // 0: half of the cores
  bool drop_last = false;        // leave out a last batch that is not full
  /// Fields of other floats arrive as this one.
  std::optional<DType> floats = DType::F32;
};

/// A place in the stream of batches, to be saved and come back to.
struct LoaderState {
  std::uint64_t seed = 0;
  std::int64_t epoch = 0, batch = 0;  // of the next batch
  // What the order of the rows depends on besides; `seek` refuses another one.
  std::int64_t rows = 0, batch_rows = 0, window_rows = 0;
  bool shuffle = true;
  bool operator==(const LoaderState&) const = default;
};

/// Bytes that a loader holds.
struct LoaderMemory {
  std::int64_t limit = 0;    // of windows, batches and work
  std::int64_t windows = 0;  // blocks of the source, as read
  std::int64_t batches = 0;  // finished, in the making, and with the caller
  std::int64_t work = 0;     // rows between two transforms
  std::int64_t source = 0;   // Source::own_bytes
  std::int64_t total() const { return windows + batches + work + source; }
};

/// One array per field, the first axis counting rows.
struct Batch {
  std::vector<Array> arrays;
  std::int64_t epoch = 0, number = 0;
  const Array& operator[](std::size_t i) const {  // an Index error if there is none
    if (i >= arrays.size())
      fail(Fault::Index, fmt::format("array {} of a batch of {}", i, arrays.size()));
    return arrays[i];
  }
};

/// Batches of a source, made ahead by threads within a bound of memory. What comes depends on the
/// seed, the sizes and, for sources with blocks, the memory: never on the number of threads.
///
///   Loader loader(npy("train.npy"), {.batch = 128});
///   for (int epoch = 0; epoch < 10; ++epoch)
///     while (auto batch = loader.next()) train(batch->arrays[0]);
///
/// One thread at a time calls it. Using one that was moved from is a Type error.
class Loader {
 public:
  explicit Loader(SourcePtr source, LoaderOptions options = {});
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  const std::vector<Field>& fields() const;  // of a row of a batch
  const Source& source() const;
  std::int64_t rows() const;     // per epoch
  std::int64_t batches() const;  // per epoch

  /// The next batch; nothing, once, at the end of an epoch. Its storage is used again when the
  /// caller has let go of it. Errors of threads arrive here.
  std::optional<Batch> next();
  /// True as soon as `next` need not wait; false after that time.
  bool wait(std::chrono::milliseconds time);
  /// To the beginning of an epoch: the next one if some batches of this one were taken, unless
  /// `seek` led to where it stands.
  void begin_epoch();

  LoaderState state() const;
  /// What follows is what followed when the state was taken.
  void seek(const LoaderState& state);
  LoaderMemory memory() const;
  int threads() const;

 private:
  class Impl;
  Impl& made() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace snug::data
