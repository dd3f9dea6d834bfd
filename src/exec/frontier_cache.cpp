#include "exec/frontier_cache.h"

namespace snug {

FrontierCache& FrontierCache::of_process() {
  constexpr std::size_t kMostBytes = std::size_t{32} << 20;
  static FrontierCache cache(kMostBytes);
  return cache;
}

std::shared_ptr<FrontierCache::Entry> FrontierCache::find(
    std::string key, const std::shared_ptr<FrontierUser>& user) {
  std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, known->second);
  } else {
    auto entry = std::make_shared<Entry>();
    entry->key = std::move(key);
    entries_.push_front(std::move(entry));
    by_key_.emplace(entries_.front()->key, entries_.begin());
  }
  entries_.front()->user = user;
  return entries_.front();
}

void FrontierCache::count_again(Entry& entry) {
  const std::size_t bytes = sizeof(Entry) + entry.key.capacity() + entry.frontiers.bytes();
  std::lock_guard lock(mutex_);
  if (entry.dropped) return;
  bytes_ += bytes - entry.bytes;
  entry.bytes = bytes;
  if (bytes > most_bytes_) drop(by_key_.at(entry.key));  // alone, not all others before it
  while (bytes_ > most_bytes_) drop(std::prev(entries_.end()));
}

void FrontierCache::drop(Entries::iterator at) {
  Entry& entry = **at;
  entry.dropped = true;  // one that is in use goes when that ends
  bytes_ -= entry.bytes;
  by_key_.erase(entry.key);
  entries_.erase(at);
}

void FrontierCache::forget(const FrontierUser& user) {
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto next = std::next(at);
    if ((*at)->user.get() == &user) drop(at);
    at = next;
  }
}

void FrontierCache::clear() {
  std::lock_guard lock(mutex_);
  while (!entries_.empty()) drop(entries_.begin());
}

std::size_t FrontierCache::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t FrontierCache::count() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace snug
