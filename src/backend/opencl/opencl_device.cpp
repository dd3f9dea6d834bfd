#include "backend/opencl/opencl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/opencl/opencl_errors.h"
#include "backend/opencl/opencl_expr.h"
#include "backend/opencl/opencl_library_table.h"
#include "backend/opencl/opencl_queues.h"
#include "backend/opencl/spec_forms.h"
#include "backend/opencl/tile_times.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/pages.h"
#include "kernel/cluster.h"
#include "target/memory_budget.h"
#include "target/plain_staging.h"

namespace snug {
namespace {

/// Drivers mean memory by these codes while it is taken.
void check_taken(const OpenClContext& device, cl_int code, const char* call, std::uint64_t bytes,
                 std::string_view whose) {
  if (opencl_says_full(code) || code == CL_OUT_OF_RESOURCES)
    fail_memory({.needed = bytes},
                fmt::format("{}: no room for {} ({} bytes): {}: {} ({})", device.name(), whose,
                            bytes, call, opencl_error_name(code), code),
                "another process may have the memory of the device");
  device.check(code, call, whose);
}

/// Blocks of memory of the device behind one range of addresses, filled once: drivers accept more
/// than there is, and say so when it is used.
class OpenClMemory : public DeviceMemory {
 public:
  OpenClMemory(std::shared_ptr<OpenClContext> device, Pages addresses, std::uint64_t bytes,
               std::uint64_t slab, std::string whose)
      : DeviceMemory(addresses.data, bytes),
        device_(std::move(device)),
        addresses_(std::move(addresses)),
        whose_(std::move(whose)) {
    device_->ledger().claim(bytes, whose_);
    try {
      if (bytes == 0) add_slab(0, 1);  // kernels are given something
      for (std::uint64_t at = 0; at < bytes; at += slab) add_slab(at, std::min(slab, bytes - at));
      take(device_->finish_code("fills of memory"), "a fill");
    } catch (...) {
      drop();
      throw;
    }
  }
  ~OpenClMemory() override { drop(); }

  const std::string& device() const override { return device_->name(); }
  void read(const std::byte* from, std::byte* to, std::uint64_t bytes) const override {
    if (bytes == 0) return;
    device_->require_usable();
    const auto place = device_->find(from);
    device_->check(opencl().clEnqueueReadBuffer(device_->queue(), place.memory, CL_FALSE,
                                                place.offset, bytes, to, 0, nullptr, nullptr),
                   "clEnqueueReadBuffer");
    device_->finish("a copy to the host");
  }
  void write(std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    if (bytes == 0) return;
    device_->require_usable();
    const auto place = device_->find(to);
    device_->check(opencl().clEnqueueWriteBuffer(device_->queue(), place.memory, CL_FALSE,
                                                 place.offset, bytes, from, 0, nullptr, nullptr),
                   "clEnqueueWriteBuffer");
    device_->finish("a copy from the host");
  }

 private:
  void take(cl_int code, const char* call) const {
    check_taken(*device_, code, call, bytes(), whose_);
  }
  void add_slab(std::uint64_t at, std::uint64_t bytes) {
    cl_int code = CL_SUCCESS;
    slabs_.push_back({at, ClMemory(opencl().clCreateBuffer(device_->context(), CL_MEM_READ_WRITE,
                                                           bytes, nullptr, &code))});
    take(code, "clCreateBuffer");
    ++device_->counts().objects;
    const cl_mem memory = slabs_.back().second.get();
    const cl_uchar zero = 0;
    take(opencl().clEnqueueFillBuffer(device_->queue(), memory, &zero, sizeof zero, 0, bytes, 0,
                                      nullptr, nullptr),
         "clEnqueueFillBuffer");
    device_->add_block(data() + at, memory, bytes);
  }
  void drop() noexcept {
    for (auto& [at, memory] : slabs_) {
      device_->remove_block(data() + at);
      if (device_->is_lost()) memory.forget();
    }
    slabs_.clear();
    device_->ledger().unclaim(bytes(), whose_);
  }

  std::shared_ptr<OpenClContext> device_;
  Pages addresses_;
  std::string whose_;
  std::vector<std::pair<std::uint64_t, ClMemory>> slabs_;
};

/// Memory of the host that the driver allocates, so that copies need no other.
class OpenClStaging : public StagingMemory {
 public:
  OpenClStaging(std::shared_ptr<OpenClContext> device, MemoryClaim claim, std::uint64_t bytes,
                std::string_view whose)
      : device_(std::move(device)), claim_(std::move(claim)) {
    cl_int code = CL_SUCCESS;
    memory_ = ClMemory(opencl().clCreateBuffer(
        device_->context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &code));
    check_taken(*device_, code, "clCreateBuffer", bytes, whose);
    ++device_->counts().objects;
    data = static_cast<std::byte*>(opencl().clEnqueueMapBuffer(
        device_->queue(), memory_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, nullptr,
        nullptr, &code));
    check_taken(*device_, code, "clEnqueueMapBuffer", bytes, whose);
    this->bytes = bytes;
  }
  ~OpenClStaging() override {
    if (!data || !memory_.get() || !opencl_is_ours()) return;
    try {
      device_->require_usable();
      opencl().clEnqueueUnmapMemObject(device_->queue(), memory_.get(), data, 0, nullptr, nullptr);
      device_->finish("an unmapping");
    } catch (const Error&) {
      memory_.forget();
    }
  }

 private:
  std::shared_ptr<OpenClContext> device_;
  MemoryClaim claim_;
  ClMemory memory_;
};

/// A fused loop nest.
class OpenClSpecCall : public OpenClCall {
 public:
  OpenClSpecCall(const KernelSpec& spec, std::span<const std::int64_t> ints,
                 const OpenClFound& device, OpenClKernels& kernels)
      : forms_(spec, ints, device, kernels) {
    workspace = forms_.workspace();
  }
  void make_ready() const override { forms_.make_ready(); }
  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    forms_.ask(queues, args.in, args.ints, args.workspace);
  }

 private:
  SpecForms forms_;
};

/// What is not known of a device is that of a small card, or of this processor.
DeviceInfo describe_found(const OpenClFound& f) {
  DeviceInfo info;
  info.name = f.name;
  info.model = f.model;
  info.kind = f.gpu ? DeviceInfo::Kind::Gpu : DeviceInfo::Kind::Cpu;
  info.cores = f.units;
  info.memory_bytes = static_cast<std::int64_t>(f.memory);
  info.largest_allocation =
      f.largest_allocation < f.memory ? static_cast<std::int64_t>(f.largest_allocation) : 0;
  info.alignment = static_cast<std::int64_t>(f.alignment);
  info.bandwidth = f.gpu ? 1e11 : host_device().bandwidth;
  info.flops = f.gpu ? 1e12 : host_device().flops;
  info.launch_latency = 1e-5;
  info.transfer_latency = 1e-5;
  info.transfer_bandwidth = f.unified ? host_device().bandwidth : 1e10;
  return info;
}

/// Functions are within 4 ULP, so those of float32 by way of float64 are within 1. Special ones are
/// as accurate as they are in any case.
bool is_within_1_ulp(const OpenClFound& found, Prim p, DType t) {
  if (!is_float(t) || is_special(p)) return true;
  if (is_function(p)) return t != DType::F64 && found.fp64;
  return t == DType::F64 || found.rounds_division || (p != Prim::Div && p != Prim::Sqrt);
}

}  // namespace

bool opencl_has_op(const OpDef& op) {
  if (has(op, kLeaf | kView | kReduction | kInner)) return true;
  if (!op.scalar) {
    const LibraryTable table = opencl_library_table();
    return std::any_of(table.begin(), table.end(),
                       [&](const LibraryEntry& e) { return e.op == op.name; });
  }
  ScalarBuilder body;
  body.arg_types.assign(static_cast<std::size_t>(std::max(op.arity, 1)), DType::F32);
  try {
    op.scalar(body, {});
  } catch (const Error&) {
    return true;  // it wants attributes, as those do that are all there
  }
  return std::all_of(body.body.begin(), body.body.end(), [&](const Instr& in) {
    return opencl_has(in.prim, operand_count(in.prim) ? body.body[in.a].dtype : in.dtype);
  });
}

OpenClDevice::OpenClDevice(OpenClFound found, const std::filesystem::path& programs)
    : context_(std::make_shared<OpenClContext>(std::move(found))),
      kernels_(std::make_shared<OpenClKernels>(context_, programs)),
      info_(describe_found(context_->found())),
      tiles_(std::make_unique<TileTimes>(*this)) {}
OpenClDevice::~OpenClDevice() = default;

LibraryTable OpenClDevice::library() const { return opencl_library_table(); }

bool OpenClDevice::runs(const Graph& graph, const Node& node, bool strict_math) const {
  const OpenClFound& found = context_->found();
  const auto has_dtype = [&](DType t) { return t != DType::F64 || found.fp64; };
  for (const Type& t : node.types)
    if (!has_dtype(t.dtype)) return false;
  for (const Value v : node.inputs)
    if (!has_dtype(graph.type(v).dtype)) return false;
  if (node.inner || has(*node.op, kLeaf) || has(*node.op, kView)) return true;
  if (node.op->scalar) {
    const std::vector<Instr> body = scalar_body(graph, node).instrs;
    return std::all_of(body.begin(), body.end(), [&](const Instr& in) {
      const DType t = operand_count(in.prim) ? body[in.a].dtype : in.dtype;
      return has_dtype(in.dtype) && opencl_has(in.prim, t) &&
             (found.fp64 || !is_special(in.prim)) &&
             (!strict_math || is_within_1_ulp(found, in.prim, t));
    });
  }
  if (has(*node.op, kReduction)) {
    // What is added up in float64 may be pairs of float32, which hold what has 24 bits.
    const DType x = graph.type(node.inputs[0]).dtype;
    return found.fp64 || node.attrs.dtype("acc") != DType::F64 || is_float(x) || size_of(x) <= 2;
  }
  return find_library(library(), node) != nullptr;
}

std::unique_ptr<PreparedCall> OpenClDevice::prepare(const KernelSpec& spec,
                                                    std::span<const std::int64_t> ints) const {
  context_->require_usable();
  return std::make_unique<OpenClSpecCall>(spec, ints, context_->found(), *kernels_);
}

std::shared_ptr<DeviceMemory> OpenClDevice::allocate(std::uint64_t bytes, std::string_view whose,
                                                     bool slabs) {
  context_->require_usable();
  const auto alignment = static_cast<std::uint64_t>(info_.alignment);
  const std::uint64_t largest =
      static_cast<std::uint64_t>(info_.largest_allocation) / alignment * alignment;
  if (largest && bytes > largest && !slabs)
    fail_memory({.needed = bytes, .allowed = largest},
                fmt::format("{}: {} needs {}, and it allocates at most {} at a time", info_.name,
                            whose, describe_bytes(bytes), describe_bytes(largest)));
  Pages addresses(bytes, PROT_NONE);
  if (!addresses.data)
    fail_memory({.needed = bytes},
                fmt::format("the system refused addresses for {} bytes of {}", bytes, info_.name));
  return std::make_shared<OpenClMemory>(context_, std::move(addresses), bytes,
                                        largest ? largest : std::uint64_t{1} << 62,
                                        std::string(whose));
}

std::shared_ptr<StagingMemory> OpenClDevice::allocate_staging(std::uint64_t bytes,
                                                              std::string_view whose) {
  context_->require_usable();
  MemoryClaim claim(MemoryClaim::Kind::Arena, bytes, whose);
  const auto largest = static_cast<std::uint64_t>(info_.largest_allocation);
  if (largest && bytes > largest)
    return std::make_shared<PlainStaging>(std::move(claim), bytes, whose);
  return std::make_shared<OpenClStaging>(context_, std::move(claim), bytes, whose);
}

std::unique_ptr<CommandQueues> OpenClDevice::open(std::uint32_t marks) {
  return std::make_unique<OpenClQueues>(context_, marks);
}

void OpenClDevice::require_usable() const { context_->require_usable(); }
void OpenClDevice::set_limit(std::uint64_t bytes) {
  context_->ledger().set_limit(bytes);
  info_.memory_bytes = static_cast<std::int64_t>(bytes ? bytes : context_->found().memory);
}
void OpenClDevice::set_patience(std::chrono::milliseconds patience) {
  context_->set_patience(patience);
}
std::uint64_t OpenClDevice::allocated() const { return context_->ledger().claimed(); }
const DeviceLedger& OpenClDevice::ledger() const { return context_->ledger(); }
const OpenClFound& OpenClDevice::found() const { return context_->found(); }

}  // namespace snug
