#include <cmath>
#include <cstring>
#include <limits>

#include "kernel/kernel_spec.h"

namespace snug {

namespace {

Number load_number(const std::byte* p, DType t) {
  auto get = [&]<class T>(T value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (t) {
    case DType::Bool: return {0, get(std::uint8_t{}) != 0};
    case DType::I8: return {0, get(std::int8_t{})};
    case DType::I16: return {0, get(std::int16_t{})};
    case DType::I32: return {0, get(std::int32_t{})};
    case DType::I64: return {0, get(std::int64_t{})};
    case DType::U8: return {0, get(std::uint8_t{})};
    case DType::U16: return {0, get(std::uint16_t{})};
    case DType::U32: return {0, get(std::uint32_t{})};
    case DType::U64: return {0, static_cast<std::int64_t>(get(std::uint64_t{}))};
    case DType::F16: return {half_to_float(get(std::uint16_t{})), 0};
    case DType::BF16: return {bfloat_to_float(get(std::uint16_t{})), 0};
    case DType::F32: return {get(float{}), 0};
    case DType::F64: return {get(double{}), 0};
    case DType::C64:
    case DType::C128: break;  // graphs have none
  }
  return {};
}

void store_number(std::byte* p, DType t, Number n) {
  if (t == DType::F64) std::memcpy(p, &n.f, sizeof n.f);
  float single = static_cast<float>(n.f);
  if (t == DType::F32) std::memcpy(p, &single, sizeof single);
  std::uint16_t half = t == DType::BF16 ? float_to_bfloat(single) : float_to_half(single);
  if (t == DType::F16 || t == DType::BF16) std::memcpy(p, &half, sizeof half);
  if (is_discrete(t)) std::memcpy(p, &n.i, size_of(t));  // little-endian: the low bytes
}

/// Runs one range of outer points by the book.
struct Interpreter {
  const KernelSpec& s;
  std::byte* const* memory;
  KernelSpec::AxisValues extents;
  std::vector<KernelSpec::AxisValues> strides;
  KernelSpec::AxisValues index;
  std::vector<Number> values, best;  // best: the extreme value of an ArgMax or ArgMin

  std::int64_t flat(std::size_t from) const {
    std::int64_t k = 0;
    for (std::size_t axis = from; axis < s.rank(); ++axis) k = k * extents[axis] + index[axis];
    return k;
  }

  std::byte* address(std::size_t operand) const {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < s.rank(); ++axis) at += index[axis] * strides[operand][axis];
    return memory[operand] + at * size_of(s.operands[operand].dtype);
  }

  void start_reduce(const Instr& in, std::uint32_t i) {
    DType t = s.body[in.a].dtype;
    double inf = std::numeric_limits<double>::infinity();
    std::int64_t bits = t == DType::Bool ? 1 : 8 * size_of(t);
    std::int64_t low = 0, high = 0;
    if (is_discrete(t) && is_signed_int(t)) {
      high = static_cast<std::int64_t>((std::uint64_t{1} << (bits - 1)) - 1);
      low = -high - 1;
    } else if (is_discrete(t)) {
      high = bits == 64 ? -1 : (std::int64_t{1} << bits) - 1;
    }
    switch (static_cast<ReduceOp>(in.integer)) {
      case ReduceOp::Sum:
      case ReduceOp::Any: values[i] = {0, 0}; break;
      case ReduceOp::Prod:
      case ReduceOp::All: values[i] = {1, 1}; break;
      case ReduceOp::Max: values[i] = {-inf, low}; break;
      case ReduceOp::Min: values[i] = {inf, high}; break;
      case ReduceOp::ArgMax:
      case ReduceOp::ArgMin: values[i] = {0, -1}; break;
    }
  }

  void fold(const Instr& in, std::uint32_t i) {
    Number x = values[in.a];
    DType t = s.body[in.a].dtype;
    auto apply = [&](Prim p) { values[i] = evaluate({p, in.dtype}, t, values[i], x, {}); };
    switch (static_cast<ReduceOp>(in.integer)) {
      case ReduceOp::Sum: return apply(Prim::Add);
      case ReduceOp::Prod: return apply(Prim::Mul);
      case ReduceOp::Max: return apply(Prim::Max);
      case ReduceOp::Min: return apply(Prim::Min);
      case ReduceOp::Any: return apply(Prim::Or);
      case ReduceOp::All: return apply(Prim::And);
      case ReduceOp::ArgMax:
      case ReduceOp::ArgMin: break;
    }
    Prim better = in.integer == static_cast<int>(ReduceOp::ArgMax) ? Prim::Gt : Prim::Lt;
    bool nan = is_float(t) && std::isnan(x.f), old_nan = is_float(t) && std::isnan(best[i].f);
    if (values[i].i < 0 || (nan && !old_nan) ||
        evaluate({better, DType::Bool}, t, x, best[i], {}).i) {
      best[i] = x;
      values[i].i = flat(s.outer);
    }
  }

  void step(std::uint32_t i) {
    const Instr& in = s.body[i];
    switch (in.prim) {
      case Prim::Load: values[i] = load_number(address(in.integer), in.dtype); return;
      case Prim::Store: store_number(address(in.integer), in.dtype, values[in.a]); return;
      case Prim::Index: values[i] = {0, index[in.integer]}; return;
      case Prim::FlatIndex: values[i] = {0, flat(s.block ? 1 : 0)}; return;
      case Prim::Reduce: fold(in, i); return;
      default: break;
    }
    // The operand that decides how an instruction works is the value, not the condition.
    DType t = operand_count(in.prim) ? s.body[in.a].dtype : in.dtype;
    values[i] = evaluate(in, t, values[in.a], values[in.b], values[in.c]);
  }

  /// Calls `body` at every point of axes [from, to), each within its range.
  template <class F>
  void each(std::size_t from, std::size_t to, std::int64_t low, std::int64_t high, F&& body) {
    // Bounds `low` and `high` hold for axis `from`, the others run over their extent.
    if (from == to) return body();
    std::int64_t begin = low, end = high;
    for (std::int64_t i = begin; i < end; ++i) {
      index[from] = i;
      each(from + 1, to, 0, from + 1 < to ? extents[from + 1] : 0, body);
    }
    index[from] = 0;
  }

  void point() {
    for (const KernelSpec::Phase& phase : s.phases) {
      auto run = [&] {
        for (std::uint32_t i = phase.begin; i < phase.end; ++i) step(i);
      };
      if (!phase.inner) {
        run();
        continue;
      }
      for (std::uint32_t i = phase.begin; i < phase.end; ++i)
        if (s.body[i].prim == Prim::Reduce) start_reduce(s.body[i], i);
      std::int64_t low = 0, high = s.outer < s.rank() ? extents[s.outer] : 0;
      if (s.block) {
        low = index[0] * s.block;
        high = std::min(high, low + s.block);
      }
      each(s.outer, s.rank(), low, high, run);
    }
  }
};

}  // namespace

void interpret(const KernelSpec& spec, std::byte* const* operands, const std::int64_t* ints,
               std::int64_t begin, std::int64_t end) {
  std::size_t rank = spec.rank();
  Interpreter in{spec, operands, spec.extents, {}, KernelSpec::AxisValues(rank, 0), {}, {}};
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (spec.extents[axis] == KernelSpec::kRuntime) in.extents[axis] = ints[axis];
  for (std::size_t o = 0; o < spec.operands.size(); ++o) {
    in.strides.push_back(spec.operands[o].strides);
    for (std::size_t axis = 0; axis < rank; ++axis)
      if (in.strides[o][axis] == KernelSpec::Operand::kRuntimeStride)
        in.strides[o][axis] = ints[rank + o * rank + axis];
  }
  in.values.resize(spec.body.size());
  in.best.resize(spec.body.size());
  if (spec.outer)
    in.each(0, spec.outer, begin, end, [&] { in.point(); });
  else if (begin < end)
    in.point();
}

}  // namespace snug
