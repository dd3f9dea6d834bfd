#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/interrupt.h"
#include "exec/executable.h"
#include "place/place.h"
#include "plan/predict_task.h"

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

}  // namespace

PreparedTasks prepare_tasks(const Lowered& l, const SizeBounds& bounds, CallKind kind,
                            const DeviceInfo* device) {
  // Also of values that are never stored: their elements are counted in 64 bits.
  for (std::uint32_t n = 0; n < l.program.graph.nodes().size(); ++n)
    for (std::uint32_t k = 0; k < l.program.graph.nodes()[n].types.size(); ++k)
      bytes_of(l.program, bounds.high, {n, k});
  PreparedTasks out;
  out.sizes.kind = std::move(kind);
  out.sizes.device = device;
  for (const Task& t : l.program.tasks) {
    check_interrupt();
    std::unique_ptr<PreparedCall> call;
    if (t.kind == Task::Kind::Library || t.kind == Task::Kind::Loop) {
      const Node& n = l.program.graph.node(t.index);
      CallSite site = call_site(l, t, bounds);
      site.device = device;
      try {
        call = t.kind == Task::Kind::Loop ? prepare_loop(l, t, site)
                                          : find_library(l.program.library, n)->prepare(site);
      } catch (Error& e) {
        e.locate(n.origin);
        throw;
      }
    }
    out.sizes.workspace.push_back(call ? call->workspace : 0);
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
  }
  return true;
}

std::unique_ptr<Executable> link(const Lowered& l, std::shared_ptr<const Planned> planned,
                                 PreparedTasks tasks, SizeBounds bounds) {
  auto exe = std::make_unique<Executable>();
  exe->lowered = &l;
  exe->planned = planned;
  exe->bounds = std::move(bounds);
  for (SizeId id : l.key) exe->key.push_back(exe->bounds.high[id]);
  const Program& p = l.program;
  const SizeTable& table = p.graph.sizes();
  std::span<const std::int64_t> sizes = exe->bounds.high;
  // A task that runs twice has one prepared call: the first step holds it, others borrow.
  std::vector<std::int64_t> first_step(p.tasks.size(), -1);
  std::set<SizeId> decided;          // run-time symbols known so far
  std::set<std::uint32_t> assigned;  // late requirements that a step checks
  for (const Step& s : planned->schedule.steps) {
    BoundStep b;
    b.workspace = s.workspace;
    if (s.commit_copy) {
      b.buffers = {s.reads[0], s.writes[0]};
      b.widths = {static_cast<std::int64_t>(
          bytes_of(p, sizes, planned->schedule.buffers[s.reads[0]].value))};
      exe->steps.push_back(std::move(b));
      continue;
    }
    const Task& t = p.tasks[s.task];
    b.task = &t;
    if (tasks.sizes.device) b.seconds = predict_task_seconds(p, tasks.sizes, s.task);
    auto buffer_of = [&](Value root, bool write) {
      const auto& values = write ? t.writes : t.reads;
      const auto& buffers = write ? s.writes : s.reads;
      auto at = std::find(values.begin(), values.end(), root) - values.begin();
      return buffers[static_cast<std::size_t>(at)];
    };
    if (t.kind == Task::Kind::Kernel) {
      b.kernel = &p.kernels[t.index];
      b.code = l.code.empty() ? nullptr : l.code[t.index];
      const Kernel& k = *b.kernel;
      for (std::size_t i = 0; i < k.operands.size(); ++i) {
        b.buffers.push_back(buffer_of(k.operands[i], k.spec.operands[i].write));
        b.widths.push_back(size_of(k.spec.operands[i].dtype));
      }
      b.offsets = k.offsets;
      b.weight = work_of_a_point(k.spec);
    } else if (t.kind == Task::Kind::Sizes) {
      b.buffers = {s.writes[0]};
      auto e = p.graph.elements(t.writes[0]);
      b.size_inputs.emplace_back(e.begin(), e.end());
    } else {
      const Node& n = p.graph.node(t.index);
      if (first_step[s.task] < 0) {
        b.call = std::move(tasks.calls[s.task]);
        exe->blas_buffers = std::max(exe->blas_buffers, b.call->blas_buffers);
      }
      auto add = [&](Value v, bool write) {
        const Place& place = p.places.at(v);
        b.buffers.push_back(buffer_of(place.root, write));
        b.offsets.push_back(place.layout.offset);
        const Type& type = p.graph.type(v);
        b.widths.push_back(size_of(type.dtype));
        b.descs.push_back(describe_arg(type, place.layout, sizes));
        b.layouts.emplace_back(&type, &place.layout);
        b.runtime_sizes |= varies(exe->bounds, type, place.layout);
      };
      for (std::size_t i = first_input(t); i < data_inputs(n); ++i) add(n.inputs[i], false);
      b.input_count = static_cast<std::uint32_t>(b.buffers.size());
      for (std::uint32_t k = 0; k < n.types.size(); ++k) add({t.index, k}, true);
      auto add_sizes = [&](Value v) { b.size_inputs.push_back(deciding_sizes(p.graph, v)); };
      if (t.kind == Task::Kind::Loop) add_sizes(n.inputs[0]);
      for (std::size_t i = data_inputs(n); i < n.inputs.size(); ++i) add_sizes(n.inputs[i]);
      std::size_t size_values = 0;
      for (const auto& e : b.size_inputs) size_values += e.size();
      if (std::max(size_values, b.size_inputs.size()) > kMaxSizeValues)
        throw UnsupportedError(fmt::format("{} has more than {} sizes", n.op->name, kMaxSizeValues),
                               {}, n.origin);
      if (has(*n.op, kInPlace) && !t.in_place.empty()) {
        const Buffer& out = planned->schedule.buffers[s.writes[0]];
        const Buffer& in = planned->schedule.buffers[s.reads[0]];
        b.in_place =
            out.in_place_of == static_cast<std::int32_t>(s.reads[0]) ||
            (out.where == Where::Shared && in.where == Where::Shared && out.index == in.index);
      }
    }
    first_step[s.task] = static_cast<std::int64_t>(exe->steps.size());
    for (const auto& source : p.graph.runtime_sources()) {
      auto it = p.places.find(source.value);
      if (it == p.places.end()) continue;
      auto written = std::find(t.writes.begin(), t.writes.end(), it->second.root);
      if (written == t.writes.end()) continue;
      if (source.extent)
        b.extents.push_back(source.symbol);
      else
        b.elements.push_back({source.symbol, static_cast<std::uint32_t>(written - t.writes.begin()),
                              source.element});
    }
    for (SizeId symbol : b.extents) decided.insert(symbol);
    for (const auto& e : b.elements) decided.insert(e.symbol);
    if (!b.extents.empty() || !b.elements.empty())
      for (std::uint32_t r : l.late_requirements)
        if (!assigned.count(r) && all_decided(table, p.graph.requirements()[r], decided)) {
          assigned.insert(r);
          b.requirements.push_back(r);
        }
    exe->max_operands = std::max(exe->max_operands, b.buffers.size());
    exe->steps.push_back(std::move(b));
  }
  for (const Transfer& t : planned->schedule.transfers)
    exe->transfers.push_back(
        {t.buffer, bytes_of(p, sizes, planned->schedule.buffers[t.buffer].value)});
  return exe;
}

void make_ready(const Executable& exe) {
  if (exe.ready.load(std::memory_order_acquire)) return;
  for (const BoundStep& step : exe.steps) try {
      if (step.call) step.call->make_ready();
    } catch (Error& e) {
      e.locate(step.task->origin);
      throw;
    }
  exe.ready.store(true, std::memory_order_release);
}

void count_code(const Executable& exe, CodeCount& count) {
  for (const BoundStep& step : exe.steps)
    if (step.call) step.call->count_code(count);
}

void bind_arena(const Executable& exe, RunState& state) {
  const Schedule& s = exe.planned->schedule;
  for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
    const Buffer& buf = s.buffers[b];
    if (buf.where == Where::Arena)
      state.buffers[b] = state.arena + exe.planned->plan.offsets[b];
    else if (buf.where == Where::Constant)
      state.buffers[b] = exe.lowered->program.graph.node(buf.index).attrs.array("value")->data;
  }
}

}  // namespace snug
