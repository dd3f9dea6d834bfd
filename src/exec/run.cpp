#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/interrupt.h"
#include "base/pool.h"
#include "exec/executable.h"
#include "kernel/kernel_cut.h"

namespace snug {
namespace {

constexpr std::size_t kMaxInts = 10 * 40;  // rank times operands and extents of a kernel

void take_operands(const BoundStep& b, const RunState& state) {
  for (std::size_t i = 0; i < b.buffers.size(); ++i)
    state.pointers[i] = state.buffers[b.buffers[i]] + state.sizes[b.offsets[i]] * b.widths[i];
}

void take_ints(const Kernel& k, const RunState& state, std::int64_t* ints) {
  SNUG_CHECK(k.ints.size() <= kMaxInts, "kernel {} has too many operands", k.spec.name);
  for (std::size_t i = 0; i < k.ints.size(); ++i) ints[i] = state.sizes[k.ints[i]];
}

void run_kernel(const BoundStep& b, const RunState& state, int threads) {
  const Kernel& k = *b.kernel;
  std::int64_t ints[kMaxInts];
  take_ints(k, state, ints);
  take_operands(b, state);
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

/// Calls run(args) with the arguments of a library call or a loop.
template <class Run>
void with_arguments(const BoundStep& b, const RunState& state, Run&& run) {
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
  take_operands(b, state);
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
  args.in_count = b.input_count;
  args.out_count = static_cast<std::uint32_t>(b.buffers.size()) - b.input_count;
  args.size_inputs = static_cast<std::uint32_t>(b.size_inputs.size());
  args.size_elements = static_cast<std::uint32_t>(used);
  args.in_place = b.in_place;
  run(args);
}

void run_library(const BoundStep& b, const Schedule& s, const RunState& state,
                 std::int64_t* extents, bool interruptible) {
  std::array<std::byte*, kMostSpaces> elsewhere;  // only those of the step are looked at
  for (const std::uint32_t w : b.elsewhere) elsewhere[s.buffers[w].space] = state.buffers[w];
  with_arguments(b, state, [&](RunArgs& args) {
    args.elsewhere = elsewhere.data();
    args.queues = state.queues;
    args.extents = extents;
    args.interruptible = interruptible;
    b.call->run(args);
  });
}

/// Asks the device of the step for it.
void ask(const BoundStep& b, const RunState& state) {
  CommandQueues& queues = *state.queues[b.device];
  if (!b.task || b.task->kind == Task::Kind::Copy) {
    queues.copy(b.queue, state.buffers[b.buffers[1]], state.buffers[b.buffers[0]],
                static_cast<std::uint64_t>(b.widths[0]));
  } else if (b.task->kind == Task::Kind::Kernel) {
    const Kernel& k = *b.kernel;
    std::int64_t ints[kMaxInts];
    take_ints(k, state, ints);
    take_operands(b, state);
    RunArgs args;
    args.in = state.pointers;
    args.in_count = static_cast<std::uint32_t>(b.buffers.size());
    args.ints = {ints, k.ints.size()};
    args.points = state.sizes[k.points];
    args.workspace = b.workspace >= 0 ? state.buffers[b.workspace] : nullptr;
    queues.run(*b.call, args);
  } else {
    with_arguments(b, state, [&](const RunArgs& args) { queues.run(*b.call, args); });
  }
}

/// What the devices of a call are asked runs later; nothing does once this has died.
class LateSteps {
 public:
  LateSteps(const Executable& exe, const RunState& state) : exe_(exe), state_(state) {}
  ~LateSteps() {
    if (!ended_) for_each([](CommandQueues& q) { q.abandon(); });
  }
  LateSteps(const LateSteps&) = delete;
  LateSteps& operator=(const LateSteps&) = delete;

  void wait(const BoundStep& b) const {
    for (const BoundStep::Wait& w : b.waits)
      if (w.by_host)
        state_.queues[w.device]->finish(w.mark);
      else
        state_.queues[w.device]->wait(b.queue, w.mark);
  }
  void mark(const BoundStep& b) const {
    if (b.mark < 0) return;
    const auto mark = static_cast<std::uint32_t>(b.mark);
    state_.queues[b.device]->mark(b.queue, mark);
    if (!b.elements.empty()) state_.queues[b.device]->finish(mark);  // this thread reads it
  }
  void finish() {
    for_each([](CommandQueues& q) { q.finish(); });
  }
  void end() {
    finish();
    ended_ = true;
  }

 private:
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t d = 1; d < exe_.marks.size(); ++d)
      if (exe_.marks[d] > 0) f(*state_.queues[d]);
  }
  const Executable& exe_;
  const RunState& state_;
  bool ended_ = false;
};

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
  LateSteps late(exe, state);
  std::vector<BoundStep>::const_iterator step = exe.steps.begin();
  for (std::uint32_t at = 0; at < exe.steps.size(); ++at, ++step) {
    const BoundStep& b = *step;
    bool interruptible = state.interruptible && at < s.commit;
    if (interruptible) check_interrupt();
    transfers.before(at);
    late.wait(b);
    if (state.observer) state.observer->before(state, at);
    state.asked = at + 1;
    std::int64_t extents[8];
    try {
      if (b.device != 0)
        ask(b, state);
      else if (!b.task)
        std::memcpy(state.buffers[b.buffers[1]], state.buffers[b.buffers[0]],
                    static_cast<std::size_t>(b.widths[0]));
      else if (b.task->kind == Task::Kind::Kernel)
        run_kernel(b, state, l.threads);
      else if (b.task->kind == Task::Kind::Sizes)
        run_sizes(b, state, l.program.type(b.task->writes[0]).dtype);
      else
        run_library(b, s, state, extents, interruptible);
      if (b.device != 0) late.mark(b);
    } catch (Error& e) {
      if (b.task) e.locate(b.task->origin);
      throw;
    }
    if (state.observer && b.device != 0) late.finish();
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
  late.end();
}

}  // namespace snug
