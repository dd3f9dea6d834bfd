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
#include "base/fork.h"
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
  BriefMutex mutex;  // not while devices are looked for: that takes long, and forks
  std::shared_ptr<const DeviceList> devices;
  decltype(CompileOptions::pin) pin;
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
    there = lowered.devices->accelerator(n.device).allocate_value(bytes, "a constant");
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

}  // namespace

void set_devices(std::shared_ptr<const DeviceList> devices, decltype(CompileOptions::pin) pin) {
  ChosenDevices& chosen = chosen_devices();
  const std::lock_guard lock(chosen.mutex);
  chosen.devices.swap(devices);  // those before end without the lock
  chosen.pin.swap(pin);
}

void choose_devices(CompileOptions& options, const Graph& graph) {
  if (options.devices) return;
  std::vector<std::string> names = named_devices(graph);
  if (options.place_on == "cpu" && names.empty()) {
    options.devices = host_only();
    return;
  }
  {
    ChosenDevices& chosen = chosen_devices();
    const std::lock_guard lock(chosen.mutex);
    options.devices = chosen.devices;
    options.pin = chosen.pin;
  }
  if (options.pin) return;
  const bool chosen = options.devices != nullptr;
  const bool puts = !names.empty();
  if (!options.place_on.empty()) names.insert(names.begin(), options.place_on);
  if (!options.devices)
    options.devices = names.empty() ? devices_of_process() : host_and_named(names);
  const std::vector<DeviceInfo>& infos = options.devices->infos();
  if (const std::size_t count = infos.size(); count > 1 && names.empty() && !chosen) {
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

void add_body_constants(const Lowered& lowered, std::vector<std::uint64_t>& bytes) {
  for (const auto& [node, inner] : lowered.inner) {
    for (const Node& n : inner->program.graph.nodes())
      if (n.device != 0 && n.op->name == "constant")
        bytes[n.device] += static_cast<std::uint64_t>(n.attrs.array("value")->bytes());
    add_body_constants(*inner, bytes);
  }
}

Budgets effective_budgets(const CompileOptions& options) {
  Budgets budgets = options.budgets;
  if (options.unbounded || !options.devices) return budgets;
  for (std::size_t d = 1; d < options.devices->size(); ++d)
    if (const std::int64_t has = options.devices->infos()[d].memory_bytes;
        budgets.of(d) == 0 && has)
      budgets.set(d, static_cast<std::uint64_t>(has));
  return budgets;
}

namespace {

/// What budgets leave to arenas.
ArenaLimits limits_of(const Budgets& budgets, std::span<const std::uint64_t> fixed) {
  ArenaLimits limits;
  for (std::size_t d = 0; d < budgets.size(); ++d) {
    const std::uint64_t stays = d < fixed.size() ? fixed[d] : 0;
    if (const std::uint64_t budget = budgets.of(d))  // no bytes are a limit, too
      limits.set(static_cast<DeviceId>(d), budget > stays ? budget - stays : 1);
  }
  return limits;
}

/// A program for whose sizes no plan keeps to the budgets.
class Refusal {
 public:
  Refusal(const Lowered& lowered, const CompileOptions& options, const Budgets& budgets,
          std::span<const std::uint64_t> fixed, const Floor& floor)
      : l_(lowered),
        options_(options),
        budgets_(budgets),
        fixed_(fixed),
        floor_(floor),
        techniques_(options.budgets.any() && (options.recompute || options.disk)) {}

  /// Whether plans that do more than to order the steps may be looked for.
  bool techniques() const { return techniques_ && !too_much_stays(); }

  bool too_much_stays() const {
    for (DeviceId d = 0; d < fixed_.size(); ++d)
      if (!budgets_.allow(d, fixed_[d])) return true;
    return false;
  }

  /// Of the device of which most is asked. `plain`: the plan without techniques, if it is known.
  [[noreturn]] void raise(const MemoryPlan* plain) const {
    DeviceId worst = 0;
    double most = 0;
    for (DeviceId d = 0; d < std::max(floor_.in.size(), fixed_.size()); ++d) {
      if (budgets_.of(d) == 0) continue;
      const double asked =
          static_cast<double>(needed(d, plain)) / static_cast<double>(budgets_.of(d));
      if (asked > most) most = asked, worst = d;
    }
    raise_for(worst, plain);
  }

 private:
  std::uint64_t stays(DeviceId d) const { return d < fixed_.size() ? fixed_[d] : 0; }
  std::uint64_t bound(DeviceId d) const {
    return stays(d) + (d < floor_.in.size() ? floor_.in[d].bound : 0);
  }
  /// Of a plan that was found, or else what none is below.
  bool found(DeviceId d, const MemoryPlan* plain) const {
    if (plain && plain->bytes_in(d) + stays(d) == bound(d)) return true;
    return needed(d, plain) > bound(d);
  }
  std::uint64_t needed(DeviceId d, const MemoryPlan* plain) const {
    if (plain && !(techniques_ && too_much_stays())) return stays(d) + plain->bytes_in(d);
    const std::uint64_t each = d < floor_.in.size() ? stays(d) + floor_.in[d].smallest : stays(d);
    const bool alone_fits = budgets_.allow(d, each) && d < floor_.nearest.size();
    return alone_fits ? stays(d) + floor_.nearest[d] : each;
  }

  [[noreturn]] void raise_for(DeviceId d, const MemoryPlan* plain) const {
    const std::uint64_t budget = budgets_.of(d), needs = needed(d, plain);
    const bool is_found = found(d, plain), is_impossible = bound(d) > budget;
    const std::string whose = d == 0 ? "" : fmt::format("{}: ", (*l_.devices)[d].info().name);
    const std::string limit = options_.budgets.of(d) > 0 || d == 0
                                  ? fmt::format("the budget is {}", describe_bytes(budget))
                                  : fmt::format("it has {}", describe_bytes(budget));
    std::string why = is_impossible ? "impossible" : "no plan was found";
    if (stays(d) > budget)
      why += fmt::format(", since shared variables{} constants take {}",
                         d == 0 ? ", outputs and" : " and", describe_bytes(stays(d)));
    if (is_found && needs > bound(d))
      why += fmt::format(", and none is below {}", describe_bytes(bound(d)));
    throw OverBudget(
        d, needs, budget, floor_.plain_seconds,
        fmt::format("{}needs {}{} ({} bytes), {} ({} bytes): {}", whose,
                    is_found ? "" : "at least ", describe_bytes(needs), needs, limit, budget, why),
        fmt::format("let the batch run in slices ({}), use a smaller one, or give a "
                    "larger {}",
                    option("micro_batches"), option("memory")));
  }

  const Lowered& l_;
  const CompileOptions& options_;
  const Budgets& budgets_;
  std::span<const std::uint64_t> fixed_;
  const Floor& floor_;
  bool techniques_;
};

}  // namespace

std::unique_ptr<Executable> instantiate(const Lowered& l, SizeBounds bounds, CallKind kind,
                                        std::vector<std::uint64_t> fixed,
                                        const CompileOptions& options,
                                        std::span<const std::shared_ptr<const Planned>> earlier,
                                        const std::shared_ptr<FrontierUser>& user) {
  PreparedTasks tasks = prepare_tasks(l, bounds, kind, options.device, options.unbounded);
  tasks.sizes.sizes = bounds.high;
  if (options.disk) tasks.sizes.disk = &*options.disk;
  for (const auto& planned : earlier) {
    if (planned->kind != kind) continue;
    if (serves(*planned, l, tasks.sizes))
      return link(l, planned, std::move(tasks), std::move(bounds));
  }
  const Budgets budgets = effective_budgets(options);
  const ArenaLimits limits = limits_of(budgets, fixed);
  Floor floor;
  const Refusal refusal(l, options, budgets, fixed, floor);
  std::optional<Planned> fitted;
  with_frontiers(l.program, tasks, options.recompute || !options.disk, options, user,
                 [&](ProgramFrontiers& frontiers) {
                   fitted = fit_with_loops(l.program, tasks,
                                           refusal.techniques() ? limits : ArenaLimits(), floor,
                                           {options.recompute, options.find_smallest}, frontiers);
                 });
  if (!fitted || refusal.too_much_stays() || !limits.hold(fitted->plan))
    refusal.raise(fitted ? &fitted->plan : nullptr);
  auto planned = std::make_shared<Planned>(*std::move(fitted));
  add_waits(planned->schedule, planned->plan);
  verify_queues(planned->schedule, planned->plan);
  for (const Floor::InMemory& in : floor.in) planned->bounds.push_back(in.bound);
  planned->kind = std::move(kind);
  return link(l, planned, std::move(tasks), std::move(bounds));
}

FoundDevices devices_of_machine() { return find_devices(); }

void require_device(const std::string& name) {
  std::shared_ptr<const DeviceList> devices;
  {
    const std::lock_guard lock(chosen_devices().mutex);
    devices = chosen_devices().devices;
  }
  if (devices)
    for (const DeviceInfo& d : devices->infos())
      if (d.name == name) return;
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
