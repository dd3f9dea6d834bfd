#include "exec/arena.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/huge_pages.h"

namespace snug {
namespace {
std::uint64_t page() {
  static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return size;
}
}  // namespace

Arena::~Arena() { release(); }

void Arena::release() {
  if (data_) munmap(data_, bytes_ + page());
  data_ = nullptr;
  bytes_ = 0;
}

void Arena::ensure(std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  release();
  std::uint64_t rounded = (bytes + page() - 1) / page() * page();
  void* p =
      mmap(nullptr, rounded + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    fail(Fault::Memory, fmt::format("the system refused {} bytes for the arena", rounded),
         "free memory, use smaller batches, or give a budget: function(..., memory=\"...\")");
  mprotect(static_cast<std::byte*>(p) + rounded, page(), PROT_NONE);
  prefer_huge_pages(p, rounded);
#ifdef MADV_POPULATE_WRITE
  bool populated = madvise(p, rounded, MADV_POPULATE_WRITE) == 0;
#else
  bool populated = false;
#endif
  if (!populated)
    for (std::uint64_t i = 0; i < rounded; i += page()) static_cast<volatile char*>(p)[i] = 0;
  data_ = static_cast<std::byte*>(p);
  bytes_ = rounded;
}

}  // namespace snug
