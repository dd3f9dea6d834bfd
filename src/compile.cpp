#include "compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "backend/cpu/jit.h"
#include "backend/devices.h"
#include "backend/host_library.h"
#include "backend/native/blas_buffers.h"
#include "backend/native/copy.h"
#include "backend/native/parallel.h"
#include "backend/onednn/routines.h"
#include "backend/opencl/opencl_device.h"
#include "base/bytes.h"
#include "base/interrupt.h"
#include "base/spelling.h"
#include "exec/fit_loops.h"
#include "expr/loop_shape.h"
#include "place/pins.h"
#include "plan/queues.h"
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

struct ChosenDevices {
  std::mutex mutex;
  std::shared_ptr<const DeviceList> devices;
  decltype(CompileOptions::pin) pin;
  std::vector<std::uint64_t> budgets;
};
ChosenDevices& chosen_devices() {
  static ChosenDevices chosen;
  return chosen;
}

Graph place_all(const Graph& graph, const CompileOptions& options, PlaceTrace& trace) {
  PlaceHints hints;
  hints.runs = [&](DeviceId d, const Graph& g, const Node& node) {
    return (*options.devices)[d].runs(g, node, options.strict_math);
  };
  hints.pin = options.pin;
  hints.home = options.home;
  return place(graph, options.devices->infos(), trace, hints);
}

/// The stages after placement; loops bring their bodies along.
std::unique_ptr<Lowered> lower_placed(const Graph& placed, const CompileOptions& options,
                                      PassTrace& trace) {
  auto out = std::make_unique<Lowered>();
  out->threads = options.threads;
  out->devices = options.devices;
  const Libraries libraries = options.devices->libraries();
  const Graph laid = run_passes(PassStage::Layout, placed, {options, libraries}, trace);
  check_interrupt();
  out->program = fuse(laid, libraries, {.strict_math = options.strict_math});
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
  const Program& p = lowered.program;
  std::vector<const KernelSpec*> specs;
  std::vector<std::uint32_t> kernels;
  for (const Task& t : p.tasks)
    if (t.kind == Task::Kind::Kernel && t.device == 0) {
      kernels.push_back(t.index);
      specs.push_back(&p.kernels[t.index].spec);
    }
  lowered.code.assign(p.kernels.size(), nullptr);
  const std::vector<KernelFn> made = CpuJit::instance().compile(specs);
  for (std::size_t k = 0; k < made.size(); ++k) lowered.code[kernels[k]] = made[k];
  for (std::uint32_t id = 0; id < p.graph.nodes().size(); ++id) {
    const Node& n = p.graph.node(id);
    if (n.device == 0 || n.op->name != "constant") continue;
    const Array& value = *n.attrs.array("value");
    const auto bytes = static_cast<std::uint64_t>(value.bytes());
    auto& there = lowered.constants[id];
    there = lowered.devices->accelerator(n.device).allocate(bytes, "a constant");
    there->write(there->data(), value.data, bytes);
  }
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

void set_devices(std::shared_ptr<const DeviceList> devices, decltype(CompileOptions::pin) pin) {
  ChosenDevices& chosen = chosen_devices();
  const std::lock_guard lock(chosen.mutex);
  chosen.devices = std::move(devices);
  chosen.pin = std::move(pin);
}

void set_device_budgets(std::vector<std::uint64_t> budgets) {
  ChosenDevices& chosen = chosen_devices();
  const std::lock_guard lock(chosen.mutex);
  chosen.budgets = std::move(budgets);
}

void choose_devices(CompileOptions& options, const Graph& graph) {
  if (options.devices) return;
  ChosenDevices& chosen = chosen_devices();
  const std::lock_guard lock(chosen.mutex);
  options.devices = chosen.devices;
  options.device_budgets = chosen.budgets;
  options.pin = chosen.pin;
  if (options.pin) return;
  std::vector<std::string> names = named_devices(graph);
  const bool puts = !names.empty();
  if (!options.place_on.empty()) names.insert(names.begin(), options.place_on);
  if (!options.devices)
    options.devices = names.empty() ? devices_of_process() : host_and_named(names);
  const std::vector<DeviceInfo>& infos = options.devices->infos();
  if (const std::size_t count = infos.size(); count > 1 && names.empty() && !chosen.devices) {
    options.pin = [count](std::uint32_t number, const Node&) {  // scattered
      return static_cast<std::uint8_t>((number * 0x9e3779b97f4a7c15U >> 40) % count);
    };
    return;
  }
  if (puts) options.pin = pin_by_name(infos);
  if (options.place_on.empty() && !puts) return;
  const auto home = std::find_if(infos.begin(), infos.end(),
                                 [&](const DeviceInfo& d) { return d.name == options.place_on; });
  options.home = home == infos.end() ? DeviceId{0} : static_cast<DeviceId>(home - infos.begin());
}

std::unique_ptr<Lowered> lower(const Graph& captured, const CompileOptions& given,
                               CompileTrace& trace) {
  Stopwatch watch;
  CompileOptions options = given;
  choose_devices(options, captured);
  const Libraries libraries = options.devices->libraries();
  trace.passes = begin_passes(options);
  const Graph rewritten =
      run_passes(PassStage::Rewrite, captured, {options, libraries}, trace.passes);
  trace.rewrite_seconds = watch.lap();
  check_interrupt();
  trace.placed = place_all(rewritten, options, trace.place);
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

namespace {

/// What budgets leave to arenas.
ArenaLimits limits_of(const CompileOptions& options, std::span<const std::uint64_t> fixed) {
  const auto rest = [](std::uint64_t budget, std::uint64_t taken) {
    return budget > taken ? budget - taken : 0;
  };
  ArenaLimits limits(rest(options.budget, fixed[0]));
  limits.others.assign(options.device_budgets.size(), 0);
  for (std::size_t d = 1; d < options.device_budgets.size(); ++d)
    if (const std::uint64_t budget = options.device_budgets[d])  // no bytes are a limit, too
      limits.others[d] = std::max<std::uint64_t>(rest(budget, d < fixed.size() ? fixed[d] : 0), 1);
  return limits;
}

/// Of the first device but the host whose limit the plan exceeds; does nothing if there is none.
void refuse_device(const Lowered& l, const CompileOptions& options, const ArenaLimits& limits,
                   std::span<const std::uint64_t> fixed, const Planned& plain) {
  for (DeviceId d = 1; d < limits.others.size(); ++d) {
    const Space space = own_space(d);
    if (limits.of(d) == 0 || space >= plain.plan.arenas.size()) continue;
    const std::uint64_t arena = plain.plan.arenas[space].bytes;
    const std::uint64_t stays = d < fixed.size() ? fixed[d] : 0;
    const std::uint64_t budget = options.device_budgets[d];
    if (arena + stays <= budget) continue;
    throw OverBudget(
        arena + stays, budget, plain.plain_seconds,
        fmt::format("{}: needs {} with every task once, the budget is {}, and no plan was found "
                    "(variables and constants take {})",
                    (*l.devices)[d].info().name, describe_bytes(arena + stays),
                    describe_bytes(budget), describe_bytes(stays)),
        fmt::format("let the batch run in slices ({}), use a smaller one, or give a larger {}",
                    option("micro_batches"), option("memory")));
  }
}

}  // namespace

std::unique_ptr<Executable> instantiate(const Lowered& l, SizeBounds bounds, CallKind kind,
                                        std::vector<std::uint64_t> fixed,
                                        const CompileOptions& options,
                                        std::span<const std::shared_ptr<const Planned>> earlier,
                                        const std::shared_ptr<FrontierUser>& user) {
  PreparedTasks tasks = prepare_tasks(l, bounds, kind, options.device);
  tasks.sizes.sizes = bounds.high;
  if (options.disk) tasks.sizes.disk = &*options.disk;
  for (const std::uint64_t budget : options.device_budgets)
    tasks.sizes.limited.push_back(budget > 0);
  for (const auto& planned : earlier) {
    if (planned->kind != kind) continue;
    if (serves(*planned, l, tasks.sizes))
      return link(l, planned, std::move(tasks), std::move(bounds));
  }
  const ArenaLimits limits = limits_of(options, fixed);
  const std::uint64_t fixed_bytes = fixed[0];
  const std::uint64_t room = options.budget > fixed_bytes ? options.budget - fixed_bytes : 0;
  // Whatever the arena needs.
  const bool too_much_stays = options.budget && fixed_bytes > options.budget;
  Floor floor;
  std::optional<Planned> fitted;
  const bool techniques = options.recompute || options.disk;
  std::optional<Planned> plain;
  with_frontiers(l.program, tasks, options.recompute || !options.disk, options, user,
                 [&](ProgramFrontiers& frontiers) {
                   const auto fit = [&](const ArenaLimits& within) {
                     return fit_with_loops(l.program, tasks, within, floor,
                                           {options.recompute, options.find_smallest}, frontiers);
                   };
                   fitted = fit(techniques ? limits : ArenaLimits());
                   if (!limits.others.empty()) plain = fit({});
                 });
  bool found = floor.smallest > floor.bound;  // else the bound stands for it
  const auto keeps_to_budgets = [&](const MemoryPlan& plan) {
    for (DeviceId d = 1; d < limits.others.size() && d < fixed.size(); ++d)
      if (limits.of(d) > 0 && fixed[d] > options.device_budgets[d]) return false;
    const bool on_host = !options.budget || plan.host().bytes + plan.staging() <= room;
    return on_host && !too_much_stays && limits.hold(plan);
  };
  if (fitted && !keeps_to_budgets(fitted->plan)) {
    found = !techniques || fitted->plan.host().bytes == floor.bound;
    if (found) floor.smallest = fitted->plan.host().bytes;
    fitted.reset();
  }
  if (!fitted && plain) refuse_device(l, options, limits, fixed, *plain);
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
  add_waits(planned->schedule, planned->plan);
  verify_queues(planned->schedule, planned->plan);
  planned->bound = floor.bound;
  planned->kind = std::move(kind);
  return link(l, planned, std::move(tasks), std::move(bounds));
}

FoundDevices devices_of_machine() { return find_devices(); }

void require_device(const std::string& name) {
  {
    ChosenDevices& chosen = chosen_devices();
    const std::lock_guard lock(chosen.mutex);
    if (chosen.devices)
      for (const DeviceInfo& d : chosen.devices->infos())
        if (d.name == name) return;
  }
  require_device_named(name);
}

MadeCode made_code() {
  const CpuJit::Counters kernels = CpuJit::instance().counters();
  return {kernels.compiled, kernels.from_disk,
          static_cast<std::uint64_t>(onednn::primitives_made())};
}

void load_libraries_under_limits() { native::load_blas_under_limits(); }

std::uint64_t library_bytes(const Executable& exe) {
  return exe.blas_buffers ? native::BlasBuffers::bytes_needed() : 0;
}

void with_libraries(const Executable& exe, void* object, void (*run)(void*)) {
  const native::OmpThreads alone(1);
  const native::BlasBuffers buffers(exe.blas_buffers);
  run(object);
}

void copy_elements(const ArgDesc& to_desc, std::byte* to, const ArgDesc& from_desc,
                   const std::byte* from, int threads) {
  native::copy(to_desc, to, from_desc, from, threads);
}

bool has_device_form(const OpDef& op) { return opencl_has_op(op); }

std::vector<std::string_view> libraries_of(const OpDef& op) {
  std::vector<std::string_view> found;
  for (const LibraryEntry& entry : host_library())
    if (entry.op == op.name) found.push_back(entry.library);
  return found;
}

}  // namespace snug
