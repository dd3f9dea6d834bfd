#include "base/origin.h"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>

#include "base/derivative_mark.h"
#include "base/fork.h"

namespace snug {
namespace {

struct FrameLess {
  bool operator()(const std::vector<Frame>& a, const std::vector<Frame>& b) const {
    return std::lexicographical_compare(
        a.begin(), a.end(), b.begin(), b.end(), [](const Frame& x, const Frame& y) {
          return std::tie(x.file, x.line, x.function) < std::tie(y.file, y.line, y.function);
        });
  }
};

struct Table {
  BriefMutex mutex;
  std::vector<const std::vector<Frame>*> stacks{nullptr};
  std::map<std::vector<Frame>, OriginId, FrameLess> ids;
};

Table& table() {
  static Table* t = new Table;  // lives as long as any thread may ask
  return *t;
}

thread_local OriginId current = 0;
thread_local bool active = false;
std::atomic<OriginId (*)()> hook{nullptr};

}  // namespace

OriginId intern_origin(std::span<const Frame> frames) {
  if (frames.empty()) return 0;
  std::vector<Frame> key(frames.begin(),
                         frames.begin() + std::min(frames.size(), kMaxOriginFrames));
  std::lock_guard lock(table().mutex);
  auto [it, added] = table().ids.try_emplace(std::move(key), 0);
  if (added) {
    it->second = static_cast<OriginId>(table().stacks.size());
    table().stacks.push_back(&it->first);
  }
  return it->second;
}

std::vector<Frame> frames_of(OriginId id) {
  id &= ~kDerivativeMark;
  std::lock_guard lock(table().mutex);
  if (id == 0 || id >= table().stacks.size()) return {};
  return *table().stacks[id];
}

std::string describe(OriginId id) {
  std::vector<Frame> frames = frames_of(id);
  if (frames.empty()) return {};
  if (frames[0].line > 0) return fmt::format("{}:{}", frames[0].file, frames[0].line);
  if (frames.size() == 1) return frames[0].file;
  return fmt::format("{}, {}:{}", frames[0].file, frames[1].file, frames[1].line);
}

OriginId origin_in_part(OriginId id, const std::string& name) {
  std::vector<Frame> frames = frames_of(id);
  if (!frames.empty() && frames[0].line == 0) frames.erase(frames.begin());
  frames.insert(frames.begin(), Frame{name, 0, {}});
  return intern_origin(frames);
}

OriginId current_origin() {
  if (active) return current;
  if (auto h = hook.load()) return h();
  return 0;
}

OriginScope::OriginScope(OriginId id) : outermost_(!active) {
  if (outermost_) {
    current = id;
    active = true;
  }
}

OriginScope::OriginScope(const char* file, int line, const char* function) : outermost_(!active) {
  if (!outermost_) return;
  if (auto h = hook.load()) {  // a script called: its line says more than ours
    current = h();
    if (current == 0) {
      Frame frame{file, line, function};
      current = intern_origin({&frame, 1});
    }
  } else {
    Frame frame{file, line, function};
    current = intern_origin({&frame, 1});
  }
  active = true;
}

OriginScope::~OriginScope() {
  if (outermost_) active = false;
}

OriginOverride::OriginOverride(OriginId id) : saved_(current), saved_active_(active) {
  current = id;
  active = true;
}

OriginOverride::~OriginOverride() {
  current = saved_;
  active = saved_active_;
}

void set_origin_hook(OriginId (*h)()) { hook = h; }

}  // namespace snug
