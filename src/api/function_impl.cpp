#include "api/function_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "api/measure_device.h"
#include "api/measure_disk.h"
#include "base/bytes.h"
#include "base/kept_blocks.h"
#include "base/log.h"
#include "base/origin_marks.h"
#include "base/pool.h"
#include "base/spelling.h"
#include "base/threads.h"
#include "graph/capture.h"
#include "graph/words.h"
#include "place/pins.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

void check_options(const FunctionOptions& options) {
  if (options.threads < 0 || options.threads > kMostThreads)
    fail(Fault::Value, fmt::format("function: threads is {}", options.threads),
         fmt::format("it is a number up to {}, or 0 for all cores", kMostThreads));
  if (options.contexts < 1 || options.contexts > kMostThreads)
    fail(Fault::Value, fmt::format("function: contexts is {}", options.contexts),
         fmt::format("it is the number of calls at the same time, from 1 to {}", kMostThreads));
  if (options.micro_batches < 0)
    fail(Fault::Value, fmt::format("function: micro_batches is {}", options.micro_batches),
         "it is the number of slices that a batch runs in");
  if (options.snapshot < 0)
    fail(Fault::Value, fmt::format("function: snapshot is {}", options.snapshot),
         "it is a number of calls, or 0 for no copies");
  if (options.precision != DType::F32 && options.precision != DType::BF16)
    fail(Fault::Value, fmt::format("function: precision is {}", name_of(options.precision)),
         "choose float32 or bfloat16");
  if (options.activations != DType::F32 && options.activations != DType::BF16)
    fail(Fault::Value, fmt::format("function: activations is {}", name_of(options.activations)),
         "choose float32 or bfloat16");
}

/// A device of a function; "" is the host.
std::optional<DeviceId> find_device(std::string_view name, const DeviceList& devices) {
  if (name.empty() || name == "cpu") return 0;
  for (DeviceId d = 0; d < devices.size(); ++d)
    if (devices[d].info().name == name) return d;
  return std::nullopt;
}

std::string names_of(const DeviceList& devices) {
  std::string names = "cpu";
  for (DeviceId d = 1; d < devices.size(); ++d) names += ", " + devices[d].info().name;
  return names;
}

DeviceId device_named(std::string_view name, const DeviceList& devices) {
  if (const auto d = find_device(name, devices)) return *d;
  fail(Fault::Value, fmt::format("'{}' is no device of the function", name),
       fmt::format("its devices are {}", names_of(devices)));
}

/// What is written, for the devices of a function.
Budgets budgets_of(const std::string& memory, const DeviceList& devices) {
  const BudgetText text = parse_budget_text(memory);
  Budgets budgets;
  for (DeviceId d = 0; d < devices.size(); ++d) budgets.set(d, text.each);
  for (const auto& [name, bytes] : text.of) {
    const auto d = find_device(name, devices);
    if (!d)
      fail(Fault::Value,
           fmt::format("memory: '{}={}' is no budget of a device of the function", name,
                       amount_to_type(bytes)),
           devices.size() > 1
               ? fmt::format("its devices are {}: write {}", names_of(devices),
                             "\"opencl:0=3GiB,cpu=8GiB\"")
               : fmt::format("it has no device but the cpu: write \"4GiB\", or give it a {}",
                             option("device")));
    budgets.set(*d, bytes);
  }
  return budgets;
}

/// Checks inputs and outputs, and keeps their types and names.
void take_signature(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                    FunctionGraph& f) {
  std::unordered_set<Variable*> seen;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) fail(Fault::Type, fmt::format("function: input {} is an empty expression", i));
    if (as_shared(inputs[i]) || constant_value(inputs[i]))
      fail(Fault::Type,
           fmt::format("function: input {} ({}) is a {}, not a variable", i, label(inputs[i]),
                       as_shared(inputs[i]) ? "shared variable" : "constant"),
           as_shared(inputs[i])
               ? "shared variables are inputs by themselves; use givens or updates to change them"
               : "leave it out; a value that changes from call to call is a variable");
    if (!seen.insert(inputs[i].get()).second)
      fail(Fault::Value, fmt::format("function: {} is given twice as an input", label(inputs[i])));
    f.input_types.push_back(inputs[i].type());
    f.input_names.push_back(inputs[i].name());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i])
      fail(Fault::Type, fmt::format("function: output {} is an empty expression", i));
    f.output_types.push_back(outputs[i].type());
  }
}

}  // namespace

FunctionImpl::FunctionImpl(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                           const FunctionOptions& options)
    : options_(options) {
  const DeviceMarkScope nowhere("");  // what is made from now on is the compiler's
  check_options(options);
  auto captured = std::make_shared<FunctionGraph>();
  captured->name = options.name;
  take_signature(inputs, outputs, *captured);
  capture_stages(inputs, outputs, options, *captured);
  captured->find_shared();
  function_ = std::move(captured);
  collect_locks();
  // The graph has what is needed of them; expressions must not live as long as the function.
  options_.updates.clear();
  options_.givens.clear();
  options_.shapes.clear();
  Shares shares;
  CompileOptions compile = compile_options(options, shares);
  for (int i = 0; i < options.contexts; ++i) contexts_.push_back(std::make_unique<CallContext>());
  shares_arenas_ = options.share_arenas && contexts_.size() == 1;
  strategy_ = std::make_unique<Strategy>(
      std::make_shared<Compiled>(function_, std::move(compile),
                                 options.plan_only ? Compiled::Code::None : Compiled::Code::Now,
                                 std::make_shared<FrontierUser>()),
      shares);
  if (options_.mode != Mode::Reference) {
    std::lock_guard lock(compile_mutex_);
    strategy_->whole().program_for(function_->shared_shapes());
  }
  if (!options.shapes.empty()) plan_for_hints(inputs, options.shapes);
  if (has_other_devices_ && options_.mode != Mode::Reference) require_room_for_variables();
  hook_.emplace([](void* self) { static_cast<FunctionImpl*>(self)->free_in_child(); }, this);
}

FunctionImpl::~FunctionImpl() {
  contexts_.clear();
  drop_claims();
}

void FunctionImpl::drop_claims() {
  ArenaPool::shared().change_claim(std::exchange(claim_, 0), 0);
  for (DeviceClaim& c : device_claims_) {
    c.device->arenas.change_claim(c.own, 0);
    c.device->staging.change_claim(c.staging, 0);
  }
  device_claims_.clear();
}

CompileOptions FunctionImpl::compile_options(const FunctionOptions& options, Shares& shares) {
  CompileOptions o;
  o.bfloat16_products = options.precision == DType::BF16 && options.mode == Mode::Fast;
  if (options.activations == DType::BF16)
    o.round = options.always_round ? RoundActivations::Always : RoundActivations::IfNeeded;
  o.micro_batches = options.micro_batches;
  o.disabled_passes = options.disabled_passes;
  o.strict_math = options.strict_math;
  wanted_threads_ = options.threads > 0 ? options.threads : available_threads();
  o.threads = options.plan_only ? wanted_threads_ : pool_threads(wanted_threads_);
  if (!options.plan_only && options.mode != Mode::Reference) load_libraries_under_limits();
  o.place_on = options.device;
  choose_devices(o, function_->graph);
  has_other_devices_ = o.devices->size() > 1;
  o.budgets = budgets_of(options.memory, *o.devices);
  take_shares(o, shares);
  o.snapshots = options.snapshot > 0;
  o.recompute = options.recompute;
  if (o.budgets.any()) o.device = measured_host_if_possible();
  if (!options.offload.empty()) o.disk = measured_disk(options.offload);
  if (!o.device && options.profile) o.device = measured_host_if_known();
  return o;
}

void FunctionImpl::capture_stages(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                                  const FunctionOptions& options, FunctionGraph& into) {
  std::vector<Expr> arguments = inputs;
  auto capture_all = [&] {
    return capture(
        {arguments, outputs, options.updates, options.givens, !options.no_default_updates});
  };
  Captured captured = capture_all();
  const std::vector<bool> used = captured.used;
  if (!captured.stages.empty()) {
    // As the rest, but for what belongs to it and what decides numbers.
    FunctionOptions first = options;
    first.updates.clear();
    first.shapes.clear();
    first.name.clear();
    first.offload.clear();
    first.no_default_updates = true;
    first.on_unused_input = OnUnusedInput::Ignore;
    first.micro_batches = 0;
    first.precision = first.activations = DType::F32;
    first.plan_only = first.profile = false;
    // Of equal sizes only one shows until it is an argument; a size may also decide others.
    std::vector<Expr> stages;
    while (!captured.stages.empty()) {
      for (const Expr& e : captured.stages) {
        if (std::any_of(stages.begin(), stages.end(), [&](const Expr& s) { return same(s, e); }))
          throw UnsupportedError(
              fmt::format("function: the size given by {} cannot be known before the rest runs",
                          label(e)),
              {}, e->origin);
        stages.push_back(e);
        into.stage_text += (into.stage_text.empty() ? "" : ", ") + label(e);
      }
      arguments = inputs;
      arguments.insert(arguments.end(), stages.begin(), stages.end());
      captured = capture_all();
    }
    stage_ = std::make_shared<FunctionImpl>(inputs, stages, first);
  }
  into.argument_count = arguments.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (used[i] || options.on_unused_input == OnUnusedInput::Ignore) continue;
    std::string text = fmt::format("function: input {} ({}) is not used", i, label(inputs[i]));
    if (options.on_unused_input == OnUnusedInput::Raise)
      throw UnusedError(
          text, "leave it out, or pass " + choice("on_unused_input", "OnUnusedInput", "Ignore"),
          inputs[i]->origin);
    warn(text);
  }
  into.graph = std::move(captured.graph);
}

void FunctionImpl::plan_for_hints(const std::vector<Expr>& inputs,
                                  const std::vector<std::pair<Expr, Dims>>& shapes) {
  std::vector<Dims> hints;
  bool complete = true;
  for (const Expr& in : inputs) {
    auto it = std::find_if(shapes.begin(), shapes.end(),
                           [&](const auto& h) { return same(h.first, in); });
    Dims hint = it != shapes.end() ? it->second : in.type().shape;
    for (std::int64_t d : hint) complete &= d >= 0;
    if (static_cast<int>(hint.size()) != in.ndim())
      fail(Fault::Shape, fmt::format("shapes: {} has {} dimensions, the hint {} has {}", label(in),
                                     in.ndim(), describe_shape(hint), hint.size()));
    hints.push_back(hint);
  }
  if (!complete || options_.mode == Mode::Reference) return;
  // Sizes that depend on the values of integers can be wrong only at the call, and shared variables
  // may have others by then.
  const bool open =
      !function_->shared.empty() || std::any_of(inputs.begin(), inputs.end(), [](const Expr& in) {
        return in.ndim() == 0 && is_discrete(in.dtype());
      });
  try {
    memory(hints);
  } catch (const Error& e) {
    if (e.fault() == Fault::Memory || e.fault() == Fault::Interrupted || !open) throw;
  }
}

std::uint64_t FunctionImpl::share_of_process(std::uint64_t& taken_by_others) const {
  const std::uint64_t budget = memory_budget();
  if (budget == 0) return 0;
  std::unordered_set<const Storage*> own;
  std::uint64_t bytes = 0;
  for (const VariableLock& l : locks_) {
    const ReadLock reader(*l.variable);
    const Array* value = l.variable->value_if_materialised();
    if (value && own.insert(value->storage.get()).second)
      bytes += static_cast<std::uint64_t>(value->storage->bytes());
  }
  const MemoryAccount account = memory_account();
  taken_by_others = account.total() - account.arenas - std::min(account.shared, bytes);
  return budget > taken_by_others ? budget - taken_by_others : 1;  // 0 is no limit
}

void FunctionImpl::take_shares(CompileOptions& o, Shares& shares) const {
  shares.resize(o.devices->size());
  for (DeviceId d = 0; d < shares.size(); ++d) {
    Strategy::ProcessShare& share = shares[d];
    share.own = o.budgets.of(d);
    const std::uint64_t budget =
        d ? device_memory_budget((*o.devices)[d].info().name) : memory_budget();
    std::uint64_t left = 0;
    if (d == 0) {
      left = share_of_process(share.taken_by_others);
    } else if (budget > 0) {
      share.taken_by_others = taken_by_others(*o.devices, d, variable_bytes_on(*o.devices, d));
      left = budget > share.taken_by_others ? budget - share.taken_by_others : 1;
    }
    if (left == 0 || (share.own > 0 && left >= share.own)) continue;
    o.budgets.set(d, left);
    share.budget = budget;
  }
}

namespace {

/// What has a known size on a device, whatever the sizes of a call.
struct Known {
  std::string what;
  std::uint64_t bytes;
  bool stays;  // between calls; else it is a copy
  OriginId origin;
};

/// Variables, constants and copies of variables; the largest first.
std::vector<Known> known_on(DeviceId device, const Graph& g) {
  std::vector<Known> all;
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id) {
    const Node& n = g.node(id);
    if (n.device != device) continue;
    const std::uint32_t source = n.op == &transfer_op ? n.inputs[0].node : id;
    const auto in = std::find_if(g.inputs().begin(), g.inputs().end(), [&](const GraphInput& i) {
      return i.shared && i.value.node == source;
    });
    const bool is_constant = n.op->name == "constant", is_variable = in != g.inputs().end();
    if (!is_constant && !is_variable) continue;
    const std::shared_ptr<const Array> value = is_constant ? n.attrs.array("value") : nullptr;
    const Dims shape = value ? value->shape : in->shared->shape();
    const DType dtype = n.types[0].dtype;
    const std::string name = value                       ? "a constant"
                             : !in->shared->name.empty() ? in->shared->name
                                                         : "a shared variable";
    all.push_back({fmt::format("{}{}, {}", source == id ? "" : "a copy of ", name,
                               describe_value(dtype, shape, n.origin)),
                   static_cast<std::uint64_t>(product(shape) * size_of(dtype)), source == id,
                   n.origin});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Known& a, const Known& b) { return a.bytes > b.bytes; });
  return all;
}

}  // namespace

void FunctionImpl::require_room_for_variables() const {
  const CompileOptions& o = strategy_->options();
  const Budgets budgets = effective_budgets(o);
  const bool puts = !named_devices(function_->graph).empty();
  for (DeviceId d = 1; d < o.devices->size(); ++d) {
    const std::vector<Known> known =
        known_on(d, strategy_->whole().current().lowered->program.graph);
    if (known.empty()) continue;
    // What stays is there together, and each copy for a while.
    std::uint64_t stay = 0;
    for (const Known& k : known) stay += k.stays ? k.bytes : 0;
    const DeviceInfo& device = o.devices->infos()[d];
    const std::uint64_t needed = std::max(stay, known[0].bytes);
    const auto largest = static_cast<std::uint64_t>(device.largest_allocation);
    const bool too_much = !budgets.allow(d, needed);
    if (!too_much && (largest == 0 || known[0].bytes <= largest)) continue;
    const Strategy::ProcessShare share = strategy_->share_of(d);
    const auto amount = [](std::uint64_t n) {
      return fmt::format("{} ({} bytes)", describe_bytes(n), n);
    };
    std::string text = fmt::format("{}: ", device.name), hint;
    if (!too_much)
      text += fmt::format("a value has {}, and the device allocates at most {} at a time",
                          amount(known[0].bytes), amount(largest));
    else
      text += fmt::format(
          "variables, constants and copies of them need at least {}, and {} {}", amount(needed),
          share.budget          ? fmt::format("of the budget of the process, {}, others leave",
                                              describe_bytes(share.budget))
          : o.budgets.of(d) > 0 ? "the budget is"
                                : "it has",
          amount(budgets.of(d)));
    constexpr std::size_t kShown = 6;
    for (std::size_t k = 0; k < known.size() && k < kShown; ++k)
      text += fmt::format("\n    {:>11}   {}", describe_bytes(known[k].bytes), known[k].what);
    if (too_much && share.budget) hint = fmt::format(", or raise {}", process_budget_name());
    throw MemoryError(std::move(text),
                      fmt::format("leave them on the host: {}{}",
                                  puts ? "put them on no device" : option("device", "cpu"), hint),
                      {.needed = too_much ? needed : known[0].bytes,
                       .allowed = too_much ? budgets.of(d) : largest,
                       .device = device.name},
                      known[0].origin);
  }
}

void FunctionImpl::collect_locks() {
  if (stage_) locks_ = std::move(stage_->locks_);
  for (const FunctionGraph::Shared& s : function_->shared) {
    auto same = [&](const VariableLock& l) { return l.variable == s.variable; };
    if (auto it = std::find_if(locks_.begin(), locks_.end(), same); it != locks_.end())
      it->written |= s.written;
    else
      locks_.push_back({s.variable, s.written});
  }
  std::sort(locks_.begin(), locks_.end(), [](const VariableLock& a, const VariableLock& b) {
    return a.variable->id < b.variable->id;
  });
}

MemoryReport FunctionImpl::memory(std::span<const Dims> shapes, const Function::Values& values,
                                  const std::vector<bool>& copied) {
  std::vector<std::string> exported;
  for (std::size_t i = 0; i < function_->shared.size(); ++i) {
    SharedVariable& v = *function_->shared[i].variable;
    const ReadLock reader(v);
    const Array* value = v.value_if_materialised();
    if (value && value->storage.use_count() > 1)
      exported.push_back(fmt::format("{} ({})",
                                     v.name.empty() ? fmt::format("number {}", i) : v.name,
                                     describe_bytes(static_cast<std::uint64_t>(value->bytes()))));
  }
  const std::size_t inputs = function_->input_types.size();
  if (!copied.empty() && copied.size() != inputs)
    fail(Fault::Value,
         fmt::format("memory: the function has {} inputs, {} are said to be copied or not", inputs,
                     copied.size()));
  SizeSources from = function_->size_sources(shapes, values);
  std::copy(copied.begin(), copied.end(), from.copied.begin());
  std::lock_guard guard(compile_mutex_);
  MemoryReport r = strategy_->memory(from);
  r.exported = std::move(exported);
  return r;
}

std::int64_t FunctionImpl::smallest_budget(std::span<const Dims> shapes,
                                           const Function::Values& values,
                                           const std::string& device) {
  const SizeSources from = function_->size_sources(shapes, values);
  const DeviceId id = device_named(device, *strategy_->options().devices);
  std::lock_guard guard(compile_mutex_);
  return strategy_->smallest_budget(from, id);
}

std::vector<Remedy> FunctionImpl::remedies(std::span<const Dims> shapes,
                                           const Function::Values& values,
                                           const std::string& memory) {
  const SizeSources from = function_->size_sources(shapes, values);
  const Budgets budgets = budgets_of(memory, *strategy_->options().devices);
  std::lock_guard guard(compile_mutex_);
  return strategy_->remedies(from, budgets);
}

MaxBatch FunctionImpl::max_batch(std::span<const Dims> shapes, const Function::Values& values,
                                 const std::string& memory, std::int64_t axis) {
  const CompileOptions& o = strategy_->options();
  Budgets budgets = memory.empty() ? o.budgets : budgets_of(memory, *o.devices);
  std::vector<std::uint64_t> variables(o.devices->size());
  for (std::size_t d = 1; d < variables.size(); ++d)
    variables[d] = variable_bytes_on(*o.devices, static_cast<DeviceId>(d));
  std::unique_lock guard(compile_mutex_);
  for (std::size_t d = 1; d < o.devices->size(); ++d) {
    const std::uint64_t has = o.devices->accelerator(static_cast<DeviceId>(d)).ledger().limit();
    if (budgets.of(d) > 0 || has == 0) continue;
    const std::uint64_t others =
        taken_by_others(*o.devices, static_cast<DeviceId>(d), variables[d]);
    budgets.set(d, has > others ? has - others : 1);  // 0 is no limit
  }
  const std::shared_ptr<Strategy> apart = strategy_->apart();
  guard.unlock();  // the search takes long, and has its own plans
  return apart->max_batch(shapes, values, budgets, axis);
}

namespace {

/// What the constants of a program have there now.
std::uint64_t constant_bytes(const Lowered& l, DeviceId device) {
  std::uint64_t sum = 0;
  for (const auto& [node, memory] : l.constants)
    if (l.program.graph.node(node).device == device) sum += memory->bytes();
  for (const auto& [node, inner] : l.inner) sum += constant_bytes(*inner, device);
  return sum;
}

}  // namespace

std::uint64_t FunctionImpl::variable_bytes_on(const DeviceList& devices, DeviceId device) const {
  std::uint64_t sum = 0;
  for (const VariableLock& l : locks_) {
    const ReadLock reader(*l.variable);
    const DeviceArray* const there = l.variable->value_on_device();
    if (there && there->memory &&
        there->memory->device() == devices.accelerator(device).info().name)
      sum += there->memory->bytes();
  }
  return sum;
}

std::uint64_t FunctionImpl::taken_by_others(const DeviceList& devices, DeviceId device,
                                            std::uint64_t variables) const {
  const Accelerator& a = devices.accelerator(device);
  std::uint64_t own = a.arenas.idle_bytes() + variables;
  if (strategy_)
    strategy_->visit([&](const Compiled& way) {
      way.visit_programs([&](const Lowered& l) { own += constant_bytes(l, device); });
    });
  const std::uint64_t taken = a.ledger().claimed();
  return taken - std::min(taken, own);
}

Function::Way FunctionImpl::way(std::span<const Dims> shapes) {
  const SizeSources from = function_->size_sources(shapes, {});
  std::lock_guard guard(compile_mutex_);
  return strategy_->way(from);
}

void FunctionImpl::set_way(std::span<const Dims> shapes, const Function::Way& way) {
  const SizeSources from = function_->size_sources(shapes, {});
  std::lock_guard guard(compile_mutex_);
  strategy_->set_way(shapes, from, way);
}

std::string FunctionImpl::explain() {
  std::lock_guard guard(compile_mutex_);
  return strategy_->explain();
}

std::int64_t FunctionImpl::arena_bytes() const {
  const std::int64_t of_stage = stage_ ? stage_->arena_bytes() : 0;
  std::lock_guard lock(context_mutex_);
  std::uint64_t bytes = claim_;
  if (!shares_arenas_)
    for (const auto& c : contexts_) bytes += c->arena ? c->arena->bytes() : 0;
  return static_cast<std::int64_t>(bytes) + of_stage;
}

std::int64_t FunctionImpl::counter(std::string_view which) const {
  const Compiled& whole = strategy_->whole();
  const Compiled::Counters& n = whole.counters();
  const auto& program = whole.current().lowered;
  const std::pair<std::string_view, std::int64_t> all[] = {
      {"programs", n.programs},
      {"plans", n.plans},
      {"instances", n.instances},
      {"kernels", program ? static_cast<std::int64_t>(program->program.kernels.size()) : 0},
      {"calls", calls_},
      {"frontiers", whole.frontiers()->searches},
      {"kernels_compiled", n.kernels_compiled},
      {"kernels_from_cache", n.kernels_from_cache},
      {"arena_bytes", arena_bytes()},
      {"primitives", static_cast<std::int64_t>(made_code().primitives)}};  // by all functions
  std::vector<std::string> names;
  for (auto [name, value] : all) {
    if (name == which) return value;
    names.emplace_back(name);
  }
  fail(Fault::Value, fmt::format("no counter '{}'", which),
       fmt::format("did you mean '{}'?", nearest(which, names)));
}

void FunctionImpl::forget_plans() {
  std::lock_guard lock(compile_mutex_);
  strategy_->forget_plans();
}

void FunctionImpl::free() {
  forget_plans();
  FrontierCache::of_process().forget(*strategy_->whole().frontiers());
  {
    std::lock_guard lock(context_mutex_);
    for (auto& c : contexts_)
      if (!c->busy) c = std::make_unique<CallContext>();
    drop_claims();
  }
  drop_kept_blocks();
  if (stage_) stage_->free();
}

void FunctionImpl::visit_shared(const std::function<void(SharedVariable&)>& visit) {
  std::unique_lock compiling(compile_mutex_, std::try_to_lock);
  std::unique_lock calling(context_mutex_, std::try_to_lock);
  if (!compiling || !calling) return;
  auto visit_graph = [&](const Graph& graph) {
    for (const GraphInput& in : graph.inputs())
      if (in.shared) visit(*in.shared);
  };
  visit_graph(function_->graph);
  std::unordered_set<const Lowered*> programs;  // ways share them
  strategy_->visit([&](const Compiled& way) {
    way.visit_graphs(visit_graph);
    way.visit_programs([&](const Lowered& l) { programs.insert(&l); });
  });
  for (const auto& c : contexts_)
    if (c->lowered) programs.insert(c->lowered.get());
  for (const Lowered* l : programs) visit_graph(l->program.graph);
  if (stage_) stage_->visit_shared(visit);
}

}  // namespace snug
