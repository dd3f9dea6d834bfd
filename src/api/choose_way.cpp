// How to run a call within a budget: as a whole or in slices of the batch, with tasks run again and
// values in a file where that helps; with activations rounded if nothing exact does.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "api/function_impl.h"

namespace snug {
namespace {

constexpr std::size_t kMaxChoices = 64;
constexpr std::int64_t kUnknownRows = 64;  // of a batch that is no argument

/// Nothing is done to save memory but the order.
bool plain(const Planned& p) { return p.recomputed.empty() && p.schedule.transfers.empty(); }

/// Takes less time by prediction, or the same and less memory. What takes less than `least` takes
/// that long.
bool faster(const Planned& a, const Planned& b, double least) {
  return std::pair(std::max(a.seconds, least), a.plan.bytes) <
         std::pair(std::max(b.seconds, least), b.plan.bytes);
}

}  // namespace

FunctionImpl::FunctionImpl(const FunctionImpl& other, const CompileOptions& options)
    : input_types(other.input_types),
      output_types(other.output_types),
      input_names(other.input_names),
      name(other.name),
      options_(other.options_),
      compile_(options),
      wanted_threads_(other.wanted_threads_),
      graph_(other.graph_),
      stage_(other.stage_),
      stage_text_(other.stage_text_),
      shared_(other.shared_),
      locks_(other.locks_),
      argument_count_(other.argument_count_),
      planner_(true),
      may_measure_(other.may_measure_),
      times_(other.times_),
      frontiers_(other.frontiers_),
      shares_arenas_(other.shares_arenas_) {
  options_.plan_only = true;
  made_.assumed = other.made_.assumed;
  for (std::size_t i = 0; i < other.contexts_.size(); ++i)
    contexts_.push_back(std::make_unique<CallContext>());
  hook_.emplace([](void* self) { static_cast<FunctionImpl*>(self)->free_in_child(); }, this);
  if (options.micro_batches == other.compile_.micro_batches &&
      options.bfloat16_products == other.compile_.bfloat16_products &&
      (options.round == RoundActivations::Always) ==
          (other.compile_.round == RoundActivations::Always)) {
    made_.lowered = other.made_.lowered;  // planned otherwise, but the same tasks
    return;
  }
  std::lock_guard lock(compile_mutex_);
  program_for(made_.assumed);  // sizes that vary are -1 there, and stay open
}

void FunctionImpl::make_callable() {
  std::lock_guard lock(compile_mutex_);
  if (!options_.plan_only) return;
  generate_code(*made_.lowered, made_.trace);
  const NoFork whole;
  made_.executables.clear();  // they have no code
  others_.clear();
  options_.plan_only = false;
  planner_ = false;
}

FunctionImpl* FunctionImpl::in_slices(std::int64_t count) {
  if (const auto known = variants_.find(count); known != variants_.end())
    return known->second.get();
  if (!not_in_slices_.empty()) return nullptr;
  Planner variant;
  std::string why_not;
  try {
    Ways ways = own_ways();
    ways.micro_batches = count;
    ways.round = settled_rounding();
    variant = planner(ways);
  } catch (const Error& e) {
    if (e.fault() != Fault::Value) throw;
    why_not = e.message();
  }
  const NoFork whole;
  if (!variant) {
    not_in_slices_ = std::move(why_not);
    return nullptr;
  }
  return (variants_[count] = std::move(variant)).get();
}

FunctionImpl::SizeSources FunctionImpl::size_sources(std::span<const Dims> shapes,
                                                     const Function::Values& values) const {
  SizeSources from{{shapes.begin(), shapes.end()},
                   values,
                   Function::Values(shared_.size()),
                   std::vector<bool>(argument_count_, false)};
  from.shapes.resize(argument_count_);  // values of a first stage are 0-d
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    SharedVariable& v = *shared_[i].variable;
    const ReadLock reader(v);
    const Array* value = v.value_if_materialised();
    from.shapes.push_back(value ? value->shape : v.recipe()->shape);
    if (value && value->shape.empty() && is_discrete(value->dtype))
      from.shared_values[i] = value->at_int(0);
  }
  return from;
}

FunctionImpl::SizeSources FunctionImpl::size_sources(const CallContext& c) const {
  std::vector<Dims> shapes;
  Function::Values values;
  for (const ArgView& a : c.arguments) {
    shapes.push_back(a.shape);
    values.emplace_back();
    if (a.shape.empty() && is_discrete(a.dtype)) values.back() = read_integer(a.data, a.dtype);
  }
  SizeSources from = size_sources(shapes, values);
  from.copied = c.copied;
  return from;
}

std::shared_ptr<const Executable> FunctionImpl::plan_for(const SizeSources& from,
                                                         std::string& assumed) {
  std::shared_ptr<const Lowered> l = program_for(
      {from.shapes.begin() + static_cast<std::ptrdiff_t>(argument_count_), from.shapes.end()});
  const Graph& g = l->program.graph;
  std::vector<std::int64_t> symbols = symbols_for(*l, from, assumed),
                            sizes(g.sizes().nodes().size());
  evaluate_sizes(g.sizes(), symbols, sizes);
  try {
    check_requirements(g, l->early_requirements, sizes);
  } catch (Error& e) {
    if (!assumed.empty())
      e.reword(e.message(), fmt::format("{} was taken as 0; give its value to memory", assumed));
    throw;
  }
  return executable_for(l, symbols, sizes, from.copied);
}

std::int64_t FunctionImpl::rows_to_cut(const SizeSources& from) const {
  const auto end = from.shapes.begin() + static_cast<std::ptrdiff_t>(argument_count_);
  const auto batched =
      std::find_if(from.shapes.begin(), end, [](const Dims& shape) { return !shape.empty(); });
  return batched == end ? kUnknownRows : (*batched)[0];
}

Function::Way FunctionImpl::own_way() const {
  return {std::max<std::int64_t>(1, compile_.micro_batches),
          compile_.round == RoundActivations::Always};
}

Function::Way FunctionImpl::way(std::span<const Dims> shapes) {
  const SizeSources from = size_sources(shapes, {});
  std::lock_guard lock(compile_mutex_);
  const FunctionImpl* const chosen = has_choice() ? choose(from) : nullptr;
  return (chosen ? chosen : this)->own_way();
}

void FunctionImpl::set_way(std::span<const Dims> shapes, const Function::Way& way) {
  const SizeSources from = size_sources(shapes, {});
  std::lock_guard lock(compile_mutex_);
  if (!has_choice() && way == own_way()) return;
  take_way(from, way);  // an error changes nothing
  const std::vector<Dims> given(shapes.begin(), shapes.end());
  std::erase_if(set_ways_, [&](const SetWay& s) { return s.shapes == given; });
  set_ways_.push_back({given, way});
  made_.choices.clear();
  for (Made& m : others_) m.choices.clear();
}

FunctionImpl* FunctionImpl::take_way(const SizeSources& from, const Function::Way& way) try {
  if (way.rounded && compile_.round == RoundActivations::IfNeeded) {
    std::lock_guard lock(rounded().compile_mutex_);
    FunctionImpl* const taken = rounded_->take_way(from, way);
    return taken ? taken : rounded_.get();
  }
  if (way.rounded != (compile_.round == RoundActivations::Always))
    fail(Fault::Value, way.rounded ? "activations are kept in bfloat16 there, here in float32"
                                   : "activations are kept in float32 there, here in bfloat16");
  const std::int64_t own = compile_.micro_batches;
  if (own > 0 && own != way.slices)
    fail(Fault::Value, fmt::format("a batch runs in {} slices there, here in {}", way.slices, own));
  FunctionImpl* const variant = own == 0 && way.slices > 1 ? in_slices(way.slices) : nullptr;
  if (own == 0 && way.slices > 1 && !variant) fail(Fault::Value, not_in_slices_);
  std::string assumed;
  std::unique_lock<LongMutex> lock;
  if (variant) lock = std::unique_lock(variant->compile_mutex_);
  (variant ? variant : this)->plan_for(from, assumed);
  return variant;
} catch (const OverBudget& e) {
  if (planner_) throw;
  refuse(from, e);
}

FunctionImpl* FunctionImpl::choose(const SizeSources& from, double* least_seconds) {
  for (const SetWay& s : set_ways_)
    if (std::equal(s.shapes.begin(), s.shapes.end(), from.shapes.begin()))
      return take_way(from, s.way);
  std::shared_ptr<const Executable> whole;
  std::optional<OverBudget> refusal;  // of the way that needs least
  const auto keep = [&](const OverBudget& e) {
    if (!refusal || e.needed() < refusal->needed()) refusal.emplace(e);
  };
  std::string assumed;
  // Slices may be predicted to be faster, as their values stay in caches. They are no way as long
  // as the whole fits, so that more memory would take longer: the whole bounds their time.
  double least = 0;
  try {
    whole = plan_for(from, assumed);
    if (plain(*whole->planned)) return nullptr;
    least = whole->planned->plain_seconds;
  } catch (const OverBudget& e) {
    keep(e);
    least = e.plain_seconds();
  }
  if (least_seconds) *least_seconds = least;
  const std::int64_t rows = rows_to_cut(from);
  FunctionImpl* best = nullptr;
  std::shared_ptr<const Planned> fastest = whole ? whole->planned : nullptr;
  for (std::int64_t count : kSlices) {
    const bool possible = compile_.micro_batches == 0 && count <= rows;
    FunctionImpl* const variant = possible ? in_slices(count) : nullptr;
    if (!variant) break;
    try {
      std::lock_guard lock(variant->compile_mutex_);
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
  if (fastest || !refusal) return best;
  if (FunctionImpl* way = choose_rounded(from)) return way;
  if (planner_) throw OverBudget(*refusal);
  refuse(from, *refusal);
}

FunctionImpl& FunctionImpl::rounded() {
  if (!rounded_) {
    Ways ways = own_ways();
    ways.round = RoundActivations::Always;
    Planner rounded = planner(ways);
    const NoFork whole;
    rounded_ = std::move(rounded);
  }
  return *rounded_;
}

FunctionImpl* FunctionImpl::choose_rounded(const SizeSources& from) {
  if (compile_.round != RoundActivations::IfNeeded) return nullptr;
  try {
    std::lock_guard lock(rounded().compile_mutex_);
    FunctionImpl* const way = rounded_->choose(from);
    return way ? way : rounded_.get();
  } catch (const Error& e) {
    if (e.fault() != Fault::Memory) throw;
    return nullptr;
  }
}

FunctionImpl* FunctionImpl::choose_for_call(const CallContext& c) {
  const std::vector<SizeId>& key = c.lowered->key;
  const auto chosen =
      std::find_if(made_.choices.begin(), made_.choices.end(), [&](const Choice& choice) {
        if (choice.copied != c.copied) return false;
        for (std::size_t i = 0; i < key.size(); ++i)
          if (choice.key[i] != c.sizes[key[i]]) return false;
        return true;
      });
  if (chosen == made_.choices.end()) {
    Choice choice{{}, c.copied, nullptr};
    for (SizeId id : key) choice.key.push_back(c.sizes[id]);
    choice.way = choose(size_sources(c));
    if (choice.way) choice.way->make_callable();
    const NoFork whole;
    made_.choices.push_front(std::move(choice));
    if (made_.choices.size() > kMaxChoices) made_.choices.pop_back();
  } else if (chosen != made_.choices.begin()) {
    const NoFork whole;
    made_.choices.splice(made_.choices.begin(), made_.choices, chosen);
  }
  return made_.choices.front().way;
}

}  // namespace snug
