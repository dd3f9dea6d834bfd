#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backend/cpu/kernel_emitter.h"

namespace snug {

using namespace llvm;
using Mode = VectorPlan::Mode;

namespace {

bool is_arg(ReduceOp r) { return r == ReduceOp::ArgMax || r == ReduceOp::ArgMin; }

Constant* identity(ReduceOp op, DType t, Type* type) {
  bool lowest = op == ReduceOp::Max || op == ReduceOp::ArgMax;
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Any: return Constant::getNullValue(type);
    case ReduceOp::Prod:
    case ReduceOp::All: return is_float(t) ? ConstantFP::get(type, 1.0) : ConstantInt::get(type, 1);
    default: break;
  }
  if (is_float(t)) return ConstantFP::getInfinity(type, lowest);
  unsigned bits = type->getScalarSizeInBits();
  APInt value = is_signed_int(t)
                    ? (lowest ? APInt::getSignedMinValue(bits) : APInt::getSignedMaxValue(bits))
                    : (lowest ? APInt::getMinValue(bits) : APInt::getMaxValue(bits));
  return ConstantInt::get(type, value);
}

}  // namespace

/// Short rows need few bits to count their points.
DType KernelEmitter::position_type() const {
  return plan.turns() && plan.turn_axis >= s.outer ? DType::I32 : DType::I64;
}

void KernelEmitter::start_reduce(std::uint32_t i) {
  const Instr& in = s.body[i];
  auto op = static_cast<ReduceOp>(in.integer);
  DType t = s.body[in.a].dtype;
  bool inner = plan.mode == Mode::Inner;
  bool vector = inner || plan.varying[i];
  unsigned count = inner ? plan.unroll : vector ? copies_ : 1;
  Type* type = register_type(t, vector);
  Type* position = register_type(position_type(), vector);
  Accumulator acc;
  for (unsigned k = 0; k < count; ++k) {
    acc.value.push_back(math.local(type));
    b.CreateStore(identity(op, t, type), acc.value.back());
    if (!is_arg(op)) continue;
    acc.position.push_back(math.local(position));
    b.CreateStore(ConstantInt::getSigned(position, inner ? INT64_MAX : 0), acc.position.back());
  }
  accumulators_[i] = acc;
}

void KernelEmitter::start_partials() {
  for (std::uint32_t i = 0; i < s.body.size(); ++i) {
    if (s.body[i].prim != Prim::Reduce) continue;
    DType t = s.body[i].dtype;
    V start = identity(static_cast<ReduceOp>(s.body[i].integer), t, register_type(t, true));
    for (unsigned k = 0; k < copies_; ++k) store(plan.partial_of[i], k, start, true);
  }
}

void KernelEmitter::fold_partial(std::uint32_t i) {
  const Instr& in = s.body[i];
  for (unsigned k = 0; k < copies_; ++k) {
    V old = load(plan.partial_of[i], k);
    V next = combine(static_cast<ReduceOp>(in.integer), in.dtype, old, operand(in.a, k, true));
    store(plan.partial_of[i], k, next, true);
  }
}

void KernelEmitter::fold(std::uint32_t i) {
  if (by_rows_) return fold_partial(i);
  const Instr& in = s.body[i];
  auto op = static_cast<ReduceOp>(in.integer);
  DType t = s.body[in.a].dtype;
  bool inner = plan.mode == Mode::Inner;
  bool vector = inner || plan.varying[i];
  Accumulator& acc = accumulators_[i];
  unsigned count = vector ? copies_ : 1;
  for (unsigned k = 0; k < count; ++k) {
    V x = operand(in.a, k, vector);
    V old = b.CreateLoad(x->getType(), acc.value[k]);
    V mask = inner ? mask_[k] : nullptr;  // Outer mode: lanes do not mix, so idle ones do no harm
    if (!is_arg(op)) {
      V next = combine(op, t, old, x);
      b.CreateStore(mask ? b.CreateSelect(mask, next, old) : next, acc.value[k]);
      continue;
    }
    V at = flat_position(s.outer, s.rank());
    if (!inner) at = b.CreateTrunc(at, register_type(position_type(), false));
    if (vector) at = b.CreateVectorSplat(lanes, at);
    if (inner) {
      V suffix = i64(1);
      for (std::size_t axis = plan.axis + 1; axis < s.rank(); ++axis)
        suffix = b.CreateMul(suffix, extent_[axis]);
      at = b.CreateAdd(at, b.CreateMul(vector_position(k, 64), b.CreateVectorSplat(lanes, suffix)));
    }
    V old_at = b.CreateLoad(at->getType(), acc.position[k]);
    V take = inner ? better(op, t, x, at, old, old_at) : beats_earlier(op, t, x, old);
    if (mask) take = b.CreateAnd(take, mask);
    b.CreateStore(b.CreateSelect(take, x, old), acc.value[k]);
    b.CreateStore(b.CreateSelect(take, at, old_at), acc.position[k]);
  }
}

/// In Inner mode folds copies, then halves of the vector, always in this order.
void KernelEmitter::finish_reduce(std::uint32_t i) {
  const Instr& in = s.body[i];
  auto op = static_cast<ReduceOp>(in.integer);
  DType t = s.body[in.a].dtype;
  Accumulator& acc = accumulators_[i];
  bool vector = plan.mode == Mode::Inner || plan.varying[i];
  std::vector<V> value, at;
  for (AllocaInst* a : acc.value) value.push_back(b.CreateLoad(register_type(t, vector), a));
  for (AllocaInst* a : acc.position)
    at.push_back(b.CreateSExt(b.CreateLoad(register_type(position_type(), vector), a),
                              register_type(DType::I64, vector)));
  if (plan.mode == Mode::Inner) {
    auto join = [&](V& x, V& x_at, V y, V y_at) {
      if (!is_arg(op)) return void(x = combine(op, t, x, y));
      V take = better(op, t, y, y_at, x, x_at);
      x = b.CreateSelect(take, y, x);
      x_at = b.CreateSelect(take, y_at, x_at);
    };
    at.resize(value.size());
    for (std::size_t half = value.size() / 2; half > 0; half /= 2)
      for (std::size_t k = 0; k < half; ++k) join(value[k], at[k], value[k + half], at[k + half]);
    V x = value[0], x_at = at[0];
    for (unsigned n = lanes; n > 1; n /= 2) {
      V low = halves(x, false), high = halves(x, true);
      V low_at = x_at ? halves(x_at, false) : nullptr;
      V high_at = x_at ? halves(x_at, true) : nullptr;
      join(low, low_at, high, high_at);
      x = low;
      x_at = low_at;
    }
    x = b.CreateExtractElement(x, std::uint64_t{0});
    if (x_at) x_at = b.CreateExtractElement(x_at, std::uint64_t{0});
    value = {x};
    at = {x_at};
  }
  values_[i] = is_arg(op) ? at : value;
  accumulators_.erase(i);
}

Value* KernelEmitter::halves(V x, bool high) {
  unsigned n = cast<FixedVectorType>(x->getType())->getNumElements() / 2;
  SmallVector<int> which;
  for (unsigned k = 0; k < n; ++k) which.push_back(high ? k + n : k);
  return b.CreateShuffleVector(x, which);
}

Value* KernelEmitter::combine(ReduceOp op, DType t, V x, V y) {
  switch (op) {
    case ReduceOp::Sum: return arithmetic({Prim::Add, t}, t, x, y, nullptr);
    case ReduceOp::Prod: return arithmetic({Prim::Mul, t}, t, x, y, nullptr);
    // NaN is tested on the new value alone, beside the chain of dependent operations.
    case ReduceOp::Max: return extreme(Prim::Max, t, y, x);
    case ReduceOp::Min: return extreme(Prim::Min, t, y, x);
    case ReduceOp::Any: return b.CreateOr(x, y);
    default: return b.CreateAnd(x, y);
  }
}

/// x replaces y, which comes before it: it is larger (smaller), or the first NaN.
Value* KernelEmitter::beats_earlier(ReduceOp op, DType t, V x, V y) {
  bool max = op == ReduceOp::ArgMax;
  if (!is_float(t)) return compare(max ? Prim::Gt : Prim::Lt, t, x, y);
  V beats = max ? b.CreateFCmpUGT(x, y) : b.CreateFCmpULT(x, y);
  return b.CreateAnd(beats, b.CreateFCmpORD(y, y));
}

/// x replaces y: it is larger (smaller), or NaN, or equal and earlier.
Value* KernelEmitter::better(ReduceOp op, DType t, V x, V x_at, V y, V y_at) {
  V beats = compare(op == ReduceOp::ArgMax ? Prim::Gt : Prim::Lt, t, x, y);
  V earlier = b.CreateICmpSLT(x_at, y_at);
  V equal = compare(Prim::Eq, t, x, y);
  V take = b.CreateOr(beats, b.CreateAnd(equal, earlier));
  if (!is_float(t)) return take;
  V x_nan = b.CreateFCmpUNO(x, x), y_nan = b.CreateFCmpUNO(y, y);
  return b.CreateOr(take, b.CreateAnd(x_nan, b.CreateOr(b.CreateNot(y_nan), earlier)));
}

}  // namespace snug
