#include "base/error.h"

#include <algorithm>
#include <numeric>

#include "base/derivative_mark.h"

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

Error::Error(Fault fault, std::string message, std::string hint, OriginId origin)
    : fault_(fault), origin_(origin), message_(std::move(message)), hint_(std::move(hint)) {
  text_ = fmt::format("{}: {}", title_of(fault_), message_);
  if (std::string where = describe(origin_); !where.empty())
    text_ += fmt::format("\n  at    {}", where);
  if (!hint_.empty()) text_ += fmt::format("\n  hint  {}", hint_);
}

Error Error::at(OriginId origin) const {
  return origin_ & ~kDerivativeMark ? *this : Error(fault_, message_, hint_, origin);
}

void fail(Fault fault, std::string message, std::string hint) {
  throw Error(fault, std::move(message), std::move(hint), current_origin());
}

void internal_error(std::string_view where, std::string message) {
  std::size_t src = where.rfind("src/");
  if (src != std::string_view::npos) where.remove_prefix(src + 4);
  throw Error(Fault::Internal, fmt::format("{}: {}", where, message),
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
