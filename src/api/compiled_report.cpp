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

/// The arena by class, its peak and who is alive there.
void describe_arena(const Executable& e, MemoryReport& r) {
  const Planned& planned = *e.planned;
  const ArenaUse use = arena_use(e);
  auto number = [](std::uint64_t n) { return static_cast<std::int64_t>(n); };
  std::int64_t* const classes[kArenaClasses] = {&r.gradients, &r.activations, &r.temporaries,
                                                &r.workspace, &r.copies};
  for (std::size_t c = 0; c < kArenaClasses; ++c) {
    *classes[c] = number(use.at_peak[c]);
    r.most[c] = number(use.most[c]);
  }
  r.arena = number(planned.plan.host().bytes);
  r.gap = number(use.gap);
  r.floor = number(planned.bound);
  r.all_gradients = number(use.all_gradients);
  r.gradients_wait = use.gradients_wait;
  r.slices = use.slices.count;
  r.slice_rows = use.slices.rows;
  r.accumulators = number(use.accumulators);
  for (const ArenaPiece& x : use.alive)
    r.alive.push_back({number(x.bytes), x.what, x.op, describe_value(x.dtype, x.shape, x.origin),
                       describe(x.origin)});
  if (planned.schedule.steps.empty()) return;
  const std::uint32_t at = planned.plan.host().peak_step;
  const Step& s = planned.schedule.steps[at];
  const Task* t = s.commit_copy ? nullptr : &e.lowered->program.tasks[s.task];
  const std::string where = t ? describe(t->origin) : "";
  r.step = at + 1;
  r.steps = number(planned.schedule.steps.size());
  r.peak_step = fmt::format("step {} of {}: {}{}", r.step, r.steps,
                            t ? words_for(e.lowered->program, *t) : "copy to shared",
                            where.empty() ? "" : fmt::format(" ({})", where));
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
  for (DeviceId d = 1; d < devices; ++d) r.devices.push_back({(*l->devices)[d].info().name});
  auto held_by = [&](std::size_t input) -> std::int64_t& {
    if (const DeviceId d = g.node(g.inputs()[input].value).device)
      return r.devices[d - 1].variables;
    return input < function_->argument_count ? r.inputs : state[input] ? r.optimizer : r.parameters;
  };
  for (std::size_t i = 0; i < g.inputs().size(); ++i) held_by(i) += bytes(g.inputs()[i].value);
  for (Value v : g.outputs()) r.outputs += bytes(v);
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    if (const DeviceId d = g.node(id).device; g.node(id).op->name == "constant")
      (d ? r.devices[d - 1].constants : r.constants) += bytes({id, 0});
  if (options_.snapshots)
    for (const FunctionGraph::Shared& s : function_->shared)
      if (const Value v = g.inputs()[s.input].value; s.written && g.node(v).device != 0)
        r.copies_kept += bytes(v);
  const Planned& planned = *e->planned;
  // A variable that changes its shape has its old and its new memory at once.
  for (const Buffer& b : planned.schedule.buffers)
    if (b.where == Where::Fresh) held_by(b.index) += static_cast<std::int64_t>(b.bytes);
  const std::int64_t stays = r.parameters + r.optimizer + r.outputs + r.constants + r.copies_kept;
  describe_arena(*e, r);
  r.fingerprint = fingerprint_of(*e);
  r.staging = static_cast<std::int64_t>(planned.plan.staging());
  for (DeviceId d = 1; d < devices; ++d)
    if (own_space(d) < planned.plan.arenas.size())
      r.devices[d - 1].arena = static_cast<std::int64_t>(planned.plan.arenas[own_space(d)].bytes);
  r.peak = stays + r.arena + r.staging;
  r.floor += stays;
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
  if (trace.devices.size() < 2) return "";
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
