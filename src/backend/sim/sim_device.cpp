#include "backend/sim/sim_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "backend/cpu/jit.h"
#include "backend/host_library.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/pages.h"
#include "target/memory_budget.h"
#include "target/plain_staging.h"

namespace snug {

/// What the device's memory and queues share with it.
struct SimDevice::State {
  explicit State(Options given) : options(std::move(given)), ledger(options.name, options.memory) {}
  Options options;
  DeviceLedger ledger;
  DeviceInfo info;
  std::mutex mutex;
  Faults faults;
  std::uint64_t commands = 0, allocations = 0, kernels = 0;  // since the faults were set
  std::uint64_t all_commands = 0, in = 0, out = 0;
  bool lost = false;
  /// By where their addresses begin: where the bytes really are, and how many.
  struct Range {
    std::byte* bytes;
    std::uint64_t count;
  };
  std::map<std::byte*, Range> ranges;

  [[noreturn]] void fail(std::string_view what) const {
    snug::fail(Fault::Device, fmt::format("{}: {}", options.name, what),
               "run the function on another device, or make the device anew");
  }
  void require_alive() const {
    if (lost) fail("the device is lost, and what was in its memory");
  }

  /// Where a byte that addresses name really is: theirs or the host's.
  std::byte* real(const std::byte* address) {
    auto* const p = const_cast<std::byte*>(address);
    const std::lock_guard lock(mutex);
    auto next = ranges.upper_bound(p);
    if (next == ranges.begin()) return p;
    const auto& [begin, range] = *std::prev(next);
    const auto offset = static_cast<std::uint64_t>(p - begin);
    return offset < range.count ? range.bytes + offset : p;
  }

  /// Before a kernel shows, over nothing, that it could run.
  void count_kernel() {
    const std::lock_guard lock(mutex);
    require_alive();
    if (++kernels == faults.failing_kernel) fail(fmt::format("kernel {} cannot run", kernels));
  }

  /// Before a command runs.
  void count_command() {
    const std::lock_guard lock(mutex);
    require_alive();
    ++all_commands;
    ++commands;
    if (commands == faults.lost_at_command) lost = true;
    require_alive();
    if (commands == faults.failing_command) fail(fmt::format("command {} failed", commands));
  }
};

/// Addresses that nothing can touch, and the bytes elsewhere, in slabs.
class SimMemory : public DeviceMemory {
 public:
  static std::shared_ptr<SimMemory> make(const std::shared_ptr<SimDevice::State>& device,
                                         std::uint64_t bytes, std::uint64_t slab,
                                         std::string whose) {
    Pages addresses(bytes, PROT_NONE);
    bool there = addresses.data != nullptr;
    std::vector<Pages> slabs;
    for (std::uint64_t at = 0; at < bytes && there; at += slab) {
      slabs.emplace_back(std::min(slab, bytes - at), PROT_READ | PROT_WRITE);
      there = slabs.back().data != nullptr;
    }
    if (!there)
      fail_memory({.needed = bytes},
                  fmt::format("the system refused {} bytes for {}", bytes, device->options.name));
    return std::shared_ptr<SimMemory>(new SimMemory(device, std::move(addresses), std::move(slabs),
                                                    bytes, slab, std::move(whose)));
  }
  ~SimMemory() override {
    device_->ledger.unclaim(bytes(), whose_);
    const std::lock_guard lock(device_->mutex);
    for (std::size_t k = 0; k < slabs_.size(); ++k) device_->ranges.erase(data() + k * slab_);
  }

  const std::string& device() const override { return device_->options.name; }
  void read(const std::byte* from, std::byte* to, std::uint64_t bytes) const override {
    count(device_->out, bytes);
    if (bytes) std::memcpy(to, device_->real(from), bytes);
  }
  void write(std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    count(device_->in, bytes);
    if (bytes) std::memcpy(device_->real(to), from, bytes);
  }

 private:
  SimMemory(std::shared_ptr<SimDevice::State> device, Pages addresses, std::vector<Pages> slabs,
            std::uint64_t bytes, std::uint64_t slab, std::string whose)
      : DeviceMemory(addresses.data, bytes),
        device_(std::move(device)),
        addresses_(std::move(addresses)),
        slabs_(std::move(slabs)),
        slab_(slab),
        whose_(std::move(whose)) {
    device_->ledger.claim(bytes, whose_);
    const std::lock_guard lock(device_->mutex);
    for (std::size_t k = 0; k < slabs_.size(); ++k)
      device_->ranges[data() + k * slab_] = {slabs_[k].data, std::min(slab_, bytes - k * slab_)};
  }
  void count(std::uint64_t& sum, std::uint64_t bytes) const {
    const std::lock_guard lock(device_->mutex);
    device_->require_alive();
    sum += bytes;
  }

  std::shared_ptr<SimDevice::State> device_;
  Pages addresses_;
  std::vector<Pages> slabs_;
  std::uint64_t slab_;
  std::string whose_;
};

namespace {

/// A kernel by the host's code.
class SimKernel : public PreparedCall {
 public:
  SimKernel(KernelSpec spec, std::shared_ptr<SimDevice::State> device)
      : spec_(std::move(spec)), device_(std::move(device)) {}
  void make_ready() const override {
    device_->count_kernel();
    if (!code_) code_ = CpuJit::instance().compile(spec_);
  }
  void run(const RunArgs& args) const override { code_(args.in, args.ints.data(), 0, args.points); }

 private:
  KernelSpec spec_;
  std::shared_ptr<SimDevice::State> device_;
  mutable KernelFn code_ = nullptr;
};

/// The arguments of a call until it runs, with operands where they really are.
struct KeptArgs {
  std::vector<std::byte*> pointers;
  std::vector<ArgDesc> descs;
  std::vector<std::int64_t> size_elements, ints;
  std::vector<std::ptrdiff_t> size_offsets;
  RunArgs args;

  template <class Real>
  KeptArgs(const RunArgs& given, Real&& real) : args(given) {
    for (std::uint32_t i = 0; i < given.in_count; ++i) pointers.push_back(real(given.in[i]));
    for (std::uint32_t i = 0; i < given.out_count; ++i) pointers.push_back(real(given.out[i]));
    if (given.in_desc)
      descs.assign(given.in_desc, given.in_desc + given.in_count + given.out_count);
    for (std::uint32_t i = 0; i < given.size_inputs; ++i)
      size_offsets.push_back(given.size_values[i] - given.size_values[0]);
    if (given.size_inputs)
      size_elements.assign(given.size_values[0], given.size_values[0] + given.size_elements);
    ints.assign(given.ints.begin(), given.ints.end());
    if (given.workspace) args.workspace = real(given.workspace);
  }
  void run(const PreparedCall& call) const {
    RunArgs a = args;
    a.in = pointers.data();
    a.out = pointers.data() + a.in_count;
    a.in_desc = descs.data();
    a.out_desc = descs.data() + a.in_count;
    std::vector<const std::int64_t*> values;
    for (const std::ptrdiff_t offset : size_offsets)
      values.push_back(size_elements.data() + offset);
    a.size_values = values.data();
    a.ints = ints;
    call.run(a);
  }
};

}  // namespace

/// Commands that wait until somebody waits for them.
class SimQueues : public CommandQueues {
 public:
  SimQueues(std::shared_ptr<SimDevice::State> device, std::uint32_t marks)
      : device_(std::move(device)), marks_(marks, kNone) {}

  void run(const PreparedCall& call, const RunArgs& args) override {
    KeptArgs kept(args, [&](const std::byte* p) { return device_->real(p); });
    add(Compute, [&call, kept = std::move(kept)] { kept.run(call); });
  }
  void copy(Queue queue, std::byte* to, const std::byte* from, std::uint64_t bytes) override {
    std::byte* const there = device_->real(to);
    const std::byte* const here = device_->real(from);
    {
      const std::lock_guard lock(device_->mutex);
      if (queue == Upload) device_->in += bytes;
      if (queue == Download) device_->out += bytes;
    }
    add(queue, [=] {
      if (bytes) std::memmove(there, here, bytes);
    });
  }
  void mark(Queue queue, std::uint32_t mark) override { marks_.at(mark) = last_[queue]; }
  void wait(Queue queue, std::uint32_t mark) override {
    if (const std::size_t command = marks_.at(mark); command != kNone)
      waits_[queue].push_back(command);
  }
  void finish(std::uint32_t mark) override {
    if (const std::size_t command = marks_.at(mark); command != kNone) finish_those({command});
  }
  void finish() override {
    std::vector<std::size_t> all;
    for (std::size_t k = 0; k < commands_.size(); ++k)
      if (!commands_[k].done) all.push_back(k);
    finish_those(std::move(all));
    forget();
  }
  void abandon() noexcept override { forget(); }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;
  struct Command {
    std::function<void()> work;
    std::vector<std::size_t> after;
    bool done = false;
  };

  void add(Queue queue, std::function<void()> work) {
    Command c{std::move(work), std::move(waits_[queue])};
    waits_[queue].clear();
    if (last_[queue] != kNone) c.after.push_back(last_[queue]);
    last_[queue] = commands_.size();
    commands_.push_back(std::move(c));
    if (device_->options.at_once) finish_those({last_[queue]});
  }

  /// Those and what they need, the last first where nothing orders them.
  void finish_those(std::vector<std::size_t> wanted) {
    std::vector<bool> needed(commands_.size(), false);
    while (!wanted.empty()) {
      const std::size_t k = wanted.back();
      wanted.pop_back();
      if (needed[k] || commands_[k].done) continue;
      needed[k] = true;
      for (const std::size_t before : commands_[k].after) wanted.push_back(before);
    }
    const auto is_ready = [&](std::size_t k) {
      const auto& after = commands_[k].after;
      return std::all_of(after.begin(), after.end(), [&](auto a) { return commands_[a].done; });
    };
    for (bool again = true; again;) {
      again = false;
      for (std::size_t k = commands_.size(); k-- > 0;) {
        if (!needed[k] || commands_[k].done || !is_ready(k)) continue;
        device_->count_command();
        commands_[k].work();
        commands_[k].done = true;
        commands_[k].work = nullptr;
        again = true;
        break;
      }
    }
  }

  void forget() noexcept {
    commands_.clear();
    std::fill(marks_.begin(), marks_.end(), kNone);
    std::fill(std::begin(last_), std::end(last_), kNone);
    for (auto& w : waits_) w.clear();
  }

  std::shared_ptr<SimDevice::State> device_;
  std::vector<Command> commands_;
  std::vector<std::size_t> marks_;
  std::size_t last_[kQueues] = {kNone, kNone, kNone};
  std::vector<std::size_t> waits_[kQueues];
};

SimDevice::SimDevice(Options options) : state_(std::make_shared<State>(options)) {
  DeviceInfo& info = state_->info;
  info = host_device();
  info.name = options.name;
  info.model = "the host's code, in memory of its own";
  info.kind = DeviceInfo::Kind::Gpu;
  info.memory_bytes = static_cast<std::int64_t>(options.memory);
  info.largest_allocation = static_cast<std::int64_t>(options.largest_allocation);
  info.alignment = static_cast<std::int64_t>(options.alignment);
  info.transfer_latency = 1e-5;
  info.transfer_bandwidth = info.bandwidth;
  state_->faults = options.faults;
}
SimDevice::~SimDevice() = default;

const DeviceInfo& SimDevice::info() const { return state_->info; }
LibraryTable SimDevice::library() const { return host_library(); }

bool SimDevice::runs(const Graph&, const Node&, bool) const { return true; }

std::unique_ptr<PreparedCall> SimDevice::prepare(const KernelSpec& spec,
                                                 std::span<const std::int64_t>) const {
  return std::make_unique<SimKernel>(spec, state_);
}

std::shared_ptr<DeviceMemory> SimDevice::allocate(std::uint64_t bytes, std::string_view whose,
                                                  bool slabs) {
  const std::uint64_t largest = state_->options.largest_allocation;
  {
    const std::lock_guard lock(state_->mutex);
    state_->require_alive();
    if (largest && bytes > largest && !slabs)
      fail_memory(
          {.needed = bytes, .allowed = largest},
          fmt::format("{}: {} needs {}, and it allocates at most {} at a time",
                      state_->options.name, whose, describe_bytes(bytes), describe_bytes(largest)));
    if (++state_->allocations == state_->faults.failing_allocation)
      fail_memory({.needed = bytes},
                  fmt::format("{}: {} needs {}, and the driver refused it", state_->options.name,
                              whose, describe_bytes(bytes)));
  }
  const auto alignment = static_cast<std::uint64_t>(state_->info.alignment);
  return SimMemory::make(state_, bytes,
                         largest ? largest / alignment * alignment : std::uint64_t{1} << 62,
                         std::string(whose));
}

std::shared_ptr<StagingMemory> SimDevice::allocate_staging(std::uint64_t bytes,
                                                           std::string_view whose) {
  return std::make_shared<PlainStaging>(MemoryClaim(MemoryClaim::Kind::Arena, bytes, whose), bytes,
                                        whose);
}

std::unique_ptr<CommandQueues> SimDevice::open(std::uint32_t marks) {
  return std::make_unique<SimQueues>(state_, marks);
}

void SimDevice::set_faults(const Faults& faults) {
  const std::lock_guard lock(state_->mutex);
  state_->faults = faults;
  state_->commands = state_->allocations = state_->kernels = 0;
}

std::uint64_t SimDevice::commands() const {
  const std::lock_guard lock(state_->mutex);
  return state_->all_commands;
}
std::uint64_t SimDevice::allocated() const { return state_->ledger.claimed(); }
const DeviceLedger& SimDevice::ledger() const { return state_->ledger; }
std::uint64_t SimDevice::copied_in() const {
  const std::lock_guard lock(state_->mutex);
  return state_->in;
}
std::uint64_t SimDevice::copied_out() const {
  const std::lock_guard lock(state_->mutex);
  return state_->out;
}

}  // namespace snug
