#include "base/error.h"

#include <algorithm>
#include <numeric>

#include "base/origin_marks.h"

namespace snug {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t previous = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = previous;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view title_of(Fault fault) {
  switch (fault) {
    case Fault::Type: return "type error";
    case Fault::Shape: return "shape error";
    case Fault::Value: return "value error";
    case Fault::Index: return "index error";
    case Fault::Missing: return "missing input";
    case Fault::Unused: return "unused input";
    case Fault::Disconnected: return "disconnected gradient";
    case Fault::Undefined: return "undefined gradient";
    case Fault::Numeric: return "numeric error";
    case Fault::Assertion: return "assertion failed";
    case Fault::Unsupported: return "not supported";
    case Fault::Memory: return "memory error";
    case Fault::Device: return "device error";
    case Fault::Interrupted: return "interrupted";
    case Fault::Internal: return "internal error";
  }
  return "error";
}

std::string error_text(Fault fault, std::string_view message, std::string_view hint,
                       OriginId origin) {
  std::string text = fmt::format("{}: {}", title_of(fault), message);
  if (std::string where = describe(origin); !where.empty())
    text += fmt::format("\n  at    {}", where);
  if (!hint.empty()) text += fmt::format("\n  hint  {}", hint);
  return text;
}

Error::Error(Fault fault, std::string message, std::string hint, OriginId origin)
    : fault_(fault), origin_(origin), message_(std::move(message)), hint_(std::move(hint)) {
  write();
}

void Error::write() { text_ = error_text(fault_, message_, hint_, origin_); }

void Error::locate(OriginId origin) {
  if (origin_ & kStackMask) return;
  origin_ = origin;
  write();
}

void Error::reword(std::string message, std::string hint) {
  message_ = std::move(message);
  hint_ = std::move(hint);
  write();
}

namespace {

template <std::size_t... F>
[[noreturn]] void throw_one_of(Fault fault, std::string message, std::string hint, OriginId origin,
                               std::index_sequence<F...>) {
  if (fault == Fault::Memory)
    throw MemoryError(std::move(message), std::move(hint), MemoryNeed{}, origin);
  ((fault == static_cast<Fault>(F) &&
    (throw ErrorOf<static_cast<Fault>(F)>(std::move(message), std::move(hint), origin), true)),
   ...);
  throw InternalError(std::move(message), std::move(hint), origin);
}

}  // namespace

void fail_at(OriginId origin, Fault fault, std::string message, std::string hint) {
  throw_one_of(fault, std::move(message), std::move(hint), origin,
               std::make_index_sequence<static_cast<std::size_t>(Fault::Internal)>());
}

void fail(Fault fault, std::string message, std::string hint) {
  fail_at(current_origin(), fault, std::move(message), std::move(hint));
}

void fail_memory(MemoryNeed need, std::string message, std::string hint) {
  throw MemoryError(std::move(message), std::move(hint), std::move(need), current_origin());
}

void internal_error(std::string_view where, std::string message) {
  std::size_t src = where.rfind("src/");
  if (src != std::string_view::npos) where.remove_prefix(src + 4);
  throw InternalError(
      fmt::format("{}: {}", where, message),
      "this is a fault of Snug, not of your program; please report it with this text");
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    std::size_t d = edit_distance(name, candidate);
    if (d < best_distance) {
      best_distance = d;
      best = candidate;
    }
  }
  return best;
}

}  // namespace snug
