// A call: lease a context, lock, take the arguments, pick the plan, run, commit.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api/check_mode.h"
#include "api/function_impl.h"
#include "api/guard_mode.h"
#include "base/interrupt.h"
#include "base/kept_blocks.h"
#include "base/pool.h"
#include "base/spelling.h"
#include "base/truth.h"
#include "expr/evaluate_sizes.h"
#include "reference/interpret_graph.h"
#include "target/free_memory.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

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

/// As CallKind::copied, but for storage that the call writes.
bool is_copied(const ArgView& a) {
  return !contiguous(a) || !aligned(a) ||
         (a.dtype == DType::Bool && has_other_than_bools(a.data, product(a.shape)));
}

/// With all strides, and complex numbers as the graph has them.
ArgView as_taken(ArgView a) {
  if (a.strides.empty()) a.strides = contiguous_strides(a.shape);
  if (!is_complex(a.dtype)) return a;
  a.dtype = real_of(a.dtype);
  for (std::int64_t& s : a.strides) s *= 2;
  a.shape.push_back(2);
  a.strides.push_back(1);
  return a;
}

/// An array of the graph as one of dtype `dtype`.
Array as_stored(Array a, DType dtype) { return is_complex(dtype) ? a.as_complex() : a; }

Array as_array(const ArgView& a) {
  Array array;
  array.dtype = a.dtype;
  array.shape = a.shape;
  array.strides = a.strides;
  array.data = const_cast<std::byte*>(a.data);
  return array;
}

/// In texts.
std::string_view call_name(const FunctionGraph& f) {
  return f.name.empty() ? std::string_view("call") : f.name;
}

/// A call inside another one waits for another thread, which may wait for that one.
[[noreturn]] void fail_waiting(const std::string& what) {
  throw ValueError(
      fmt::format("a call inside another one waits for {}, which another thread has had for {} s",
                  what, OpenCalls::kLongest.count() / 1000),
      "two threads whose callbacks wait for each other would wait for ever: let callbacks call "
      "functions that no other thread calls");
}

/// Storage for a new value of a shared variable; a Memory error if the budget of the process does
/// not allow it.
Array new_storage(const SharedVariable& v, DType dtype, const Dims& shape) {
  const MemoryClaim claim(MemoryClaim::Kind::Shared,
                          static_cast<std::uint64_t>(product(shape) * size_of(dtype)),
                          fmt::format("a new value of {}", v.name.empty() ? "a variable" : v.name));
  Array a = Array::empty(dtype, shape);
  a.storage->count_as_shared();
  return a;
}

/// The same with the old value in it.
Array new_storage(const SharedVariable& v, const Array& value) {
  Array a = new_storage(v, value.dtype, value.shape);
  std::memcpy(a.data, value.data, static_cast<std::size_t>(value.bytes()));
  return a;
}

}  // namespace

void FunctionImpl::free_in_child() {
  new (&context_mutex_) std::mutex;
  new (&context_free_) std::condition_variable;
  for (auto& c : contexts_) {
    if (!c->busy || c->thread == std::this_thread::get_id()) continue;
    CallContext* const left = c.release();  // in the middle of a call, so it stays as it is
    c = std::make_unique<CallContext>();
    if (shares_arenas_) ArenaPool::shared().give_back(std::move(left->arena));
  }
}

CallContext& FunctionImpl::lease() {
  const std::shared_ptr<OpenCalls>& calls = OpenCalls::of_thread();
  CallContext* leased = nullptr;
  const auto find = [&] {
    for (auto& c : contexts_)
      if (!leased && !c->busy) leased = c.get();
    return leased != nullptr;
  };
  {
    std::unique_lock lock(context_mutex_);
    if (!find()) {
      if (calls->has(this))
        throw ValueError(
            fmt::format("{} is called while a call of it on this thread is not finished",
                        function_->own_name()),
            fmt::format("make it with {}, or finish the first call",
                        option("contexts", static_cast<std::int64_t>(contexts_.size()) + 1)));
      if (!calls->any())
        context_free_.wait(lock, find);
      else if (!context_free_.wait_for(lock, OpenCalls::kLongest, find))
        fail_waiting(function_->own_name());
    }
    leased->thread = std::this_thread::get_id();
    leased->forks = fork_count();
    leased->busy = true;
  }
  leased->ran = false;
  leased->held = {.function = this, .locks = {}};
  leased->calls = calls;
  calls->enter(leased->held);
  return *leased;
}

void FunctionImpl::take_arena(CallContext& c, std::uint64_t bytes) try {
  const std::string whose = function_->own_name();
  if (!c.executable->ready) {
    // Code is made for calls that have room for their arena, too.
    const std::uint64_t idle = idle_for(c, bytes), mapped = Arena::mapped_for(bytes);
    const std::uint64_t grows = mapped > idle ? mapped - idle : 0;
    CodeCount code;
    count_code(*c.executable, code);
    require_free_memory(grows, fmt::format("the arena of {}", whose));
    require_free_memory(grows + code.bytes(),
                        fmt::format("the arena of {}, with the code of libraries,", whose));
    make_ready(*c.executable);
  }
  if (!shares_arenas_) {
    if (!c.arena) c.arena = std::make_unique<Arena>();
    return c.arena->ensure(bytes, whose);
  }
  if (bytes == 0) return;
  c.arena = ArenaPool::shared().lease(bytes, whose);
  std::lock_guard lock(context_mutex_);
  if (const std::uint64_t mapped = Arena::mapped_for(bytes); mapped > claim_)
    ArenaPool::shared().change_claim(std::exchange(claim_, mapped), mapped);
} catch (const Error& e) {
  forget_plans();
  if (e.fault() != Fault::Memory) throw;
  const std::uint64_t most = idle_for(c, bytes) + Arena::most_to_map();
  std::lock_guard guard(compile_mutex_);
  strategy_->refuse_for_lack_of_memory(size_sources(c), most, e);
}

std::uint64_t FunctionImpl::idle_for(const CallContext& c, std::uint64_t bytes) const {
  if (shares_arenas_) return ArenaPool::shared().idle_for(bytes);
  return c.arena ? c.arena->bytes() : 0;
}

void FunctionImpl::require_memory_for_recipes(std::span<const ArgView> arguments) {
  std::uint64_t bytes = 0;
  for (const VariableLock& l : locks_) {
    const ReadLock reader(*l.variable);
    if (const Recipe* r = l.variable->recipe())
      bytes += static_cast<std::uint64_t>(product(r->shape) * size_of(r->dtype));
  }
  if (bytes == 0) return;
  const std::optional<SizeSources> from = size_sources(arguments);
  std::uint64_t arena = 0;
  if (from) {
    std::lock_guard guard(compile_mutex_);
    arena = Arena::mapped_for(strategy_->arena_bytes(*from));
  }
  const std::uint64_t values = bytes;
  const std::uint64_t idle = shares_arenas_ ? ArenaPool::shared().idle_for(arena) : 0;
  bytes += arena > idle ? arena - idle : 0;
  const std::string what = fmt::format("making the shared variables of {}{}", function_->own_name(),
                                       arena ? ", with its arena," : "");
  try {
    require_free_memory(bytes, what);
    require_memory_budget(bytes, what);
  } catch (const Error& e) {
    forget_plans();
    const std::uint64_t most = idle + Arena::most_to_map();
    if (e.fault() != Fault::Memory || arena == 0 || most <= values) throw;
    std::lock_guard guard(compile_mutex_);
    strategy_->refuse_for_lack_of_memory(*from, most - values, e);
  }
}

SizeSources FunctionImpl::size_sources(const CallContext& c) const {
  std::vector<Dims> shapes;
  Function::Values values;
  for (const ArgView& a : c.arguments) {
    shapes.push_back(a.shape);
    values.emplace_back();
    if (a.shape.empty() && is_discrete(a.dtype)) values.back() = read_integer(a.data, a.dtype);
  }
  SizeSources from = function_->size_sources(shapes, values);
  from.copied = c.copied;
  return from;
}

std::optional<SizeSources> FunctionImpl::size_sources(std::span<const ArgView> arguments) const {
  if (stage_ || options_.mode == Mode::Reference) return std::nullopt;
  std::vector<Dims> shapes;
  Function::Values values;
  if (arguments.size() != function_->argument_count) return std::nullopt;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const ArgView a = as_taken(arguments[i]);
    if (arguments[i].dtype != function_->input_types[i].dtype ||
        static_cast<int>(arguments[i].shape.size()) != function_->input_types[i].ndim())
      return std::nullopt;
    shapes.push_back(a.shape);
    values.push_back(a.shape.empty() && is_discrete(a.dtype)
                         ? std::optional(read_integer(a.data, a.dtype))
                         : std::nullopt);
  }
  SizeSources from = function_->size_sources(shapes, values);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    from.copied[i] = is_copied(as_taken(arguments[i]));
  return from;
}

namespace {

/// Where the value of a variable is that may be read together with others.
bool is_at(const SharedVariable& v, const Accelerator* home) {
  if (!home) return v.value_if_materialised() != nullptr;
  const DeviceArray* there = v.value_on_device();
  return there && there->memory->device() == home->info().name;
}

void move_to(SharedVariable& v, Accelerator* home) {
  v.make_locked();
  if (is_at(v, home)) return;
  if (!home) {
    v.value_locked();
    return;
  }
  v.value_on(home->info().name, [&](std::uint64_t bytes) {
    return home->allocate_value(bytes, v.name.empty() ? "a shared variable" : v.name);
  });
}

}  // namespace

void FunctionImpl::lock_one(const VariableLock& l, Accelerator* home, bool inside) {
  SharedVariable& v = *l.variable;
  const auto wait = [&](bool got) {
    if (!got) fail_waiting(v.name.empty() ? "a shared variable" : v.name);
  };
  const auto write = [&] {
    inside ? wait(v.mutex.try_lock_for(OpenCalls::kLongest)) : v.mutex.lock();
    try {
      move_to(v, home);
    } catch (...) {
      v.mutex.unlock();
      throw;
    }
  };
  if (l.written) return write();
  // A recipe is made, and a value is moved, under the writer's lock; then it is read with others.
  for (;;) {
    inside ? wait(v.mutex.try_lock_shared_for(OpenCalls::kLongest)) : v.mutex.lock_shared();
    bool ready = false;
    try {
      ready = is_at(v, home);
    } catch (...) {  // it has none in this process
      v.mutex.unlock_shared();
      throw;
    }
    if (ready) return;
    v.mutex.unlock_shared();
    write();
    v.mutex.unlock();
  }
}

void FunctionImpl::lock(CallContext& c, std::span<const ArgView> arguments) {
  if (!recipes_made_) require_memory_for_recipes(arguments);
  c.taken.assign(locks_.size(), false);
  if (has_other_devices_) {
    const std::lock_guard guard(compile_mutex_);
    c.homes = homes_;
  }
  const bool inside = c.held.outer != nullptr;
  for (std::size_t i = 0; i < locks_.size(); ++i) {
    const VariableLock& l = locks_[i];
    const OpenCalls::Held held = inside ? c.calls->find(*l.variable) : OpenCalls::Held{};
    if (held.held && (l.written || !held.running))
      throw ValueError(
          fmt::format("{} {} {}, and a call on this thread that {} it is not finished",
                      function_->own_name(), l.written ? "updates" : "reads",
                      l.variable->name.empty() ? "a shared variable" : l.variable->name,
                      held.written ? "updates" : "reads"),
          "call it after that one");
    if (!held.held) lock_one(l, i < c.homes.size() ? c.homes[i] : nullptr, inside);
    c.taken[i] = !held.held;
    c.held.locks = std::span(locks_).first(i + 1);
  }
  recipes_made_ = true;
}

void FunctionImpl::unlock(CallContext& c) noexcept {
  const bool ours = c.forks == fork_count();  // else they are free in this process
  for (std::size_t i = c.held.locks.size(); i-- > 0;)
    if (c.taken[i] && ours)
      locks_[i].written ? locks_[i].variable->mutex.unlock()
                        : locks_[i].variable->mutex.unlock_shared();
  c.held.locks = {};
}

void FunctionImpl::check_arguments(std::span<const ArgView> arguments) const {
  const std::size_t count = function_->input_types.size();
  if (arguments.size() != count)
    throw TypeError(fmt::format("{}: takes {} arguments, got {}", call_name(*function_), count,
                                arguments.size()));
  for (std::size_t i = 0; i < arguments.size(); ++i) check_argument(i, arguments[i]);
}

void FunctionImpl::check_argument(std::size_t i, const ArgView& a) const {
  const TensorType& t = function_->input_types[i];
  const std::string& input = function_->input_names[i];
  const auto refuse = [&](Fault fault, const std::string& what, std::string hint = {}) {
    fail_at(0, fault,
            fmt::format("{}: argument {}{} {}", call_name(*function_), i,
                        input.empty() ? "" : fmt::format(" ({})", input), what),
            std::move(hint));
  };
  if (a.dtype != t.dtype)
    refuse(Fault::Type,
           fmt::format("is {}, the function takes {}", name_of(a.dtype), name_of(t.dtype)),
           "convert it: " + spelled("x.to(" + enumerator_of(t.dtype) + ")", cast_of("x", t.dtype)));
  if (static_cast<int>(a.shape.size()) != t.ndim())
    refuse(Fault::Type, fmt::format("has {} dimensions {}, the function takes {}", a.shape.size(),
                                    describe_shape(a.shape), t.ndim()));
  for (std::size_t k = 0; k < a.shape.size(); ++k) {
    const std::int64_t size = t.broadcastable(k) ? 1 : t.shape[k];
    if (size >= 0 && a.shape[k] != size)
      refuse(Fault::Type,
             fmt::format("has size {} on axis {}, whose type says {}", a.shape[k], k, size));
    if (a.shape[k] < 0) refuse(Fault::Shape, fmt::format("has size {} on axis {}", a.shape[k], k));
  }
  if (!a.strides.empty() && a.strides.size() != a.shape.size())
    refuse(Fault::Type,
           fmt::format("has {} strides for {} dimensions", a.strides.size(), a.shape.size()),
           "give one per dimension, or none if it is contiguous");
  if (!a.data && product(a.shape) != 0) refuse(Fault::Type, "is empty: it has no data");
}

void FunctionImpl::check_outputs(const CallContext& c, std::span<std::byte* const> outputs) const {
  const std::string_view who = call_name(*function_);
  const std::vector<TensorType>& types = function_->output_types;
  if (c.ran) throw ValueError(fmt::format("{}: this call has run", who), "prepare another one");
  if (outputs.size() != types.size())
    throw ValueError(fmt::format("{}: gives {} outputs, memory is given for {}", who, types.size(),
                                 outputs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i] && product(c.output_shapes[i]) != 0)
      throw ValueError(
          fmt::format("{}: the memory given for output {} is null", who, i),
          fmt::format("it takes {} bytes", product(c.output_shapes[i]) * size_of(types[i].dtype)));
}

void FunctionImpl::take_arguments(CallContext& c, std::span<const ArgView> arguments) {
  c.arguments.assign(arguments.begin(), arguments.end());
  c.copied.assign(arguments.size(), false);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c.arguments[i] = as_taken(arguments[i]);
    const ArgView& a = c.arguments[i];
    bool copy = is_copied(a);
    if (!copy) {
      const std::byte* end = a.data + product(a.shape) * size_of(a.dtype);
      for (const FunctionGraph::Shared& s : function_->shared) {
        if (!s.written) continue;
        const Array* const v = s.variable->value_if_materialised();
        copy |= v && a.data < v->data + v->bytes() && v->data < end;
      }
    }
    c.copied[i] = copy;
  }
}

void FunctionImpl::read_symbols(CallContext& c) {
  const SizeTable& table = c.lowered->program.graph.sizes();
  c.symbols.resize(table.symbols().size());
  for (std::size_t i = 0; i < table.symbols().size(); ++i) {
    const Symbol& s = table.symbols()[i];
    c.symbols[i] = 0;
    if (s.kind == Symbol::Kind::Dim) {
      c.symbols[i] = s.input < function_->argument_count
                         ? c.arguments[s.input].shape[s.index]
                         : function_->shared[s.input - function_->argument_count]
                               .variable->shape_locked()[s.index];
    } else if (s.kind == Symbol::Kind::Element) {
      if (s.input < function_->argument_count) {
        c.symbols[i] = read_integer(c.arguments[s.input].data, c.arguments[s.input].dtype);
      } else {
        const Array& v = *function_->shared[s.input - function_->argument_count]
                              .variable->value_if_materialised();
        c.symbols[i] = read_integer(v.data, v.dtype);
      }
    }
  }
  c.sizes.resize(table.nodes().size());
  evaluate_sizes(table, c.sizes, c.symbols);
}

CallContext* FunctionImpl::prepare(std::span<const ArgView> arguments) {
  if (options_.plan_only)
    fail(Fault::Value,
         fmt::format("{} was made to be planned only",
                     function_->name.empty() ? "this function" : function_->name),
         "make it without plan_only to call it");
  check_arguments(arguments);
  const int threads = pool_threads(wanted_threads_);
  CallContext& c = lease();
  c.function = shared_from_this();
  try {
    for (bool ready = false; !ready;) {
      lock(c, arguments);
      std::span<const ArgView> all = arguments;
      if (stage_) {
        c.stage_values = Function(stage_).call_views(arguments);
        c.stage_arguments.assign(arguments.begin(), arguments.end());
        for (const Array& a : c.stage_values)
          c.stage_arguments.push_back({a.data, a.dtype, a.shape, a.strides});
        all = c.stage_arguments;
      }
      take_arguments(c, all);
      std::lock_guard guard(compile_mutex_);
      strategy_->use_threads(threads);  // fewer only in a child of fork
      take_plan(c);
      ready = are_at_home(c);
      if (ready)
        ++calls_;
      else
        unlock(c);
    }
  } catch (...) {
    release(c);
    throw;
  }
  return &c;
}

bool FunctionImpl::are_at_home(CallContext& c) {
  if (!has_other_devices_) return true;
  std::vector<Accelerator*> homes(locks_.size(), nullptr);
  for (std::size_t i = 0; i < function_->shared.size(); ++i)
    for (std::size_t k = 0; k < locks_.size(); ++k)
      if (locks_[k].variable == function_->shared[i].variable)
        if (const DeviceId home = home_of(c, i)) homes[k] = &c.lowered->devices->accelerator(home);
  if (c.homes.empty()) c.homes.assign(locks_.size(), nullptr);
  if (homes == c.homes) return true;
  homes_ = std::move(homes);
  return false;
}

void FunctionImpl::take_plan(CallContext& c) {
  Compiled* way = &strategy_->whole();
  take_program(c, *way);
  if (strategy_->has_choice()) {
    Compiled& chosen =
        strategy_->choose_for_call(c.lowered, c.sizes, c.copied, [&] { return size_sources(c); });
    if (&chosen != way) take_program(c, chosen);
    way = &chosen;
  }
  try {
    c.keep = way->executable_for(c.lowered, c.symbols, c.sizes, c.copied);
  } catch (const Error& e) {
    if (e.fault() != Fault::Memory) throw;
    strategy_->refuse(size_sources(c), e);
  }
  c.executable = c.keep.get();
  set_output_shapes(c);
}

void FunctionImpl::take_program(CallContext& c, Compiled& way) {
  // The current program mostly serves; shapes are listed only if it does not.
  const Compiled::Made& made = way.current();
  bool serves = made.lowered != nullptr;
  for (std::size_t i = 0; i < function_->shared.size() && serves; ++i)
    serves = serves_shape(made.assumed[i], function_->shared[i].variable->shape_locked());
  if (!serves) {
    std::vector<Dims> shapes;
    for (const FunctionGraph::Shared& s : function_->shared)
      shapes.push_back(s.variable->shape_locked());
    way.program_for(shapes);
  }
  c.lowered = made.lowered;
  read_symbols(c);
  check_requirements(c.lowered->program.graph, c.lowered->early_requirements, c.sizes);
}

void FunctionImpl::set_output_shapes(CallContext& c) const {
  const Graph& g = c.lowered->program.graph;
  c.output_shapes.resize(g.outputs().size());
  for (std::size_t i = 0; i < g.outputs().size(); ++i) {
    c.output_shapes[i].clear();
    for (SizeId d : g.type(g.outputs()[i]).dims)
      c.output_shapes[i].push_back(g.sizes().is_runtime(d) ? c.executable->bounds.high[d]
                                                           : c.sizes[d]);
    if (is_complex(function_->output_types[i].dtype)) c.output_shapes[i].pop_back();
  }
}

void FunctionImpl::take_file(CallContext& c) {
  const Schedule& s = c.executable->planned->schedule;
  if (s.transfers.empty()) return;
  if (!c.file || !c.file->is_ours()) c.file = std::make_unique<OffloadFile>(options_.offload);
  c.file->reserve(s.file_bytes);
}

void FunctionImpl::bind(CallContext& c, std::span<std::byte* const> outputs) {
  const Executable& exe = *c.executable;
  const Schedule& s = exe.planned->schedule;
  take_file(c);
  take_arena(c, exe.planned->plan.host().bytes);
  c.buffers.resize(s.buffers.size());
  c.pointers.resize(exe.max_operands);
  c.descs.resize(exe.max_operands);
  c.fresh.clear();
  c.fresh_there.clear();
  c.copies.clear();
  c.copies_there.clear();
  take_devices(c);
  // Exported storage is left to its holders; the call goes on with a copy.
  for (std::size_t i = 0; i < function_->shared.size(); ++i) {
    const FunctionGraph::Shared& v = function_->shared[i];
    if (!v.written || home_of(c, i) != 0) continue;
    Array& value = v.variable->value_locked();
    if (value.storage.use_count() > 1) value = new_storage(*v.variable, value);
  }
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    switch (buf.where) {
      case Where::Argument:
        c.buffers[b] = const_cast<std::byte*>(c.arguments[buf.index].data);
        break;
      case Where::Shared:
        c.buffers[b] = bind_shared(c, buf.index - function_->argument_count);
        break;
      case Where::Output: c.buffers[b] = outputs[buf.index]; break;
      case Where::Fresh: c.buffers[b] = bind_fresh(c, buf); break;
      default: break;
    }
  }
  reserve_snapshots(c);
}

DeviceId FunctionImpl::home_of(const CallContext& c, std::size_t i) const {
  const Graph& g = c.lowered->program.graph;
  return g.node(g.inputs()[function_->argument_count + i].value).device;
}

std::byte* FunctionImpl::bind_shared(CallContext& c, std::size_t i) {
  SharedVariable& v = *function_->shared[i].variable;
  const DeviceId home = home_of(c, i);
  Accelerator* const device = home ? &c.devices->accelerator(home) : nullptr;
  // A call around this one has it elsewhere, or the next stage will.
  if (!is_at(v, device)) return bind_copy(c, v, device);
  return home ? v.value_on_device()->memory->data() : v.value_locked().data;
}

std::byte* FunctionImpl::bind_copy(CallContext& c, SharedVariable& v, Accelerator* device) {
  Array here = v.copy_locked();
  if (!device) return c.copies.emplace_back(std::move(here)).data;
  const auto bytes = static_cast<std::uint64_t>(here.bytes());
  DeviceArray& there = c.copies_there.emplace_back(
      here.dtype, here.shape, device->allocate_value(bytes, v.name.empty() ? "a copy" : v.name));
  there.memory->write(there.memory->data(), here.data, bytes);
  return there.memory->data();
}

std::byte* FunctionImpl::bind_fresh(CallContext& c, const Buffer& buffer) {
  const Program& p = c.lowered->program;
  const Type& type = p.type(buffer.value);
  Dims shape;
  for (SizeId d : type.dims)
    shape.push_back(p.graph.sizes().is_runtime(d) ? c.executable->bounds.high[d] : c.sizes[d]);
  const std::size_t i = buffer.index - function_->argument_count;
  SharedVariable& v = *function_->shared[i].variable;
  if (const DeviceId home = home_of(c, i)) {
    c.fresh_there.resize(function_->graph.inputs().size());
    DeviceArray& fresh = c.fresh_there[buffer.index];
    fresh = {type.dtype, shape, nullptr};
    fresh.memory = c.devices->accelerator(home).allocate_value(
        static_cast<std::uint64_t>(fresh.bytes()),
        fmt::format("a new value of {}", v.name.empty() ? "a variable" : v.name));
    return fresh.memory->data();
  }
  c.fresh.resize(function_->graph.inputs().size());
  c.fresh[buffer.index] = new_storage(v, type.dtype, shape);
  return c.fresh[buffer.index].data;
}

void FunctionImpl::take_devices(CallContext& c) {
  const Executable& exe = *c.executable;
  const std::vector<ArenaPlan>& arenas = exe.planned->plan.arenas;
  c.arenas.assign(arenas.size(), nullptr);
  c.arenas[kHostSpace] = c.arena ? c.arena->data() : nullptr;
  if (!has_other_devices_) return;
  c.queues.assign(exe.marks.size(), nullptr);
  if (c.devices != c.lowered->devices) c.on_devices.clear();
  c.devices = c.lowered->devices;
  c.on_devices.resize(exe.marks.size());
  for (std::size_t d = 1; d < exe.marks.size(); ++d) {
    const auto id = static_cast<DeviceId>(d);
    CallContext::OnDevice& have = c.on_devices[d];
    Accelerator& device = c.devices->accelerator(id);
    const auto bytes_in = [&](Space space) {
      return space < arenas.size() ? arenas[space].bytes : 0;
    };
    if (const std::uint64_t bytes = bytes_in(own_space(id)); bytes > 0) {
      if (!have.arena || have.arena->bytes() < bytes) {
        have.arena.reset();
        have.arena = device.arenas.lease(bytes, [&](std::uint64_t n) {
          return device.allocate(n, fmt::format("the arena of {}", function_->own_name()), true);
        });
      }
      c.arenas[own_space(id)] = have.arena->data();
    }
    if (const std::uint64_t bytes = bytes_in(staging_space(id)); bytes > 0) {
      if (!have.staging || have.staging->bytes < bytes) {
        have.staging.reset();
        const std::string whose =
            fmt::format("what {} copies to {} and back", function_->own_name(), device.info().name);
        have.staging = device.staging.lease(bytes, [&](std::uint64_t n) {
          require_free_memory(n, whose);
          return device.allocate_staging(n, whose);
        });
      }
      c.arenas[staging_space(id)] = have.staging->data;
    }
    claim_on(c.devices, device, bytes_in(own_space(id)), bytes_in(staging_space(id)));
    if (exe.marks[d] == 0) continue;
    if (!have.queues || have.marks < exe.marks[d]) {
      have.queues = device.open(exe.marks[d]);
      have.marks = exe.marks[d];
    }
    c.queues[d] = have.queues.get();
  }
}

void FunctionImpl::claim_on(const std::shared_ptr<const DeviceList>& devices, Accelerator& device,
                            std::uint64_t own, std::uint64_t staging) {
  if (!shares_arenas_) return;
  const std::lock_guard lock(context_mutex_);
  auto claim = std::find_if(device_claims_.begin(), device_claims_.end(),
                            [&](const DeviceClaim& c) { return c.device == &device; });
  if (claim == device_claims_.end())
    claim = device_claims_.insert(claim, {.devices = devices, .device = &device});
  if (own > claim->own) device.arenas.change_claim(std::exchange(claim->own, own), own);
  if (staging > claim->staging)
    device.staging.change_claim(std::exchange(claim->staging, staging), staging);
}

void FunctionImpl::reserve_snapshots(CallContext& c) {
  if (options_.snapshot == 0) return;
  for (std::size_t i = 0; i < function_->shared.size(); ++i)
    if (function_->shared[i].written && home_of(c, i) != 0)
      function_->shared[i].variable->reserve_copy();
}

void FunctionImpl::take_snapshots(CallContext& c) {
  if (options_.snapshot == 0 || ++since_snapshot_ < options_.snapshot) return;
  since_snapshot_ = 0;
  for (std::size_t i = 0; i < function_->shared.size(); ++i)
    if (function_->shared[i].written && home_of(c, i) != 0)
      function_->shared[i].variable->keep_copy();
}

void FunctionImpl::lose_written(CallContext& c, std::uint32_t asked, const char* why) {
  const Schedule& s = c.executable->planned->schedule;
  const bool late = std::any_of(s.steps.begin(), s.steps.end(),
                                [](const Step& step) { return step.queue != kHostQueue; });
  if (!late) return;  // nothing fails behind the commit point
  for (std::uint32_t at = s.commit; at < asked; ++at)
    for (const std::uint32_t b : s.steps[at].writes)
      if (const Buffer& buffer = s.buffers[b]; buffer.where == Where::Shared)
        function_->shared[buffer.index - function_->argument_count].variable->lose(
            fmt::format("a call that updates it failed midway ({})", why));
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
      copy_elements(to, c.buffers[i], from, a.data, c.lowered->threads);
    } else {
      Array whole = as_array(a).contiguous_copy();
      std::memcpy(c.buffers[i], whole.data, static_cast<std::size_t>(whole.bytes()));
    }
    if (a.dtype == DType::Bool) make_bools(c.buffers[i], product(a.shape));
  }
}

void FunctionImpl::finish(CallContext& c) {
  const Graph& g = c.lowered->program.graph;
  for (const Update& u : g.updates()) {
    if (u.input < c.fresh_there.size() && c.fresh_there[u.input].memory) {
      DeviceArray fresh = std::move(c.fresh_there[u.input]);
      fresh.shape.clear();
      for (SizeId d : g.type(u.value).dims) fresh.shape.push_back(c.sizes[d]);
      function_->shared[u.input - function_->argument_count].variable->set_value_on_device(
          std::move(fresh));
      continue;
    }
    if (u.input >= c.fresh.size() || !c.fresh[u.input].storage) continue;
    Array& value = function_->shared[u.input - function_->argument_count].variable->value_locked();
    const DType dtype = value.dtype;
    const NoFork whole;
    value = std::move(c.fresh[u.input]);
    value.shape.clear();
    for (SizeId d : g.type(u.value).dims) value.shape.push_back(c.sizes[d]);
    value.strides = contiguous_strides(value.shape);
    value = as_stored(std::move(value), dtype);
  }
  c.fresh.clear();
  c.fresh_there.clear();
  for (std::size_t i = 0; i < g.outputs().size(); ++i)
    for (std::size_t k = 0; k < c.output_shapes[i].size(); ++k)
      c.output_shapes[i][k] = c.sizes[g.type(g.outputs()[i]).dims[k]];
}

void FunctionImpl::run(CallContext& c, std::span<std::byte* const> outputs) {
  check_outputs(c, outputs);
  c.ran = true;
  c.held.running = true;
  const WorkFor caller(c.calls);
  if (options_.mode == Mode::Reference) {
    run_reference(c, outputs);
    c.held.running = false;
    return;
  }
  bind(c, outputs);
  require_room({}, "a call");
  drop_old_blocks();
  RunState state;
  state.sizes = c.sizes.data();
  state.buffers = c.buffers.data();
  state.arenas = c.arenas.data();
  state.queues = c.queues.data();
  state.descs = c.descs.data();
  state.pointers = c.pointers.data();
  state.file = c.file.get();
  state.interruptible = honours_interrupts();
  bind_arena(*c.executable, state);
  StepChecker checker(*c.executable);
  StepGuard guard(*c.executable, options_.guarded);
  if (options_.mode == Mode::Check) {
    checker.start(state);
    state.observer = &checker;
  } else if (options_.mode == Mode::Guard) {
    for (std::size_t i = 0; i < c.arguments.size() && i < function_->input_names.size(); ++i)
      guard.check_input(as_array(c.arguments[i]), "argument", i, function_->input_names[i]);
    for (std::size_t i = 0; i < function_->shared.size(); ++i)
      guard.check_input(function_->shared[i].variable->copy_locked(), "shared variable", i,
                        function_->shared[i].variable->name);
    state.observer = &guard;
  }
  const bool profile = options_.profile && options_.mode == Mode::Fast;
  StepTimer timer(profile ? c.executable->steps.size() : 0);
  if (profile) state.observer = &timer;
  with_libraries(*c.executable, [&] {
    copy_arguments(c);
    try {
      run_steps(*c.executable, state);
    } catch (const Error& e) {
      lose_written(c, state.asked, e.message().c_str());
      throw;
    } catch (const std::exception& e) {
      lose_written(c, state.asked, e.what());
      throw;
    }
  });
  if (profile) times_.add(*c.executable, state, timer.seconds());
  finish(c);
  take_snapshots(c);
  c.held.running = false;
  guard.throw_late();
}

void FunctionImpl::run_reference(CallContext& c, std::span<std::byte* const> outputs) {
  std::vector<RefTensor> inputs;
  for (const ArgView& a : c.arguments) inputs.push_back(RefTensor::from(as_array(a)));
  for (const FunctionGraph::Shared& s : function_->shared) {
    const Array& value = s.variable->value_locked();
    inputs.push_back(RefTensor::from(is_complex(value.dtype) ? value.as_pairs() : value));
  }
  std::vector<RefTensor> results = interpret(function_->graph, inputs);
  for (std::size_t i = 0; i < function_->graph.outputs().size(); ++i) {
    Array a = as_stored(results[i].to_array(), function_->output_types[i].dtype);
    std::memcpy(outputs[i], a.data, static_cast<std::size_t>(a.bytes()));
    c.output_shapes[i] = a.shape;
  }
  for (std::size_t i = 0; i < function_->graph.updates().size(); ++i) {
    Array& value =
        function_->shared[function_->graph.updates()[i].input - function_->argument_count]
            .variable->value_locked();
    value = as_stored(results[function_->graph.outputs().size() + i].to_array(), value.dtype);
    value.storage->count_as_shared();
  }
}

void FunctionImpl::release(CallContext& c) noexcept {
  unlock(c);
  c.calls->leave(c.held);
  if (shares_arenas_ && c.arena) ArenaPool::shared().give_back(std::move(c.arena));
  for (std::size_t d = 1; shares_arenas_ && d < c.on_devices.size(); ++d) {
    CallContext::OnDevice& have = c.on_devices[d];
    Accelerator& device = c.devices->accelerator(static_cast<DeviceId>(d));
    if (have.arena) device.arenas.give_back(std::move(have.arena));
    if (have.staging) device.staging.give_back(std::move(have.staging));
  }
  std::shared_ptr<FunctionImpl> self = std::move(c.function);  // dies after the lock
  {
    std::lock_guard lock(context_mutex_);
    c.busy = false;
  }
  context_free_.notify_one();
}

}  // namespace snug
