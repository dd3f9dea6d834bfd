#include "kernel/kernel_spec.h"

#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "base/error.h"

namespace snug {

namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

bool is_unary_or_binary_same(Prim p) { return p >= Prim::Add && p <= Prim::Atanh; }
bool is_comparison(Prim p) { return p >= Prim::Lt && p <= Prim::Ne; }
bool is_arg_reduce(ReduceOp r) { return r == ReduceOp::ArgMax || r == ReduceOp::ArgMin; }

}  // namespace

std::string serialise(const KernelSpec& s) {
  std::string out;
  put<std::uint8_t>(out, s.rank());
  for (std::int64_t e : s.extents) put(out, e);
  put(out, s.outer);
  put(out, s.block);
  put<std::uint8_t>(out, s.strict);
  put<std::uint32_t>(out, s.operands.size());
  for (const KernelSpec::Operand& o : s.operands) {
    put(out, o.dtype);
    put<std::uint8_t>(out, o.write);
    put(out, o.may_alias);
    for (std::int64_t stride : o.strides) put(out, stride);
  }
  put<std::uint32_t>(out, s.body.size());
  for (const Instr& in : s.body) {
    put(out, in.prim);
    put(out, in.dtype);
    int n = operand_count(in.prim);
    put(out, n > 0 ? in.a : 0u);
    put(out, n > 1 ? in.b : 0u);
    put(out, n > 2 ? in.c : 0u);
    put(out, in.integer);
    put(out, in.number);
  }
  put<std::uint32_t>(out, s.phases.size());
  for (const KernelSpec::Phase& p : s.phases) {
    put(out, p.begin);
    put(out, p.end);
    put<std::uint8_t>(out, p.inner);
  }
  return out;
}

namespace {

std::string print_axes(std::span<const std::int64_t> values, std::int64_t unknown) {
  std::string out;
  for (std::int64_t v : values)
    out += (out.empty() ? "" : ", ") + (v == unknown ? std::string("?") : std::to_string(v));
  return out;
}

std::string print_instr(const Instr& in) {
  std::string out = name_of(in.prim);
  switch (in.prim) {
    case Prim::Const:
      return is_float(in.dtype) ? fmt::format("{}", in.number) : fmt::format("{}", in.integer);
    case Prim::Index:
    case Prim::Arg: return fmt::format("{} {}", out, in.integer);
    case Prim::Load: return fmt::format("load [{}]", in.integer);
    case Prim::Store: return fmt::format("store [{}] = %{}", in.integer, in.a);
    case Prim::Reduce:
      return fmt::format("{} %{}", name_of(static_cast<ReduceOp>(in.integer)), in.a);
    default: break;
  }
  if (in.prim == Prim::Philox) out += fmt::format(".{}", in.integer);
  const std::uint32_t operands[] = {in.a, in.b, in.c};
  for (int i = 0; i < operand_count(in.prim); ++i) out += fmt::format(" %{}", operands[i]);
  return out;
}

}  // namespace

std::string print(const KernelSpec& s) {
  std::span<const std::int64_t> extents = s.extents;
  std::string out = fmt::format("kernel {}: outer ({})", s.name.empty() ? "unnamed" : s.name,
                                print_axes(extents.first(s.outer), KernelSpec::kRuntime));
  if (s.rank() > s.outer)
    out += fmt::format(", inner ({})", print_axes(extents.subspan(s.outer), KernelSpec::kRuntime));
  if (s.block) out += fmt::format(", blocks of {}", s.block);
  if (s.strict) out += ", strict";
  out += '\n';
  for (std::size_t i = 0; i < s.operands.size(); ++i) {
    const KernelSpec::Operand& o = s.operands[i];
    out += fmt::format("  [{}] {} {} strides ({})", i, o.write ? "write" : "read", name_of(o.dtype),
                       print_axes(o.strides, KernelSpec::Operand::kRuntimeStride));
    if (o.may_alias >= 0) out += fmt::format(" may be [{}]", o.may_alias);
    out += '\n';
  }
  for (const KernelSpec::Phase& p : s.phases) {
    out += p.inner ? "  for each inner point\n" : "  once\n";
    for (std::uint32_t i = p.begin; i < p.end; ++i) {
      const Instr& in = s.body[i];
      if (in.prim == Prim::Store)
        out += fmt::format("    {}\n", print_instr(in));
      else
        out += fmt::format("    %{} = {} {}\n", i, short_name_of(in.dtype), print_instr(in));
    }
  }
  return out;
}

namespace {

/// The checks of one spec; every message is preceded by the listing's name.
struct Verifier {
  const KernelSpec& s;
  std::vector<std::uint32_t> phase_of;

  template <class... T>
  void require(bool ok, fmt::format_string<T...> format, T&&... args) const {
    if (ok) return;
    internal_error("kernel/kernel_spec.cpp",
                   fmt::format("{}\n{}", fmt::format(format, std::forward<T>(args)...), print(s)));
  }

  void loops() const {
    require(s.outer <= s.rank(), "{} outer axes of {}", s.outer, s.rank());
    for (std::int64_t e : s.extents) require(e >= 0 || e == KernelSpec::kRuntime, "extent {}", e);
    require(s.block >= 0, "block {}", s.block);
    require(!s.block || (s.outer >= 1 && s.rank() > s.outer), "blocks need an inner axis");
  }

  void operands() const {
    for (std::size_t i = 0; i < s.operands.size(); ++i) {
      const KernelSpec::Operand& o = s.operands[i];
      require(o.strides.size() == s.rank(), "operand {} has {} strides", i, o.strides.size());
      if (o.may_alias < 0) continue;
      require(o.write && static_cast<std::size_t>(o.may_alias) < i, "operand {} aliases {}", i,
              o.may_alias);
      const KernelSpec::Operand& read = s.operands[o.may_alias];
      require(!read.write && read.strides == o.strides, "operand {} aliases unlike {}", i,
              o.may_alias);
    }
  }

  void phases() {
    std::uint32_t at = 0;
    for (std::uint32_t p = 0; p < s.phases.size(); ++p) {
      require(s.phases[p].begin == at && s.phases[p].end >= at, "phase {} begins at {}", p,
              s.phases[p].begin);
      for (; at < s.phases[p].end && at < s.body.size(); ++at) phase_of.push_back(p);
    }
    require(at == s.body.size() && phase_of.size() == at, "phases end at {} of {}", at,
            s.body.size());
  }

  void visible(std::uint32_t i, std::uint32_t operand) const {
    require(operand < i, "%{} uses %{}", i, operand);
    bool reduce = s.body[operand].prim == Prim::Reduce;
    bool same = phase_of[operand] == phase_of[i];
    bool lasting = reduce || !s.phases[phase_of[operand]].inner;
    require(same ? !reduce : lasting, "%{} is not visible at %{}", operand, i);
    require(s.body[operand].prim != Prim::Store, "%{} uses a store", i);
  }

  void instr(std::uint32_t i) const {
    const Instr& in = s.body[i];
    const std::uint32_t operands[] = {in.a, in.b, in.c};
    int count = operand_count(in.prim);
    for (int k = 0; k < count; ++k) visible(i, operands[k]);
    auto type = [&](int k) { return s.body[operands[k]].dtype; };
    auto all_of = [&](DType t, int from = 0) {
      for (int k = from; k < count; ++k)
        if (type(k) != t) return false;
      return true;
    };
    bool ok = true;
    Prim p = in.prim;
    if (p == Prim::Arg) {
      ok = false;
    } else if (p == Prim::Index) {
      ok = in.dtype == DType::I64 && in.integer >= 0 &&
           in.integer < static_cast<std::int64_t>(s.rank());
    } else if (p == Prim::FlatIndex) {
      ok = in.dtype == DType::I64;
    } else if (p == Prim::Load || p == Prim::Store) {
      ok = in.integer >= 0 && in.integer < static_cast<std::int64_t>(s.operands.size());
      require(ok, "%{} has operand {}", i, in.integer);
      const KernelSpec::Operand& o = s.operands[in.integer];
      ok = o.dtype == in.dtype && (p == Prim::Load || (o.write && type(0) == in.dtype));
    } else if (p == Prim::Reduce) {
      ok = s.phases[phase_of[i]].inner && in.integer >= 0 &&
           in.integer <= static_cast<int>(ReduceOp::ArgMin);
      auto r = static_cast<ReduceOp>(in.integer);
      if (is_arg_reduce(r))
        ok = ok && in.dtype == DType::I64;
      else if (r == ReduceOp::Any || r == ReduceOp::All)
        ok = ok && in.dtype == DType::Bool && type(0) == DType::Bool;
      else
        ok = ok && type(0) == in.dtype;
    } else if (p == Prim::IsNan || p == Prim::IsInf) {
      ok = in.dtype == DType::Bool && is_float(type(0));
    } else if (is_unary_or_binary_same(p)) {
      ok = all_of(in.dtype) && (p < Prim::Exp || is_float(in.dtype));
    } else if (is_comparison(p)) {
      ok = in.dtype == DType::Bool && all_of(type(0));
    } else if (p == Prim::Shl || p == Prim::Shr) {
      ok = type(0) == in.dtype && is_discrete(in.dtype) && is_discrete(type(1));
    } else if (p >= Prim::And && p <= Prim::Not) {
      ok = all_of(in.dtype) && is_discrete(in.dtype);
    } else if (p == Prim::Select) {
      ok = type(0) == DType::Bool && all_of(in.dtype, 1);
    } else if (p == Prim::Philox) {
      ok = in.dtype == DType::U32 && all_of(DType::U64) && in.integer >= 0 && in.integer < 4;
    }
    require(ok, "%{} = {} {} is ill-formed", i, short_name_of(in.dtype), print_instr(in));
  }
};

}  // namespace

void verify(const KernelSpec& spec) {
  Verifier v{spec, {}};
  v.loops();
  v.operands();
  v.phases();
  for (std::uint32_t i = 0; i < spec.body.size(); ++i) v.instr(i);
}

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
