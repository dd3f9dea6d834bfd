#include "base/origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/fork.h"
#include "base/origin_marks.h"
#include "base/spelling.h"

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
  std::deque<std::string> words{""};  // their places stay
  std::map<std::string_view, OriginId> word_ids;
  std::deque<std::string> devices{""};
};

Table& table() {
  static Table* t = new Table;  // lives as long as any thread may ask
  return *t;
}

thread_local OriginId current = 0;
thread_local bool active = false, overridden = false;
thread_local OriginId fallback = 0;
thread_local OriginId device = 0;  // a mark that origins begin with
std::atomic<OriginId (*)()> hook{nullptr};

/// Whether a file is one of the library's sources: those lie below the folder above this file's.
bool is_ours(std::string_view file) {
  static constexpr std::string_view here = __FILE__;
  static constexpr std::string_view root =
      here.substr(0, here.size() - sizeof "base/origin.cpp" + 1);
  static_assert(here.ends_with("src/base/origin.cpp"));
  return file.starts_with(root);
}

/// 0 for lines of the library and of the tool, which are not the user's. Where a script calls, its
/// line is asked for.
OriginId origin_of(const char* file, int line, const char* function) {
  if (auto h = hook.load()) return h();
  if (is_ours(file) || language() == Language::Tool) return 0;
  const Frame frame{file, line, function};
  return intern_origin({&frame, 1});
}

}  // namespace

OriginId intern_origin(std::span<const Frame> frames) {
  if (frames.empty()) return 0;
  std::vector<Frame> key(frames.begin(),
                         frames.begin() + std::min(frames.size(), kMaxOriginFrames));
  std::lock_guard lock(table().mutex);
  auto [it, added] = table().ids.try_emplace(std::move(key), 0);
  if (added && table().stacks.size() <= kStackMask) {
    it->second = static_cast<OriginId>(table().stacks.size());
    table().stacks.push_back(&it->first);
  }
  return it->second;  // 0: there are more than can be told apart
}

std::vector<Frame> frames_of(OriginId id) {
  id &= kStackMask;
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
  return intern_origin(frames) | (id & kDeviceMask);
}

OriginId current_origin() {
  if (active) return overridden ? current : current | device;
  if (auto h = hook.load())
    if (const OriginId id = h()) return id | device;
  return fallback | device;
}

OriginScope::OriginScope(OriginId id) : outermost_(!active) {
  if (outermost_) {
    current = id;
    active = true;
  }
}

OriginScope::OriginScope(const char* file, int line, const char* function) : outermost_(false) {
  if (active) return;
  const OriginId id = origin_of(file, line, function);
  if (id == 0) return;
  outermost_ = true;
  current = id;
  active = true;
}

OriginScope::~OriginScope() {
  if (outermost_) active = false;
}

FallbackOrigin::FallbackOrigin(const std::source_location& where) : saved_(fallback) {
  const OriginId id =
      origin_of(where.file_name(), static_cast<int>(where.line()), where.function_name());
  if (id) fallback = id;
}
FallbackOrigin::~FallbackOrigin() { fallback = saved_; }

OriginOverride::OriginOverride(OriginId id)
    : saved_(current), saved_active_(active), saved_overridden_(overridden) {
  current = id;
  active = overridden = true;
}

OriginOverride::~OriginOverride() {
  current = saved_;
  active = saved_active_;
  overridden = saved_overridden_;
}

std::string_view word_of(OriginId id) {
  std::lock_guard lock(table().mutex);
  return table().words[(id & kWordMask) >> kWordShift];
}

OriginId with_word(OriginId id, std::string_view word) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto known = t.word_ids.find(word);
  if (known == t.word_ids.end()) {
    if (t.words.size() > kWordMask >> kWordShift) return id;
    t.words.emplace_back(word);
    known = t.word_ids.emplace(t.words.back(), static_cast<OriginId>(t.words.size() - 1)).first;
  }
  return (id & ~kWordMask) | known->second << kWordShift;
}

std::string_view device_mark(OriginId id) {
  std::lock_guard lock(table().mutex);
  return table().devices[(id & kDeviceMask) >> kDeviceShift];
}

OriginId with_device_mark(OriginId id, std::string_view name) {
  std::deque<std::string>& names = table().devices;
  std::lock_guard lock(table().mutex);
  const auto known = std::find(names.begin(), names.end(), name);
  const auto number = static_cast<OriginId>(known - names.begin());
  if (known == names.end()) {
    if (number > kDeviceMask >> kDeviceShift)
      fail(Fault::Value, fmt::format("there are expressions on {} devices already", number - 1));
    names.emplace_back(name);
  }
  return (id & ~kDeviceMask) | number << kDeviceShift;
}

std::string_view set_current_device_mark(std::string_view name) {
  return device_mark(std::exchange(device, with_device_mark(0, name)));
}

OriginId with_current_device(OriginId id) { return id | device; }

WordScope::WordScope(const char* word) : saved_(current) {
  if (word && (current & kWordMask) == 0) current = with_word(current, word);
}

WordScope::~WordScope() { current = saved_; }

void set_origin_hook(OriginId (*h)()) { hook = h; }

}  // namespace snug
