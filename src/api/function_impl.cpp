#include "api/function_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "api/measure_device.h"
#include "api/measure_disk.h"
#include "backend/cpu/jit.h"
#include "backend/native/blas_buffers.h"
#include "base/bytes.h"
#include "base/fork.h"
#include "base/kept_blocks.h"
#include "base/log.h"
#include "base/pool.h"
#include "base/spelling.h"
#include "base/threads.h"
#include "exec/kept_plans.h"
#include "graph/substitute_sizes.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

constexpr std::size_t kMaxExecutables = 64, kMinExecutables = 4;
constexpr std::int64_t kMaxExecutableBytes = std::int64_t{32} << 20;  // of more than the fewest
/// While all functions together have more, each one that makes another keeps the fewest.
constexpr std::int64_t kMaxExecutableBytesOfAll = std::int64_t{64} << 20;
constexpr std::size_t kMaxPlans = 16;
constexpr std::size_t kMaxPrograms = 8;  // for sizes of shared variables, besides the current one

}  // namespace

FunctionImpl::FunctionImpl(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                           const FunctionOptions& options)
    : name(options.name), options_(options) {
  if (options.threads < 0 || options.threads > kMostThreads)
    fail(Fault::Value, fmt::format("function: threads is {}", options.threads),
         fmt::format("it is a number up to {}, or 0 for all cores", kMostThreads));
  if (options.contexts < 1 || options.contexts > kMostThreads)
    fail(Fault::Value, fmt::format("function: contexts is {}", options.contexts),
         fmt::format("it is the number of calls at the same time, from 1 to {}", kMostThreads));
  if (options.micro_batches < 0)
    fail(Fault::Value, fmt::format("function: micro_batches is {}", options.micro_batches),
         "it is the number of slices that a batch runs in");
  if (options.precision != DType::F32 && options.precision != DType::BF16)
    fail(Fault::Value, fmt::format("function: precision is {}", name_of(options.precision)),
         "choose float32 or bfloat16");
  if (options.activations != DType::F32 && options.activations != DType::BF16)
    fail(Fault::Value, fmt::format("function: activations is {}", name_of(options.activations)),
         "choose float32 or bfloat16");
  take_signature(inputs, outputs);
  graph_ = capture_stages(inputs, outputs, options);
  std::unordered_set<std::uint32_t> updated;
  for (const Update& u : graph_.updates()) updated.insert(u.input);
  for (std::uint32_t i = 0; i < graph_.inputs().size(); ++i)
    if (SharedVariable* s = graph_.inputs()[i].shared.get())
      shared_.push_back({i, s, updated.count(i) != 0});
  collect_locks();
  // The graph has what is needed of them; expressions must not live as long as the function.
  options_.updates.clear();
  options_.givens.clear();
  options_.shapes.clear();
  compile_.bfloat16_products = options.precision == DType::BF16 && options.mode == Mode::Fast;
  if (options.activations == DType::BF16)
    compile_.round = options.always_round ? RoundActivations::Always : RoundActivations::IfNeeded;
  compile_.micro_batches = options.micro_batches;
  compile_.disabled_passes = options.disabled_passes;
  compile_.strict_math = options.strict_math;
  wanted_threads_ = options.threads > 0 ? options.threads : available_threads();
  compile_.threads = options.plan_only ? wanted_threads_ : pool_threads(wanted_threads_);
  if (!options.plan_only && options.mode != Mode::Reference) native::load_blas_under_limits();
  compile_.budget = parse_bytes(options.memory);
  if (const std::uint64_t share = share_of_process();
      share && (compile_.budget == 0 || share < compile_.budget)) {
    compile_.budget = share;
    process_budget_ = memory_budget();
  }
  compile_.recompute = options.recompute;
  if (compile_.budget) compile_.device = measured_host_if_possible();
  if (!options.offload.empty()) compile_.disk = measured_disk(options.offload);
  if (!compile_.device && options.profile) compile_.device = measured_host_if_known();
  for (int i = 0; i < options.contexts; ++i) contexts_.push_back(std::make_unique<CallContext>());
  shares_arenas_ = options.share_arenas && contexts_.size() == 1;

  std::vector<Dims> shapes;
  for (const Shared& s : shared_) shapes.push_back(s.variable->shape());
  made_.assumed = shapes;
  if (options_.mode != Mode::Reference) {
    std::lock_guard lock(compile_mutex_);
    program_for(shapes);
  }
  if (!options.shapes.empty()) plan_for_hints(inputs, options.shapes);
  hook_.emplace([](void* self) { static_cast<FunctionImpl*>(self)->free_in_child(); }, this);
}

FunctionImpl::~FunctionImpl() { ArenaPool::shared().change_claim(claim_, 0); }

void FunctionImpl::take_signature(const std::vector<Expr>& inputs,
                                  const std::vector<Expr>& outputs) {
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
    input_types.push_back(inputs[i].type());
    input_names.push_back(inputs[i].name());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i])
      fail(Fault::Type, fmt::format("function: output {} is an empty expression", i));
    output_types.push_back(outputs[i].type());
  }
}

Graph FunctionImpl::capture_stages(const std::vector<Expr>& inputs,
                                   const std::vector<Expr>& outputs,
                                   const FunctionOptions& options) {
  std::vector<Expr> arguments = inputs;
  auto capture_all = [&] {
    return capture(
        {arguments, outputs, options.updates, options.givens, !options.no_default_updates});
  };
  Captured captured = capture_all();
  const std::vector<bool> used = captured.used;
  if (!captured.stages.empty()) {
    FunctionOptions first;
    first.givens = options.givens;
    first.no_default_updates = true;
    first.on_unused_input = OnUnusedInput::Ignore;
    first.mode = options.mode;
    first.threads = options.threads;
    first.strict_math = options.strict_math;
    first.disabled_passes = options.disabled_passes;
    first.memory = options.memory;
    first.share_arenas = options.share_arenas;
    first.contexts = options.contexts;
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
        stage_text_ += (stage_text_.empty() ? "" : ", ") + label(e);
      }
      arguments = inputs;
      arguments.insert(arguments.end(), stages.begin(), stages.end());
      captured = capture_all();
    }
    stage_ = std::make_shared<FunctionImpl>(inputs, stages, first);
  }
  argument_count_ = arguments.size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (used[i] || options.on_unused_input == OnUnusedInput::Ignore) continue;
    std::string text = fmt::format("function: input {} ({}) is not used", i, label(inputs[i]));
    if (options.on_unused_input == OnUnusedInput::Raise)
      throw UnusedError(
          text, "leave it out, or pass " + choice("on_unused_input", "OnUnusedInput", "Ignore"),
          inputs[i]->origin);
    warn(text);
  }
  return std::move(captured.graph);
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
      !shared_.empty() || std::any_of(inputs.begin(), inputs.end(), [](const Expr& in) {
        return in.ndim() == 0 && is_discrete(in.dtype());
      });
  try {
    memory(hints);
  } catch (const Error& e) {
    if (e.fault() == Fault::Memory || e.fault() == Fault::Interrupted || !open) throw;
  }
}

std::uint64_t FunctionImpl::share_of_process() {
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
  taken_by_others_ = account.total() - account.arenas - std::min(account.shared, bytes);
  return budget > taken_by_others_ ? budget - taken_by_others_ : 1;  // 0 is no limit
}

void FunctionImpl::collect_locks() {
  if (stage_) locks_ = std::move(stage_->locks_);
  for (const Shared& s : shared_) {
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

bool FunctionImpl::holds(const Dims& assumed, const Dims& shape) {
  for (std::size_t k = 0; k < shape.size(); ++k)
    if (assumed[k] >= 0 && assumed[k] != shape[k]) return false;
  return true;
}

Graph FunctionImpl::with_sizes(const std::vector<Dims>& assumed) {
  std::unordered_map<SizeId, SizeId> known;
  SizeTable& table = graph_.mutable_sizes();
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const Type& t = graph_.type(graph_.inputs()[shared_[i].input].value);
    for (std::size_t k = 0; k < assumed[i].size(); ++k) {
      SizeId d = t.dims[k];
      // A size shared with an argument stays open: the argument may be wrong, and then says so.
      if (assumed[i][k] < 0 || table.node(d).op != SizeOp::Symbol) continue;
      const Symbol& s = table.symbol_of(d);
      if (s.kind == Symbol::Kind::Dim && s.input == shared_[i].input)
        known[d] = table.constant(assumed[i][k]);
    }
  }
  return substitute_sizes(graph_, known);
}

std::vector<Dims> FunctionImpl::assumed_for(const std::vector<Dims>& shapes) {
  std::vector<Dims> assumed = shapes;
  const NoFork whole;  // graphs share their tables of sizes
  const Graph graph = with_sizes(assumed);
  for (const Update& u : graph.updates()) {
    const auto s = std::find_if(shared_.begin(), shared_.end(),
                                [&](const Shared& v) { return v.input == u.input; });
    if (s == shared_.end()) continue;
    Dims& dims = assumed[static_cast<std::size_t>(s - shared_.begin())];
    const Type& next = graph.type(u.value);
    for (std::size_t k = 0; k < dims.size(); ++k)
      if (graph.sizes().known(next.dims[k]) != dims[k]) dims[k] = -1;
  }
  return assumed;
}

std::shared_ptr<const Lowered> FunctionImpl::program_for(const std::vector<Dims>& shapes) {
  const auto serves = [&](const Made& m) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (!holds(m.assumed[i], shapes[i])) return false;
    return m.lowered != nullptr;
  };
  if (made_.lowered && serves(made_)) return made_.lowered;
  const auto earlier = std::find_if(others_.begin(), others_.end(), serves);
  Made next, dropped;  // what dies does so after the step
  if (earlier == others_.end()) next = lower_for(assumed_for(shapes));
  const NoFork whole;
  if (earlier != others_.end()) {
    next = std::move(*earlier);
    others_.erase(earlier);
  }
  std::swap(made_, next);
  if (next.lowered) others_.push_front(std::move(next));
  if (others_.size() > kMaxPrograms) {
    dropped = std::move(others_.back());
    others_.pop_back();
  }
  return made_.lowered;
}

FunctionImpl::Made FunctionImpl::lower_for(std::vector<Dims> assumed) {
  Made made;
  made.assumed = std::move(assumed);
  auto before = CpuJit::instance().counters();
  {
    const NoFork whole;  // graphs share their tables of sizes
    made.lowered = lower(with_sizes(made.assumed), compile_, made.trace);
  }
  if (!options_.plan_only) generate_code(*made.lowered, made.trace);
  auto after = CpuJit::instance().counters();
  kernels_compiled_ += static_cast<std::int64_t>(after.compiled - before.compiled);
  kernels_from_cache_ += static_cast<std::int64_t>(after.from_disk - before.from_disk);
  ++programs_;
  return made;
}

std::uint64_t FunctionImpl::fixed_bytes(const Graph& g, std::span<const std::int64_t> sizes) const {
  std::uint64_t total = 0;
  auto add = [&](const Type& t) {
    std::int64_t bytes = size_of(t.dtype);
    for (SizeId d : t.dims) bytes *= sizes[d];
    total += static_cast<std::uint64_t>(bytes);
  };
  for (const Shared& s : shared_) add(g.type(g.inputs()[s.input].value));
  for (Value v : g.outputs()) add(g.type(v));
  for (const Node& n : g.nodes())
    if (n.op->name == "constant") add(n.types[0]);
  return total;
}

std::shared_ptr<const Executable> FunctionImpl::executable_for(
    const std::shared_ptr<const Lowered>& l, std::span<const std::int64_t> symbols,
    std::span<const std::int64_t> sizes, const std::vector<bool>& copied) {
  auto matches = [&](const Executable& e) {
    if (e.planned->kind.copied != copied) return false;
    for (std::size_t i = 0; i < l->key.size(); ++i)
      if (e.key[i] != sizes[l->key[i]]) return false;
    return true;
  };
  for (auto it = made_.executables.begin(); it != made_.executables.end(); ++it)
    if (matches(**it)) {
      if (it != made_.executables.begin()) {
        const NoFork whole;
        made_.executables.splice(made_.executables.begin(), made_.executables, it);
      }
      return made_.executables.front();
    }
  const Graph& g = l->program.graph;
  SizeBounds bounds = bound_sizes(g.sizes(), symbols, symbols);
  CallKind kind{{}, copied};
  for (const Update& u : g.updates()) {
    const Type &a = g.type(g.inputs()[u.input].value), &b = g.type(u.value);
    bool same = true;
    for (std::size_t k = 0; k < a.dims.size(); ++k)
      same &= bounds.high[a.dims[k]] == bounds.high[b.dims[k]] &&
              bounds.low[b.dims[k]] == bounds.high[b.dims[k]];
    kind.same_shape.push_back(same);
  }
  std::uint64_t fixed = compile_.budget ? fixed_bytes(g, bounds.high) : 0;
  // A variable that changes its shape has its old and its new memory at once.
  for (std::size_t i = 0; i < g.updates().size(); ++i)
    if (!kind.same_shape[i]) fixed += bytes_of(l->program, bounds.high, g.updates()[i].value);
  std::shared_ptr<const Executable> e = counted(instantiate(
      *l, std::move(bounds), std::move(kind), fixed, compile_,
      planner_ ? std::span<const std::shared_ptr<const Planned>>{} : made_.plans, frontiers_));
  const NoFork whole;
  if (std::find(made_.plans.begin(), made_.plans.end(), e->planned) == made_.plans.end()) {
    made_.plans.insert(made_.plans.begin(), e->planned);
    if (made_.plans.size() > kMaxPlans) made_.plans.pop_back();
    ++plans_made_;
  }
  ++instances_;
  made_.executables.push_front(e);
  std::int64_t bytes = 0;
  for (const auto& kept : made_.executables) bytes += bytes_of(*kept);
  const auto too_many = [&] {
    return bytes > kMaxExecutableBytes || kept_plan_bytes() > kMaxExecutableBytesOfAll;
  };
  while (made_.executables.size() > kMaxExecutables ||
         (made_.executables.size() > kMinExecutables && too_many())) {
    bytes -= bytes_of(*made_.executables.back());
    made_.executables.pop_back();
  }
  return e;
}

void FunctionImpl::free() {
  forget_plans();
  FrontierCache::of_process().forget(*frontiers_);
  {
    std::lock_guard lock(compile_mutex_);
    for (auto& [count, variant] : variants_)
      if (variant) variant->free();
    if (rounded_) rounded_->free();
  }
  {
    std::lock_guard lock(context_mutex_);
    for (auto& c : contexts_)
      if (!c->busy) c = std::make_unique<CallContext>();
    ArenaPool::shared().change_claim(std::exchange(claim_, 0), 0);
  }
  drop_kept_blocks();
  if (stage_) stage_->free();
}

void FunctionImpl::visit_shared(const std::function<void(SharedVariable&)>& visit) {
  std::unique_lock compiling(compile_mutex_, std::try_to_lock);
  std::unique_lock calling(context_mutex_, std::try_to_lock);
  if (!compiling || !calling) return;
  std::unordered_set<const Lowered*> programs{made_.lowered.get()};
  for (const Made& m : others_) programs.insert(m.lowered.get());
  for (const auto& c : contexts_) programs.insert(c->lowered.get());
  auto visit_graph = [&](const Graph& graph) {
    for (const GraphInput& in : graph.inputs())
      if (in.shared) visit(*in.shared);
  };
  visit_graph(graph_);
  visit_graph(made_.trace.placed);
  for (const Made& m : others_) visit_graph(m.trace.placed);
  for (const Lowered* l : programs)
    if (l) visit_graph(l->program.graph);
  if (stage_) stage_->visit_shared(visit);
  for (const auto& [count, variant] : variants_)
    if (variant) variant->visit_shared(visit);
  if (rounded_) rounded_->visit_shared(visit);
}

}  // namespace snug
