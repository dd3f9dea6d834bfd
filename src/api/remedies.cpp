// Ways to keep to a budget, each of them planned; the largest batch that fits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "api/function_impl.h"
#include "api/measure_device.h"
#include "api/measure_disk.h"
#include "base/bytes.h"

namespace snug {
namespace {

std::string amount(std::int64_t bytes) { return describe_bytes(static_cast<std::uint64_t>(bytes)); }

/// The inputs whose `axis` is the batch: those that have the size of the first one there.
std::vector<std::size_t> batched_inputs(std::span<const Dims> shapes, std::size_t axis) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    if (shapes[i].size() > axis &&
        (found.empty() || shapes[i][axis] == shapes[found.front()][axis]))
      found.push_back(i);
  return found;
}

/// The largest number in [1, most] for which `fits` holds, which holds for all smaller ones; 0 if
/// there is none.
template <class F>
std::int64_t largest(std::int64_t most, F&& fits) {
  std::int64_t low = 0, high = 1;  // fits(low); high is not known to fit
  while (high <= most && fits(high)) {
    low = high;
    if (high == most) return most;
    high = high > most / 2 ? most : 2 * high;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

std::string time_text(const Remedy& r) {
  if (r.time_ratio <= 0) return "";
  if (r.kind == Remedy::Kind::Memory && !r.recompute && r.count <= 1) return "";
  const double percent = 100 * (r.time_ratio - 1);
  if (std::abs(percent) < 1)
    return r.kind == Remedy::Kind::Batch ? "same time per row" : "same time";
  return fmt::format("{:+.0f} % time{}", percent, r.kind == Remedy::Kind::Batch ? " per row" : "");
}

/// What a plan within more memory does to keep to it.
std::string how_text(const Remedy& r) {
  if (r.kind != Remedy::Kind::Memory && r.kind != Remedy::Kind::Contiguous) return "";
  std::string text = r.count > 1 ? fmt::format(", in {} slices", r.count) : "";
  return text + (r.recompute ? ", tasks run again" : "");
}

/// One line per remedy, each after its label.
std::string describe_rows(std::span<const std::string> labels, std::span<const Remedy> remedies) {
  std::size_t width = 28;
  for (const std::string& label : labels) width = std::max(width, label.size());
  std::string text;
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    std::string remark = time_text(remedies[i]) + how_text(remedies[i]);
    if (remark.starts_with(", ")) remark.erase(0, 2);
    std::string line =
        fmt::format("  {:<{}} {:>11}   {}", labels[i], width, amount(remedies[i].peak), remark);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string Remedy::flag() const {
  switch (kind) {
    case Kind::Contiguous: return "";  // arguments have no flags
    case Kind::Batch: return fmt::format("--batch {}", count);
    case Kind::Recompute: return "--recompute";
    case Kind::MicroBatches:
      return fmt::format("--micro-batch {}{}", count, recompute ? " --recompute" : "");
    case Kind::Offload: return "--offload";
    case Kind::Activations: return "--precision bfloat16-activations";
    case Kind::Memory:
      return fmt::format("--memory {}{}", peak,
                         count > 1   ? " --fit"
                         : recompute ? " --recompute"
                                     : "");
  }
  return "";
}
std::string Remedy::option() const {
  switch (kind) {
    case Kind::Contiguous: return "contiguous arguments";
    case Kind::Batch: return fmt::format("a batch of {}", count);
    case Kind::Recompute: return "recompute=True";
    case Kind::MicroBatches:
      return fmt::format("micro_batches={}{}", count, recompute ? ", recompute=True" : "");
    case Kind::Offload: return "offload=DIRECTORY";
    case Kind::Activations: return "activations=\"bfloat16\"";
    case Kind::Memory: return fmt::format("memory=\"{}\"", peak);
  }
  return "";
}

std::string describe(std::span<const Remedy> remedies, bool as_flags) {
  std::vector<std::string> labels;
  for (const Remedy& r : remedies) labels.push_back(as_flags ? r.flag() : r.option());
  return describe_rows(labels, remedies);
}

std::optional<MemoryReport> FunctionImpl::smallest_plan(const SizeSources& from, Ways ways,
                                                        std::int64_t most) {
  // A refusal says what its ways need at least, which rises until one of them does.
  ways.find_smallest = true;
  while (static_cast<std::int64_t>(ways.budget) < most) {
    try {
      return planner(ways)->report(from);
    } catch (const OverBudget& e) {
      if (e.needed() <= ways.budget) return std::nullopt;
      ways.budget = e.needed();
    }
  }
  return std::nullopt;
}

FunctionImpl::Planner FunctionImpl::planner(const Ways& ways) const {
  CompileOptions options = compile_;
  options.budget = ways.budget;
  options.recompute = ways.recompute;
  options.micro_batches = ways.micro_batches;
  options.round = ways.round;
  options.disk = ways.disk;
  options.find_smallest = ways.find_smallest;
  // Measuring takes a moment: only where time decides.
  const bool measure = (ways.budget || options_.plan_only) && may_measure_;
  options.device = measure ? &measured_host() : measured_host_if_known();
  return std::make_shared<FunctionImpl>(*this, options);
}

std::vector<Remedy> FunctionImpl::remedies(const SizeSources& from, std::uint64_t budget) {
  const auto limit = static_cast<std::int64_t>(budget);
  Ways as_it_is = plain_ways();
  as_it_is.find_smallest = false;  // what does not fit is no remedy
  const std::int64_t slices = as_it_is.micro_batches;
  const Planner plain = planner(as_it_is);
  const MemoryReport base = plain->report(from);
  const std::span<const Dims> shapes(from.shapes.data(), argument_count_);
  const std::vector<std::size_t> batched = batched_inputs(shapes, 0);
  const std::int64_t rows = batched.empty() ? 1 : shapes[batched.front()][0];
  std::vector<Remedy> found;
  const auto add = [&](Remedy::Kind kind, std::int64_t count, const MemoryReport& r,
                       std::int64_t of_rows) {
    const double per_row = r.seconds / static_cast<double>(of_rows),
                 plain_per_row = base.seconds / static_cast<double>(rows);
    double ratio = base.seconds > 0 ? per_row / plain_per_row : 0;
    // As `choose` has it.
    if (kind == Remedy::Kind::MicroBatches && ratio > 0) ratio = std::max(ratio, 1.0);
    found.push_back({kind, count, r.peak, ratio});
  };
  // Nothing if it does not fit, or if the sizes do not go together.
  const auto plan = [&](FunctionImpl& f, const SizeSources& sizes) -> std::optional<MemoryReport> {
    try {
      MemoryReport r = f.report(sizes);
      if (r.peak <= limit) return r;
    } catch (const Error& e) {
      if (e.fault() == Fault::Internal || e.fault() == Fault::Interrupted) throw;
    }
    return std::nullopt;
  };
  if (std::count(from.copied.begin(), from.copied.end(), true)) {
    SizeSources contiguous = from;
    contiguous.copied.assign(argument_count_, false);
    Ways own = own_ways();
    own.budget = budget;
    if (const auto r = plan(*planner(own), contiguous))
      add(Remedy::Kind::Contiguous, r->micro_batches, *r, rows);
  }
  if (rows > 1) {
    SizeSources smaller = from;
    const auto with = [&](std::int64_t n) {
      for (std::size_t i : batched) smaller.shapes[i][0] = n;
      return plan(*plain, smaller);
    };
    const std::int64_t n = largest(rows - 1, [&](std::int64_t k) { return with(k).has_value(); });
    if (n > 0) add(Remedy::Kind::Batch, n, *with(n), n);
  }
  Ways again = as_it_is;
  again.budget = budget;
  again.recompute = true;
  if (const auto r = plan(*planner(again), from); r && !r->recomputed.empty())
    add(Remedy::Kind::Recompute, 0, *r, rows);
  // The fewest slices; tasks run again in them only if it is not possible without.
  const auto add_slices = [&](bool recompute) {
    for (std::int64_t count : kSlices) {
      const FunctionImpl* const variant = count <= rows ? in_slices(count) : nullptr;
      if (!variant) break;
      Ways ways = variant->plain_ways();
      ways.recompute = recompute;
      ways.find_smallest = false;
      if (recompute) ways.budget = budget;
      const auto r = plan(*variant->planner(ways), from);
      if (!r) continue;
      add(Remedy::Kind::MicroBatches, count, *r, rows);
      found.back().recompute = recompute;
      return true;
    }
    return false;
  };
  if (slices == 1 && !add_slices(false)) add_slices(true);
  Ways to_file = as_it_is;
  to_file.budget = budget;
  to_file.disk = compile_.disk ? compile_.disk : some_disk_rates();
  if (to_file.disk)
    if (const auto r = plan(*planner(to_file), from); r && r->offloaded)
      add(Remedy::Kind::Offload, 0, *r, rows);
  if (compile_.round == RoundActivations::Never) {
    Ways rounded = own_ways();
    rounded.budget = budget;
    rounded.round = RoundActivations::Always;
    rounded.find_smallest = false;
    if (const auto r = plan(*planner(rounded), from); r && r->rounded)
      add(Remedy::Kind::Activations, 0, *r, rows);
  }
  Ways own = own_ways();
  own.budget = budget;
  if (own.recompute || own.micro_batches == 0)
    if (const auto r = smallest_plan(from, own, base.peak); r && r->peak < base.peak) {
      add(Remedy::Kind::Memory, r->micro_batches, *r, rows);
      found.back().recompute = !r->recomputed.empty();
    }
  add(Remedy::Kind::Memory, 0, base, rows);
  return found;
}

std::string FunctionImpl::name_of_input(std::size_t i) const {
  const bool named = i < input_names.size() && !input_names[i].empty();
  return named ? input_names[i] : fmt::format("input {}", i);
}

std::string FunctionImpl::describe_remedies(const SizeSources& from,
                                            std::span<const Remedy> found) const {
  std::vector<std::string> labels;
  for (const Remedy& r : found) {
    labels.push_back(r.option());
    if (r.kind == Remedy::Kind::Batch) {
      const std::size_t i = batched_inputs({from.shapes.data(), argument_count_}, 0).front();
      labels.back() += fmt::format(" (axis 0 of {})", name_of_input(i));
    } else if (r.kind == Remedy::Kind::Contiguous) {
      labels.back() = "np.ascontiguousarray of ";
      for (std::size_t i = 0, n = 0; i < from.copied.size(); ++i)
        if (from.copied[i]) labels.back() += (n++ ? ", " : "") + name_of_input(i);
    } else if (r.kind == Remedy::Kind::Memory && process_budget_) {
      // Arenas are mapped in whole pages.
      const auto peak = static_cast<std::uint64_t>(r.peak);
      const std::uint64_t own = parse_bytes(options_.memory);
      labels.back() =
          fmt::format("config.memory=\"{}\"{}", taken_by_others_ + Arena::mapped_for(peak),
                      own && own < peak ? ", " + r.option() : "");
    }
  }
  std::string ways = describe_rows(labels, found);
  ways.pop_back();  // the end of the last line
  return "what fits (each was planned):\n" + ways;
}

void FunctionImpl::refuse(const SizeSources& from, const Error& why) {
  if (planner_) throw why;
  const MemoryReport plain = planner(plain_ways())->report(from);
  const std::vector<Remedy> found = remedies(from, compile_.budget);
  const std::string source =
      process_budget_ ? fmt::format(
                            "of config.memory={} other variables and loaders had {} when "
                            "the function was made; it ",
                            describe_bytes(process_budget_), describe_bytes(taken_by_others_))
                      : "";
  throw Error(Fault::Memory,
              fmt::format("{}{}\n{}{}", source, why.message(), plain.describe(false),
                          describe_remedies(from, found)),
              not_in_slices_.empty() ? "" : fmt::format("slices are no way: {}", not_in_slices_));
}

void FunctionImpl::refuse_for_lack_of_memory(const CallContext& c, std::uint64_t most,
                                             const Error& why) try {
  std::lock_guard lock(compile_mutex_);
  const SizeSources from = size_sources(c);
  const Planner plain = planner(plain_ways());
  plain->may_measure_ = false;
  const MemoryReport report = plain->report(from);
  if (static_cast<std::uint64_t>(report.arena) <= most) throw why;  // more was free than thought
  // Plans take memory, too.
  constexpr std::uint64_t kForPlans = std::uint64_t{8} << 20;
  const std::uint64_t budget =
      static_cast<std::uint64_t>(report.peak - report.arena) + most - std::min(most, kForPlans);
  std::vector<Remedy> found = plain->remedies(from, budget);
  std::erase_if(found, [](const Remedy& r) { return r.kind == Remedy::Kind::Memory; });
  if (found.empty()) throw why;
  throw Error(Fault::Memory, fmt::format("{}\n{}", why.message(), describe_remedies(from, found)),
              fmt::format("function(..., memory=\"{}\") takes the fastest of them", budget));
} catch (const std::bad_alloc&) {  // so little is left that nothing can be planned
  throw why;
}

Function::MaxBatch FunctionImpl::max_batch(std::span<const Dims> shapes,
                                           const Function::Values& values, std::uint64_t budget,
                                           std::int64_t axis) {
  if (budget == 0)
    fail(Fault::Value, "max_batch: there is no budget",
         "give memory=, or make the function with it");
  const std::vector<std::size_t> batched =
      axis < 0 ? std::vector<std::size_t>{}
               : batched_inputs(shapes, static_cast<std::size_t>(axis));
  if (batched.empty()) fail(Fault::Value, fmt::format("max_batch: no input has an axis {}", axis));
  Ways ways = own_ways();
  ways.budget = budget;
  ways.find_smallest = false;
  const Planner planned = planner(ways), plain = planner(plain_ways());
  SizeSources from = size_sources(shapes, values, false);
  const auto set_rows = [&](std::int64_t n) {
    for (std::size_t i : batched) from.shapes[i][static_cast<std::size_t>(axis)] = n;
  };
  const auto fits = [&](std::int64_t n) {
    set_rows(n);
    return plain->report(from).peak <= static_cast<std::int64_t>(budget) ||
           planned->fits_somehow(from);
  };
  // Rows of no bytes would never end it.
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const std::int64_t rows = largest(kMost, fits);
  set_rows(std::max<std::int64_t>(rows, 1));
  return {rows, rows ? planned->report(from) : plain->report(from)};
}

bool FunctionImpl::fits_somehow(const SizeSources& from) {
  std::string assumed;
  const std::int64_t rows = rows_to_cut(from);
  const auto fits = [&](FunctionImpl& way) {
    std::lock_guard lock(way.compile_mutex_);
    try {
      way.plan_for(from, assumed);
      return true;
    } catch (const OverBudget&) {
      return false;
    }
  };
  // The more slices, the less they need; where they are no way there is the whole.
  if (compile_.micro_batches == 0 && !stage_) {
    std::int64_t count = 0;
    for (std::int64_t slices : kSlices)
      if (slices <= rows) count = slices;
    FunctionImpl* const variant = count ? in_slices(count) : nullptr;
    try {
      if (variant && fits(*variant)) return true;
    } catch (const Error& e) {
      if (e.fault() != Fault::Shape) throw;  // slices ask more of sizes than the whole
    }
  }
  if (fits(*this)) return true;
  return has_choice() && choose_rounded(from) != nullptr;
}

}  // namespace snug
