#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/interrupt.h"
#include "base/pool.h"
#include "exec/executable.h"
#include "kernel/kernel_cut.h"

namespace snug {
namespace {

constexpr std::size_t kMaxInts = 10 * 40;  // rank times operands and extents of a kernel

void run_kernel(const BoundStep& b, const RunState& state, int threads) {
  const Kernel& k = *b.kernel;
  std::int64_t ints[kMaxInts];
  SNUG_CHECK(k.ints.size() <= kMaxInts, "kernel {} has too many operands", k.spec.name);
  for (std::size_t i = 0; i < k.ints.size(); ++i) ints[i] = state.sizes[k.ints[i]];
  for (std::size_t i = 0; i < b.buffers.size(); ++i)
    state.pointers[i] = state.buffers[b.buffers[i]] + state.sizes[b.offsets[i]] * b.widths[i];
  const std::int64_t points = state.sizes[k.points], work = state.sizes[k.work] * b.weight;
  if (threads <= 1 || work < kAwakeWork) return b.code(state.pointers, ints, 0, points);
  const KernelCut cut = choose_cut(k.spec, ints, threads);
  const auto part = [&](int, std::int64_t begin, std::int64_t end) {
    if (cut.axis == 0) return b.code(state.pointers, ints, begin, end);
    // A kernel of its own, whose axis is as long as the piece.
    std::int64_t sizes[kMaxInts];
    std::copy_n(ints, k.ints.size(), sizes);
    sizes[cut.axis] = end - begin;
    std::byte* operands[kMaxInts];
    for (std::size_t i = 0; i < b.buffers.size(); ++i) {
      const std::int64_t stride = ints[k.spec.rank() * (i + 1) + cut.axis];
      operands[i] = state.pointers[i] + begin * stride * b.widths[i];
    }
    b.code(operands, sizes, 0, points);
  };
  const std::int64_t count = cut.axis == 0 ? points : ints[cut.axis];
  parallel_slots(count, work, threads, part, cut.grain);
}

template <class T>
void store_sizes(std::byte* to, const std::vector<SizeId>& ids, const std::int64_t* sizes) {
  T* out = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < ids.size(); ++i) out[i] = static_cast<T>(sizes[ids[i]]);
}

void run_sizes(const BoundStep& b, const RunState& state, DType dtype) {
  std::byte* to = state.buffers[b.buffers[0]];
  const auto& ids = b.size_inputs[0];
  switch (size_of(dtype)) {
    case 1:
      for (std::size_t i = 0; i < ids.size(); ++i)
        to[i] = static_cast<std::byte>(dtype == DType::Bool ? state.sizes[ids[i]] != 0
                                                            : state.sizes[ids[i]]);
      break;
    case 2: store_sizes<std::int16_t>(to, ids, state.sizes); break;
    case 4: store_sizes<std::int32_t>(to, ids, state.sizes); break;
    default: store_sizes<std::int64_t>(to, ids, state.sizes);
  }
}

void run_library(const BoundStep& b, const RunState& state, std::int64_t* extents,
                 bool interruptible) {
  const ArgDesc* descs = b.descs.data();
  if (b.runtime_sizes) {
    for (std::size_t i = 0; i < b.layouts.size(); ++i) {
      ArgDesc& d = state.descs[i];
      d.dtype = b.layouts[i].first->dtype;
      d.shape.clear();
      d.strides.clear();
      for (SizeId id : b.layouts[i].first->dims) d.shape.push_back(state.sizes[id]);
      for (SizeId id : b.layouts[i].second->strides) d.strides.push_back(state.sizes[id]);
    }
    descs = state.descs;
  }
  for (std::size_t i = 0; i < b.buffers.size(); ++i)
    state.pointers[i] = state.buffers[b.buffers[i]] + state.sizes[b.offsets[i]] * b.widths[i];
  std::int64_t size_values[kMaxSizeValues];
  const std::int64_t* size_inputs[kMaxSizeValues];
  std::size_t used = 0;
  for (std::size_t i = 0; i < b.size_inputs.size(); ++i) {
    size_inputs[i] = size_values + used;
    for (SizeId id : b.size_inputs[i]) size_values[used++] = state.sizes[id];
  }
  RunArgs args;
  args.in = state.pointers;
  args.out = state.pointers + b.input_count;
  args.workspace = b.workspace >= 0 ? state.buffers[b.workspace] : nullptr;
  args.in_desc = descs;
  args.out_desc = descs + b.input_count;
  args.size_values = size_inputs;
  args.extents = extents;
  args.in_place = b.in_place;
  args.interruptible = interruptible;
  b.call->run(args);
}

/// Values that go to a file and come back while steps run.
class Transfers {
 public:
  Transfers(const Executable& exe, const RunState& state)
      : all_(exe.planned->schedule.transfers), file_(state.file), at_once_(state.observer) {
    if (all_.empty()) return;
    SNUG_CHECK(file_, "there is no file for {} transfers", all_.size());
    std::vector<OffloadFile::Move>& moves = file_->moves();
    moves.resize(all_.size());
    for (std::size_t k = 0; k < all_.size(); ++k)
      moves[k] = {state.buffers[all_[k].buffer], exe.transfers[k].bytes, all_[k].offset,
                  all_[k].store};
    file_->start();
  }
  ~Transfers() {
    if (!all_.empty()) file_->stop();
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  /// What has to be done before a step is done, and what may begin has begun. An observer may
  /// change memory that is given up, and so sees transfers done at once.
  void before(std::uint32_t step) {
    if (done_ == all_.size()) return;
    for (; begun_ < all_.size() && all_[begun_].begin <= step; ++begun_) {
    }
    file_->allow(begun_);
    if (at_once_) done_ = begun_;
    for (std::size_t k = begun_; k > done_; --k)
      if (all_[k - 1].end <= step) {
        done_ = k;
        break;
      }
    file_->wait(done_);
  }

 private:
  const std::vector<Transfer>& all_;
  OffloadFile* file_;
  bool at_once_;
  std::size_t begun_ = 0, done_ = 0;  // transfers, from the first one
};

}  // namespace

void run_steps(const Executable& exe, RunState& state) {
  const Schedule& s = exe.planned->schedule;
  const Lowered& l = *exe.lowered;
  Transfers transfers(exe, state);
  std::vector<BoundStep>::const_iterator step = exe.steps.begin();
  for (std::uint32_t at = 0; at < exe.steps.size(); ++at, ++step) {
    const BoundStep& b = *step;
    bool interruptible = state.interruptible && at < s.commit;
    if (interruptible) check_interrupt();
    transfers.before(at);
    if (state.observer) state.observer->before(state, at);
    if (!b.task) {
      std::memcpy(state.buffers[b.buffers[1]], state.buffers[b.buffers[0]],
                  static_cast<std::size_t>(b.widths[0]));
      if (state.observer) state.observer->after(state, at);
      continue;
    }
    std::int64_t extents[8];
    try {
      switch (b.task->kind) {
        case Task::Kind::Kernel: run_kernel(b, state, l.threads); break;
        case Task::Kind::Sizes: run_sizes(b, state, l.program.type(b.task->writes[0]).dtype); break;
        default: run_library(b, state, extents, interruptible);
      }
    } catch (Error& e) {
      e.locate(b.task->origin);
      throw;
    }
    if (!b.extents.empty() || !b.elements.empty()) {
      for (std::size_t i = 0; i < b.extents.size(); ++i) state.sizes[b.extents[i]] = extents[0];
      for (const BoundStep::DecidedElement& e : b.elements)
        state.sizes[e.symbol] =
            read_integer(state.buffers[s.steps[at].writes[e.write]],
                         l.program.type(b.task->writes[e.write]).dtype, e.element);
      const SizeTable& table = l.program.graph.sizes();
      std::span<const std::int64_t> values(state.sizes, table.nodes().size());
      for (SizeId id : l.runtime) state.sizes[id] = evaluate(table.node(id), values);
      check_requirements(l.program.graph, b.requirements, values);
    }
    if (state.observer) state.observer->after(state, at);
  }
}

}  // namespace snug
