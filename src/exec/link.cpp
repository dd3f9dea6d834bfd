#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/spelling.h"
#include "cost/nodes.h"
#include "cost/tasks.h"
#include "exec/executable.h"
#include "graph/words.h"
#include "kernel/task_words.h"
#include "place/place.h"
#include "plan/over_budget.h"

namespace snug {
namespace {

ArgDesc describe_arg(const Type& type, const Layout& layout, std::span<const std::int64_t> sizes) {
  ArgDesc d;
  d.dtype = type.dtype;
  for (SizeId id : type.dims) d.shape.push_back(sizes[id]);
  for (SizeId id : layout.strides) d.strides.push_back(sizes[id]);
  return d;
}

/// Some size is known only while running, or (in a loop) differs between iterations.
bool varies(const SizeBounds& bounds, const Type& type, const Layout& layout) {
  auto open = [&](SizeId id) { return bounds.low[id] != bounds.high[id]; };
  return std::any_of(type.dims.begin(), type.dims.end(), open) ||
         std::any_of(layout.strides.begin(), layout.strides.end(), open);
}

/// Whether every run-time symbol that a requirement depends on is known.
bool all_decided(const SizeTable& table, const Infer::Requirement& r,
                 const std::set<SizeId>& decided) {
  bool all = true;
  table.walk({r.a, r.b}, [&](SizeId id) {
    if (table.node(id).op == SizeOp::Symbol && table.is_runtime(id)) all &= decided.count(id) != 0;
    return table.is_runtime(id);
  });
  return all;
}

/// The elements of a value that decides sizes; those of a value computed while running are symbols
/// of their own.
std::vector<SizeId> deciding_sizes(const Graph& g, Value v) {
  auto known = g.elements(v);
  std::vector<SizeId> out(known.begin(), known.end());
  if (!out.empty()) return out;
  for (const auto& source : g.runtime_sources())
    if (!source.extent && source.value == v && source.element == 0) out.push_back(source.symbol);
  return out;
}

/// In elements touched, each as dear as some additions.
std::int64_t work_of_a_point(const KernelSpec& spec) {
  constexpr double kAdditions = 16;
  double additions = 0;
  for (const Instr& in : spec.body) additions += kernel_cost(in.prim);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(additions / kAdditions));
}

std::size_t first_input(const Task& t) { return t.kind == Task::Kind::Loop ? 1 : 0; }

CallSite call_site(const Lowered& l, const Task& t, const SizeBounds& bounds) {
  std::span<const std::int64_t> sizes = bounds.high;
  const Program& p = l.program;
  const Node& n = p.graph.node(t.index);
  CallSite site;
  site.node = &n;
  site.threads = l.threads;
  for (std::size_t i = first_input(t); i < data_inputs(n); ++i) {
    const Layout& layout = p.places.at(n.inputs[i]).layout;
    site.in.push_back(describe_arg(p.graph.type(n.inputs[i]), layout, sizes));
    site.runtime_sizes |= varies(bounds, p.graph.type(n.inputs[i]), layout);
  }
  for (std::uint32_t k = 0; k < n.types.size(); ++k) {
    const Layout& layout = p.places.at({t.index, k}).layout;
    site.out.push_back(describe_arg(n.types[k], layout, sizes));
    site.runtime_sizes |= varies(bounds, n.types[k], layout);
  }
  auto add_sizes = [&](Value v) {
    std::vector<std::int64_t> values;
    for (SizeId e : deciding_sizes(p.graph, v)) values.push_back(sizes[e]);
    site.size_values.push_back(std::move(values));
  };
  if (t.kind == Task::Kind::Loop)  // sizes of the body may be made of any of its operands
    for (Value v : n.inputs) add_sizes(v);
  for (std::size_t i = data_inputs(n); i < n.inputs.size(); ++i) add_sizes(n.inputs[i]);
  return site;
}

/// Of a kernel: extents at their largest, and strides, which may run backwards, at their longest.
std::vector<std::int64_t> largest_ints(const Kernel& k, const SizeBounds& bounds) {
  std::vector<std::int64_t> ints;
  for (const SizeId id : k.ints) {
    const std::int64_t low = bounds.low[id], high = bounds.high[id];
    ints.push_back(ints.size() >= k.spec.rank() && -low > high ? low : high);
  }
  return ints;
}

}  // namespace

namespace {

/// What a value is called: "W", "a copy of x", "conv2d".
std::string name_of_value(const Graph& g, std::uint32_t node) {
  const Node& n = g.node(node);
  if (n.op == &transfer_op) return "a copy of " + name_of_value(g, n.inputs[0].node);
  if (n.op == &kCopyOp) return name_of_value(g, n.inputs[0].node);
  for (const GraphInput& in : g.inputs()) {
    if (in.value.node != node) continue;
    const std::string& name = in.shared ? in.shared->name : in.name;
    return !name.empty() ? name : in.shared ? "a shared variable" : "an argument";
  }
  return word_for(n);
}

/// Refuses what a device has to have in one piece and cannot allocate at a time.
class SlabChecker {
 public:
  SlabChecker(const Lowered& lowered, const SizeBounds& bounds, const TaskSizes& sizes)
      : l_(lowered), p_(lowered.program), bounds_(bounds), sizes_(sizes) {}

  void run() const {
    for (const GraphInput& in : p_.graph.inputs())
      if (in.shared) check_value(in.value, 0);
    for (const Task& t : p_.tasks)
      for (const Value v : t.writes) check_value(v, t.device);
  }

  void check_workspace(const Task& t, std::uint64_t bytes) const {
    check(t.device, bytes, t.origin, [&] { return "the workspace of " + words_for(p_, t); });
  }

 private:
  void check_value(Value v, DeviceId of_task) const {
    const bool is_node = v.node < p_.graph.nodes().size();
    const OriginId origin = is_node ? p_.graph.node(v).origin : 0;
    check(is_node ? p_.graph.node(v).device : of_task, bytes_of(p_, bounds_.high, v), origin, [&] {
      Dims shape;
      for (const SizeId s : p_.type(v).dims) shape.push_back(bounds_.high[s]);
      return fmt::format("{}, {},", is_node ? name_of_value(p_.graph, v.node) : "a partial sum",
                         describe_value(p_.type(v).dtype, shape, origin));
    });
  }

  template <class What>
  void check(DeviceId d, std::uint64_t bytes, OriginId origin, What&& what) const {
    if (d == 0) return;
    const std::uint64_t slab = sizes_.rules[own_space(d)].slab;
    if (slab == 0 || bytes <= slab) return;
    const std::string& device = (*l_.devices)[d].info().name;
    throw OverBudget(
        d, bytes, slab, 0,
        fmt::format("{}: {} has {} ({} bytes), and the device allocates at most {} "
                    "({} bytes) at a time",
                    device, what(), describe_bytes(bytes), bytes, describe_bytes(slab), slab),
        fmt::format("use a smaller batch, let the batch run in slices ({}), or leave "
                    "it to the host ({})",
                    option("micro_batches"), option("device", "cpu")),
        origin);
  }

  const Lowered& l_;
  const Program& p_;
  const SizeBounds& bounds_;
  const TaskSizes& sizes_;
};

}  // namespace

PreparedTasks prepare_tasks(const Lowered& l, const SizeBounds& bounds, CallKind kind,
                            const DeviceInfo* device, bool unbounded) {
  // Also of values that are never stored: their elements are counted in 64 bits.
  for (std::uint32_t n = 0; n < l.program.graph.nodes().size(); ++n)
    for (std::uint32_t k = 0; k < l.program.graph.nodes()[n].types.size(); ++k)
      bytes_of(l.program, bounds.high, {n, k});
  PreparedTasks out;
  out.sizes.kind = std::move(kind);
  out.sizes.device = device;
  for (DeviceId d = 1; l.devices && d < l.devices->size(); ++d) {
    const DeviceInfo& info = (*l.devices)[d].info();
    out.sizes.rules.resize(own_space(d) + 1U);
    const auto alignment = std::max(kArenaAlign, static_cast<std::uint64_t>(info.alignment));
    const auto largest = static_cast<std::uint64_t>(info.largest_allocation);
    out.sizes.rules[own_space(d)] = {unbounded ? 0 : largest / alignment * alignment, alignment};
  }
  const SlabChecker slabs(l, bounds, out.sizes);
  slabs.run();
  for (const Task& t : l.program.tasks) {
    check_interrupt();
    std::unique_ptr<PreparedCall> call;
    if (t.kind == Task::Kind::Kernel && t.device != 0) {
      const Kernel& k = l.program.kernels[t.index];
      call = l.devices->accelerator(t.device).prepare(k.spec, largest_ints(k, bounds));
    } else if (t.kind == Task::Kind::Library || t.kind == Task::Kind::Loop) {
      const Node& n = l.program.graph.node(t.index);
      CallSite site = call_site(l, t, bounds);
      site.device = device;
      site.unbounded = unbounded;
      if (t.device != 0 && t.kind == Task::Kind::Library)
        site.accelerator = &l.devices->accelerator(t.device);
      try {
        call = t.kind == Task::Kind::Loop ? prepare_loop(l, t, site)
                                          : find_library(l.program.libraries, n)->prepare(site);
      } catch (Error& e) {
        e.locate(n.origin);
        throw;
      }
    }
    if (call && t.kind != Task::Kind::Loop) slabs.check_workspace(t, call->workspace);
    out.sizes.workspace.push_back(call ? call->workspace : 0);
    out.sizes.elsewhere.emplace_back();
    if (call) out.sizes.elsewhere.back() = call->elsewhere;
    out.sizes.loop_seconds.push_back(call ? call->seconds : 0);
    out.calls.push_back(std::move(call));
  }
  return out;
}

bool serves(const Planned& planned, const Lowered& l, const TaskSizes& sizes) {
  const std::vector<Buffer>& buffers = planned.schedule.buffers;
  for (const Buffer& b : buffers)
    if (!b.workspace && bytes_of(l.program, sizes.sizes, b.value) > b.bytes) return false;
  for (const Step& s : planned.schedule.steps) {
    if (s.commit_copy) continue;
    const std::uint64_t room =
        s.workspace < 0 ? 0 : buffers[static_cast<std::size_t>(s.workspace)].bytes;
    if (sizes.workspace[s.task] > room) return false;
    for (std::size_t k = 0; k < s.elsewhere.size(); ++k)
      if (sizes.elsewhere[s.task][k].second > buffers[s.elsewhere[k]].bytes) return false;
  }
  return true;
}

namespace {

/// Binds the steps of a plan to sizes, one after the other.
class Linker {
 public:
  Linker(const Lowered& l, Executable& exe, bool predict, const TaskSizes& sizes)
      : l_(l),
        p_(l.program),
        exe_(exe),
        schedule_(exe.planned->schedule),
        predict_(predict),
        task_sizes_(sizes) {}

  BoundStep bind(const Step& s) {
    BoundStep b;
    b.workspace = s.workspace;
    b.elsewhere = s.elsewhere;
    if (s.queue != kHostQueue) {
      b.device = device_of_queue(s.queue);
      b.queue = static_cast<CommandQueues::Queue>(number_of_queue(s.queue));
    }
    if (s.commit_copy) {
      bind_copy(s, b);
      return b;
    }
    const Task& t = p_.tasks[s.task];
    b.task = &t;
    if (predict_) b.seconds = predict_task_seconds(p_, task_sizes_, s.task);
    switch (t.kind) {
      case Task::Kind::Kernel: bind_kernel(s, t, b); break;
      case Task::Kind::Sizes: bind_sizes(s, t, b); break;
      case Task::Kind::Copy: bind_copy(s, b); break;
      default: bind_call(s, t, b);
    }
    note_decided_sizes(t, b);
    return b;
  }

  /// Gives marks to the steps that others wait for, and to those that decide sizes: this thread
  /// reads what they make.
  void bind_waits() {
    const auto mark_of = [&](std::uint32_t at) {
      BoundStep& b = exe_.steps[at];
      if (b.mark < 0) b.mark = static_cast<std::int32_t>(exe_.marks[b.device]++);
      return static_cast<std::uint32_t>(b.mark);
    };
    exe_.marks.assign(l_.devices ? l_.devices->size() : 1, 0);
    for (std::uint32_t at = 0; at < exe_.steps.size(); ++at) {
      BoundStep& b = exe_.steps[at];
      for (const std::uint32_t other : schedule_.steps[at].waits) {
        const DeviceId device = exe_.steps[other].device;
        b.waits.push_back({device, mark_of(other), b.device != device});
      }
      if (b.device != 0 && !b.elements.empty()) mark_of(at);
    }
    for (const BoundStep& b : exe_.steps) {
      if (b.device != 0) exe_.marks[b.device] = std::max(exe_.marks[b.device], 1U);
      if (!b.call) continue;
      for (DeviceId d = 1; d < exe_.marks.size(); ++d)
        exe_.marks[d] = std::max(exe_.marks[d], b.call->marks(d));
    }
  }

 private:
  std::span<const std::int64_t> sizes() const { return exe_.bounds.high; }

  static std::uint32_t buffer_of(const Step& s, const Task& t, Value root, bool write) {
    const auto& values = write ? t.writes : t.reads;
    const auto& buffers = write ? s.writes : s.reads;
    const auto at = std::find(values.begin(), values.end(), root) - values.begin();
    return buffers[static_cast<std::size_t>(at)];
  }

  void bind_copy(const Step& s, BoundStep& b) const {
    b.buffers = {s.reads[0], s.writes[0]};
    b.widths = {
        static_cast<std::int64_t>(bytes_of(p_, sizes(), schedule_.buffers[s.writes[0]].value))};
  }

  void bind_kernel(const Step& s, const Task& t, BoundStep& b) const {
    b.kernel = &p_.kernels[t.index];
    b.code = l_.code.empty() ? nullptr : l_.code[t.index];
    b.call = exe_.calls[s.task].get();
    const Kernel& k = *b.kernel;
    for (std::size_t i = 0; i < k.operands.size(); ++i) {
      b.buffers.push_back(buffer_of(s, t, k.operands[i], k.spec.operands[i].write));
      b.widths.push_back(size_of(k.spec.operands[i].dtype));
    }
    b.offsets = k.offsets;
    b.weight = work_of_a_point(k.spec);
  }

  void bind_sizes(const Step& s, const Task& t, BoundStep& b) const {
    b.buffers = {s.writes[0]};
    auto e = p_.graph.elements(t.writes[0]);
    b.size_inputs.emplace_back(e.begin(), e.end());
  }

  void bind_call(const Step& s, const Task& t, BoundStep& b) {
    const Node& n = p_.graph.node(t.index);
    b.call = exe_.calls[s.task].get();
    exe_.blas_buffers = std::max(exe_.blas_buffers, b.call->blas_buffers);
    auto add = [&](Value v, bool write) {
      const Place& place = p_.places.at(v);
      b.buffers.push_back(buffer_of(s, t, place.root, write));
      b.offsets.push_back(place.layout.offset);
      const Type& type = p_.graph.type(v);
      b.widths.push_back(size_of(type.dtype));
      b.descs.push_back(describe_arg(type, place.layout, sizes()));
      b.layouts.emplace_back(&type, &place.layout);
      b.runtime_sizes |= varies(exe_.bounds, type, place.layout);
    };
    for (std::size_t i = first_input(t); i < data_inputs(n); ++i) add(n.inputs[i], false);
    b.input_count = static_cast<std::uint32_t>(b.buffers.size());
    for (std::uint32_t k = 0; k < n.types.size(); ++k) add({t.index, k}, true);
    add_size_inputs(t, n, b);
    if (has(*n.op, kInPlace) && !t.in_place.empty()) b.in_place = runs_in_place(s);
  }

  void add_size_inputs(const Task& t, const Node& n, BoundStep& b) const {
    auto add = [&](Value v) { b.size_inputs.push_back(deciding_sizes(p_.graph, v)); };
    if (t.kind == Task::Kind::Loop)
      for (const std::uint32_t k : loop_size_inputs(l_.inner.at(t.index)->program.graph))
        add(n.inputs[k]);
    for (std::size_t i = data_inputs(n); i < n.inputs.size(); ++i) add(n.inputs[i]);
    std::size_t values = 0;
    for (const auto& e : b.size_inputs) values += e.size();
    if (std::max(values, b.size_inputs.size()) > kMaxSizeValues)
      throw UnsupportedError(fmt::format("{} has more than {} sizes", n.op->name, kMaxSizeValues),
                             {}, n.origin);
  }

  /// Output 0 has the storage of input 0.
  bool runs_in_place(const Step& s) const {
    const Buffer &out = schedule_.buffers[s.writes[0]], &in = schedule_.buffers[s.reads[0]];
    return out.in_place_of == static_cast<std::int32_t>(s.reads[0]) ||
           (out.where == Where::Shared && in.where == Where::Shared && out.index == in.index);
  }

  /// Run-time symbols that are known once the task has run, and the requirements that can be
  /// checked then.
  void note_decided_sizes(const Task& t, BoundStep& b) {
    for (const auto& source : p_.graph.runtime_sources()) {
      auto it = p_.places.find(source.value);
      if (it == p_.places.end()) continue;
      auto written = std::find(t.writes.begin(), t.writes.end(), it->second.root);
      if (written == t.writes.end()) continue;
      decided_.insert(source.symbol);
      if (source.extent)
        b.extents.push_back(source.symbol);
      else
        b.elements.push_back({source.symbol, static_cast<std::uint32_t>(written - t.writes.begin()),
                              source.element});
    }
    if (b.extents.empty() && b.elements.empty()) return;
    for (std::uint32_t r : l_.late_requirements)
      if (!assigned_.count(r) &&
          all_decided(p_.graph.sizes(), p_.graph.requirements()[r], decided_)) {
        assigned_.insert(r);
        b.requirements.push_back(r);
      }
  }

  const Lowered& l_;
  const Program& p_;
  Executable& exe_;
  const Schedule& schedule_;
  bool predict_;
  const TaskSizes& task_sizes_;
  std::set<SizeId> decided_;          // run-time symbols known so far
  std::set<std::uint32_t> assigned_;  // late requirements that a step checks
};

}  // namespace

std::unique_ptr<Executable> link(const Lowered& l, std::shared_ptr<const Planned> planned,
                                 PreparedTasks tasks, SizeBounds bounds) {
  auto exe = std::make_unique<Executable>();
  exe->lowered = &l;
  exe->planned = std::move(planned);
  exe->bounds = std::move(bounds);
  exe->calls = std::move(tasks.calls);
  for (SizeId id : l.key) exe->key.push_back(exe->bounds.high[id]);
  Linker linker(l, *exe, tasks.sizes.device != nullptr, tasks.sizes);
  for (const Step& s : exe->planned->schedule.steps) {
    exe->steps.push_back(linker.bind(s));
    if (exe->steps.back().task)
      exe->max_operands = std::max(exe->max_operands, exe->steps.back().buffers.size());
  }
  linker.bind_waits();
  for (const Transfer& t : exe->planned->schedule.transfers)
    exe->transfers.push_back({t.buffer, bytes_of(l.program, exe->bounds.high,
                                                 exe->planned->schedule.buffers[t.buffer].value)});
  return exe;
}

void make_ready(const Executable& exe) {
  if (exe.ready.load(std::memory_order_acquire)) return;
  for (std::size_t t = 0; t < exe.calls.size(); ++t) try {
      if (exe.calls[t]) exe.calls[t]->make_ready();
    } catch (Error& e) {
      e.locate(exe.lowered->program.tasks[t].origin);
      throw;
    }
  exe.ready.store(true, std::memory_order_release);
}

void count_code(const Executable& exe, CodeCount& count) {
  for (const auto& call : exe.calls)
    if (call) call->count_code(count);
}

void bind_arena(const Executable& exe, RunState& state) {
  const Schedule& s = exe.planned->schedule;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where == Where::Arena) {
      state.buffers[b] = state.arenas[buf.space] + exe.planned->plan.offsets[b];
    } else if (buf.where == Where::Constant) {
      const Node& constant = exe.lowered->program.graph.node(buf.index);
      state.buffers[b] = constant.device == 0 ? constant.attrs.array("value")->data
                                              : exe.lowered->constants.at(buf.index)->data();
    }
  }
}

std::byte* host_bytes(const Executable& exe, const RunState& state, std::uint32_t buffer,
                      std::vector<std::byte>& copy) {
  const Buffer& b = exe.planned->schedule.buffers[buffer];
  if (on_host(b.space) || !state.buffers[buffer]) return state.buffers[buffer];
  copy.resize(b.bytes);
  CommandQueues& queues = *state.queues[device_of(b.space)];
  queues.copy(CommandQueues::Download, copy.data(), state.buffers[buffer], b.bytes);
  queues.finish();
  return copy.data();
}

void write_back(const Executable& exe, const RunState& state, std::uint32_t buffer,
                const std::byte* from, std::uint64_t bytes) {
  const Buffer& b = exe.planned->schedule.buffers[buffer];
  if (on_host(b.space)) {
    std::memmove(state.buffers[buffer], from, bytes);
    return;
  }
  CommandQueues& queues = *state.queues[device_of(b.space)];
  queues.copy(CommandQueues::Upload, state.buffers[buffer], from, bytes);
  queues.finish();
}

}  // namespace snug
