#include "backend/opencl/opencl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "backend/opencl/emit_opencl.h"
#include "backend/opencl/opencl_expr.h"
#include "backend/opencl/opencl_library_table.h"
#include "backend/opencl/opencl_queues.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/pages.h"
#include "kernel/cluster.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

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
      device_->check(opencl().clFinish(device_->queue()), "clFinish");
    } catch (const Error& e) {
      drop();
      fail_memory({.needed = bytes},
                  fmt::format("{}: no room for {} ({} bytes): {}", device_->name(), whose_, bytes,
                              e.message()),
                  "another process may have the memory of the device");
    } catch (...) {
      drop();
      throw;
    }
  }
  ~OpenClMemory() override { drop(); }

  const std::string& device() const override { return device_->name(); }
  void read(const std::byte* from, std::byte* to, std::uint64_t bytes) const override {
    if (bytes == 0) return;
    device_->require_own_process();
    const auto place = device_->find(from);
    device_->check(opencl().clEnqueueReadBuffer(device_->queue(), place.memory, CL_TRUE,
                                                place.offset, bytes, to, 0, nullptr, nullptr),
                   "clEnqueueReadBuffer");
  }
  void write(std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    if (bytes == 0) return;
    device_->require_own_process();
    const auto place = device_->find(to);
    device_->check(opencl().clEnqueueWriteBuffer(device_->queue(), place.memory, CL_TRUE,
                                                 place.offset, bytes, from, 0, nullptr, nullptr),
                   "clEnqueueWriteBuffer");
  }

 private:
  void add_slab(std::uint64_t at, std::uint64_t bytes) {
    cl_int code = CL_SUCCESS;
    slabs_.push_back({at, ClMemory(opencl().clCreateBuffer(device_->context(), CL_MEM_READ_WRITE,
                                                           bytes, nullptr, &code))});
    device_->check(code, "clCreateBuffer");
    ++device_->counts().objects;
    const cl_mem memory = slabs_.back().second.get();
    const cl_uchar zero = 0;
    device_->check(opencl().clEnqueueFillBuffer(device_->queue(), memory, &zero, sizeof zero, 0,
                                                bytes, 0, nullptr, nullptr),
                   "clEnqueueFillBuffer");
    device_->add_block(data() + at, memory, bytes);
  }
  void drop() noexcept {
    for (const auto& [at, memory] : slabs_) device_->remove_block(data() + at);
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
  OpenClStaging(std::shared_ptr<OpenClContext> device, MemoryClaim claim, std::uint64_t bytes)
      : device_(std::move(device)), claim_(std::move(claim)) {
    cl_int code = CL_SUCCESS;
    memory_ = ClMemory(opencl().clCreateBuffer(
        device_->context(), CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &code));
    device_->check(code, "clCreateBuffer");
    ++device_->counts().objects;
    data = static_cast<std::byte*>(opencl().clEnqueueMapBuffer(
        device_->queue(), memory_.get(), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, nullptr,
        nullptr, &code));
    device_->check(code, "clEnqueueMapBuffer");
    this->bytes = bytes;
  }
  ~OpenClStaging() override {
    if (!data || !memory_.get() || !opencl_is_ours()) return;
    opencl().clEnqueueUnmapMemObject(device_->queue(), memory_.get(), data, 0, nullptr, nullptr);
    opencl().clFinish(device_->queue());
  }

 private:
  std::shared_ptr<OpenClContext> device_;
  MemoryClaim claim_;
  ClMemory memory_;
};

/// More than the driver allocates at a time: pages that copies are slower with.
class PlainStaging : public StagingMemory {
 public:
  PlainStaging(MemoryClaim claim, std::uint64_t count, std::string_view whose)
      : claim_(std::move(claim)), pages_(count, PROT_READ | PROT_WRITE) {
    if (!pages_.data)
      fail_memory({.needed = count},
                  fmt::format("the system refused {} bytes for {}", count, whose));
    data = pages_.data;
    bytes = count;
  }

 private:
  MemoryClaim claim_;
  Pages pages_;
};

/// A fused loop nest.
class OpenClSpecCall : public OpenClCall {
 public:
  OpenClSpecCall(const KernelSpec& spec, const OpenClMapping& mapping,
                 std::shared_ptr<const OpenClKernel> kernel)
      : mapping_(mapping), outer_(spec.outer), ints_(runtime_ints(spec)) {
    kernels_.push_back(std::move(kernel));
    for (const KernelSpec::Operand& o : spec.operands) widths_.push_back(size_of(o.dtype));
    if (mapping.ints_in_memory) workspace = (ints_.size() * 8 + kBlock - 1) / kBlock * kBlock;
  }

  void ask(OpenClQueues& queues, const RunArgs& args) const override {
    std::vector<OpenClArg> all;
    all.reserve(widths_.size() + ints_.size() + 2);
    for (std::size_t o = 0; o < widths_.size(); ++o)
      all.push_back(OpenClArg::memory(args.in[o], widths_[o]));
    if (mapping_.ints_in_memory) {
      write_ints(queues, args);
      all.push_back(OpenClArg::memory(args.workspace, 8));
    } else {
      for (const std::uint32_t i : ints_)
        all.push_back(mapping_.wide ? OpenClArg::int64(args.ints[i])
                                    : OpenClArg::int32(args.ints[i]));
    }
    std::int64_t end = 1;
    for (std::size_t axis = 0; axis < outer_; ++axis) end *= args.ints[axis];
    all.push_back(OpenClArg::int64(end));
    const std::int64_t each = mapping_.group ? 1 : mapping_.items;
    queues.launch(*kernels_[0], all, {(end + each - 1) / each, 1, 1});
  }

 private:
  static constexpr std::size_t kBlock = 128;  // bytes that a fill command carries

  /// By fills, which take what they are given along.
  void write_ints(OpenClQueues& queues, const RunArgs& args) const {
    for (std::size_t k = 0; k < ints_.size(); k += kBlock / 8) {
      std::int64_t block[kBlock / 8] = {};
      for (std::size_t j = 0; j < kBlock / 8 && k + j < ints_.size(); ++j)
        block[j] = args.ints[ints_[k + j]];
      queues.fill(args.workspace + k * 8, std::as_bytes(std::span(block)), kBlock);
    }
  }

  OpenClMapping mapping_;
  std::size_t outer_;
  std::vector<std::uint32_t> ints_;
  std::vector<std::int64_t> widths_;
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

OpenClDevice::OpenClDevice(OpenClFound found)
    : context_(std::make_shared<OpenClContext>(std::move(found))),
      kernels_(std::make_shared<OpenClKernels>(context_)),
      info_(describe_found(context_->found())) {}
OpenClDevice::~OpenClDevice() = default;

LibraryTable OpenClDevice::library() const { return opencl_library_table(); }

bool OpenClDevice::runs(const Graph& graph, const Node& node) const {
  const auto has_dtype = [&](DType t) { return t != DType::F64 || context_->found().fp64; };
  for (const Type& t : node.types)
    if (!has_dtype(t.dtype)) return false;
  for (const Value v : node.inputs)
    if (!has_dtype(graph.type(v).dtype)) return false;
  if (node.inner || has(*node.op, kLeaf) || has(*node.op, kView)) return true;
  if (node.op->scalar) {
    const std::vector<Instr> body = scalar_body(graph, node).instrs;
    return std::all_of(body.begin(), body.end(), [&](const Instr& in) {
      const DType t = operand_count(in.prim) ? body[in.a].dtype : in.dtype;
      return has_dtype(in.dtype) && opencl_has(in.prim, t);
    });
  }
  if (has(*node.op, kReduction) && !context_->found().fp64 && is_float(node.types[0].dtype)) {
    // Sums are added up in float64.
    const auto op = static_cast<ReduceOp>(node.attrs.integer("reduce"));
    return op != ReduceOp::Sum && op != ReduceOp::Prod;
  }
  return has(*node.op, kReduction) || find_library(library(), node) != nullptr;
}

std::unique_ptr<PreparedCall> OpenClDevice::prepare(const KernelSpec& spec,
                                                    std::span<const std::int64_t> ints) const {
  context_->require_own_process();
  const OpenClMapping mapping = map_kernel(spec, ints, context_->found());
  return std::make_unique<OpenClSpecCall>(spec, mapping, kernels_->add(emit_opencl(spec, mapping)));
}

std::shared_ptr<DeviceMemory> OpenClDevice::allocate(std::uint64_t bytes, std::string_view whose,
                                                     bool slabs) {
  context_->require_own_process();
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
  context_->require_own_process();
  MemoryClaim claim(MemoryClaim::Kind::Arena, bytes, whose);
  const auto largest = static_cast<std::uint64_t>(info_.largest_allocation);
  if (largest && bytes > largest)
    return std::make_shared<PlainStaging>(std::move(claim), bytes, whose);
  return std::make_shared<OpenClStaging>(context_, std::move(claim), bytes);
}

std::unique_ptr<CommandQueues> OpenClDevice::open(std::uint32_t marks) {
  return std::make_unique<OpenClQueues>(context_, marks);
}

void OpenClDevice::set_limit(std::uint64_t bytes) {
  context_->ledger().set_limit(bytes);
  info_.memory_bytes = static_cast<std::int64_t>(bytes ? bytes : context_->found().memory);
}
std::uint64_t OpenClDevice::allocated() const { return context_->ledger().claimed(); }
const DeviceLedger& OpenClDevice::ledger() const { return context_->ledger(); }
const OpenClFound& OpenClDevice::found() const { return context_->found(); }

}  // namespace snug
