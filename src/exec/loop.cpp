#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "base/interrupt.h"
#include "base/label_error.h"
#include "cost/tasks.h"
#include "exec/loop_call.h"
#include "expr/evaluate_sizes.h"
#include "plan/queues.h"

namespace snug {
namespace {

std::uint64_t align_up(std::uint64_t n) { return (n + 63) / 64 * 64; }

/// The body with another plan.
void link_again(LoopCall::Body& body, const std::shared_ptr<const Planned>& planned) {
  if (body.exe->planned == planned) return;
  PreparedTasks tasks{std::move(body.exe->calls), body.sizes};
  SizeBounds bounds = std::move(body.exe->bounds);
  body.exe = link(*body.exe->lowered, planned, std::move(tasks), std::move(bounds));
}

}  // namespace

std::vector<std::uint32_t> loop_size_inputs(const Graph& body) {
  std::vector<std::uint32_t> out{0};
  for (const Symbol& s : body.sizes().symbols())
    if (s.kind == Symbol::Kind::Element && s.input != 0) out.push_back(s.input);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

LoopCall::LoopCall(const Lowered& inner, const CallSite& site)
    : l_(inner), shape_(LoopShape::of(site.node->attrs)), device_(site.node->device) {
  checks_ = requirements_vary(inner);
  const std::vector<std::uint32_t> sized = loop_size_inputs(inner.program.graph);
  size_slots_.assign(site.node->inputs.size(), 0);
  for (std::size_t k = 0; k < sized.size(); ++k)
    if (sized[k] >= shape_.first_seen_by_all() && !site.size_values[sized[k]].empty())
      size_slots_[sized[k]] = static_cast<std::uint32_t>(k);
  refuse_unknown_sizes(site);
  SNUG_CHECK(!site.size_values[0].empty(), "loop: the number of iterations is not known");
  count_ = site.size_values[0][0];
  const std::int64_t last = std::max<std::int64_t>(count_ - 1, 0);
  if (shape_.blocks) block_rows_ = inner_dim(site.in.data(), 1, 0, 0, count_);
  // All blocks but the last have one size, so each of the two gets code for its own.
  if (shape_.blocks && inner_dim(site.in.data(), 1, 0, last, count_) != block_rows_) {
    body_ = instantiate(site, 0, last - 1);
    last_ = instantiate(site, last, last);
  } else {
    body_ = instantiate(site, 0, last);
  }
  blas_buffers = std::max(body_.exe->blas_buffers, last_.exe ? last_.exe->blas_buffers : 0);
  LoopPlan plain{body_.exe->planned, last_.exe ? last_.exe->planned : nullptr, 0};
  plain.seconds = plain.body->seconds * static_cast<double>(count_ - (plain.last ? 1 : 0)) +
                  (plain.last ? plain.last->seconds : 0);
  take(plain);
}

const Executable& LoopCall::planned_for() const {
  const auto bytes = [](const Body& body) { return body.exe->planned->plan.bytes(); };
  return last_.exe && bytes(last_) > bytes(body_) ? *last_.exe : *body_.exe;
}

void LoopCall::take(const LoopPlan& plan) {
  link_again(body_, plan.body);
  if (plan.last) link_again(last_, plan.last);
  seconds = plan.seconds;
  tables_ = tables_for(plan);
  workspace = tables_.end;
  elsewhere = elsewhere_of(plan);
}

std::vector<std::pair<std::uint8_t, std::uint64_t>> LoopCall::elsewhere_of(const LoopPlan& plan) {
  std::vector<std::pair<std::uint8_t, std::uint64_t>> out;
  const std::vector<ArenaPlan>& arenas = plan.body->plan.arenas;
  for (Space space = 1; space < arenas.size(); ++space) {
    std::uint64_t bytes = arenas[space].bytes;
    if (plan.last && space < plan.last->plan.arenas.size())
      bytes = std::max(bytes, plan.last->plan.arenas[space].bytes);
    out.emplace_back(space, bytes);
  }
  return out;
}

std::uint64_t LoopCall::bytes_in(DeviceId device, const LoopPlan& plan) const {
  std::uint64_t sum = device == 0 ? workspace_of(plan) : 0;
  for (const auto& [space, bytes] : elsewhere_of(plan))
    if (memory_of(space) == device) sum += bytes;
  return sum;
}

std::uint32_t LoopCall::marks(DeviceId d) const {
  const auto of = [&](const Body& body) {
    return body.exe && d < body.exe->marks.size() ? body.exe->marks[d] : 0;
  };
  return std::max(of(body_), of(last_));
}

LoopCall::Tables LoopCall::tables_for(const LoopPlan& plan) const {
  std::uint64_t at = plan.body->plan.host().bytes;
  std::size_t buffers = plan.body->schedule.buffers.size();
  if (plan.last) {
    at = std::max(at, plan.last->plan.host().bytes);
    buffers = std::max(buffers, plan.last->schedule.buffers.size());
  }
  at = align_up(at);
  auto take = [&](std::uint64_t n) {
    std::uint64_t here = at;
    at += align_up(n);
    return here;
  };
  const SizeTable& table = l_.program.graph.sizes();
  Tables t;
  t.sizes = take(8 * table.nodes().size());
  t.symbols = take(8 * table.symbols().size());
  t.buffers = take(8 * buffers);
  t.descs = take(sizeof(ArgDesc) * max_operands());
  t.pointers = take(8 * max_operands());
  t.index = take(8);
  t.end = at;
  return t;
}

void LoopCall::make_ready() const {
  snug::make_ready(*body_.exe);
  if (last_.exe) snug::make_ready(*last_.exe);
}

void LoopCall::count_code(CodeCount& count) const {
  snug::count_code(*body_.exe, count);
  if (last_.exe) snug::count_code(*last_.exe, count);
}

namespace {
/// Slices within slices count from the outer one's first row; an error leaves no trace.
struct RowsOfSlices {
  std::int64_t before = first_row_of_slice;
  ~RowsOfSlices() { first_row_of_slice = before; }
};
}  // namespace

void LoopCall::run(const RunArgs& args) const {
  const RowsOfSlices rows;
  std::int64_t count = args.size_values[0][0];
  std::byte* w = args.workspace;
  auto* sizes = reinterpret_cast<std::int64_t*>(w + tables_.sizes);
  auto* symbols = reinterpret_cast<std::int64_t*>(w + tables_.symbols);
  RunState state;
  state.sizes = sizes;
  state.buffers = reinterpret_cast<std::byte**>(w + tables_.buffers);
  std::array<std::byte*, kMostSpaces> arenas{};
  for (const auto& [space, bytes] : elsewhere) arenas[space] = args.elsewhere[space];
  arenas[kHostSpace] = w;
  state.arenas = arenas.data();
  state.queues = args.queues;
  state.descs = reinterpret_cast<ArgDesc*>(w + tables_.descs);
  for (std::size_t i = 0; i < max_operands(); ++i) new (&state.descs[i]) ArgDesc;
  state.pointers = reinterpret_cast<std::byte**>(w + tables_.pointers);
  auto& index = *reinterpret_cast<std::int64_t*>(w + tables_.index);

  for (std::size_t k = 0; k < shape_.states; ++k)
    if (args.out[k] != args.in[shape_.sequences + k])
      copy(args, args.out[k], args.in[shape_.sequences + k], bytes(args.out_desc[k]));
  const Executable* bound = nullptr;
  for (index = 0; index < count; ++index) {
    if (args.interruptible) check_interrupt();
    const Executable& exe = last_.exe && index + 1 == count ? *last_.exe : *body_.exe;
    if (bound != &exe) bind_arena(exe, state);
    bound = &exe;
    const std::vector<Buffer>& buffers = exe.planned->schedule.buffers;
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      const Buffer& buffer = buffers[b];
      if (buffer.where == Where::Argument || buffer.where == Where::Shared)
        state.buffers[b] = argument(args, buffer.index, index, count, w);
      else if (buffer.where == Where::Output)
        state.buffers[b] = result(args, buffer.index, index, count);
    }
    const SizeTable& table = l_.program.graph.sizes();
    for (std::size_t s = 0; s < table.symbols().size(); ++s)
      symbols[s] = symbol_value(table.symbols()[s], args, index, count, w);
    evaluate_sizes(table, {sizes, table.nodes().size()},
                   std::span(symbols, table.symbols().size()));
    if (checks_)
      check_requirements(l_.program.graph, l_.early_requirements, {sizes, table.nodes().size()});
    if (shape_.blocks) first_row_of_slice = rows.before + index * block_rows_;
    run_steps(exe, state);
  }
}

void LoopCall::copy(const RunArgs& args, std::byte* to, const std::byte* from,
                    std::uint64_t bytes) const {
  if (device_ == 0) {
    std::memcpy(to, from, bytes);
    return;
  }
  args.queues[device_]->copy(CommandQueues::Compute, to, from, bytes);
  args.queues[device_]->finish();
}

/// The first row of a sequence or joined output in iteration `i`.
std::int64_t LoopCall::first_row(const ArgDesc& d, std::int64_t i, std::int64_t count) const {
  if (!shape_.blocks) return i;
  std::int64_t block = count ? (d.shape[0] + count - 1) / count : 0;
  return std::min(i * block, d.shape[0]);
}

/// Size of axis `axis` of inner input `input` in iteration `i`.
std::int64_t LoopCall::inner_dim(const ArgDesc* in, std::uint32_t input, std::uint32_t axis,
                                 std::int64_t i, std::int64_t count) const {
  const ArgDesc& d = in[input - 1];
  if (input > shape_.sequences) return d.shape[axis];
  if (!shape_.blocks) return d.shape[axis + 1];
  return axis == 0 ? first_row(d, i + 1, count) - first_row(d, i, count) : d.shape[axis];
}

/// An element of an operand that all iterations see, and that is known before running.
bool LoopCall::known(const Symbol& s, const CallSite& site) const {
  return s.input >= shape_.first_seen_by_all() && s.index < site.size_values[s.input].size();
}

/// The body for iterations `first` to `last`, every task once.
LoopCall::Body LoopCall::instantiate(const CallSite& site, std::int64_t first,
                                     std::int64_t last) const {
  const SizeTable& table = l_.program.graph.sizes();
  std::vector<std::int64_t> low(table.symbols().size()), high(table.symbols().size());
  for (std::size_t s = 0; s < table.symbols().size(); ++s)
    std::tie(low[s], high[s]) = symbol_bounds(table.symbols()[s], site, first, last);
  SizeBounds bounds = bound_sizes(table, low, high);
  if (!checks_ && count_ > 0)  // what does not run need not fit
    check_requirements(l_.program.graph, l_.early_requirements, bounds.high);
  CallKind kind;
  kind.same_shape.assign(l_.program.graph.updates().size(), true);
  PreparedTasks tasks = prepare_tasks(l_, bounds, std::move(kind), site.device, site.unbounded);
  tasks.sizes.sizes = bounds.high;
  Body body;
  body.sizes = tasks.sizes;
  auto planned = std::make_shared<Planned>();
  planned->schedule = order(l_.program, tasks.sizes);
  planned->plan = pack(planned->schedule, PackEffort::Thorough);
  add_waits(planned->schedule, planned->plan);
  planned->seconds = planned->plain_seconds = predict_seconds(l_.program, tasks.sizes);
  body.exe = link(l_, planned, std::move(tasks), std::move(bounds));
  return body;
}

std::pair<std::int64_t, std::int64_t> LoopCall::symbol_bounds(const Symbol& s, const CallSite& site,
                                                              std::int64_t first,
                                                              std::int64_t last) const {
  if (s.kind == Symbol::Kind::Element) {
    if (s.input == 0) return {first, last};
    // Not known before running: refuse_unknown_sizes sees to it that no size depends on it.
    if (!known(s, site)) return {0, 0};
    const std::int64_t value = site.size_values[s.input][s.index];
    return {value, value};
  }
  if (s.kind != Symbol::Kind::Dim) return {0, 0};
  std::int64_t size = inner_dim(site.in.data(), s.input, s.index, first, count_);
  return {site.runtime_sizes ? 0 : size, size};
}

void LoopCall::refuse_unknown_sizes(const CallSite& site) const {
  const SizeTable& table = l_.program.graph.sizes();
  std::vector<bool> unknown(table.nodes().size(), false);
  for (SizeId id = 0; id < table.nodes().size(); ++id) {
    const SizeNode& n = table.node(id);
    if (n.op == SizeOp::Const) continue;
    if (n.op == SizeOp::Symbol) {
      const Symbol& s = table.symbol_of(id);
      unknown[id] = (s.kind == Symbol::Kind::Element && s.input != 0 && !known(s, site)) ||
                    (s.kind == Symbol::Kind::Runtime && s.high == SizeTable::kNoSize);
    } else {
      unknown[id] = unknown[n.a] || unknown[n.b] || (n.op == SizeOp::Select && unknown[n.c]);
    }
  }
  for (SizeId id : l_.key)
    if (unknown[id])
      throw UnsupportedError(
          "loop: a size inside the body depends on a value computed while it runs",
          "compute the size outside the loop", site.node->origin);
}

std::size_t LoopCall::max_operands() const {
  return std::max(body_.exe->max_operands, last_.exe ? last_.exe->max_operands : 0);
}

std::byte* LoopCall::argument(const RunArgs& args, std::uint32_t input, std::int64_t i,
                              std::int64_t count, std::byte* w) const {
  if (input == 0) return w + tables_.index;
  std::size_t k = input - 1;
  if (k < shape_.sequences) {
    const ArgDesc& d = args.in_desc[k];
    return args.in[k] + row_bytes(d) * first_row(d, i, count);
  }
  if (k < shape_.sequences + shape_.states) return args.out[k - shape_.sequences];
  return args.in[k];
}

std::byte* LoopCall::result(const RunArgs& args, std::uint32_t output, std::int64_t i,
                            std::int64_t count) const {
  const ArgDesc& d = args.out_desc[shape_.states + output];
  return args.out[shape_.states + output] + row_bytes(d) * first_row(d, i, count);
}

std::int64_t LoopCall::symbol_value(const Symbol& s, const RunArgs& args, std::int64_t i,
                                    std::int64_t count, std::byte* w) const {
  if (s.kind == Symbol::Kind::Dim) return inner_dim(args.in_desc, s.input, s.index, i, count);
  if (s.kind != Symbol::Kind::Element) return 0;
  if (s.input == 0) return i;
  if (const std::uint32_t slot = size_slots_[s.input]) return args.size_values[slot][s.index];
  return read_integer(argument(args, s.input, i, count, w), args.in_desc[s.input - 1].dtype,
                      s.index);
}

std::unique_ptr<PreparedCall> prepare_loop(const Lowered& lowered, const Task& task,
                                           const CallSite& site) {
  return std::make_unique<LoopCall>(*lowered.inner.at(task.index), site);
}

Slices slices_of(const PreparedCall& call) {
  const auto* loop = dynamic_cast<const LoopCall*>(&call);
  return loop && loop->block_rows() > 0 ? Slices{loop->count(), loop->block_rows()} : Slices{};
}

const Executable* loop_body(const PreparedCall& call) {
  const auto* loop = dynamic_cast<const LoopCall*>(&call);
  return loop ? &loop->planned_for() : nullptr;
}

}  // namespace snug
