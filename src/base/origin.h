#pragma once
#include <cstdint>
#include <functional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace snug {

/// One frame of the user's code. Line 0: a named part of a model, in place of a file.
struct Frame {
  std::string file;
  int line = 0;
  std::string function;
  bool operator==(const Frame&) const = default;
};

/// Where the user built an expression: an interned stack of up to 8 frames, innermost first.
/// 0 means unknown. Origins are no part of equality of nodes.
using OriginId = std::uint64_t;
inline constexpr std::size_t kMaxOriginFrames = 8;

OriginId intern_origin(std::span<const Frame> frames);
std::vector<Frame> frames_of(OriginId id);
/// "train.py:41", "features.3, train.py:41" in a named part of a model, or "" if unknown.
std::string describe(OriginId id);
/// The same origin inside the part of a model called `name`.
OriginId origin_in_part(OriginId id, const std::string& name);

/// The origin that expressions built now on this thread get.
OriginId current_origin();

/// Sets the current origin for a scope; the outermost scope wins, so that a composite function
/// keeps the user's line and not its own. Lines of the library itself set none.
class OriginScope {
 public:
  explicit OriginScope(OriginId id);
  OriginScope(const char* file, int line, const char* function);
  ~OriginScope();
  OriginScope(const OriginScope&) = delete;
  OriginScope& operator=(const OriginScope&) = delete;

 private:
  bool outermost_;
};

/// The origin where no scope is active and no script is asked: a function that has no expression of
/// the user's to tell its line (function, fit, the rules of optimizers) takes it as an argument.
/// Lines of the user's own code inside, as in a callback, stay theirs.
class FallbackOrigin {
 public:
  explicit FallbackOrigin(const std::source_location& where);
  ~FallbackOrigin();
  FallbackOrigin(const FallbackOrigin&) = delete;
  FallbackOrigin& operator=(const FallbackOrigin&) = delete;

 private:
  OriginId saved_;
};

/// Replaces the current origin whatever the outer scopes say: autodiff and rewrites use it to
/// pass on the origin of the node they work for.
class OriginOverride {
 public:
  explicit OriginOverride(OriginId id);
  ~OriginOverride();
  OriginOverride(const OriginOverride&) = delete;
  OriginOverride& operator=(const OriginOverride&) = delete;

 private:
  OriginId saved_;
  bool saved_active_, saved_overridden_;
};

/// A language binding installs a function that looks up the caller's frames; it is asked when no
/// scope is active.
void set_origin_hook(OriginId (*hook)());

}  // namespace snug
