#pragma once
#include <cstddef>
#include <cstdint>

namespace snug {

// Large blocks of memory, each a mapping of its own. The first touch of a fresh page and its return
// to the system take several times as long as computing what goes there, so some freed blocks are
// kept for whoever needs as many bytes again: up to a bound, and for some seconds.

/// From this size on arrays are blocks.
constexpr std::int64_t kBlockBytes = 1 << 20;

struct Block {
  std::byte* data = nullptr;  // none if the system refuses
  bool zero = false;          // fresh; one that was kept has any contents
};

/// `bytes` or the rest of their last page; huge pages where that is worth it. If the system
/// refuses, what is kept is given back before it is asked again.
Block take_block(std::int64_t bytes) noexcept;

/// Ends the use of a block of `bytes` that take_block gave: it is kept if `keep` and the bound
/// allow it, in place of those that are kept longest, or else given back to the system.
void give_block(std::byte* data, std::int64_t bytes, bool keep) noexcept;

/// Bytes that are kept now.
std::int64_t kept_block_bytes();

/// Gives back what is kept; the bytes that were.
std::int64_t drop_kept_blocks() noexcept;

/// Gives back what has not been used for kKeptSeconds. Every use of a block does it, too.
void drop_old_blocks() noexcept;
constexpr std::int64_t kKeptSeconds = 5;

/// Asked for the most bytes that may be kept, whenever a block is freed.
void set_kept_bound(std::int64_t (*bound)());

/// How many blocks were taken that had been kept: for tests and reports.
std::int64_t reused_blocks();

}  // namespace snug
