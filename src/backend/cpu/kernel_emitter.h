#pragma once
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "backend/cpu/emit_math.h"
#include "backend/cpu/vector_plan.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// Emits one kernel. Loops keep for every operand a pointer to the current point (`pointer_`) and
/// for every axis the current index (`index_`). Along the vector axis the current point is the
/// first lane; a body is emitted for several vectors at once ("copies"), copy k beginning
/// k * lanes further on.
class KernelEmitter {
 public:
  KernelEmitter(const KernelSpec& spec, const VectorPlan& plan, const HostCpu& host,
                llvm::Function* function);
  void emit();

 private:
  using V = llvm::Value*;
  using Body = std::function<void(V index)>;
  struct Range {
    V begin, end;
  };
  /// Where a reduction accumulates, per copy.
  struct Accumulator {
    std::vector<llvm::AllocaInst*> value, position;  // position: ArgMax, ArgMin
  };
  /// Restores what entering an axis changed.
  struct Scope;

  // emit_loops.cpp
  V i64(std::int64_t v) { return b.getInt64(v); }
  Range range_of(std::size_t axis);
  void loop(Range range, V step, const Body& body);
  void when(V condition, const std::function<void()>& body);
  void enter(std::size_t axis, V index);
  void enter_flat(V position);
  void repeat_rows();
  void start_rows();
  void next_vectors(unsigned copies);
  void nest(const std::vector<std::size_t>& axes, std::size_t at, const std::function<void()>& f);
  void vector_loop(unsigned tail_copies, const std::vector<KernelSpec::Phase>& hoisted,
                   const std::function<void()>& body);
  void at_vectors(V start, unsigned copies, V remaining, const std::function<void()>& body);
  void outer_point();
  void vector_points();
  void vector_tail(Range range, unsigned copies, const std::function<void()>& body);
  void rows_or_strips();
  void chunks_of_rows();
  void row_by_row();
  void turned_points();
  void turned_piece();
  void inner_phase(const KernelSpec::Phase& phase);
  void unrolled_inner(std::size_t axis, const KernelSpec::Phase& phase);
  bool streams(std::size_t operand) const;
  V worth_streaming(V begin);
  void prefetch();
  void prefetch_row(std::size_t axis);
  void prefetch_vectors(std::size_t operand, V ahead);
  std::optional<std::size_t> only_read() const;
  void hoist(const KernelSpec::Phase& phase);
  void hoist_periodic(const KernelSpec::Phase& phase);
  V flat_position(std::size_t from, std::size_t to);

  // emit_reduce.cpp
  void start_reduce(std::uint32_t i);
  void fold(std::uint32_t i);
  void start_partials();
  void fold_partial(std::uint32_t i);
  void finish_reduce(std::uint32_t i);
  V combine(ReduceOp op, DType t, V x, V y);
  V better(ReduceOp op, DType t, V x, V x_at, V y, V y_at);
  V beats_earlier(ReduceOp op, DType t, V x, V y);
  V halves(V x, bool high);
  DType position_type() const;

  // emit_memory.cpp
  V load(std::size_t operand, unsigned copy);
  void store(std::size_t operand, unsigned copy, V value, bool varying);
  V lane_offsets(std::size_t operand, unsigned copy);  // of a gather, relative to the pointer
  bool contiguous(std::size_t operand) const;
  bool uniform(std::size_t operand) const;
  bool one_per_row(std::size_t operand) const;
  bool runtime_period() const { return plan.mode == VectorPlan::Mode::Flat && plan.period == 0; }
  V to_register(DType t, V memory);
  V to_memory(DType t, V value);
  V round_to(DType t, V value);  // float32 rounded to a 16-bit format, still float32
  V index_value(std::int64_t axis, unsigned copy);
  V flat_index(unsigned copy);
  V vector_position(unsigned copy, unsigned bits);  // k * lanes + 0, 1, 2, ...

  // emit_tile.cpp
  bool has_tile(std::size_t operand) const;
  void open_tiles(const KernelSpec::Phase& phase);
  void close_tiles();
  V tile_point();
  V tile_slot(V tile, llvm::Type* type, V point);
  llvm::AllocaInst* new_tile(std::size_t operand);
  void move_tile(std::size_t operand, V memory, V tile, bool load);
  void sort_tile(llvm::Type* scalar, std::int64_t points, V memory, V tile, bool load);
  void sort_if(llvm::Function* g, llvm::Type* scalar, std::int64_t points, bool load);
  void turn_tile(std::size_t operand, V memory, V tile, bool load);
  void load_turned(llvm::Function* g, llvm::Type* scalar);
  void store_turned(llvm::Function* g, llvm::Type* scalar);
  void turn_square(std::vector<V>& vectors);
  V columns_below(V count);
  V gather_lanes(const std::vector<V>& vectors, const std::vector<std::int64_t>& elements);

  // emit_instr.cpp
  void run(const KernelSpec::Phase& phase);
  void instr(std::uint32_t i);
  V operand(std::uint32_t i, unsigned copy, bool vector);
  V compute(std::uint32_t i, unsigned copy, bool vector);
  V arithmetic(const Instr& in, DType t, V x, V y, V z);
  V float_arithmetic(Prim p, V x, V y, V z);
  V int_arithmetic(Prim p, DType t, V x, V y);
  V int_divide(Prim p, DType t, V x, V y);
  V int_power(DType t, V x, V y);
  V shift(Prim p, DType t, V x, V y, DType y_type);
  V compare(Prim p, DType t, V x, V y);
  V convert(DType from, DType to, V x);
  V float_to_int(DType to, V x);
  V float_to_signed(V x, unsigned bits);
  V extreme(Prim p, DType t, V x, V y);
  V philox_word(const Instr& in, V key, V counter);

  llvm::Type* register_type(DType t, bool vector);
  llvm::Type* memory_type(DType t) const;

  const KernelSpec& s;
  const VectorPlan plan;
  llvm::Function* f;
  llvm::IRBuilder<> b;
  MathEmitter math;
  unsigned lanes;
  unsigned vector_bits_;  // of the machine's vectors

  V begin_ = nullptr, end_ = nullptr;
  std::vector<V> extent_;
  std::vector<std::vector<V>> stride_;  // per operand and axis
  std::vector<V> pointer_, index_;
  bool in_vectors_ = false;  // inside the loop over the vector axis
  unsigned copies_ = 1;
  std::vector<V> mask_;                            // per copy; null: all lanes
  bool by_rows_ = false;                           // partial results are accumulated in memory
  V remaining_ = nullptr;                          // points left for masked vectors
  std::optional<Range> vector_range_;              // of the vector axis, if not all of it
  V turn_begin_ = nullptr, turn_count_ = nullptr;  // the piece of the turned axis in tiles
  bool streaming_ = false;                         // stores go around the caches
  /// Operands sorted into lanes; empty outside the phases that use them.
  std::map<std::pair<std::size_t, unsigned>, llvm::AllocaInst*> tile_in_, tile_out_;
  std::map<std::pair<llvm::Type*, bool>, llvm::Function*> tile_functions_;
  /// Flat mode, extent known at run time: rows repeated to whole vectors, and which vector is next.
  std::map<std::size_t, llvm::AllocaInst*> repeated_;
  llvm::AllocaInst* next_repeated_ = nullptr;
  V period_ = nullptr;
  V flat_row_ = nullptr, flat_column_ = nullptr, flat_start_ = nullptr;  // Flat mode
  std::vector<std::vector<V>> values_;  // per instruction and copy; one entry if not varying
  std::vector<bool> ready_;             // already emitted before the loop
  std::map<std::uint32_t, Accumulator> accumulators_;
  std::map<std::tuple<V, V>, std::vector<V>> philox_;
};

}  // namespace snug
