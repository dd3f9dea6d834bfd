// A plugin of Oclgrind that counts what the kernels of a card would move: global memory in sectors
// of 32 bytes for 32 items that run together, local memory in words of 4 bytes and in passes over
// its 32 banks. Writes a line of JSON per launch to $TRAFFIC, and programs to $TRAFFIC.1.cl and so
// on (benchmarks/opencl_kernels.py builds and reads it).
#include <oclgrind/Context.h>
#include <oclgrind/Kernel.h>
#include <oclgrind/KernelInvocation.h>
#include <oclgrind/Memory.h>
#include <oclgrind/Plugin.h>
#include <oclgrind/Program.h>
#include <oclgrind/WorkGroup.h>
#include <oclgrind/WorkItem.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "llvm/IR/Instructions.h"

namespace {

constexpr std::size_t kLanes = 32, kSector = 32, kBanks = 32, kWord = 4;

/// Of loads, or of stores.
struct Traffic {
  std::uint64_t asked = 0, moved = 0;                           // bytes of global memory
  std::unordered_set<std::uint64_t> touched;                    // its sectors
  std::uint64_t local_words = 0, passes = 0, least_passes = 0;  // of local memory
};

/// What 32 items ask for at once.
struct Access {
  std::uint64_t instruction;
  std::size_t warp;
  std::uint32_t time;  // how often an item has been at the instruction
  bool local, store;
  bool operator<(const Access& o) const {
    return std::tie(instruction, warp, time, local, store) <
           std::tie(o.instruction, o.warp, o.time, o.local, o.store);
  }
};

class TrafficPlugin : public oclgrind::Plugin {
 public:
  explicit TrafficPlugin(const oclgrind::Context* context) : Plugin(context) {
    const char* path = std::getenv("TRAFFIC");
    path_ = path ? path : "traffic";
    out_.open(path_, std::ios::app);
  }
  bool isThreadSafe() const override { return false; }

  void kernelBegin(const oclgrind::KernelInvocation* k) override {
    loads_ = stores_ = {};
    fma_ = divisions_ = 0;
    local_size_ = k->getLocalSize();
  }
  void kernelEnd(const oclgrind::KernelInvocation* k) override {
    const oclgrind::Program* const program = k->getKernel()->getProgram();
    if (const auto [at, is_new] = programs_.emplace(program->getUID(), programs_.size()); is_new)
      std::ofstream(path_ + "." + std::to_string(at->second) + ".cl") << program->getSource();
    const oclgrind::Size3 g = k->getNumGroups();
    out_ << "{\"kernel\": \"" << k->getKernel()->getName()
         << "\", \"program\": " << programs_[program->getUID()]
         << ", \"groups\": " << g.x * g.y * g.z
         << ", \"items\": " << local_size_.x * local_size_.y * local_size_.z
         << ", \"fma\": " << fma_ << ", \"divisions\": " << divisions_;
    put("loads", loads_);
    put("stores", stores_);
    out_ << "}" << std::endl;
  }

  void instructionExecuted(const oclgrind::WorkItem*, const llvm::Instruction* instruction,
                           const oclgrind::TypedValue&) override {
    // Those by constants become multiplications.
    const unsigned code = instruction->getOpcode();
    divisions_ += (code == llvm::Instruction::UDiv || code == llvm::Instruction::SDiv ||
                   code == llvm::Instruction::URem || code == llvm::Instruction::SRem) &&
                  !llvm::isa<llvm::Constant>(instruction->getOperand(1));
    const auto* call = llvm::dyn_cast<llvm::CallInst>(instruction);
    if (!call || !call->getCalledFunction()) return;
    auto [at, is_new] = is_fma_.emplace(call->getCalledFunction(), false);
    if (is_new) at->second = call->getCalledFunction()->getName().startswith("_Z3fma");
    fma_ += at->second ? 1 : 0;
  }
  void memoryLoad(const oclgrind::Memory* m, const oclgrind::WorkItem* item, std::size_t address,
                  std::size_t size) override {
    note(m, item, address, size, false);
  }
  void memoryStore(const oclgrind::Memory* m, const oclgrind::WorkItem* item, std::size_t address,
                   std::size_t size, const std::uint8_t*) override {
    note(m, item, address, size, true);
  }
  void workGroupComplete(const oclgrind::WorkGroup*) override {
    for (const auto& [access, places] : accesses_) count(access, places);
    accesses_.clear();
    times_.clear();
    last_store_.clear();
  }

 private:
  using Places = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // address, bytes

  void note(const oclgrind::Memory* m, const oclgrind::WorkItem* item, std::size_t address,
            std::size_t size, bool store) {
    const unsigned space = m->getAddressSpace();
    if (space != oclgrind::AddrSpaceGlobal && space != oclgrind::AddrSpaceLocal) return;
    const oclgrind::Size3 id = item->getLocalID();
    const std::size_t lane = id.x + local_size_.x * (id.y + local_size_.y * id.z);
    const llvm::Instruction* const at = item->getCurrentInstruction();
    if (store && splits(at, lane)) {
      if (!llvm::isa<llvm::UndefValue>(at->getOperand(0)))
        accesses_[last_store_[lane].access].emplace_back(address, size);
      return;
    }
    const auto instruction = reinterpret_cast<std::uint64_t>(at);
    const Access access{instruction, lane / kLanes, times_[{lane, instruction, store}]++,
                        space == oclgrind::AddrSpaceLocal, store};
    if (store) last_store_[lane] = {at, access};
    // What is not there is a vector whose elements follow.
    Places& places = accesses_[access];
    if (!store || !llvm::isa<llvm::UndefValue>(at->getOperand(0)))
      places.emplace_back(address, size);
  }

  /// Whether a store is of an element of a vector, which Oclgrind stores one by one.
  bool splits(const llvm::Instruction* at, std::size_t lane) {
    const auto last = last_store_.find(lane);
    return last != last_store_.end() && last->second.instruction != at && at->getDebugLoc() &&
           last->second.instruction->getDebugLoc() == at->getDebugLoc() &&
           llvm::isa<llvm::UndefValue>(last->second.instruction->getOperand(0));
  }

  void count(const Access& access, const Places& places) {
    Traffic& t = access.store ? stores_ : loads_;
    if (access.local) {
      std::map<std::uint64_t, std::set<std::uint64_t>> words;  // by bank
      std::set<std::uint64_t> all;
      for (const auto& [address, bytes] : places)
        for (std::uint64_t w = address / kWord; w <= (address + bytes - 1) / kWord; ++w) {
          ++t.local_words;
          words[w % kBanks].insert(w);
          all.insert(w);
        }
      std::size_t most = 0;
      for (const auto& [bank, in_it] : words) most = std::max(most, in_it.size());
      t.passes += most;
      t.least_passes += (all.size() + kBanks - 1) / kBanks;
      return;
    }
    std::set<std::uint64_t> sectors;
    for (const auto& [address, bytes] : places) {
      t.asked += bytes;
      for (std::uint64_t s = address / kSector; s <= (address + bytes - 1) / kSector; ++s)
        sectors.insert(s);
    }
    t.moved += sectors.size() * kSector;
    t.touched.insert(sectors.begin(), sectors.end());
  }

  void put(const char* name, const Traffic& t) {
    out_ << ", \"" << name << "\": {\"asked\": " << t.asked << ", \"moved\": " << t.moved
         << ", \"touched\": " << t.touched.size() * kSector << ", \"local\": " << t.local_words
         << ", \"passes\": " << t.passes << ", \"least_passes\": " << t.least_passes << "}";
  }

  std::string path_;
  std::ofstream out_;
  oclgrind::Size3 local_size_;
  Traffic loads_, stores_;
  std::uint64_t fma_ = 0, divisions_ = 0;
  std::map<Access, Places> accesses_;  // of this group
  std::map<std::tuple<std::size_t, std::uint64_t, bool>, std::uint32_t> times_;
  struct LastStore {
    const llvm::Instruction* instruction;
    Access access;
  };
  std::unordered_map<std::size_t, LastStore> last_store_;  // by item
  std::unordered_map<const llvm::Function*, bool> is_fma_;
  std::map<std::uint64_t, std::size_t> programs_;
};

TrafficPlugin* plugin = nullptr;

}  // namespace

extern "C" void initializePlugins(oclgrind::Context* context) {
  plugin = new TrafficPlugin(context);
  context->registerPlugin(plugin);
}
extern "C" void releasePlugins(oclgrind::Context* context) {
  context->unregisterPlugin(plugin);
  delete plugin;
}
