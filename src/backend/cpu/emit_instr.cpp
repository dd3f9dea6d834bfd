#include <llvm/IR/Intrinsics.h>

#include <limits>

#include "backend/cpu/kernel_emitter.h"
#include "base/error.h"
#include "base/philox.h"

namespace snug {

using namespace llvm;
using Mode = VectorPlan::Mode;

void KernelEmitter::run(const KernelSpec::Phase& phase) {
  for (std::uint32_t i = phase.begin; i < phase.end; ++i)
    if (!ready_[i]) instr(i);
}

void KernelEmitter::instr(std::uint32_t i) {
  const Instr& in = s.body[i];
  if (in.prim == Prim::Reduce) return fold(i);
  if (in.prim == Prim::Store) {
    auto o = static_cast<std::size_t>(in.integer);
    if (in_vectors_ && !uniform(o)) {
      for (unsigned k = 0; k < copies_; ++k) store(o, k, operand(in.a, k, true), true);
      return;
    }
    // One address for all lanes: there is one point, and lane 0 has it.
    V x = operand(in.a, 0, false);
    store(o, 0, x->getType()->isVectorTy() ? b.CreateExtractElement(x, std::uint64_t{0}) : x,
          false);
    return;
  }
  bool vector = plan.varying[i] && in_vectors_;
  values_[i].clear();
  for (unsigned k = 0; k < (vector ? copies_ : 1); ++k) values_[i].push_back(compute(i, k, vector));
}

Value* KernelEmitter::operand(std::uint32_t i, unsigned copy, bool vector) {
  const std::vector<V>& v = values_[i];
  V x = v.size() > 1 ? v[copy] : v[0];
  return vector && !x->getType()->isVectorTy() ? b.CreateVectorSplat(lanes, x) : x;
}

Value* KernelEmitter::compute(std::uint32_t i, unsigned copy, bool vector) {
  const Instr& in = s.body[i];
  switch (in.prim) {
    case Prim::Const: {
      Type* type = register_type(in.dtype, false);
      if (!is_float(in.dtype)) return ConstantInt::getSigned(type, in.integer);
      double v = in.number;
      if (in.dtype == DType::F16) v = half_to_float(float_to_half(static_cast<float>(v)));
      if (in.dtype == DType::BF16) v = bfloat_to_float(float_to_bfloat(static_cast<float>(v)));
      return ConstantFP::get(type, v);
    }
    case Prim::Index: return index_value(in.integer, copy);
    case Prim::FlatIndex: return flat_index(copy);
    case Prim::Load: return load(in.integer, copy);
    default: break;
  }
  int count = operand_count(in.prim);
  V x = operand(in.a, copy, vector);
  V y = count > 1 ? operand(in.b, copy, vector) : nullptr;
  V z = count > 2 ? operand(in.c, copy, vector) : nullptr;
  if (in.prim == Prim::Shl || in.prim == Prim::Shr)
    return shift(in.prim, in.dtype, x, y, s.body[in.b].dtype);
  return arithmetic(in, s.body[in.a].dtype, x, y, z);
}

/// `t` is the dtype of the first operand.
Value* KernelEmitter::arithmetic(const Instr& in, DType t, V x, V y, V z) {
  switch (in.prim) {
    case Prim::Select: return b.CreateSelect(x, y, z);
    case Prim::Cast: return convert(t, in.dtype, x);
    case Prim::Philox: return philox_word(in, x, y);
    case Prim::IsNan: return b.CreateFCmpUNO(x, x);
    case Prim::IsInf:
      return b.CreateFCmpOEQ(math.unary(Intrinsic::fabs, x),
                             math.number(x, std::numeric_limits<double>::infinity()));
    case Prim::Min:
    case Prim::Max: return extreme(in.prim, t, x, y);
    case Prim::And: return b.CreateAnd(x, y);
    case Prim::Or: return b.CreateOr(x, y);
    case Prim::Xor: return b.CreateXor(x, y);
    case Prim::Not: return b.CreateNot(x);
    default: break;
  }
  if (in.prim >= Prim::Lt && in.prim <= Prim::Ne) return compare(in.prim, t, x, y);
  if (is_float(t)) return float_arithmetic(in.prim, x, y, z);
  if (in.prim != Prim::Fma) return int_arithmetic(in.prim, t, x, y);
  return int_arithmetic(Prim::Add, t, int_arithmetic(Prim::Mul, t, x, y), z);
}

Value* KernelEmitter::float_arithmetic(Prim p, V x, V y, V z) {
  switch (p) {
    case Prim::Add: return b.CreateFAdd(x, y);
    case Prim::Sub: return b.CreateFSub(x, y);
    case Prim::Mul: return b.CreateFMul(x, y);
    case Prim::Div: return b.CreateFDiv(x, y);
    case Prim::Fma: return math.fma(x, y, z);
    case Prim::Neg: return b.CreateFNeg(x);
    case Prim::Abs: return math.unary(Intrinsic::fabs, x);
    case Prim::Sqr: return b.CreateFMul(x, x);
    case Prim::Sqrt: return math.unary(Intrinsic::sqrt, x);
    case Prim::Floor: return math.unary(Intrinsic::floor, x);
    case Prim::Ceil: return math.unary(Intrinsic::ceil, x);
    case Prim::Trunc: return math.unary(Intrinsic::trunc, x);
    case Prim::Round: return math.unary(Intrinsic::roundeven, x);
    default: break;
  }
  V zero = math.number(x, 0);
  if (p == Prim::Sign) {
    V r = b.CreateSelect(b.CreateFCmpOGT(x, zero), math.number(x, 1), zero);
    r = b.CreateSelect(b.CreateFCmpOLT(x, zero), math.number(x, -1), r);
    return b.CreateSelect(b.CreateFCmpUNO(x, x), x, r);
  }
  if (p != Prim::Mod && p != Prim::FloorDiv) return math.call(p, x, y);
  V m = math.fmod(x, y);
  V differs = b.CreateXor(b.CreateFCmpOLT(m, zero), b.CreateFCmpOLT(y, zero));
  V adjust = b.CreateAnd(b.CreateFCmpONE(m, zero), differs);
  if (p == Prim::Mod) {
    V r = b.CreateSelect(adjust, b.CreateFAdd(m, y), m);
    return b.CreateSelect(b.CreateFCmpOEQ(m, zero), math.copysign(zero, y), r);
  }
  V quotient = b.CreateFDiv(x, y);
  V d = b.CreateFDiv(b.CreateFSub(x, m), y);
  d = b.CreateSelect(adjust, b.CreateFSub(d, math.number(x, 1)), d);
  V down = math.unary(Intrinsic::floor, d);
  V near = b.CreateFCmpOGT(b.CreateFSub(d, down), math.number(x, 0.5));
  V r = b.CreateSelect(near, b.CreateFAdd(down, math.number(x, 1)), down);
  r = b.CreateSelect(b.CreateFCmpOEQ(d, zero), math.copysign(zero, quotient), r);
  return b.CreateSelect(b.CreateFCmpOEQ(y, zero), quotient, r);
}

/// NaN passes; the first operand wins among equals.
Value* KernelEmitter::extreme(Prim p, DType t, V x, V y) {
  bool max = p == Prim::Max;
  if (t == DType::Bool) return max ? b.CreateOr(x, y) : b.CreateAnd(x, y);
  if (!is_float(t)) {
    Intrinsic::ID id = is_signed_int(t) ? (max ? Intrinsic::smax : Intrinsic::smin)
                                        : (max ? Intrinsic::umax : Intrinsic::umin);
    return b.CreateBinaryIntrinsic(id, x, y);
  }
  V first = max ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, b.CreateSelect(first, x, y));
}

Value* KernelEmitter::compare(Prim p, DType t, V x, V y) {
  bool is_signed = is_signed_int(t);
  auto pick = [&](CmpInst::Predicate real, CmpInst::Predicate sign, CmpInst::Predicate plain) {
    return b.CreateCmp(is_float(t) ? real : is_signed ? sign : plain, x, y);
  };
  switch (p) {
    case Prim::Lt: return pick(CmpInst::FCMP_OLT, CmpInst::ICMP_SLT, CmpInst::ICMP_ULT);
    case Prim::Le: return pick(CmpInst::FCMP_OLE, CmpInst::ICMP_SLE, CmpInst::ICMP_ULE);
    case Prim::Gt: return pick(CmpInst::FCMP_OGT, CmpInst::ICMP_SGT, CmpInst::ICMP_UGT);
    case Prim::Ge: return pick(CmpInst::FCMP_OGE, CmpInst::ICMP_SGE, CmpInst::ICMP_UGE);
    case Prim::Eq: return pick(CmpInst::FCMP_OEQ, CmpInst::ICMP_EQ, CmpInst::ICMP_EQ);
    default: return pick(CmpInst::FCMP_UNE, CmpInst::ICMP_NE, CmpInst::ICMP_NE);
  }
}

Value* KernelEmitter::philox_word(const Instr& in, V key, V counter) {
  std::vector<V>& words = philox_[{key, counter}];
  if (words.empty()) {
    // 32-bit words in 64-bit lanes, so that the products are whole.
    V mask = math.integer(key, 0xffffffff), shift = math.integer(key, 32);
    V k0 = b.CreateAnd(key, mask), k1 = b.CreateLShr(key, shift);
    V c[4] = {b.CreateAnd(counter, mask), b.CreateLShr(counter, shift), math.integer(key, 0),
              math.integer(key, 0)};
    for (int round = 0; round < kPhiloxRounds; ++round) {
      V p0 = b.CreateMul(c[0], math.integer(key, kPhiloxMul0));
      V p1 = b.CreateMul(c[2], math.integer(key, kPhiloxMul1));
      V n0 = b.CreateXor(b.CreateXor(b.CreateLShr(p1, shift), c[1]), k0);
      V n2 = b.CreateXor(b.CreateXor(b.CreateLShr(p0, shift), c[3]), k1);
      c[0] = n0, c[1] = b.CreateAnd(p1, mask), c[2] = n2, c[3] = b.CreateAnd(p0, mask);
      k0 = b.CreateAnd(b.CreateAdd(k0, math.integer(key, kPhiloxKey0)), mask);
      k1 = b.CreateAnd(b.CreateAdd(k1, math.integer(key, kPhiloxKey1)), mask);
    }
    for (V w : c) words.push_back(b.CreateTrunc(w, math.int_type(key->getType(), 32)));
  }
  return words[in.integer];
}

}  // namespace snug
