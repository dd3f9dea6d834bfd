#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exec/executable.h"
#include "exec/frontier_cache.h"
#include "passes.h"
#include "place/place.h"
#include "plan/fit.h"
#include "plan/over_budget.h"
#include "target/found_device.h"

namespace snug {

/// What each stage made, for `explain`.
struct CompileTrace {
  PassTrace passes;
  PlaceTrace place;
  Graph placed;
  double capture_seconds = 0, rewrite_seconds = 0, place_seconds = 0, fuse_seconds = 0,
         code_seconds = 0;
};

/// Where functions may run that are made from now on, and what their nodes are pinned to; nothing:
/// as the process has it. For tests.
void set_devices(std::shared_ptr<const DeviceList> devices,
                 decltype(CompileOptions::pin) pin = nullptr);
/// Fills in the devices that a graph is placed on, unless there are some.
void choose_devices(CompileOptions& options, const Graph& graph);

/// Graph -> Program: once per function. It can be planned with, and run once it has code.
std::unique_ptr<Lowered> lower(const Graph& captured, const CompileOptions& options,
                               CompileTrace& trace);
/// Machine code for all kernels, those of loop bodies included.
void generate_code(Lowered& lowered, CompileTrace& trace);

/// Adds, by DeviceId, what constants of loop bodies have on other devices than the host.
void add_body_constants(const Lowered& lowered, std::vector<std::uint64_t>& bytes);

/// What a function may have on each device: its budget, or all that another device than the host
/// has.
Budgets effective_budgets(const CompileOptions& options);

/// Program -> plan -> Executable: once per set of sizes. A plan of `earlier` that is large enough
/// is used again. Throws OverBudget. `fixed`: per device, what the budgets cover besides
/// arenas.
/// `user`: for whom frontiers are kept; null: they are not.
std::unique_ptr<Executable> instantiate(const Lowered& lowered, SizeBounds bounds, CallKind kind,
                                        std::vector<std::uint64_t> fixed,
                                        const CompileOptions& options,
                                        std::span<const std::shared_ptr<const Planned>> earlier,
                                        const std::shared_ptr<FrontierUser>& user = nullptr);

// What backends know and do; nobody else names one.

/// The devices of this machine.
FoundDevices devices_of_machine();
/// A Device error that names those that there are, unless there is one of this name.
void require_device(const std::string& name);

/// What was made so far, for all functions of the process.
struct MadeCode {
  std::uint64_t kernels = 0, kernels_from_disk = 0, primitives = 0;
};
MadeCode made_code();
/// Under limits of the process libraries take their room now, so that plans know what is left.
void load_libraries_under_limits();
/// What libraries take when the steps run, besides code and workspaces.
std::uint64_t library_bytes(const Executable& executable);
/// Calls run(object): meanwhile libraries use this thread alone, and have what they need for the
/// steps.
void with_libraries(const Executable& executable, void* object, void (*run)(void*));
template <class F>
void with_libraries(const Executable& executable, F&& run) {
  with_libraries(executable, &run,
                 [](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); });
}
/// Elements into another layout of the same shape.
void copy_elements(const ArgDesc& to_desc, std::byte* to, const ArgDesc& from_desc,
                   const std::byte* from, int threads);

/// Whether devices beside the host compute an op.
bool has_device_form(const OpDef& op);
/// The libraries that compute an op on the host, the first choice first.
std::vector<std::string_view> libraries_of(const OpDef& op);

}  // namespace snug
