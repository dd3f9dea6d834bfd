#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/kernel_emitter.h"
#include "base/error.h"

namespace snug {

using namespace llvm;
using Mode = VectorPlan::Mode;

Type* KernelEmitter::register_type(DType t, bool vector) {
  Type* scalar = t == DType::Bool  ? b.getInt1Ty()
                 : t == DType::F64 ? b.getDoubleTy()
                 : is_float(t)     ? b.getFloatTy()
                                   : static_cast<Type*>(b.getIntNTy(8 * size_of(t)));
  return vector ? FixedVectorType::get(scalar, lanes) : scalar;
}

Type* KernelEmitter::memory_type(DType t) const {
  LLVMContext& c = f->getContext();
  if (t == DType::F16) return Type::getHalfTy(c);
  if (t == DType::F32) return Type::getFloatTy(c);
  if (t == DType::F64) return Type::getDoubleTy(c);
  return Type::getIntNTy(c, 8 * size_of(t));
}

bool KernelEmitter::uniform(std::size_t o) const {
  for (std::size_t axis = 0; axis < s.rank(); ++axis)
    if (plan.is_vector_axis(axis) && s.operands[o].strides[axis] != 0) return false;
  return true;
}

/// Short rows: it is repeated along them before it is read, see chunks_of_rows.
bool KernelEmitter::one_per_row(std::size_t o) const {
  const auto& strides = s.operands[o].strides;
  return runtime_period() && strides[plan.axis] == 0 && strides[plan.axis - 1] != 0;
}

bool KernelEmitter::contiguous(std::size_t o) const {
  const auto& strides = s.operands[o].strides;
  if (one_per_row(o)) return true;
  if (strides[plan.axis] != 1) return false;
  if (runtime_period()) return strides[plan.axis - 1] != 0;
  return plan.mode != Mode::Flat || strides[plan.axis - 1] == plan.period;
}

Value* KernelEmitter::vector_position(unsigned copy, unsigned bits) {
  SmallVector<Constant*> items;
  for (unsigned k = 0; k < lanes; ++k)
    items.push_back(ConstantInt::get(b.getIntNTy(bits), copy * lanes + k));
  return ConstantVector::get(items);
}

namespace {

/// Row and column of each lane in Flat mode, counted from the row of the first one.
std::pair<Value*, Value*> flat_lane(IRBuilder<>& b, const VectorPlan& plan, Value* column,
                                    Value* position) {
  Value* t = b.CreateAdd(b.CreateVectorSplat(plan.lanes, column), position);
  auto c = [&](std::int64_t v) { return ConstantInt::get(t->getType(), v); };
  // t < 2^16 / period, so one multiplication divides exactly.
  Value* row = b.CreateLShr(b.CreateMul(t, c(65536 / plan.period + 1)), c(16));
  return {row, b.CreateSub(t, b.CreateMul(row, c(plan.period)))};
}

}  // namespace

Value* KernelEmitter::lane_offsets(std::size_t o, unsigned copy) {
  const auto& strides = s.operands[o].strides;
  if (plan.mode == Mode::Flat) {
    auto [row, column] = flat_lane(b, plan, flat_column_, vector_position(copy, 32));
    auto c = [&](std::int64_t v) { return ConstantInt::getSigned(row->getType(), v); };
    return b.CreateAdd(b.CreateMul(row, c(strides[plan.axis - 1])),
                       b.CreateMul(column, c(strides[plan.axis])));
  }
  std::int64_t stride = strides[plan.axis];
  if (stride != KernelSpec::Operand::kRuntimeStride && std::abs(stride) < (1 << 20)) {
    V position = vector_position(copy, 32);
    return b.CreateMul(position, ConstantInt::getSigned(position->getType(), stride));
  }
  return b.CreateMul(vector_position(copy, 64), b.CreateVectorSplat(lanes, stride_[o][plan.axis]));
}

Value* KernelEmitter::load(std::size_t o, unsigned copy) {
  DType t = s.operands[o].dtype;
  Type* scalar = memory_type(t);
  Align align(size_of(t));
  if (!in_vectors_ || uniform(o))
    return to_register(t, b.CreateAlignedLoad(scalar, pointer_[o], align));
  auto* type = FixedVectorType::get(scalar, lanes);
  if (auto tile = tile_in_.find({o, copy}); tile != tile_in_.end())
    return to_register(t, b.CreateLoad(type, tile_slot(tile->second, type, tile_point())));
  if (auto rows = repeated_.find(o); rows != repeated_.end()) {
    V at = b.CreateAdd(b.CreateLoad(b.getInt64Ty(), next_repeated_), i64(copy));
    return to_register(t, b.CreateLoad(type, b.CreateGEP(type, rows->second, at)));
  }
  Constant* zero = Constant::getNullValue(type);
  if (!contiguous(o)) {
    V at = b.CreateGEP(scalar, pointer_[o], lane_offsets(o, copy));
    return to_register(t, b.CreateMaskedGather(type, at, align, mask_[copy], zero));
  }
  V at = b.CreateConstGEP1_64(scalar, pointer_[o], copy * lanes);
  if (mask_[copy]) return to_register(t, b.CreateMaskedLoad(type, at, align, mask_[copy], zero));
  return to_register(t, b.CreateAlignedLoad(type, at, align));
}

void KernelEmitter::store(std::size_t o, unsigned copy, V value, bool vector) {
  DType t = s.operands[o].dtype;
  Type* scalar = memory_type(t);
  Align align(size_of(t));
  value = to_memory(t, value);
  if (!vector) {
    b.CreateAlignedStore(value, pointer_[o], align);
  } else if (auto tile = tile_out_.find({o, copy}); tile != tile_out_.end()) {
    V slot = tile_slot(tile->second, value->getType(), tile_point());
    b.CreateStore(value, slot);
  } else if (!contiguous(o)) {
    V at = b.CreateGEP(scalar, pointer_[o], lane_offsets(o, copy));
    b.CreateMaskedScatter(value, at, align, mask_[copy]);
  } else {
    V at = b.CreateConstGEP1_64(scalar, pointer_[o], copy * lanes);
    if (mask_[copy])
      b.CreateMaskedStore(value, at, align, mask_[copy]);
    else if (streaming_ && streams(o))
      b.CreateAlignedStore(value, at, Align(lanes * size_of(t)))
          ->setMetadata(LLVMContext::MD_nontemporal,
                        MDNode::get(f->getContext(), ConstantAsMetadata::get(b.getInt32(1))));
    else
      b.CreateAlignedStore(value, at, align);
  }
}

Value* KernelEmitter::to_register(DType t, V x) {
  if (t == DType::Bool) return b.CreateICmpNE(x, Constant::getNullValue(x->getType()));
  if (t == DType::F16) return b.CreateFPExt(x, math.float_type(x->getType(), false));
  if (t == DType::BF16) {
    V wide = b.CreateZExt(x, math.int_type(x->getType(), 32));
    return b.CreateBitCast(b.CreateShl(wide, math.integer(wide, 16)),
                           math.float_type(x->getType(), false));
  }
  return x;
}

Value* KernelEmitter::to_memory(DType t, V x) {
  if (t == DType::Bool) return b.CreateZExt(x, math.int_type(x->getType(), 8));
  if (t == DType::F16) {
    Type* half = b.getHalfTy();
    if (x->getType()->isVectorTy()) half = FixedVectorType::get(half, lanes);
    return b.CreateFPTrunc(x, half);
  }
  if (t == DType::BF16) {
    V bits = b.CreateBitCast(x, math.int_type(x->getType(), 32));
    auto c = [&](std::int64_t v) { return math.integer(bits, v); };
    V high = b.CreateLShr(bits, c(16));
    V up = b.CreateAdd(b.CreateAnd(high, c(1)), c(0x7fff));  // ties to even
    V rounded = b.CreateLShr(b.CreateAdd(bits, up), c(16));
    rounded = b.CreateSelect(b.CreateFCmpUNO(x, x), b.CreateOr(high, c(0x40)), rounded);
    return b.CreateTrunc(rounded, math.int_type(x->getType(), 16));
  }
  return x;
}

Value* KernelEmitter::round_to(DType t, V x) { return to_register(t, to_memory(t, x)); }

Value* KernelEmitter::index_value(std::int64_t axis, unsigned copy) {
  auto a = static_cast<std::size_t>(axis);
  if (!in_vectors_ || !plan.is_vector_axis(a)) return index_[a];
  if (plan.mode != Mode::Flat)
    return b.CreateAdd(b.CreateVectorSplat(lanes, index_[a]), vector_position(copy, 64));
  auto [row, column] = flat_lane(b, plan, flat_column_, vector_position(copy, 32));
  Type* wide = math.int_type(row->getType(), 64);
  if (a == plan.axis) return b.CreateZExt(column, wide);
  return b.CreateAdd(b.CreateVectorSplat(lanes, flat_row_), b.CreateZExt(row, wide));
}

Value* KernelEmitter::flat_index(unsigned copy) {
  std::size_t from = s.block ? 1 : 0;
  if (!in_vectors_) return flat_position(from, s.rank());
  V position = vector_position(copy, 64);
  if (plan.mode == Mode::Flat) {
    V plane = b.CreateMul(extent_[plan.axis - 1], i64(plan.period));
    V start = b.CreateAdd(b.CreateMul(flat_position(from, plan.axis - 1), plane), flat_start_);
    return b.CreateAdd(b.CreateVectorSplat(lanes, start), position);
  }
  V suffix = i64(1);
  for (std::size_t axis = plan.axis + 1; axis < s.rank(); ++axis)
    suffix = b.CreateMul(suffix, extent_[axis]);
  return b.CreateAdd(b.CreateVectorSplat(lanes, flat_position(from, s.rank())),
                     b.CreateMul(position, b.CreateVectorSplat(lanes, suffix)));
}

}  // namespace snug
