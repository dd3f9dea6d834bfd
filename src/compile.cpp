#include "compile.h"

#include <fmt/format.h>

#include <chrono>

#include "backend/cpu/jit.h"
#include "backend/host_library.h"
#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/spelling.h"
#include "exec/fit_loops.h"
#include "expr/loop_shape.h"
#include "target/device_info.h"

namespace snug {
namespace {

class Stopwatch {
 public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    double s = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return s;
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// The stages after placement; loops bring their bodies along.
std::unique_ptr<Lowered> lower_placed(const Graph& placed, const CompileOptions& options,
                                      PassTrace& trace) {
  auto out = std::make_unique<Lowered>();
  out->threads = options.threads;
  const Graph laid = run_passes(PassStage::Layout, placed, {options, host_library()}, trace);
  check_interrupt();
  out->program = fuse(laid, host_library(), {.strict_math = options.strict_math});
  verify(out->program);
  for (Task& t : out->program.tasks) {
    if (t.kind != Task::Kind::Loop) continue;
    const Node& loop = out->program.graph.node(t.index);
    CompileOptions of_body = options;
    // Of the loops only those over slices have a forward and a backward part.
    if (!LoopShape::of(loop.attrs).blocks) of_body.round = RoundActivations::Never;
    auto inner = lower_placed(states_as_updates(loop), of_body, trace);
    for (const Task& x : inner->program.tasks) t.may_fail |= x.may_fail;
    t.may_fail |= requirements_vary(*inner);
    out->inner[t.index] = std::move(inner);
  }
  finish_lowered(*out);
  return out;
}

void generate(Lowered& lowered) {
  std::vector<const KernelSpec*> specs;
  for (const Kernel& k : lowered.program.kernels) specs.push_back(&k.spec);
  lowered.code = CpuJit::instance().compile(specs);
  for (auto& [node, inner] : lowered.inner) generate(*inner);
}

/// Calls `use` with the frontiers that are kept, or with new ones. Without rates no times are
/// compared, so nothing is worth keeping.
template <class F>
void with_frontiers(const Program& program, const PreparedTasks& tasks, bool recompute,
                    const CompileOptions& options, const std::shared_ptr<FrontierUser>& user,
                    F&& use) {
  if (user && options.device) {
    FrontierCache::of_process().with(frontier_key(program, tasks, recompute), user, use);
  } else {
    ProgramFrontiers new_ones;
    use(new_ones);
  }
}

/// `found`: there is a plan that needs that much; else none needs less.
std::string memory_error_text(std::uint64_t needed, bool found, std::uint64_t budget) {
  return fmt::format("needs {}{} ({} bytes), the budget is {} ({} bytes)", found ? "" : "at least ",
                     describe_bytes(needed), needed, describe_bytes(budget), budget);
}

}  // namespace

std::unique_ptr<Lowered> lower(const Graph& captured, const CompileOptions& options,
                               CompileTrace& trace) {
  Stopwatch watch;
  trace.passes = begin_passes(options);
  const Graph rewritten =
      run_passes(PassStage::Rewrite, captured, {options, host_library()}, trace.passes);
  trace.rewrite_seconds = watch.lap();
  check_interrupt();
  trace.placed = place(rewritten, {host_device()}, trace.place);
  trace.place_seconds = watch.lap();
  std::unique_ptr<Lowered> out = lower_placed(trace.placed, options, trace.passes);
  trace.fuse_seconds = watch.lap();
  return out;
}

void generate_code(Lowered& lowered, CompileTrace& trace) {
  Stopwatch watch;
  generate(lowered);
  trace.code_seconds = watch.lap();
}

std::unique_ptr<Executable> instantiate(const Lowered& l, SizeBounds bounds, CallKind kind,
                                        std::uint64_t fixed_bytes, const CompileOptions& options,
                                        std::span<const std::shared_ptr<const Planned>> earlier,
                                        const std::shared_ptr<FrontierUser>& user) {
  PreparedTasks tasks = prepare_tasks(l, bounds, kind, options.device);
  tasks.sizes.sizes = bounds.high;
  if (options.disk) tasks.sizes.disk = &*options.disk;
  for (const auto& planned : earlier) {
    if (planned->kind != kind) continue;
    if (serves(*planned, l, tasks.sizes))
      return link(l, planned, std::move(tasks), std::move(bounds));
  }
  std::uint64_t room = 0;
  if (options.budget > fixed_bytes) room = options.budget - fixed_bytes;
  const bool too_much_stays = fixed_bytes > options.budget;  // whatever the arena needs
  Floor floor;
  std::optional<Planned> fitted;
  const bool techniques = options.recompute || options.disk;
  with_frontiers(l.program, tasks, options.recompute || !options.disk, options, user,
                 [&](ProgramFrontiers& frontiers) {
                   fitted = fit_with_loops(l.program, tasks, techniques ? room : 0, floor,
                                           {options.recompute, options.find_smallest}, frontiers);
                 });
  bool found = floor.smallest > floor.bound;  // else the bound stands for it
  if (fitted && options.budget && (too_much_stays || fitted->plan.bytes > room)) {
    found = !techniques || fitted->plan.bytes == floor.bound;
    if (found) floor.smallest = fitted->plan.bytes;
    fitted.reset();
  }
  if (!fitted) {
    std::string why = room < floor.bound || too_much_stays ? "impossible" : "no plan was found";
    if (too_much_stays)
      why += fmt::format(", since shared variables, outputs and constants take {}",
                         describe_bytes(fixed_bytes));
    if (found && !floor.proved())
      why += fmt::format(", and none is below {}", describe_bytes(fixed_bytes + floor.bound));
    throw OverBudget(
        fixed_bytes + floor.smallest, options.budget, floor.plain_seconds,
        fmt::format("{}: {}",
                    memory_error_text(fixed_bytes + floor.smallest, found, options.budget), why),
        fmt::format("let the batch run in slices ({}), use a smaller one, or give a larger {}",
                    option("micro_batches"), option("memory")));
  }
  auto planned = std::make_shared<Planned>(*std::move(fitted));
  planned->bound = floor.bound;
  planned->kind = std::move(kind);
  return link(l, planned, std::move(tasks), std::move(bounds));
}

std::vector<std::string_view> libraries_of(const OpDef& op) {
  std::vector<std::string_view> found;
  for (const LibraryEntry& entry : host_library())
    if (entry.op == op.name) found.push_back(entry.library);
  return found;
}

}  // namespace snug
