// Short rows with lanes across them: lanes x points elements lie side by side in memory. They are
// loaded (stored) as whole vectors and sorted into (out of) lanes by shuffles, which is faster than
// gathering (scattering) them one by one. Between, a tile is a local array, one vector per point.
#include <llvm/IR/Intrinsics.h>

#include "backend/cpu/kernel_emitter.h"

namespace snug {

using namespace llvm;

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

AllocaInst* KernelEmitter::new_tile(std::size_t o) {
  auto* type = FixedVectorType::get(memory_type(s.operands[o].dtype), lanes);
  return math.local(ArrayType::get(type, plan.inner_points));
}

Value* KernelEmitter::tile_slot(V tile, Type* type, V point) {
  return b.CreateGEP(type, tile, point);
}

/// Between memory, where rows lie end to end, and a tile, which has a vector per point.
void KernelEmitter::sort_tile(Type* scalar, V memory, V tile, bool load) {
  auto* type = FixedVectorType::get(scalar, lanes);
  Align align(scalar->getScalarSizeInBits() / 8);
  std::int64_t points = plan.inner_points;
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
  Type* scalar = memory_type(s.operands[o].dtype);
  if (plan.unroll_inner) return sort_tile(scalar, memory, tile, load);
  Function*& g = tile_functions_[{scalar, load}];
  if (!g) {
    auto* type = FunctionType::get(b.getVoidTy(), {b.getPtrTy(), b.getPtrTy()}, false);
    g = Function::Create(type, Function::InternalLinkage, load ? "tile_load" : "tile_store",
                         f->getParent());
    g->setAttributes(f->getAttributes());
    g->addFnAttr(Attribute::NoInline);
    IRBuilderBase::InsertPointGuard guard(b);
    b.SetInsertPoint(BasicBlock::Create(f->getContext(), "entry", g));
    sort_tile(scalar, g->getArg(0), g->getArg(1), load);
    b.CreateRetVoid();
  }
  b.CreateCall(g, {memory, tile});
}

/// Before an inner phase: loads the tiles it reads and makes room for those it writes. Masked
/// vectors have none: they gather and scatter.
void KernelEmitter::open_tiles(const KernelSpec::Phase& phase) {
  if (plan.tiled.empty() || !in_vectors_ || mask_[0]) return;
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
    if (!plan.tiled[o] || written) continue;
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
