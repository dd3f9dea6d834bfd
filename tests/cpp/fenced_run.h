#pragma once
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "compile.h"
#include "expr/evaluate_sizes.h"
#include "graph/capture.h"

/// Compiled functions that run on memory of the test, which sees what they touch.
namespace snug {

constexpr std::byte kCanary{0xff};  // NaN for floats, far out of range for indices

/// Memory between a page of canaries and a page that nobody may touch, filled with canaries.
class Fenced {
 public:
  /// Kernels count on arrays of the user at multiples of their element's size only, so that these
  /// end at the fence; with an alignment there may be a few canaries between.
  explicit Fenced(std::uint64_t bytes, std::uint64_t align = 1) : bytes_(bytes) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t inside = (bytes + align + 2 * page - 1) / page * page;
    mapped_ = inside + page;
    void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(p, MAP_FAILED);
    base_ = static_cast<std::byte*>(p);
    fence_ = base_ + inside;
    EXPECT_EQ(mprotect(fence_, page, PROT_NONE), 0);
    data = base_ + (inside - bytes) / align * align;
    std::memset(base_, static_cast<int>(kCanary), inside);
  }
  ~Fenced() { munmap(base_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  std::uint64_t size() const { return bytes_; }
  /// Nobody wrote around it.
  bool intact() const {
    const auto untouched = [](const std::byte* begin, const std::byte* end) {
      return begin == end ||
             (*begin == kCanary && std::memcmp(begin, begin + 1, end - begin - 1) == 0);
    };
    return untouched(base_, data) && untouched(data + bytes_, fence_);
  }
  std::byte* data = nullptr;

 private:
  std::byte *base_ = nullptr, *fence_ = nullptr;
  std::uint64_t bytes_, mapped_;
};

/// A function planned for the sizes of its arguments, and all memory that one run needs but the
/// arena.
class FencedRun {
 public:
  /// `copied`: the first argument has its copy in the arena.
  FencedRun(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
            const std::vector<std::pair<Expr, Expr>>& updates, const std::vector<Array>& arguments,
            CompileOptions options, bool copied)
      : options_(options), values_(arguments) {
    CompileTrace trace;
    lowered_ = lower(capture({inputs, outputs, updates, {}, true}).graph, options_, trace);
    generate_code(*lowered_, trace);
    const Graph& g = lowered_->program.graph;
    for (const GraphInput& in : g.inputs())
      if (in.shared) values_.push_back(in.shared->get_value());
    for (const Symbol& s : g.sizes().symbols())
      symbols_.push_back(s.kind == Symbol::Kind::Dim       ? values_[s.input].shape[s.index]
                         : s.kind == Symbol::Kind::Element ? values_[s.input].at_int(s.index)
                                                           : 0);
    kind_.same_shape.assign(g.updates().size(), true);
    kind_.copied.assign(arguments.size(), false);
    kind_.copied[0] = copied;
    plan(0);
  }

  void plan(std::uint64_t budget) {
    options_.budgets.set(0, budget);
    const SizeTable& sizes = lowered_->program.graph.sizes();
    exe = instantiate(*lowered_, bound_sizes(sizes, symbols_, symbols_), kind_, {0}, options_, {});
  }

  /// Fills the memory of the caller: arguments, shared variables, room for results.
  void bind() {
    const Schedule& s = exe->planned->schedule;
    const Graph& g = lowered_->program.graph;
    sizes_.resize(g.sizes().nodes().size());
    evaluate_sizes(g.sizes(), sizes_, symbols_);
    buffers.assign(s.buffers.size(), nullptr);
    pointers_.resize(exe->max_operands);
    descs_.resize(exe->max_operands);
    held.clear();
    std::vector<std::byte*> shared(g.inputs().size());
    auto hold = [&](std::uint64_t bytes) {
      held.push_back(std::make_unique<Fenced>(bytes));
      return held.back()->data;
    };
    there.clear();
    const auto hold_on = [&](DeviceId device, std::uint64_t bytes, const std::byte* value) {
      if (device == 0) {
        std::byte* const here = hold(bytes);
        if (value) std::memcpy(here, value, bytes);
        return here;
      }
      there.push_back(lowered_->devices->accelerator(device).allocate(bytes, "a value"));
      if (value) there.back()->write(there.back()->data(), value, bytes);
      return there.back()->data();
    };
    const auto home_of = [&](const Buffer& buf) {
      return buf.where == Where::Shared || buf.where == Where::Fresh
                 ? g.node(g.inputs()[buf.index].value).device
                 : DeviceId{0};
    };
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
      const Buffer& buf = s.buffers[b];
      if (buf.where == Where::Shared && shared[buf.index]) {
        buffers[b] = shared[buf.index];
      } else if (buf.where == Where::Argument || buf.where == Where::Shared) {
        const Array& v = values_[buf.index];
        buffers[b] = hold_on(home_of(buf), static_cast<std::uint64_t>(v.bytes()), v.data);
        if (buf.where == Where::Shared) shared[buf.index] = buffers[b];
      } else if (buf.where == Where::Output || buf.where == Where::Fresh) {
        buffers[b] = hold_on(home_of(buf), buf.bytes, nullptr);
      }
    }
    open_queues();
    state.sizes = sizes_.data();
    state.buffers = buffers.data();
    state.descs = descs_.data();
    state.pointers = pointers_.data();
  }

  /// Runs with every buffer and workspace in memory of its own, and gives the outputs. Nothing
  /// around any of them may have changed.
  std::vector<Array> run_apart() {
    bind();
    std::byte* none = nullptr;
    state.arenas = &none;
    bind_arena(*exe, state);
    const Schedule& s = exe->planned->schedule;
    const auto takes_over = [&](const Buffer& b) {
      return b.where == Where::Arena && b.in_place_of >= 0;
    };
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
      const Buffer& buf = s.buffers[b];
      if (buf.where != Where::Arena || takes_over(buf)) continue;
      held.push_back(std::make_unique<Fenced>(buf.bytes, 64));
      buffers[b] = held.back()->data;
    }
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b) {
      std::uint32_t first = b;
      while (takes_over(s.buffers[first])) first = s.buffers[first].in_place_of;
      buffers[b] = buffers[first];
    }
    make_ready(*exe);
    run_steps(*exe, state);
    for (const auto& h : held) EXPECT_TRUE(h->intact()) << "bytes around a buffer were written";
    const Graph& g = lowered_->program.graph;
    std::vector<Array> results;
    for (Value v : g.outputs()) {
      Dims shape;
      for (SizeId d : g.type(v).dims) shape.push_back(sizes_[d]);
      results.push_back(Array::empty(g.type(v).dtype, shape));
    }
    for (std::uint32_t b = 0; b < s.buffers.size(); ++b)
      if (s.buffers[b].where == Where::Output) {
        Array& to = results[s.buffers[b].index];
        EXPECT_EQ(static_cast<std::uint64_t>(to.bytes()), s.buffers[b].bytes);
        std::memcpy(to.data, buffers[b], static_cast<std::size_t>(to.bytes()));
      }
    return results;
  }

  std::unique_ptr<Executable> exe;
  RunState state;
  std::vector<std::byte*> buffers;                   // set by bind; in the arena: by bind_arena
  std::vector<std::unique_ptr<Fenced>> held;         // what of them is outside the arena
  std::vector<std::shared_ptr<DeviceMemory>> there;  // likewise, on devices

  Accelerator& device(DeviceId d) const { return lowered_->devices->accelerator(d); }

 private:
  void open_queues() {
    queues_.clear();
    queue_pointers_.assign(exe->marks.size(), nullptr);
    for (std::size_t d = 1; d < exe->marks.size(); ++d) {
      if (exe->marks[d] == 0) continue;
      queues_.push_back(device(static_cast<DeviceId>(d)).open(exe->marks[d]));
      queue_pointers_[d] = queues_.back().get();
    }
    state.queues = queue_pointers_.data();
  }

  std::vector<std::unique_ptr<CommandQueues>> queues_;
  std::vector<CommandQueues*> queue_pointers_;
  CompileOptions options_;
  std::vector<Array> values_;  // arguments, then shared variables
  std::unique_ptr<Lowered> lowered_;
  std::vector<std::int64_t> symbols_, sizes_;
  CallKind kind_;
  std::vector<std::byte*> pointers_;
  std::vector<ArgDesc> descs_;
};

}  // namespace snug
