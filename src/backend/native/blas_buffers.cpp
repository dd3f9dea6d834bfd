#include "backend/native/blas_buffers.h"

#include <algorithm>
#include <climits>
#include <mutex>
#include <utility>
#include <vector>

#include "backend/native/blas_library.h"
#include "base/error.h"
#include "base/fork.h"
#include "target/free_memory.h"

namespace snug::native {
namespace {

constexpr std::uint64_t kPackedBytes = std::uint64_t{16} << 20;  // of one, that usual sizes touch

struct Buffers {
  BriefMutex mutex;
  int held = 0;
  std::vector<void*> known;  // mapped at our request
};
Buffers& buffers() {
  static Buffers& instance = *new Buffers;
  return instance;
}

/// Maps until `count` are known. Those that are free come first and are held meanwhile, so that new
/// ones follow.
void map_up_to(std::size_t count, std::vector<void*>& known) {
  std::vector<void*> taken;
  taken.reserve(2 * count);
  known.reserve(count);
  while (known.size() < count) {
    void* const buffer = blas().blas_memory_alloc(0);
    if (!buffer) break;  // its table is full; it then says so by itself
    taken.push_back(buffer);
    if (std::find(known.begin(), known.end(), buffer) == known.end()) known.push_back(buffer);
  }
  for (void* buffer : taken) blas().blas_memory_free(buffer);
}

/// For `count` more, with what calls that run now may map if they find theirs taken meanwhile.
Room room_for(std::size_t count, const Buffers& b) {
  const std::uint64_t most = count + static_cast<std::size_t>(b.held);
  return {most * BlasBuffers::kBytes, most * kPackedBytes};
}

thread_local int granted_here = INT_MAX;

}  // namespace

BlasBuffers::BlasBuffers(int count) {
  if (count == 0) return;
  blas();
  Buffers& b = buffers();
  const std::lock_guard lock(b.mutex);
  const auto wanted = static_cast<std::size_t>(b.held + count);
  if (wanted > b.known.size()) {
    std::size_t more = wanted - b.known.size();
    while (more > 0 && !has_room(room_for(more, b))) --more;
    map_up_to(b.known.size() + more, b.known);
  }
  granted_ = std::min(count, static_cast<int>(b.known.size()) - b.held);
  if (granted_ < 1) {
    require_room(room_for(1, b), "a buffer of OpenBLAS");
    map_up_to(b.known.size() + 1, b.known);
    granted_ = 1;
  }
  b.held += granted_;
  outside_ = std::exchange(granted_here, granted_);
}

BlasBuffers::~BlasBuffers() {
  if (granted_ == 0) return;
  granted_here = outside_;
  Buffers& b = buffers();
  const std::lock_guard lock(b.mutex);
  b.held -= granted_;
}

int BlasBuffers::threads_for(int threads) { return std::min(threads, granted_here); }

std::uint64_t BlasBuffers::bytes_needed() {
  if (!blas_is_loaded()) return bytes_to_load() + kBytes;
  Buffers& b = buffers();
  const std::lock_guard lock(b.mutex);
  return static_cast<int>(b.known.size()) > b.held ? 0 : kBytes;
}

void load_blas_under_limits() {
  constexpr Room kEverything{std::uint64_t{1} << 46, 0};
  if (blas_is_loaded() || has_room(kEverything)) return;
  try {
    const BlasBuffers first(1);
  } catch (const Error& e) {  // then a call that needs it is refused
    if (e.fault() != Fault::Memory) throw;
  }
}

std::string blas_version() try { return blas().openblas_get_config(); } catch (const Error&) {
  return "";
}

}  // namespace snug::native
