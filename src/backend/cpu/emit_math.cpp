#include "backend/cpu/emit_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace snug {

using namespace llvm;
using V = Value*;

constexpr double kInf = std::numeric_limits<double>::infinity();

namespace {
unsigned lanes_of(Type* t) {
  auto* vector = dyn_cast<FixedVectorType>(t);
  return vector ? vector->getNumElements() : 1;
}
}  // namespace

V MathEmitter::number(V like, double v) const { return ConstantFP::get(like->getType(), v); }
V MathEmitter::integer(V like, std::int64_t v) const {
  return ConstantInt::getSigned(like->getType(), v);
}
V MathEmitter::fma(V x, V y, V z) {
  return b.CreateIntrinsic(Intrinsic::fma, {x->getType()}, {x, y, z});
}
V MathEmitter::unary(Intrinsic::ID id, V x) { return b.CreateUnaryIntrinsic(id, x); }
V MathEmitter::copysign(V magnitude, V sign) {
  return b.CreateBinaryIntrinsic(Intrinsic::copysign, magnitude, sign);
}
Type* MathEmitter::int_type(Type* like, unsigned width) const {
  Type* scalar = b.getIntNTy(width);
  return like->isVectorTy() ? FixedVectorType::get(scalar, lanes_of(like)) : scalar;
}
Type* MathEmitter::float_type(Type* like, bool is_double) const {
  Type* scalar = is_double ? b.getDoubleTy() : b.getFloatTy();
  return like->isVectorTy() ? FixedVectorType::get(scalar, lanes_of(like)) : scalar;
}
AllocaInst* MathEmitter::local(Type* type) {
  BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  IRBuilder<> at(&entry, entry.begin());
  return at.CreateAlloca(type);
}

V MathEmitter::poly(V x, const math::Polynomial& polynomial) {
  const auto& c = single(x) ? polynomial.f32 : polynomial.f64;
  const double* p = c.end();
  V r = number(x, *--p);
  while (p != c.begin()) r = fma(r, x, number(x, *--p));
  return r;
}
V MathEmitter::clamp_above(V x, V limit) {
  return b.CreateSelect(b.CreateFCmpOGT(x, limit), limit, x);
}
V MathEmitter::clamp_below(V x, V limit) {
  return b.CreateSelect(b.CreateFCmpOLT(x, limit), limit, x);
}
V MathEmitter::bits(V x) { return b.CreateBitCast(x, int_type(x->getType(), single(x) ? 32 : 64)); }
V MathEmitter::from_bits(V i, V like) { return b.CreateBitCast(i, like->getType()); }

// Adding 1.5 * 2^52 leaves a small whole number in the low bits: vectors of float64 have no
// conversion to int64 before AVX-512.
constexpr double kIntMagic = 6755399441055744.0;
constexpr std::int64_t kIntMagicBits = 0x4338000000000000;

V MathEmitter::near_integer(V n) {
  // Frozen: NaN has no integer, and any will do, since the result is NaN by another way.
  if (single(n)) return b.CreateFreeze(b.CreateFPToSI(n, int_type(n->getType(), 32)));
  V i = bits(b.CreateFAdd(n, number(n, kIntMagic)));
  return b.CreateSub(i, integer(i, kIntMagicBits));
}

V MathEmitter::power_of_two(V n) {
  bool f32 = n->getType()->getScalarSizeInBits() == 32;
  V biased = b.CreateAdd(n, integer(n, f32 ? 127 : 1023));
  V shifted = b.CreateShl(biased, integer(n, f32 ? 23 : 52));
  return b.CreateBitCast(shifted, float_type(n->getType(), !f32));
}

bool MathEmitter::has_avx512(V x) const {
  if (!host_.avx512 || !x->getType()->isVectorTy()) return false;
  unsigned width = x->getType()->getPrimitiveSizeInBits().getFixedValue();
  return width == 128 || width == 256 || width % 512 == 0;
}

std::vector<V> MathEmitter::half_of(const std::vector<V>& values, bool high) {
  std::vector<V> halves;
  for (V v : values) {
    if (!v || !v->getType()->isVectorTy()) {
      halves.push_back(v);
      continue;
    }
    const int n = static_cast<int>(lanes_of(v->getType()) / 2);
    SmallVector<int> which;
    for (int i = 0; i < n; ++i) which.push_back(high ? n + i : i);
    halves.push_back(b.CreateShuffleVector(v, which));
  }
  return halves;
}

V MathEmitter::join(V low, V high) {
  SmallVector<int> both;
  for (unsigned i = 0; i < 2 * lanes_of(low->getType()); ++i) both.push_back(static_cast<int>(i));
  return b.CreateShuffleVector(low, high, both);
}

V MathEmitter::avx512(const char* name, V like, std::vector<V> args) {
  unsigned width = like->getType()->getPrimitiveSizeInBits().getFixedValue();
  if (width > 512) {
    auto half = [&](bool high) {
      return avx512(name, half_of({like}, high)[0], half_of(args, high));
    };
    V low = half(false);
    return join(low, half(true));
  }
  std::string full = "llvm.x86.avx512.mask." + std::string(name) + (single(like) ? ".ps." : ".pd.");
  full += std::to_string(width);
  unsigned lanes = lanes_of(like->getType());
  args.push_back(ConstantInt::getSigned(b.getIntNTy(lanes == 16 ? 16 : 8), -1));
  if (width == 512) args.push_back(b.getInt32(4));  // the current rounding direction
  return b.CreateIntrinsic(Function::lookupIntrinsicID(full), {}, args);
}

V MathEmitter::entry_of(const float (&table)[8], V index) {
  const unsigned lanes = lanes_of(index->getType());
  const bool vector = index->getType()->isVectorTy();
  if (vector && lanes * 32 > static_cast<unsigned>(host_.vector_bits)) {
    V low = entry_of(table, half_of({index}, false)[0]);
    return join(low, entry_of(table, half_of({index}, true)[0]));
  }
  if (vector && host_.vector_bits >= 256) {  // one instruction; of a register at least
    const unsigned whole = std::max(lanes, 8U);
    SmallVector<int> which(whole, 0);
    std::iota(which.begin(), which.begin() + lanes, 0);
    SmallVector<float> entries;
    for (unsigned i = 0; i < whole; ++i) entries.push_back(table[i % std::size(table)]);
    V values = ConstantDataVector::get(b.getContext(), entries);
    V found = whole == 16
                  ? b.CreateIntrinsic(Intrinsic::x86_avx512_permvar_sf_512, {}, {values, index})
                  : b.CreateIntrinsic(Intrinsic::x86_avx2_permps, {},
                                      {values, b.CreateShuffleVector(index, which)});
    which.resize(lanes);
    return lanes == whole ? found : b.CreateShuffleVector(found, which);
  }
  Module& module = *b.GetInsertBlock()->getModule();
  Constant* values = ConstantDataArray::get(b.getContext(), ArrayRef(table));
  auto* memory = new GlobalVariable(module, values->getType(), true, GlobalValue::PrivateLinkage,
                                    values, "entries");
  V at = b.CreateAnd(index, integer(index, 7));
  auto entry = [&](V i) {
    return b.CreateLoad(b.getFloatTy(), b.CreateGEP(b.getFloatTy(), memory, i));
  };
  if (!vector) return entry(at);
  V all = PoisonValue::get(float_type(index->getType(), false));
  for (unsigned i = 0; i < lanes; ++i)
    all = b.CreateInsertElement(all, entry(b.CreateExtractElement(at, i)), i);
  return all;
}

V MathEmitter::scale(V y, V n) {
  if (!host_.avx512) {
    V i = near_integer(n);
    V half = b.CreateAShr(i, integer(i, 1));
    V rest = b.CreateSub(i, half);
    return b.CreateFMul(b.CreateFMul(y, power_of_two(half)), power_of_two(rest));
  }
  if (!y->getType()->isVectorTy()) {  // through the smallest vector, to round as vectors do
    unsigned width = single(y) ? 4 : 2;
    return b.CreateExtractElement(
        scale(b.CreateVectorSplat(width, y), b.CreateVectorSplat(width, n)), std::uint64_t{0});
  }
  return avx512("scalef", y, {y, n, Constant::getNullValue(y->getType())});
}

V MathEmitter::call(Prim p, V x, V y) {
  if (is_special(p)) {
    V all = Constant::getAllOnesValue(int_type(x->getType(), 1));
    return per_lane((single(x) ? "snug_f32_" : "snug_f64_") + std::string(name_of(p)), all, x, x,
                    y);
  }
  if (strict_ && single(x)) {
    auto widen = [&](V v) { return v ? b.CreateFPExt(v, float_type(v->getType(), true)) : v; };
    MathEmitter inner(b, host_, false);
    return b.CreateFPTrunc(inner.call(p, widen(x), widen(y)), x->getType());
  }
  if (strict_) {
    V all = Constant::getAllOnesValue(int_type(x->getType(), 1));
    return per_lane(std::string("snug_strict_") + name_of(p), all, x, x, y);
  }
  switch (p) {
    case Prim::Exp: return exp(x);
    case Prim::Expm1: return expm1(x);
    case Prim::Exp2: return exp2(x);
    case Prim::Log:
    case Prim::Log2:
    case Prim::Log10: return log(p, x);
    case Prim::Log1p: return log1p(x);
    case Prim::Tanh: return tanh(x);
    case Prim::Sigmoid: return sigmoid(x);
    case Prim::Softplus: return softplus(x);
    case Prim::Erf: return erf(x);
    case Prim::Erfc: return erfc(x);
    case Prim::Erfcx: return erfcx(x);
    case Prim::Sin:
    case Prim::Cos:
    case Prim::Tan: return trigonometric(p, x);
    case Prim::Pow: return single(x) ? pow_single(x, y) : library(p, x, y);
    default: return library(p, x, y);
  }
}

/// x^y through float64, so that y * log(x) keeps enough bits.
V MathEmitter::pow_single(V x, V y) {
  auto widen = [&](V v) { return b.CreateFPExt(v, float_type(v->getType(), true)); };
  V ax = unary(Intrinsic::fabs, x);
  V r = b.CreateFPTrunc(exp(b.CreateFMul(widen(y), log(Prim::Log, widen(ax)))), x->getType());
  V zero = number(x, 0), one = number(x, 1), inf = number(x, kInf);
  // A negative base: y decides the sign, and a fraction has no power.
  V half = b.CreateFMul(y, number(y, 0.5));
  V whole = b.CreateFCmpOEQ(unary(Intrinsic::floor, y), y);
  V odd = b.CreateAnd(whole, b.CreateFCmpUNE(unary(Intrinsic::floor, half), half));
  r = b.CreateSelect(odd, copysign(r, x), r);
  V finite_negative = b.CreateAnd(b.CreateFCmpOLT(x, zero), b.CreateFCmpOGT(x, number(x, -kInf)));
  V fraction = b.CreateFCmpONE(unary(Intrinsic::floor, y), y);
  r = b.CreateSelect(b.CreateAnd(finite_negative, fraction),
                     number(x, std::numeric_limits<double>::quiet_NaN()), r);
  V y_inf = b.CreateFCmpOEQ(unary(Intrinsic::fabs, y), inf);
  V is_one = b.CreateOr(b.CreateFCmpOEQ(y, zero), b.CreateFCmpOEQ(x, one));
  is_one = b.CreateOr(is_one, b.CreateAnd(y_inf, b.CreateFCmpOEQ(ax, one)));
  return b.CreateSelect(is_one, one, r);
}

V MathEmitter::fmod(V x, V y) {
  // For moderate quotients the remainder of a truncated division, mended by one step, is exact.
  V q = unary(Intrinsic::trunc, b.CreateFDiv(x, y));
  V r = fma(b.CreateFNeg(q), y, x);
  V zero = number(x, 0);
  r = b.CreateSelect(b.CreateFCmpOEQ(q, zero), x, r);
  V overshot = b.CreateFCmpOLT(b.CreateFMul(r, copysign(number(x, 1), x)), zero);
  V ay = unary(Intrinsic::fabs, y);
  r = b.CreateSelect(overshot, b.CreateFAdd(r, copysign(ay, x)), r);
  r = b.CreateSelect(b.CreateFCmpOEQ(r, zero), copysign(zero, x), r);
  V fits = b.CreateFCmpOLT(unary(Intrinsic::fabs, q), pick(x, 4194304.0, 2251799813685248.0));
  std::string name = single(x) ? "snug_f32_fmod" : "snug_f64_fmod";
  return per_lane(name, b.CreateNot(fits), r, x, y);
}

V MathEmitter::library(Prim p, V x, V y) {
  std::string name = name_of(p);
  if (!host_.libmvec) {
    V all = Constant::getAllOnesValue(int_type(x->getType(), 1));
    return per_lane((single(x) ? "snug_f32_" : "snug_f64_") + name, all, x, x, y);
  }
  unsigned bits = host_.libmvec == 'e' ? 512 : host_.libmvec == 'd' ? 256 : 128;
  unsigned width = bits / (single(x) ? 32 : 64);
  return vector_library(std::string("_ZGV") + host_.libmvec + "N" + std::to_string(width) +
                            (y ? "vv_" : "v_") + name + (single(x) ? "f" : ""),
                        width, x, y);
}

V MathEmitter::vector_library(const std::string& name, unsigned width, V x, V y) {
  Type* scalar = x->getType()->getScalarType();
  auto* wide = FixedVectorType::get(scalar, width);
  unsigned lanes = lanes_of(x->getType());
  std::vector<Type*> types(y ? 2 : 1, wide);
  Module* m = b.GetInsertBlock()->getModule();
  FunctionCallee f = m->getOrInsertFunction(name, FunctionType::get(wide, types, false));
  if (auto* function = dyn_cast<Function>(f.getCallee())) {
    function->setDoesNotAccessMemory();
    function->setDoesNotThrow();
    function->setWillReturn();
  }
  auto run = [&](V a, V c) {
    std::vector<V> args{a};
    if (c) args.push_back(c);
    return static_cast<V>(b.CreateCall(f, args));
  };
  if (!x->getType()->isVectorTy()) {
    V r = run(b.CreateVectorSplat(width, x), y ? b.CreateVectorSplat(width, y) : nullptr);
    return b.CreateExtractElement(r, std::uint64_t{0});
  }
  if (lanes == width) return run(x, y);
  SmallVector<int> part;
  if (lanes < width) {  // pad with copies of lane 0, which cost nothing special
    for (unsigned i = 0; i < width; ++i) part.push_back(i < lanes ? i : 0);
    V r = run(b.CreateShuffleVector(x, part), y ? b.CreateShuffleVector(y, part) : nullptr);
    part.resize(lanes);
    return b.CreateShuffleVector(r, part);
  }
  auto half = [&](bool high) {
    const std::vector<V> part = half_of({x, y}, high);
    return vector_library(name, width, part[0], part[1]);
  };
  V low = half(false);
  return join(low, half(true));
}

V MathEmitter::per_lane(const std::string& function, V slow, V fast, V x, V y) {
  Type* type = x->getType();
  unsigned lanes = lanes_of(type);
  Type* mask_type = b.getIntNTy(lanes);
  V mask = type->isVectorTy() ? b.CreateBitCast(slow, mask_type) : slow;
  BasicBlock* from = b.GetInsertBlock();
  Function* f = from->getParent();
  auto* call_block = BasicBlock::Create(b.getContext(), "lanes", f);
  auto* done = BasicBlock::Create(b.getContext(), "done", f);
  MDNode* rare = MDBuilder(b.getContext()).createBranchWeights(1, 2000);
  b.CreateCondBr(b.CreateICmpNE(mask, ConstantInt::get(mask_type, 0)), call_block, done, rare);

  b.SetInsertPoint(call_block);
  std::vector<Type*> types;
  std::vector<V> args;
  AllocaInst* out = local(type);
  b.CreateStore(fast, out);
  args.push_back(out);
  for (V v : {x, y})
    if (v) {
      AllocaInst* in = local(type);
      b.CreateStore(v, in);
      args.push_back(in);
    }
  args.push_back(b.CreateZExt(mask, b.getInt64Ty()));
  args.push_back(b.getInt32(lanes));
  for (V v : args) types.push_back(v->getType());
  Module* m = f->getParent();
  FunctionCallee callee =
      m->getOrInsertFunction(function, FunctionType::get(b.getVoidTy(), types, false));
  cast<Function>(callee.getCallee())->setDoesNotThrow();
  b.CreateCall(callee, args);
  V computed = b.CreateLoad(type, out);
  BasicBlock* call_end = b.GetInsertBlock();
  b.CreateBr(done);

  b.SetInsertPoint(done);
  PHINode* result = b.CreatePHI(type, 2);
  result->addIncoming(fast, from);
  result->addIncoming(computed, call_end);
  return result;
}

}  // namespace snug
