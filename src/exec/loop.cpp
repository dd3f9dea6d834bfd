#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "exec/executable.h"

namespace snug {
namespace {

std::uint64_t align_up(std::uint64_t n) { return (n + 63) / 64 * 64; }

/// A loop with its inner plan. Everything the body needs lies in the workspace, so the loop is
/// planned with the rest of the function.
class LoopCall : public PreparedCall {
 public:
  LoopCall(const Lowered& inner, const CallSite& site) : l_(inner) {
    const Attrs& a = site.node->attrs;
    n_seq_ = static_cast<std::size_t>(a.integer("n_seq"));
    n_state_ = static_cast<std::size_t>(a.integer("n_state"));
    n_out_ = static_cast<std::size_t>(a.integer("n_out"));
    block_ = a.integer("block");
    count_ = site.size_values[0][0];
    const SizeTable& table = l_.program.graph.sizes();
    std::vector<std::int64_t> low(table.symbols().size()), high(table.symbols().size());
    for (std::size_t s = 0; s < table.symbols().size(); ++s) {
      std::tie(low[s], high[s]) = symbol_bounds(table.symbols()[s], site);
    }
    refuse_unknown_sizes(table, site);
    SizeBounds bounds = bound_sizes(table, low, high);
    PreparedTasks tasks = prepare_tasks(l_, bounds, {});
    tasks.sizes.sizes = bounds.high;
    auto planned = std::make_shared<Planned>();
    planned->schedule = order(l_.program, tasks.sizes);
    planned->plan = pack(planned->schedule);
    exe_ = link(l_, planned, std::move(tasks), std::move(bounds));
    parallel = exe_->parallel;
    plan_workspace(site);
  }

  void run(const RunArgs& args) const override {
    std::int64_t count = args.size_values[0][0];
    std::byte* w = args.workspace;
    auto* sizes = reinterpret_cast<std::int64_t*>(w + sizes_at_);
    auto* symbols = reinterpret_cast<std::int64_t*>(w + symbols_at_);
    RunState state;
    state.sizes = sizes;
    state.buffers = reinterpret_cast<std::byte**>(w + buffers_at_);
    state.arena = w;
    state.descs = reinterpret_cast<ArgDesc*>(w + descs_at_);
    for (std::size_t i = 0; i < exe_->max_operands; ++i) new (&state.descs[i]) ArgDesc;
    state.pointers = reinterpret_cast<std::byte**>(w + pointers_at_);
    bind_arena(*exe_, state);
    auto& index = *reinterpret_cast<std::int64_t*>(w + index_at_);

    if (count == 0)
      for (std::size_t k = 0; k < n_state_; ++k)
        std::memcpy(args.out[k], args.in[n_seq_ + k], bytes(args.out_desc[k]));
    for (index = 0; index < count; ++index) {
      for (const Buffer& b : exe_->planned->schedule.buffers) {
        std::byte*& at = state.buffers[&b - exe_->planned->schedule.buffers.data()];
        if (b.where == Where::Argument) at = argument(args, b.index, index, count, w);
        if (b.where == Where::Output) at = result(args, b.index, index, count, w);
      }
      const SizeTable& table = l_.program.graph.sizes();
      for (std::size_t s = 0; s < table.symbols().size(); ++s)
        symbols[s] = symbol_value(table.symbols()[s], args, index, count, w);
      evaluate_sizes(table, {symbols, table.symbols().size()}, {sizes, table.nodes().size()});
      check_requirements(l_.program.graph, l_.early_requirements, {sizes, table.nodes().size()});
      run_steps(*exe_, state);
    }
  }

 private:
  static std::uint64_t bytes(const ArgDesc& d) {
    return static_cast<std::uint64_t>(product(d.shape) * size_of(d.dtype));
  }

  /// Size of axis `axis` of inner input `input` in iteration `i`.
  std::int64_t inner_dim(const ArgDesc* in, std::uint32_t input, std::uint32_t axis,
                         std::int64_t i) const {
    const ArgDesc& d = in[input - 1];
    if (input > n_seq_) return d.shape[axis];
    if (block_ == 0) return d.shape[axis + 1];
    return axis == 0 ? std::min(block_, d.shape[0] - i * block_) : d.shape[axis];
  }

  std::pair<std::int64_t, std::int64_t> symbol_bounds(const Symbol& s, const CallSite& site) const {
    if (s.kind == Symbol::Kind::Element) {
      if (s.input == 0) return {0, std::max<std::int64_t>(count_ - 1, 0)};
      return {0,
              0};  // a value of the run; refuse_unknown_sizes sees to it that no size depends on it
    }
    if (s.kind != Symbol::Kind::Dim) return {0, 0};
    std::int64_t first = inner_dim(site.in.data(), s.input, s.index, 0);
    std::int64_t last =
        inner_dim(site.in.data(), s.input, s.index, std::max<std::int64_t>(count_ - 1, 0));
    return {std::max<std::int64_t>(std::min(first, last), 0), std::max<std::int64_t>(first, 0)};
  }

  void refuse_unknown_sizes(const SizeTable& table, const CallSite& site) const {
    std::vector<bool> unknown(table.nodes().size(), false);
    for (SizeId id = 0; id < table.nodes().size(); ++id) {
      const SizeNode& n = table.node(id);
      if (n.op == SizeOp::Const) continue;
      if (n.op == SizeOp::Symbol)
        unknown[id] =
            table.symbol_of(id).kind == Symbol::Kind::Element && table.symbol_of(id).input != 0;
      else
        unknown[id] = unknown[n.a] || unknown[n.b] || (n.op == SizeOp::Select && unknown[n.c]);
    }
    for (SizeId id : l_.key)
      if (unknown[id])
        throw Error(Fault::Unsupported,
                    "loop: a size inside the body depends on a value computed while it runs",
                    "compute the size outside the loop", site.node->origin);
  }

  void plan_workspace(const CallSite& site) {
    std::uint64_t at = align_up(exe_->planned->plan.bytes);
    auto take = [&](std::uint64_t n) {
      std::uint64_t here = at;
      at += align_up(n);
      return here;
    };
    const SizeTable& table = l_.program.graph.sizes();
    sizes_at_ = take(8 * table.nodes().size());
    symbols_at_ = take(8 * table.symbols().size());
    buffers_at_ = take(8 * exe_->planned->schedule.buffers.size());
    descs_at_ = take(sizeof(ArgDesc) * exe_->max_operands);
    pointers_at_ = take(8 * exe_->max_operands);
    index_at_ = take(8);
    for (std::size_t k = 0; k < n_state_; ++k) state_at_.push_back(take(bytes(site.out[k])));
    workspace = at;
  }

  /// A state moves between its place in the outputs and one in the workspace, so that the last
  /// iteration writes the output.
  std::byte* state_after(const RunArgs& args, std::size_t k, std::int64_t i, std::int64_t count,
                         std::byte* w) const {
    return (count - 1 - i) % 2 == 0 ? args.out[k] : w + state_at_[k];
  }

  std::byte* argument(const RunArgs& args, std::uint32_t input, std::int64_t i, std::int64_t count,
                      std::byte* w) const {
    if (input == 0) return w + index_at_;
    std::size_t k = input - 1;
    if (k < n_seq_) {
      const ArgDesc& d = args.in_desc[k];
      std::int64_t row =
          product(d.shape) == 0 ? 0 : product(d.shape) / d.shape[0] * size_of(d.dtype);
      return args.in[k] + row * (block_ ? i * block_ : i);
    }
    if (k < n_seq_ + n_state_ && i > 0) return state_after(args, k - n_seq_, i - 1, count, w);
    return args.in[k];
  }

  std::byte* result(const RunArgs& args, std::uint32_t output, std::int64_t i, std::int64_t count,
                    std::byte* w) const {
    if (output < n_state_) return state_after(args, output, i, count, w);
    const ArgDesc& d = args.out_desc[output];
    std::int64_t row = product(d.shape) == 0 ? 0 : product(d.shape) / d.shape[0] * size_of(d.dtype);
    return args.out[output] + row * (block_ ? i * block_ : i);
  }

  std::int64_t symbol_value(const Symbol& s, const RunArgs& args, std::int64_t i,
                            std::int64_t count, std::byte* w) const {
    if (s.kind == Symbol::Kind::Dim) return inner_dim(args.in_desc, s.input, s.index, i);
    if (s.kind != Symbol::Kind::Element) return 0;
    if (s.input == 0) return i;
    return read_integer(argument(args, s.input, i, count, w), args.in_desc[s.input - 1].dtype);
  }

  const Lowered& l_;
  std::unique_ptr<Executable> exe_;
  std::size_t n_seq_, n_state_, n_out_;
  std::int64_t block_, count_;
  std::uint64_t sizes_at_, symbols_at_, buffers_at_, descs_at_, pointers_at_, index_at_;
  std::vector<std::uint64_t> state_at_;
};

}  // namespace

std::unique_ptr<PreparedCall> prepare_loop(const Lowered& lowered, const Task& task,
                                           const CallSite& site) {
  return std::make_unique<LoopCall>(*lowered.inner.at(task.index), site);
}

}  // namespace snug
