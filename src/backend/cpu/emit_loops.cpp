#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>
#include <optional>

#include "backend/cpu/emit.h"
#include "backend/cpu/kernel_emitter.h"

namespace snug {

using namespace llvm;
using Mode = VectorPlan::Mode;

// Below this a result may still be in the last cache when it is needed.
constexpr std::int64_t kStreamingBytes = std::int64_t{24} << 20;
// Of the vector axis, before the next piece of the turned one: what it touches stays in caches.
constexpr std::int64_t kTurnedBlock = 128;
constexpr std::int64_t kStripBytes = 256;  // of a row: a block of rows fits the first cache
constexpr std::int64_t kRowChunk = 64;     // whole vectors, whatever the period
constexpr unsigned kSplatBytes = 32;       // stores that overlap more wait for each other
constexpr std::int64_t kPrefetchBytes = 2048, kPrefetchRows = 8, kLineBytes = 64;

struct KernelEmitter::Scope {
  explicit Scope(KernelEmitter& emitter)
      : e(emitter),
        pointer(e.pointer_),
        index(e.index_),
        mask(e.mask_),
        row(e.flat_row_),
        column(e.flat_column_),
        start(e.flat_start_),
        remaining(e.remaining_),
        copies(e.copies_),
        in(e.in_vectors_) {}
  ~Scope() {
    e.pointer_ = pointer;
    e.index_ = index;
    e.mask_ = mask;
    e.flat_row_ = row;
    e.flat_column_ = column;
    e.flat_start_ = start;
    e.remaining_ = remaining;
    e.copies_ = copies;
    e.in_vectors_ = in;
    e.philox_.clear();  // values of an inner block do not reach the blocks behind it
  }
  KernelEmitter& e;
  std::vector<V> pointer, index, mask;
  V row, column, start, remaining;
  unsigned copies;
  bool in;
};

KernelEmitter::KernelEmitter(const KernelSpec& spec, const VectorPlan& vectors, const HostCpu& host,
                             Function* function)
    : s(spec),
      plan(vectors),
      f(function),
      b(function->getContext()),
      math(b, host, spec.strict),
      lanes(plan.lanes),
      vector_bits_(static_cast<unsigned>(host.vector_bits)) {}

void KernelEmitter::emit() {
  b.SetInsertPoint(BasicBlock::Create(f->getContext(), "entry", f));
  // Allocas are put at the head of the entry block, so the code proper has its own.
  BasicBlock* start = BasicBlock::Create(f->getContext(), "start", f);
  b.CreateBr(start);
  b.SetInsertPoint(start);
  V operands = f->getArg(0), ints = f->getArg(1);
  begin_ = f->getArg(2);
  end_ = f->getArg(3);
  auto read = [&](std::size_t at) {
    return b.CreateLoad(b.getInt64Ty(), b.CreateConstGEP1_64(b.getInt64Ty(), ints, at));
  };
  for (std::size_t axis = 0; axis < s.rank(); ++axis)
    extent_.push_back(s.extents[axis] == KernelSpec::kRuntime ? read(axis) : i64(s.extents[axis]));
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    pointer_.push_back(b.CreateLoad(b.getPtrTy(), b.CreateConstGEP1_64(b.getPtrTy(), operands, o)));
    std::vector<V> strides;
    for (std::size_t axis = 0; axis < s.rank(); ++axis) {
      std::int64_t c = s.operands[o].strides[axis];
      strides.push_back(
          c == KernelSpec::Operand::kRuntimeStride ? read(s.rank() + o * s.rank() + axis) : i64(c));
    }
    stride_.push_back(strides);
  }
  index_.assign(s.rank(), i64(0));
  values_.resize(s.body.size());
  ready_.resize(s.body.size());

  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < s.outer; ++axis)
    if (!plan.is_vector_axis(axis) && axis != plan.turn_axis) axes.push_back(axis);
  auto points = [&] {
    bool across = plan.mode == Mode::Outer || plan.mode == Mode::Flat;
    if (!across) return outer_point();
    if (plan.rows) return rows_or_strips();
    if (plan.turns() && plan.turn_axis < s.outer) return turned_points();
    if (runtime_period()) return chunks_of_rows();
    vector_points();
  };
  if (s.outer == 0)
    when(b.CreateICmpSLT(begin_, end_), points);
  else
    nest(axes, 0, points);
  b.CreateRetVoid();
}

KernelEmitter::Range KernelEmitter::range_of(std::size_t axis) {
  if (axis == 0 && s.outer > 0) return {begin_, end_};
  if (s.block == 0 || axis != s.outer) return {i64(0), extent_[axis]};
  V low = b.CreateMul(index_[0], i64(s.block));
  V high = b.CreateAdd(low, i64(s.block));
  return {low, b.CreateBinaryIntrinsic(Intrinsic::smin, high, extent_[axis])};
}

void KernelEmitter::when(V condition, const std::function<void()>& body) {
  auto* then = BasicBlock::Create(f->getContext(), "then", f);
  auto* after = BasicBlock::Create(f->getContext(), "after", f);
  b.CreateCondBr(condition, then, after);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void KernelEmitter::loop(Range range, V step, const Body& body) {
  when(b.CreateICmpSLT(range.begin, range.end), [&] {
    BasicBlock* from = b.GetInsertBlock();
    auto* head = BasicBlock::Create(f->getContext(), "loop", f);
    auto* after = BasicBlock::Create(f->getContext(), "end", f);
    b.CreateBr(head);
    b.SetInsertPoint(head);
    PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(range.begin, from);
    body(i);
    V next = b.CreateNSWAdd(i, step);
    i->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, range.end), head, after);
    b.SetInsertPoint(after);
  });
}

void KernelEmitter::enter(std::size_t axis, V index) {
  index_[axis] = index;
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    if (s.operands[o].strides[axis] == 0) continue;
    pointer_[o] = b.CreateGEP(memory_type(s.operands[o].dtype), pointer_[o],
                              b.CreateMul(index, stride_[o][axis]));
  }
}

/// The start of a vector in Flat mode: position = row * period + column. Operands that run through
/// both axes move by position, the others by row; their lanes add the rest.
void KernelEmitter::enter_flat(V position) {
  flat_start_ = position;
  if (!runtime_period()) flat_row_ = b.CreateUDiv(position, period_);
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    if (runtime_period() && !contiguous(o)) continue;
    V by = contiguous(o) ? position : b.CreateMul(flat_row_, stride_[o][plan.axis - 1]);
    pointer_[o] = b.CreateGEP(memory_type(s.operands[o].dtype), pointer_[o], by);
  }
}

/// Copies the rows that do not change between rows of the result, over and over: vector k of a
/// result that begins with a row needs vector k % period of the copy.
void KernelEmitter::repeat_rows() {
  next_repeated_ = math.local(b.getInt64Ty());
  V vectors = b.CreateAdd(period_, i64(plan.unroll - 1));
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    if (contiguous(o) || uniform(o) || one_per_row(o)) continue;
    Type* scalar = memory_type(s.operands[o].dtype);
    auto* type = FixedVectorType::get(scalar, lanes);
    AllocaInst* rows = math.local(ArrayType::get(type, kMaxRuntimePeriod + plan.unroll - 1));
    repeated_[o] = rows;
    AllocaInst* column = math.local(b.getInt64Ty());
    b.CreateStore(i64(0), column);
    loop({i64(0), b.CreateMul(vectors, i64(lanes))}, i64(1), [&](V i) {
      V j = b.CreateLoad(b.getInt64Ty(), column);
      V from = b.CreateGEP(scalar, pointer_[o], b.CreateMul(j, stride_[o][plan.axis]));
      Align align(size_of(s.operands[o].dtype));
      b.CreateAlignedStore(b.CreateAlignedLoad(scalar, from, align), b.CreateGEP(scalar, rows, i),
                           align);
      j = b.CreateAdd(j, i64(1));
      b.CreateStore(b.CreateSelect(b.CreateICmpEQ(j, period_), i64(0), j), column);
    });
  }
}

/// The result begins with a row.
void KernelEmitter::start_rows() {
  if (!next_repeated_) repeat_rows();
  b.CreateStore(i64(0), next_repeated_);
}

/// After `copies` vectors of the result.
void KernelEmitter::next_vectors(unsigned copies) {
  V step = b.CreateURem(i64(copies), period_);
  V next = b.CreateAdd(b.CreateLoad(b.getInt64Ty(), next_repeated_), step);
  V wrapped = b.CreateSub(next, period_);
  b.CreateStore(b.CreateSelect(b.CreateICmpSLT(next, period_), next, wrapped), next_repeated_);
}

void KernelEmitter::nest(const std::vector<std::size_t>& axes, std::size_t at,
                         const std::function<void()>& inside) {
  if (at == axes.size()) return inside();
  loop(range_of(axes[at]), i64(1), [&](V i) {
    Scope scope(*this);
    enter(axes[at], i);
    nest(axes, at + 1, inside);
  });
}

/// Whole vectors, `unroll` or `width` at a time, then the rest under a mask. What does not differ
/// between lanes is computed before, from the phases in `hoisted`.
void KernelEmitter::vector_loop(unsigned tail_copies, const std::vector<KernelSpec::Phase>& hoisted,
                                const std::function<void()>& body) {
  bool flat = plan.mode == Mode::Flat;
  Range range = vector_range_ ? *vector_range_ : range_of(flat ? plan.axis - 1 : plan.axis);
  if (flat) {
    period_ = plan.period ? i64(plan.period) : extent_[plan.axis];
    range.begin = b.CreateMul(range.begin, period_);
    range.end = b.CreateMul(range.end, period_);
  }
  bool whole_periods = flat && plan.period && plan.unroll * lanes % plan.period == 0;
  when(b.CreateICmpSLT(range.begin, range.end), [&] {
    Scope scope(*this);
    for (const KernelSpec::Phase& p : hoisted) hoist(p);
    if (runtime_period()) start_rows();
    std::vector<bool> ready = ready_;
    V middle = range.begin;
    if (!plan.masked_only) {
      lanes = plan.lanes * plan.width;
      V step = i64(plan.unroll * lanes);
      V count = b.CreateSub(range.end, range.begin);
      V whole = b.CreateSub(count, b.CreateURem(count, step));
      middle = b.CreateAdd(range.begin, whole);
      when(b.CreateICmpSLT(range.begin, middle), [&] {
        Scope inside(*this);
        if (whole_periods)
          for (const KernelSpec::Phase& p : hoisted) hoist_periodic(p);
        auto run = [&] {
          loop({range.begin, middle}, step,
               [&](V i) { at_vectors(i, plan.unroll, nullptr, body); });
        };
        if (!plan.streaming) return run();
        V stream = worth_streaming(range.begin);
        when(stream, [&] {
          streaming_ = true;
          run();
          streaming_ = false;
          b.CreateIntrinsic(Intrinsic::x86_sse_sfence, {}, {});  // others may read it after us
        });
        when(b.CreateNot(stream), run);
      });
      lanes = plan.lanes;
      ready_ = ready;
    }
    vector_tail({middle, range.end}, tail_copies, body);
    ready_.assign(ready_.size(), false);
  });
}

/// What whole vectors have left. Up to `copies` vectors run at once, since each has its own inner
/// loops: whole ones by halves, down to masked_copies, then the rest under masks.
void KernelEmitter::vector_tail(Range range, unsigned copies, const std::function<void()>& body) {
  const unsigned masked_copies = vector_bits_ == 512 ? 8 : 4;
  auto masked = [&](V from, unsigned count) {
    at_vectors(from, count, b.CreateSub(range.end, from), body);
  };
  if (copies == 1) {
    if (plan.prefetch &&
        plan.mode == Mode::Inner) {  // rows of less than a whole iteration are mostly whole vectors
      V left = b.CreateSub(range.end, range.begin);
      V middle = b.CreateSub(range.end, b.CreateURem(left, i64(lanes)));
      loop({range.begin, middle}, i64(lanes), [&](V i) { at_vectors(i, 1, nullptr, body); });
      range.begin = middle;
    }
    return loop(range, i64(lanes), [&](V i) { masked(i, 1); });
  }
  for (unsigned count = plan.masked_only ? 0 : copies / 2; count >= masked_copies; count /= 2) {
    V left = b.CreateSub(range.end, range.begin), size = i64(count * lanes);
    V fits = b.CreateICmpSGE(left, size);
    when(fits, [&] { at_vectors(range.begin, count, nullptr, body); });
    range.begin = b.CreateSelect(fits, b.CreateAdd(range.begin, size), range.begin);
  }
  V left = b.CreateSub(range.end, range.begin);
  for (unsigned count = std::min(copies, masked_copies); count > 0; count /= 2) {
    V is_more = b.CreateICmpSGT(left, i64(count / 2 * lanes));
    V is_all = b.CreateICmpSLE(left, i64(count * lanes));
    when(b.CreateAnd(is_more, is_all), [&] { masked(range.begin, count); });
  }
}

/// Whole vectors of this operand are whole cache lines, written once and not read here.
bool KernelEmitter::streams(std::size_t o) const {
  const KernelSpec::Operand& x = s.operands[o];
  for (const Instr& in : s.body)
    if (in.prim == Prim::Load && static_cast<std::size_t>(in.integer) == o) return false;
  bool whole = lanes * size_of(x.dtype) * 8 == vector_bits_;
  return x.write && x.may_alias < 0 && whole && !uniform(o) && contiguous(o);
}

/// The result is larger than caches and every streamed operand is aligned.
Value* KernelEmitter::worth_streaming(V begin) {
  V points = i64(1);
  for (std::size_t axis = 0; axis < s.outer; ++axis) points = b.CreateMul(points, extent_[axis]);
  V worth = b.getFalse();
  V misaligned = i64(0);
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    if (!streams(o)) continue;
    std::int64_t width = size_of(s.operands[o].dtype);
    worth = b.CreateOr(worth, b.CreateICmpSGE(points, i64(kStreamingBytes / width)));
    V address =
        b.CreateAdd(b.CreatePtrToInt(pointer_[o], b.getInt64Ty()), b.CreateMul(begin, i64(width)));
    misaligned = b.CreateOr(misaligned, b.CreateAnd(address, i64(lanes * width - 1)));
  }
  return b.CreateAnd(worth, b.CreateICmpEQ(misaligned, i64(0)));
}

/// Asks for what is read a little later: the CPU's own guesses end with each page. With two arrays
/// or more to read it gains nothing.
void KernelEmitter::prefetch() {
  if (const auto o = only_read()) prefetch_vectors(*o, i64(kPrefetchBytes));
}

/// The same where vectors go down columns: of a row that comes some rows later.
void KernelEmitter::prefetch_row(std::size_t axis) {
  const auto o = only_read();
  if (!o) return;
  const std::int64_t ahead = kPrefetchRows * size_of(s.operands[*o].dtype);
  prefetch_vectors(*o, b.CreateMul(stride_[*o][axis], i64(ahead)));
}

/// The operand that is read as it lies, if there is just one.
std::optional<std::size_t> KernelEmitter::only_read() const {
  std::vector<std::size_t> reads;
  for (std::size_t o = 0; o < s.operands.size(); ++o)
    if (!s.operands[o].write && !uniform(o) && contiguous(o)) reads.push_back(o);
  return reads.size() == 1 ? std::optional(reads[0]) : std::nullopt;
}

/// What the vectors of an iteration read, so many bytes later.
void KernelEmitter::prefetch_vectors(std::size_t o, V ahead) {
  constexpr int kRead = 0, kAllCaches = 3, kData = 1;
  const std::int64_t bytes = copies_ * lanes * size_of(s.operands[o].dtype);
  V from = b.CreateGEP(b.getInt8Ty(), pointer_[o], ahead);
  for (std::int64_t at = 0; at < bytes; at += kLineBytes)
    b.CreateIntrinsic(Intrinsic::prefetch, {b.getPtrTy()},
                      {b.CreateConstGEP1_64(b.getInt8Ty(), from, at), b.getInt32(kRead),
                       b.getInt32(kAllCaches), b.getInt32(kData)});
}

/// One iteration of a vector loop. `remaining`, if given, is how many points are left.
void KernelEmitter::at_vectors(V start, unsigned copies, V remaining,
                               const std::function<void()>& body) {
  Scope scope(*this);
  in_vectors_ = true;
  copies_ = copies;
  mask_.assign(copies, nullptr);
  tile_in_.clear();
  remaining_ = remaining;
  if (remaining) {
    V limit = b.CreateBinaryIntrinsic(Intrinsic::smin, remaining, i64(1 << 20));
    V wide = b.CreateVectorSplat(lanes, b.CreateTrunc(limit, b.getInt32Ty()));
    for (unsigned k = 0; k < copies; ++k) mask_[k] = b.CreateICmpSLT(vector_position(k, 32), wide);
  }
  if (runtime_period()) {
    enter_flat(start);
    if (streaming_) prefetch();
    body();
    return next_vectors(copies);
  }
  if (plan.mode == Mode::Flat) {
    enter_flat(start);
    // Whole periods begin in column 0.
    bool aligned = !remaining && plan.unroll * lanes % plan.period == 0;
    flat_column_ = aligned ? b.getInt32(0)
                           : b.CreateTrunc(b.CreateURem(start, i64(plan.period)), b.getInt32Ty());
  } else {
    enter(plan.axis, start);
  }
  const bool along = plan.mode == Mode::Inner || by_rows_;
  if (streaming_ || (plan.prefetch && along && !remaining)) prefetch();
  body();
}

void KernelEmitter::outer_point() {
  for (const KernelSpec::Phase& phase : s.phases)
    if (phase.inner)
      inner_phase(phase);
    else
      run(phase);
}

/// Vectors of outer points.
void KernelEmitter::vector_points() {
  bool long_inner = s.outer < s.rank() && !plan.unroll_inner;
  std::vector<KernelSpec::Phase> outer;
  for (const KernelSpec::Phase& p : s.phases)
    if (!p.inner) outer.push_back(p);
  vector_loop(long_inner ? plan.unroll : 1, outer, [&] { outer_point(); });
}

/// Partial reductions of few columns stay in registers; of many, memory is best read as it lies.
/// Each column is folded in the same order.
void KernelEmitter::rows_or_strips() {
  std::int64_t widest = 1;
  for (const KernelSpec::Operand& o : s.operands)
    if (!o.write) widest = std::max<std::int64_t>(widest, size_of(o.dtype));
  V few = b.CreateICmpSLE(extent_[plan.axis], i64(kStripBytes / widest));
  when(few, [&] { vector_points(); });
  by_rows_ = true;
  when(b.CreateNot(few), [&] { row_by_row(); });
  by_rows_ = false;
}

/// Short rows, packed: what has one element per row is repeated along it, chunk by chunk, so that
/// it is read as the others are.
void KernelEmitter::chunks_of_rows() {
  std::vector<std::size_t> per_row;
  for (std::size_t o = 0; o < s.operands.size(); ++o)
    if (one_per_row(o)) per_row.push_back(o);
  if (per_row.empty()) return vector_points();
  V period = extent_[plan.axis];
  std::map<std::size_t, V> room;
  for (std::size_t o : per_row) {
    Type* scalar = memory_type(s.operands[o].dtype);
    room[o] = math.local(ArrayType::get(scalar, kRowChunk * kMaxRuntimePeriod + lanes));
  }
  period_ = period;
  repeat_rows();
  Range all = range_of(plan.axis - 1);
  loop(all, i64(kRowChunk), [&](V first) {
    Scope scope(*this);
    V last = b.CreateBinaryIntrinsic(Intrinsic::smin, all.end, b.CreateAdd(first, i64(kRowChunk)));
    for (std::size_t o : per_row) {
      Type* scalar = memory_type(s.operands[o].dtype);
      Align align(size_of(s.operands[o].dtype));
      // What a vector writes beyond its row, the next row writes again.
      loop({first, last}, i64(1), [&](V r) {
        V from = b.CreateGEP(scalar, pointer_[o], b.CreateMul(r, stride_[o][plan.axis - 1]));
        const unsigned some = std::min(lanes, kSplatBytes / static_cast<unsigned>(align.value()));
        V x = b.CreateVectorSplat(some, b.CreateAlignedLoad(scalar, from, align));
        V row = b.CreateGEP(scalar, room[o], b.CreateMul(b.CreateSub(r, first), period));
        loop({i64(0), period}, i64(some),
             [&](V c) { b.CreateAlignedStore(x, b.CreateGEP(scalar, row, c), align); });
      });
      pointer_[o] = b.CreateGEP(scalar, room[o], b.CreateNeg(b.CreateMul(first, period)));
    }
    vector_range_ = Range{first, last};
    vector_points();
    vector_range_.reset();
  });
}

void KernelEmitter::row_by_row() {
  vector_loop(1, {}, [&] { start_partials(); });
  std::vector<std::size_t> axes(s.rank() - s.outer);
  std::iota(axes.begin(), axes.end(), s.outer);
  const std::vector<KernelSpec::Phase> phases(s.phases.begin(), s.phases.end() - 1);
  nest(axes, 0, [&] {
    vector_loop(1, phases, [&] {
      for (const KernelSpec::Phase& phase : phases) run(phase);
    });
  });
}

/// All points of the vector axis and the turned one, both outer axes, in blocks.
void KernelEmitter::turned_points() {
  Range all = range_of(plan.axis), turn = range_of(plan.turn_axis);
  auto least = [&](V x, V y) { return b.CreateBinaryIntrinsic(Intrinsic::smin, x, y); };
  loop(all, i64(kTurnedBlock), [&](V first) {
    vector_range_ = Range{first, least(all.end, b.CreateAdd(first, i64(kTurnedBlock)))};
    loop(turn, i64(kTurnedPiece), [&](V begin) {
      turn_begin_ = begin;
      turn_count_ = least(i64(kTurnedPiece), b.CreateSub(turn.end, begin));
      vector_loop(1, {}, [&] { turned_piece(); });
    });
    vector_range_.reset();
  });
}

/// A vector of points, for each point of a piece of the turned axis.
void KernelEmitter::turned_piece() {
  for (const KernelSpec::Phase& phase : s.phases) {
    open_tiles(phase);
    loop({turn_begin_, b.CreateAdd(turn_begin_, turn_count_)}, i64(1), [&](V i) {
      Scope scope(*this);
      enter(plan.turn_axis, i);
      run(phase);
    });
    close_tiles();
  }
}

void KernelEmitter::inner_phase(const KernelSpec::Phase& phase) {
  for (std::uint32_t i = phase.begin; i < phase.end; ++i)
    if (s.body[i].prim == Prim::Reduce) start_reduce(i);
  if (plan.turns()) {
    turn_begin_ = i64(0);
    turn_count_ = extent_[plan.turn_axis];
  }
  open_tiles(phase);
  std::vector<std::size_t> axes;
  for (std::size_t axis = s.outer; axis < s.rank(); ++axis)
    if (!plan.is_vector_axis(axis)) axes.push_back(axis);
  if (plan.mode == Mode::Inner)
    nest(axes, 0, [&] { vector_loop(1, {phase}, [&] { run(phase); }); });
  else if (plan.unroll_inner)
    unrolled_inner(s.outer, phase);
  else
    nest(axes, 0, [&] {
      if (plan.prefetch && (!remaining_ || copies_ > 1)) prefetch_row(axes.back());
      run(phase);
    });
  close_tiles();
  for (std::uint32_t i = phase.begin; i < phase.end; ++i)
    if (s.body[i].prim == Prim::Reduce) finish_reduce(i);
}

void KernelEmitter::unrolled_inner(std::size_t axis, const KernelSpec::Phase& phase) {
  if (axis == s.rank()) return run(phase);
  for (std::int64_t i = 0; i < s.extents[axis]; ++i) {
    Scope scope(*this);
    enter(axis, i64(i));
    unrolled_inner(axis + 1, phase);
  }
}

/// Emits the instructions of a phase that are equal in all lanes, ahead of the vector loop.
void KernelEmitter::hoist(const KernelSpec::Phase& phase) {
  for (std::uint32_t i = phase.begin; i < phase.end; ++i) {
    const Instr& in = s.body[i];
    if (plan.varying[i] || in.prim == Prim::Store || in.prim == Prim::Reduce) continue;
    if (in.prim == Prim::Load && s.operands[in.integer].write) continue;
    const std::uint32_t operands[] = {in.a, in.b, in.c};
    bool known = true;
    for (int k = 0; k < operand_count(in.prim); ++k)
      known = known && !values_[operands[k]].empty() &&
              (ready_[operands[k]] || operands[k] < phase.begin);
    if (!known) continue;
    instr(i);
    ready_[i] = true;
  }
}

/// Flat mode with whole periods per iteration: loads that depend on the column alone are the same
/// in every iteration.
void KernelEmitter::hoist_periodic(const KernelSpec::Phase& phase) {
  Scope scope(*this);
  in_vectors_ = true;
  copies_ = plan.unroll;
  mask_.assign(copies_, nullptr);
  flat_column_ = b.getInt32(0);
  for (std::uint32_t i = phase.begin; i < phase.end; ++i) {
    const Instr& in = s.body[i];
    if (in.prim != Prim::Load || !plan.varying[i]) continue;
    const KernelSpec::Operand& o = s.operands[in.integer];
    if (o.write || o.strides[plan.axis - 1] != 0) continue;
    instr(i);
    ready_[i] = true;
  }
}

/// The current point in C order of axes [from, to).
Value* KernelEmitter::flat_position(std::size_t from, std::size_t to) {
  V k = i64(0);
  for (std::size_t axis = from; axis < to; ++axis)
    k = b.CreateAdd(b.CreateMul(k, extent_[axis]), index_[axis]);
  return k;
}

namespace {

Function* add_function(const HostCpu& host, const std::string& name, Module& module) {
  LLVMContext& c = module.getContext();
  Type* pointer = PointerType::getUnqual(c);
  Type* integer = Type::getInt64Ty(c);
  auto* type = FunctionType::get(Type::getVoidTy(c), {pointer, pointer, integer, integer}, false);
  auto* f = Function::Create(type, Function::ExternalLinkage, name, module);
  f->addFnAttr(Attribute::NoUnwind);
  f->addFnAttr("target-cpu", host.name);
  f->addFnAttr("target-features", host.features);
  std::string bits = std::to_string(host.vector_bits);
  f->addFnAttr("prefer-vector-width", bits);
  f->addFnAttr("min-legal-vector-width", bits);
  return f;
}

Value* read_int(IRBuilder<>& b, Function* f, std::size_t at) {
  return b.CreateLoad(b.getInt64Ty(), b.CreateConstGEP1_64(b.getInt64Ty(), f->getArg(1), at));
}

/// Rows are short and packed, and there are enough of them to be worth the preparation.
Value* has_short_rows(IRBuilder<>& b, const KernelSpec& s, Function* f, unsigned lanes) {
  constexpr std::int64_t kFewRows = 128;
  std::size_t last = s.rank() - 1;
  auto i64 = [&](std::int64_t v) { return b.getInt64(v); };
  Value* period = read_int(b, f, last);
  Value* rows = last == 1 ? b.CreateSub(f->getArg(3), f->getArg(2)) : read_int(b, f, last - 1);
  Value* yes = b.CreateICmpULE(b.CreateSub(period, i64(1)), i64(kMaxRuntimePeriod - 1));
  yes = b.CreateAnd(yes, b.CreateICmpNE(period, i64(lanes)));
  yes = b.CreateAnd(yes, b.CreateICmpSGE(rows, i64(kFewRows)));
  for (std::size_t o = 0; o < s.operands.size(); ++o)
    if (std::int64_t stride = s.operands[o].strides[last - 1];
        stride != 0 && s.operands[o].strides[last] != 0) {
      bool known = stride != KernelSpec::Operand::kRuntimeStride;
      Value* v = known ? i64(stride) : read_int(b, f, s.rank() + o * s.rank() + last - 1);
      yes = b.CreateAnd(yes, b.CreateICmpEQ(v, period));
    }
  return yes;
}

/// The form's short axis is short, and its vector axis is not. Extents alone decide it, so results
/// do not depend on how the points are shared.
Value* holds(IRBuilder<>& b, Function* f, const KernelForm& form) {
  Value* is_short = b.CreateICmpSLE(read_int(b, f, form.short_axis), b.getInt64(form.longest));
  Value* is_long = b.CreateICmpSGE(read_int(b, f, form.plan.axis), b.getInt64(form.plan.lanes));
  return b.CreateAnd(is_short, is_long);
}

}  // namespace

void emit_kernel(const KernelSpec& spec, const HostCpu& host, const std::string& symbol,
                 Module& module) {
  Function* f = add_function(host, symbol, module);
  VectorPlan plan = plan_vectors(spec, host);
  std::optional<VectorPlan> short_rows = plan_short_rows(spec, host);
  std::optional<KernelForm> turned = plan_turned_rows(spec, host);
  if (!short_rows && !turned) return KernelEmitter(spec, plan, host, f).emit();

  // Several forms; which one holds is known when it runs.
  LLVMContext& c = module.getContext();
  IRBuilder<> b(BasicBlock::Create(c, "entry", f));
  auto call = [&](const char* name, const VectorPlan& form) {
    Function* g = add_function(host, symbol + name, module);
    g->setLinkage(Function::InternalLinkage);
    KernelEmitter(spec, form, host, g).emit();
    b.CreateCall(g, {f->getArg(0), f->getArg(1), f->getArg(2), f->getArg(3)})->setTailCall();
    b.CreateRetVoid();
  };
  auto call_if = [&](Value* condition, const char* name, const VectorPlan& form) {
    auto* yes = BasicBlock::Create(c, "yes", f);
    auto* no = BasicBlock::Create(c, "no", f);
    b.CreateCondBr(condition, yes, no);
    b.SetInsertPoint(yes);
    call(name, form);
    b.SetInsertPoint(no);
  };
  if (short_rows)
    call_if(has_short_rows(b, spec, f, short_rows->lanes), "_short_rows", *short_rows);
  if (turned) call_if(holds(b, f, *turned), "_turned", turned->plan);
  call("_any", plan);
}

}  // namespace snug
