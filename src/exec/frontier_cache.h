#pragma once
#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/fork.h"
#include "exec/fit_loops.h"

namespace snug {

/// A function with all the ways to run it.
struct FrontierUser {
  std::atomic<std::int64_t> searches = 0;  // that it had to make
};

/// Frontiers that were built, by their keys, so that all budgets, questions and calls for one
/// program and set of sizes share them. Those not used for longest go where all together take too
/// much. What is found does not depend on what is kept. Any thread may use it.
class FrontierCache {
 public:
  explicit FrontierCache(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  static FrontierCache& of_process();

  /// Calls `use` with the frontiers for `key`, empty ones if there are none; nobody else has them
  /// meanwhile.
  template <class F>
  void with(std::string key, const std::shared_ptr<FrontierUser>& user, F&& use) {
    const std::shared_ptr<Entry> entry = find(std::move(key), user);
    std::lock_guard lock(entry->mutex);
    if (entry->mutex.lost_holder()) new (&entry->frontiers) ProgramFrontiers;  // half changed
    const std::int64_t before = entry->frontiers.searches();
    const Counted counted{*this, *entry};
    use(entry->frontiers);
    user->searches += entry->frontiers.searches() - before;
  }

  void clear();
  /// Drops what this one used last.
  void forget(const FrontierUser& user);

  std::size_t bytes() const;
  std::size_t count() const;

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<FrontierUser> user;  // the last one
    LongMutex mutex;                     // of the frontiers
    ProgramFrontiers frontiers;
    std::size_t bytes = 0;  // as counted in bytes_
    bool dropped = false;
  };
  /// Also where `use` throws: what was found until then is kept.
  struct Counted {
    FrontierCache& cache;
    Entry& entry;
    ~Counted() { cache.count_again(entry); }
  };
  std::shared_ptr<Entry> find(std::string key, const std::shared_ptr<FrontierUser>& user);
  void count_again(Entry& entry);
  using Entries = std::list<std::shared_ptr<Entry>>;
  void drop(Entries::iterator at);

  const std::size_t most_bytes_;
  mutable BriefMutex mutex_;  // of all below, and of the entries but for their frontiers
  Entries entries_;           // most recent first
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
  std::size_t bytes_ = 0;
};

}  // namespace snug
