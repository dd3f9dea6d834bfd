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
#include "place/pins.h"

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
  if (r.kind == Remedy::Kind::Host) return "there";
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

std::optional<MemoryReport> Strategy::smallest_plan(const SizeSources& from, Ways& ways,
                                                    DeviceId device, std::int64_t most) {
  // A refusal says what its ways need at least, which rises until one of them does.
  ways.find_smallest = true;
  while (static_cast<std::int64_t>(ways.budgets.of(device)) < most) {
    try {
      return planner(ways)->report(from);
    } catch (const OverBudget& e) {
      if (e.needed() <= ways.budgets.of(e.device())) return std::nullopt;
      ways.budgets.set(e.device(), e.needed());
    }
  }
  return std::nullopt;
}

bool Strategy::keeps_to(const Budgets& budgets, const MemoryReport& r) {
  for (std::size_t d = 0; d <= r.devices.size(); ++d)
    if (!budgets.allow(d, static_cast<std::uint64_t>(use_of(r, d).peak))) return false;
  return true;
}

/// Looks for ways to keep to budgets, one kind after the other.
class Strategy::RemedySearch {
 public:
  RemedySearch(Strategy& strategy, const SizeSources& from, const Budgets& given, DeviceId device)
      : s_(strategy),
        from_(from),
        given_(given),
        budgets_(s_.with_memories(given)),
        device_(device),
        as_it_is_(without_search(s_.plain_ways())),
        plain_(s_.planner(as_it_is_)),
        base_(plain_->report(from)),
        shapes_(from.shapes.data(), s_.function().argument_count),
        batched_(batched_inputs(shapes_, 0)),
        rows_(batched_.empty() ? 1 : shapes_[batched_.front()][0]) {
    as_it_is_.unbounded = false;
    if (!base_.devices.empty()) plain_ = s_.planner(as_it_is_);
  }

  std::vector<Remedy> run() {
    try_contiguous();
    if (rows_ > 1) try_smaller_batch();
    try_recomputing();
    // The fewest slices; tasks run again in them only if it is not possible without.
    if (as_it_is_.micro_batches == 1 && !try_slices(false)) try_slices(true);
    try_file();
    if (s_.options().round == RoundActivations::Never) try_rounding();
    if (device_ != 0) try_host();
    try_more_memory();
    try_memory_as_it_is();
    return std::move(found_);
  }

 private:
  /// What does not fit is no remedy.
  static Ways without_search(Ways ways) {
    ways.find_smallest = false;
    return ways;
  }
  Ways within_budget(Ways ways) const {
    ways.budgets = budgets_;
    return ways;
  }

  void add(Remedy::Kind kind, std::int64_t count, const MemoryReport& r, std::int64_t of_rows) {
    const double per_row = r.seconds / static_cast<double>(of_rows),
                 plain_per_row = base_.seconds / static_cast<double>(rows_);
    double ratio = base_.seconds > 0 ? per_row / plain_per_row : 0;
    // As `choose` has it.
    if (kind == Remedy::Kind::MicroBatches && ratio > 0) ratio = std::max(ratio, 1.0);
    Remedy& made = found_.emplace_back(Remedy{kind, count, use_of(r, device_).peak, ratio});
    Budgets needed = given_;
    needed.set(device_, static_cast<std::uint64_t>(made.peak));
    set_budgets(made, needed);
  }
  /// What to type where devices have memories of their own.
  void set_budgets(Remedy& remedy, const Budgets& needed) const {
    if (base_.devices.empty()) return;
    remedy.budgets.clear();
    for (std::size_t d = needed.size(); d-- > 0;)
      if (needed.of(d) > 0)
        remedy.budgets.emplace_back(d ? s_.name_of(static_cast<DeviceId>(d)) : "cpu", needed.of(d));
  }
  /// Nothing if the sizes do not go together, or if a device has no room for it.
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
    return r && keeps_to(budgets_, *r) ? r : std::nullopt;
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
    const std::int64_t n = largest_within(
        rows_ - 1,
        budgets_.of(device_) ? static_cast<std::int64_t>(budgets_.of(device_)) : INT64_MAX,
        [&](std::int64_t k) -> std::optional<std::int64_t> {
          const auto r = with(k);
          if (!r) return std::nullopt;
          Budgets of_others = budgets_;
          of_others.set(device_, 0);
          if (!keeps_to(of_others, *r)) return std::nullopt;
          return use_of(*r, device_).peak;
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

  void try_host() {
    if (!named_devices(s_.function().graph).empty()) return;  // the program says where
    Ways ways = within_budget(as_it_is_);
    ways.budgets = Budgets({given_.host()});
    ways.recompute = s_.options().recompute;
    ways.on_host = true;
    const auto r = any_plan(*s_.planner(ways), from_);
    const std::int64_t has = s_.options().devices->infos()[0].memory_bytes;
    if (!r || !keeps_to(ways.budgets, *r) || (has > 0 && r->peak > has)) return;
    found_.push_back({.kind = Remedy::Kind::Host, .peak = r->peak});
  }

  /// The budget of the device is one, not all that it has.
  bool may_have_more() const { return given_.of(device_) > 0; }
  /// No budget helps where a device has less.
  bool is_there(const Budgets& needed) const {
    for (std::size_t d = 1; d < needed.size(); ++d)
      if (const auto has =
              static_cast<std::uint64_t>(s_.options().devices->infos()[d].memory_bytes);
          has > 0 && needed.of(d) > has)
        return false;
    return true;
  }

  void try_more_memory() {
    Ways ways = within_budget(s_.own_ways());
    if (!may_have_more() || (!ways.recompute && ways.micro_batches != 0)) return;
    const std::int64_t plain = use_of(base_, device_).peak;
    const auto r = s_.smallest_plan(from_, ways, device_, plain);
    if (!r || use_of(*r, device_).peak >= plain || !is_there(ways.budgets)) return;
    add(Remedy::Kind::Memory, r->micro_batches, *r, rows_);
    Budgets needed = given_;
    for (std::size_t d = 0; d < needed.size(); ++d)
      if (needed.of(d) > 0)
        needed.set(d, std::max(needed.of(d), static_cast<std::uint64_t>(use_of(*r, d).peak)));
    set_budgets(found_.back(), needed);
    found_.back().recompute = !r->recomputed.empty();
  }

  void try_memory_as_it_is() {
    if (!may_have_more()) return;
    Budgets needed = given_;
    for (std::size_t d = 0; d < needed.size(); ++d)
      if (needed.of(d) > 0)
        needed.set(d, std::max(needed.of(d), static_cast<std::uint64_t>(use_of(base_, d).peak)));
    if (!is_there(needed) || (!base_.devices.empty() && !any_plan(*plain_, from_))) return;
    add(Remedy::Kind::Memory, 0, base_, rows_);
    set_budgets(found_.back(), needed);
  }

  Strategy& s_;
  const SizeSources& from_;
  Budgets given_, budgets_;  // as they were given; with what devices have
  DeviceId device_;          // whose budget is too small
  Ways as_it_is_;
  std::shared_ptr<Strategy> plain_;
  MemoryReport base_;
  std::span<const Dims> shapes_;  // of the arguments
  std::vector<std::size_t> batched_;
  std::int64_t rows_;
  std::vector<Remedy> found_;
};

Budgets Strategy::with_memories(const Budgets& given) const {
  CompileOptions o = options();
  o.budgets = given;
  return effective_budgets(o);
}

std::vector<Remedy> Strategy::remedies(const SizeSources& from, const Budgets& given,
                                       DeviceId device) {
  return RemedySearch(*this, from, given, device).run();
}

std::vector<Remedy> Strategy::remedies(const SizeSources& from, const Budgets& given) {
  const MemoryReport plain = planner(plain_ways())->report(from);
  return remedies(from, given, fullest(with_memories(given), plain));
}

std::string Strategy::describe_remedies(const SizeSources& from, std::span<const Remedy> found,
                                        DeviceId device) const {
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
    } else if (const ProcessShare share = share_of(device);
               r.kind == Remedy::Kind::Memory && share.budget) {
      // Arenas of the host are mapped in whole pages.
      const auto peak = static_cast<std::uint64_t>(r.peak);
      const std::uint64_t needed = device ? peak : Arena::mapped_for(peak);
      const std::string amount = amount_to_type(share.taken_by_others + needed);
      labels.back() =
          device ? fmt::format(fmt::runtime(spelled("set_memory_budget(\"{}={}\")",
                                                    "config.memory={{\"{}\": \"{}\"}}")),
                               name_of(device), amount)
                 : fmt::format(
                       fmt::runtime(spelled("set_memory_budget(\"{}\")", "config.memory=\"{}\"")),
                       amount);
      if (share.own && share.own < peak) labels.back() += ", " + r.option();
    }
  }
  std::string ways = describe_rows(labels, found);
  ways.pop_back();  // the end of the last line
  return fmt::format("what fits (each was planned{}):\n{}",
                     device ? fmt::format("; bytes on {}", name_of(device)) : "", ways);
}

void Strategy::refuse(const SizeSources& from, const Error& why) {
  if (only_asked_) why.raise();
  const auto* over = dynamic_cast<const OverBudget*>(&why);
  const DeviceId device = over ? over->device() : DeviceId{0};
  const Budgets budgets = effective_budgets(options());
  const MemoryReport plain = planner(plain_ways())->report(from);
  const std::vector<Remedy> found = remedies(from, options().budgets, device);
  const ProcessShare share = share_of(device);
  const std::string source =
      share.budget
          ? fmt::format("of {}{} {} had {} when the function was made; it ",
                        spelled("the budget of the process, ", "config.memory="),
                        describe_bytes(share.budget),
                        device ? "other variables and functions" : "other variables and loaders",
                        describe_bytes(share.taken_by_others))
          : "";
  throw MemoryError(
      fmt::format("{}{}\n{}{}", source, why.message(), plain.describe(false),
                  describe_remedies(from, found, device)),
      not_in_slices_.empty() ? "" : fmt::format("slices are no way: {}", not_in_slices_),
      {over ? over->needed() : 0, budgets.of(device),
       static_cast<std::uint64_t>(use_of(plain, device).peak), found, budgets.of(device),
       not_in_slices_, device ? name_of(device) : ""},
      why.origin());
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
  Budgets within = options().budgets;
  within.set(0, budget);
  std::vector<Remedy> found = plain->remedies(from, within, 0);
  std::erase_if(found, [](const Remedy& r) { return r.kind == Remedy::Kind::Memory; });
  if (found.empty()) why.raise();
  std::int64_t most_of_them = 0;
  for (const Remedy& r : found) most_of_them = std::max(most_of_them, r.peak);
  std::string memory = amount_to_type(static_cast<std::uint64_t>(most_of_them));
  if (parse_bytes(memory) > budget) memory = std::to_string(budget);
  throw MemoryError(
      fmt::format("{}\n{}", why.message(), describe_remedies(from, found, 0)),
      option("memory", memory) + " takes the fastest of them",
      {static_cast<std::uint64_t>(report.arena), most, static_cast<std::uint64_t>(report.peak),
       found, budget, plain->not_in_slices_, ""});
} catch (const std::bad_alloc&) {  // so little is left that nothing can be planned
  why.raise();
  throw;  // it did
}

}  // namespace snug
