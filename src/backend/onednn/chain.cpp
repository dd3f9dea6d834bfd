#include "backend/onednn/chain.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "backend/native/call.h"
#include "backend/native/parallel.h"
#include "backend/onednn/routines.h"
#include "base/error.h"
#include "target/free_memory.h"

namespace snug::onednn {
namespace {

constexpr std::size_t kMaxChains = 512;
constexpr std::size_t kMaxIdleObjects = 16;  // per chain
/// What the code of one primitive takes at most. A kernel has 256 KiB or a multiple of it, and a
/// primitive up to 28 of them (convolutions by blocks of products, AVX-512).
constexpr Room kMostCode{std::uint64_t{8} << 20, std::uint64_t{1} << 20};

/// And what it takes as a rule, as measured on thousands of shapes.
std::uint64_t usual_code(const dnnl::primitive_desc_base& desc) {
  const std::string_view name = desc.impl_info_str();
  const bool large = name.find("brg") != name.npos || name.find("bf16") != name.npos;
  return std::uint64_t{large ? 1536U : 512U} << 10;
}

std::atomic<std::uint64_t> made_so_far{0};

void check(dnnl_status_t status, const char* what) {
  SNUG_CHECK(status == dnnl_success, "oneDNN: {} failed with status {}", what,
             static_cast<int>(status));
}

struct Cache {
  struct Row {
    std::string key;
    std::shared_ptr<const Chain> chain;
  };
  BriefMutex mutex;
  std::list<Row> rows;  // most recently used first
  std::unordered_map<std::string_view, std::list<Row>::iterator> by_key;
};
/// Never destroyed: oneDNN's own statics may be gone by then.
Cache& cache() {
  static Cache& instance = *new Cache;
  return instance;
}

}  // namespace

struct Chain::Objects {
  dnnl::stream stream;
  std::vector<dnnl::memory> memories;
  std::vector<std::vector<dnnl_exec_arg_t>> arguments;  // per step
};

dnnl::engine& engine() {
  static dnnl::engine& instance = *[] {
    dnnl::set_primitive_cache_capacity(0);  // ours is bounded and keeps what is in use
    return new dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return instance;
}

dnnl::memory::data_type data_type(DType dtype) {
  SNUG_CHECK(dtype == DType::F32 || dtype == DType::BF16, "oneDNN: dtype {}", name_of(dtype));
  return dtype == DType::F32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

namespace {
bool works_with(dnnl::cpu_isa isa) {
  const auto needed = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & needed) == needed;
}
}  // namespace

bool has_bfloat16() {
  static const bool has = works_with(dnnl::cpu_isa::avx512_core_bf16);
  return has;
}

bool has_avx512() {
  static const bool has = works_with(dnnl::cpu_isa::avx512_core);
  return has;
}

bool is_reference(const dnnl::primitive_desc_base& pd) {
  return std::string_view(pd.impl_info_str()).find("ref") != std::string_view::npos;
}

Chain::Chain(std::uint64_t workspace_begin) : workspace_(workspace_begin) {}
Chain::~Chain() = default;

Chain::MemoryId Chain::memory(const dnnl::memory::desc& desc, Place place, std::uint64_t at) {
  memories_.push_back({desc, place, at});
  return static_cast<MemoryId>(memories_.size()) - 1;
}

Chain::MemoryId Chain::temporary(const dnnl::memory::desc& desc) {
  const MemoryId id = memory(desc, Place::Workspace, workspace_);
  workspace_ += native::align64(desc.get_size());
  return id;
}

Chain::MemoryId Chain::in_layout(MemoryId from, const dnnl::memory::desc& desc) {
  if (memories_[from].desc == desc) return from;
  const MemoryId to = temporary(desc);
  flush(from, to);
  return to;
}

Chain::MemoryId Chain::out_layout(MemoryId to, const dnnl::memory::desc& desc) {
  return memories_[to].desc == desc ? to : temporary(desc);
}

void Chain::flush(MemoryId from, MemoryId to) {
  if (from == to) return;
  const dnnl::reorder::primitive_desc pd(engine(), memories_[from].desc, engine(),
                                         memories_[to].desc, user_scratchpad());
  step<dnnl::reorder>(pd, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

void Chain::add(std::function<dnnl::primitive()> make, std::vector<Argument> arguments,
                const dnnl::primitive_desc_base& desc) {
  const MemoryId id = memory(desc.scratchpad_desc(), Place::Workspace, 0);  // placed by seal
  arguments.push_back({DNNL_ARG_SCRATCHPAD, id});
  scratchpads_.push_back(id);
  steps_.push_back({std::move(make), std::move(arguments)});
  code_bytes_ += usual_code(desc);
}

void Chain::seal() {
  // Steps run one after the other, so their scratchpads share their place.
  std::uint64_t largest = 0;
  for (MemoryId id : scratchpads_) {
    memories_[id].at = workspace_;
    largest = std::max<std::uint64_t>(largest, native::align64(memories_[id].desc.get_size()));
  }
  workspace_ += largest;
}

namespace {

/// oneDNN makes the code of its products of floats when the first of them runs, whatever primitive
/// that is part of, and ends the process if there is no room for it: so one runs here.
void make_code_of_products() {
  static std::atomic<bool> made{false};
  if (made) return;
  static LongMutex& making = *new LongMutex;
  const std::lock_guard lock(making);
  if (made) return;
  constexpr Room kCode{std::uint64_t{32} << 20, std::uint64_t{8} << 20};
  require_room(kCode, "code of oneDNN");
  const NoFork whole;
  constexpr int kSide = 64;  // smaller ones need less code
  const std::vector<float> zeros(kSide * kSide);
  std::vector<float> result(zeros);
  const native::OmpThreads alone(1);
  dnnl_sgemm('N', 'N', kSide, kSide, kSide, 1, zeros.data(), kSide, zeros.data(), kSide, 0,
             result.data(), kSide);
  made = true;
}

}  // namespace

void Chain::make_ready(std::size_t runs) const {
  runs = std::min(runs, kMaxIdleObjects);
  if (ready_.load(std::memory_order_acquire) >= runs) return;
  make_code_of_products();
  const std::lock_guard lock(making_);
  if (ready_ >= runs) return;
  try {
    while (primitives_.size() < steps_.size()) {
      require_room(kMostCode, "code of oneDNN");
      const NoFork whole;
      primitives_.push_back(steps_[primitives_.size()].make());
      ++made_so_far;
    }
    for (std::size_t made = ready_; made < runs; ++made) {
      auto objects = make_objects();
      const std::lock_guard guard(mutex_);
      free_.reserve(kMaxIdleObjects);
      free_.push_back(std::move(objects));
    }
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) fail_for_lack_of_memory("code of oneDNN");
    internal_error("oneDNN", e.what());
  }
  ready_.store(runs, std::memory_order_release);
}

std::uint64_t primitives_made() { return made_so_far; }

std::unique_ptr<Chain::Objects> Chain::make_objects() const {
  auto objects = std::make_unique<Objects>();
  objects->stream = dnnl::stream(engine());
  for (const Memory& m : memories_) objects->memories.emplace_back(m.desc, engine(), nullptr);
  for (const Step& step : steps_) {
    auto& arguments = objects->arguments.emplace_back();
    for (const Argument& a : step.arguments)
      arguments.push_back({a.name, objects->memories[a.memory].get()});
  }
  return objects;
}

std::unique_ptr<Chain::Objects> Chain::lease() const {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto objects = std::move(free_.back());
      free_.pop_back();
      return objects;
    }
  }
  return make_objects();
}

void Chain::give_back(std::unique_ptr<Objects> objects) const {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMaxIdleObjects) free_.push_back(std::move(objects));
}

void Chain::run(std::byte* const* in, std::byte* const* out, std::byte* workspace) const {
  SNUG_CHECK(ready_.load(std::memory_order_acquire) > 0, "oneDNN: the primitives are not made");
  auto objects = lease();
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    const Memory& m = memories_[i];
    std::byte* const data = m.place == Place::In    ? in[m.at]
                            : m.place == Place::Out ? out[m.at]
                                                    : workspace + m.at;
    check(dnnl_memory_set_data_handle_v2(objects->memories[i].get(), data, objects->stream.get()),
          "setting a pointer");
  }
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const auto& arguments = objects->arguments[i];
    check(dnnl_primitive_execute(primitives_[i].get(), objects->stream.get(),
                                 static_cast<int>(arguments.size()), arguments.data()),
          "a primitive");
  }
  check(dnnl_stream_wait(objects->stream.get()), "waiting");
  give_back(std::move(objects));
}

std::shared_ptr<const Chain> cached_chain(const std::string& key,
                                          const std::function<std::shared_ptr<Chain>()>& build) {
  Cache& c = cache();
  {
    const std::lock_guard lock(c.mutex);
    if (auto found = c.by_key.find(key); found != c.by_key.end()) {
      c.rows.splice(c.rows.begin(), c.rows, found->second);
      return found->second->chain;
    }
  }
  std::shared_ptr<Chain> made;
  try {
    const NoFork whole;
    made = build();
    if (made) made->seal();
  } catch (const dnnl::error& e) {
    if (e.status == dnnl_out_of_memory) fail_for_lack_of_memory("a descriptor of oneDNN");
    made = nullptr;
  }
  const std::lock_guard lock(c.mutex);
  if (auto found = c.by_key.find(key); found != c.by_key.end()) return found->second->chain;
  c.rows.push_front({key, made});
  c.by_key.emplace(c.rows.front().key, c.rows.begin());
  if (c.rows.size() > kMaxChains) {
    c.by_key.erase(c.rows.back().key);
    c.rows.pop_back();
  }
  return made;
}

}  // namespace snug::onednn
