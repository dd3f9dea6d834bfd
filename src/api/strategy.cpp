#include "api/strategy.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/measure_device.h"
#include "base/bytes.h"
#include "base/fork.h"

namespace snug {
namespace {

constexpr std::size_t kMaxChoices = 64;
constexpr std::int64_t kUnknownRows = 64;  // of a batch that is no argument

/// Nothing is done to save memory but the order.
bool plain(const Planned& p) { return p.recomputed.empty() && p.schedule.transfers.empty(); }

/// Takes less time by prediction, or the same and less memory. What takes less than `least` takes
/// that long.
bool faster(const Planned& a, const Planned& b, double least) {
  return std::pair(std::max(a.seconds, least), a.plan.bytes()) <
         std::pair(std::max(b.seconds, least), b.plan.bytes());
}

/// How much more than it may have, as a ratio.
double excess(const OverBudget& e) {
  return static_cast<double>(e.needed()) /
         static_cast<double>(std::max<std::uint64_t>(e.allowed(), 1));
}

/// "3 GiB", "opencl:0=3 GiB, cpu=8 GiB"
std::string describe_budgets(const CompileOptions& o) {
  if (o.budgets.size() <= 1) return describe_bytes(o.budgets.host());
  std::string text;
  for (std::size_t d = 0; d < o.budgets.size(); ++d)
    if (o.budgets.of(d) > 0)
      text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", describe_bytes(o.budgets.of(d)),
                          d == 0 ? "cpu" : o.devices->infos()[d].name);
  return text;
}

}  // namespace

Strategy::Strategy(std::shared_ptr<Compiled> whole, std::vector<ProcessShare> shares)
    : whole_(std::move(whole)), shares_(std::move(shares)) {}

Strategy::Ways Strategy::own_ways() const {
  const CompileOptions& o = options();
  return {o.budgets, o.recompute, o.micro_batches, o.round, o.disk, o.find_smallest};
}

Strategy::Ways Strategy::plain_ways() const {
  return {.micro_batches = std::max<std::int64_t>(1, options().micro_batches),
          .round = settled_rounding(),
          .unbounded = true};
}

Function::Way Strategy::own_way() const {
  return {std::max<std::int64_t>(1, options().micro_batches),
          options().round == RoundActivations::Always};
}

CompileOptions Strategy::options_for(const Ways& ways) const {
  CompileOptions o = options();
  o.budgets = ways.budgets;
  o.recompute = ways.recompute;
  o.micro_batches = ways.micro_batches;
  o.round = ways.round;
  o.disk = ways.disk;
  o.find_smallest = ways.find_smallest;
  o.unbounded = ways.unbounded;
  if (ways.on_host) {
    o.place_on = "cpu";
    o.devices = nullptr;
    o.pin = nullptr;
    o.budgets = Budgets({ways.budgets.host()});
    o.home = {};
    choose_devices(o, function().graph);
  }
  // Measuring takes a moment: only where time decides.
  const bool measure = (ways.budgets.any() || !whole_->has_code()) && may_measure_;
  o.device = measure ? measured_host_if_possible() : measured_host_if_known();
  return o;
}

std::shared_ptr<Strategy> Strategy::planner(const Ways& ways, const Compiled* like) const {
  auto made = std::make_shared<Strategy>(
      std::make_shared<Compiled>(like ? *like : *whole_, options_for(ways)), shares_);
  made->only_asked_ = true;
  made->may_measure_ = may_measure_;
  return made;
}

std::shared_ptr<Strategy> Strategy::apart() const {
  std::shared_ptr<Strategy> made = planner(own_ways());
  made->set_ways_ = set_ways_;
  return made;
}

Compiled* Strategy::in_slices(std::int64_t count) {
  if (const auto known = in_slices_.find(count); known != in_slices_.end())
    return known->second.get();
  if (!not_in_slices_.empty()) return nullptr;
  std::shared_ptr<Compiled> way;
  std::string why_not;
  try {
    Ways ways = own_ways();
    ways.micro_batches = count;
    ways.round = settled_rounding();
    way = std::make_shared<Compiled>(*whole_, options_for(ways));
  } catch (const Error& e) {
    if (e.fault() != Fault::Value) throw;
    why_not = e.message();
  }
  const NoFork step;
  if (!way) {
    not_in_slices_ = std::move(why_not);
    return nullptr;
  }
  return (in_slices_[count] = std::move(way)).get();
}

Strategy& Strategy::rounded() {
  if (!rounded_) {
    Ways ways = own_ways();
    ways.round = RoundActivations::Always;
    std::shared_ptr<Strategy> rounded = planner(ways);
    const NoFork step;
    rounded_ = std::move(rounded);
  }
  return *rounded_;
}

std::int64_t Strategy::rows_to_cut(const SizeSources& from) const {
  const auto end = from.shapes.begin() + static_cast<std::ptrdiff_t>(function().argument_count);
  const auto batched =
      std::find_if(from.shapes.begin(), end, [](const Dims& shape) { return !shape.empty(); });
  return batched == end ? kUnknownRows : (*batched)[0];
}

Function::Way Strategy::way(const SizeSources& from) {
  const Compiled& chosen = has_choice() ? choose(from) : *whole_;
  const CompileOptions& o = chosen.options();
  return {std::max<std::int64_t>(1, o.micro_batches), o.round == RoundActivations::Always};
}

void Strategy::set_way(std::span<const Dims> shapes, const SizeSources& from,
                       const Function::Way& way) {
  if (!has_choice() && way == own_way()) return;
  take_way(from, way);  // an error changes nothing
  const std::vector<Dims> given(shapes.begin(), shapes.end());
  std::erase_if(set_ways_, [&](const SetWay& s) { return s.shapes == given; });
  set_ways_.push_back({given, way});
  choices_.clear();
}

Compiled& Strategy::take_way(const SizeSources& from, const Function::Way& way) try {
  const CompileOptions& o = options();
  if (way.rounded && o.round == RoundActivations::IfNeeded) return rounded().take_way(from, way);
  if (way.rounded != (o.round == RoundActivations::Always))
    fail(Fault::Value, way.rounded ? "activations are kept in bfloat16 there, here in float32"
                                   : "activations are kept in float32 there, here in bfloat16");
  const std::int64_t own = o.micro_batches;
  if (own > 0 && own != way.slices)
    fail(Fault::Value, fmt::format("a batch runs in {} slices there, here in {}", way.slices, own));
  Compiled* taken = whole_.get();
  if (own == 0 && way.slices > 1) taken = in_slices(way.slices);
  if (!taken) fail(Fault::Value, not_in_slices_);
  std::string assumed;
  taken->plan_for(from, assumed);
  return *taken;
} catch (const OverBudget& e) {
  if (only_asked_) throw;
  refuse(from, e);
}

Compiled& Strategy::choose(const SizeSources& from, double* least_seconds) {
  for (const SetWay& s : set_ways_)
    if (std::equal(s.shapes.begin(), s.shapes.end(), from.shapes.begin()))
      return take_way(from, s.way);
  std::shared_ptr<const Executable> whole;
  std::optional<OverBudget> refusal;  // of the way that needs least
  const auto keep = [&](const OverBudget& e) {
    if (!refusal || excess(e) < excess(*refusal)) refusal.emplace(e);
  };
  std::string assumed;
  // Slices may be predicted to be faster, as their values stay in caches. They are no way as long
  // as the whole fits, so that more memory would take longer: the whole bounds their time.
  double least = 0;
  try {
    whole = whole_->plan_for(from, assumed);
    if (plain(*whole->planned)) return *whole_;
    least = whole->planned->plain_seconds;
  } catch (const OverBudget& e) {
    keep(e);
    least = e.plain_seconds();
  }
  if (least_seconds) *least_seconds = least;
  const std::int64_t rows = rows_to_cut(from);
  Compiled* best = whole_.get();
  std::shared_ptr<const Planned> fastest = whole ? whole->planned : nullptr;
  for (std::int64_t count : kSlices) {
    const bool possible = options().micro_batches == 0 && count <= rows;
    Compiled* const variant = possible ? in_slices(count) : nullptr;
    if (!variant) break;
    try {
      const auto planned = variant->plan_for(from, assumed)->planned;
      if (!fastest || faster(*planned, *fastest, least)) {
        best = variant;
        fastest = planned;
      }
      // More slices take longer, and these need nothing else.
      if (plain(*planned) || std::max(planned->plain_seconds, least) >= fastest->seconds) break;
    } catch (const OverBudget& e) {
      keep(e);
    } catch (const Error& e) {
      if (e.fault() != Fault::Shape) throw;
      break;  // slices ask more of sizes than the whole
    }
  }
  if (fastest || !refusal) return *best;
  if (Compiled* way = choose_rounded(from)) return *way;
  if (only_asked_) throw OverBudget(*refusal);
  refuse(from, *refusal);
}

Compiled* Strategy::choose_rounded(const SizeSources& from) {
  if (options().round != RoundActivations::IfNeeded) return nullptr;
  try {
    return &rounded().choose(from);
  } catch (const Error& e) {
    if (e.fault() != Fault::Memory) throw;
    return nullptr;
  }
}

Compiled& Strategy::choose_for_call(const std::shared_ptr<const Lowered>& program,
                                    std::span<const std::int64_t> sizes,
                                    const std::vector<bool>& copied,
                                    const std::function<SizeSources()>& from) {
  const std::vector<SizeId>& key = program->key;
  const auto chosen = std::find_if(choices_.begin(), choices_.end(), [&](const Choice& choice) {
    if (choice.copied != copied || choice.program.lock() != program) return false;
    for (std::size_t i = 0; i < key.size(); ++i)
      if (choice.key[i] != sizes[key[i]]) return false;
    return true;
  });
  if (chosen == choices_.end()) {
    Choice choice{program, {}, copied, nullptr};
    for (SizeId id : key) choice.key.push_back(sizes[id]);
    choice.way = &choose(from());
    choice.way->make_code();
    const NoFork step;
    choices_.push_front(std::move(choice));
    if (choices_.size() > kMaxChoices) choices_.pop_back();
  } else if (chosen != choices_.begin()) {
    const NoFork step;
    choices_.splice(choices_.begin(), choices_, chosen);
  }
  return *choices_.front().way;
}

std::uint64_t Strategy::arena_bytes(const SizeSources& from) {
  try {
    std::string assumed;
    return (has_choice() ? choose(from) : *whole_)
        .plan_for(from, assumed)
        ->planned->plan.host()
        .bytes;
  } catch (const Error& e) {
    if (e.fault() == Fault::Interrupted) throw;
    if (e.fault() != Fault::Memory) return 0;  // the call says it
    if (has_choice()) throw;
    refuse(from, e);
  }
}

MemoryReport Strategy::report(const SizeSources& from) {
  if (!has_choice()) return whole_->report(from);
  double least_seconds = 0;
  Compiled& way = choose(from, &least_seconds);
  MemoryReport r = way.report(from);
  if (&way != whole_.get() && r.seconds > 0) r.seconds = std::max(r.seconds, least_seconds);
  return r;
}

MemoryReport Strategy::memory(const SizeSources& from) try {
  return apart()->report(from);
} catch (const Error& e) {
  if (e.fault() != Fault::Memory || only_asked_) throw;
  refuse(from, e);
}

std::int64_t Strategy::smallest_budget(const SizeSources& from, DeviceId device) {
  Ways ways = plain_ways();
  ways.recompute = true;
  const std::int64_t plain = use_of(planner(ways)->report(from), device).peak;
  ways.budgets.set(device, 1);
  const std::optional<MemoryReport> smallest = smallest_plan(from, ways, device, plain);
  return smallest ? use_of(*smallest, device).peak : plain;
}

std::string Strategy::explain() const {
  const Compiled* const last = choices_.empty() ? whole_.get() : choices_.front().way;
  if (last == whole_.get()) return whole_->explain();
  std::string how = last->options().micro_batches > 1 ? " in slices" : "";
  if (last->options().round == RoundActivations::Always) how += " with rounded activations";
  return fmt::format("the last call ran{}, to keep to the budget of {}\n{}", how,
                     describe_budgets(options()), last->explain());
}

void Strategy::use_threads(int threads) {
  whole_->use_threads(threads);
  for (auto& [count, way] : in_slices_) way->use_threads(threads);
  if (rounded_) rounded_->use_threads(threads);
}

void Strategy::forget_plans() {
  whole_->forget_plans();
  for (auto& [count, way] : in_slices_) way->forget_plans();
  if (rounded_) rounded_->forget_plans();
}

void Strategy::visit(const std::function<void(const Compiled&)>& visit) const {
  visit(*whole_);
  for (const auto& [count, way] : in_slices_) visit(*way);
  if (rounded_) rounded_->visit(visit);
}

}  // namespace snug
