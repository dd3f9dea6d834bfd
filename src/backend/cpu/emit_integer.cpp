// Integer arithmetic and conversions. Nothing here traps or is undefined, whatever the values.
#include <llvm/IR/Intrinsics.h>

#include <cmath>

#include "backend/cpu/kernel_emitter.h"
#include "base/error.h"

namespace snug {

using namespace llvm;

Value* KernelEmitter::int_arithmetic(Prim p, DType t, V x, V y) {
  V zero = math.integer(x, 0);
  if (t == DType::Bool) {
    switch (p) {
      case Prim::Add: return b.CreateOr(x, y);
      case Prim::Sub: return b.CreateXor(x, y);
      case Prim::Mul:
      case Prim::Div:
      case Prim::FloorDiv: return b.CreateAnd(x, y);
      case Prim::Mod: return zero;
      case Prim::Pow: return b.CreateOr(x, b.CreateNot(y));
      default: return x;
    }
  }
  switch (p) {
    case Prim::Add: return b.CreateAdd(x, y);
    case Prim::Sub: return b.CreateSub(x, y);
    case Prim::Mul: return b.CreateMul(x, y);
    case Prim::Div:
    case Prim::FloorDiv:
    case Prim::Mod: return int_divide(p, t, x, y);
    case Prim::Pow: return int_power(t, x, y);
    case Prim::Neg: return b.CreateNeg(x);
    case Prim::Sqr: return b.CreateMul(x, x);
    case Prim::Abs:
      return is_signed_int(t) ? b.CreateSelect(b.CreateICmpSLT(x, zero), b.CreateNeg(x), x) : x;
    case Prim::Sign: {
      V positive = is_signed_int(t) ? b.CreateICmpSGT(x, zero) : b.CreateICmpNE(x, zero);
      V r = b.CreateZExt(positive, x->getType());
      if (!is_signed_int(t)) return r;
      return b.CreateSelect(b.CreateICmpSLT(x, zero), math.integer(x, -1), r);
    }
    case Prim::Floor:
    case Prim::Ceil:
    case Prim::Trunc:
    case Prim::Round: return x;
    default: internal_error(__FILE__, fmt::format("{} on {}", name_of(p), name_of(t)));
  }
}

/// Division by 0 gives 0, of the lowest number by -1 wraps. FloorDiv and Mod round down.
Value* KernelEmitter::int_divide(Prim p, DType t, V x, V y) {
  bool is_signed = is_signed_int(t);
  V zero = math.integer(x, 0), one = math.integer(x, 1);
  V by_zero = b.CreateICmpEQ(y, zero);
  V q;
  if (size_of(t) <= 4) {  // exact in float64, and vectors have no integer division
    V divisor = b.CreateSelect(by_zero, one, y);
    Type* real = math.float_type(x->getType(), true);
    V fx = is_signed ? b.CreateSIToFP(x, real) : b.CreateUIToFP(x, real);
    V fy = is_signed ? b.CreateSIToFP(divisor, real) : b.CreateUIToFP(divisor, real);
    V fq = math.unary(Intrinsic::trunc, b.CreateFDiv(fx, fy));
    q = b.CreateTrunc(math.near_integer(fq), x->getType());
  } else if (is_signed) {
    V lowest = math.integer(x, INT64_MIN);
    V wraps = b.CreateAnd(b.CreateICmpEQ(x, lowest), b.CreateICmpEQ(y, math.integer(x, -1)));
    q = b.CreateSDiv(x, b.CreateSelect(b.CreateOr(by_zero, wraps), one, y));
  } else {
    q = b.CreateUDiv(x, b.CreateSelect(by_zero, one, y));
  }
  V r = b.CreateSub(x, b.CreateMul(q, y));
  if (is_signed && p != Prim::Div) {
    V differs = b.CreateICmpSLT(b.CreateXor(r, y), zero);
    V adjust = b.CreateAnd(b.CreateICmpNE(r, zero), differs);
    q = b.CreateSelect(adjust, b.CreateSub(q, one), q);
    r = b.CreateSelect(adjust, b.CreateAdd(r, y), r);
  }
  return b.CreateSelect(by_zero, zero, p == Prim::Mod ? r : q);
}

/// By squaring. Negative exponents give 0, but for bases 1 and -1.
Value* KernelEmitter::int_power(DType t, V x, V y) {
  bool is_signed = is_signed_int(t);
  V zero = math.integer(x, 0), one = math.integer(x, 1);
  V negative = is_signed ? b.CreateICmpSLT(y, zero) : nullptr;
  V count = is_signed ? b.CreateSelect(negative, zero, y) : y;
  BasicBlock* from = b.GetInsertBlock();
  auto* head = BasicBlock::Create(f->getContext(), "power", f);
  auto* done = BasicBlock::Create(f->getContext(), "powered", f);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  PHINode* result = b.CreatePHI(x->getType(), 2);
  PHINode* square = b.CreatePHI(x->getType(), 2);
  PHINode* left = b.CreatePHI(x->getType(), 2);
  V odd = b.CreateTrunc(left, math.int_type(x->getType(), 1));
  V next = b.CreateSelect(odd, b.CreateMul(result, square), result);
  V squared = b.CreateMul(square, square);
  V rest = b.CreateLShr(left, one);
  result->addIncoming(one, from), result->addIncoming(next, head);
  square->addIncoming(x, from), square->addIncoming(squared, head);
  left->addIncoming(count, from), left->addIncoming(rest, head);
  V any = x->getType()->isVectorTy() ? b.CreateOrReduce(rest) : rest;
  b.CreateCondBr(b.CreateICmpNE(any, Constant::getNullValue(any->getType())), head, done);
  b.SetInsertPoint(done);
  if (!is_signed) return next;
  V odd_y = b.CreateTrunc(y, math.int_type(x->getType(), 1));
  V minus = math.integer(x, -1);
  V inverse = b.CreateSelect(b.CreateICmpEQ(x, minus), b.CreateSelect(odd_y, minus, one), zero);
  inverse = b.CreateSelect(b.CreateICmpEQ(x, one), one, inverse);
  return b.CreateSelect(negative, inverse, next);
}

/// Shifts by the width or more, or by negative amounts, leave nothing but the sign.
Value* KernelEmitter::shift(Prim p, DType t, V x, V y, DType y_type) {
  V none = Constant::getNullValue(y->getType());
  if (t == DType::Bool)
    return b.CreateSelect(b.CreateICmpEQ(y, none), x, Constant::getNullValue(x->getType()));
  unsigned bits = 8 * size_of(t);
  if (y_type == DType::Bool) y = b.CreateZExt(y, math.int_type(y->getType(), 8));
  V beyond = b.CreateICmpUGE(y, math.integer(y, bits));
  V amount = b.CreateZExtOrTrunc(y, x->getType());
  if (p == Prim::Shr && is_signed_int(t))
    return b.CreateAShr(x, b.CreateSelect(beyond, math.integer(x, bits - 1), amount));
  amount = b.CreateSelect(beyond, math.integer(x, 0), amount);
  V r = p == Prim::Shl ? b.CreateShl(x, amount) : b.CreateLShr(x, amount);
  return b.CreateSelect(beyond, math.integer(x, 0), r);
}

Value* KernelEmitter::convert(DType from, DType to, V x) {
  if (from == to) return x;
  Type* like = x->getType();
  bool small = to == DType::F16 || to == DType::BF16;
  if (is_float(from)) {
    if (to == DType::Bool) return b.CreateFCmpUNE(x, math.number(x, 0));
    if (!is_float(to)) return float_to_int(to, x);
    if (to == DType::F64) return b.CreateFPExt(x, math.float_type(like, true));
    if (from != DType::F64) return small ? round_to(to, x) : x;
    V y = b.CreateFPTrunc(x, math.float_type(like, false));
    if (!small) return y;
    // Rounding twice is right if the first rounding is to odd.
    V back = b.CreateFPExt(y, like);
    V bits = b.CreateBitCast(y, math.int_type(like, 32));
    V above = b.CreateFCmpOGT(math.unary(Intrinsic::fabs, back), math.unary(Intrinsic::fabs, x));
    V odd = b.CreateSelect(above, b.CreateSub(bits, math.integer(bits, 1)), bits);
    odd = b.CreateOr(odd, math.integer(bits, 1));
    bits = b.CreateSelect(b.CreateFCmpUNE(back, x), odd, bits);
    return round_to(to, b.CreateBitCast(bits, y->getType()));
  }
  if (to == DType::Bool) return b.CreateICmpNE(x, math.integer(x, 0));
  if (is_float(to)) {
    Type* type = math.float_type(like, to == DType::F64);
    V y = is_signed_int(from) ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
    return small ? round_to(to, y) : y;
  }
  Type* type = math.int_type(like, 8 * size_of(to));
  return is_signed_int(from) ? b.CreateSExtOrTrunc(x, type) : b.CreateZExtOrTrunc(x, type);
}

/// Truncates; out of range and NaN give the lowest number, as the instructions of x86 do.
Value* KernelEmitter::float_to_signed(V x, unsigned bits) {
  double limit = std::ldexp(1.0, bits - 1);
  bool wide = x->getType()->getScalarType()->isDoubleTy() && bits == 32;
  V low = wide ? b.CreateFCmpOGT(x, math.number(x, -limit - 1))
               : b.CreateFCmpOGE(x, math.number(x, -limit));
  V fits = b.CreateAnd(low, b.CreateFCmpOLT(x, math.number(x, limit)));
  Type* type = math.int_type(x->getType(), bits);
  V r = b.CreateFPToSI(b.CreateSelect(fits, x, math.number(x, 0)), type);
  return b.CreateSelect(fits, r, ConstantInt::get(type, APInt::getSignedMinValue(bits)));
}

/// 8 and 16 bits go through int32, uint32 through int64, as in C.
Value* KernelEmitter::float_to_int(DType to, V x) {
  Type* type = math.int_type(x->getType(), 8 * size_of(to));
  if (to == DType::I64) return float_to_signed(x, 64);
  if (to == DType::U32) return b.CreateTrunc(float_to_signed(x, 64), type);
  if (to != DType::U64) return b.CreateTrunc(float_to_signed(x, 32), type);
  V half = math.number(x, 9223372036854775808.0);
  V upper = b.CreateAnd(b.CreateFCmpOGE(x, half),
                        b.CreateFCmpOLT(x, math.number(x, 18446744073709551616.0)));
  V r = float_to_signed(b.CreateSelect(upper, b.CreateFSub(x, half), x), 64);
  V top = ConstantInt::get(type, APInt::getSignedMinValue(64));
  return b.CreateSelect(upper, b.CreateXor(r, top), r);
}

}  // namespace snug
