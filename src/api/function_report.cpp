// What a function says of itself: memory, explain, counters.
#include <fmt/format.h>

#include "api/function_impl.h"
#include "api/memory_classes.h"
#include "api/process_memory.h"
#include "backend/onednn/routines.h"
#include "base/bytes.h"
#include "graph/words.h"
#include "kernel/task_words.h"

namespace snug {

std::vector<std::int64_t> FunctionImpl::symbols_for(const Lowered& l, const SizeSources& from,
                                                    std::string& assumed) const {
  const Graph& g = l.program.graph;
  // The symbols that the plan or a requirement depends on.
  std::vector<SizeId> asked(l.key);
  for (std::uint32_t r : l.early_requirements) {
    asked.push_back(g.requirements()[r].a);
    asked.push_back(g.requirements()[r].b);
  }
  std::vector<bool> needed(g.sizes().nodes().size(), false);
  g.sizes().walk(std::move(asked), [&](SizeId id) { return needed[id] = true; });
  std::vector<std::int64_t> symbols(g.sizes().symbols().size(), 0);
  for (SizeId id = 0; id < needed.size(); ++id) {
    const SizeNode& n = g.sizes().node(id);
    if (n.op != SizeOp::Symbol) continue;
    const Symbol& s = g.sizes().symbol_of(id);
    std::int64_t& value = symbols[static_cast<std::size_t>(n.value)];
    if (s.kind == Symbol::Kind::Dim) {
      value = from.shapes[s.input][s.index];
    } else if (s.kind == Symbol::Kind::Element && s.input >= argument_count_) {
      value = from.shared_values[s.input - argument_count_].value_or(0);
    } else if (s.kind == Symbol::Kind::Element && s.input < from.values.size() &&
               from.values[s.input]) {
      value = *from.values[s.input];
    } else if (s.kind == Symbol::Kind::Element && s.input < input_names.size() && needed[id]) {
      assumed += (assumed.empty() ? "" : ", ") + name_of_input(s.input);
    }
  }
  return symbols;
}

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
  r.arena = number(planned.plan.bytes);
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
  const std::uint32_t at = planned.plan.peak_step;
  const Step& s = planned.schedule.steps[at];
  const Task* t = s.commit_copy ? nullptr : &e.lowered->program.tasks[s.task];
  const std::string where = t ? describe(t->origin) : "";
  r.step = at + 1;
  r.steps = number(planned.schedule.steps.size());
  r.peak_step = fmt::format("step {} of {}: {}{}", r.step, r.steps,
                            t ? words_for(e.lowered->program, *t) : "copy to shared",
                            where.empty() ? "" : fmt::format(" ({})", where));
}

}  // namespace

MemoryReport FunctionImpl::memory(std::span<const Dims> shapes, const Function::Values& values,
                                  const std::vector<bool>& copied) {
  std::vector<std::string> exported;
  for (std::size_t i = 0; i < shared_.size(); ++i) {
    SharedVariable& v = *shared_[i].variable;
    const ReadLock reader(v);
    const Array* value = v.value_if_materialised();
    if (value && value->storage.use_count() > 1)
      exported.push_back(fmt::format("{} ({})",
                                     v.name.empty() ? fmt::format("number {}", i) : v.name,
                                     describe_bytes(static_cast<std::uint64_t>(value->bytes()))));
  }
  if (!copied.empty() && copied.size() != input_types.size())
    fail(Fault::Value,
         fmt::format("memory: the function has {} inputs, {} are said to be copied or not",
                     input_types.size(), copied.size()));
  SizeSources from = size_sources(shapes, values);
  std::copy(copied.begin(), copied.end(), from.copied.begin());
  std::lock_guard guard(compile_mutex_);
  try {
    // Planned apart, so that calls do not find plans for sizes that were only asked about.
    const Planner apart = planner(own_ways());
    apart->set_ways_ = set_ways_;
    MemoryReport r = apart->report(from);
    r.exported = std::move(exported);
    return r;
  } catch (const Error& e) {
    if (e.fault() != Fault::Memory || planner_) throw;
    refuse(from, e);
  }
}

namespace {

std::int64_t rounded_activations(const Lowered& lowered) {
  std::int64_t count = 0;
  for (const Node& n : lowered.program.graph.nodes()) count += n.op == &kToBfloat16Op;
  for (const auto& [node, inner] : lowered.inner) count += rounded_activations(*inner);
  return count;
}

}  // namespace

std::int64_t FunctionImpl::smallest_budget(std::span<const Dims> shapes,
                                           const Function::Values& values) {
  const SizeSources from = size_sources(shapes, values);
  std::lock_guard guard(compile_mutex_);
  Ways ways = plain_ways();
  ways.recompute = true;
  const std::int64_t plain = planner(ways)->report(from).peak;
  ways.budget = 1;
  const std::optional<MemoryReport> smallest = smallest_plan(from, ways, plain);
  return smallest ? smallest->peak : plain;
}

MemoryReport FunctionImpl::report(const SizeSources& from) {
  double least_seconds = 0;
  if (FunctionImpl* way = has_choice() ? choose(from, &least_seconds) : nullptr) {
    std::lock_guard guard(way->compile_mutex_);
    MemoryReport r = way->report(from);
    if (r.seconds > 0) r.seconds = std::max(r.seconds, least_seconds);
    return r;
  }
  std::string assumed;
  const std::shared_ptr<const Executable> e = plan_for(from, assumed);
  const Lowered* const l = e->lowered;
  const Graph& g = l->program.graph;

  MemoryReport r;
  auto bytes = [&](Value v) {
    return static_cast<std::int64_t>(bytes_of(l->program, e->bounds.high, v));
  };
  const std::vector<bool> state = optimizer_state(g);
  auto held_by = [&](std::size_t input) -> std::int64_t& {
    return input < argument_count_ ? r.inputs : state[input] ? r.optimizer : r.parameters;
  };
  for (std::size_t i = 0; i < g.inputs().size(); ++i) held_by(i) += bytes(g.inputs()[i].value);
  for (Value v : g.outputs()) r.outputs += bytes(v);
  for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
    if (g.node(id).op->name == "constant") r.constants += bytes({id, 0});
  const Planned& planned = *e->planned;
  // A variable that changes its shape has its old and its new memory at once.
  for (const Buffer& b : planned.schedule.buffers)
    if (b.where == Where::Fresh) held_by(b.index) += static_cast<std::int64_t>(b.bytes);
  const std::int64_t stays = r.parameters + r.optimizer + r.outputs + r.constants;
  describe_arena(*e, r);
  r.peak = stays + r.arena;
  r.floor += stays;
  r.not_planned = not_planned_bytes();
  r.best_order = planned.schedule.best_order;
  r.recomputed = planned.recomputed;
  for (const Transfer& t : planned.schedule.transfers)
    if (t.store) r.offloaded += static_cast<std::int64_t>(planned.schedule.buffers[t.buffer].bytes);
  r.micro_batches = compile_.micro_batches;
  r.rounded = rounded_activations(*l);
  if (compile_.device) r.seconds = planned.seconds;
  if (!assumed.empty())
    r.note = fmt::format("planned for {} = 0; give its value to plan for another", assumed);
  if (stage_)
    r.note =
        fmt::format("not known before running: sizes given by {}; planned as 0 here", stage_text_);
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
      fmt::format("\n== {}: arena {} ==\n{}", title, describe_bytes(planned.plan.bytes),
                  print(exe.lowered->program, planned.schedule));
  for (const BoundStep& step : exe.steps) {
    const Executable* const body = step.call ? loop_body(*step.call) : nullptr;
    if (!body) continue;
    const Slices slices = slices_of(*step.call);
    text += describe_plan(*body, slices.count
                                     ? fmt::format("body of the loop %{}, {} slices of {} rows",
                                                   step.task->index, slices.count, slices.rows)
                                     : fmt::format("body of the loop %{}", step.task->index));
  }
  return text;
}

std::string describe_kernels(const Lowered& lowered) {
  std::string text;
  for (const Kernel& k : lowered.program.kernels) text += print(k.spec) + "\n";
  for (const auto& [node, inner] : lowered.inner) text += describe_kernels(*inner);
  return text;
}

}  // namespace

std::string FunctionImpl::explain() {
  std::lock_guard guard(compile_mutex_);
  if (!made_.choices.empty() && made_.choices.front().way) {
    FunctionImpl& way = *made_.choices.front().way;
    std::string how = way.compile_.micro_batches > 1 ? " in slices" : "";
    if (way.compile_.round == RoundActivations::Always) how += " with rounded activations";
    return fmt::format("the last call ran{}, to keep to the budget of {}\n{}", how,
                       describe_bytes(compile_.budget), way.explain());
  }
  std::string text = fmt::format("function {}\n\n== graph as captured ==\n{}", name, print(graph_));
  text += fmt::format("\n== rewrite ({:.1f} ms) ==\n{}", 1e3 * made_.trace.rewrite_seconds,
                      made_.trace.rewrite.describe());
  if (const MicroBatchTrace& m = made_.trace.micro_batches; m.inside)
    text += fmt::format(
        "\n== micro-batches ==\nthe {} rows of the batch run in at most {} slices: {} ops inside "
        "the loop, {} values joined over the slices\n",
        m.batch, compile_.micro_batches, m.inside, m.accumulated);
  text += fmt::format("\n== placed ({:.1f} ms) ==\n{}", 1e3 * made_.trace.place_seconds,
                      print(made_.trace.placed));
  for (const std::string& reason : made_.trace.place.reasons)
    text += fmt::format("placement: {}\n", reason);
  if (const std::int64_t count = made_.lowered ? rounded_activations(*made_.lowered) : 0)
    text += fmt::format(
        "\n== activations ==\n{} kept for the backward part in bfloat16: lossy, derivatives "
        "change\n",
        count);
  text += fmt::format("\n== tasks ({:.1f} ms) ==\n{}", 1e3 * made_.trace.fuse_seconds,
                      made_.lowered ? describe_tasks(*made_.lowered) : "");
  text += fmt::format("\n== kernels (code {:.1f} ms; {} compiled, {} from the disk cache) ==\n",
                      1e3 * made_.trace.code_seconds, kernels_compiled_, kernels_from_cache_);
  if (made_.lowered) text += describe_kernels(*made_.lowered);
  if (made_.executables.empty())
    return text + "\nno plan yet: sizes become known at the first call\n";
  return text + describe_plan(*made_.executables.front(), "schedule and plan");
}

std::int64_t FunctionImpl::arena_bytes() const {
  std::int64_t others = stage_ ? stage_->arena_bytes() : 0;
  {
    std::lock_guard lock(compile_mutex_);
    for (const auto& [count, variant] : variants_)
      if (variant) others += variant->arena_bytes();
    if (rounded_) others += rounded_->arena_bytes();
  }
  std::lock_guard lock(context_mutex_);
  std::uint64_t bytes = claim_;
  if (!shares_arenas_)
    for (const auto& c : contexts_) bytes += c->arena ? c->arena->bytes() : 0;
  return static_cast<std::int64_t>(bytes) + others;
}

std::int64_t FunctionImpl::counter(std::string_view which) const {
  const std::pair<std::string_view, std::int64_t> all[] = {
      {"programs", programs_},
      {"plans", plans_made_},
      {"instances", instances_},
      {"kernels",
       made_.lowered ? static_cast<std::int64_t>(made_.lowered->program.kernels.size()) : 0},
      {"calls", calls_},
      {"frontiers", frontiers_->searches},
      {"kernels_compiled", kernels_compiled_},
      {"kernels_from_cache", kernels_from_cache_},
      {"arena_bytes", arena_bytes()},
      {"primitives", static_cast<std::int64_t>(onednn::primitives_made())}};  // by all functions
  std::vector<std::string> names;
  for (auto [n, value] : all) {
    if (n == which) return value;
    names.emplace_back(n);
  }
  fail(Fault::Value, fmt::format("no counter '{}'", which),
       fmt::format("did you mean '{}'?", nearest(which, names)));
}

}  // namespace snug
