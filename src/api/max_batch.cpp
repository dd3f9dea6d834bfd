// The largest batches that fit a budget.
#include "api/max_batch.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/batch_search.h"
#include "api/strategy.h"
#include "base/bytes.h"
#include "base/seconds.h"
#include "base/spelling.h"

namespace snug {
namespace {

constexpr const char *kAsItIs = "as it is", *kRecompute = "recompute", *kInSlices = "slices",
                     *kOther = "file or rounding";

/// What a plan does to keep to a budget; "" if nothing.
std::string techniques(const MemoryReport& r) {
  std::vector<std::string> used;
  if (r.micro_batches > 1) used.push_back(fmt::format("in {} slices", r.micro_batches));
  if (!r.recomputed.empty()) used.emplace_back("tasks run again");
  if (r.offloaded > 0) used.emplace_back("values go to a file");
  if (r.rounded > 0) used.emplace_back("activations in bfloat16");
  return fmt::format("{}", fmt::join(used, ", "));
}

/// The way that a plan needs, of those that there are rows for.
std::string way_name(const MemoryReport& r) {
  if (r.offloaded > 0 || r.rounded > 0) return kOther;
  return r.micro_batches > 1 ? kInSlices : r.recomputed.empty() ? kAsItIs : kRecompute;
}

/// Of what says why a function cannot run in slices, the reason alone.
std::string why_not(std::string_view text) {
  constexpr std::string_view kStart = "micro_batches: ", kEnd = ", so the batch cannot";
  if (text.starts_with(kStart)) text.remove_prefix(kStart.size());
  return std::string(text.substr(0, text.find(kEnd)));
}

std::string percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

std::string batch_text(const BatchWay& w) {
  return fmt::format("batch {}{}", w.rows, w.how.empty() ? " as it is" : ", " + w.how);
}

}  // namespace

double BatchWay::seconds_per_row() const {
  return rows > 0 ? plan.seconds / static_cast<double>(rows) : 0;
}

std::string MaxBatch::describe() const {
  const std::string where =
      device == 0 ? "memory" : fmt::format("on {}", plan.devices[device - 1].name);
  std::string text = fmt::format("  {:<14} {:>9} {:>12} {:>10} {:>10}\n", "way", "batch", where,
                                 "per row", "step");
  const auto time = [](double seconds) {
    return seconds > 0 ? describe_seconds(seconds) : std::string("-");
  };
  for (const BatchWay& w : ways) {
    text +=
        w.rows == 0
            ? fmt::format("  {:<14} {:>9}", w.name, "none")
            : fmt::format("  {:<14} {:>9} {:>12} {:>10} {:>10}", w.name, w.rows,
                          describe_bytes(static_cast<std::uint64_t>(use_of(w.plan, device).peak)),
                          time(w.seconds_per_row()), time(w.plan.seconds));
    text += w.how.empty() ? "\n" : fmt::format("\n    {}\n", w.how);
  }
  if (advised.rows == 0) return text + "not even one row fits\n";
  return text + fmt::format("advised: {}; {}\n", batch_text(advised), why);
}

namespace {

/// How full memories are: the bytes of the one that there is, or of several that which is fullest,
/// as a part of kFull.
constexpr std::int64_t kFull = std::int64_t{1} << 40;
std::int64_t fullness(const Budgets& budgets, const MemoryReport& r) {
  if (r.devices.empty()) return r.peak;
  std::int64_t most = 0;
  for (std::size_t d = 0; d <= r.devices.size(); ++d)
    if (const std::uint64_t budget = budgets.of(d)) {
      const auto part =
          (static_cast<unsigned __int128>(use_of(r, d).peak) * kFull + budget - 1) / budget;
      most =
          std::max(most, static_cast<std::int64_t>(std::min<unsigned __int128>(part, INT64_MAX)));
    }
  return most;
}

}  // namespace

MaxBatch Strategy::max_batch(std::span<const Dims> shapes, const Function::Values& values,
                             const Budgets& budgets, std::int64_t axis) {
  if (!budgets.any())
    fail(Fault::Value, "max_batch: there is no budget",
         fmt::format("give {}, or make the function with it", spelled("an amount", "memory=")));
  const std::vector<std::size_t> batched =
      axis < 0 ? std::vector<std::size_t>{}
               : batched_inputs(shapes, static_cast<std::size_t>(axis));
  if (batched.empty()) fail(Fault::Value, fmt::format("max_batch: no input has an axis {}", axis));
  SizeSources from = function().size_sources(shapes, values);
  const auto with = [&](std::int64_t n) -> const SizeSources& {
    for (std::size_t i : batched) from.shapes[i][static_cast<std::size_t>(axis)] = n;
    return from;
  };
  // Rows of no bytes would never end it.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const Ways own = own_ways();
  Ways ways = plain_ways();
  const std::shared_ptr<Strategy> anyhow = planner(ways);
  ways.unbounded = false;
  const std::shared_ptr<Strategy> plain = planner(ways);
  MaxBatch found;
  std::int64_t& rows = found.rows;
  const bool has_others = options().devices->size() > 1;
  rows = largest_within(kMost, has_others ? kFull : static_cast<std::int64_t>(budgets.host()),
                        [&](std::int64_t n) -> std::optional<std::int64_t> {
                          try {
                            return fullness(budgets, plain->report(with(n)));
                          } catch (const OverBudget&) {  // of what a device has
                            return std::nullopt;
                          }
                        });
  const std::int64_t plain_rows = rows;
  // A way that may use what `ways` says, and all that the ways before it may.
  std::shared_ptr<Strategy> best = plain;
  const auto add = [&](std::string name, const std::shared_ptr<Strategy>& by) {
    const MemoryReport r = rows ? by->report(with(rows)) : MemoryReport{};
    found.ways.push_back({std::move(name), rows, r, rows ? techniques(r) : "not even one row"});
  };
  const auto add_way = [&](std::string name) {
    ways.budgets = budgets;
    ways.find_smallest = false;
    const std::shared_ptr<Strategy> by = planner(ways);
    if (ways.micro_batches == 0 && !by->in_slices(2)) return by;  // nothing to find
    rows = largest(
        kMost, [&](std::int64_t n) { return by->fits_somehow(with(n)); }, rows);
    // What fits as it is needs nothing else, however little that leaves to choose from.
    add(std::move(name), rows == plain_rows && rows > 0 ? plain : by);
    best = by;
    return by;
  };
  add(kAsItIs, plain);
  if (own.recompute) {
    ways.recompute = true;
    add_way(kRecompute);
  }
  if (own.micro_batches == 0) {
    ways.micro_batches = 0;
    const std::shared_ptr<Strategy> by = add_way(kInSlices);
    if (!by->not_in_slices_.empty()) {
      found.ways.push_back({kInSlices, 0, {}, why_not(by->not_in_slices_)});
      ways.micro_batches = 1;
    } else if (BatchWay& w = found.ways.back(); w.plan.micro_batches == Function::kMostSlices) {
      w.how += ", more are not tried";
    }
  }
  if (own.disk || own.round == RoundActivations::IfNeeded) {
    ways.disk = own.disk;
    ways.round = own.round;
    add_way(kOther);
  }
  if (rows == 0) {
    found.plan = anyhow->report(with(1));
    found.device = fullest(budgets, found.plan);
    return found;
  }
  found.plan = rows == plain_rows ? plain->report(with(rows)) : best->report(with(rows));
  found.device = fullest(budgets, found.plan);

  const auto way_of = [&](std::int64_t n) {
    const MemoryReport r = (n <= plain_rows ? plain : best)->report(with(n));
    return BatchWay{way_name(r), n, r, techniques(r)};
  };
  BatchWay& advised = found.advised;
  advised = way_of(1);
  // Up to what fits as it is plans are cheap, so all powers of 2 are looked at; beyond, one that
  // gains nothing ends it.
  for (std::int64_t n = 1; n < rows;) {
    n = n < plain_rows ? std::min(2 * n, plain_rows) : std::min(2 * n, rows);
    BatchWay next = way_of(n);
    if (next.plan.seconds <= 0) {  // nothing is known of times: the largest that costs nothing
      advised = way_of(plain_rows ? plain_rows : rows);
      break;
    }
    if (next.seconds_per_row() < (1 - MaxBatch::kWorthwhile) * advised.seconds_per_row())
      advised = std::move(next);
    else if (n > plain_rows)
      break;
  }
  if (advised.plan.seconds <= 0)
    found.why = "the largest that fits without another technique; times are not known";
  else if (advised.rows == rows)
    found.why = "the largest that fits, and smaller ones take more time per row";
  else
    found.why = fmt::format("larger ones take no less time per row (within {})",
                            percent(MaxBatch::kWorthwhile));
  return found;
}

DeviceId Strategy::fullest(const Budgets& budgets, const MemoryReport& r) {
  DeviceId found = 0;
  double most = 0;
  for (DeviceId d = 0; d <= r.devices.size(); ++d)
    if (const std::uint64_t budget = budgets.of(d))
      if (const double part = static_cast<double>(use_of(r, d).peak) / static_cast<double>(budget);
          part > most)
        most = part, found = d;
  return found;
}

bool Strategy::fits_somehow(const SizeSources& from) {
  std::string assumed;
  const std::int64_t rows = rows_to_cut(from);
  const auto fits = [&](Compiled& way) {
    try {
      way.plan_for(from, assumed);
      return true;
    } catch (const OverBudget&) {
      return false;
    }
  };
  // The more slices, the less they need; where they are no way there is the whole.
  if (options().micro_batches == 0 && !function().has_stage()) {
    std::int64_t count = 0;
    for (std::int64_t slices : kSlices)
      if (slices <= rows) count = slices;
    Compiled* const variant = count ? in_slices(count) : nullptr;
    try {
      if (variant && fits(*variant)) return true;
    } catch (const Error& e) {
      if (e.fault() != Fault::Shape) throw;  // slices ask more of sizes than the whole
    }
  }
  if (fits(*whole_)) return true;
  return has_choice() && choose_rounded(from) != nullptr;
}

}  // namespace snug
