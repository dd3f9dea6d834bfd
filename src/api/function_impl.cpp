#include "api/function_impl.h"

#include <fmt/format.h>
#include <omp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "api/check_mode.h"
#include "backend/cpu/jit.h"
#include "backend/native/copy.h"
#include "backend/reference/interpret_graph.h"
#include "exec/executor.h"
#include "graph/substitute_sizes.h"

namespace snug {
namespace {

constexpr std::size_t kMaxExecutables = 64;
constexpr std::size_t kMaxPlans = 16;

bool contiguous(const ArgView& a) {
  std::int64_t expected = 1;
  for (std::size_t i = a.shape.size(); i-- > 0;) {
    if (a.shape[i] == 0) return true;
    if (a.shape[i] != 1 && a.strides[i] != expected) return false;
    expected *= a.shape[i];
  }
  return true;
}

bool aligned(const ArgView& a) {
  return reinterpret_cast<std::uintptr_t>(a.data) % static_cast<std::uintptr_t>(size_of(a.dtype)) ==
         0;
}

Array as_array(const ArgView& a) {
  Array array;
  array.dtype = a.dtype;
  array.shape = a.shape;
  array.strides = a.strides;
  array.data = const_cast<std::byte*>(a.data);
  return array;
}

}  // namespace

std::uint64_t parse_bytes(const std::string& text) {
  if (text.empty()) return 0;
  std::size_t used = 0;
  double number = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  std::string unit = text.substr(used);
  unit.erase(std::remove(unit.begin(), unit.end(), ' '), unit.end());
  constexpr std::pair<const char*, double> kUnits[] = {{"", 1},
                                                       {"B", 1},
                                                       {"KiB", 1024.},
                                                       {"MiB", 1048576.},
                                                       {"GiB", 1073741824.},
                                                       {"TiB", 1099511627776.},
                                                       {"kB", 1e3},
                                                       {"KB", 1e3},
                                                       {"MB", 1e6},
                                                       {"GB", 1e9},
                                                       {"TB", 1e12}};
  for (auto [name, factor] : kUnits)
    if (used > 0 && unit == name && number > 0) return static_cast<std::uint64_t>(number * factor);
  fail(Fault::Value, fmt::format("memory: '{}' is no amount of memory", text),
       "for example \"512MiB\" or \"4GB\"");
}

std::string describe_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double v = static_cast<double>(bytes);
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    v /= 1024;
    if (v < 1024) return fmt::format("{:.2f} {}", v, unit);
  }
  return fmt::format("{:.2f} TiB", v / 1024);
}

FunctionImpl::FunctionImpl(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                           const FunctionOptions& options)
    : name(options.name), options_(options) {
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
  argument_count_ = inputs.size();
  Captured captured =
      capture({inputs, outputs, options.updates, options.givens, !options.no_default_updates});
  std::vector<bool> used = captured.used;
  if (!captured.stages.empty()) {
    // Sizes that depend on computed values without a bound: those values run first, as a function
    // of their own, and are arguments of the rest.
    FunctionOptions first;
    first.givens = options.givens;
    first.no_default_updates = true;
    first.on_unused_input = OnUnusedInput::Ignore;
    first.mode = options.mode;
    first.threads = options.threads;
    stage_ = std::make_shared<FunctionImpl>(inputs, captured.stages, first);
    for (const Expr& e : captured.stages)
      stage_text_ += (stage_text_.empty() ? "" : ", ") + label(e);
    std::vector<Expr> all = inputs;
    all.insert(all.end(), captured.stages.begin(), captured.stages.end());
    captured =
        capture({all, outputs, options.updates, options.givens, !options.no_default_updates});
    argument_count_ = all.size();
    for (const Expr& e : captured.stages)
      throw Error(Fault::Unsupported,
                  fmt::format("function: the size given by {} cannot be known before the rest runs",
                              label(e)),
                  {}, e->origin);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (used[i] || options.on_unused_input == OnUnusedInput::Ignore) continue;
    std::string text = fmt::format("function: input {} ({}) is not used", i, label(inputs[i]));
    if (options.on_unused_input == OnUnusedInput::Raise)
      throw Error(Fault::Unused, text, "leave it out, or pass on_unused_input='ignore'",
                  inputs[i]->origin);
    spdlog::warn("{}", text);
  }
  graph_ = std::move(captured.graph);
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
  if (options.micro_batches < 0)
    fail(Fault::Value, fmt::format("function: micro_batches is {}", options.micro_batches),
         "it is the number of slices that a batch runs in");
  compile_.micro_batches = options.micro_batches;
  compile_.disabled_passes = options.disabled_passes;
  compile_.strict_math = options.strict_math;
  compile_.threads = options.threads > 0 ? options.threads : available_threads();
  compile_.budget = parse_bytes(options.memory);

  std::vector<Dims> shapes;
  for (const Shared& s : shared_) shapes.push_back(s.variable->shape());
  assumed_ = shapes;
  if (options_.mode != Mode::Reference) {
    std::lock_guard lock(compile_mutex_);
    program_for(shapes);
  }
  for (int i = 0; i < std::max(1, options.contexts); ++i)
    contexts_.push_back(std::make_unique<CallContext>());
  // With hints for all inputs the plan is made, and the budget checked, right away.
  if (!options.shapes.empty()) {
    std::vector<Dims> hints;
    bool complete = true;
    for (const Expr& in : inputs) {
      auto it = std::find_if(options.shapes.begin(), options.shapes.end(),
                             [&](const auto& h) { return same(h.first, in); });
      Dims hint = it != options.shapes.end() ? it->second : in.type().shape;
      for (std::int64_t d : hint) complete &= d >= 0;
      if (static_cast<int>(hint.size()) != in.ndim())
        fail(Fault::Shape, fmt::format("shapes: {} has {} dimensions, the hint {} has {}",
                                       label(in), in.ndim(), describe_shape(hint), hint.size()));
      hints.push_back(hint);
    }
    if (complete && options_.mode != Mode::Reference) memory(hints);
  }
}

CallContext& FunctionImpl::lease() {
  std::unique_lock lock(context_mutex_);
  for (;;) {
    for (auto& c : contexts_)
      if (!c->busy) {
        c->busy = true;
        c->locked = 0;
        return *c;
      }
    context_free_.wait(lock);
  }
}

void FunctionImpl::lock(CallContext& c) {
  for (const Lock& l : locks_) {
    if (l.written || !l.variable->materialised())
      l.variable->mutex.lock();
    else
      l.variable->mutex.lock_shared();
    ++c.locked;
    if (!l.written && l.variable->value_if_materialised() == nullptr) {
      l.variable->value_locked();  // made under the writer's lock, then read with others
      l.variable->mutex.unlock();
      l.variable->mutex.lock_shared();
    } else if (l.written) {
      l.variable->value_locked();
    }
  }
}

void FunctionImpl::unlock(CallContext& c) noexcept {
  for (std::size_t i = c.locked; i-- > 0;)
    locks_[i].written ? locks_[i].variable->mutex.unlock()
                      : locks_[i].variable->mutex.unlock_shared();
  c.locked = 0;
}

void FunctionImpl::collect_locks() {
  if (stage_) locks_ = std::move(stage_->locks_);
  for (const Shared& s : shared_) {
    auto same = [&](const Lock& l) { return l.variable == s.variable; };
    if (auto it = std::find_if(locks_.begin(), locks_.end(), same); it != locks_.end())
      it->written |= s.written;
    else
      locks_.push_back({s.variable, s.written});
  }
  std::sort(locks_.begin(), locks_.end(),
            [](const Lock& a, const Lock& b) { return a.variable->id < b.variable->id; });
}

void FunctionImpl::check_argument(std::size_t i, const ArgView& a) const {
  const TensorType& t = input_types[i];
  std::string who = input_names[i].empty() ? fmt::format("argument {}", i)
                                           : fmt::format("argument {} ({})", i, input_names[i]);
  if (a.dtype != t.dtype)
    throw Error(Fault::Type,
                fmt::format("{}: {} is {}, the function takes {}", name.empty() ? "call" : name,
                            who, name_of(a.dtype), name_of(t.dtype)),
                fmt::format("convert it: x.astype('{}')", name_of(t.dtype)));
  if (static_cast<int>(a.shape.size()) != t.ndim())
    throw Error(Fault::Type, fmt::format("{}: {} has {} dimensions {}, the function takes {}",
                                         name.empty() ? "call" : name, who, a.shape.size(),
                                         describe_shape(a.shape), t.ndim()));
  for (std::size_t k = 0; k < a.shape.size(); ++k)
    if (t.broadcastable(k) && a.shape[k] != 1)
      throw Error(Fault::Type, fmt::format("{}: {} has size {} on axis {}, whose type says 1",
                                           name.empty() ? "call" : name, who, a.shape[k], k));
}

void FunctionImpl::take_arguments(CallContext& c, std::span<const ArgView> arguments) {
  if (arguments.size() != argument_count_)
    throw Error(Fault::Type,
                fmt::format("{}: takes {} arguments, got {}", name.empty() ? "call" : name,
                            input_types.size(), arguments.size()));
  c.arguments.assign(arguments.begin(), arguments.end());
  c.copied.assign(arguments.size(), false);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i < input_types.size()) check_argument(i, arguments[i]);
    const ArgView& a = c.arguments[i];
    bool copy = !contiguous(a) || !aligned(a);
    if (!copy) {
      const std::byte* end = a.data + product(a.shape) * size_of(a.dtype);
      for (const Shared& s : shared_) {
        if (!s.written) continue;
        const Array& v = s.variable->value_locked();
        copy |= a.data < v.data + v.bytes() && v.data < end;
      }
    }
    c.copied[i] = copy;
  }
}

Dims FunctionImpl::input_shape(const CallContext& c, std::uint32_t input) const {
  if (input < argument_count_) return c.arguments[input].shape;
  return shared_[input - argument_count_].variable->value_if_materialised()->shape;
}

void FunctionImpl::read_symbols(CallContext& c) {
  const SizeTable& table = c.lowered->program.graph.sizes();
  c.symbols.resize(table.symbols().size());
  for (std::size_t i = 0; i < table.symbols().size(); ++i) {
    const Symbol& s = table.symbols()[i];
    c.symbols[i] = 0;
    if (s.kind == Symbol::Kind::Dim) {
      c.symbols[i] = s.input < argument_count_ ? c.arguments[s.input].shape[s.index]
                                               : shared_[s.input - argument_count_]
                                                     .variable->value_if_materialised()
                                                     ->shape[s.index];
    } else if (s.kind == Symbol::Kind::Element) {
      if (s.input < argument_count_) {
        c.symbols[i] = read_integer(c.arguments[s.input].data, c.arguments[s.input].dtype);
      } else {
        const Array& v = *shared_[s.input - argument_count_].variable->value_if_materialised();
        c.symbols[i] = read_integer(v.data, v.dtype);
      }
    }
  }
  c.sizes.resize(table.nodes().size());
  evaluate_sizes(table, c.symbols, c.sizes);
}

std::shared_ptr<const Lowered> FunctionImpl::program_for(const std::vector<Dims>& shapes) {
  bool fits = lowered_ != nullptr;
  for (std::size_t i = 0; i < shared_.size(); ++i)
    for (std::size_t k = 0; k < shapes[i].size(); ++k)
      if (assumed_[i][k] >= 0 && assumed_[i][k] != shapes[i][k]) {
        assumed_[i][k] = -1;  // it changes: code for any size from now on
        fits = false;
      }
  if (fits) return lowered_;
  std::unordered_map<SizeId, SizeId> known;
  SizeTable& table = graph_.mutable_sizes();
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    const Type& t = graph_.type(graph_.inputs()[shared_[i].input].value);
    for (std::size_t k = 0; k < t.dims.size(); ++k) {
      SizeId d = t.dims[k];
      // A size shared with an argument stays open: the argument may be wrong, and then says so.
      if (assumed_[i][k] < 0 || table.node(d).op != SizeOp::Symbol) continue;
      const Symbol& s = table.symbol_of(d);
      if (s.kind == Symbol::Kind::Dim && s.input == shared_[i].input)
        known[d] = table.constant(assumed_[i][k]);
    }
  }
  auto before = CpuJit::instance().counters();
  CompileTrace trace;
  std::shared_ptr<Lowered> lowered = lower(substitute_sizes(graph_, known), compile_, trace);
  auto after = CpuJit::instance().counters();
  kernels_ = static_cast<std::int64_t>(lowered->program.kernels.size());
  kernels_compiled_ += static_cast<std::int64_t>(after.compiled - before.compiled);
  kernels_from_cache_ += static_cast<std::int64_t>(after.from_disk - before.from_disk);
  ++programs_;
  trace_ = std::move(trace);
  lowered_ = lowered;
  executables_.clear();
  plans_.clear();
  return lowered_;
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
  for (auto it = executables_.begin(); it != executables_.end(); ++it)
    if (matches(**it)) {
      if (it != executables_.begin()) executables_.splice(executables_.begin(), executables_, it);
      return executables_.front();
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
  std::shared_ptr<const Executable> e =
      instantiate(*l, std::move(bounds), std::move(kind), fixed, compile_, plans_);
  if (std::find(plans_.begin(), plans_.end(), e->planned) == plans_.end()) {
    plans_.insert(plans_.begin(), e->planned);
    if (plans_.size() > kMaxPlans) plans_.pop_back();
    ++plans_made_;
  }
  ++instances_;
  executables_.push_front(e);
  if (executables_.size() > kMaxExecutables) executables_.pop_back();
  return e;
}

CallContext* FunctionImpl::prepare(std::span<const ArgView> arguments) {
  CallContext& c = lease();
  c.function = shared_from_this();
  try {
    lock(c);
    if (stage_) {
      c.stage_values = Function(stage_).call_views(arguments);
      c.stage_arguments.assign(arguments.begin(), arguments.end());
      for (const Array& a : c.stage_values)
        c.stage_arguments.push_back({a.data, a.dtype, a.shape, a.strides});
      arguments = c.stage_arguments;
    }
    take_arguments(c, arguments);
    {
      std::lock_guard guard(compile_mutex_);
      ++calls_;
      bool shapes_hold = lowered_ != nullptr;
      for (std::size_t i = 0; i < shared_.size() && shapes_hold; ++i) {
        const Dims& shape = shared_[i].variable->value_if_materialised()->shape;
        for (std::size_t k = 0; k < shape.size(); ++k)
          shapes_hold &= assumed_[i][k] < 0 || assumed_[i][k] == shape[k];
      }
      if (!shapes_hold) {
        std::vector<Dims> shapes;
        for (const Shared& s : shared_)
          shapes.push_back(s.variable->value_if_materialised()->shape);
        program_for(shapes);
      }
      c.lowered = lowered_;
      read_symbols(c);
      check_requirements(c.lowered->program.graph, c.lowered->early_requirements, c.sizes);
      c.keep = executable_for(c.lowered, c.symbols, c.sizes, c.copied);
    }
    c.executable = c.keep.get();
    const Graph& g = c.lowered->program.graph;
    c.output_shapes.resize(g.outputs().size());
    for (std::size_t i = 0; i < g.outputs().size(); ++i) {
      c.output_shapes[i].clear();
      for (SizeId d : g.type(g.outputs()[i]).dims)
        c.output_shapes[i].push_back(g.sizes().is_runtime(d) ? c.executable->bounds.high[d]
                                                             : c.sizes[d]);
    }
  } catch (...) {
    release(c);
    throw;
  }
  return &c;
}

void FunctionImpl::bind(CallContext& c, std::span<std::byte* const> outputs) {
  const Executable& exe = *c.executable;
  const Schedule& s = exe.planned->schedule;
  const Program& p = c.lowered->program;
  c.arena.ensure(exe.planned->plan.bytes);
  c.buffers.resize(s.buffers.size());
  c.pointers.resize(exe.max_operands);
  c.descs.resize(exe.max_operands);
  c.fresh.clear();
  // Exported storage is left to its holders; the call goes on with a copy.
  for (const Shared& v : shared_)
    if (v.written) {
      Array& value = v.variable->value_locked();
      if (value.storage.use_count() > 1) value = value.contiguous_copy();
    }
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    switch (buf.where) {
      case Where::Argument:
        c.buffers[b] = const_cast<std::byte*>(c.arguments[buf.index].data);
        break;
      case Where::Shared:
        c.buffers[b] = shared_[buf.index - argument_count_].variable->value_locked().data;
        break;
      case Where::Output: c.buffers[b] = outputs[buf.index]; break;
      case Where::Fresh: {
        Dims shape;
        for (SizeId d : p.type(buf.value).dims)
          shape.push_back(p.graph.sizes().is_runtime(d) ? exe.bounds.high[d] : c.sizes[d]);
        c.fresh.resize(graph_.inputs().size());
        c.fresh[buf.index] = Array::empty(p.type(buf.value).dtype, shape);
        c.buffers[b] = c.fresh[buf.index].data;
        break;
      }
      default: break;
    }
  }
}

void FunctionImpl::copy_arguments(CallContext& c) {
  const std::vector<Buffer>& buffers = c.executable->planned->schedule.buffers;
  // The arguments have the first buffers, in order.
  for (std::size_t i = 0; i < c.arguments.size(); ++i) {
    if (!c.copied[i]) continue;
    const ArgView& a = c.arguments[i];
    ArgDesc from{a.dtype, a.shape, a.strides}, to{a.dtype, a.shape, contiguous_strides(a.shape)};
    SNUG_CHECK(buffers[i].index == i && buffers[i].where == Where::Arena,
               "argument {} is elsewhere", i);
    if (aligned(a)) {
      native::copy(to, c.buffers[i], from, a.data, c.executable->parallel ? compile_.threads : 1);
    } else {
      Array whole = as_array(a).contiguous_copy();
      std::memcpy(c.buffers[i], whole.data, static_cast<std::size_t>(whole.bytes()));
    }
  }
}

void FunctionImpl::finish(CallContext& c) {
  const Graph& g = c.lowered->program.graph;
  for (const Update& u : g.updates()) {
    if (u.input >= c.fresh.size() || !c.fresh[u.input].storage) continue;
    Array& value = shared_[u.input - argument_count_].variable->value_locked();
    value = std::move(c.fresh[u.input]);
    value.shape.clear();
    for (SizeId d : g.type(u.value).dims) value.shape.push_back(c.sizes[d]);
    value.strides = contiguous_strides(value.shape);
  }
  c.fresh.clear();
  for (std::size_t i = 0; i < g.outputs().size(); ++i)
    for (std::size_t k = 0; k < c.output_shapes[i].size(); ++k)
      c.output_shapes[i][k] = c.sizes[g.type(g.outputs()[i]).dims[k]];
}

void FunctionImpl::run(CallContext& c, std::span<std::byte* const> outputs) {
  if (options_.mode == Mode::Reference) return run_reference(c, outputs);
  bind(c, outputs);
  RunState state;
  state.sizes = c.sizes.data();
  state.buffers = c.buffers.data();
  state.arena = c.arena.data();
  state.descs = c.descs.data();
  state.pointers = c.pointers.data();
  state.interruptible = true;
  bind_arena(*c.executable, state);
  StepChecker checker(*c.executable);
  if (options_.mode == Mode::Check) {
    checker.start(state);
    state.observer = &checker;
  }
  auto work = [&] {
    copy_arguments(c);
    run_steps(*c.executable, state);
  };
  if (c.executable->parallel) {
    run_on_executor(work);
  } else {
    // Library calls of small functions stay on this thread.
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    try {
      work();
    } catch (...) {
      omp_set_num_threads(before);
      throw;
    }
    omp_set_num_threads(before);
  }
  finish(c);
}

void FunctionImpl::run_reference(CallContext& c, std::span<std::byte* const> outputs) {
  std::vector<RefTensor> inputs;
  for (const ArgView& a : c.arguments) inputs.push_back(RefTensor::from(as_array(a)));
  for (const Shared& s : shared_) inputs.push_back(RefTensor::from(s.variable->value_locked()));
  std::vector<RefTensor> results = interpret(graph_, inputs);
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    Array a = results[i].to_array();
    std::memcpy(outputs[i], a.data, static_cast<std::size_t>(a.bytes()));
    c.output_shapes[i] = a.shape;
  }
  for (std::size_t i = 0; i < graph_.updates().size(); ++i)
    shared_[graph_.updates()[i].input - argument_count_].variable->value_locked() =
        results[graph_.outputs().size() + i].to_array();
}

void FunctionImpl::release(CallContext& c) noexcept {
  unlock(c);
  std::shared_ptr<FunctionImpl> self = std::move(c.function);  // dies after the lock
  {
    std::lock_guard lock(context_mutex_);
    c.busy = false;
  }
  context_free_.notify_one();
}

std::vector<std::int64_t> FunctionImpl::symbols_for(const Lowered& l, std::span<const Dims> shapes,
                                                    const Function::Values& values,
                                                    std::string& assumed) const {
  const Graph& g = l.program.graph;
  // The symbols that the plan or a requirement depends on.
  std::vector<SizeId> stack(l.key);
  for (std::uint32_t r : l.early_requirements) {
    stack.push_back(g.requirements()[r].a);
    stack.push_back(g.requirements()[r].b);
  }
  std::vector<bool> needed(g.sizes().nodes().size(), false);
  while (!stack.empty()) {
    SizeId id = stack.back();
    stack.pop_back();
    const SizeNode& n = g.sizes().node(id);
    if (needed[id] || n.op == SizeOp::Const) continue;
    needed[id] = true;
    if (n.op == SizeOp::Symbol) continue;
    stack.insert(stack.end(), {n.a, n.b});
    if (n.op == SizeOp::Select) stack.push_back(n.c);
  }
  std::vector<std::int64_t> symbols(g.sizes().symbols().size(), 0);
  for (SizeId id = 0; id < needed.size(); ++id) {
    const SizeNode& n = g.sizes().node(id);
    if (n.op != SizeOp::Symbol) continue;
    const Symbol& s = g.sizes().symbol_of(id);
    std::int64_t& value = symbols[static_cast<std::size_t>(n.value)];
    if (s.kind == Symbol::Kind::Dim) {
      value = shapes[s.input][s.index];
    } else if (s.kind == Symbol::Kind::Element && s.input >= argument_count_) {
      const SharedVariable& v = *shared_[s.input - argument_count_].variable;
      if (const Array* a = v.value_if_materialised()) value = a->at_int(s.index);
    } else if (s.kind == Symbol::Kind::Element && s.input < values.size() && values[s.input]) {
      value = *values[s.input];
    } else if (s.kind == Symbol::Kind::Element && s.input < input_names.size() && needed[id]) {
      const std::string& name = input_names[s.input];
      assumed +=
          (assumed.empty() ? "" : ", ") + (name.empty() ? fmt::format("input {}", s.input) : name);
    }
  }
  return symbols;
}

void FunctionImpl::visit_shared(const std::function<void(SharedVariable&)>& visit) {
  std::unique_lock compiling(compile_mutex_, std::try_to_lock);
  std::unique_lock calling(context_mutex_, std::try_to_lock);
  if (!compiling || !calling) return;
  std::unordered_set<const Lowered*> programs{lowered_.get()};
  for (const auto& c : contexts_) programs.insert(c->lowered.get());
  auto visit_graph = [&](const Graph& graph) {
    for (const GraphInput& in : graph.inputs())
      if (in.shared) visit(*in.shared);
  };
  visit_graph(graph_);
  for (const Lowered* l : programs)
    if (l) visit_graph(l->program.graph);
  if (stage_) stage_->visit_shared(visit);
}

MemoryReport FunctionImpl::memory(std::span<const Dims> shapes, const Function::Values& values) {
  if (shapes.size() != input_types.size())
    fail(Fault::Value, fmt::format("memory: the function has {} inputs, got {} shapes",
                                   input_types.size(), shapes.size()));
  std::vector<Dims> all(shapes.begin(), shapes.end()), shared_shapes;
  all.resize(argument_count_);  // values of a first stage are 0-d
  for (std::size_t i = 0; i < input_types.size(); ++i)
    if (static_cast<int>(shapes[i].size()) != input_types[i].ndim())
      fail(Fault::Shape,
           fmt::format("memory: input {} has {} dimensions, the shape {} has {}", i,
                       input_types[i].ndim(), describe_shape(shapes[i]), shapes[i].size()));
  for (const Shared& s : shared_) shared_shapes.push_back(s.variable->shape());
  all.insert(all.end(), shared_shapes.begin(), shared_shapes.end());
  std::lock_guard guard(compile_mutex_);
  std::shared_ptr<const Lowered> l = program_for(shared_shapes);
  const Graph& g = l->program.graph;
  std::string assumed;
  std::vector<std::int64_t> symbols = symbols_for(*l, all, values, assumed),
                            sizes(g.sizes().nodes().size());
  evaluate_sizes(g.sizes(), symbols, sizes);
  try {
    check_requirements(g, l->early_requirements, sizes);
  } catch (const Error& e) {
    if (assumed.empty()) throw;
    throw Error(e.fault(), e.message(),
                fmt::format("{} was taken as 0; give its value to memory", assumed), e.origin());
  }
  std::shared_ptr<const Executable> e =
      executable_for(l, symbols, sizes, std::vector<bool>(argument_count_, false));

  MemoryReport r;
  auto bytes = [&](Value v) {
    return static_cast<std::int64_t>(bytes_of(l->program, e->bounds.high, v));
  };
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    (i < argument_count_ ? r.inputs : r.parameters) += bytes(g.inputs()[i].value);
  for (Value v : g.outputs()) r.outputs += bytes(v);
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    if (g.node(id).op->name == "constant") r.constants += bytes({id, 0});
  const Planned& planned = *e->planned;
  r.arena = static_cast<std::int64_t>(planned.plan.bytes);
  std::uint32_t at = planned.plan.peak_step;
  for (const Buffer& b : planned.schedule.buffers)
    if (b.where == Where::Arena && b.first <= at && b.last >= at)
      (b.workspace ? r.workspace : r.temporaries) += static_cast<std::int64_t>(b.bytes);
  r.peak = r.arena + r.parameters + r.outputs + r.constants;
  if (!planned.schedule.steps.empty()) {
    const Step& s = planned.schedule.steps[at];
    const Task* t = s.commit_copy ? nullptr : &l->program.tasks[s.task];
    std::string where = t ? describe(t->origin) : "";
    r.peak_step = fmt::format("step {} of {}: {}{}", at + 1, planned.schedule.steps.size(),
                              t ? t->name : "copy to shared",
                              where.empty() ? "" : fmt::format(" ({})", where));
  }
  r.recomputed = planned.recomputed;
  if (!assumed.empty())
    r.note = fmt::format("planned for {} = 0; give its value to plan for another", assumed);
  if (stage_)
    r.note =
        fmt::format("not known before running: sizes given by {}; planned as 0 here", stage_text_);
  return r;
}

std::string FunctionImpl::explain() {
  std::lock_guard guard(compile_mutex_);
  std::string text =
      fmt::format("function {}\n\n== graph as captured ==\n{}", name, trace_.captured);
  text += fmt::format("\n== rewrite ({:.1f} ms) ==\n{}", 1e3 * trace_.rewrite_seconds,
                      trace_.rewrite.describe());
  if (const MicroBatchTrace& m = trace_.micro_batches; m.inside)
    text += fmt::format(
        "\n== micro-batches ==\nthe {} rows of the batch run in {} slices: {} ops inside the loop, "
        "{} values joined over the slices\n",
        m.batch, compile_.micro_batches, m.inside, m.accumulated);
  text += fmt::format("\n== placed ({:.1f} ms) ==\n{}", 1e3 * trace_.place_seconds, trace_.placed);
  for (const std::string& reason : trace_.place.reasons)
    text += fmt::format("placement: {}\n", reason);
  text += fmt::format("\n== tasks ({:.1f} ms) ==\n{}", 1e3 * trace_.fuse_seconds, trace_.tasks);
  text += fmt::format("\n== kernels (code {:.1f} ms; {} compiled, {} from the disk cache) ==\n",
                      1e3 * trace_.code_seconds, kernels_compiled_, kernels_from_cache_);
  for (const std::string& k : trace_.kernels) text += k + "\n";
  for (const auto& e : executables_) {
    text += fmt::format("\n== schedule and plan: arena {} ==\n{}",
                        describe_bytes(e->planned->plan.bytes),
                        print(lowered_->program, e->planned->schedule));
    break;
  }
  if (executables_.empty()) text += "\nno plan yet: sizes become known at the first call\n";
  return text;
}

std::int64_t FunctionImpl::counter(std::string_view which) const {
  const std::pair<std::string_view, std::int64_t> all[] = {
      {"programs", programs_},
      {"plans", plans_made_},
      {"instances", instances_},
      {"kernels", kernels_},
      {"calls", calls_},
      {"kernels_compiled", kernels_compiled_},
      {"kernels_from_cache", kernels_from_cache_}};
  std::vector<std::string> names;
  for (auto [n, value] : all) {
    if (n == which) return value;
    names.emplace_back(n);
  }
  fail(Fault::Value, fmt::format("no counter '{}'", which),
       fmt::format("did you mean '{}'?", nearest(which, names)));
}

}  // namespace snug
