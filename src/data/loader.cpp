#include "data/loader.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/file_error.h"
#include "base/fork.h"
#include "base/threads.h"
#include "data/memory_shares.h"
#include "data/pipeline.h"
#include "data/windows.h"
#include "target/memory_budget.h"

namespace snug::data {
namespace {

/// The storage of a batch, one per field.
using Buffers = std::vector<std::shared_ptr<Storage>>;

/// Buffers of batches. Those with the caller come back when nobody but the pool holds them.
class BufferPool {
 public:
  explicit BufferPool(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {}

  Buffers take() {
    {
      std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < given_.size(); ++i) {
        if (!free(given_[i])) continue;
        Buffers found = std::move(given_[i]);
        given_.erase(given_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
      // The caller keeps what it holds of these; they are no longer ours.
      while (given_.size() > kBatchesWithCaller) {
        count(given_.front(), -1);
        given_.erase(given_.begin());
      }
    }
    Buffers fresh;
    for (std::int64_t size : sizes_) fresh.push_back(Storage::allocate(size));
    count(fresh, 1);
    return fresh;
  }
  void give(Buffers buffers) {
    std::lock_guard lock(mutex_);
    given_.push_back(std::move(buffers));
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  static bool free(const Buffers& buffers) {
    for (const auto& storage : buffers)
      if (storage.use_count() != 1) return false;
    std::atomic_thread_fence(std::memory_order_acquire);  // after the last use by the caller
    return true;
  }
  void count(const Buffers& buffers, int sign) {
    for (const auto& storage : buffers) bytes_ += sign * storage->bytes();
  }

  std::vector<std::int64_t> sizes_;
  BriefMutex mutex_;
  std::vector<Buffers> given_;
  std::atomic<std::int64_t> bytes_{0};
};

struct Slot {
  bool ready = false;
  Buffers buffers;
  std::exception_ptr error;
};

struct Stopped {};

}  // namespace

/// Batches are numbered over all epochs: batch b of epoch e is e * batches + b.
class Loader::Impl {
 public:
  Impl(SourcePtr source, LoaderOptions options)
      : source_(std::move(source)),
        options_(std::move(options)),
        pipeline_(checked(*source_, options_), options_.transforms, options_.floats),
        shares_(share_memory(*source_, pipeline_, options_)),
        order_({source_->rows(), source_->block(), source_->phase(), shares_.window_blocks,
                options_.shuffle, options_.seed}),
        claim_(MemoryClaim::Kind::Loader, static_cast<std::uint64_t>(shares_.limit), "a loader"),
        pool_(buffer_sizes()) {
    const std::int64_t rows = source_->rows(), batch = options_.batch;
    batches_ = options_.drop_last ? rows / batch : (rows + batch - 1) / batch;
    used_ = std::min(rows, batches_ * batch);
    if (rows > 0 && batches_ == 0)
      fail(Fault::Value,
           fmt::format("Loader: drop_last leaves no batch: {} rows, batches of {}", rows, batch));
  }
  ~Impl() { halt(); }

  std::optional<Batch> next() {
    if (at_end_ || batches_ == 0) {
      at_end_ = false;
      return {};
    }
    start();
    Slot slot;
    {
      std::unique_lock lock(crew_->mutex);
      Slot& place = crew_->slots[taken_ % shares_.slots];
      crew_->finished.wait(lock, [&] { return place.ready; });
      if (place.error) rethrow(place.error);
      slot = std::move(place);
      place = {};
      ++taken_;
      crew_->wanted.notify_one();
    }
    Batch batch;
    batch.epoch = (taken_ - 1) / batches_;
    batch.number = (taken_ - 1) % batches_;
    const std::int64_t rows = rows_of(batch.number);
    for (std::size_t f = 0; f < slot.buffers.size(); ++f) {
      Array array;
      array.dtype = fields()[f].dtype;
      array.shape = fields()[f].shape;
      array.shape.insert(0, rows);
      array.strides = contiguous_strides(array.shape);
      array.storage = slot.buffers[f];
      array.data = array.storage->data();
      batch.arrays.push_back(std::move(array));
    }
    pool_.give(std::move(slot.buffers));
    at_end_ = taken_ % batches_ == 0;
    return batch;
  }

  bool wait(std::chrono::milliseconds time) {
    if (at_end_ || batches_ == 0) return true;
    start();
    std::unique_lock lock(crew_->mutex);
    return crew_->finished.wait_for(lock, time,
                                    [&] { return crew_->slots[taken_ % shares_.slots].ready; });
  }

  void begin_epoch() {
    const bool sought = sought_;
    at_end_ = sought_ = false;
    if (sought || batches_ == 0 || taken_ % batches_ == 0) return;
    halt();
    taken_ = (taken_ / batches_ + 1) * batches_;
  }

  LoaderState state() const {
    LoaderState state = signature();
    if (batches_ > 0) {
      state.epoch = taken_ / batches_;
      state.batch = taken_ % batches_;
    }
    return state;
  }

  void seek(const LoaderState& state) {
    LoaderState expected = signature();
    expected.epoch = state.epoch;
    expected.batch = state.batch;
    expected.seed = state.seed;
    if (state != expected)
      fail(Fault::Value,
           fmt::format("Loader.seek: the state is of {} rows in batches of {}, {}, with windows of "
                       "{} rows; this loader has {} rows in batches of {}, {}, with windows of {}",
                       state.rows, state.batch_rows, shuffle_text(state), state.window_rows,
                       expected.rows, expected.batch_rows, shuffle_text(expected),
                       expected.window_rows),
           "use the same source, batch, shuffle and memory");
    if (state.epoch < 0 || state.batch < 0 || (batches_ > 0 && state.batch >= batches_) ||
        state.epoch > (std::int64_t{1} << 40))
      fail(Fault::Value, fmt::format("Loader.seek: batch {} of epoch {}: an epoch has {} batches",
                                     state.batch, state.epoch, batches_));
    halt();
    if (state.seed != options_.seed) {
      options_.seed = state.seed;
      order_ = Order({source_->rows(), source_->block(), source_->phase(), shares_.window_blocks,
                      options_.shuffle, options_.seed});
    }
    taken_ = state.epoch * batches_ + state.batch;
    at_end_ = false;
    sought_ = true;
  }

  LoaderMemory memory() const {
    const bool works = crew_ != nullptr;
    return {shares_.limit, works && crew_->windows ? crew_->windows->bytes() : 0, pool_.bytes(),
            works ? static_cast<std::int64_t>(crew_->workers.size()) * shares_.work_bytes : 0,
            source_->own_bytes()};
  }

  const std::vector<Field>& fields() const { return pipeline_.fields(); }
  const Source& source() const { return *source_; }
  std::int64_t used() const { return used_; }
  std::int64_t batches() const { return batches_; }
  int threads() const { return shares_.threads; }

 private:
  static const std::vector<Field>& checked(const Source& source, const LoaderOptions& options) {
    if (options.batch < 1)
      fail(Fault::Value, fmt::format("Loader: a batch of {} rows", options.batch));
    if (options.threads < 0 || options.threads > kMostThreads)
      fail(Fault::Value, fmt::format("Loader: threads is {}", options.threads),
           fmt::format("it is a number up to {}, or 0 for half of the cores", kMostThreads));
    if (options.floats && !is_float(*options.floats))
      fail(Fault::Type,
           fmt::format("Loader: floats is a dtype of floats, not {}", name_of(*options.floats)));
    for (const Field& field : source.fields())
      if (field.shape.size() > 7)
        fail(Fault::Unsupported,
             fmt::format("Loader: the field {} has no room for the axis of rows", describe(field)));
    return source.fields();
  }

  std::vector<std::int64_t> buffer_sizes() const {
    std::vector<std::int64_t> sizes;
    const std::int64_t rows = std::min(options_.batch, std::max<std::int64_t>(source_->rows(), 1));
    for (const Field& field : pipeline_.fields()) sizes.push_back(rows * field.bytes());
    return sizes;
  }

  LoaderState signature() const {
    LoaderState state;
    state.seed = options_.seed;
    state.rows = source_->rows();
    state.batch_rows = options_.batch;
    state.shuffle = options_.shuffle;
    if (order_.windowed() && options_.shuffle)
      state.window_rows = shares_.window_blocks * source_->block();
    return state;
  }
  static const char* shuffle_text(const LoaderState& state) {
    return state.shuffle ? "shuffled" : "in order";
  }

  [[noreturn]] static void rethrow(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const FileError&) {
      throw;
    } catch (Error& e) {
      e.locate(current_origin());
      throw;
    }
  }

  std::int64_t rows_of(std::int64_t number) const {
    return std::min(options_.batch, used_ - number * options_.batch);
  }

  /// The threads that make batches, and what they share with the caller. In the child of a fork
  /// the threads are missing: it leaves this alone and starts over where the caller is.
  struct Crew {
    std::mutex mutex;
    std::condition_variable wanted, finished;
    std::int64_t given = 0;  // batches that threads have begun
    std::vector<Slot> slots;
    std::atomic<bool> stop{false};
    std::unique_ptr<WindowReader> windows;
    std::vector<std::thread> workers;
  };

  void start() {
    if (crew_) return;
    crew_ = std::make_unique<Crew>();
    crew_->given = taken_;
    crew_->slots.assign(shares_.slots, {});
    try {
      if (order_.windowed())
        crew_->windows = std::make_unique<WindowReader>(source_, order_, taken_ / batches_,
                                                        taken_ % batches_ * options_.batch, used_);
      start_workers();
    } catch (...) {
      halt();
      throw;
    }
  }

  /// As many as the system starts, one at least.
  void start_workers() {
    const auto wanted = static_cast<std::size_t>(shares_.threads);
    crew_->workers.reserve(wanted);
    const auto start_one = [&] {
      crew_->workers.push_back(start_thread([this] { work(); }, "Loader"));
    };
    start_one();
    try {
      while (crew_->workers.size() < wanted) start_one();
    } catch (const Error&) {
      warn_of_fewer_threads(wanted, crew_->workers.size());
    }
  }

  /// Ends the threads and forgets what they made ahead.
  void halt() {
    if (!crew_) return;
    {
      std::lock_guard lock(crew_->mutex);
      crew_->stop = true;
      crew_->wanted.notify_all();
    }
    if (crew_->windows) crew_->windows->stop();
    for (std::thread& worker : crew_->workers) worker.join();
    for (Slot& slot : crew_->slots)
      if (!slot.buffers.empty()) pool_.give(std::move(slot.buffers));
    crew_.reset();
  }

  void work() {
    Crew& crew = *crew_;
    std::shared_ptr<Storage> scratch;
    std::unique_lock lock(crew.mutex);
    while (true) {
      crew.wanted.wait(lock, [&] { return crew.stop || crew.given < taken_ + shares_.slots; });
      if (crew.stop) return;
      const std::int64_t number = crew.given++;
      lock.unlock();
      Slot made;
      made.ready = true;
      try {
        if (!scratch) scratch = Storage::allocate(shares_.work_bytes);
        made.buffers = pool_.take();
        fill(number, made.buffers, scratch->data());
      } catch (const Stopped&) {
        pool_.give(std::move(made.buffers));
        return;
      } catch (...) {
        made.error = std::current_exception();
      }
      lock.lock();
      crew.slots[number % shares_.slots] = std::move(made);
      crew.finished.notify_all();
    }
  }

  /// Where a batch is made.
  struct Target {
    std::vector<std::byte*> out;  // the next row of each field
    std::uint64_t key;
    std::byte* scratch;
  };

  void fill(std::int64_t number, const Buffers& buffers, std::byte* scratch) {
    const std::int64_t epoch = number / batches_, batch = number % batches_;
    Target target;
    for (const auto& storage : buffers) target.out.push_back(storage->data());
    target.key = make_key(options_.seed, Purpose::Rows, epoch);
    target.scratch = scratch;
    const std::int64_t begin = batch * options_.batch, end = begin + rows_of(batch);
    if (order_.windowed())
      fill_from_windows(epoch, begin, end, target);
    else
      fill_from_source(epoch, begin, end, target);
  }

  void advance(Target& target, std::int64_t rows = 1) const {
    for (std::size_t f = 0; f < target.out.size(); ++f) target.out[f] += rows * fields()[f].bytes();
  }

  void fill_from_windows(std::int64_t epoch, std::int64_t begin, std::int64_t end, Target& target) {
    while (begin < end) {
      const std::int64_t w = order_.window_of(begin);
      const Window* window = crew_->windows->wait(epoch, w);
      if (!window) throw Stopped();
      const std::int64_t first = order_.window_begin(w);
      const std::int64_t count = std::min(end, order_.window_end(w)) - begin;
      const Permutation inside = order_.inside(epoch, w);
      for (std::int64_t i = begin - first; i < begin - first + count; ++i) {
        const std::int64_t place = order_.shuffled() ? inside(i) : i;
        const std::int64_t row = window->source_row(place);
        for (std::size_t f = 0; f < target.out.size(); ++f) {
          const std::int64_t bytes = source_->fields()[f].bytes();
          const std::byte* from = window->data[f]->data() + place * bytes;
          if (pipeline_.plain(f))
            std::memcpy(target.out[f], from, bytes);
          else
            pipeline_.run(f, from, target.out[f], target.key, row, target.scratch);
        }
        advance(target);
      }
      crew_->windows->release(*window, count);
      begin += count;
    }
  }

  void fill_from_source(std::int64_t epoch, std::int64_t begin, std::int64_t end, Target& target) {
    const Permutation order = order_.rows(epoch);
    std::vector<std::int64_t> rows;
    while (begin < end) {
      const std::int64_t count = std::min(shares_.piece_rows, end - begin);
      rows.clear();
      for (std::int64_t i = 0; i < count; ++i)
        rows.push_back(order_.shuffled() ? order(begin + i) : begin + i);
      // Rows that need work are read beside the batch, the others into it.
      std::vector<std::byte*> from;
      std::byte* beside = target.scratch + pipeline_.scratch_bytes();
      for (std::size_t f = 0; f < target.out.size(); ++f) {
        from.push_back(pipeline_.plain(f) ? target.out[f] : beside);
        if (!pipeline_.plain(f)) beside += shares_.piece_rows * source_->fields()[f].bytes();
      }
      read_rows(rows, from);
      for (std::size_t f = 0; f < target.out.size(); ++f) {
        if (pipeline_.plain(f)) continue;
        for (std::int64_t i = 0; i < count; ++i)
          pipeline_.run(f, from[f] + i * source_->fields()[f].bytes(),
                        target.out[f] + i * fields()[f].bytes(), target.key, rows[i],
                        target.scratch);
      }
      advance(target, count);
      begin += count;
    }
  }

  /// Rows that follow each other are read at once, but not so many that `halt` waits long.
  void read_rows(const std::vector<std::int64_t>& rows, std::vector<std::byte*> out) const {
    constexpr std::int64_t kBytes = 1 << 16, kRows = 16;
    std::int64_t row_bytes = 1;
    for (const Field& field : source_->fields()) row_bytes += field.bytes();
    const auto most = static_cast<std::size_t>(std::max(kBytes / row_bytes, kRows));
    for (std::size_t i = 0; i < rows.size();) {
      if (crew_->stop) throw Stopped();
      std::size_t run = 1;
      while (run < most && i + run < rows.size() &&
             rows[i + run] == rows[i] + static_cast<std::int64_t>(run))
        ++run;
      source_->read(rows[i], static_cast<std::int64_t>(run), out);
      for (std::size_t f = 0; f < out.size(); ++f)
        out[f] += static_cast<std::int64_t>(run) * source_->fields()[f].bytes();
      i += run;
    }
  }

  SourcePtr source_;
  LoaderOptions options_;
  Pipeline pipeline_;
  MemoryShares shares_;
  Order order_;
  MemoryClaim claim_;
  BufferPool pool_;
  std::int64_t batches_ = 0, used_ = 0;
  bool at_end_ = false;  // of an epoch, and the caller does not know yet
  bool sought_ = false;  // `seek` led here

  std::int64_t taken_ = 0;      // batches the caller has had; written by its thread alone
  std::unique_ptr<Crew> crew_;  // null: no threads
  const ForkHook hook_{[](void* self) { (void)static_cast<Impl*>(self)->crew_.release(); }, this};
};

Loader::Loader(SourcePtr source, LoaderOptions options)
    : impl_(std::make_unique<Impl>(required("Loader", std::move(source)), std::move(options))) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

Loader::Impl& Loader::made() const {
  if (!impl_) fail(Fault::Type, "a Loader that was moved from was used");
  return *impl_;
}
const std::vector<Field>& Loader::fields() const { return made().fields(); }
const Source& Loader::source() const { return made().source(); }
std::int64_t Loader::rows() const { return made().used(); }
std::int64_t Loader::batches() const { return made().batches(); }
std::optional<Batch> Loader::next() { return made().next(); }
bool Loader::wait(std::chrono::milliseconds time) { return made().wait(time); }
void Loader::begin_epoch() { made().begin_epoch(); }
LoaderState Loader::state() const { return made().state(); }
void Loader::seek(const LoaderState& state) { made().seek(state); }
LoaderMemory Loader::memory() const { return made().memory(); }
int Loader::threads() const { return made().threads(); }

}  // namespace snug::data
