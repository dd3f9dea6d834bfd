// Ways to keep to a budget, each of them planned.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "api/batch_search.h"
#include "api/function_impl.h"
#include "api/measure_device.h"
#include "api/measure_disk.h"
#include "backend/native/blas_buffers.h"
#include "base/bytes.h"
#include "base/spelling.h"

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
  options.device = measure ? measured_host_if_possible() : measured_host_if_known();
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
  // Nothing if the sizes do not go together.
  const auto any_plan = [](FunctionImpl& f,
                           const SizeSources& sizes) -> std::optional<MemoryReport> {
    try {
      return f.report(sizes);
    } catch (const Error& e) {
      if (e.fault() == Fault::Internal || e.fault() == Fault::Interrupted) throw;
    }
    return std::nullopt;
  };
  // Nothing if it does not fit, either.
  const auto plan = [&](FunctionImpl& f, const SizeSources& sizes) {
    std::optional<MemoryReport> r = any_plan(f, sizes);
    return r && r->peak <= limit ? r : std::nullopt;
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
      return any_plan(*plain, smaller);
    };
    const std::int64_t n = largest_within(rows - 1, limit, [&](std::int64_t k) {
      const auto r = with(k);
      return r ? std::optional(r->peak) : std::nullopt;
    });
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
    if (r.kind == Remedy::Kind::Batch && language() != Language::Tool) {
      const std::size_t i = batched_inputs({from.shapes.data(), argument_count_}, 0).front();
      labels.back() += fmt::format(" (axis 0 of {})", name_of_input(i));
    } else if (r.kind == Remedy::Kind::Contiguous) {
      std::string names;
      for (std::size_t i = 0; i < from.copied.size(); ++i)
        if (from.copied[i]) names += (names.empty() ? "" : ", ") + name_of_input(i);
      labels.back() = spelled("contiguous_copy() of ", "np.ascontiguousarray of ") + names;
    } else if (r.kind == Remedy::Kind::Memory && process_budget_) {
      // Arenas are mapped in whole pages.
      const auto peak = static_cast<std::uint64_t>(r.peak);
      const std::uint64_t own = parse_bytes(options_.memory);
      labels.back() = fmt::format(
          fmt::runtime(spelled("set_memory_budget(\"{}\"){}", "config.memory=\"{}\"{}")),
          amount_to_type(taken_by_others_ + Arena::mapped_for(peak)),
          own && own < peak ? ", " + r.option() : "");
    }
  }
  std::string ways = describe_rows(labels, found);
  ways.pop_back();  // the end of the last line
  return "what fits (each was planned):\n" + ways;
}

void FunctionImpl::refuse(const SizeSources& from, const Error& why) {
  if (planner_) why.raise();
  const MemoryReport plain = planner(plain_ways())->report(from);
  const std::vector<Remedy> found = remedies(from, compile_.budget);
  const std::string source =
      process_budget_ ? fmt::format(
                            "of {}{} other variables and loaders had {} when "
                            "the function was made; it ",
                            spelled("the budget of the process, ", "config.memory="),
                            describe_bytes(process_budget_), describe_bytes(taken_by_others_))
                      : "";
  const auto* over = dynamic_cast<const MemoryError*>(&why);
  throw MemoryError(
      fmt::format("{}{}\n{}{}", source, why.message(), plain.describe(false),
                  describe_remedies(from, found)),
      not_in_slices_.empty() ? "" : fmt::format("slices are no way: {}", not_in_slices_),
      {over ? over->needed() : 0, compile_.budget, static_cast<std::uint64_t>(plain.peak), found,
       compile_.budget, not_in_slices_});
}

void FunctionImpl::refuse_for_lack_of_memory(const SizeSources& from, std::uint64_t most,
                                             const Error& why) try {
  std::lock_guard lock(compile_mutex_);
  const Planner plain = planner(plain_ways());
  plain->may_measure_ = false;
  const MemoryReport report = plain->report(from);
  // Plans and rates take memory, too, and so do libraries, for their code and their buffers. What
  // the tool is told is done by a new process, which makes its kernels as well.
  const std::uint64_t for_plans = std::uint64_t{language() == Language::Tool ? 96U : 48U} << 20;
  CodeCount code;
  std::uint64_t others = for_plans;
  {
    std::string assumed;
    std::lock_guard planning(plain->compile_mutex_);
    const std::shared_ptr<const Executable> exe = plain->plan_for(from, assumed);
    count_code(*exe, code);
    // A training has the code of a last, smaller batch, too.
    others += 2 * code.bytes() + (exe->blas_buffers ? native::BlasBuffers::bytes_needed() : 0);
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
