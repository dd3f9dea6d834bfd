// What a compiled function says of itself: its memory, and the graph after each stage.
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>

#include "api/compiled.h"
#include "api/memory_classes.h"
#include "api/process_memory.h"
#include "base/bytes.h"
#include "graph/words.h"
#include "kernel/task_words.h"

namespace snug {
namespace {

/// The arena of a device by class, its peak and who is alive there.
ArenaUse describe_arena(const Executable& e, DeviceId device, MemoryUse& r) {
  const Planned& planned = *e.planned;
  const Space space = own_space(device);
  const ArenaUse use = arena_use(e, space);
  auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  std::int64_t* const classes[kArenaClasses] = {&r.gradients, &r.activations, &r.temporaries,
                                                &r.workspace, &r.copies};
  for (std::size_t c = 0; c < kArenaClasses; ++c) {
    *classes[c] = number(use.at_peak[c]);
    r.most[c] = number(use.most[c]);
  }
  r.gap = number(use.gap);
  r.floor = device < planned.bounds.size() ? number(planned.bounds[device]) : 0;
  r.all_gradients = number(use.all_gradients);
  r.gradients_wait = use.gradients_wait;
  for (const ArenaPiece& x : use.alive)
    r.alive.push_back({number(x.bytes), x.what, x.op, describe_value(x.dtype, x.shape, x.origin),
                       describe(x.origin)});
  if (space >= planned.plan.arenas.size()) return use;
  const ArenaPlan& arena = planned.plan.arenas[space];
  r.arena = number(arena.bytes);
  if (planned.schedule.steps.empty() || (device != 0 && arena.bytes == 0)) return use;
  const Step& s = planned.schedule.steps[arena.peak_step];
  const Task* t = s.commit_copy ? nullptr : &e.lowered->program.tasks[s.task];
  const std::string where = t ? describe(t->origin) : "";
  r.step = arena.peak_step + 1;
  r.peak_step = fmt::format("step {} of {}: {}{}", r.step, planned.schedule.steps.size(),
                            t ? words_for(e.lowered->program, *t) : "copy to shared",
                            where.empty() ? "" : fmt::format(" ({})", where));
  return use;
}

/// Adds the steps, buffers and offsets of a plan, those of loop bodies included.
void add_plan(const Executable& e, std::string& text) {
  const Schedule& s = e.planned->schedule;
  const auto add = [&](const auto&... parts) {
    ((text += fmt::format("{} ", parts)), ...);
    text += '\n';
  };
  for (std::size_t k = 0; k < s.buffers.size(); ++k) {
    const Buffer& b = s.buffers[k];
    add(static_cast<int>(b.where), b.index, b.bytes, b.first, b.last, b.in_place_of,
        b.where == Where::Arena ? e.planned->plan.offsets[k] : 0);
  }
  for (const Step& step : s.steps) {
    add(step.commit_copy ? "commit" : e.lowered->program.tasks[step.task].name,
        fmt::format("{}", fmt::join(step.reads, ",")),
        fmt::format("{}", fmt::join(step.writes, ",")), step.workspace, step.again);
  }
  for (const Transfer& t : s.transfers) add(t.buffer, t.store, t.offset, t.begin, t.end);
  add(s.commit, s.file_bytes, e.planned->plan.host().bytes, e.planned->plan.host().load);
  for (const auto& call : e.calls)
    if (const Executable* const body = call ? loop_body(*call) : nullptr) add_plan(*body, text);
}

std::string fingerprint_of(const Executable& e) {
  std::string text;
  add_plan(e, text);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::int64_t rounded_activations(const Lowered& lowered) {
  std::int64_t count = 0;
  for (const Node& n : lowered.program.graph.nodes()) count += n.op == &kToBfloat16Op;
  for (const auto& [node, inner] : lowered.inner) count += rounded_activations(*inner);
  return count;
}

}  // namespace

MemoryReport Compiled::report(const SizeSources& from) {
  std::string assumed;
  const std::shared_ptr<const Executable> e = plan_for(from, assumed);
  const Lowered* const l = e->lowered;
  const Graph& g = l->program.graph;

  MemoryReport r;
  auto bytes = [&](Value v) {
    return static_cast<std::int64_t>(bytes_of(l->program, e->bounds.high, v));
  };
  const std::vector<bool> state = optimizer_state(g);
  const std::size_t devices = l->devices->size();
  for (DeviceId d = 1; d < devices; ++d)
    r.devices.emplace_back().name = (*l->devices)[d].info().name;
  const auto on = [&](DeviceId d) -> MemoryUse& {
    return d ? static_cast<MemoryUse&>(r.devices[d - 1U]) : r;
  };
  auto held_by = [&](std::size_t input) -> std::int64_t& {
    if (input < function_->argument_count) return r.inputs;
    MemoryUse& use = on(g.node(g.inputs()[input].value).device);
    return state[input] ? use.optimizer : use.parameters;
  };
  for (std::size_t i = 0; i < g.inputs().size(); ++i) held_by(i) += bytes(g.inputs()[i].value);
  for (Value v : g.outputs()) r.outputs += bytes(v);
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    if (g.node(id).op->name == "constant") on(g.node(id).device).constants += bytes({id, 0});
  std::vector<std::uint64_t> of_bodies(devices, 0);
  add_body_constants(*l, of_bodies);
  for (DeviceId d = 1; d < devices; ++d) on(d).constants += static_cast<std::int64_t>(of_bodies[d]);
  if (options_.snapshots)
    for (const FunctionGraph::Shared& s : function_->shared)
      if (const Value v = g.inputs()[s.input].value; s.written && g.node(v).device != 0)
        r.copies_kept += bytes(v);
  const Planned& planned = *e->planned;
  // A variable that changes its shape has its old and its new memory at once.
  for (const Buffer& b : planned.schedule.buffers)
    if (b.where == Where::Fresh) held_by(b.index) += static_cast<std::int64_t>(b.bytes);
  ArenaUse sliced;
  for (DeviceId d = 0; d < devices; ++d) {
    MemoryUse& use = on(d);
    const ArenaUse arena = describe_arena(*e, d, use);
    if (d == 0 || arena.slices.count > 0) sliced = arena;
    const std::int64_t stays =
        use.variables() + use.constants + (d == 0 ? r.outputs + r.copies_kept : std::int64_t{0});
    use.peak = stays + use.arena;
    use.floor += stays;
  }
  r.slices = sliced.slices.count;
  r.slice_rows = sliced.slices.rows;
  r.accumulators = static_cast<std::int64_t>(sliced.accumulators);
  r.steps = static_cast<std::int64_t>(planned.schedule.steps.size());
  r.staging = static_cast<std::int64_t>(planned.plan.staging());
  r.peak += r.staging;
  r.fingerprint = fingerprint_of(*e);
  r.not_planned = not_planned_bytes();
  r.best_order = planned.schedule.best_order;
  r.recomputed = planned.recomputed;
  for (const Transfer& t : planned.schedule.transfers)
    if (t.store) r.offloaded += static_cast<std::int64_t>(planned.schedule.buffers[t.buffer].bytes);
  r.micro_batches = options_.micro_batches;
  r.rounded = rounded_activations(*l);
  if (options_.device) r.seconds = planned.seconds;
  if (!assumed.empty())
    r.note = fmt::format("planned for {} = 0; give its value to plan for another", assumed);
  if (function_->has_stage())
    r.note = fmt::format("not known before running: sizes given by {}; planned as 0 here",
                         function_->stage_text);
  return r;
}

namespace {

/// The tasks of a program, and below it those of loop bodies.
std::string describe_tasks(const Lowered& lowered) {
  std::string text = print(lowered.program);
  for (const Task& t : lowered.program.tasks)
    if (t.kind == Task::Kind::Loop)
      text += fmt::format("body of the loop %{}:\n{}", t.index,
                          describe_tasks(*lowered.inner.at(t.index)));
  return text;
}

/// The steps of a plan, and below it those of loop bodies.
std::string describe_plan(const Executable& exe, std::string_view title) {
  const Planned& planned = *exe.planned;
  std::string text =
      fmt::format("\n== {}: arena {} ==\n{}", title, describe_bytes(planned.plan.host().bytes),
                  print(exe.lowered->program, planned.schedule));
  for (std::size_t t = 0; t < exe.calls.size(); ++t) {
    const Executable* const body = exe.calls[t] ? loop_body(*exe.calls[t]) : nullptr;
    if (!body) continue;
    const Slices slices = slices_of(*exe.calls[t]);
    const std::uint32_t loop = exe.lowered->program.tasks[t].index;
    text += describe_plan(*body, slices.count
                                     ? fmt::format("body of the loop %{}, {} slices of {} rows",
                                                   loop, slices.count, slices.rows)
                                     : fmt::format("body of the loop %{}", loop));
  }
  return text;
}

std::string describe_kernels(const Lowered& lowered) {
  std::string text;
  for (const Kernel& k : lowered.program.kernels) text += print(k.spec) + "\n";
  for (const auto& [node, inner] : lowered.inner) text += describe_kernels(*inner);
  return text;
}

/// Why nodes are where they are: each reason with the ops it holds for, and a line of one of them.
std::string describe_placement(const PlaceTrace& trace, const Graph& placed) {
  if (trace.devices.size() < 2 || trace.reason_of.size() < placed.nodes().size()) return "";
  constexpr std::size_t kMostNames = 6;
  std::string text;
  for (std::uint32_t reason = 0; reason < trace.reasons.size(); ++reason) {
    std::vector<std::pair<std::string_view, int>> ops;
    std::string line;
    for (std::uint32_t id = 0; id < placed.nodes().size(); ++id) {
      if (trace.reason_of[id] != reason) continue;
      const Node& node = placed.node(id);
      auto known = std::find_if(ops.begin(), ops.end(),
                                [&](const auto& op) { return op.first == node.op->name; });
      if (known == ops.end()) known = ops.insert(ops.end(), {node.op->name, 0});
      ++known->second;
      if (line.empty()) line = describe(node.origin);
    }
    if (ops.empty() || trace.reasons[reason].empty()) continue;
    std::string names;
    for (std::size_t k = 0; k < std::min(ops.size(), kMostNames); ++k)
      names += fmt::format("{}{}{}", k ? ", " : "", ops[k].first,
                           ops[k].second > 1 ? fmt::format(" x {}", ops[k].second) : "");
    if (ops.size() > kMostNames) names += fmt::format(" and {} others", ops.size() - kMostNames);
    text += fmt::format("placement: {}: {}{}\n", trace.reasons[reason], names,
                        line.empty() ? "" : fmt::format(" ({})", line));
  }
  for (const auto& [body, inside] : trace.bodies)
    text += "placement in a loop:\n" + describe_placement(inside, *body);
  return text;
}

}  // namespace

std::string Compiled::explain() const {
  std::string text = fmt::format("function {}\n\n== graph as captured ==\n{}", function_->name,
                                 print(function_->graph));
  text += fmt::format("\n== rewrite ({:.1f} ms) ==\n{}", 1e3 * made_.trace.rewrite_seconds,
                      made_.trace.passes.describe(PassStage::Rewrite));
  text += fmt::format("\n== placed ({:.1f} ms) ==\n{}", 1e3 * made_.trace.place_seconds,
                      print(made_.trace.placed));
  text += describe_placement(made_.trace.place, made_.trace.placed);
  text += fmt::format("\n== layout ==\n{}", made_.trace.passes.describe(PassStage::Layout));
  text += fmt::format("\n== tasks ({:.1f} ms) ==\n{}", 1e3 * made_.trace.fuse_seconds,
                      made_.lowered ? describe_tasks(*made_.lowered) : "");
  text += fmt::format("\n== kernels (code {:.1f} ms; {} compiled, {} from the disk cache) ==\n",
                      1e3 * made_.trace.code_seconds, counters_.kernels_compiled,
                      counters_.kernels_from_cache);
  if (made_.lowered) text += describe_kernels(*made_.lowered);
  if (made_.executables.empty())
    return text + "\nno plan yet: sizes become known at the first call\n";
  return text + describe_plan(*made_.executables.front(), "schedule and plan");
}

}  // namespace snug
