#include "compile.h"

#include <fmt/format.h>

#include <chrono>

#include "backend/cpu/jit.h"
#include "backend/onednn/cpu_library.h"
#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/spelling.h"
#include "exec/fit_loops.h"
#include "rewrite/bfloat16.h"
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

/// The stages after rewriting; loops bring their bodies along. `round`: activations.
std::unique_ptr<Lowered> lower_placed(const Graph& placed, const CompileOptions& options,
                                      bool round) {
  auto out = std::make_unique<Lowered>();
  out->threads = options.threads;
  check_interrupt();
  Graph turned = prefer_channels_last(placed, cpu_library());
  verify(turned, "prefer_channels_last");
  // Before the copies: it changes what library calls read.
  Graph absorbed = absorb_bias(turned, cpu_library());
  verify(absorbed, "absorb_bias");
  check_interrupt();
  Graph copied = insert_copies(absorbed, cpu_library());
  verify(copied, "insert_copies");
  const FuseOptions fusing{.strict_math = options.strict_math};
  check_interrupt();
  out->program = fuse(copied, cpu_library(), fusing);
  check_interrupt();
  if (round) {
    // After fusion, which decides what is kept; the graph is then fused anew.
    const Graph rounded = round_activations(out->program);
    verify(rounded, "round_activations");
    out->program = fuse(rounded, cpu_library(), fusing);
  }
  verify(out->program);
  for (Task& t : out->program.tasks) {
    if (t.kind != Task::Kind::Loop) continue;
    const Node& loop = out->program.graph.node(t.index);
    auto inner = lower_placed(
        states_as_updates(*loop.inner, static_cast<std::uint32_t>(1 + loop.attrs.integer("n_seq")),
                          static_cast<std::uint32_t>(loop.attrs.integer("n_state"))),
        options, round && loop.attrs.flag("blocks"));
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
  Graph rewritten = rewrite(captured, {.disabled_passes = options.disabled_passes}, trace.rewrite);
  if (options.bfloat16_products) rewritten = multiply_in_bfloat16(rewritten);
  // After rewriting: sizes are lifted, and composite ops have become those with a rule for slices.
  if (options.micro_batches > 1)
    rewritten = split_batch(rewritten, options.micro_batches, trace.micro_batches);
  trace.rewrite_seconds = watch.lap();
  check_interrupt();
  trace.placed = place(rewritten, {host_device()}, trace.place);
  trace.place_seconds = watch.lap();
  std::unique_ptr<Lowered> out =
      lower_placed(trace.placed, options, options.round == RoundActivations::Always);
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
  std::optional<Fitted> fitted;
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
  auto planned = std::make_shared<Planned>();
  planned->schedule = std::move(fitted->schedule);
  planned->plan = std::move(fitted->plan);
  planned->recomputed = std::move(fitted->recomputed);
  planned->seconds = fitted->seconds;
  planned->plain_seconds = fitted->plain_seconds;
  planned->bound = floor.bound;
  planned->kind = std::move(kind);
  return link(l, planned, std::move(tasks), std::move(bounds));
}

std::vector<std::string_view> libraries_of(const OpDef& op) {
  std::vector<std::string_view> found;
  for (const LibraryEntry& entry : cpu_library())
    if (entry.op == op.name) found.push_back(entry.library);
  return found;
}

}  // namespace snug
