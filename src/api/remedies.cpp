// Ways to keep to a budget, each of them planned.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "api/batch_search.h"
#include "api/measure_disk.h"
#include "api/strategy.h"
#include "base/bytes.h"
#include "base/spelling.h"
#include "exec/arena.h"

namespace snug {
namespace {

std::string amount(std::int64_t bytes) { return describe_bytes(static_cast<std::uint64_t>(bytes)); }

std::string time_text(const Remedy& r) {
  if (r.time_ratio <= 0) return "";
  if (r.kind == Remedy::Kind::Memory && !r.recompute && r.count <= 1) return "";
  const double percent = 100 * (r.time_ratio - 1);
  if (std::abs(percent) < 1)
    return r.kind == Remedy::Kind::Batch ? "same time per row" : "same time";
  return fmt::format("{:+.0f} % time{}", percent, r.kind == Remedy::Kind::Batch ? " per row" : "");
}

/// What a plan does to keep to its memory, where its label does not say it.
std::string how_text(const Remedy& r, std::string_view label) {
  if (r.accumulate > 1) return fmt::format(", batch norm sees {} rows", r.count);
  if (r.kind != Remedy::Kind::Memory && r.kind != Remedy::Kind::Contiguous &&
      !label.starts_with("--memory"))
    return "";
  std::string text = r.count > 1 ? fmt::format(", in {} slices", r.count) : "";
  const bool again = r.recompute || r.kind == Remedy::Kind::Recompute;
  return text + (again ? ", tasks run again" : "");
}

/// One line per remedy, each after its label.
std::string describe_rows(std::span<const std::string> labels, std::span<const Remedy> remedies) {
  std::size_t width = 28;
  for (const std::string& label : labels) width = std::max(width, label.size());
  std::string text;
  for (std::size_t i = 0; i < remedies.size(); ++i) {
    std::string remark = time_text(remedies[i]) + how_text(remedies[i], labels[i]);
    if (remark.starts_with(", ")) remark.erase(0, 2);
    std::string line =
        fmt::format("  {:<{}} {:>11}   {}", labels[i], width, amount(remedies[i].peak), remark);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace

std::string describe(std::span<const Remedy> remedies, bool as_flags) {
  std::vector<std::string> labels;
  for (const Remedy& r : remedies) labels.push_back(as_flags ? r.flag() : r.option());
  return describe_rows(labels, remedies);
}

std::optional<MemoryReport> Strategy::smallest_plan(const SizeSources& from, Ways ways,
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

/// Looks for ways to keep to a budget, one kind after the other.
class Strategy::RemedySearch {
 public:
  RemedySearch(Strategy& strategy, const SizeSources& from, std::uint64_t budget)
      : s_(strategy),
        from_(from),
        budget_(budget),
        as_it_is_(without_search(s_.plain_ways())),
        plain_(s_.planner(as_it_is_)),
        base_(plain_->report(from)),
        shapes_(from.shapes.data(), s_.function().argument_count),
        batched_(batched_inputs(shapes_, 0)),
        rows_(batched_.empty() ? 1 : shapes_[batched_.front()][0]) {}

  std::vector<Remedy> run() {
    try_contiguous();
    if (rows_ > 1) try_smaller_batch();
    try_recomputing();
    // The fewest slices; tasks run again in them only if it is not possible without.
    if (as_it_is_.micro_batches == 1 && !try_slices(false)) try_slices(true);
    try_file();
    if (s_.options().round == RoundActivations::Never) try_rounding();
    try_more_memory();
    add(Remedy::Kind::Memory, 0, base_, rows_);
    return std::move(found_);
  }

 private:
  /// What does not fit is no remedy.
  static Ways without_search(Ways ways) {
    ways.find_smallest = false;
    return ways;
  }
  Ways within_budget(Ways ways) const {
    ways.budget = budget_;
    return ways;
  }

  void add(Remedy::Kind kind, std::int64_t count, const MemoryReport& r, std::int64_t of_rows) {
    const double per_row = r.seconds / static_cast<double>(of_rows),
                 plain_per_row = base_.seconds / static_cast<double>(rows_);
    double ratio = base_.seconds > 0 ? per_row / plain_per_row : 0;
    // As `choose` has it.
    if (kind == Remedy::Kind::MicroBatches && ratio > 0) ratio = std::max(ratio, 1.0);
    found_.push_back({kind, count, r.peak, ratio});
  }
  /// Nothing if the sizes do not go together.
  static std::optional<MemoryReport> any_plan(Strategy& strategy, const SizeSources& sizes) {
    try {
      return strategy.report(sizes);
    } catch (const Error& e) {
      if (e.fault() == Fault::Internal || e.fault() == Fault::Interrupted) throw;
    }
    return std::nullopt;
  }
  /// Nothing if it does not fit, either.
  std::optional<MemoryReport> plan(const Ways& ways, const SizeSources& sizes,
                                   const Compiled* like = nullptr) const {
    std::optional<MemoryReport> r = any_plan(*s_.planner(ways, like), sizes);
    return r && r->peak <= static_cast<std::int64_t>(budget_) ? r : std::nullopt;
  }

  void try_contiguous() {
    if (std::count(from_.copied.begin(), from_.copied.end(), true) == 0) return;
    SizeSources contiguous = from_;
    contiguous.copied.assign(from_.copied.size(), false);
    if (const auto r = plan(within_budget(s_.own_ways()), contiguous))
      add(Remedy::Kind::Contiguous, r->micro_batches, *r, rows_);
  }

  void try_smaller_batch() {
    SizeSources smaller = from_;
    const auto with = [&](std::int64_t n) {
      for (std::size_t i : batched_) smaller.shapes[i][0] = n;
      return any_plan(*plain_, smaller);
    };
    const std::int64_t n =
        largest_within(rows_ - 1, static_cast<std::int64_t>(budget_), [&](std::int64_t k) {
          const auto r = with(k);
          return r ? std::optional(r->peak) : std::nullopt;
        });
    if (n > 0) add(Remedy::Kind::Batch, n, *with(n), n);
  }

  void try_recomputing() {
    Ways ways = within_budget(as_it_is_);
    ways.recompute = true;
    if (const auto r = plan(ways, from_); r && !r->recomputed.empty())
      add(Remedy::Kind::Recompute, 0, *r, rows_);
  }

  bool try_slices(bool recompute) {
    for (std::int64_t count : kSlices) {
      const Compiled* const way = count <= rows_ ? s_.in_slices(count) : nullptr;
      if (!way) break;
      Ways ways = recompute ? within_budget(as_it_is_) : as_it_is_;
      ways.micro_batches = count;
      ways.recompute = recompute;
      const auto r = plan(ways, from_, way);
      if (!r) continue;
      add(Remedy::Kind::MicroBatches, count, *r, rows_);
      found_.back().recompute = recompute;
      return true;
    }
    return false;
  }

  void try_file() {
    Ways ways = within_budget(as_it_is_);
    ways.disk = s_.options().disk ? s_.options().disk : some_disk_rates();
    if (!ways.disk) return;
    if (const auto r = plan(ways, from_); r && r->offloaded)
      add(Remedy::Kind::Offload, 0, *r, rows_);
  }

  void try_rounding() {
    Ways ways = without_search(within_budget(s_.own_ways()));
    ways.round = RoundActivations::Always;
    if (const auto r = plan(ways, from_); r && r->rounded)
      add(Remedy::Kind::Activations, 0, *r, rows_);
  }

  void try_more_memory() {
    const Ways ways = within_budget(s_.own_ways());
    if (!ways.recompute && ways.micro_batches != 0) return;
    const auto r = s_.smallest_plan(from_, ways, base_.peak);
    if (!r || r->peak >= base_.peak) return;
    add(Remedy::Kind::Memory, r->micro_batches, *r, rows_);
    found_.back().recompute = !r->recomputed.empty();
  }

  Strategy& s_;
  const SizeSources& from_;
  std::uint64_t budget_;
  Ways as_it_is_;
  std::shared_ptr<Strategy> plain_;
  MemoryReport base_;
  std::span<const Dims> shapes_;  // of the arguments
  std::vector<std::size_t> batched_;
  std::int64_t rows_;
  std::vector<Remedy> found_;
};

std::vector<Remedy> Strategy::remedies(const SizeSources& from, std::uint64_t budget) {
  return RemedySearch(*this, from, budget).run();
}

std::string Strategy::describe_remedies(const SizeSources& from,
                                        std::span<const Remedy> found) const {
  std::vector<std::string> labels;
  for (const Remedy& r : found) {
    labels.push_back(r.option());
    if (r.kind == Remedy::Kind::Batch && language() != Language::Tool) {
      const std::size_t i =
          batched_inputs({from.shapes.data(), function().argument_count}, 0).front();
      labels.back() += fmt::format(" (axis 0 of {})", function().name_of_input(i));
    } else if (r.kind == Remedy::Kind::Contiguous) {
      std::string names;
      for (std::size_t i = 0; i < from.copied.size(); ++i)
        if (from.copied[i]) names += (names.empty() ? "" : ", ") + function().name_of_input(i);
      labels.back() = spelled("contiguous_copy() of ", "np.ascontiguousarray of ") + names;
    } else if (r.kind == Remedy::Kind::Memory && share_.budget) {
      // Arenas are mapped in whole pages.
      const auto peak = static_cast<std::uint64_t>(r.peak);
      const std::uint64_t own = share_.own;
      labels.back() = fmt::format(
          fmt::runtime(spelled("set_memory_budget(\"{}\"){}", "config.memory=\"{}\"{}")),
          amount_to_type(share_.taken_by_others + Arena::mapped_for(peak)),
          own && own < peak ? ", " + r.option() : "");
    }
  }
  std::string ways = describe_rows(labels, found);
  ways.pop_back();  // the end of the last line
  return "what fits (each was planned):\n" + ways;
}

void Strategy::refuse(const SizeSources& from, const Error& why) {
  if (only_asked_) why.raise();
  const MemoryReport plain = planner(plain_ways())->report(from);
  const std::vector<Remedy> found = remedies(from, options().budget);
  const std::string source =
      share_.budget ? fmt::format(
                          "of {}{} other variables and loaders had {} when "
                          "the function was made; it ",
                          spelled("the budget of the process, ", "config.memory="),
                          describe_bytes(share_.budget), describe_bytes(share_.taken_by_others))
                    : "";
  const auto* over = dynamic_cast<const MemoryError*>(&why);
  throw MemoryError(
      fmt::format("{}{}\n{}{}", source, why.message(), plain.describe(false),
                  describe_remedies(from, found)),
      not_in_slices_.empty() ? "" : fmt::format("slices are no way: {}", not_in_slices_),
      {over ? over->needed() : 0, options().budget, static_cast<std::uint64_t>(plain.peak), found,
       options().budget, not_in_slices_});
}

void Strategy::refuse_for_lack_of_memory(const SizeSources& from, std::uint64_t most,
                                         const Error& why) try {
  const std::shared_ptr<Strategy> plain = planner(plain_ways());
  plain->may_measure_ = false;
  const MemoryReport report = plain->report(from);
  // Plans and rates take memory, too, and so do libraries, for their code and their buffers. What
  // the tool is told is done by a new process, which makes its kernels as well.
  const std::uint64_t for_plans = std::uint64_t{language() == Language::Tool ? 96U : 48U} << 20;
  CodeCount code;
  std::uint64_t others = for_plans;
  {
    std::string assumed;
    const std::shared_ptr<const Executable> exe = plain->whole_->plan_for(from, assumed);
    count_code(*exe, code);
    // A training has the code of a last, smaller batch, too.
    others += 2 * code.bytes() + library_bytes(*exe);
  }
  // More was free than thought.
  if (static_cast<std::uint64_t>(report.arena) + others <= most) why.raise();
  const std::uint64_t budget =
      static_cast<std::uint64_t>(report.peak - report.arena) + most - std::min(most, others);
  std::vector<Remedy> found = plain->remedies(from, budget);
  std::erase_if(found, [](const Remedy& r) { return r.kind == Remedy::Kind::Memory; });
  if (found.empty()) why.raise();
  std::int64_t most_of_them = 0;
  for (const Remedy& r : found) most_of_them = std::max(most_of_them, r.peak);
  std::string memory = amount_to_type(static_cast<std::uint64_t>(most_of_them));
  if (parse_bytes(memory) > budget) memory = std::to_string(budget);
  throw MemoryError(
      fmt::format("{}\n{}", why.message(), describe_remedies(from, found)),
      option("memory", memory) + " takes the fastest of them",
      {static_cast<std::uint64_t>(report.arena), most, static_cast<std::uint64_t>(report.peak),
       found, budget, plain->not_in_slices_});
} catch (const std::bad_alloc&) {  // so little is left that nothing can be planned
  why.raise();
  throw;  // it did
}

}  // namespace snug
