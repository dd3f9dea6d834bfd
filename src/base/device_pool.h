#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "base/device_memory.h"
#include "base/error.h"
#include "base/fork.h"

namespace snug {

/// Memory of one kind that calls on a device work in, shared as ArenaPool shares that of the host:
/// a call leases a block, so functions that never run at the same time work in the same one.
template <class Memory>
class DevicePool {
 public:
  /// `make(bytes)` allocates; what is idle is given up first where it would not do.
  template <class Make>
  std::shared_ptr<Memory> lease(std::uint64_t bytes, Make&& make) {
    std::shared_ptr<Memory> found, too_small;
    {
      const std::lock_guard lock(mutex_);
      const auto fits = [&](const auto& m) { return size_of(*m) >= bytes; };
      auto best = idle_.end();
      for (auto it = idle_.begin(); it != idle_.end(); ++it)
        if (fits(*it) && (best == idle_.end() || size_of(**it) < size_of(**best))) best = it;
      if (best == idle_.end())  // none: the largest gives way
        best = std::max_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) {
          return size_of(*a) < size_of(*b);
        });
      if (best != idle_.end()) {
        (fits(*best) ? found : too_small) = std::move(*best);
        idle_.erase(best);
      }
    }
    if (found) return found;
    too_small.reset();
    try {
      return make(bytes);
    } catch (const MemoryError&) {
      if (!drop_idle()) throw;
    }
    return make(bytes);
  }

  void give_back(std::shared_ptr<Memory> memory) noexcept {
    const std::lock_guard lock(mutex_);
    if (memory && wanted(*memory)) idle_.push_back(std::move(memory));
  }

  /// Of blocks that nobody works in now.
  std::uint64_t idle_bytes() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t sum = 0;
    for (const auto& m : idle_) sum += size_of(*m);
    return sum;
  }
  /// Gives up what nobody works in; false if there is nothing.
  bool drop_idle() {
    Idle dropped;
    const std::lock_guard lock(mutex_);
    dropped.swap(idle_);
    idle_.reserve(dropped.capacity());  // what gives back must not fail
    return !dropped.empty();
  }

  /// A function that may need `before` bytes may now need `after`. Idle blocks larger than what
  /// anybody may need are given up.
  void change_claim(std::uint64_t before, std::uint64_t after) {
    Idle unwanted;  // given up after the lock
    const std::lock_guard lock(mutex_);
    if (before) claims_.erase(claims_.find(before));
    if (after) claims_.insert(after);
    idle_.reserve(claims_.size() + idle_.size() + 1);
    for (auto& m : idle_)
      if (!wanted(*m)) unwanted.push_back(std::move(m));
    std::erase(idle_, nullptr);
  }

 private:
  using Idle = std::vector<std::shared_ptr<Memory>>;
  static std::uint64_t size_of(const DeviceMemory& m) { return m.bytes(); }
  static std::uint64_t size_of(const StagingMemory& m) { return m.bytes; }
  bool wanted(const Memory& m) const { return !claims_.empty() && size_of(m) <= *claims_.rbegin(); }

  mutable BriefMutex mutex_;
  Idle idle_;
  std::multiset<std::uint64_t> claims_;  // without those of 0
};

}  // namespace snug
