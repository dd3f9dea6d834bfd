#include "train/joined_batches.h"

#include "api/batch_search.h"

namespace snug::nn {

std::optional<Remedy> joined_batches(const Function& step,
                                     const std::function<std::vector<Dims>(std::int64_t)>& shapes,
                                     std::int64_t rows, std::uint64_t budget,
                                     const std::string& device) {
  const auto peak_of = [&](const MemoryReport& r) {
    for (const MemoryReport::OnDevice& d : r.devices)
      if (d.name == device) return d.peak;
    return r.peak;
  };
  const auto plan = [&](std::int64_t n) -> std::optional<MemoryReport> {
    try {
      return step.memory(shapes(n));
    } catch (const MemoryError&) {  // of a budget that the process has
      return std::nullopt;
    }
  };
  const auto limit = static_cast<std::int64_t>(std::min<std::uint64_t>(budget, INT64_MAX));
  const std::int64_t most = largest_within(rows - 1, limit, [&](std::int64_t n) {
    const auto r = plan(n);
    return r ? std::optional(peak_of(*r)) : std::nullopt;
  });
  if (most == 0) return std::nullopt;
  const std::int64_t steps = (rows + most - 1) / most, each = (rows + steps - 1) / steps;
  const auto part = plan(each), whole = plan(rows);
  Remedy r{.kind = Remedy::Kind::Batch, .count = each, .peak = peak_of(*part), .accumulate = steps};
  if (whole && whole->seconds > 0)
    r.time_ratio =
        part->seconds * static_cast<double>(rows) / (static_cast<double>(each) * whole->seconds);
  return r;
}

}  // namespace snug::nn
