// What functions and the process say of their memory.
#include "api/memory_report.h"
#include "api/process_memory.h"
#include "bindings.h"

namespace snug::python {
namespace {

nb::dict as_dict(const MemoryReport::Alive& a) {
  nb::dict d;
  d["bytes"] = a.bytes;
  d["class"] = nb::str(name_of(a.what).data());
  d["op"] = a.op;
  d["shape"] = a.shape;
  d["where"] = a.where;
  return d;
}

nb::list devices_of(const ProcessMemory& m) {
  nb::list devices;
  for (const DeviceMemoryUse& use : m.devices) {
    nb::dict device, owners;
    for (const auto& [name, bytes] : use.owners) owners[name.c_str()] = bytes;
    device["name"] = use.device;
    device["bytes"] = use.claimed;
    device["limit"] = use.limit;
    device["budget"] = use.budget;
    device["owners"] = owners;
    devices.append(device);
  }
  return devices;
}

nb::list devices_of(const MemoryReport& r) {
  nb::list devices;
  for (const MemoryReport::OnDevice& on : r.devices) {
    nb::dict device, most;
    device["name"] = on.name;
    for (const auto& [name, bytes] : bytes_of(on)) device[name.data()] = bytes;
    for (std::size_t c = 0; c < kArenaClasses; ++c)
      most[name_of(static_cast<ArenaClass>(c)).data()] = on.most[c];
    device["most"] = most;
    nb::list alive;
    for (const MemoryReport::Alive& a : on.alive) alive.append(as_dict(a));
    device["alive"] = alive;
    device["peak_step"] = on.peak_step;
    devices.append(device);
  }
  return devices;
}

nb::dict as_dict(const MemoryReport& r) {
  nb::dict bytes, most, d;
  for (auto [name, n] : r.bytes()) bytes[name.data()] = n;
  for (std::size_t c = 0; c < kArenaClasses; ++c)
    most[name_of(static_cast<ArenaClass>(c)).data()] = r.most[c];
  nb::list alive;
  for (const MemoryReport::Alive& a : r.alive) alive.append(as_dict(a));
  d["bytes"] = bytes;
  d["most"] = most;
  d["all_gradients"] = r.all_gradients;
  d["gradients_wait"] = r.gradients_wait;
  d["step"] = r.step;
  d["steps"] = r.steps;
  d["peak_step"] = r.peak_step;
  d["best_order"] = r.best_order;
  d["alive"] = alive;
  d["recomputed"] = nb::cast(r.recomputed);
  d["offloaded"] = r.offloaded;
  d["micro_batches"] = r.micro_batches;
  d["rounded"] = r.rounded;
  d["slices"] = r.slices;
  d["slice_rows"] = r.slice_rows;
  d["accumulators"] = r.accumulators;
  d["seconds"] = r.seconds;
  d["exported"] = nb::cast(r.exported);
  d["note"] = r.note;
  d["devices"] = devices_of(r);
  return d;
}

}  // namespace

void bind_memory_reports(nb::module_& m) {
  using Alive = MemoryReport::Alive;
  nb::class_<Alive>(m, "AliveBuffer", "A buffer of the arena at the step of the peak.")
      .def_ro("bytes", &Alive::bytes)
      .def_prop_ro("what", [](const Alive& a) { return name_of(a.what); })
      .def_ro("op", &Alive::op)
      .def_ro("shape", &Alive::shape)
      .def_ro("where", &Alive::where)
      .def("__repr__", [](const Alive& a) {
        return fmt::format("<{} bytes, {}: {} {} {}>", a.bytes, name_of(a.what), a.op, a.shape,
                           a.where);
      });
  nb::class_<MemoryReport>(m, "MemoryReport", "What a function needs for given sizes, in bytes.")
      .def_prop_ro("devices", nb::overload_cast<const MemoryReport&>(&devices_of))
      .def_ro("inputs", &MemoryReport::inputs)
      .def_ro("outputs", &MemoryReport::outputs)
      .def_ro("parameters", &MemoryReport::parameters)
      .def_ro("optimizer", &MemoryReport::optimizer)
      .def_ro("constants", &MemoryReport::constants)
      .def_ro("micro_batches", &MemoryReport::micro_batches)
      .def_ro("rounded", &MemoryReport::rounded)
      .def_ro("slices", &MemoryReport::slices)
      .def_ro("slice_rows", &MemoryReport::slice_rows)
      .def_ro("accumulators", &MemoryReport::accumulators)
      .def_ro("seconds", &MemoryReport::seconds)
      .def_ro("gradients", &MemoryReport::gradients)
      .def_ro("activations", &MemoryReport::activations)
      .def_ro("temporaries", &MemoryReport::temporaries)
      .def_ro("workspace", &MemoryReport::workspace)
      .def_ro("copies", &MemoryReport::copies)
      .def_ro("gap", &MemoryReport::gap)
      .def_ro("arena", &MemoryReport::arena)
      .def_ro("staging", &MemoryReport::staging)
      .def_ro("peak", &MemoryReport::peak)
      .def_ro("floor", &MemoryReport::floor)
      .def_ro("smallest", &MemoryReport::smallest)
      .def_ro("not_planned", &MemoryReport::not_planned)
      .def_ro("all_gradients", &MemoryReport::all_gradients)
      .def_ro("gradients_wait", &MemoryReport::gradients_wait)
      .def_ro("alive", &MemoryReport::alive)
      .def_ro("step", &MemoryReport::step)
      .def_ro("steps", &MemoryReport::steps)
      .def_ro("peak_step", &MemoryReport::peak_step)
      .def_ro("best_order", &MemoryReport::best_order)
      .def_ro("recomputed", &MemoryReport::recomputed)
      .def_ro("offloaded", &MemoryReport::offloaded)
      .def_ro("exported", &MemoryReport::exported)
      .def_ro("note", &MemoryReport::note)
      .def_ro("fingerprint", &MemoryReport::fingerprint)
      .def("as_dict", nb::overload_cast<const MemoryReport&>(&as_dict),
           "The same as dicts, lists, numbers and texts, for json.dumps.")
      .def("__str__", [](const MemoryReport& r) { return r.describe(); })
      .def("__repr__", [](const MemoryReport& r) { return r.describe(); });

  nb::class_<Export>(m, "Export", "Memory of a shared variable that others hold.")
      .def_ro("name", &Export::name)
      .def_ro("bytes", &Export::bytes)
      .def_ro("current", &Export::current)
      .def("__repr__", [](const Export& e) {
        return fmt::format("<{} bytes of {}>", e.bytes, e.name.empty() ? "a variable" : e.name);
      });
  nb::class_<ProcessMemory>(m, "ProcessMemory", "What this process has now, in bytes.")
      .def_ro("resident", &ProcessMemory::resident)
      .def_ro("high_water", &ProcessMemory::high_water)
      .def_ro("arrays", &ProcessMemory::arrays)
      .def_ro("arenas", &ProcessMemory::arenas)
      .def_ro("kept", &ProcessMemory::kept, "Freed arrays, until somebody needs their memory.")
      .def_ro("caches", &ProcessMemory::caches, "Plans that are kept; part of not_planned.")
      .def_ro("not_planned", &ProcessMemory::not_planned)
      .def_ro("free", &ProcessMemory::free)
      .def_ro("limit", &ProcessMemory::limit)
      .def_ro("exports", &ProcessMemory::exports)
      .def_ro("budget", &ProcessMemory::budget)
      .def_ro("shared", &ProcessMemory::shared)
      .def_ro("loaders", &ProcessMemory::loaders)
      .def_ro("counted", &ProcessMemory::counted)
      .def_prop_ro("devices", nb::overload_cast<const ProcessMemory&>(&devices_of),
                   "Of each device that is open: name, bytes that are taken, limit, budget, and "
                   "owners with their bytes.")
      .def("__str__", &ProcessMemory::describe)
      .def("__repr__", &ProcessMemory::describe);
  m.def("process_memory", &process_memory,
        "What this process has now: arrays, arenas, the rest that is resident, how much more it "
        "may take and what limits that, memory of shared variables that others hold, and what "
        "counts against config.memory.");
}

}  // namespace snug::python
