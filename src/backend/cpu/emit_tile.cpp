// Short rows with lanes across them: lanes x points elements lie side by side in memory. They are
// loaded (stored) as whole vectors and sorted into (out of) lanes by shuffles, which is faster than
// gathering (scattering) them one by one. Between, a tile is a local array, one vector per point.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/kernel_emitter.h"

namespace snug {

using namespace llvm;

constexpr std::int64_t kMaxSortedPoints = 4;

/// Lane k becomes element elements[k] of the vectors laid end to end.
Value* KernelEmitter::gather_lanes(const std::vector<V>& vectors,
                                   const std::vector<std::int64_t>& elements) {
  auto width = static_cast<std::int64_t>(lanes);
  V result = nullptr;
  std::vector<bool> right(lanes, false);  // lanes of the result that are done
  for (std::size_t k = 0; k < vectors.size(); k += 2) {
    bool pair = k + 1 < vectors.size();
    SmallVector<int> which(lanes, -1), merge(lanes, -1);
    bool any = false;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      if (right[lane]) merge[lane] = static_cast<int>(lane);
      std::int64_t at = elements[lane] - static_cast<std::int64_t>(k) * width;
      if (at < 0 || at >= (pair ? 2 : 1) * width) continue;
      which[lane] = static_cast<int>(at);
      merge[lane] = static_cast<int>(lane + lanes);
      right[lane] = any = true;
    }
    if (!any) continue;
    V part = b.CreateShuffleVector(vectors[k], vectors[pair ? k + 1 : k], which);
    result = result ? b.CreateShuffleVector(result, part, merge) : part;
  }
  return result;
}

bool KernelEmitter::has_tile(std::size_t o) const {
  if (plan.turns()) return plan.turned[o];
  return !plan.tiled.empty() && plan.tiled[o];
}

/// The current point as a number in its tile.
Value* KernelEmitter::tile_point() {
  if (plan.turns()) return b.CreateSub(index_[plan.turn_axis], turn_begin_);
  return flat_position(s.outer, s.rank());
}

AllocaInst* KernelEmitter::new_tile(std::size_t o) {
  auto* type = FixedVectorType::get(memory_type(s.operands[o].dtype), lanes);
  std::int64_t points = plan.inner_points;
  if (plan.turns()) points = plan.turn_axis < s.outer ? kTurnedPiece : kMaxTurnedInner;
  return math.local(ArrayType::get(type, points));
}

Value* KernelEmitter::tile_slot(V tile, Type* type, V point) {
  return b.CreateGEP(type, tile, point);
}

/// Between memory, where rows lie end to end, and a tile, which has a vector per point.
void KernelEmitter::sort_tile(Type* scalar, std::int64_t points, V memory, V tile, bool load) {
  auto* type = FixedVectorType::get(scalar, lanes);
  Align align(scalar->getScalarSizeInBits() / 8);
  auto at = [&](std::int64_t k) { return b.CreateConstGEP1_64(scalar, memory, k * lanes); };
  std::vector<V> vectors;
  for (std::int64_t k = 0; k < points; ++k)
    vectors.push_back(load ? b.CreateAlignedLoad(type, at(k), align)
                           : b.CreateLoad(type, tile_slot(tile, type, i64(k))));
  for (std::int64_t k = 0; k < points; ++k) {
    std::vector<std::int64_t> elements;
    for (unsigned lane = 0; lane < lanes; ++lane) {
      std::int64_t e = k * lanes + lane;  // of the rows laid end to end
      elements.push_back(load ? lane * points + k : e % points * lanes + e / points);
    }
    V sorted = gather_lanes(vectors, elements);
    if (load)
      b.CreateStore(sorted, tile_slot(tile, type, i64(k)));
    else
      b.CreateAlignedStore(sorted, at(k), align);
  }
}

/// Straight code keeps the tile in registers; loops need it in memory anyway, and there sorting is
/// a function, made once, as shuffles take long to compile.
void KernelEmitter::move_tile(std::size_t o, V memory, V tile, bool load) {
  if (plan.turns()) return turn_tile(o, memory, tile, load);
  Type* scalar = memory_type(s.operands[o].dtype);
  if (plan.unroll_inner) return sort_tile(scalar, plan.inner_points, memory, tile, load);
  Function*& g = tile_functions_[{scalar, load}];
  if (!g) {
    auto* type = FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false);
    g = Function::Create(type, Function::InternalLinkage, load ? "tile_load" : "tile_store",
                         f->getParent());
    g->setAttributes(f->getAttributes());
    g->addFnAttr(Attribute::NoInline);
    IRBuilderBase::InsertPointGuard guard(b);
    b.SetInsertPoint(BasicBlock::Create(f->getContext(), "entry", g));
    sort_tile(scalar, plan.inner_points, g->getArg(0), g->getArg(1), load);
    b.CreateRetVoid();
  }
  b.CreateCall(g, {memory, tile});
}

/// Turns a square: vector k holds what was lane k of all.
void KernelEmitter::turn_square(std::vector<V>& v) {
  constexpr unsigned kUnitBits = 128;  // shuffles within units of so many bits are cheapest
  const unsigned width = v[0]->getType()->getScalarSizeInBits();
  const unsigned in_unit = std::min(kUnitBits / width, lanes);
  // Pairs of vectors exchange halves, from the largest to those of one unit.
  for (unsigned d = lanes / 2; d >= in_unit; d /= 2)
    for (unsigned i = 0; i < lanes; ++i) {
      if (i & d) continue;
      SmallVector<int> low, high;
      for (unsigned j = 0; j < lanes; ++j) {
        low.push_back(static_cast<int>(j & d ? lanes + j - d : j));
        high.push_back(static_cast<int>(j & d ? lanes + j : j + d));
      }
      V x = v[i], y = v[i + d];
      v[i] = b.CreateShuffleVector(x, y, low);
      v[i + d] = b.CreateShuffleVector(x, y, high);
    }
  // Within units: two vectors become one with their elements in turn, by halves of a unit.
  auto interleave = [&](V x, V y, unsigned size, bool upper) {
    SmallVector<int> which;
    for (unsigned unit = 0; unit < lanes; unit += in_unit)
      for (unsigned k = 0; k < in_unit; ++k) {
        unsigned from = unit + (upper ? in_unit / 2 : 0) + k / (2 * size) * size + k % size;
        which.push_back(static_cast<int>(from + (k / size % 2 ? lanes : 0)));
      }
    return b.CreateShuffleVector(x, y, which);
  };
  for (unsigned i = 0; i < lanes; i += in_unit) {
    if (in_unit == 2) {
      V x = v[i], y = v[i + 1];
      v[i] = interleave(x, y, 1, false);
      v[i + 1] = interleave(x, y, 1, true);
      continue;
    }
    V x = v[i], y = v[i + 1], z = v[i + 2], w = v[i + 3];
    V xy = interleave(x, y, 1, false), zw = interleave(z, w, 1, false);
    v[i] = interleave(xy, zw, 2, false);
    v[i + 1] = interleave(xy, zw, 2, true);
    xy = interleave(x, y, 1, true), zw = interleave(z, w, 1, true);
    v[i + 2] = interleave(xy, zw, 2, false);
    v[i + 3] = interleave(xy, zw, 2, true);
  }
}

/// Lanes 0, 1, ... up to `count`.
Value* KernelEmitter::columns_below(V count) {
  V limit = b.CreateBinaryIntrinsic(Intrinsic::smin, count, i64(lanes));
  return b.CreateICmpSLT(vector_position(0, 32),
                         b.CreateVectorSplat(lanes, b.CreateTrunc(limit, b.getInt32Ty())));
}

/// g(memory, stride of rows, points of a row, rows, tile): from rows of memory to a vector of the
/// tile per point. Lanes without a row repeat the last one.
void KernelEmitter::load_turned(Function* g, Type* scalar) {
  V memory = g->getArg(0), stride = g->getArg(1), points = g->getArg(2), rows = g->getArg(3);
  auto* type = FixedVectorType::get(scalar, lanes);
  Align align(scalar->getScalarSizeInBits() / 8);
  V last = b.CreateSub(rows, i64(1));
  std::vector<V> row;
  for (unsigned k = 0; k < lanes; ++k) {
    V at = b.CreateBinaryIntrinsic(Intrinsic::smin, i64(k), last);
    row.push_back(b.CreateGEP(scalar, memory, b.CreateMul(at, stride)));
  }
  auto square = [&](V first, V mask) {
    std::vector<V> v;
    for (V at : row) {
      at = b.CreateGEP(scalar, at, first);
      V none = Constant::getNullValue(type);
      v.push_back(mask ? static_cast<V>(b.CreateMaskedLoad(type, at, align, mask, none))
                       : b.CreateAlignedLoad(type, at, align));
    }
    turn_square(v);
    for (unsigned k = 0; k < lanes; ++k)
      b.CreateStore(v[k], tile_slot(g->getArg(4), type, b.CreateAdd(first, i64(k))));
  };
  V whole = b.CreateAnd(points, i64(-static_cast<std::int64_t>(lanes)));
  loop({i64(0), whole}, i64(lanes), [&](V first) { square(first, nullptr); });
  when(b.CreateICmpSLT(whole, points),
       [&] { square(whole, columns_below(b.CreateSub(points, whole))); });
}

/// The same in the other direction. Where rows lie end to end, what a vector writes beyond the end
/// of its row is written again by the next row: the last piece comes first, and the rows in order.
/// So few stores are left of part of a vector, which are slow on many CPUs.
void KernelEmitter::store_turned(Function* g, Type* scalar) {
  V memory = g->getArg(0), stride = g->getArg(1), points = g->getArg(2), rows = g->getArg(3);
  auto* type = FixedVectorType::get(scalar, lanes);
  Align align(scalar->getScalarSizeInBits() / 8);
  auto square = [&](V first) {
    std::vector<V> v;
    for (unsigned k = 0; k < lanes; ++k)
      v.push_back(b.CreateLoad(type, tile_slot(g->getArg(4), type, b.CreateAdd(first, i64(k)))));
    turn_square(v);
    return v;
  };
  auto row = [&](unsigned k, V first) {
    return b.CreateGEP(scalar, memory, b.CreateAdd(first, b.CreateMul(i64(k), stride)));
  };
  V whole = b.CreateAnd(points, i64(-static_cast<std::int64_t>(lanes)));
  V all_rows = b.CreateICmpEQ(rows, i64(lanes));
  when(b.CreateICmpSLT(whole, points), [&] {
    std::vector<V> v = square(whole);
    V mask = columns_below(b.CreateSub(points, whole));
    V packed = b.CreateAnd(all_rows, b.CreateICmpEQ(stride, points));
    V reach = b.CreateAdd(whole, i64(lanes));
    when(packed, [&] {
      for (unsigned k = 0; k < lanes; ++k) {
        V inside = b.CreateICmpSGE(b.CreateMul(i64(lanes - k), points), reach);  // of all rows
        when(inside, [&] { b.CreateAlignedStore(v[k], row(k, whole), align); });
        when(b.CreateNot(inside), [&] { b.CreateMaskedStore(v[k], row(k, whole), align, mask); });
      }
    });
    when(b.CreateNot(packed), [&] {
      for (unsigned k = 0; k < lanes; ++k) {
        V on = b.CreateVectorSplat(lanes, b.CreateICmpSLT(i64(k), rows));
        b.CreateMaskedStore(v[k], row(k, whole), align, b.CreateAnd(mask, on));
      }
    });
  });
  loop({i64(0), whole}, i64(lanes), [&](V first) {
    std::vector<V> v = square(first);
    when(all_rows, [&] {
      for (unsigned k = 0; k < lanes; ++k) b.CreateAlignedStore(v[k], row(k, first), align);
    });
    when(b.CreateNot(all_rows), [&] {
      for (unsigned k = 0; k < lanes; ++k)
        b.CreateMaskedStore(v[k], row(k, first), align,
                            b.CreateVectorSplat(lanes, b.CreateICmpSLT(i64(k), rows)));
    });
  });
}

/// Very short rows that lie end to end leave most of a square empty: they are sorted instead, and
/// that was all.
void KernelEmitter::sort_if(Function* g, Type* scalar, std::int64_t points, bool load) {
  V stride = g->getArg(1), rows = g->getArg(3);
  V packed =
      b.CreateAnd(b.CreateICmpEQ(stride, i64(points)), b.CreateICmpEQ(g->getArg(2), i64(points)));
  auto* yes = BasicBlock::Create(g->getContext(), "sort", g);
  auto* no = BasicBlock::Create(g->getContext(), "turn", g);
  b.CreateCondBr(b.CreateAnd(packed, b.CreateICmpEQ(rows, i64(lanes))), yes, no);
  b.SetInsertPoint(yes);
  sort_tile(scalar, points, g->getArg(0), g->getArg(4), load);
  b.CreateRetVoid();
  b.SetInsertPoint(no);
}

/// Between memory, where rows lie along the turned axis, and a tile, which has a vector per point.
/// A function, made once, as shuffles take long to compile.
void KernelEmitter::turn_tile(std::size_t o, V memory, V tile, bool load) {
  Type* scalar = memory_type(s.operands[o].dtype);
  Function*& g = tile_functions_[{scalar, load}];
  if (!g) {
    Type *pointer = b.getPtrTy(), *integer = b.getInt64Ty();
    auto* type =
        FunctionType::get(b.getVoidTy(), {pointer, integer, integer, integer, pointer}, false);
    g = Function::Create(type, Function::InternalLinkage, load ? "turned_load" : "turned_store",
                         f->getParent());
    g->setAttributes(f->getAttributes());
    g->addFnAttr(Attribute::NoInline);
    IRBuilderBase::InsertPointGuard guard(b);
    Function* outside = std::exchange(f, g);
    b.SetInsertPoint(BasicBlock::Create(f->getContext(), "entry", g));
    for (std::int64_t points = 2; points <= kMaxSortedPoints; ++points)
      sort_if(g, scalar, points, load);
    load ? load_turned(g, scalar) : store_turned(g, scalar);
    b.CreateRetVoid();
    f = outside;
  }
  V rows = i64(lanes);
  if (remaining_) rows = b.CreateBinaryIntrinsic(Intrinsic::smin, remaining_, rows);
  if (plan.turn_axis < s.outer) memory = b.CreateGEP(scalar, memory, turn_begin_);
  b.CreateCall(g, {memory, stride_[o][plan.axis], turn_count_, rows, tile});
}

/// Before an inner phase: loads the tiles it reads and makes room for those it writes. Masked
/// vectors have none if their rows are sorted: they gather and scatter.
void KernelEmitter::open_tiles(const KernelSpec::Phase& phase) {
  if ((plan.tiled.empty() && !plan.turns()) || !in_vectors_) return;
  if (mask_[0] && !plan.turns()) return;
  for (std::uint32_t i = phase.begin; i < phase.end; ++i) {
    const Instr& in = s.body[i];
    if (in.prim != Prim::Load && in.prim != Prim::Store) continue;
    auto o = static_cast<std::size_t>(in.integer);
    bool read = in.prim == Prim::Load;
    bool written = false;  // a point is written before it is read: it must be read late
    for (std::uint32_t j = phase.begin; j < i && read; ++j) {
      const Instr& before = s.body[j];
      if (before.prim != Prim::Store) continue;
      written |= before.integer == in.integer ||
                 s.operands[before.integer].may_alias == static_cast<std::int32_t>(o);
    }
    if (!has_tile(o) || written) continue;
    auto& tiles = read ? tile_in_ : tile_out_;
    for (unsigned copy = 0; copy < copies_; ++copy) {
      if (tiles.count({o, copy})) continue;
      AllocaInst* tile = tiles[{o, copy}] = new_tile(o);
      V at = b.CreateConstGEP1_64(memory_type(s.operands[o].dtype), pointer_[o],
                                  copy * plan.inner_points * lanes);
      if (read) move_tile(o, at, tile, true);
    }
  }
}

/// After an inner phase: writes what it stored.
void KernelEmitter::close_tiles() {
  for (auto& [key, tile] : tile_out_) {
    auto [o, copy] = key;
    V at = b.CreateConstGEP1_64(memory_type(s.operands[o].dtype), pointer_[o],
                                copy * plan.inner_points * lanes);
    move_tile(o, at, tile, false);
  }
  // What was loaded may have been overwritten.
  if (!tile_out_.empty()) tile_in_.clear();
  tile_out_.clear();
}

}  // namespace snug
