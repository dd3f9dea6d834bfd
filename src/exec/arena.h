#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/fork.h"
#include "target/memory_budget.h"

namespace snug {

/// The memory a call works in: one mapping, pre-faulted, followed by a guard page. It only grows,
/// and only between calls. It counts against the budget of the process.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// At least `bytes`; what was in it is lost. A Memory error that says how much `whose` call needs
  /// and how much is free if there is too little or the budget of the process does not allow it, or
  /// if the system refuses; the arena is then as it was, or empty.
  void ensure(std::uint64_t bytes, std::string_view whose = {});
  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }  // mapped, without the guard page

  static std::uint64_t mapped_for(std::uint64_t bytes);  // whole pages
  /// How many more bytes may be mapped, by what is free and by the budget of the process.
  static std::uint64_t most_to_map();
  static std::uint64_t mapped_in_process();  // by all arenas

 private:
  void unmap();
  MemoryClaim claim_{MemoryClaim::Kind::Arena};
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Arenas that functions share: a call leases one, so functions that never run at the same time
/// work in the same memory. A call never waits for an arena: those that run at the same time, one
/// inside another included, have one each.
class ArenaPool {
 public:
  static ArenaPool& shared();

  /// The smallest idle arena that is large enough, or else the largest, made larger.
  std::unique_ptr<Arena> lease(std::uint64_t bytes, std::string_view whose);
  void give_back(std::unique_ptr<Arena> arena) noexcept;

  /// A function that may need `before` bytes may now need `after`. Idle arenas larger than what
  /// anybody may need are unmapped.
  void change_claim(std::uint64_t before, std::uint64_t after);
  /// Bytes of the idle arena that a lease of `bytes` would take, 0 if there is none.
  std::uint64_t idle_for(std::uint64_t bytes) const;
  /// Unmaps all idle arenas; the next calls map theirs anew.
  void drop_idle();

 private:
  bool wanted(const Arena& arena) const;
  using Idle = std::vector<std::unique_ptr<Arena>>;
  Idle::const_iterator best_for(std::uint64_t bytes) const;
  mutable BriefMutex mutex_;
  Idle idle_;
  std::multiset<std::uint64_t> claims_;  // without those of 0
};

}  // namespace snug
